"use strict";
// The picture as the page holds it: the file's data comes in, lanes by id and what can be asked of them come out.

// The vocabularies, which stand in the data: outcomes with word and tone, waits with phrases, counts with labels.
let OUTCOMES = {},
  REASONS = {},
  COUNTS = [];

const model = { version: 0, length: 1, rows: [], rowOf: new Map(), groups: new Map(), into: new Map(), out: new Map() };

function load(data) {
  for (const name of ["title", "head", "leftOut", "cutChars", "notes"]) model[name] = data[name];
  model.runs = data.runs.map(([id, runId, name, question, outcome, error]) => {
    return { id, ref: "r" + id, runId, name, question, outcome, error };
  });
  model.steps = data.steps.map((step) => {
    return { fedBy: [], warnings: [], userMessages: [], ...step, ref: "s" + step.id, calls: [] };
  });
  model.calls = data.calls.map((call) => {
    model.steps[call.step].calls.push(call.id);
    return { waits: [], tries: [], facts: [], answer: call.result, piece: null, ...call, ref: "c" + call.id };
  });
  model.pieces = data.pieces.map(([id, step, kind, start, end, call]) => {
    if (call !== null) model.calls[call].piece = id;
    return { id, ref: "p" + id, step, kind, start, end, call };
  });
  unpack(data);
  model.arrows = data.arrows;
  for (const arrow of model.arrows) {
    enter(model.out, arrow[0], arrow);
    enter(model.into, arrow[2], arrow);
  }
  measure();
}

// The file has differences, and one text for a million deltas (`Picture.data`).
function unpack({ growth: [pieces, seqs, times, lengths, text], marks: [markSeqs, markTimes, kinds, refs, causes, names] }) {
  const summed = (steps) => {
    for (let at = 1; at < steps.length; at++) steps[at] += steps[at - 1];
    return steps;
  };
  model.growth = [summed(pieces), summed(seqs), summed(times)];
  model.text = text;
  model.ends = summed(new Uint32Array(lengths));
  summed(markSeqs);
  summed(markTimes);
  model.marks = refs.map((ref, at) => [markSeqs[at], markTimes[at], names[kinds[at]], ref, causes[at].map((by) => at - by)]);
}

const deltaText = (at) => model.text.slice(at ? model.ends[at - 1] : 0, model.ends[at]);

function enter(map, key, value) {
  const known = map.get(key);
  if (known) known.push(value);
  else map.set(key, [value]);
}

function measure() {
  let length = 1;
  for (const list of [model.steps, model.calls, model.pieces])
    for (const lane of list) length = Math.max(length, lane.end ?? lane.start);
  if (model.marks.length) length = Math.max(length, model.marks[model.marks.length - 1][1]);
  if (model.growth[2].length) length = Math.max(length, model.growth[2][model.growth[2].length - 1]);
  model.length = length;
  model.version += 1;
  measureScale();
  layRows();
}

// The deltas of each piece: positions in the growth, piece by piece.
function slots() {
  if (model.slots) return model.slots;
  const ids = model.growth[0],
    starts = new Uint32Array(model.pieces.length + 2);
  for (let i = 0; i < ids.length; i++) starts[ids[i] + 2] += 1;
  for (let id = 2; id < starts.length; id++) starts[id] += starts[id - 1];
  const order = new Uint32Array(ids.length);
  for (let i = 0; i < ids.length; i++) order[starts[ids[i] + 1]++] = i;
  model.slots = { starts, order };
  return model.slots;
}

const isStep = (lane) => lane.ref[0] === "s";
const isCall = (lane) => lane.ref[0] === "c";
const isRun = (lane) => lane.ref[0] === "r";
const isGroup = (lane) => lane.ref[0] === "g";
const laneOf = (ref) =>
  ref[0] === "g"
    ? model.groups.get(ref)
    : { r: model.runs, s: model.steps, c: model.calls, p: model.pieces }[ref[0]]?.[+ref.slice(1)];
const outcomeOf = (lane) => lane.outcome ?? "running";
const endOf = (lane) => lane.end ?? model.length;
const wordOf = (lane) => (OUTCOMES[outcomeOf(lane)] ?? [outcomeOf(lane), "odd"])[0];
const moodOf = (lane) => (OUTCOMES[outcomeOf(lane)] ?? ["", "odd"])[1];
const isElsewhere = (call) => call.outcome === "server" || call.outcome === "left_alone";
const reasonOf = (reason) => REASONS[reason] ?? reason.replaceAll("_", " ");
const stepName = (step) => `Step ${step.number + 1}`;
const nameOf = (lane) =>
  isStep(lane) ? stepName(lane) : isRun(lane) ? "You" : isGroup(lane) ? groupName(lane) : lane.name || "(no name)";
const labelOf = (call) => [nameOf(call), call.argument].filter(Boolean).join(" ");

// What is known of a lane at the moment that is looked at.
function phaseOf(lane) {
  if (state.at === null || lane.start === undefined) return null;
  return state.at < lane.start ? "before" : state.at < endOf(lane) ? "during" : null;
}
function thenOf(lane) {
  const phase = phaseOf(lane);
  if (phase === null) return lane;
  const started = !isCall(lane) || (lane.tries.length && lane.tries[0][1] <= state.at),
    during = started ? "running" : state.at < (lane.whole ?? 0) ? "written" : "waiting";
  return { ref: lane.ref, outcome: phase === "before" ? "before" : during };
}

function textOf(piece, until = Infinity) {
  const { starts, order } = slots(),
    [, , times] = model.growth;
  let text = "";
  for (let slot = starts[piece.id]; slot < starts[piece.id + 1] && times[order[slot]] <= until; slot++)
    text += deltaText(order[slot]);
  return text;
}

const hasTexts = (piece) => slots().starts[piece.id] < slots().starts[piece.id + 1];

function argumentsOf(call, until = Infinity) {
  const piece = call.piece === null ? null : model.pieces[call.piece];
  if (piece && hasTexts(piece) && (until < (call.whole ?? Infinity) || call.arguments === undefined))
    return textOf(piece, until);
  return until >= (call.whole ?? call.start) ? (call.arguments ?? "") : "";
}

function haystackOf(lane) {
  const parts = [nameOf(lane), wordOf(lane), lane.error, lane.model, lane.wire, lane.callId, lane.problem, lane.result];
  if (isCall(lane)) parts.push(argumentsOf(lane));
  else {
    for (const [, code, text] of lane.warnings) parts.push(code, text);
    for (const piece of piecesOf(lane)) if (piece.kind !== "call") parts.push((piece.haystack ??= textOf(piece)));
  }
  return parts.filter(Boolean).join("\n").toLowerCase();
}

function piecesOf(step) {
  if (!model.byStep) {
    model.byStep = new Map();
    for (const piece of model.pieces) enter(model.byStep, piece.step, piece);
  }
  return model.byStep.get(step.id) ?? [];
}

// Each moment belongs to the first of these that was going on.
const KINDS = [
  ["stream", "model answers"],
  ["tool", "tools run"],
  ["approval", "waits for approval"],
  ["retry", "before another attempt"],
  ["wait", "calls wait"],
  ["request", "model is asked"],
  ["other", "between steps"],
];

function spent(steps, from, to) {
  const turns = [];
  const during = (kind, start, end) => {
    if (start !== undefined && end > start) turns.push([start, 1, kind], [end, -1, kind]);
  };
  for (const step of steps) {
    if (step.asksModel !== false) during(5, step.start, step.streamStart ?? endOf(step));
    during(0, step.streamStart, step.streamEnd ?? endOf(step));
    for (const id of step.calls) {
      const call = model.calls[id];
      call.tries.forEach(([, start, end], at) => {
        during(1, start, end ?? endOf(call));
        if (at) during(3, call.tries[at - 1][2] ?? start, start);
      });
      for (const [reason, start, end] of call.waits) during(reason === "approval" ? 2 : 4, start, end ?? endOf(call));
    }
  }
  turns.sort((one, other) => one[0] - other[0]);
  const open = KINDS.map(() => 0),
    sums = KINDS.map(() => 0);
  let at = from;
  for (const [time, change, kind] of turns) {
    const current = open.findIndex((count) => count > 0);
    sums[current < 0 ? 6 : current] += Math.max(0, Math.min(time, to) - at);
    at = Math.max(at, time);
    open[kind] += change;
  }
  sums[6] += Math.max(0, to - at);
  return sums;
}

function tokensOf(steps) {
  const total = {};
  for (const step of steps)
    for (const [name, count] of Object.entries(step.usage ?? {})) total[name] = (total[name] ?? 0) + count;
  return total;
}

// -- words --

const figures = new Intl.NumberFormat("en");
const number = (count) => (count < 1000 ? String(count) : figures.format(count));
function duration(micros) {
  if (micros === undefined || micros === null) return "–";
  if (micros < 1000) return `${Math.max(0, Math.round(micros))} µs`;
  if (micros < 9950) return `${(micros / 1000).toFixed(1)} ms`;
  if (micros < 999500) return `${Math.round(micros / 1000)} ms`;
  if (micros < 60e6) return `${(micros / 1e6).toFixed(2)} s`;
  const seconds = Math.round(micros / 1e6);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
const moment = (micros) => (micros < 60e6 ? `${(micros / 1e6).toFixed(3)} s` : duration(micros));

// What a row shows by bars and shapes alone, in words.
function inWords(lane) {
  if (isRun(lane) || phaseOf(lane) === "before") return "";
  const word = wordOf(thenOf(lane)),
    began = `began at ${moment(lane.start)}, took ${duration(endOf(lane) - lane.start)}`;
  if (!isCall(lane)) return `, ${word}, ${began}`;
  const waits = lane.waits.map(
    ([reason, start, end]) => `, waited ${duration((end ?? endOf(lane)) - start)} for ${reasonOf(reason)}`,
  );
  return `, ${word}, ${began}${waits.join("")}${waitedOn(lane) ? `, ${waitedOn(lane)}` : ""}`;
}

// -- elements: text is always a text node --

// Characters that turn the direction of writing around, or are seen as nothing: arguments that show "exe.txt" must not
// be "txt.exe". They are shown as codes, as `streamtools.text.printable` does for the terminal, but for tabs.
const HIDDEN = /[^\P{C}\n\t]|[^\P{Z} ]/gu;
function shown(text) {
  return text.replace(HIDDEN, (character) => {
    const code = character.codePointAt(0);
    if (code === 13) return "\\r";
    if (code >= 0xd800 && code <= 0xdfff) return "\ufffd"; // half a character, where a text was cut
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  });
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, shown(String(value)));
  }
  const kept = children.filter((child) => child !== null && child !== undefined);
  element.append(...kept.map((child) => (typeof child === "string" ? shown(child) : child)));
  return element;
}
const byId = (id) => document.getElementById(id);

const SHAPES = {
  ok: ["M6 .5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z", "M3.4 6.2 5.3 8.1 8.7 4.2"],
  failed: ["M1.6.6h8.8a1 1 0 0 1 1 1v8.8a1 1 0 0 1-1 1H1.6a1 1 0 0 1-1-1V1.6a1 1 0 0 1 1-1z", "M4 4l4 4M8 4 4 8"],
  invalid: ["M6 .2 11.8 6 6 11.8.2 6z", "M6 3.2v3.2M6 8.5v.2"],
  unknown_tool: ["M6 .6 11.6 11H.4z", "M4.9 5.6c0-1.6 2.3-1.5 2.3-.1 0 .9-1.1.9-1.1 1.9M6.1 9v.2"],
  truncated: ["M.6.6h7.2L5.4 4l3 3.6L6 11.4H.6z", ""],
  timed_out: ["M6 .5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11z", "M6 3v3l2.2 1.6"],
  denied: ["M3.7.5h4.6l3.2 3.2v4.6l-3.2 3.2H3.7L.5 8.3V3.7z", "M3.2 6h5.6"],
  cancelled: ["", "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM2.6 9.4l6.8-6.8"],
  skipped: ["M.8 1.2 6 6 .8 10.8zM6 1.2 11.2 6 6 10.8z", ""],
  unknown: ["", "M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1zM4.6 4.8c0-1.9 2.9-1.8 2.9-.1 0 1.1-1.4 1.1-1.4 2.2M6.1 8.8v.2"],
  running: ["", "M6 1a5 5 0 0 1 5 5M6 11a5 5 0 0 1-5-5"],
};
SHAPES.complete = SHAPES.ok;
SHAPES.error = SHAPES.failed;
SHAPES.abandoned = SHAPES.cancelled;
SHAPES.server = ["M6 1.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.6z", ""];
SHAPES.written = SHAPES.waiting = SHAPES.running;
SHAPES.before = ["", "M3 6h.01M6 6h.01M9 6h.01"];
SHAPES.left_alone = ["", "M1.5 1.5h9v9h-9z"];
const SHAPE_OF_TONE = { good: "ok", bad: "failed", held: "denied", mute: "skipped", odd: "unknown", live: "running" };

const SVG = "http://www.w3.org/2000/svg";
function draw(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
function shape(outcome) {
  const svg = draw("svg", { viewBox: "0 0 12 12", class: "shape", "aria-hidden": "true" });
  const [filled, lines] = SHAPES[outcome] ?? SHAPES[SHAPE_OF_TONE[OUTCOMES[outcome]?.[1] ?? "odd"]];
  if (filled) svg.append(draw("path", { d: filled, class: "filled" }));
  if (lines) svg.append(draw("path", { d: lines, class: filled ? "cut" : "line" }));
  return svg;
}
const badge = (lane) => make("span", { class: `badge ${moodOf(lane)}` }, shape(outcomeOf(lane)), wordOf(lane));
