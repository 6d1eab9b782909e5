// The rows that are read: question, steps, calls with what they answered; equal calls in one row.

const LEAST_GROUP = 5; // calls of one tool, or failures for one reason

function layRows() {
  const rows = [];
  model.groups = new Map();
  model.rowOf = new Map();
  const push = (lane, kind, more = {}) => {
    if (!model.rowOf.has(lane.ref)) model.rowOf.set(lane.ref, rows.length);
    rows.push({ ref: lane.ref, key: more.key ?? lane.ref, lane, kind, ...more });
  };
  let run = null;
  for (const step of model.steps) {
    if (step.run !== run) {
      run = step.run;
      Object.assign(model.runs[run], { start: step.start, end: model.length });
      push(model.runs[run], "run", { again: run > 0 });
    }
    step.userMessages.forEach((text, at) => push(step, "user", { key: `u${step.id}-${at}`, text }));
    push(step, "step", { last: step === model.steps.at(-1) });
    const closed = state.closed.has(step.ref);
    for (const entry of grouped(step)) {
      if (isCall(entry)) {
        if (closed) model.rowOf.set(entry.ref, model.rowOf.get(step.ref));
        else push(entry, "call", { level: 2 });
        continue;
      }
      model.groups.set(entry.ref, entry);
      const open = isOpen(entry);
      if (!closed) push(entry, "group", { level: 2 });
      for (const call of entry.calls) {
        if (open && !closed) push(call, "call", { level: 3 });
        else model.rowOf.set(call.ref, model.rowOf.get(closed ? step.ref : entry.ref));
      }
    }
  }
  model.rows = rows;
  layHeights();
}

const isOpen = (group) =>
  state.open.has(group.ref) || (state.hits !== null && group.calls.some((call) => state.hits.has(call.ref)));
const troubled = (call) =>
  call.outcome !== undefined && call.outcome !== "ok" && !isElsewhere(call) ? call : null;

// Calls of a step in order, many of one tool as a group; then many that failed for one reason, whatever their tools.
function grouped(step) {
  if (step.calls.length < LEAST_GROUP) return step.calls.map((id) => model.calls[id]);
  const calls = step.calls.map((id) => model.calls[id]),
    byName = new Map(),
    byEnd = new Map();
  for (const call of calls) enter(byName, call.name, call);
  const endOfCall = (call) => `${call.outcome}\n${call.reason ?? ""}`;
  for (const call of calls)
    if (byName.get(call.name).length < LEAST_GROUP && troubled(call)) enter(byEnd, endOfCall(call), call);
  const seen = new Set(),
    entries = [];
  for (const call of calls) {
    let alike = byName.get(call.name);
    if (alike.length < LEAST_GROUP) alike = byEnd.get(endOfCall(call)) ?? [];
    if (alike.length < LEAST_GROUP) entries.push(call);
    else if (!seen.has(alike)) {
      seen.add(alike);
      entries.push(groupOf(alike));
    }
  }
  return entries;
}

function groupOf(calls) {
  let start = Infinity, // a call of a function takes no 100,000 arguments
    end = -Infinity;
  for (const call of calls) [start, end] = [Math.min(start, call.start), Math.max(end, call.end ?? Infinity)];
  if (end === Infinity) end = undefined;
  const worst = ["bad", "held", "odd", "mute", "live"].find((tone) => calls.some((call) => moodOf(call) === tone));
  const outcome = calls.find((call) => moodOf(call) === (worst ?? "good")).outcome;
  return { ref: `g${calls[0].id}`, step: calls[0].step, calls, start, end, outcome };
}

function groupName(group) {
  const names = new Set(group.calls.map((call) => nameOf(call)));
  return names.size === 1 ? `${[...names][0]} ×${number(group.calls.length)}` : `${number(group.calls.length)} calls`;
}

// [text, tone, calls] for each end of a group's calls, those that succeeded first.
function groupWords(group) {
  const ends = new Map();
  for (const call of group.calls) {
    const then = thenOf(call),
      reason = then === call && troubled(call) ? call.reason : null;
    enter(ends, `${wordOf(then)}${reason ? `: ${reason}` : ""}\n${moodOf(then)}`, call);
  }
  const words = [...ends].map(([key, calls]) => {
    const cut = key.lastIndexOf("\n");
    return [`${number(calls.length)} ${key.slice(0, cut)}`, key.slice(cut + 1), calls];
  });
  return words.sort((one, other) => (other[1] === "good") - (one[1] === "good") || other[2].length - one[2].length);
}

// -- heights: a row has one line or more, so places are summed --

const places = { tops: [0], row: 32, more: 20, bars: 0, letters: 60 };

function layHeights() {
  const tops = new Float64Array(model.rows.length + 1);
  model.rows.forEach((row, index) => {
    row.lines = linesOf(row);
    tops[index + 1] = tops[index] + places.row + (row.lines - 1) * places.more + places.bars;
  });
  places.tops = tops;
}

function linesOf(row) {
  const lines = (text, most, taken = 0) =>
    text ? Math.min(most, Math.ceil((text.length + taken) / places.letters)) : 0;
  if (row.kind === "run") return Math.max(1, lines(row.lane.question, 2, 6));
  if (row.kind === "user") return Math.max(1, lines(row.text, 2, 6));
  if (row.kind === "call") return leadOf(row.lane) ? 2 : 1;
  if (row.kind === "step") return 1 + lines(textOfStep(row), row.last ? 4 : 1) + (row.lane.error ? 1 : 0);
  return 1;
}

function textOfStep(row, until = Infinity) {
  if (!row.last && until === Infinity) return row.lane.opening ?? "";
  return spoken(row.lane, until);
}

function spoken(step, until = Infinity) {
  const pieces = piecesOf(step).filter((piece) => piece.kind !== "call" && piece.kind !== "reasoning");
  let text = "";
  for (const piece of pieces) if (text.length < 2000) text += textOf(piece, until);
  return text.replace(/\s+/g, " ").trim() || (until === Infinity ? (step.opening ?? "") : "");
}

function rowAt(y) {
  let low = 0,
    high = Math.max(0, model.rows.length - 1);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (places.tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

// -- what a row says --

const quiet = (text) => make("span", { class: "word" }, text);
const foreign = (text, kind) => make("bdi", { class: kind }, text);

function textOfRow(row) {
  const { lane } = row;
  if (row.kind === "run")
    return [
      make(
        "p",
        { class: "first" },
        make("b", { class: "name" }, row.again ? "Resumed" : "You"),
        lane.question ? foreign(lane.question, "said") : quiet(row.again ? lane.runId : "the question is not recorded"),
      ),
    ];
  if (row.kind === "user")
    return [make("p", { class: "first" }, make("b", { class: "name" }, "You"), foreign(row.text, "said"))];
  if (row.kind === "step") return textOfStepRow(row);
  if (row.kind === "group")
    return [
      make(
        "p",
        { class: "first" },
        foreign(groupName(lane), "name"),
        ...groupWords(lane).map(([text, tone]) => make("bdi", { class: `end ${tone}` }, text)),
      ),
    ];
  return textOfCall(lane);
}

function textOfStepRow(row) {
  const { lane } = row,
    phase = phaseOf(lane),
    notes = [lane.model ?? (lane.asksModel === false ? "no model was asked" : null)];
  if (lane.usage && phase === null)
    notes.push(`${number(lane.usage.input_tokens ?? 0)} → ${number(lane.usage.output_tokens ?? 0)} tokens`);
  if (state.closed.has(lane.ref) && lane.calls.length)
    notes.push(`${number(lane.calls.length)} ${lane.calls.length === 1 ? "call" : "calls"} folded`);
  if (phase !== null) notes.push(wordOf(thenOf(lane)));
  else if (moodOf(lane) !== "good") notes.push(wordOf(lane));
  const text = phase === "before" ? "" : textOfStep(row, phase === null ? Infinity : now());
  return [
    make(
      "p",
      { class: "first" },
      make("b", { class: "name" }, stepName(lane)),
      quiet(notes.filter(Boolean).join(" · ")),
    ),
    text ? make("p", { class: `spoken${row.last ? " last" : ""}` }, foreign(text.slice(0, 900), "")) : null,
    lane.error && phase === null ? make("p", { class: "aside" }, foreign(lane.error.split("\n")[0], "bad")) : null,
  ].filter(Boolean);
}

// Long arguments of one tool differ at their ends: paths, addresses, numbers.
function withoutMiddle(text) {
  const most = Math.max(16, Math.round(places.letters * 0.42)),
    half = Math.floor(most / 2);
  return text.length <= most ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

function textOfCall(call) {
  const phase = phaseOf(call),
    known = phase === null || now() >= (call.whole ?? Infinity);
  const first = make("p", { class: "first" }, foreign(nameOf(call), "name"));
  if (known && call.argument) first.append(foreign(withoutMiddle(call.argument), "argument"));
  if (phase !== null) first.append(make("span", { class: "word" }, wordOf(thenOf(call))));
  else if (call.outcome === "ok" && call.answer)
    first.append(make("span", { class: "arrow-word" }, "→"), foreign(call.answer, "answer"));
  else {
    first.append(make("span", { class: `outcome ${moodOf(call)}` }, wordOf(call)));
    if (call.reason) first.append(foreign(call.reason, `reason-word ${moodOf(call)}`));
  }
  const lead = phase === null ? leadOf(call) : null;
  if (!lead) return [first];
  return [first, make("p", { class: "aside" }, lead, foreign(`“${call.toModel.split("\n")[0]}”`, ""))];
}

// The model was told if the next step was fed by this call.
function leadOf(call) {
  if (!call.toModel || !troubled(call)) return null;
  return model.steps[call.step + 1]?.fedBy.includes(call.id) ? "The model was told: " : "For the model: ";
}
