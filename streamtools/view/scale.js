// The scale: which part of the run is in sight, and where idle time is folded. Times are the run's own; a window, like
// everything that is drawn, is in folded time.

const state = {
  from: 0,
  to: 1,
  at: null,
  selected: null,
  arrows: false,
  folding: true,
  open: new Set(), // groups that were opened
  closed: new Set(), // steps that were folded
  query: "",
  hits: null,
  playing: false,
  tab: "timeline",
};
const scale = { real: [0, 1], shown: [0, 1], folds: [], length: 1 };
const SHORTEST_FOLD = 500e3, // microseconds
  FOLDED = 0.03, // of the time that is not idle
  MOST_FOLDS = 40;
const ROOM = 1.02; // of the run's length: the last bar's end is seen

const now = () => state.at ?? model.length;
const share = (time) => (fold(time) - state.from) / (state.to - state.from);
const timeAt = (part) => unfold(state.from + part * (state.to - state.from));

function measureScale() {
  const whole = state.to >= scale.length * ROOM - 1 && state.from === 0;
  const gaps = state.folding ? idleTimes() : [];
  const idle = gaps.reduce((sum, [start, end]) => sum + end - start, 0),
    width = Math.max(1, (model.length - idle) * FOLDED);
  Object.assign(scale, { real: [0], shown: [0], folds: [] });
  const upTo = (time, by) => {
    scale.shown.push(scale.shown.at(-1) + (by ?? time - scale.real.at(-1)));
    scale.real.push(time);
  };
  for (const [start, end] of gaps) {
    upTo(start);
    upTo(end, width);
    scale.folds.push([start, end]);
  }
  upTo(Math.max(model.length * ROOM, scale.real.at(-1) + 1));
  scale.length = fold(model.length);
  if (whole) fit();
}

// Times in which neither a model nor a tool did anything, if they are long beside the others.
function idleTimes() {
  const busy = [];
  for (const step of model.steps) {
    if (step.asksModel !== false) busy.push([step.start, step.streamEnd ?? endOf(step)]);
    for (const id of step.calls)
      for (const [, start, end] of model.calls[id].tries) busy.push([start, end ?? endOf(model.calls[id])]);
  }
  busy.sort((one, other) => one[0] - other[0]);
  const gaps = [];
  let reached = 0,
    worked = 0;
  for (const [start, end] of busy) {
    if (start > reached) gaps.push([reached, start]);
    worked += Math.max(0, end - Math.max(start, reached));
    reached = Math.max(reached, end);
  }
  if (busy.length && model.length > reached) gaps.push([reached, model.length]);
  const least = Math.max(SHORTEST_FOLD, worked * 0.15);
  const long = gaps.filter(([start, end]) => end - start >= least);
  long.sort((one, other) => other[1] - other[0] - (one[1] - one[0]));
  return long.slice(0, MOST_FOLDS).sort((one, other) => one[0] - other[0]);
}

const fold = (time) => between(time, scale.real, scale.shown);
const unfold = (shown) => between(shown, scale.shown, scale.real);
function between(value, from, to) {
  let low = 0,
    high = from.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (from[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return to[low] + ((value - from[low]) / (from[low + 1] - from[low])) * (to[low + 1] - to[low]);
}

// -- the window --

function look(from, to) {
  const most = scale.length * ROOM,
    span = Math.min(most, Math.max(50, to - from));
  state.from = Math.max(0, Math.min(from, most - span));
  state.to = state.from + span;
  request();
}

const fit = () => look(0, scale.length * ROOM);

function zoom(factor, around = centre()) {
  const span = state.to - state.from,
    next = Math.min(scale.length * ROOM, Math.max(50, span * factor)),
    middle = state.from + span * around;
  look(middle - next * around, middle + next * (1 - around));
}

function pan(by) {
  const span = state.to - state.from;
  look(state.from + by * span, state.to + by * span);
}

// The pointer's place, where it is over the bars; or that of the chosen row.
let pointed = null;
function centre() {
  if (pointed !== null) return pointed;
  const lane = state.selected ? laneOf(state.selected) : null;
  const middle = lane?.start === undefined ? 0.5 : (share(lane.start) + share(endOf(lane))) / 2;
  return middle >= 0 && middle <= 1 ? middle : 0.5;
}

function fitRow(ref) {
  const lane = laneOf(ref);
  if (lane.start === undefined) return fit();
  let [from, to] = [lane.start, endOf(lane)];
  // A short run after a long wait: the run is wanted, and the wait of who asks again.
  if (isCall(lane) && lane.tries.length) {
    const [began, ended] = [lane.tries[0][1], lane.tries.at(-1)[2] ?? to],
      seen = share(began) >= 0 && share(ended) <= 1 && share(ended) - share(began) > 0.2;
    if ((ended - began) * 8 < to - from && !seen) [from, to] = [began, ended];
  }
  const start = fold(from),
    span = Math.max(40, fold(to) - start);
  look(start - span * 0.12, start + span * 1.3);
}

// -- the axis --

function renderAxis(area) {
  const axis = byId("axis"),
    [from, to] = [timeAt(0), timeAt(1)],
    place = (time) => share(time) * area.width;
  const most = Math.max(2, Math.floor(area.width / 84)),
    rough = (state.to - state.from) / most,
    power = 10 ** Math.floor(Math.log10(rough)),
    every = [1, 2, 5, 10].map((by) => by * power).find((step) => step >= rough);
  axis.replaceChildren();
  const folds = scale.folds.filter(([start, end]) => end > from && start < to);
  const taken = folds.map(([start, end]) => {
    const middle = (place(start) + place(end)) / 2,
      text = `⋯ ${duration(end - start)}`,
      half = text.length * 3.4 + 6;
    const mark = make("span", { class: "fold", title: `${duration(end - start)} of idle time are folded` }, text);
    const at = Math.max(half, Math.min(area.width - half, middle));
    mark.style.left = `${at}px`;
    axis.append(mark);
    return [at - half, at + half];
  });
  let [time, last] = [Math.ceil(from / every) * every, -100];
  for (let count = 0; time <= to && count < 500; time += every, count++) {
    const hidden = folds.find(([start, end]) => time > start && time < end);
    if (hidden) {
      time = Math.floor(hidden[1] / every) * every;
      continue;
    }
    const x = place(time),
      text = tickText(time, every),
      wide = text.length * 6.6 + 10;
    if (x - last < 50 || x + wide > area.width || taken.some(([left, right]) => x + wide > left && x < right)) continue;
    const tick = make("span", { class: "tick" }, text);
    tick.style.left = `${x}px`;
    axis.append(tick);
    last = x;
  }
}

function tickText(time, every) {
  if (time === 0) return "0";
  if (every >= 1e6)
    return time >= 60e6
      ? `${Math.floor(time / 60e6)}:${String(Math.round((time % 60e6) / 1e6)).padStart(2, "0")}`
      : `${Math.round(time / 1e6)} s`;
  if (every >= 1e4) return `${(time / 1e6).toFixed(every >= 1e5 ? 1 : 2)} s`;
  return time < 1e6
    ? `${(time / 1e3).toFixed(every >= 1e3 ? 0 : every >= 100 ? 1 : 2)} ms`
    : `${(time / 1e6).toFixed(every >= 1e3 ? 3 : every >= 100 ? 4 : 5)} s`;
}
