// The head: what was asked and answered, how the run ended, and the sums that a reader asks for first.

function renderHead() {
  const { head } = model,
    run = model.runs[0],
    question = head.question ?? null,
    unnamed = !model.title || model.title === run?.runId,
    title = shown((unnamed && question) || model.title || "Run");
  byId("title").textContent = title;
  document.title = `${title.slice(0, 200)} · streamtools`;
  byId("asked").textContent = question && shown(question) !== title ? shown(question.slice(0, 500)) : "";
  byId("verdict").replaceChildren(...verdicts());
  renderAnswer();
  byId("summary").replaceChildren(tookCard(), tokensCard(), callsCard(), timeCard());
  const notes = [...model.notes];
  if (model.leftOut) notes.push(`${number(model.leftOut)} later events are not shown: the picture was full.`);
  if (model.cutChars) notes.push(`${number(model.cutChars)} characters of texts are not shown: the picture was full.`);
  byId("notes").hidden = !notes.length;
  byId("notes").textContent = shown(notes.slice(0, 5).join(" "));
}

// The run's end, and apart from it how its calls ended.
function verdicts() {
  const { outcome, tone, words, calls, failed } = model.head,
    running = !outcome,
    word = running ? "without an end" : outcome.replaceAll("_", " "),
    mood = running ? "live" : tone;
  const verdict = make(
    "span",
    { class: `badge ${mood}`, title: words ?? null },
    shape(SHAPE_OF_TONE[mood] ?? "unknown"),
    word,
  );
  const bad = make(
    "span",
    { class: "badge bad" },
    shape("failed"),
    `${number(failed)} of ${number(calls)} ${calls === 1 ? "call" : "calls"} failed`,
  );
  return failed ? [verdict, bad] : [verdict];
}

function renderAnswer() {
  const last = model.steps.findLast((step) => step.opening || piecesOf(step).some((piece) => piece.kind === "text")),
    text = last ? spoken(last) : "",
    error = model.runs.at(-1)?.error ?? model.steps.at(-1)?.error ?? null,
    answered = model.head.outcome === "answered";
  const parts = [];
  if (error && !answered)
    parts.push(make("b", {}, "It ended with "), foreign(error.split("\n")[0].slice(0, 300), "bad"), " ");
  else if (!answered && model.head.words) parts.push(make("b", {}, "It ended: "), model.head.words, ". ");
  if (text) parts.push(make("b", {}, answered ? "Answer " : "Last text "), foreign(text.slice(0, 600), ""));
  byId("answer").hidden = !parts.length;
  byId("answer").replaceChildren(...parts);
}

const card = (title, ...children) => make("div", { class: "card" }, make("h2", {}, title), ...children);

function tookCard() {
  const { took, withoutOverlap } = model.head,
    saved = withoutOverlap - took,
    steps = `${number(model.steps.length)} ${model.steps.length === 1 ? "step" : "steps"}`;
  return card(
    "Took",
    make("p", { class: "big" }, duration(took)),
    make("p", { class: "dim" }, steps),
    saved > took * 0.005 ? make("p", { class: "saved" }, `without overlap ${duration(withoutOverlap)}`) : null,
  );
}

// By the caller's prices, in their currency; nothing where no price is known.
function costLine(steps) {
  const priced = steps.filter((step) => step.cost !== undefined),
    sum = priced.reduce((one, step) => one + step.cost, 0);
  const words = sum.toLocaleString("en", { maximumSignificantDigits: 3 });
  return priced.length ? make("p", { class: "dim" }, `cost ${words}`) : null;
}

function tokensCard() {
  const tokens = tokensOf(model.steps),
    none = tokens.input_tokens === undefined && tokens.output_tokens === undefined;
  const big = none ? "–" : `${number(tokens.input_tokens ?? 0)} → ${number(tokens.output_tokens ?? 0)}`;
  const cached = tokens.cached_input_tokens ? `, ${number(tokens.cached_input_tokens)} cached` : "";
  return card(
    "Tokens",
    make("p", { class: "big" }, big),
    make("p", { class: "dim" }, none ? "none reported" : `in → out${cached}`),
    costLine(model.steps),
  );
}

function callsCard() {
  const ends = Object.entries(model.head.ends ?? {}).map(([outcome, count]) => {
    const lane = { outcome: outcome === "running" ? undefined : outcome };
    return make("li", { class: `badge ${moodOf(lane)}` }, shape(outcome), `${number(count)} ${wordOf(lane)}`);
  });
  const causes = new Map();
  for (const lane of troubles())
    enter(causes, isCall(lane) ? `${lane.name}\n${lane.reason ?? lane.outcome}` : lane.ref, lane);
  const rows = [...causes.values()].slice(0, 2).map((lanes) => {
    const lane = lanes[0],
      name = isCall(lane) ? labelOf(lane) : nameOf(lane),
      many = lanes.length > 1 ? `${nameOf(lane)} ×${number(lanes.length)}` : name;
    const why = (isCall(lane) ? lane.reason : lane.error?.split("\n")[0]) ?? wordOf(lane);
    return make("li", {}, go(lane.ref, many), " ", foreign(why, "dim"));
  });
  if (causes.size > 2) rows.push(make("li", {}, go(model.runs[0].ref, `${number(causes.size - 2)} other causes`)));
  return card(
    "Calls",
    make(
      "div",
      { class: "beside" },
      make("p", { class: "big" }, number(model.head.calls ?? 0)),
      make("ul", { class: "outcomes" }, ...ends),
    ),
    rows.length ? make("ul", { class: "causes" }, ...rows) : null,
  );
}

function timeCard() {
  const ran = model.calls.filter((call) => call.tries.length),
    long = ran.reduce((one, other) => (one && ranFor(one) >= ranFor(other) ? one : other), null);
  const waits = model.calls.reduce((one, call) => {
    const wait = longestWait(call);
    return wait && (!one || wait[1] > one[1]) ? [call, wait[1], wait[0]] : one;
  }, null);
  const parts = [];
  if (long) parts.push(["longest call ", go(long.ref, labelOf(long)), ` ${duration(ranFor(long))}`]);
  if (waits && waits[1] > Math.max(50e3, model.length / 50))
    parts.push([go(waits[0].ref, labelOf(waits[0])), ` waited ${duration(waits[1])} for ${reasonOf(waits[2])}`]);
  const box = make(
    "div",
    { class: "card wide" },
    make("h2", {}, "Where the time went"),
    split(model.steps, 0, model.length),
    ...parts.map((part) => make("p", { class: "longest" }, ...part)),
  );
  return box;
}
