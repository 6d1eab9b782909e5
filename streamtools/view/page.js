// The page's frame: tabs, search, keys, pointer and theme.

function renderAll() {
  renderHead();
  byId("idle").hidden = state.folding && !scale.folds.length;
  if (state.tab === "events") renderEvents();
  request();
}

// -- tabs --

const TABS = ["timeline", "events"];
function show(tab, focus = false) {
  state.tab = tab;
  for (const name of TABS) {
    const button = byId(name + "-tab");
    button.setAttribute("aria-selected", String(name === tab));
    button.tabIndex = name === tab ? 0 : -1;
    byId(name).hidden = name !== tab;
  }
  document.body.dataset.tab = tab;
  if (focus) byId(tab + "-tab").focus();
  renderAll();
}

for (const name of TABS) {
  byId(name + "-tab").addEventListener("click", () => show(name));
  byId(name + "-tab").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    show(TABS[(TABS.indexOf(name) + by + TABS.length) % TABS.length], true);
    event.preventDefault();
    event.stopPropagation();
  });
}

// -- search --

let typing = 0;
byId("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, 120);
});
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") step(event.shiftKey ? -1 : 1, (lane) => state.hits?.has(lane.ref));
  if (event.key === "Escape") {
    byId("search").value = "";
    search();
    byId("search").blur();
  }
});

function search() {
  state.query = byId("search").value.trim().toLowerCase();
  state.hits = state.query
    ? new Set(
        lanes()
          .filter((lane) => haystackOf(lane).includes(state.query))
          .map((lane) => lane.ref),
      )
    : null;
  layRows();
  model.version += 1;
  byId("found").textContent = state.hits ? `${number(state.hits.size)} found` : "";
  if (state.hits?.size) revealRow([...state.hits][0]);
  renderAll();
}

// -- moving about --

const lanes = () => model.steps.flatMap((step) => [step, ...step.calls.map((id) => model.calls[id])]);

// Among the rows; or, for what is looked for, among all steps and calls, folded ones too.
function step(by, wanted) {
  const among = wanted ? lanes() : model.rows.filter((row) => row.kind !== "user");
  let index = among.findIndex((one) => one.ref === state.selected);
  if (index < 0 && state.selected && !wanted) index = model.rowOf.get(state.selected) ?? -1;
  if (index < 0 && by < 0) index = among.length;
  for (index += by; index >= 0 && index < among.length; index += by)
    if (!wanted || wanted(among[index])) return select(among[index].ref);
}

const isTrouble = (lane) => lane.outcome && !["good", "live"].includes(moodOf(lane));

function toggle(ref) {
  const lane = ref ? laneOf(ref) : null;
  if (!lane || isRun(lane)) return;
  const set = isGroup(lane) || isCall(lane) ? state.open : state.closed,
    key = isCall(lane) ? [...model.groups.values()].find((group) => group.calls.includes(lane))?.ref : ref;
  if (set.has(key)) set.delete(key);
  else set.add(key);
  layRows();
  if (isCall(lane) && key && !set.has(key)) state.selected = key;
  showDetails();
  request();
}

function foldSteps() {
  const folds = state.closed.size === 0;
  state.closed = new Set(folds ? model.steps.map((step) => step.ref) : []);
  byId("fold").setAttribute("aria-pressed", String(folds));
  layRows();
  request();
}

function foldIdle() {
  state.folding = !state.folding;
  byId("idle").setAttribute("aria-pressed", String(state.folding));
  const [from, to] = [timeAt(0), timeAt(1)];
  const whole = state.from === 0 && state.to >= scale.length * ROOM - 1;
  model.version += 1;
  measureScale();
  if (!whole) look(fold(from), fold(to));
  request();
}

const KEYS = [
  ["ArrowDown j", "next step or call", () => step(1)],
  ["ArrowUp k", "the one before", () => step(-1)],
  ["n", "next that did not succeed", () => step(1, isTrouble)],
  ["p", "the one before that did not succeed", () => step(-1, isTrouble)],
  ["ArrowRight", "a moment later", () => moveTo(now() + (state.to - state.from) / 100)],
  ["ArrowLeft", "a moment earlier", () => moveTo(now() - (state.to - state.from) / 100)],
  ["End", "the end", () => moveTo(Infinity)],
  ["Home", "the beginning", () => moveTo(0)],
  ["+ =", "zoom in", () => zoom(0.6)],
  ["- −", "zoom out", () => zoom(1 / 0.6)],
  ["Enter", "zoom to the row", () => state.selected && fitRow(state.selected)],
  ["0", "the whole run", fit],
  ["o", "open or fold the row", () => toggle(state.selected)],
  ["s", "fold all steps", foldSteps],
  ["i", "fold idle time", foldIdle],
  ["[", "pan left", () => pan(-0.25)],
  ["]", "pan right", () => pan(0.25)],
  [" ", "play or pause", () => play()],
  ["a", "arrows", () => toggleArrows()],
  ["/", "search", () => byId("search").focus()],
  ["1", "conversation", () => show("timeline")],
  ["2", "events", () => show("events")],
  ["t", "light or dark", () => nextTheme()],
  ["Escape", "back to the run", () => select(null)],
  ["?", "these keys", () => toggleKeys()],
];

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const within = event.target;
  if (
    within.matches("input[type=search]") ||
    (within.matches("button, input, pre") &&
      [" ", "Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key))
  )
    return;
  if (state.tab !== "timeline" && /^(Arrow|Home|End|Enter| )/.test(event.key)) return;
  const found = KEYS.find(([keys]) => (keys === " " ? event.key === " " : keys.split(" ").includes(event.key)));
  if (!found) return;
  event.preventDefault();
  found[2]();
});

function toggleArrows() {
  state.arrows = !state.arrows;
  byId("arrows").setAttribute("aria-pressed", String(state.arrows));
  request();
}

function toggleKeys() {
  const box = byId("keys");
  box.hidden = !box.hidden;
  byId("help").setAttribute("aria-expanded", String(!box.hidden));
  const shown = { " ": "space", ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "esc" };
  box.replaceChildren(
    make(
      "dl",
      {},
      ...KEYS.flatMap(([keys, text]) => [
        make("dt", {}, ...(keys === " " ? [" "] : keys.split(" ")).map((key) => make("kbd", {}, shown[key] ?? key))),
        make("dd", {}, text),
      ]),
    ),
  );
  request();
}

// -- theme --

const THEMES = [
  ["", "as the system", "◐"],
  ["light", "light", "○"],
  ["dark", "dark", "●"],
];
function nextTheme() {
  const at = (THEMES.findIndex(([name]) => name === (document.documentElement.dataset.theme ?? "")) + 1) % 3;
  setTheme(at);
}
function setTheme(at) {
  const [name, word, sign] = THEMES[at];
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  byId("theme").textContent = sign;
  byId("theme").setAttribute("aria-label", `Theme: ${word}`);
  request();
}

// -- the pointer --

byId("space").addEventListener("click", (event) => {
  const ref = event.target.closest(".row")?.dataset.ref;
  if (!ref || performance.now() - draggedAt < 50) return;
  const caret = event.target.closest(".caret:not(.none)");
  if (caret || ref[0] === "g") toggle(ref);
  if (!caret) select(ref, { reveal: false });
  // At once: rows that are made anew between two clicks would take the second one away.
  render();
});
byId("space").addEventListener("dblclick", (event) => {
  const ref = event.target.closest(".row")?.dataset.ref;
  if (ref) fitRow(ref);
});
byId("timeline").addEventListener("pointermove", (event) => {
  const area = plot(),
    at = (event.clientX - byId("scroller").getBoundingClientRect().left - area.left) / area.width;
  pointed = at >= 0 && at <= 1 ? at : null;
});
byId("timeline").addEventListener("pointerleave", () => (pointed = null));
byId("scroller").addEventListener("scroll", request, { passive: true });
byId("timeline").addEventListener(
  "wheel",
  (event) => {
    const area = plot(),
      around = (event.clientX - byId("scroller").getBoundingClientRect().left - area.left) / area.width;
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 300), Math.max(0, Math.min(1, around)));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / area.width);
    else return;
    event.preventDefault();
  },
  { passive: false },
);

follow(byId("stream"), (start) => {
  const scrub = (at) => moveTo(timeAt(Math.max(0, Math.min(1, at))));
  scrub(start);
  return { move: scrub };
});
byId("scrub").addEventListener("input", (event) => moveTo(timeAt(event.target.value / 10000)));
byId("play").addEventListener("click", play);
byId("arrows").addEventListener("click", toggleArrows);
byId("zoom-in").addEventListener("click", () => zoom(0.6));
byId("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
byId("zoom-fit").addEventListener("click", fit);
byId("idle").addEventListener("click", foldIdle);
byId("fold").addEventListener("click", foldSteps);
byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", toggleKeys);
addEventListener("resize", request);
narrow.addEventListener("change", request);
addEventListener("hashchange", () => {
  const ref = location.hash.slice(1);
  if (ref !== state.selected && isChoice(ref)) select(ref);
});
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));

// On paper there is nothing to scroll: every row is made.
function print(begins) {
  printing = begins;
  document.body.classList.toggle("printed", begins);
  render();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", request);

const LEGEND = [
  ["request", "asked"],
  ["text", "text"],
  ["reasoning", "reasoning"],
  ["arguments", "arguments"],
  ["wait", "wait"],
  ["try good", "tool runs"],
  ["try bad", "failed"],
];
byId("legend").replaceChildren(
  ...LEGEND.map(([kind, text]) => make("li", {}, make("i", { class: "swatch " + kind }), text)),
);

const given = JSON.parse(byId("data").textContent);
({ outcomes: OUTCOMES, waits: REASONS, counts: COUNTS } = given.words);
const asked = new URLSearchParams(location.search).get("theme");
load(given);
fit();
setTheme(
  Math.max(
    0,
    THEMES.findIndex(([name]) => name === (asked ?? "")),
  ),
);
document.body.dataset.tab = "timeline";
renderAll();
const isChoice = (ref) => /^[rscg]\d+$/.test(ref) && laneOf(ref) !== undefined;
if (isChoice(location.hash.slice(1))) select(location.hash.slice(1));
requestAnimationFrame(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
