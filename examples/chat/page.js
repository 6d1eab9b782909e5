// A conversation beside its timeline. One reader reads the run that goes on, and comes back by itself behind the last
// frame that it had. What is finished is read by GET /{id}; times, which frames do not have, by /times/{id}.
const at = (id) => document.getElementById(id);
const make = (kind, name, text) => {
  const node = document.createElement(kind);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
};
const put = (node, text) => { if (node.textContent !== text) node.textContent = text; };
// Whether a number in it is too long for JavaScript to keep: it is shown, and sent, as it was written.
const isLong = (json) => /\d{16}/.test(json.replace(/"(?:\\.|[^"\\])*"/g, ""));
const shown = (value) => (typeof value === "string" ? value : JSON.stringify(value));

let chat = "", place = new AbortController(); // the conversation; aborted when another one is opened
let reading = null; // the reader of the run that goes on
let sending = null; // what the user has said, until the server has it
let run = null; // the latest run
let times = {};
const base = () => `chats/${encodeURIComponent(chat)}`;
const others = new BroadcastChannel("streamtools-chat"); // tabs with the same conversation

// -- the run: a state, and what each event makes of it ------------------------------------------------------------

function newRun(id = "") {
  const node = make("div", "answer");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", "Answer");
  at("log").append(node);
  // last: the id of the last frame; isLate: frames come later than what they tell of; isStale: they tell it all anew
  return { id, last: "", items: [], sources: [], steps: [], marks: {}, isLate: false, isStale: false, cutAt: 0, outcome: null, words: "", node };
}

const keyOf = (one) => (one.call_id === undefined ? `${one.step}` : `${one.step}/${one.call_id}`);
const NOTES = { cancelled: "", skipped: "", // which say it all
  unknown: "It had begun when the server went down, and may have taken effect. Nobody runs it again before that is found out." };
const callOf = (event) => run.items.find((one) => one.call_id === event.call_id && one.step === event.step);
function take({ id, event }) {
  if (run.isStale) Object.assign(run, { items: [], sources: [], steps: [], isStale: false });
  run.last = id ?? run.last;
  if (event.step !== undefined && !run.steps.includes(event.step)) run.steps.push(event.step);
  ON[event.event]?.(event);
  for (const { url, title } of event.sources ?? []) run.sources.push({ step: event.step, seq: event.seq, url, title });
  for (const file of event.files ?? []) run.items.push({ step: event.step, seq: event.seq, file });
}
function addText({ step, seq, text }) {
  const last = run.items.at(-1);
  if (last?.text !== undefined && last.step === step) last.text += text;
  else run.items.push({ step, seq, text });
}
const ON = {
  step_start(event) {
    run.id = event.run_id;
    if (!event.continued) mark(event, "from");
  },
  text_delta: addText,
  text_end(event) {
    const last = run.items.findLast((one) => one.text !== undefined && one.step === event.step);
    if (event.whole !== undefined && last) last.text = event.whole;
  },
  tool_call_start(event) {
    const { step, seq, call_id, name } = event;
    run.items.push({ step, seq, call_id, name, arguments: "", state: "write" });
    mark(event, "from");
  },
  tool_call_delta(event) { callOf(event).arguments += event.delta; },
  tool_call_end(event) {
    const call = callOf(event);
    const state = call.state === "write" ? "wait" : call.state; // a tool may run already
    Object.assign(call, { arguments: event.whole ?? call.arguments, state });
    mark(event, "written");
  },
  approval_requested(event) {
    const call = callOf(event);
    Object.assign(call, { state: "ask", approval: event.approval_id, approvals: event.approvals });
    if (!isLong(call.arguments)) call.arguments = shown(event.arguments); // defaults included
    mark(event, "asked");
  },
  approval_resolved(event) {
    const edited = event.arguments && { arguments: shown(event.arguments), isEdited: true };
    Object.assign(callOf(event), { state: event.approved ? "wait" : "bad", reason: event.reason ?? "" }, edited);
    mark(event, "decided");
  },
  tool_started(event) {
    callOf(event).state = "work";
    mark(event, "began");
  },
  tool_progress(event) { callOf(event).progress = event.value; },
  observation(event) {
    const isOk = event.outcome === "ok", call = callOf(event);
    const note = event.outcome === "denied" ? call.reason : NOTES[event.outcome];
    const result = isOk ? event.result ?? "" : note ?? shown(event.error ?? "").replace(/^Error: /, "");
    Object.assign(call, { state: isOk ? "ok" : "bad", outcome: event.outcome, result });
    mark(event, "to");
  },
  stream_end(event) { mark(event, "to"); },
  attempt_discarded(event) {
    const isKept = (one) => one.step !== event.step || one.seq < event.from_seq;
    Object.assign(run, { items: run.items.filter(isKept), sources: run.sources.filter(isKept) });
    for (const key of Object.keys(run.marks)) if (key.startsWith(`${event.step}/`)) delete run.marks[key];
  },
  run_end(event) { Object.assign(run, { outcome: event.outcome, words: event.words }); },
};

// When this page saw it, until the server's times are here; what comes late, behind a cut or a reload, has none.
function mark(event, name) {
  if (!run.isLate) (run.marks[keyOf(event)] ??= {})[name] ??= Date.now();
}
async function getTimes(of = run) {
  try {
    const sent = Date.now(), answer = await fetch(`times/${encodeURIComponent(chat)}`, { signal: place.signal });
    if (!answer.ok) return;
    const { now, runs } = await answer.json();
    const ahead = (sent + Date.now()) / 2 - now; // of the server's clock
    for (const marks of Object.values(runs)) {
      for (const key of Object.keys(marks)) for (const name of ["from", "to", "written", "asked", "decided", "began", "at"]) {
        if (marks[key][name] !== undefined) marks[key][name] += ahead;
      }
    }
    times = runs;
  } catch {
    return; // the page's own times stand
  } finally {
    if (of) of.isLate = false;
  }
}

// -- reading -------------------------------------------------------------------------------------------------------

const QUIET_MS = 40_000; // the server sends a comment every 15 s

async function* frames(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  signal.addEventListener("abort", () => reader.cancel().catch(() => {}), { once: true });
  let rest = "", id, data;
  while (true) {
    let timer;
    const quiet = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("quiet")), QUIET_MS); });
    const { done, value } = await Promise.race([reader.read(), quiet]).finally(() => clearTimeout(timer));
    if (done) return;
    const lines = value.split("\n");
    lines[0] = rest + lines[0]; // an image is one line of many pieces
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("data: ")) data = data === undefined ? line.slice(6) : `${data}\n${line.slice(6)}`;
      else if (line === "" && data !== undefined) {
        yield { id, event: JSON.parse(data) };
        id = data = undefined;
      }
    }
  }
}

// Waits longer each time, at most 5 s; less when the network is back, or somebody looks.
const pause = (fails, signal) => new Promise((done) => {
  const timer = setTimeout(end, Math.min(250 * 2 ** fails, 5000));
  const ends = [[window, "online"], [document, "visibilitychange"], [signal, "abort"]];
  function end() {
    clearTimeout(timer);
    for (const [target, name] of ends) target.removeEventListener(name, end);
    done();
  }
  for (const [target, name] of ends) target.addEventListener(name, end);
});

// Reads the run that goes on until it ends or rests: from its beginning, or behind the last frame that it had.
async function read() {
  reading?.abort();
  const own = reading = new AbortController(), { signal } = own;
  place.signal.addEventListener("abort", () => own.abort(), { once: true });
  run ??= newRun();
  buttons();
  for (let fails = 0; !signal.aborted; fails += 1) {
    try {
      const headers = run.last ? { "last-event-id": run.last } : {};
      const answer = await fetch(`${base()}/events`, { headers, signal });
      if ([204, 403, 404, 410].includes(answer.status)) { // nothing goes on
        reading = null;
        return run.outcome === null ? load({ goesOn: false }) : ended();
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      say("Answering …", "busy");
      run.cutAt = 0;
      if (run.isLate) getTimes();
      for await (const frame of frames(answer.body, signal)) {
        if (signal.aborted) return;
        fails = 0;
        take(frame);
        draw();
        const { event } = frame;
        if (event.event === "run_end" && !["left", "interrupted"].includes(event.outcome)) { // another process may go on
          reading = null;
          return ended();
        }
      }
    } catch {
      if (signal.aborted) return;
    }
    Object.assign(run, { isLate: true, cutAt: run.cutAt || Date.now() });
    if (fails || run.outcome === null) say("Connection lost. Coming back …", "lost");
    await pause(fails, signal);
  }
}

async function ended() {
  await getTimes();
  draw();
  sayEnd();
  buttons();
}

// -- asking --------------------------------------------------------------------------------------------------------

const REFUSED = {
  decided: "Somebody else has decided about this call already.",
  nothing_waits: "No call waits for this decision any more.",
  running: "Another answer is still being written in this conversation.",
  waiting: "A call waits for a decision in this conversation.",
};
const why = ({ code, message }) => sentence(REFUSED[code] ?? message);
// Posts until the server has answered; the same request twice counts once. Returns why it was refused, or null.
async function post(path, body, signal) {
  for (let fails = 0; ; fails += 1) {
    const leaving = new AbortController(), both = AbortSignal.any([leaving.signal, signal]);
    try {
      const headers = { "content-type": "application/json" };
      const answer = await fetch(`${base()}/${path}`, { method: "POST", body, headers, signal: both });
      if (answer.ok) return null;
      if (![502, 503, 504].includes(answer.status)) return (await answer.json()).error;
    } catch {
      signal.throwIfAborted();
    } finally {
      leaving.abort(); // the run goes on: the reader reads it
    }
    say("No connection. Trying again …", "lost");
    await pause(fails, signal);
  }
}

async function send(text) {
  at("empty")?.remove();
  history.replaceState(null, "");
  const mine = you(text), own = sending = new AbortController(), here = place;
  here.signal.addEventListener("abort", () => own.abort(), { once: true });
  say("Sending …", "busy");
  buttons();
  const message = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
  const body = JSON.stringify({ id: chat, messages: [message], trigger: "submit-message" });
  const refused = await post("events", body, own.signal).catch(() => ({ message: "Not sent." }));
  if (place !== here) return;
  sending = null;
  if (refused) {
    mine.remove();
    if (!at("text").value) at("text").value = text;
    await load();
    return note(refused);
  }
  others.postMessage(chat);
  run = null;
  read();
}

// Decides about a call; `edited` are arguments to run it with, as JSON.
async function decide(call, approved, edited = "") {
  const here = place;
  call.state = "wait";
  draw();
  const part = { type: `tool-${call.name}`, toolCallId: call.call_id, state: "approval-responded", input: {},
    approval: { id: call.approval, approved } };
  const message = { id: run.id, role: "assistant", parts: [part] };
  const beside = edited && `"editedArgs":{${JSON.stringify(call.approval)}:${edited}},`;
  const body = `{${beside}${JSON.stringify({ id: chat, messages: [message], trigger: "submit-message", messageId: run.id }).slice(1)}`;
  say(approved ? "Approving …" : "Denying …", "busy");
  const refused = await post("events", body, here.signal).catch(() => null); // left, then
  if (place !== here) return;
  if (refused?.code === "edited") { // the call goes on waiting
    Object.assign(call, { state: "ask", refused: why(refused) });
    paint();
    sayEnd();
    return call.node.querySelector("textarea").focus();
  }
  others.postMessage(chat);
  if (!refused) return read();
  await load();
  note(refused);
}

async function stop() {
  if (sending) return sending.abort();
  if (!isBusy()) return;
  const here = place, rests = reading === null;
  say("Stopping …", "busy");
  const refused = await post("stop", "{}", here.signal).catch(() => null);
  if (place !== here) return;
  others.postMessage(chat);
  if (refused) note(refused);
  else if (rests) read();
}

// Says what the server has refused, below the answer, where it stays and is read out.
function note(refused) {
  at("log").append(make("p", "end bad", why(refused)));
  if (sticks) at("log").scrollTop = at("log").scrollHeight;
}
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

// -- what is finished, in the shape of the AI SDK --------------------------------------------------------------------

const STATES = { "input-streaming": "write", "input-available": "wait", "approval-requested": "ask",
  "approval-responded": "wait", "output-available": "ok", "output-error": "bad", "output-denied": "bad" };

// Gets until the server has answered; returns null if the conversation was left meanwhile.
async function get(path, here) {
  for (let fails = 0; ; fails += 1) {
    try {
      const answer = await fetch(path, { signal: here.signal });
      if (answer.status < 502) return answer;
    } catch {
      if (here.signal.aborted) return null;
    }
    say("No connection. Trying again …", "lost");
    await pause(fails, here.signal);
  }
}

// Shows a conversation as the server has it, then reads the run that goes on.
async function load({ goesOn = true } = {}) {
  const here = place, messages = [];
  for (let before; before !== null;) { // one answer has the latest hundred runs
    const answer = await get(before === undefined ? base() : `${base()}?before=${encodeURIComponent(before)}`, here);
    if (!answer) return;
    if (answer.status === 404) return welcome();
    if (!answer.ok) return say("This conversation cannot be shown.", "bad");
    const page = await answer.json();
    messages.unshift(...page.messages);
    before = page.before ?? null;
  }
  await getTimes();
  if (place !== here) return;
  at("log").setAttribute("aria-live", "off"); // it is not new
  at("log").replaceChildren();
  for (const message of messages) {
    if (message.role === "user") {
      run = null;
      you(message.parts.map((part) => part.text ?? "").join(""));
      continue;
    }
    finished(message);
    if (run.outcome === "answered" ? run.items.some((one) => one.approval) : message !== messages.at(-1)) await replay();
    if (place !== here) return;
  }
  setTimeout(() => at("log").setAttribute("aria-live", "polite"), 500);
  draw();
  run ??= Object.assign(newRun(), { isLate: true });
  if (goesOn && run.outcome !== "answered") read();
  else {
    run.outcome ??= "lost";
    sayEnd();
    buttons();
  }
}

// The log has more of a run than its history: the answer that broke off, and that arguments were edited.
async function replay() {
  const { signal } = place, seen = [];
  try {
    const answer = await fetch(`${base()}/events`, { headers: { "last-event-id": run.last }, signal });
    if (answer.status !== 200) return;
    for await (const frame of frames(answer.body, signal)) seen.push(frame);
  } catch {
    return; // the history stands
  }
  if (signal.aborted) return;
  seen.forEach(take);
  paint();
}

function finished(message) {
  run = newRun(message.id);
  let step = -1;
  for (const part of message.parts) {
    if (part.type === "step-start") run.steps.push(step += 1);
    else if (part.type === "text") addText({ step, text: part.text });
    else if (part.type === "file") run.items.push({ step, file: { media_type: part.mediaType, url: part.url } });
    else if (part.type.startsWith("source-")) run.sources.push({ step, url: part.url, title: part.title });
    else if (part.toolCallId) {
      run.items.push({ step, call_id: part.toolCallId, name: part.type.slice(5), approval: part.approval?.id,
        arguments: shown(part.input ?? ""), state: STATES[part.state], outcome: part.state === "output-denied" ? "denied" : "",
        result: part.output ?? part.errorText?.replace(/^Error: /, "") ?? (part.state === "output-denied" ? part.approval.reason : undefined) });
    }
  }
  const { outcome = "answered", words = "" } = times[run.id]?.end ?? {};
  Object.assign(run, { outcome: run.items.some((one) => one.state === "ask") ? "suspended" : outcome, words,
    last: `${message.id.split("/").at(-1)}.0`, isLate: true, isStale: true });
  paint();
}

function welcome() {
  at("log").replaceChildren(at("welcome").content.cloneNode(true));
  for (const button of at("empty").querySelectorAll("button")) {
    button.addEventListener("click", () => { if (!isBusy()) send(button.textContent); });
  }
  run = null;
  say(!history.state?.isNew ? "There is no conversation at this address; a new one can begin here." : "");
  buttons();
  draw();
}

// -- drawing, once a frame -----------------------------------------------------------------------------------------

const isBusy = () => reading !== null || sending !== null || run?.outcome === "suspended";
const asked = () => run?.items.find((one) => one.state === "ask");
const unknown = () => run?.items.find((one) => one.outcome === "unknown");
const ENDS = { answered: "Answered", interrupted: "Broken off", cancelled: "Stopped", lost: "There is no answer" };
const waits = () => (asked() || !unknown() ? `Waiting for you: approve or deny ${asked()?.name ?? "a call"}`
  : `Waiting: find out whether ${unknown().name} took effect, or stop`);
const end = () => (run?.outcome === "suspended" ? waits() : ENDS[run?.outcome] ?? (run?.words ? sentence(run.words).slice(0, -1) : ""));
function say(text, kind = "") {
  put(at("status"), text);
  at("status").dataset.kind = kind;
  put(at("alert"), kind === "ask" ? `${text}.` : "");
  document.title = `${kind === "ask" ? "● Waiting for you – " : kind === "busy" ? "Answering – " : ""}A run, as it happens`;
}
const sayEnd = () => say(end(), run?.outcome === "suspended" ? "ask" : "");
function buttons() {
  const isFocused = document.activeElement === at("stop");
  at("stop").hidden = !isBusy();
  at("send").hidden = isBusy();
  if (isFocused && !isBusy()) at("text").focus();
}
function you(text) {
  const node = make("p", "you", text);
  node.prepend(make("span", "unseen", "You: "));
  at("log").append(node);
  sticks = true;
  at("log").scrollTop = at("log").scrollHeight;
  return node;
}
let drawing = 0;
function draw() {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    if (run) paint();
    timeline();
  });
}
let sticks = true; // the log stays at its end until somebody scrolls up
const isBelow = () => at("log").scrollHeight - at("log").scrollTop - at("log").clientHeight < 80;

const WORDS = { write: "writing arguments …", wait: "waits", ask: "needs your approval", work: "runs …", ok: "done", bad: "failed" };
const BAD = { denied: "denied", cancelled: "stopped", skipped: "not run", timed_out: "timed out", unknown: "its end is not known" };

function paint() {
  run.node.setAttribute("aria-busy", String(reading !== null)); // read out once it is whole
  const nodes = run.items.map((item) => item.node ??= item.text !== undefined ? make("p", "said") : item.file ? fileNode(item) : callNode(item));
  const sources = Object.values(Object.groupBy(run.sources, (one) => one.url ?? ` ${one.title}`)).map(([first]) => first);
  if (sources.length) nodes.push(sourcesNode(sources));
  if (run.outcome && !["answered", "suspended", "left"].includes(run.outcome)) {
    nodes.push(run.node.querySelector(".end") ?? make("p", "end"));
    put(nodes.at(-1), end());
  }
  for (const node of [...run.node.children]) if (!nodes.includes(node)) node.remove();
  nodes.forEach((node, index) => {
    if (run.node.children[index] !== node) run.node.insertBefore(node, run.node.children[index] ?? null);
  });
  for (const item of run.items) {
    if (item.text !== undefined) put(item.node, item.text.trimEnd());
    else if (item.call_id !== undefined) paintCall(item);
  }
  if (sticks) at("log").scrollTop = at("log").scrollHeight;
  below();
}

function below() {
  at("down").hidden = isBelow();
  put(at("down"), asked() ? `${asked().name} waits for you` : "Newest");
}

function callNode(call) {
  const node = make("div"), head = make("p", "head");
  node.setAttribute("role", "group");
  node.setAttribute("aria-label", `Call of ${call.name}`);
  head.append(make("span", "name", call.name), make("span", "state"));
  node.append(head, make("div", "arguments"));
  return node;
}

const isPage = (url) => /^https?:\/\//i.test(url);
function linkTo(url, text) {
  const link = make("a", "", text);
  link.href = url;
  if (isPage(url)) {
    Object.assign(link, { target: "_blank", rel: "noopener noreferrer" });
    link.append(make("span", "unseen", " (opens in a new tab)"));
  }
  return link;
}

// An image, and a way to save any file. A data: URL is never opened as a page.
function fileNode({ file: { media_type: type, url } }) {
  const node = make("figure", "file"), isData = url.startsWith("data:"), kind = type.startsWith("image/") ? "image" : "file";
  const number = run.items.filter((one) => one.file && one.node).length + 1;
  const name = `${kind}-${number}.${/^\w+\/(\w+)/.exec(type)?.[1] ?? "bin"}`; // image/svg+xml is svg
  if (kind === "image" && isData) {
    const image = make("img");
    image.addEventListener("load", () => { if (sticks) at("log").scrollTop = at("log").scrollHeight; below(); });
    Object.assign(image, { src: url, alt: `Image ${number} of this answer, made by the model` });
    node.append(image);
  }
  if (isData) node.append(Object.assign(linkTo(url, `Download ${name}`), { download: name }));
  else node.append(isPage(url) ? linkTo(url, name) : make("span", "", name));
  return node;
}

function sourcesNode(sources) {
  const found = run.node.querySelector(".sources"), text = shown(sources);
  if (found?.dataset.text === text) return found;
  const node = make("div", "sources"), list = make("ul");
  node.dataset.text = text;
  for (const { url, title } of sources) {
    const line = make("li"), isLink = url && isPage(url) && URL.canParse(url);
    line.append(isLink ? linkTo(url, title ?? url) : title ?? url);
    if (isLink && title) line.append(" ", make("span", "host", new URL(url).host));
    list.append(line);
  }
  node.append(make("p", "", "Sources"), list);
  return node;
}

function part(node, name, wanted, build) {
  const found = node.querySelector(`.${name}`);
  if (wanted && !found) node.append(build());
  else if (!wanted && found) found.remove();
  return node.querySelector(`.${name}`);
}

// Shows an object as names with values, and anything else as it is: arguments that grow are no JSON yet.
function putValue(node, value) {
  const text = shown(value);
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  let parsed = value;
  try { parsed = isLong(text) ? text : JSON.parse(text); } catch { /* it grows, or is a text */ }
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) return node.replaceChildren(make("code", "", text));
  const list = make("dl");
  for (const [name, one] of Object.entries(parsed)) {
    const pair = make("div");
    pair.append(make("dt", "", name.replaceAll("_", " ")), make("dd", "", shown(one)));
    list.append(pair);
  }
  node.replaceChildren(list);
}

function paintCall(call) {
  const { node } = call;
  const className = `call ${call.state}`;
  if (node.className !== className) node.className = className;
  const progress = call.state === "work" ? call.progress : undefined;
  put(node.querySelector(".state"), progress?.text ?? stateOf(call));
  putValue(node.querySelector(".arguments"), call.arguments);
  const bar = part(node, "bar", progress, () => {
    const made = make("progress", "bar");
    made.setAttribute("aria-label", `Progress of ${call.name}`);
    return made;
  });
  if (bar) Object.assign(bar, { max: progress.of, value: progress.done });
  part(node.firstChild, "edited", call.isEdited, () => make("span", "edited", "edited"));
  const asks = call.state === "ask" && reading === null;
  part(node, "choice", asks && call.draft === undefined, () => choiceNode(call));
  const editor = part(node, "editor", asks && call.draft !== undefined, () => editorNode(call));
  if (editor) {
    put(editor.querySelector(".wrong"), call.refused ?? "");
    editor.querySelector("textarea").ariaInvalid = String(Boolean(call.refused));
  }
  const result = part(node, "result", call.result !== undefined && call.result !== "", () => make("div", "result"));
  if (result) putValue(result, call.result);
}

function button(kind, word, about, act) {
  const node = make("button", kind, word);
  node.type = "button";
  node.setAttribute("aria-label", about);
  node.addEventListener("click", act);
  return node;
}
// A decision by keyboard leaves the focus at the text; a touch would open the keyboard on the screen.
const leave = (event) => { if (event.detail === 0) at("text").focus(); };

function choiceNode(call) {
  const node = make("div", "choice");
  for (const [kind, word] of [["approve", "Approve"], ["deny", "Deny"]]) {
    node.append(button(kind, word, `${word} ${call.name}`, (event) => { leave(event); decide(call, kind === "approve"); }));
  }
  if (!(call.approvals > 1)) { // the others would not have seen it
    node.append(button("quiet edit", "Edit", `Edit the arguments of ${call.name}`, () => {
      call.draft = isLong(call.arguments) ? call.arguments : JSON.stringify(JSON.parse(call.arguments), null, 2);
      paint();
      call.node.querySelector("textarea").focus();
    }));
  }
  return node;
}

let editors = 0;
function editorNode(call) {
  const node = make("div", "editor"), id = `edit-${editors += 1}`, label = make("label", "", `Arguments of ${call.name}, as JSON`);
  const text = Object.assign(make("textarea"), { id, value: call.draft, spellcheck: false });
  const wrong = Object.assign(make("p", "wrong"), { id: `${id}-wrong` }), choice = make("div");
  node.setAttribute("aria-live", "off"); // the focus is here
  label.htmlFor = id;
  text.setAttribute("aria-describedby", wrong.id);
  text.addEventListener("input", () => { call.draft = text.value; });
  choice.append(
    button("approve", "Approve with changes", `Approve with changes to ${call.name}`, (event) => {
      if (call.refused = wrongOf(text.value)) {
        paint();
        return text.focus();
      }
      leave(event);
      const isSame = JSON.stringify(JSON.parse(text.value)) === JSON.stringify(JSON.parse(call.arguments));
      decide(call, true, isSame && !isLong(text.value) ? "" : text.value);
    }),
    button("quiet", "Cancel", `Cancel editing ${call.name}`, () => {
      call.draft = call.refused = undefined;
      paint();
      call.node.querySelector(".edit").focus();
    }),
  );
  node.append(label, text, wrong, choice);
  return node;
}
function wrongOf(text) {
  try {
    const value = JSON.parse(text);
    return value === null || typeof value !== "object" || Array.isArray(value) ? "Write a JSON object: { … }" : "";
  } catch (error) {
    return `This is not JSON yet: ${sentence(error.message)}`;
  }
}
const stateOf = (call) => (call.state === "bad" ? BAD[call.outcome] ?? "failed" : WORDS[call.state]);

// -- the timeline --------------------------------------------------------------------------------------------------

const KEPT_MS = 400; // of a time in which nothing happens
function span(ms) {
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.round(ms / 60_000);
  return minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}

function rowsOf(now) {
  const server = times[run.id] ?? {}, rows = [];
  const marks = (one) => ({ ...run.marks[keyOf(one)], ...server[keyOf(one)] });
  for (const step of run.steps) {
    const { from, to } = marks({ step });
    const took = from === undefined ? "time unknown" : to ? span(to - from) : reading ? "writes …" : "";
    rows.push({ name: `Step ${step + 1}: model`, took, bars: from === undefined ? [] : [["model", from, to ?? now]] });
    for (const call of run.items.filter((one) => one.call_id && one.step === step)) {
      const { from: begun, written, asked, decided, began, to: done } = marks(call);
      const bars = [], about = /:\s*"([^"]{1,24})"/.exec(call.arguments)?.[1] ?? "";
      const isOver = ["ok", "bad"].includes(call.state);
      if (begun) bars.push(["write", begun, written ?? now]);
      if (written) bars.push(["wait", written, Math.max(began ?? done ?? now, written)]);
      if (began) bars.push([call.outcome === "unknown" ? "wait" : call.state === "bad" ? "bad" : "work", began, done ?? now]);
      const notes = [isOver ? (began && done && call.outcome !== "unknown" ? span(done - began) : call.state === "ok" ? "time unknown" : "") : WORDS[call.state]];
      if (call.state === "bad") notes.unshift(stateOf(call));
      if (done && to && done < to) notes.push("done while the model wrote");
      if (asked && decided && decided - asked > 1000) notes.push(`after ${span(decided - asked)} of waiting for you`);
      rows.push({ name: `${call.name} ${about}`, took: notes.filter(Boolean).join(", "), bars });
    }
  }
  return rows;
}

// Returns where a time stands, without the times in which nobody did anything: minutes of waiting would leave no room.
function axis(rows) {
  const busy = rows.flatMap((row) => row.bars.filter(([kind]) => kind !== "wait").map(([, from, to]) => [from, to]));
  busy.sort((one, other) => one[0] - other[0]);
  const gaps = [], first = busy[0]?.[0] ?? 0;
  let last = busy[0]?.[1] ?? 0;
  for (const [from, to] of busy) {
    if (from - last > 2 * KEPT_MS) gaps.push([last, from, from - last - KEPT_MS]);
    last = Math.max(last, to);
  }
  const where = (when) => when - first
    - gaps.reduce((sum, [from, to, cut]) => sum + cut * Math.min(Math.max((when - from) / (to - from), 0), 1), 0);
  return { where, length: where(last), cut: gaps.reduce((sum, gap) => sum + gap[2], 0) };
}

function timeline() {
  const rows = run ? rowsOf(run.cutAt || Date.now()) : [], { where, length, cut } = axis(rows), list = at("time");
  at("none").hidden = rows.length > 0;
  at("legend").hidden = !rows.length;
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach((row, index) => {
    const node = list.children[index] ?? list.appendChild(rowNode());
    put(node.querySelector(".label"), row.name);
    put(node.querySelector(".took"), row.took);
    const track = node.querySelector(".track");
    while (track.children.length > row.bars.length) track.lastChild.remove();
    row.bars.forEach(([kind, from, to], place) => {
      const bar = track.children[place] ?? track.appendChild(make("i"));
      if (bar.className !== kind) bar.className = kind;
      const left = Math.min(where(from), length), right = Math.min(where(to), length), whole = Math.max(length, 1000);
      bar.style.left = `${left / whole * 100}%`;
      bar.style.width = `${Math.max(right - left, 0) / whole * 100}%`;
    });
  });
  put(at("clock"), length ? `${span(length)}${cut > 1000 ? ` + ${span(cut)} of waiting` : ""}` : "");
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
  if (!text) return;
  if (isBusy()) return say(run?.outcome === "suspended" ? end() : "Still answering; Escape stops it.", run?.outcome === "suspended" ? "ask" : "busy");
  at("text").value = "";
  send(text);
});
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("form").requestSubmit();
  }
});
document.addEventListener("keydown", (event) => { // what waits for a decision is stopped by its button alone
  if (event.key === "Escape" && !event.isComposing && (reading || sending)) stop();
});
at("stop").addEventListener("click", stop);
at("new").addEventListener("click", () => {
  history.pushState({ isNew: true }, "", `#${crypto.randomUUID()}`);
  open();
});
at("down").addEventListener("click", () => { at("log").scrollTop = at("log").scrollHeight; });
at("log").addEventListener("scroll", () => { sticks = isBelow(); below(); });
new ResizeObserver(() => { if (sticks) at("log").scrollTop = at("log").scrollHeight; below(); }).observe(at("log"));
others.onmessage = ({ data }) => { if (data === chat && !sending && !reading) load(); };
setInterval(() => { if (reading && run) draw(); }, 100);
const narrow = matchMedia("(max-width: 48rem)"), fold = () => { at("fold").open = !narrow.matches; };
narrow.addEventListener("change", fold);

async function open() {
  place.abort();
  place = new AbortController();
  reading = sending = run = null;
  times = {};
  chat = location.hash.slice(1);
  at("log").replaceChildren();
  say("");
  buttons();
  if (history.state?.isNew) welcome(); // nobody has said anything there
  else await load();
  if (matchMedia("(pointer: fine)").matches) at("text").focus();
}
addEventListener("hashchange", () => open());
fold();
if (!location.hash.slice(1)) history.replaceState({ isNew: true }, "", `#${crypto.randomUUID()}`);
await open();
document.documentElement.dataset.ready = "yes";
