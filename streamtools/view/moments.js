// Over and under the rows: the stream's lane, the arrows, and the moment that is looked at.

// -- the stream's own lane --

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function renderStream(area) {
  const canvas = byId("stream"),
    scale = devicePixelRatio || 1;
  const wide = byId("scroller").clientWidth,
    high = canvas.clientHeight;
  if (canvas.width !== Math.round(wide * scale) || canvas.height !== Math.round(high * scale)) {
    canvas.width = Math.round(wide * scale);
    canvas.height = Math.round(high * scale);
  }
  canvas.style.width = `${wide}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, wide, high);
  const colours = {
    text: css("--text-piece"),
    reasoning: css("--reasoning"),
    refusal: css("--bad"),
    call: css("--arguments"),
  };
  const middle = high / 2,
    x = (time) => area.left + share(time) * area.width;
  pen.save();
  pen.beginPath();
  pen.rect(area.left, 0, area.width, high);
  pen.clip();
  pen.fillStyle = css("--line");
  for (const step of model.steps) {
    if (step.streamStart !== undefined)
      pen.fillRect(
        x(step.streamStart),
        middle - 0.5,
        Math.max(1, x(step.streamEnd ?? endOf(step)) - x(step.streamStart)),
        1,
      );
  }
  for (const piece of model.pieces) {
    const end = piece.end ?? piece.times[piece.times.length - 1] ?? piece.start;
    if (end < state.from || piece.start > state.to) continue;
    pen.fillStyle = colours[piece.kind] ?? colours.text;
    pen.globalAlpha = 0.28;
    pen.fillRect(x(piece.start), middle - 7, Math.max(2, x(end) - x(piece.start)), 14);
    pen.globalAlpha = 1;
    let reached = -1;
    for (const time of piece.times) {
      const at = Math.round(x(time));
      if (at !== reached && at >= area.left - 1) pen.fillRect(at, middle - 7, 1.5, 14);
      reached = at;
      if (at > area.left + area.width) break;
    }
  }
  pen.restore();
  pen.fillStyle = css("--ink");
  const head = x(Math.min(now(), state.to));
  if (state.at !== null && now() >= state.from) pen.fillRect(head - 1, 0, 2, high);
}

// -- arrows --

function renderArrows(scroller, area) {
  const overlay = byId("overlay"),
    top = scroller.offsetTop,
    high = scroller.clientHeight;
  overlay.replaceChildren();
  overlay.style.top = `${top}px`;
  overlay.style.height = `${high}px`;
  const width = scroller.clientWidth;
  overlay.setAttribute("viewBox", `0 0 ${width} ${high}`);
  overlay.style.width = `${width}px`;
  const chosen = state.selected
    ? new Set([...(model.into.get(state.selected) ?? []), ...(model.out.get(state.selected) ?? [])])
    : new Set();
  const all = state.allArrows ?? (model.arrows.length <= 40 && !narrow.matches);
  const arrows = all ? visibleArrows(scroller, 300) : [];
  for (const arrow of arrows) if (!chosen.has(arrow)) addArrow(overlay, arrow, scroller, area, "arrow");
  for (const arrow of [...chosen].slice(0, 200)) addArrow(overlay, arrow, scroller, area, "arrow chosen");
  if (state.at === null || now() < state.from || now() > state.to) return;
  const head = area.left + share(now()) * area.width;
  overlay.append(draw("rect", { x: head, y: 0, width: Math.max(0, width - head), height: high, class: "later" }));
  overlay.append(draw("line", { x1: head, x2: head, y1: 0, y2: high, class: "playhead" }));
}

function visibleArrows(scroller, most) {
  const first = Math.floor(scroller.scrollTop / rowHeight),
    last = Math.ceil((scroller.scrollTop + scroller.clientHeight) / rowHeight);
  const found = [];
  for (let index = Math.max(0, first); index < Math.min(last, model.rows.length) && found.length < most; index++) {
    for (const arrow of model.into.get(model.rows[index].ref) ?? []) found.push(arrow);
  }
  return found.slice(0, most);
}

function heightOf(ref, scroller) {
  const lane = laneOf(ref);
  const row = model.rowOf.get(ref[0] === "p" ? (lane.call !== null ? "c" + lane.call : "s" + lane.step) : ref);
  if (row === undefined) return null;
  const middle = narrow.matches ? rowHeight - 13 : rowHeight / 2;
  return row * rowHeight + middle - scroller.scrollTop;
}

function addArrow(overlay, [source, left, target, reached], scroller, area, kind) {
  const y1 = heightOf(source, scroller),
    y2 = heightOf(target, scroller);
  if (y1 === null || y2 === null) return;
  const x1 = area.left + share(left) * area.width,
    x2 = area.left + share(reached) * area.width;
  const bend = Math.max(10, Math.min(46, Math.abs(y2 - y1) / 3)),
    side = y2 > y1 ? 1 : -1;
  const end = y2 - side * 7;
  const path = `M${x1} ${y1 + side * 6}C${x1} ${y1 + side * bend} ${x2} ${end - side * bend} ${x2} ${end - side * 4}`;
  overlay.append(draw("path", { d: path, class: kind }));
  overlay.append(draw("path", { d: `M${x2} ${end}l-3.5 ${-side * 6}h7z`, class: kind + " head" }));
  if (kind !== "arrow") overlay.append(draw("circle", { cx: x1, cy: y1 + side * 6, r: 2.5, class: kind + " head" }));
}

// -- the moment --

function renderPlayer() {
  const scrub = byId("scrub");
  const value = Math.round((now() / model.length) * 1000);
  if (+scrub.value !== value) scrub.value = value;
  scrub.setAttribute("aria-valuetext", state.at === null ? "the end" : moment(now()));
  byId("moment").textContent = state.at === null ? `end, ${duration(model.length)}` : moment(now());
  const piece = state.at === null ? null : growingAt(now());
  const text = piece ? textOf(piece, now()).slice(-300) : "";
  const ticker = byId("ticker");
  const name = piece ? (piece.kind === "call" ? nameOf(model.calls[piece.call]) : piece.kind) : "";
  ticker.replaceChildren(
    ...(piece
      ? [
          make("span", { class: "ticker-name " + piece.kind }, name),
          make("span", { class: `tail${piece.kind === "call" ? " code" : ""}` }, make("bdi", {}, text)),
        ]
      : [
          make(
            "span",
            { class: "dim" },
            state.at === null ? "Drag along the stream, or press space, to watch it grow." : "Nothing had arrived yet.",
          ),
        ]),
  );
}

function growingAt(time) {
  let low = 0,
    high = model.growth[2].length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (model.growth[2][middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low ? model.pieces[model.growth[0][low - 1]] : null;
}

function moveTo(time) {
  state.at = time >= model.length ? null : Math.max(0, time);
  if (state.at !== null && (state.at < state.from || state.at > state.to)) {
    const span = state.to - state.from;
    state.from = Math.max(0, state.at - span / 3);
    state.to = state.from + span;
  }
  showGrowth();
  request();
}

let played = 0;
function play() {
  state.playing = !state.playing;
  byId("play").classList.toggle("playing", state.playing);
  byId("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
  if (!state.playing) return;
  if (state.at === null) state.at = 0;
  played = performance.now();
  const pace = model.length / Math.min(30e6, Math.max(4e6, model.length)); // the whole run in 4 to 30 seconds
  const tick = (time) => {
    if (!state.playing) return;
    moveTo(now() + (calm.matches ? model.length / 10 : (time - played) * 1000 * pace));
    played = time;
    if (state.at === null) play();
    else if (calm.matches) setTimeout(() => tick(performance.now()), 600);
    else requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}
