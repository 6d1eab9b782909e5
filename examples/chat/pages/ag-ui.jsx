// AG-UI: `HttpAgent` checks what it reads. It begins with the messages that are finished, and reads the rest anew.
import { HttpAgent, buildResumeArray } from "@ag-ui/client";
import { useEffect, useReducer, useState } from "react";
import { Call, Said, Talk, Thought, You, chat, isNew, show, stop } from "./parts.jsx";

async function load() {
  const answer = await fetch(`/chats/${encodeURIComponent(chat)}/ag-ui`);
  return answer.ok ? answer.json() : { messages: [] }; // 404: nobody has said anything
}

const agent = new HttpAgent({ url: "/chats/ag-ui", threadId: chat });
const decided = {}; // by interrupt: a run is resumed once all are
const edited = {}; // arguments, by call

function Page({ known }) {
  const [, draw] = useReducer((count) => count + 1, 0);
  const [error, setError] = useState();
  useEffect(() => {
    const onRunErrorEvent = ({ event }) => setError(event);
    agent.subscribe({ onMessagesChanged: draw, onRunInitialized: draw, onRunFinishedEvent: draw, onRunErrorEvent });
    join(known);
  }, []);
  const run = async (resume) => {
    setError();
    await agent.runAgent(resume && { resume }).catch(setError);
    draw();
  };
  // The user's last message again is the same request again: its whole answer is read once more, as far as it is.
  const join = ({ messages, unfinished }) => {
    agent.setMessages(messages);
    agent.pendingInterrupts = [];
    return unfinished && run();
  };
  const send = (content) => {
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return run();
  };
  const end = async () => {
    await stop();
    if (!agent.isRunning) await join(await load());
  };
  const decide = (interrupt, approved, editedArgs) => {
    decided[interrupt.id] = { status: "resolved", payload: { approved, editedArgs } };
    if (editedArgs) edited[interrupt.toolCallId] = editedArgs;
    const own = agent.pendingInterrupts.map(({ id }) => [id, decided[id]]);
    if (own.every(([, response]) => response)) run(buildResumeArray(agent.pendingInterrupts, Object.fromEntries(own)));
    draw();
  };

  const { messages } = agent, isBusy = agent.isRunning;
  const result = (id) => messages.find((one) => one.role === "tool" && one.toolCallId === id);
  const progress = (id) => messages.findLast((one) => one.activityType === "tool_progress" && one.content.toolCallId === id);
  const called = ({ id, function: { name, arguments: input } }) => {
    const answer = result(id), outcome = answer?.metadata?.outcome;
    const interrupt = agent.pendingInterrupts.find((one) => one.toolCallId === id && !decided[one.id]);
    const shared = { name, input: edited[id] ?? input, decide: (...choice) => decide(interrupt, ...choice) };
    const output = outcome === "denied" ? undefined : answer?.content;
    if (answer) return <Call key={id} {...shared} state={outcome ? "bad" : "ok"} outcome={outcome} output={output} />;
    return <Call key={id} {...shared} state={interrupt ? "ask" : "work"} progress={progress(id)?.content.value} />;
  };
  const shown = ({ id, role, content, toolCalls = [] }) => {
    if (role === "user") return <You key={id}>{content}</You>;
    if (role === "reasoning") return <Thought key={id}>{content}</Thought>;
    if (role !== "assistant") return null;
    return <div key={id} className="answer">{content && <Said>{content}</Said>}{toolCalls.map(called)}</div>;
  };
  return (
    <Talk title="A run, by AG-UI" messages={messages} error={error} isBusy={isBusy} send={send} stop={end}
      isWaiting={!isBusy && agent.pendingInterrupts.length > 0}>
      {messages.map(shown)}
    </Talk>
  );
}

show(<Page known={isNew ? { messages: [] } : await load()} />);
