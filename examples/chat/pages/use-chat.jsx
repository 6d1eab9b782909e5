// useChat of the AI SDK: begins with the messages that are finished, joins the run that goes on, decides, and stops it.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, getToolName, isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { Call, File, Said, Source, Talk, Thought, You, chat, isNew, show, stop } from "./parts.jsx";

async function load() {
  const answer = await fetch(`/chats/${encodeURIComponent(chat)}`);
  return answer.ok ? (await answer.json()).messages : []; // 404: nobody has said anything
}

const editedArgs = {}; // by the id of an approval

function Page({ known }) {
  const { messages, setMessages, status, error, sendMessage, resumeStream, addToolApprovalResponse } = useChat({
    id: chat,
    messages: known,
    resume: !isNew, // GET /chats/{id}/stream
    transport: new DefaultChatTransport({
      api: "/chats",
      body: () => ({ editedArgs }), // with whichever request has the decision
      async fetch(url, request) {
        let last;
        setMessages((now) => { last = now.at(-1); return now; });
        const answer = await fetch(url, request);
        if (answer.status === 204) { // the run has ended since the messages were read
          const ended = await load();
          setMessages((now) => (now.at(-1) === last ? ended : now)); // else somebody has decided meanwhile
        }
        return answer;
      },
    }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const isBusy = status === "submitted" || status === "streaming";
  const isWaiting = !isBusy && messages.at(-1)?.parts.some((part) => part.state === "approval-requested");
  const end = async () => {
    await stop(); // a page that leaves stops nothing
    if (isWaiting) resumeStream();
  };
  const shown = (part, place) => {
    if (part.type === "text") return <Said key={place}>{part.text}</Said>;
    if (part.type === "reasoning") return <Thought key={place}>{part.text}</Thought>;
    if (part.type === "file") return <File key={place} {...part} />;
    if (part.type === "source-url" || part.type === "source-document") return <Source key={place} {...part} />;
    if (!isToolUIPart(part)) return null;
    const decide = (approved, edited) => {
      const { id } = part.approval;
      editedArgs[id] = edited; // undefined is not sent
      addToolApprovalResponse({ id, approved });
    };
    return <Call key={part.toolCallId} name={getToolName(part)} decide={decide} {...shape(part)} />;
  };
  return (
    <Talk title="A run, by useChat" messages={messages} error={error} isBusy={isBusy} isWaiting={isWaiting}
      send={(text) => sendMessage({ text })} stop={end}>
      {messages.map(({ id, role, parts }) =>
        role === "user"
          ? <You key={id}>{parts.map((part) => part.text ?? "").join("")}</You>
          : <div key={id} className="answer" role="group" aria-label="Answer">{parts.map(shown)}</div>,
      )}
    </Talk>
  );
}

const STATES = { "input-streaming": "write", "input-available": "work", "approval-requested": "ask",
  "approval-responded": "wait", "output-available": "ok", "output-error": "bad", "output-denied": "bad" };

function shape({ state, input, output, errorText, preliminary }) {
  if (preliminary) return { state: "work", input, progress: output };
  return { state: STATES[state], input, output: output ?? errorText, outcome: state === "output-denied" ? "denied" : undefined };
}

show(<Page known={isNew ? [] : await load()} />);
