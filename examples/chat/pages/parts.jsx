// What the pages of both clients show: messages with their calls, a place to write, and a line of links.
import { useEffect, useId, useRef, useState } from "react";
import { createRoot } from "react-dom/client";

export const isNew = location.hash.length < 2;
export const chat = isNew ? crypto.randomUUID() : location.hash.slice(1);
history.replaceState(null, "", `#${chat}`);
addEventListener("hashchange", () => location.reload());

export const show = (page) => createRoot(document.getElementById("root")).render(page);
export const stop = () => fetch(`/chats/${encodeURIComponent(chat)}/stop`, { method: "POST" });

// A refusal of the server's is JSON; what the network says is not.
export function words(error) {
  try {
    return JSON.parse(error.message.replace(/^HTTP \d+: /, "")).error.message;
  } catch {
    return error.message;
  }
}

const WORDS = { write: "writing arguments …", wait: "waits", ask: "needs your approval", work: "runs …", ok: "done", bad: "failed" };
const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** A call: its state is a key of WORDS; `decide(approved, editedArgs)` is asked for while it is "ask". */
export function Call({ name, state, outcome, input, output, progress, decide }) {
  return (
    <section className={`call ${state}`} aria-label={`Call of ${name}`}>
      <div className="head">
        <span className="name">{name}</span>
        <span className="state">{progress?.text ?? outcome ?? WORDS[state]}</span>
      </div>
      {input !== undefined && <code className="arguments">{text(input)}</code>}
      {progress && <progress max={progress.of} value={progress.done} aria-label={`Progress of ${name}`} />}
      {output !== undefined && <div className="result"><code>{text(output)}</code></div>}
      {state === "ask" && <Choice name={name} input={input} decide={decide} />}
    </section>
  );
}

function Choice({ name, input, decide }) {
  const [draft, setDraft] = useState(), [wrong, setWrong] = useState(""), id = useId();
  const approve = () => {
    try {
      const edited = JSON.parse(draft);
      if (typeof edited !== "object" || edited === null || Array.isArray(edited)) throw new Error("write an object: { … }");
      decide(true, edited);
    } catch ({ message }) {
      setWrong(message);
    }
  };
  if (draft === undefined) {
    const value = typeof input === "string" ? JSON.parse(input) : input;
    return (
      <div className="choice">
        <button type="button" className="approve" onClick={() => decide(true)}>Approve</button>
        <button type="button" className="deny" onClick={() => decide(false)}>Deny</button>
        <button type="button" className="quiet edit" onClick={() => setDraft(JSON.stringify(value, null, 2))}>Edit</button>
      </div>
    );
  }
  return (
    <div className="editor">
      <label htmlFor={id}>Arguments of {name}, as JSON</label>
      <textarea id={id} autoFocus value={draft} aria-invalid={wrong !== ""} aria-describedby={`${id}-wrong`} spellCheck="false"
        onChange={({ target }) => setDraft(target.value)} onFocus={({ target }) => target.parentNode.scrollIntoView({ block: "nearest" })} />
      <p id={`${id}-wrong`} className="wrong">{wrong}</p>
      <div>
        <button type="button" className="approve" onClick={approve}>Approve with changes</button>
        <button type="button" className="quiet" onClick={() => { setDraft(); setWrong(""); }}>Cancel</button>
      </div>
    </div>
  );
}

/** A page, or the title of a document. */
export const Source = ({ url, title }) => (
  <p className="sources">Source: {url ? <a href={url} target="_blank" rel="noopener noreferrer">{title ?? url}</a> : title}</p>
);

/** A file: an image, or one to save. */
export const File = ({ url, mediaType }) => (
  <figure className="file">
    {url.startsWith("data:image/") ? <img src={url} alt="Made by the model" /> : <a href={url} download="file">Download ({mediaType})</a>}
  </figure>
);

export const You = ({ children }) => <p className="you"><span className="unseen">You: </span>{children}</p>;
export const Said = ({ children }) => <p className="said">{children}</p>;
export const Thought = ({ children }) => <p className="thought">{children}</p>;

const ASKED = ["A weekend in Lisbon or Porto?", "A weekend in Atlantis?", "Tell me the story of Lisbon"];
if (location.pathname === "/use-chat/") ASKED.push("What do the trams of Lisbon look like?"); // AG-UI's messages have no pictures
const PAGES = { "/": "Our own", "/use-chat/": "useChat", "/ag-ui/": "AG-UI" };

/** The page. `messages` are the client's own: a test looks at them. */
export function Talk({ title, messages, error, isBusy, isWaiting, send, stop, children }) {
  const [written, write] = useState("");
  const log = useRef(null), isBelow = useRef(true);
  const [kind, status] = error ? ["bad", words(error)] : isBusy ? ["busy", "Answering …"]
    : isWaiting ? ["ask", "Waiting for your decision"] : ["", ""];
  useEffect(() => {
    document.title = title;
    document.documentElement.dataset.ready = "yes";
  }, [title]);
  useEffect(() => {
    globalThis.look?.(messages, isBusy, error);
    if (isBelow.current) log.current.scrollTop = log.current.scrollHeight;
  });
  const submit = (event) => {
    event.preventDefault();
    if (!written.trim() || isBusy || isWaiting) return;
    isBelow.current = true;
    send(written.trim());
    write("");
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape" && (isBusy || isWaiting)) stop();
    if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  };
  const onScroll = ({ target }) => { isBelow.current = target.scrollHeight - target.scrollTop - target.clientHeight < 80; };
  return (
    <>
      <header>
        <h1>{title}</h1>
        <p id="status" role="status" data-kind={kind}>{status}</p>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([path, name]) => (
            <a key={path} href={path} aria-current={path === location.pathname ? "page" : undefined}>{name}</a>
          ))}
        </nav>
        <button type="button" id="new" className="quiet" onClick={() => location.assign(location.pathname)}>New chat</button>
      </header>
      <main className="only">
        <div id="log" role="log" aria-live="polite" aria-busy={isBusy} aria-label="Messages" tabIndex="0" ref={log} onScroll={onScroll}>
          {messages.length ? children : (
            <section id="empty">
              <h2>Where to?</h2>
              <p>Text streams, tools begin under it, and a booking waits for you. Reload the page in the middle: the run goes on.</p>
              <ul>{ASKED.map((text) => <li key={text}><button type="button" className="quiet" onClick={() => send(text)}>{text}</button></li>)}</ul>
            </section>
          )}
        </div>
        <form id="form" onSubmit={submit}>
          <label htmlFor="text" className="unseen">Message</label>
          <textarea id="text" rows="1" placeholder="Your message" aria-describedby="keys" value={written}
            onChange={({ target }) => write(target.value)} onKeyDown={onKeyDown} />
          {isBusy || isWaiting ? <button type="button" id="stop" className="quiet" onClick={stop}>Stop</button> : <button id="send">Send</button>}
          <p id="keys">Enter sends, Shift+Enter begins a line, Escape stops.</p>
        </form>
      </main>
    </>
  );
}
