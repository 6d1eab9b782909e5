// The conversation beside time: each row's text, its duration and its bars; rows in sight alone exist.

const narrow = matchMedia("(max-width: 700px)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let pending = false,
  printing = false,
  laid = "";
const pool = new Map();

function request() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => {
    pending = false;
    render();
  });
}

// Where the bars are: as wide on the axis, in the overview, in the stream and under the slider.
function plot() {
  const scroller = byId("scroller"),
    wide = scroller.clientWidth,
    style = getComputedStyle(scroller),
    size = parseFloat(style.fontSize);
  const figures = narrow.matches ? 0 : Math.round(size * 5.4),
    label = narrow.matches
      ? wide
      : Math.round(Math.min(Math.max(wide * (wide < 1100 ? 0.56 : 0.5), 300), size * 74)) - figures;
  const left = narrow.matches ? 16 : label + figures + 12,
    area = { left, width: Math.max(40, wide - left - (narrow.matches ? 16 : 20)), label, figures };
  const layout = [wide, size, narrow.matches].join();
  if (layout === laid) return area;
  laid = layout;
  places.row = parseFloat(style.getPropertyValue("--row"));
  places.more = parseFloat(style.getPropertyValue("--more"));
  places.bars = narrow.matches ? 14 : 0; // there they are below the text
  places.letters = Math.max(20, (label - 60) / (size * 0.535));
  layHeights();
  for (const [name, value] of Object.entries(area)) byId("timeline").style.setProperty(`--${name}`, `${value}px`);
  return area;
}

function render() {
  if (byId("timeline").hidden) return;
  const scroller = byId("scroller"),
    area = plot();
  byId("space").style.height = `${places.tops.at(-1)}px`;
  const window = [state.from, state.to, area.width, model.version, document.documentElement.dataset.theme].join();
  if (window !== render.window) {
    render.window = window;
    renderAxis(area);
    renderOverview(area);
    renderStream(area);
  }
  renderRows(scroller, area, window);
  renderOver(scroller, area);
  renderPlayer();
}

// -- rows --

function renderRows(scroller, area, window) {
  const rows = model.rows;
  const first = printing ? 0 : Math.max(0, rowAt(scroller.scrollTop) - 3);
  const last = printing ? rows.length : Math.min(rows.length, rowAt(scroller.scrollTop + scroller.clientHeight) + 4);
  const wanted = new Set();
  for (let index = first; index < last; index++) wanted.add(rows[index].key);
  for (const [key, element] of pool) {
    if (!wanted.has(key)) {
      element.remove();
      pool.delete(key);
    }
  }
  let before = null;
  for (let index = first; index < last; index++) {
    const row = rows[index];
    const element = pool.get(row.key) ?? make("div", { role: "treeitem", id: "row-" + row.key, "data-ref": row.ref });
    pool.set(row.key, element);
    fillRow(element, row, index, area, window);
    if (element.parentNode === null)
      byId("space").insertBefore(element, before === null ? byId("space").firstChild : before.nextSibling);
    before = element;
  }
  const chosen = state.selected === null ? undefined : rows[model.rowOf.get(state.selected)]?.key;
  if (chosen !== undefined && pool.has(chosen)) scroller.setAttribute("aria-activedescendant", "row-" + chosen);
  else scroller.removeAttribute("aria-activedescendant");
}

function fillRow(element, row, index, area, window) {
  const { lane } = row,
    hit = state.hits === null || state.hits.has(row.ref) || (isGroup(lane) && isOpen(lane)),
    selected = state.selected === row.ref,
    top = places.tops[index];
  const phases = isGroup(lane) ? groupPhase(lane) : phaseOf(lane);
  const signature = [
    window,
    index,
    top,
    hit,
    selected,
    phases,
    isFolded(row),
    isStep(lane) && phases === "during" ? now() : "",
  ];
  if (element.signature === signature.join("\n")) return;
  element.signature = signature.join("\n");
  element.className = `row ${row.kind} level-${row.level ?? 1}${hit ? "" : " faint"}${selected ? " selected" : ""}`;
  if (row.last) element.classList.add("final");
  element.style.transform = `translateY(${top}px)`;
  element.style.height = `${places.tops[index + 1] - top}px`;
  const attributes = {
    "aria-selected": selected,
    "aria-setsize": model.rows.length,
    "aria-posinset": index + 1,
    "aria-level": row.level ?? 1,
  };
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  const folded = isFolded(row);
  if (folded === null) element.removeAttribute("aria-expanded");
  else element.setAttribute("aria-expanded", String(!folded));
  const then = thenOf(lane),
    sign = row.kind === "run" || row.kind === "user" ? make("span", { class: "you" }) : shape(outcomeOf(then));
  const label = make(
    "div",
    { class: `label ${row.kind === "run" || row.kind === "user" ? "" : moodOf(then)}` },
    make("span", { class: folded === null ? "caret none" : `caret ${folded ? "" : "open"}` }),
    sign,
    make("div", { class: "texts" }, ...textOfRow(row)),
  );
  const track = trackOf(row, area);
  if (row.kind === "call" && phases === null) {
    // What has no room beside the bar is said before it.
    const beside = track.querySelector(".caption"),
      rest = [
        beside?.textContent.includes("attempts") ? null : attemptsOf(lane),
        beside?.matches(".critical") ? null : waitedOn(lane),
      ].filter(Boolean);
    if (rest.length) label.querySelector(".first").append(make("span", { class: "critical" }, rest.join(", ")));
  }
  const words = make("span", { class: "hidden" }, row.text ? "" : inWords(lane));
  element.replaceChildren(label, words, make("div", { class: "took", "aria-hidden": "true" }, tookOf(row)), track);
}

function groupPhase(group) {
  if (phaseOf(group) === null) return null;
  let [begun, ended] = [0, 0];
  for (const call of group.calls) {
    begun += call.start <= state.at;
    ended += endOf(call) <= state.at;
  }
  return `${begun} ${ended}`;
}

// True or false for a row that holds others.
function isFolded(row) {
  if (row.kind === "group") return !isOpen(row.lane);
  return row.kind === "step" && row.lane.calls.length ? state.closed.has(row.ref) : null;
}

function tookOf(row) {
  const { lane } = row,
    phase = row.kind === "user" ? "before" : phaseOf(lane);
  if (phase !== null || row.kind === "run") return "";
  if (row.kind !== "call") return duration(endOf(lane) - lane.start);
  return lane.tries.length ? duration(ranFor(lane)) : "";
}

const ranFor = (call) => call.tries.reduce((sum, [, start, end]) => sum + (end ?? endOf(call)) - start, 0);

// -- bars --

function trackOf(row, area) {
  const track = make("div", { class: "track", "aria-hidden": "true" });
  if (row.kind === "user" || row.kind === "run") return track;
  const { lane } = row,
    bars = row.kind === "step" ? stepBars(lane) : row.kind === "group" ? groupBars(lane, area) : callBars(lane);
  for (const bar of bars) addBar(track, ...bar);
  if (row.kind === "call") addCaption(track, row, area);
  return track;
}

function addBar(track, kind, start, end, title) {
  const [left, right] = [share(start), share(end)];
  if (right < 0 || left > 1) return;
  const bar = make("span", { class: "seg " + kind, title: title || null });
  bar.style.left = `${Math.max(-0.01, left) * 100}%`;
  bar.style.width = `${(Math.min(1.01, right) - Math.max(-0.01, left)) * 100}%`;
  track.append(bar);
}

function stepBars(step) {
  const end = endOf(step),
    bars = [["whole", step.start, end, `${stepName(step)}: ${duration(end - step.start)}`]];
  if (step.asksModel !== false) bars.push(["request", step.start, step.streamStart ?? end, "the model is asked"]);
  let latest = null;
  const least = (state.to - state.from) / 1000;
  for (const piece of piecesOf(step)) {
    const kind = piece.kind === "call" ? "arguments" : piece.kind,
      until = piece.end ?? step.streamEnd ?? end;
    if (latest && latest[0] === kind && piece.start - latest[2] <= least) latest[2] = Math.max(latest[2], until);
    else
      bars.push((latest = [kind, piece.start, until, `the model writes ${kind === "arguments" ? "arguments" : kind}`]));
  }
  if (step.streamStart !== undefined && !latest)
    bars.push(["text", step.streamStart, step.streamEnd ?? end, "the model writes"]);
  return bars;
}

function callBars(call) {
  const end = endOf(call),
    bars = [["line", call.start, end, ""]];
  if (call.piece !== null)
    bars.push(["arguments", call.start, writtenBy(call) ?? model.pieces[call.piece].end ?? end, "its arguments arrive"]);
  for (const [reason, start, until] of call.waits)
    bars.push([
      reason === "approval" ? "wait approval" : "wait",
      start,
      until ?? end,
      `waits for ${reasonOf(reason)}: ${duration((until ?? end) - start)}`,
    ]);
  call.tries.forEach(([n, start, until, error], at) => {
    const again = at < call.tries.length - 1;
    bars.push([
      again ? "try failed" : `try ${moodOf(call)}`,
      start,
      until ?? end,
      `attempt ${n}: ${duration((until ?? end) - start)}${error ? `, ${error}` : ""}`,
    ]);
  });
  return bars;
}

// A call that was tried was written by then, whenever the wire said so.
const writtenBy = (call) => (call.tries[0]?.[1] < call.whole ? call.tries[0][1] : call.whole);

// All the runs of a group in one line, each place on the screen once; those that failed are marked below.
function groupBars(group, area) {
  const bars = [["line", group.start, endOf(group), ""]];
  for (const [kind, calls] of [
    ["arguments", group.calls],
    ["try good", group.calls],
    ["try bad low", group.calls.filter((call) => moodOf(call) === "bad")],
  ]) {
    const spans = calls.flatMap((call) =>
      kind === "arguments"
        ? [[call.start, writtenBy(call) ?? call.start]]
        : call.tries.map(([, start, end]) => [start, end ?? endOf(call)]),
    );
    for (const [start, end] of joined(spans, (state.to - state.from) / area.width)) bars.push([kind, start, end, ""]);
  }
  return bars;
}

function joined(spans, near) {
  const whole = [];
  for (const [start, end] of spans.sort((one, other) => one[0] - other[0])) {
    const last = whole.at(-1);
    if (last && start <= last[1] + near) last[1] = Math.max(last[1], end);
    else whole.push([start, end]);
  }
  return whole;
}

// -- captions: beside the bar, or nowhere --

function addCaption(track, row, area) {
  const call = row.lane;
  if (phaseOf(call) !== null) return;
  const [left, right] = [share(call.start) * area.width, share(endOf(call)) * area.width];
  if (right < 0 || left > area.width) return;
  const letter = parseFloat(getComputedStyle(byId("scroller")).fontSize) * 0.47;
  for (const text of captionsOf(call, row.level)) {
    const wide = text.length * letter + 18,
      after = Math.max(0, right) + wide <= area.width;
    if (!after && left - wide < 0) continue;
    const caption = make("span", { class: `caption${/(step|run) waited/.test(text) ? " critical" : ""}` }, text);
    if (after) caption.style.left = `calc(${Math.max(0, share(endOf(call))) * 100}% + 8px)`;
    else caption.style.right = `calc(${(1 - share(call.start)) * 100}% + 8px)`;
    track.append(caption);
    return;
  }
}

// The fullest first: the first that has room is taken.
function captionsOf(call, level) {
  if (call.end === undefined) return [];
  if (!call.tries.length) return [isElsewhere(call) ? OUTCOMES[call.outcome][0] : "did not run"];
  const waited = longestWait(call),
    wait = waited === null ? null : `waited ${duration(waited[1])} for ${reasonOf(waited[0])}`,
    tries = attemptsOf(call),
    step = model.steps[call.step],
    early = level === 2 && call.end <= (step.streamEnd ?? 0) ? "done while the model wrote" : null;
  const all = [wait, tries, waitedOn(call) ?? early].filter(Boolean);
  return [all.join(", "), ...(waitedOn(call) ? [waitedOn(call), "next step waited"] : []), ...all];
}

const attemptsOf = (call) => (call.tries.length > 1 ? `${call.tries.length} attempts` : null);

function longestWait(call) {
  if (!call.waits.length) return null;
  const waits = call.waits.map(([reason, start, end]) => [reason, (end ?? endOf(call)) - start]);
  waits.sort((one, other) => other[1] - one[1]);
  return waits.length && waits[0][1] >= Math.max(1000, (endOf(call) - call.start) / 20) ? waits[0] : null;
}

// Says it of a call on the critical path.
function waitedOn(call) {
  const step = model.steps[call.step];
  if (step.waitedFor !== call.ref) return null;
  return model.steps[step.id + 1] ? "the next step waited for this one" : "the end of the run waited for this one";
}
