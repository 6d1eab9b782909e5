// The whole run in a strip: a window of it is in the timeline, and can be dragged; so can a part of the bars.

function renderOverview(area) {
  const canvas = byId("overview"),
    key = [area.width, model.version, scale.folds.length, css("--ink")].join();
  const frame = byId("window"),
    most = scale.length * ROOM;
  frame.style.left = `${(state.from / most) * 100}%`;
  frame.style.width = `${((state.to - state.from) / most) * 100}%`;
  frame.classList.toggle("whole", state.to - state.from >= most - 1);
  if (key === renderOverview.key) return;
  renderOverview.key = key;
  const { pen, high } = penOf(canvas, area.width),
    x = (time) => (fold(time) / most) * area.width,
    bar = (colour, start, end, y, tall) => {
      pen.fillStyle = css(colour);
      pen.fillRect(x(start), y, Math.max(1, x(end) - x(start)), tall);
    };
  const near = most / area.width,
    strip = (colour, spans, y, tall) => {
      for (const [start, end] of joined(spans, near)) bar(colour, start, end, y, tall);
    };
  for (const [start, end] of scale.folds) bar("--hair", start, end, 0, high);
  const asked = model.steps.filter((step) => step.asksModel !== false);
  strip(
    "--request",
    asked.map((step) => [step.start, step.streamStart ?? endOf(step)]),
    5,
    5,
  );
  const answered = asked.filter((step) => step.streamStart !== undefined);
  strip(
    "--text-piece",
    answered.map((step) => [step.streamStart, step.streamEnd ?? endOf(step)]),
    5,
    5,
  );
  const tries = (calls) => calls.flatMap((call) => call.tries.map(([, start, end]) => [start, end ?? endOf(call)]));
  strip(
    "--wait",
    model.calls.flatMap((call) => call.waits.map(([, start, end]) => [start, end ?? endOf(call)])),
    23,
    2,
  );
  strip("--good", tries(model.calls), 13, 7);
  const bad = model.calls.filter((call) => moodOf(call) === "bad");
  strip(
    "--bad",
    bad
      .map((call) => call.tries.at(-1)?.slice(1, 3) ?? [endOf(call), endOf(call)])
      .map(([start, end], at) => [start, end ?? endOf(bad[at])]),
    16,
    6,
  );
}

function penOf(canvas, wide) {
  const ratio = devicePixelRatio || 1,
    high = canvas.clientHeight;
  canvas.width = Math.round(wide * ratio);
  canvas.height = Math.round(high * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, wide, high);
  return { pen, high };
}

// Follows the pointer from a place until it is let go; places are shares of the element's width.
function follow(element, begin) {
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const place = (one) => {
      const box = element.getBoundingClientRect();
      return (one.clientX - box.left) / box.width;
    };
    const moves = begin(place(event), event);
    if (!moves) return;
    element.setPointerCapture(event.pointerId);
    const move = (one) => moves.move(place(one), one);
    const end = (one) => {
      element.removeEventListener("pointermove", move);
      moves.end?.(place(one), one);
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", end, { once: true });
  });
}

// Inside the window it moves, at an edge it changes, elsewhere a new one begins.
follow(byId("strip"), (start, event) => {
  const most = scale.length * ROOM,
    [from, to] = [state.from / most, state.to / most],
    edge = 7 / byId("strip").clientWidth,
    whole = to - from > 0.995;
  event.preventDefault();
  const [onLeft, onRight] = [Math.abs(start - from) < edge, Math.abs(start - to) < edge];
  if (onLeft || onRight) {
    const other = onLeft ? to : from;
    return { move: (at) => look(Math.min(at, other) * most, Math.max(at, other) * most) };
  }
  if (start > from && start < to && !whole) {
    return { move: (at) => look((from + at - start) * most, (to + at - start) * most) };
  }
  let dragged = false;
  return {
    move: (at) => {
      dragged ||= Math.abs(at - start) > edge / 2;
      if (dragged) look(Math.min(at, start) * most, Math.max(at, start) * most);
    },
    end: () => {
      const half = (to - from) / 2;
      if (!dragged && !whole) look((start - half) * most, (start + half) * most);
    },
  };
});
byId("strip").addEventListener("dblclick", fit);

// -- a part of the bars, or of the axis --

let draggedAt = -1e9; // a click follows where a drag ends
function zoomByDragging(element) {
  follow(element, (_, event) => {
    const area = plot(),
      place = (one) => (one.clientX - byId("scroller").getBoundingClientRect().left - area.left) / area.width,
      start = place(event);
    if (event.pointerType === "touch" || start < 0 || start > 1 || event.offsetX > element.clientWidth) return null;
    let part = null;
    return {
      move: (_, one) => {
        const at = Math.max(0, Math.min(1, place(one)));
        if (part === null && Math.abs(at - start) * area.width < 6) return;
        part = [Math.min(at, start), Math.max(at, start)];
        markPart(part, area);
      },
      end: () => {
        markPart(null, area);
        if (part === null) return;
        draggedAt = performance.now();
        const span = state.to - state.from;
        look(state.from + part[0] * span, state.from + part[1] * span);
      },
    };
  });
}

function markPart(part, area) {
  const mark = byId("pick");
  mark.hidden = part === null;
  if (part === null) return;
  mark.style.left = `${area.left + part[0] * area.width}px`;
  mark.style.width = `${(part[1] - part[0]) * area.width}px`;
}
zoomByDragging(byId("scroller"));
zoomByDragging(byId("axis"));
