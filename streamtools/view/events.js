// The list of every event: only the rows in sight exist.

let order = null;
function eventOrder() {
  if (order) return order;
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
  order = rows;
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
    [pieces, seqs, times] = model.growth;
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
    : deltaText(-1 - which);
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
    laneOf(home)?.start !== undefined
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
