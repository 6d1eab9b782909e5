// The equivalent table of steps and calls, and the list of every event.

const PAGE_ROWS = 200;
let tableRows = PAGE_ROWS;

function renderTable() {
  const lanes = model.rows.filter((lane) => state.hits === null || state.hits.has(lane.ref));
  const head = ["What", "Outcome", "Began", "Took", "Waited for", "Tries", "Asked for by", "Tokens", "Why"];
  const body = make("tbody", {}, ...lanes.slice(0, tableRows).map(tableRow));
  const table = make(
    "table",
    { class: "lanes" },
    make(
      "caption",
      {},
      `${number(model.steps.length)} steps and ${number(model.calls.length)} calls in the order in which they began${state.hits ? `; ${number(lanes.length)} match the search` : ""}`,
    ),
    make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
    body,
  );
  const more =
    lanes.length > tableRows
      ? make(
          "button",
          {
            type: "button",
            class: "more",
            onclick: () => {
              tableRows += PAGE_ROWS;
              renderTable();
            },
          },
          `Show ${number(Math.min(PAGE_ROWS, lanes.length - tableRows))} more of ${number(lanes.length - tableRows)}`,
        )
      : null;
  byId("table").replaceChildren(...[table, more].filter(Boolean));
}

function tableRow(lane) {
  const step = isStep(lane) ? lane : model.steps[lane.step],
    calls = isCall(lane);
  const waits = calls
    ? lane.waits
        .map(([reason, start, end]) => `${reasonOf(reason)} ${duration((end ?? endOf(lane)) - start)}`)
        .join(", ")
    : "";
  const usage =
    !calls && lane.usage ? `${number(lane.usage.input_tokens ?? 0)} → ${number(lane.usage.output_tokens ?? 0)}` : "";
  const cell = (text, kind = "") => make("td", { class: kind, dir: "auto" }, text);
  return make(
    "tr",
    {
      "data-ref": lane.ref,
      class: `${calls ? "of-call" : "of-step"}${state.selected === lane.ref ? " selected" : ""}`,
    },
    make(
      "th",
      { scope: "row" },
      make("button", { type: "button", class: "link", onclick: () => select(lane.ref) }, nameOf(lane)),
    ),
    make("td", {}, badge(lane)),
    cell(moment(lane.start), "figure"),
    cell(duration(endOf(lane) - lane.start), "figure"),
    cell(waits),
    cell(calls ? String(lane.tries.length) : "", "figure"),
    cell(
      calls
        ? stepName(step)
        : lane.fedBy
            .map((id) => nameOf(model.calls[id]))
            .slice(0, 5)
            .join(", "),
    ),
    cell(usage, "figure"),
    cell((lane.error ?? "").slice(0, 200)),
  );
}

function markTable() {
  for (const row of byId("table").querySelectorAll("tr[data-ref]"))
    row.classList.toggle("selected", row.dataset.ref === state.selected);
}

// -- events: only the rows in sight exist --

let order = null;
function eventOrder() {
  if (order && order.marks === model.marks.length && order.growth === model.growth[0].length) return order.rows;
  const rows = [],
    [, seqs, times] = model.growth;
  let mark = 0,
    delta = 0;
  while (mark < model.marks.length || delta < seqs.length) {
    // both are in order; of one moment, by their numbers
    const next = model.marks[mark];
    const takesMark =
      next !== undefined &&
      (delta >= seqs.length || next[1] < times[delta] || (next[1] === times[delta] && next[0] < seqs[delta]));
    rows.push(takesMark ? mark++ : -1 - delta++);
  }
  order = { marks: model.marks.length, growth: seqs.length, rows };
  return rows;
}

const EVENT_ROW = 28;
function renderEvents() {
  const pane = byId("events"),
    rows = eventOrder();
  if (!pane.firstChild) {
    pane.append(
      make(
        "div",
        { class: "event head", "aria-hidden": "true" },
        ...["seq", "time", "event", "of", ""].map((text) => make("span", {}, text)),
      ),
      make(
        "div",
        {
          class: "event-scroller",
          role: "list",
          tabindex: "0",
          "aria-label": "Events in order",
          onscroll: renderEvents,
        },
        make("div", { class: "event-space" }),
      ),
    );
  }
  const scroller = pane.lastChild,
    space = scroller.firstChild;
  space.style.height = `${rows.length * EVENT_ROW}px`;
  const first = Math.max(0, Math.floor(scroller.scrollTop / EVENT_ROW) - 5),
    last = Math.min(rows.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / EVENT_ROW) + 5);
  space.replaceChildren();
  for (let index = first; index < last; index++) space.append(eventRow(rows[index], index, rows.length));
}

function eventRow(which, index, count) {
  const isMark = which >= 0,
    [pieces, seqs, times, texts] = model.growth;
  const [seq, time, kind, ref, causes] = isMark
    ? model.marks[which]
    : [seqs[-1 - which], times[-1 - which], "", "p" + pieces[-1 - which], []];
  const piece = ref[0] === "p" ? laneOf(ref) : null;
  const home = piece ? (piece.call !== null ? "c" + piece.call : "s" + piece.step) : ref;
  const word =
    kind ||
    { text: "TextDelta", reasoning: "ReasoningDelta", refusal: "RefusalDelta", call: "ToolCallDelta" }[piece.kind];
  const note = isMark
    ? causes.length
      ? `because of ${causes
          .slice(0, 6)
          .map((at) => model.marks[at][0])
          .join(", ")}${causes.length > 6 ? ", …" : ""}`
      : ""
    : texts[-1 - which];
  const row = make(
    "div",
    {
      class: `event ${isMark ? "boundary" : "delta"}`,
      role: "listitem",
      "aria-setsize": String(count),
      "aria-posinset": String(index + 1),
    },
    make("span", { class: "figure" }, String(seq)),
    make("span", { class: "figure" }, moment(time)),
    make("span", {}, word),
    model.rowOf.has(home)
      ? make(
          "button",
          {
            type: "button",
            class: "link",
            onclick: () => {
              moveTo(time);
              select(home);
            },
          },
          nameOf(laneOf(home)),
        )
      : make("span", {}, ""),
    make("bdi", { class: "note" }, note),
  );
  row.style.transform = `translateY(${index * EVENT_ROW}px)`;
  return row;
}
