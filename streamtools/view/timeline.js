// The timeline: an axis, and a row for each step and call; those in sight alone exist.

const state = {
  from: 0,
  to: 1,
  at: null,
  selected: null,
  allArrows: null,
  query: "",
  hits: null,
  playing: false,
  tab: "timeline",
};
const narrow = matchMedia("(max-width: 700px)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let rowHeight = 30,
  pending = false;
const pool = new Map();

const now = () => state.at ?? model.length;
const share = (time) => (time - state.from) / (state.to - state.from);

function request() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    render();
  });
}

function fit() {
  state.from = 0;
  state.to = model.length * 1.02;
  request();
}

function zoom(factor, around = 0.5) {
  const middle = state.from + (state.to - state.from) * around;
  const span = Math.min(model.length * 1.02, Math.max(50, (state.to - state.from) * factor));
  state.from = Math.max(0, Math.min(middle - span * around, model.length * 1.02 - span));
  state.to = state.from + span;
  request();
}

function pan(by) {
  const span = state.to - state.from;
  state.from = Math.max(0, Math.min(state.from + by * span, model.length * 1.02 - span));
  state.to = state.from + span;
  request();
}

function plot() {
  const left = narrow.matches ? 0 : byId("stream-name").offsetWidth; // as wide as the labels
  const pad = narrow.matches ? 12 : 16;
  const width = byId("scroller").clientWidth;
  return { left: left + pad, width: Math.max(40, width - left - 2 * pad), pad };
}

function render() {
  if (byId("timeline").hidden) return;
  const scroller = byId("scroller");
  rowHeight = parseFloat(getComputedStyle(scroller).getPropertyValue("--row"));
  byId("space").style.height = `${model.rows.length * rowHeight}px`;
  const area = plot();
  renderAxis(area);
  renderRows(scroller, area);
  renderStream(area);
  renderArrows(scroller, area);
  renderPlayer();
}

// -- the axis --

function renderAxis(area) {
  const axis = byId("axis");
  axis.replaceChildren();
  const span = state.to - state.from,
    most = Math.max(2, Math.floor(area.width / 90));
  const rough = span / most,
    power = 10 ** Math.floor(Math.log10(rough));
  const every = [1, 2, 5, 10].map((by) => by * power).find((step) => step >= rough);
  for (let time = Math.ceil(state.from / every) * every; time <= state.to; time += every) {
    const tick = make("span", { class: "tick" }, tickText(time, every));
    const x = area.left + share(time) * area.width;
    tick.style.left = `${x}px`;
    if (x > area.left + area.width - 30) tick.classList.add("last");
    axis.append(tick);
  }
}

function tickText(time, every) {
  if (time === 0) return "0";
  if (every >= 1e6)
    return time >= 60e6
      ? `${Math.floor(time / 60e6)}:${String(Math.round((time % 60e6) / 1e6)).padStart(2, "0")}`
      : `${Math.round(time / 1e6)} s`;
  if (every >= 1e4) return `${(time / 1e6).toFixed(every >= 1e5 ? 1 : 2)} s`;
  return every >= 1e3 ? `${Math.round(time / 1e3)} ms` : `${(time / 1e3).toFixed(every >= 100 ? 1 : 2)} ms`;
}

// -- rows --

function renderRows(scroller, area) {
  const first = Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - 3);
  const last = Math.min(model.rows.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / rowHeight) + 3);
  const wanted = new Set();
  for (let index = first; index < last; index++) wanted.add(model.rows[index].ref);
  for (const [ref, row] of pool) {
    if (!wanted.has(ref)) {
      row.remove();
      pool.delete(ref);
    }
  }
  let before = null;
  for (let index = first; index < last; index++) {
    const lane = model.rows[index];
    const row = pool.get(lane.ref) ?? make("div", { role: "option", id: "row-" + lane.ref });
    pool.set(lane.ref, row);
    fillRow(row, lane, index, area);
    if (row.parentNode === null) byId("space").insertBefore(row, before?.nextSibling ?? byId("space").firstChild);
    before = row;
  }
  if (state.selected && pool.has(state.selected))
    scroller.setAttribute("aria-activedescendant", "row-" + state.selected);
  else scroller.removeAttribute("aria-activedescendant");
}

function fillRow(row, lane, index, area) {
  const hit = state.hits === null || state.hits.has(lane.ref);
  row.className = `row ${isStep(lane) ? "step" : "call"} ${moodOf(lane)}${hit ? "" : " faint"}${state.selected === lane.ref ? " selected" : ""}`;
  row.style.transform = `translateY(${index * rowHeight}px)`;
  row.setAttribute("aria-selected", String(state.selected === lane.ref));
  row.setAttribute("aria-setsize", String(model.rows.length));
  row.setAttribute("aria-posinset", String(index + 1));
  row.setAttribute("aria-label", shown(sentence(lane)));
  const label = make("div", { class: "label" }, shape(outcomeOf(lane)), make("span", { class: "name" }, nameOf(lane)));
  const aside = isStep(lane) ? (lane.model ?? (lane.asksModel === false ? "no model" : "")) : wordOf(lane);
  if (aside) label.append(make("span", { class: "word" }, aside));
  const track = make("div", { class: "track" });
  track.style.left = `${area.left}px`;
  track.style.width = `${area.width}px`;
  for (const [kind, start, end, title] of isStep(lane) ? stepBars(lane) : callBars(lane))
    addBar(track, kind, start, end, title, area);
  addCaption(track, lane, area);
  row.replaceChildren(label, track);
}

function stepBars(step) {
  const end = endOf(step),
    bars = [["whole", step.start, end, `${stepName(step)}: ${duration(end - step.start)}`]];
  if (step.asksModel !== false)
    bars.push(["request", step.start, step.streamStart ?? end, "waits for the model's first chunk"]);
  if (step.streamStart !== undefined)
    bars.push(["streaming", step.streamStart, step.streamEnd ?? end, "the model answers"]);
  return bars;
}

function callBars(call) {
  const end = endOf(call),
    bars = [["line", call.start, end, ""]];
  if (call.piece !== null)
    bars.push(["arguments", call.start, call.whole ?? model.pieces[call.piece].end ?? end, "its arguments arrive"]);
  for (const [reason, start, until] of call.waits) {
    bars.push([
      reason === "approval" ? "wait approval" : "wait",
      start,
      until ?? end,
      `waits for ${reasonOf(reason)}: ${duration((until ?? end) - start)}`,
    ]);
  }
  call.tries.forEach(([n, start, until, error], at) => {
    const failed = error !== null || at < call.tries.length - 1;
    bars.push([
      failed && at < call.tries.length - 1 ? "try failed" : `try ${moodOf(call)}`,
      start,
      until ?? end,
      `attempt ${n}: ${duration((until ?? end) - start)}${error ? `, ${error}` : ""}`,
    ]);
  });
  return bars;
}

function addBar(track, kind, start, end, title, area) {
  if (end < state.from || start > state.to) return;
  const left = Math.max(-4, share(start) * area.width),
    right = Math.min(area.width + 4, share(end) * area.width);
  const bar = make("span", { class: "seg " + kind, title: title || null });
  bar.style.left = `${left}px`;
  bar.style.width = `${Math.max(kind === "line" || kind === "whole" ? 1 : 2, right - left)}px`;
  track.append(bar);
}

function addCaption(track, lane, area) {
  const end = endOf(lane),
    text = isStep(lane) ? stepCaption(lane) : callCaption(lane);
  if (!text || end < state.from || lane.start > state.to) return;
  const caption = make("span", { class: "caption" }, text);
  const right = share(end) * area.width,
    left = share(lane.start) * area.width,
    wide = text.length * 7 + 16;
  if (right + wide <= area.width) caption.style.left = `${right + 8}px`;
  else if (left - wide >= 0) caption.style.right = `${area.width - left + 8}px`;
  else {
    caption.style.right = `${Math.max(4, area.width - right + 4)}px`;
    caption.classList.add("inside");
  }
  track.append(caption);
}

function stepCaption(step) {
  const took = duration(endOf(step) - step.start);
  return step.usage && !narrow.matches
    ? `${took} · ${number(step.usage.input_tokens ?? 0)} → ${number(step.usage.output_tokens ?? 0)} tokens`
    : took;
}

function callCaption(call) {
  const run = call.tries.reduce((sum, [, start, end]) => sum + (end ?? endOf(call)) - start, 0);
  const tries = call.tries.length > 1 ? `${call.tries.length} attempts · ` : "";
  return call.tries.length ? tries + duration(run) : call.outcome === "server" ? "" : call.outcome ? "did not run" : "";
}
