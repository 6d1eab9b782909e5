// A conversation beside its timeline. One EventSource reads the run that goes on; the browser itself comes back after a
// cut, with Last-Event-ID. What is finished, or waits for a decision, is read by GET /{id}.
const at = (id) => document.getElementById(id);
const make = (kind, name, text) => {
  const node = document.createElement(kind);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
};
const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const known = location.hash.slice(1), chat = known || crypto.randomUUID();
history.replaceState(null, "", `#${chat}`);
const base = () => `chats/${encodeURIComponent(chat)}`;
let source = null; // the EventSource of the run that goes on
let run = null; // what is known of the latest run
let drawing = 0;

// -- the run: a state, and what each event makes of it ------------------------------------------------------------

function newRun() {
  const node = make("div", "answer");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", "Answer");
  return { id: "", items: [], steps: [], clock: {}, outcome: null, node };
}

const callOf = (event) => run.items.find((one) => one.call_id === event.call_id && one.step === event.step);
const ON = {
  step_start(event, when) {
    run.id = event.run_id;
    if (!event.continued) run.steps.push({ step: event.step, from: when });
  },
  text_delta(event) {
    const last = run.items.at(-1);
    if (last?.text !== undefined && last.step === event.step) last.text += event.text;
    else run.items.push({ step: event.step, seq: event.seq, text: event.text });
  },
  text_end(event) {
    const last = run.items.findLast((one) => one.text !== undefined && one.step === event.step);
    if (event.whole !== undefined && last) last.text = event.whole;
  },
  tool_call_start(event, when) {
    const { step, seq, call_id, name } = event;
    run.items.push({ step, seq, call_id, name, arguments: "", state: "write", from: when });
  },
  tool_call_delta(event) { callOf(event).arguments += event.delta; },
  tool_call_end(event, when) {
    const call = callOf(event);
    call.arguments = event.whole ?? call.arguments;
    Object.assign(call, { state: "wait", written: when });
  },
  approval_requested(event) { Object.assign(callOf(event), { state: "ask", approval: event.approval_id }); },
  approval_resolved(event) { callOf(event).state = event.approved ? "wait" : "bad"; },
  tool_started(event, when) {
    const call = callOf(event);
    Object.assign(call, { state: "work", began: call.began ?? when });
  },
  tool_progress(event) { callOf(event).progress = event.value; },
  observation(event, when) {
    const isOk = event.outcome === "ok", isDenied = event.outcome === "denied"; // which says it all
    const result = isDenied ? undefined : shown(isOk ? event.result ?? "" : event.error ?? "");
    Object.assign(callOf(event), { state: isOk ? "ok" : "bad", outcome: event.outcome, to: when, result });
  },
  stream_end(event, when) {
    const step = run.steps.findLast((one) => one.step === event.step);
    if (step) step.to = when;
  },
  attempt_discarded(event) {
    run.items = run.items.filter((one) => one.step !== event.step || one.seq < event.from_seq);
  },
  run_end(event, when) {
    Object.assign(run, { outcome: event.outcome, words: event.words, to: when });
    const calls = run.items.filter((one) => one.call_id);
    const times = calls.map(({ step, call_id, from, written, began, to }) => ({ step, call_id, from, written, began, to }));
    const { outcome, words, steps } = run;
    sessionStorage.setItem(run.id, JSON.stringify({ kept: { outcome, words, steps, to: when }, times }));
  },
};
const MARKS = new Set(["step_start", "tool_call_start", "tool_call_end", "tool_started", "observation", "stream_end"]);

// Events have no times: a page notes when it saw them, and keeps that over a reload.
function seenAt(id, event) {
  if (!MARKS.has(event.event)) return Date.now();
  const number = id.split(".")[0];
  if (run.number !== number) {
    run.number = number;
    run.clock = JSON.parse(sessionStorage.getItem(`${chat}/${number}`) ?? "{}");
  }
  if (run.clock[event.seq] === undefined) {
    run.clock[event.seq] = Date.now();
    sessionStorage.setItem(`${chat}/${number}`, JSON.stringify(run.clock));
  }
  return run.clock[event.seq];
}

function listen() {
  source?.close();
  run?.node.remove();
  run = newRun();
  at("log").append(run.node);
  const own = source = new EventSource(`${base()}/events`);
  for (const name of Object.keys(ON)) {
    own.addEventListener(name, (message) => {
      const event = JSON.parse(message.data);
      ON[name](event, seenAt(message.lastEventId, event));
      if (name === "run_end") {
        close(own);
        sayEnd();
      }
      draw();
    });
  }
  own.onopen = () => say("Answering …");
  own.onerror = () => {
    if (own.readyState !== EventSource.CLOSED) return say("Connection lost; coming back …");
    close(own); // 204: nothing goes on
    load();
  };
  buttons();
}

function close(own) {
  own.close();
  if (source === own) source = null;
  buttons();
}

// -- requests ------------------------------------------------------------------------------------------------------

async function post(path, body) {
  const leaving = new AbortController();
  try {
    const answer = await fetch(`${base()}/${path}`, {
      method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal: leaving.signal,
    });
    if (answer.ok) return true;
    say((await answer.json()).error.message);
  } catch {
    say("The server does not answer; try again.");
  } finally {
    leaving.abort(); // the run goes on: the EventSource reads it
  }
  return false;
}

async function send(text) {
  at("empty")?.remove();
  const mine = you(text);
  say("Sending …");
  run = null;
  const message = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
  if (await post("events", { id: chat, messages: [message], trigger: "submit-message" })) return listen();
  mine.remove();
  at("text").value = text;
}

async function decide(call, approved) {
  call.state = "wait";
  draw();
  const part = { type: `tool-${call.name}`, toolCallId: call.call_id, state: "approval-responded", input: {},
    approval: { id: call.approval, approved } };
  const body = { id: chat, messages: [{ id: run.id, role: "assistant", parts: [part] }], trigger: "submit-message", messageId: run.id };
  if (await post("events", body)) listen();
  else load();
  at("text").focus();
}

async function stop() {
  if (isBusy()) {
    say("Stopping …");
    const waits = source === null;
    if (await post("stop", {}) && waits) listen();
  }
}

// Finished messages, in the shape of the AI SDK.
const STATES = { "input-streaming": "write", "input-available": "wait", "approval-requested": "ask",
  "approval-responded": "wait", "output-available": "ok", "output-error": "bad", "output-denied": "bad" };

async function load() {
  const answer = await fetch(base());
  if (answer.status === 404) return false;
  const { messages } = await answer.json();
  at("empty")?.remove();
  at("log").replaceChildren();
  for (const message of messages) {
    if (message.role === "user") {
      you(message.parts.map((part) => part.text ?? "").join(""));
      continue;
    }
    run = newRun();
    run.id = message.id;
    at("log").append(run.node);
    let step = -1;
    for (const part of message.parts) {
      if (part.type === "step-start") step += 1;
      else if (part.type === "text") run.items.push({ step, text: part.text });
      else if (part.toolCallId) {
        run.items.push({ step, call_id: part.toolCallId, name: part.type.slice(5), approval: part.approval?.id,
          arguments: shown(part.input ?? ""), state: STATES[part.state], outcome: part.state === "output-denied" ? "denied" : "",
          result: part.output !== undefined ? shown(part.output) : part.errorText });
      }
    }
    const { kept, times = [] } = JSON.parse(sessionStorage.getItem(run.id) ?? "{}");
    for (const one of times) Object.assign(callOf(one) ?? {}, one);
    Object.assign(run, kept);
    if (run.items.some((one) => one.state === "ask")) run.outcome = "suspended";
    else if (run.outcome === "suspended" || run.outcome === null) run.outcome = "answered";
    paint();
  }
  if (messages.at(-1)?.role === "user") return true;
  sayEnd();
  buttons();
  draw();
  return true;
}

// -- drawing, once a frame -----------------------------------------------------------------------------------------

const isBusy = () => source !== null || run?.outcome === "suspended";
const say = (text) => put(at("status"), text);
const ENDS = { answered: "Answered", suspended: "Waiting for your decision", interrupted: "Stopped", cancelled: "Stopped" };
const end = () => ENDS[run?.outcome] ?? run?.words ?? "";
const sayEnd = () => say(end());
function buttons() {
  at("stop").hidden = !isBusy();
  at("send").hidden = isBusy();
}
function you(text) {
  const node = make("p", "you", text);
  node.prepend(make("span", "unseen", "You: "));
  at("log").append(node);
  node.scrollIntoView({ block: "end" });
  return node;
}
function draw() {
  drawing ||= requestAnimationFrame(() => { drawing = 0; paint(); timeline(); });
}

const WORDS = { write: "writing arguments …", wait: "waits", ask: "needs your approval", work: "runs …", ok: "done", bad: "failed" };

function paint() {
  run.node.setAttribute("aria-busy", String(source !== null)); // read out once it is whole
  const log = at("log"), isBelow = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  const nodes = run.items.map((item) => item.node ??= item.text === undefined ? callNode() : make("p", "said"));
  for (const node of [...run.node.children]) if (!nodes.includes(node)) node.remove();
  run.items.forEach((item, place) => {
    if (run.node.children[place] !== item.node) run.node.insertBefore(item.node, run.node.children[place] ?? null);
    if (item.text === undefined) paintCall(item);
    else put(item.node, item.text);
  });
  if (run.outcome && !["answered", "suspended"].includes(run.outcome)) run.node.append(make("p", "end", end()));
  if (isBelow) log.scrollTop = log.scrollHeight;
}

function callNode() {
  const node = make("section", "call"), head = make("h3");
  head.append(make("span", "name"), make("span", "state"));
  node.append(head, make("code", "arguments"));
  return node;
}

function part(node, name, wanted, build) {
  const found = node.querySelector(`.${name}`);
  if (wanted && !found) node.append(build());
  else if (!wanted && found) found.remove();
  return node.querySelector(`.${name}`);
}

function paintCall(call) {
  const { node } = call;
  node.className = `call ${call.state}`;
  node.setAttribute("aria-label", `Call of ${call.name}`);
  put(node.querySelector(".name"), call.name);
  const progress = call.state === "work" ? call.progress : undefined;
  put(node.querySelector(".state"), progress?.text ?? (call.state === "bad" && call.outcome ? call.outcome : WORDS[call.state]));
  put(node.querySelector(".arguments"), call.arguments);
  const bar = part(node, "bar", progress, () => {
    const made = make("progress", "bar");
    made.setAttribute("aria-label", `Progress of ${call.name}`);
    return made;
  });
  if (bar) Object.assign(bar, { max: progress.of, value: progress.done });
  part(node, "choice", call.state === "ask", () => {
    const choice = make("div", "choice"), yes = make("button", "approve", "Approve"), no = make("button", "deny", "Deny");
    yes.addEventListener("click", () => decide(call, true));
    no.addEventListener("click", () => decide(call, false));
    for (const [button, word] of [[yes, "Approve"], [no, "Deny"]]) button.setAttribute("aria-label", `${word} ${call.name}`);
    choice.append(yes, no);
    return choice;
  });
  const result = part(node, "result", call.result !== undefined, () => make("code", "result"));
  if (result) put(result, call.result);
}

const seconds = (ms) => `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;

function timeline() {
  const rows = [], from = run.steps[0]?.from;
  if (from === undefined) return at("time").replaceChildren();
  const now = run.to ?? Date.now(), length = Math.max(now - from, 1000);
  for (const step of run.steps) {
    rows.push({ name: `Step ${step.step + 1}: model`, took: step.to && `${seconds(step.to - step.from)}`, bars: [["model", step.from, step.to ?? now]] });
    for (const call of run.items.filter((one) => one.call_id && one.step === step.step && one.from)) {
      const written = call.written ?? now, began = call.began ?? call.to ?? now;
      const bars = [["write", call.from, written], ["wait", written, Math.max(began, written)]];
      if (call.began) bars.push([call.state === "bad" ? "bad" : "work", call.began, call.to ?? now]);
      const isEarly = call.to && step.to && call.to < step.to;
      const took = call.to && call.began ? `${seconds(call.to - call.began)}${isEarly ? ", done while the model wrote" : ""}` : WORDS[call.state];
      const about = /:\s*"([^"]{1,20})"/.exec(call.arguments)?.[1] ?? "";
      rows.push({ name: `${call.name} ${about}`, took, bars });
    }
  }
  const list = at("time");
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach((row, place) => {
    const node = list.children[place] ?? list.appendChild(rowNode());
    put(node.querySelector(".label"), row.name);
    put(node.querySelector(".took"), row.took || "writes …");
    const track = node.querySelector(".track");
    while (track.children.length > row.bars.length) track.lastChild.remove();
    row.bars.forEach(([kind, begin, end], index) => {
      const bar = track.children[index] ?? track.appendChild(make("i"));
      bar.className = kind;
      bar.style.left = `${(begin - from) / length * 100}%`;
      bar.style.width = `${Math.max(end - begin, 0) / length * 100}%`;
    });
  });
  put(at("clock"), seconds(now - from));
}

function rowNode() {
  const node = make("li"), name = make("div", "name"), track = make("div", "track");
  track.setAttribute("aria-hidden", "true");
  name.append(make("span", "label"), make("span", "took"));
  node.append(name, track);
  return node;
}

// -- people ----------------------------------------------------------------------------------------------------------

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = at("text").value.trim();
  if (!text || isBusy()) return;
  at("text").value = "";
  send(text);
});
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("form").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
at("stop").addEventListener("click", stop);
at("new").addEventListener("click", () => location.assign(location.pathname));
addEventListener("hashchange", () => location.reload());
setInterval(() => { if (source && run) draw(); }, 100);

if (known && (await load())) {
  if (at("log").lastElementChild?.classList.contains("you")) { run = null; listen(); }
}
buttons();
document.documentElement.dataset.ready = "yes";
