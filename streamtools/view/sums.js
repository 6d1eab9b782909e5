// The panel for a step and for the whole run: what was fed in, what it cost, where the time went.

// -- a step --

function stepDetails(step) {
  const texts = piecesOf(step)
    .filter((piece) => piece.kind !== "call")
    .slice(0, 100);
  const calls = step.calls
    .slice(0, 200)
    .map((id) => [go("c" + id, labelOf(model.calls[id])), " ", badge(model.calls[id])]);
  const fed = step.fedBy
    .slice(0, 200)
    .map((id) => [
      go("c" + id, labelOf(model.calls[id])),
      ` of step ${model.steps[model.calls[id].step].number + 1} `,
      badge(model.calls[id]),
    ]);
  return [
    make("h2", {}, stepName(step), badge(step)),
    line(
      make(
        "span",
        { class: "dim" },
        `${moment(step.start)} to ${step.end === undefined ? "now" : moment(step.end)} · ${duration(endOf(step) - step.start)}`,
      ),
    ),
    step.error ? section("Why it failed", make("p", { class: "why bad", dir: "auto" }, step.error)) : null,
    step.asksModel === false ? section("No model was asked", line(resumedFrom(step))) : null,
    section(
      "Fed by",
      list(fed) ?? line(make("span", { class: "dim" }, "the question alone: no results of earlier calls")),
    ),
    section("Cost", tokenTable(step.usage), costLine([step])),
    section("Where the time went", split([step], step.start, endOf(step))),
    section("Calls", list(calls)),
    ...texts.map((piece) =>
      section(
        { text: "Text", reasoning: "Reasoning", refusal: "Refusal", output: "Answer" }[piece.kind] ?? piece.kind,
        block(textOf(piece) || "(not recorded)"),
      ),
    ),
    section(
      "Noted",
      list(
        step.warnings
          .slice(0, 100)
          .map(([time, code, text]) => [
            make("code", {}, code),
            ` ${text} `,
            make("span", { class: "dim" }, moment(time)),
          ]),
      ),
    ),
    section(
      "Record",
      factsOf([
        ["run", model.runs[step.run].runId],
        ["model", step.model],
        ["wire", step.wire],
        ["finish", step.finish],
        ["outcome", step.outcome],
      ]),
    ),
  ].filter(Boolean);
}

function resumedFrom(step) {
  const ids = new Set(step.calls.map((id) => model.calls[id].callId));
  const earlier = model.calls.find((call) => call.step !== step.id && ids.has(call.callId) && call.start <= step.start);
  return earlier
    ? make(
        "span",
        {},
        "It goes on with ",
        go("s" + earlier.step, stepName(model.steps[earlier.step])),
        ` of run ${model.runs[model.steps[earlier.step].run].runId}.`,
      )
    : "Its calls were given, or waited for an approval in a run that is not in this file.";
}

function tokenTable(usage) {
  const rows = COUNTS.filter(([name]) => usage?.[name] !== undefined);
  if (!rows.length) return line(make("span", { class: "dim" }, "The stream had no token counts."));
  return make(
    "table",
    { class: "counts" },
    make(
      "tbody",
      {},
      ...rows.map(([name, label]) =>
        make(
          "tr",
          { class: label.startsWith("of") ? "sub" : "" },
          make("td", {}, number(usage[name])),
          make("th", { scope: "row" }, label),
        ),
      ),
    ),
  );
}

function split(steps, from, to) {
  const sums = spent(steps, from, to),
    whole = Math.max(
      1,
      sums.reduce((sum, one) => sum + one, 0),
    );
  const bar = make("div", { class: "split", "aria-hidden": "true" }),
    words = make("ul", { class: "split-words" });
  KINDS.forEach(([kind, text], at) => {
    if (sums[at] / whole < 0.0005) return;
    const part = make("span", { class: "part " + kind });
    part.style.flexGrow = String(sums[at]);
    bar.append(part);
    words.append(
      make(
        "li",
        {},
        make("i", { class: "part " + kind }),
        make("span", {}, text),
        make("b", {}, duration(sums[at])),
        make("span", { class: "dim" }, ` ${Math.round((sums[at] / whole) * 100)} %`),
      ),
    );
  });
  return make("div", {}, bar, words);
}

// -- many calls of one tool --

function groupDetails(group) {
  return [
    make("h2", {}, make("bdi", {}, groupName(group))),
    line(make("span", { class: "dim" }, `${moment(group.start)} to ${moment(endOf(group))}`)),
    ...groupWords(group)
      .reverse()
      .map(([text, , calls]) =>
        section(
          text,
          list(calls.slice(0, 50).map((call) => [go(call.ref, labelOf(call)), " ", quiet(duration(ranFor(call)))])),
          calls.length > 50 ? line(quiet(`and ${number(calls.length - 50)} more`)) : null,
        ),
      ),
  ];
}

// -- the run --

function troubles() {
  return [
    ...model.steps.filter((step) => step.outcome && moodOf(step) === "bad"),
    ...model.calls.filter((call) => troubled(call)),
  ].sort((one, other) => one.start - other.start);
}

function runDetails(run) {
  const bad = troubles(),
    rows = bad
      .slice(0, 100)
      .map((lane) => [
        go(lane.ref, isCall(lane) ? labelOf(lane) : nameOf(lane)),
        " ",
        badge(lane),
        lane.error ? make("span", { class: "reason", dir: "auto" }, lane.error.slice(0, 160)) : "",
      ]);
  return [
    make("h2", {}, "The run"),
    run.question ? section("You asked", block(run.question)) : null,
    run.error ? section("Why it ended", make("p", { class: "why bad", dir: "auto" }, run.error)) : null,
    section(
      bad.length ? `Did not succeed (${number(bad.length)})` : "Steps and calls",
      list(rows) ?? line("Every step and call that has ended succeeded."),
    ),
    section("Where the time went", split(model.steps, 0, model.length)),
    section("Cost", tokenTable(tokensOf(model.steps)), costLine(model.steps)),
    section(
      "Record",
      factsOf(
        model.runs.flatMap((one, at) => [
          [at ? "resumed as" : "run", one.runId],
          ["agent", one.name],
          ["outcome", one.outcome],
        ]),
      ),
    ),
  ].filter(Boolean);
}
