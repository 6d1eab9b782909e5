// The page's frame: headline and summary, tabs, search, keys, theme, and patches of a live run.

function renderSummary() {
  const bad = troubles().length;
  const running = model.steps.some((step) => step.outcome === undefined);
  const title = shown(model.title || "Run");
  byId("title").textContent = title;
  document.title = `${title} · streamtools`;
  const verdict = running
    ? model.live === "open"
      ? "running"
      : "without an end"
    : bad
      ? `${number(bad)} did not succeed`
      : "all succeeded";
  byId("verdict").replaceChildren(
    make(
      "span",
      { class: `badge ${running ? "live" : bad ? "bad" : "good"}` },
      shape(running ? "running" : bad ? "failed" : "ok"),
      verdict,
    ),
  );
  const tokens = tokensOf(model.steps),
    counts = new Map();
  for (const call of model.calls) counts.set(outcomeOf(call), (counts.get(outcomeOf(call)) ?? 0) + 1);
  const card = (title, ...children) => make("div", { class: "card" }, make("h2", {}, title), ...children);
  const outcomes = make(
    "ul",
    { class: "outcomes" },
    ...[...counts].map(([outcome, count]) => {
      const lane = { outcome: outcome === "running" ? undefined : outcome };
      return make(
        "li",
        {},
        make("span", { class: `badge ${moodOf(lane)}` }, shape(outcome), `${number(count)} ${wordOf(lane)}`),
      );
    }),
  );
  byId("summary").replaceChildren(
    card(
      "Took",
      make("p", { class: "big" }, duration(model.length)),
      make("p", { class: "dim" }, `${number(model.steps.length)} ${model.steps.length === 1 ? "step" : "steps"}`),
    ),
    card(
      "Tokens",
      make(
        "p",
        { class: "big" },
        tokens.input_tokens === undefined && tokens.output_tokens === undefined
          ? "–"
          : `${number(tokens.input_tokens ?? 0)} → ${number(tokens.output_tokens ?? 0)}`,
      ),
      make(
        "p",
        { class: "dim" },
        tokens.cached_input_tokens ? `in → out, ${number(tokens.cached_input_tokens)} cached` : "in → out",
      ),
    ),
    card("Calls", make("p", { class: "big" }, number(model.calls.length)), outcomes),
    make("div", { class: "card wide" }, make("h2", {}, "Where the time went"), split(model.steps, 0, model.length)),
  );
  const notes = [...model.notes];
  if (model.leftOut) notes.push(`${number(model.leftOut)} later events are not shown: the picture was full.`);
  if (model.cutChars) notes.push(`${number(model.cutChars)} characters of texts are not shown: the picture was full.`);
  byId("notes").hidden = !notes.length;
  byId("notes").textContent = shown(notes.slice(0, 5).join(" "));
}

function renderAll() {
  renderSummary();
  if (state.tab === "table") renderTable();
  if (state.tab === "events") renderEvents();
  request();
}

// -- tabs --

const TABS = ["timeline", "table", "events"];
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
    show(TABS[(TABS.indexOf(name) + by + 3) % 3], true);
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
    ? new Set(model.rows.filter((lane) => haystackOf(lane).includes(state.query)).map((lane) => lane.ref))
    : null;
  byId("found").textContent = state.hits ? `${number(state.hits.size)} found` : "";
  if (state.hits?.size) revealRow([...state.hits][0]);
  renderAll();
}

// -- moving about --

function step(by, wanted = () => true) {
  let index = state.selected ? (model.rowOf.get(state.selected) ?? -1) : by > 0 ? -1 : model.rows.length;
  for (index += by; index >= 0 && index < model.rows.length; index += by) {
    if (wanted(model.rows[index])) return select(model.rows[index].ref);
  }
}

const KEYS = [
  ["ArrowDown j", "next step or call", () => step(1)],
  ["ArrowUp k", "the one before", () => step(-1)],
  ["n", "next that did not succeed", () => step(1, (lane) => lane.outcome && moodOf(lane) !== "good")],
  ["p", "the one before that did not succeed", () => step(-1, (lane) => lane.outcome && moodOf(lane) !== "good")],
  ["ArrowRight", "a moment later", () => moveTo(now() + (state.to - state.from) / 100)],
  ["ArrowLeft", "a moment earlier", () => moveTo(now() - (state.to - state.from) / 100)],
  ["End", "the end", () => moveTo(Infinity)],
  ["Home", "the beginning", () => moveTo(0)],
  ["+ =", "zoom in", () => zoom(0.6)],
  ["- −", "zoom out", () => zoom(1 / 0.6)],
  ["0", "the whole run", fit],
  ["[", "pan left", () => pan(-0.25)],
  ["]", "pan right", () => pan(0.25)],
  [" ", "play or pause", () => play()],
  ["a", "all arrows", () => toggleArrows()],
  ["/", "search", () => byId("search").focus()],
  ["1", "timeline", () => show("timeline")],
  ["2", "table", () => show("table")],
  ["3", "events", () => show("events")],
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
  if (state.tab !== "timeline" && /^(Arrow|Home|End| )/.test(event.key)) return;
  const found = KEYS.find(([keys]) => (keys === " " ? event.key === " " : keys.split(" ").includes(event.key)));
  if (!found) return;
  event.preventDefault();
  found[2]();
});

function toggleArrows() {
  state.allArrows = !(state.allArrows ?? model.arrows.length <= 40);
  byId("arrows").setAttribute("aria-pressed", String(state.allArrows));
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
  const row = event.target.closest(".row");
  if (row) select(row.id.slice(4), { reveal: false });
});
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

const stream = byId("stream");
const scrubTo = (event) => {
  const area = plot(),
    x = event.clientX - stream.getBoundingClientRect().left - area.left;
  moveTo(state.from + Math.max(0, Math.min(1, x / area.width)) * (state.to - state.from));
};
stream.addEventListener("pointerdown", (event) => {
  stream.setPointerCapture(event.pointerId);
  scrubTo(event);
});
stream.addEventListener("pointermove", (event) => {
  if (stream.hasPointerCapture(event.pointerId)) scrubTo(event);
});
byId("scrub").addEventListener("input", (event) =>
  moveTo(+event.target.value >= 1000 ? Infinity : (event.target.value / 1000) * model.length),
);
byId("play").addEventListener("click", play);
byId("arrows").addEventListener("click", toggleArrows);
byId("zoom-in").addEventListener("click", () => zoom(0.6));
byId("zoom-out").addEventListener("click", () => zoom(1 / 0.6));
byId("zoom-fit").addEventListener("click", fit);
byId("theme").addEventListener("click", nextTheme);
byId("help").addEventListener("click", toggleKeys);
addEventListener("resize", renderAll);
narrow.addEventListener("change", renderAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", request);

// -- a live run: the server sends the lanes that have changed --

function listen(url) {
  const source = new EventSource(url),
    say = (text) => {
      byId("status").textContent = text;
    };
  model.live = "open";
  source.addEventListener("patch", (event) => {
    const patch = JSON.parse(event.data),
      whole = state.to >= model.length;
    if (patch.whole) reset();
    apply(patch);
    byId("arrows").setAttribute("aria-pressed", String(state.allArrows ?? model.arrows.length <= 40));
    if (whole) state.to = model.length * 1.02;
    renderAll();
    if (state.selected === null || laneOf(state.selected).outcome === undefined) showDetails();
  });
  source.addEventListener("end", () => {
    source.close();
    model.live = "over";
    showDetails();
    renderAll();
    say("The run has ended.");
  });
  source.addEventListener("error", () => {
    if (model.live === "open" && source.readyState === EventSource.CLOSED) say("The connection to the run is lost.");
  });
}

const LEGEND = [
  ["text", "text"],
  ["reasoning", "reasoning"],
  ["arguments", "arguments"],
  ["wait", "wait"],
  ["try good", "tool runs"],
];
byId("legend").replaceChildren(
  ...LEGEND.map(([kind, text]) => make("li", {}, make("i", { class: "swatch " + kind }), text)),
);

const given = JSON.parse(byId("data").textContent);
({ outcomes: OUTCOMES, waits: REASONS, counts: COUNTS } = given.words);
const asked = new URLSearchParams(location.search).get("theme");
apply(given);
state.to = model.length * 1.02;
setTheme(
  Math.max(
    0,
    THEMES.findIndex(([name]) => name === (asked ?? "")),
  ),
);
byId("arrows").setAttribute("aria-pressed", String(model.arrows.length <= 40));
document.body.dataset.tab = "timeline";
showDetails();
renderAll();
const chosenAtFirst = location.hash.slice(1);
if (model.rowOf.has(chosenAtFirst)) select(chosenAtFirst);
if (given.live) listen(given.live);
requestAnimationFrame(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
