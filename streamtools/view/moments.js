// Over and under the rows: the stream's lane, the arrows, and the moment that is looked at.

// -- the stream's own lane --

const dark = matchMedia("(prefers-color-scheme: dark)");

const inks = new Map();
const css = (name) => {
  const theme = `${document.documentElement.dataset.theme}${dark.matches}`;
  if (inks.get("theme") !== theme) {
    inks.clear();
    inks.set("theme", theme);
  }
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return inks.get(name);
};

// Each delta is a tick; of those in one place on the screen, the first is looked for and the others are left out.
function renderStream(area) {
  const { pen, high } = penOf(byId("stream"), area.width),
    [pieces, , times] = model.growth,
    middle = high / 2,
    x = (time) => share(time) * area.width;
  const colours = { text: "--text-piece", reasoning: "--reasoning", refusal: "--bad", call: "--arguments" };
  pen.globalAlpha = 0.3;
  let reached = -1;
  for (const piece of model.pieces) {
    const end = x(piece.end ?? model.steps[piece.step].streamEnd ?? piece.start);
    if (end < 0 || end <= reached) continue;
    const start = Math.max(x(piece.start), reached);
    if (start > area.width) break;
    pen.fillStyle = css(colours[piece.kind] ?? colours.text);
    pen.fillRect(start, middle - 6, Math.max(1, end - start), 12);
    reached = end;
  }
  pen.globalAlpha = 1;
  for (let at = 0; at < area.width; at++) {
    const delta = firstAfter(times, timeAt(at / area.width));
    if (delta === times.length) break;
    const place = Math.floor(x(times[delta]));
    if (place >= area.width) break;
    at = Math.max(at, place);
    const kind = model.pieces[pieces[delta]].kind;
    pen.fillStyle = css(colours[kind] ?? colours.text);
    pen.fillRect(at, middle - 6, 1, 12);
  }
}

// The position of the first delta at a time or later.
function firstAfter(times, time) {
  let low = 0,
    high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// -- arrows --

function renderOver(scroller, area) {
  const overlay = byId("overlay"),
    high = scroller.clientHeight,
    width = scroller.clientWidth;
  overlay.replaceChildren();
  overlay.style.top = `${scroller.offsetTop}px`;
  overlay.style.height = `${high}px`;
  overlay.style.width = `${width}px`;
  overlay.setAttribute("viewBox", `0 0 ${width} ${high}`);
  const inside = (time) => Math.max(0, Math.min(1, share(time))),
    x = (time) => area.left + inside(time) * area.width;
  if (!narrow.matches)
    for (const [start, end] of scale.folds)
      if (inside(end) > inside(start))
        overlay.append(draw("rect", { x: x(start), y: 0, width: x(end) - x(start), height: high, class: "idle" }));
  if (state.arrows) renderArrows(overlay, scroller, area);
  if (state.at === null || share(now()) < 0 || share(now()) > 1) return;
  const head = x(now()),
    end = area.left + area.width;
  if (!narrow.matches)
    overlay.append(draw("rect", { x: head, y: 0, width: Math.max(0, end - head), height: high, class: "later" }));
  overlay.append(draw("line", { x1: head, x2: head, y1: 0, y2: high, class: "playhead" }));
}

// Those of the chosen row; of all rows in sight if none is chosen.
function renderArrows(overlay, scroller, area) {
  const [into, out] = [model.into.get(state.selected) ?? [], model.out.get(state.selected) ?? []];
  const rows = model.rows.slice(rowAt(scroller.scrollTop), rowAt(scroller.scrollTop + scroller.clientHeight) + 1);
  const arrows = into.length || out.length ? [...into, ...out] : rows.flatMap((row) => model.into.get(row.ref) ?? []);
  const kind = into.length || out.length ? "arrow chosen" : "arrow";
  for (const arrow of arrows.slice(0, 200)) addArrow(overlay, arrow, scroller, area, kind);
}

function heightOf(ref, scroller) {
  const lane = laneOf(ref);
  const row = model.rowOf.get(ref[0] === "p" ? (lane.call !== null ? "c" + lane.call : "s" + lane.step) : ref);
  if (row === undefined) return null;
  return places.tops[row] + barMiddle(row) - scroller.scrollTop;
}
const barMiddle = (row) => (narrow.matches ? places.tops[row + 1] - places.tops[row] - 9 : places.row / 2);

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
  const value = Math.round(Math.max(0, Math.min(1, share(now()))) * 10000);
  if (+scrub.value !== value) scrub.value = value;
  scrub.setAttribute("aria-valuetext", state.at === null ? "the end" : moment(now()));
  byId("moment").textContent = state.at === null ? "the end" : moment(now());
  byId("ticker").hidden = state.at === null;
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
      : [make("span", { class: "dim" }, "Nothing had arrived yet.")]),
  );
}

function growingAt(time) {
  const next = firstAfter(model.growth[2], time + 0.5);
  return next ? model.pieces[model.growth[0][next - 1]] : null;
}

function moveTo(time) {
  state.at = time >= model.length ? null : Math.max(0, time);
  if (state.at !== null && (share(state.at) < 0 || share(state.at) > 1)) {
    const span = state.to - state.from;
    look(fold(state.at) - span / 3, fold(state.at) + (span * 2) / 3);
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
  const pace = scale.length / Math.min(30e6, Math.max(4e6, scale.length)); // the whole run in 4 to 30 seconds
  const tick = (time) => {
    if (!state.playing) return;
    // Folded time is played as it is drawn.
    moveTo(unfold(fold(now()) + (calm.matches ? scale.length / 10 : (time - played) * 1000 * pace)));
    played = time;
    if (state.at === null) play();
    else if (calm.matches) setTimeout(() => tick(performance.now()), 600);
    else requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}
