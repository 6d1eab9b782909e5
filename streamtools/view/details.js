// The panel that answers what a call was caused by, waited for and tried, and how it ended.

const MOST_SHOWN = 20000; // characters of one text in the panel

function select(ref, { reveal = true, focus = false } = {}) {
  state.selected = ref;
  if (ref && reveal) revealRow(ref);
  document.body.classList.toggle("chosen", ref !== null);
  showDetails();
  if (focus) byId("details").focus();
  // A choice is no page of its own: going back leads away from the run.
  history.replaceState(null, "", ref === null ? location.pathname + location.search : `#${ref}`);
  request();
}

function revealRow(ref) {
  const lane = laneOf(ref);
  if (isCall(lane)) {
    state.closed.delete(model.steps[lane.step].ref);
    for (const group of model.groups.values()) if (group.calls.includes(lane)) state.open.add(group.ref);
    layRows();
  }
  const scroller = byId("scroller"),
    index = model.rowOf.get(ref);
  if (index === undefined) return;
  const [top, end] = [places.tops[index], places.tops[index + 1]];
  if (top < scroller.scrollTop) scroller.scrollTop = top - places.row;
  else if (end > scroller.scrollTop + scroller.clientHeight)
    scroller.scrollTop = end - scroller.clientHeight + places.row;
  if (lane.start !== undefined && (share(endOf(lane)) < 0 || share(lane.start) > 1)) {
    const span = state.to - state.from;
    look(fold(lane.start) - span / 4, fold(lane.start) + (span * 3) / 4);
  }
}

function showDetails() {
  const panel = byId("details"),
    lane = state.selected ? laneOf(state.selected) : null;
  panel.hidden = lane === null;
  if (lane === null) return panel.replaceChildren();
  const close = make(
    "button",
    { type: "button", class: "quiet close", "aria-label": "Close details", onclick: () => select(null) },
    "×",
  );
  const parts = { r: runDetails, s: stepDetails, c: callDetails, g: groupDetails }[lane.ref[0]](lane);
  return panel.replaceChildren(close, ...parts);
}

function showGrowth() {
  const lane = state.selected ? laneOf(state.selected) : null,
    block = byId("growing");
  if (!lane || !block || !isCall(lane)) return;
  fillArguments(block, lane);
  byId("then").replaceChildren(badge(thenOf(lane)));
}

const section = (title, ...children) => {
  const kept = children.filter((child) => child !== null && child !== undefined);
  return kept.length ? make("section", { class: "fact" }, make("h3", {}, title), ...kept) : null;
};
const go = (ref, text) =>
  make("button", { type: "button", class: "link", onclick: () => select(ref, { focus: true }) }, text);
const line = (...children) => make("p", {}, ...children);
const list = (items) =>
  items.length ? make("ul", { class: "plain" }, ...items.map((item) => make("li", {}, ...[item].flat()))) : null;

function block(text, kind = "") {
  const shown =
    text.length > MOST_SHOWN
      ? text.slice(0, MOST_SHOWN) + `… (${number(text.length - MOST_SHOWN)} more characters)`
      : text;
  return make("pre", { class: "block " + kind, tabindex: "0", dir: "auto" }, shown);
}

function pretty(text) {
  if (text.length > MOST_SHOWN) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// -- a call --

function callDetails(call) {
  const step = model.steps[call.step],
    took = endOf(call) - call.start;
  return [
    make("h2", {}, make("bdi", {}, nameOf(call)), make("span", { id: "then" }, badge(thenOf(call)))),
    line(
      make(
        "span",
        { class: "dim" },
        `${moment(call.start)} to ${call.end === undefined ? "now" : moment(call.end)} · ${duration(took)}`,
      ),
    ),
    copyButtons(call),
    whyNot(call),
    section(
      "Asked for by",
      line(
        go(step.ref, stepName(step)),
        " ",
        make("span", { class: "dim" }, [step.model, step.wire].filter(Boolean).join(" · ")),
      ),
      said(call),
      ...causesOf(call),
    ),
    argumentsSection(call),
    waitsSection(call),
    attemptsSection(call),
    call.result !== undefined ? section("Result", block(pretty(call.result))) : null,
    section("Led to", waitedOn(call) ? line(quiet(waitedOn(call))) : null, list(effectsOf(call.ref))),
    section(
      "Record",
      factsOf([
        ["call id", call.callId],
        ["kind", call.kind],
        ["returned", call.resultType],
        ["problem", call.problem],
        ...call.facts,
      ]),
    ),
  ].filter(Boolean);
}

function whyNot(call) {
  if (!call.error) return null;
  const ran = call.tries.length > 0;
  return section(
    ran ? "Why it failed" : "Why it did not run",
    make("p", { class: `why ${moodOf(call)}`, dir: "auto" }, call.error),
    leadOf(call) ? make("p", { class: "dim small" }, leadOf(call)) : null,
    leadOf(call) ? block(call.toModel) : null,
  );
}

function said(call) {
  if (call.after === undefined) return line(make("span", { class: "dim" }, "No text came before it in this answer."));
  const piece = model.pieces[call.after],
    text = textOf(piece, call.start).trim();
  const kind = piece.kind === "reasoning" ? "After this reasoning" : "After this text";
  return make(
    "figure",
    { class: "quote" },
    make("figcaption", {}, kind),
    make("blockquote", { dir: "auto" }, text.length > 280 ? "…" + text.slice(-280) : text || "(not recorded)"),
  );
}

function causesOf(call) {
  const step = model.steps[call.step],
    items = [];
  for (const id of step.fedBy) items.push([go("c" + id, labelOf(model.calls[id])), " ", badge(model.calls[id])]);
  for (const [source] of model.into.get(call.ref) ?? [])
    if (source[0] === "c") items.push(["caused by ", go(source, nameOf(laneOf(source)))]);
  return items.length
    ? [make("p", { class: "dim small" }, "The model had these results:"), list(items.slice(0, 50))]
    : [];
}

function effectsOf(ref) {
  const seen = new Set(),
    items = [];
  for (const [, , target] of model.out.get(ref) ?? []) {
    if (seen.has(target) || target === ref) continue;
    seen.add(target);
    items.push([go(target, nameOf(laneOf(target))), " ", badge(laneOf(target))]);
  }
  return items;
}

function argumentsSection(call) {
  const box = make("div", { id: "growing" });
  fillArguments(box, call);
  return section("Arguments", box);
}

function fillArguments(box, call) {
  const time = now(),
    text = argumentsOf(call, time),
    whole = time >= (call.whole ?? Infinity);
  const note =
    state.at === null || whole
      ? null
      : line(
          make(
            "span",
            { class: "dim small" },
            time < call.start ? "not begun at this moment" : `at ${moment(time)}, still growing`,
          ),
        );
  const shown = block(whole || state.at === null ? pretty(text) : text, whole || state.at === null ? "" : "growing");
  box.replaceChildren(...[note, text || !note ? shown : null].filter(Boolean));
  if (!text && !note) box.replaceChildren(line(make("span", { class: "dim" }, "not recorded")));
}

function waitsSection(call) {
  const items = call.waits.map(([reason, start, end]) => [
    make("b", {}, duration((end ?? endOf(call)) - start)),
    ` for ${reasonOf(reason)} `,
    make("span", { class: "dim" }, `from ${moment(start)}`),
  ]);
  return section(
    "Waited",
    list(items) ??
      line(
        make(
          "span",
          { class: "dim" },
          call.tries.length
            ? "for nothing: it ran as soon as it was ready"
            : isElsewhere(call)
              ? `not here: ${OUTCOMES[call.outcome][0]}`
              : "it never came to run",
        ),
      ),
  );
}

function attemptsSection(call) {
  const items = call.tries.map(([n, start, end, error], at) => {
    const next = call.tries[at + 1],
      failed = error ?? (next ? "failed" : null),
      known = next === undefined || (end !== null && end < next[1]);
    return [
      make("b", {}, `${n}.`),
      known ? ` ${duration((end ?? endOf(call)) - start)} ` : " ",
      make("span", { class: failed ? "bad" : moodOf(call) }, failed ?? wordOf(call)),
      next
        ? make(
            "span",
            { class: "dim" },
            known
              ? `, tried again after ${duration(next[1] - end)}`
              : `, the next began ${duration(next[1] - start)} later, its delay included`,
          )
        : "",
    ];
  });
  return section(
    items.length > 1 ? "Attempts" : "Attempt",
    list(items) ??
      line(
        make(
          "span",
          { class: "dim" },
          isElsewhere(call) ? `not here: ${OUTCOMES[call.outcome][0]}` : "none: the tool was never started",
        ),
      ),
  );
}

function factsOf(rows) {
  const kept = rows.filter(([, text]) => text !== undefined && text !== null && text !== "");
  return make("dl", {}, ...kept.flatMap(([label, text]) => [make("dt", {}, label), make("dd", { dir: "auto" }, text)]));
}
