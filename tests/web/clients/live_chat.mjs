// A page of the AI SDK against a server: asks, decides, is loaded anew in the middle of an answer, and asks once more.
import { readFileSync, writeFileSync } from "node:fs";

const [given, found] = process.argv.slice(2);
const { url, version } = JSON.parse(readFileSync(given, "utf8").split("\n")[0]);
const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(
  version === 7 ? "ai" : "ai6"
);
const errors = [];

class State {
  status = "ready";
  constructor(messages) {
    this.messages = messages;
  }
  pushMessage = (message) => (this.messages = [...this.messages, message]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) => (this.messages = this.messages.map((one, place) => (place === at ? message : one)));
  snapshot = (value) => structuredClone(value);
}

class Chat extends AbstractChat {
  constructor(messages) {
    super({
      id: "k",
      state: new State(messages),
      transport: new DefaultChatTransport({
        api: `${url}/`,
        prepareReconnectToStreamRequest: ({ id }) => ({ api: `${url}/${id}/stream` }),
      }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onError: (error) => errors.push(error.message.slice(0, 300)),
    });
  }
}

const load = async () => (await (await fetch(`${url}/k`)).json()).messages;
// What a page shows: the fields that are there, in a fixed order.
const shown = (messages) =>
  messages.map(({ id, role, parts }) => ({
    id,
    role,
    parts: parts.map((part) =>
      Object.fromEntries(Object.entries(part).filter(([name, value]) => value !== undefined && name !== "preliminary").sort()),
    ),
  }));
const until = async (holds) => {
  while (!holds()) await new Promise((done) => setTimeout(done, 5));
};

const chat = new Chat([]);
await chat.sendMessage({ text: "you" });
await chat.sendMessage({ text: "pay" });
const asked = chat.messages.at(-1).parts.find((part) => part.type === "tool-pay");
await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
await until(() => errors.length || (chat.status === "ready" && chat.messages.at(-1)?.parts.at(-1)?.text?.startsWith("Done")));
const decided = { live: shown(chat.messages), loaded: shown(await load()) };

const answering = chat.sendMessage({ text: "slow" });
await until(() => errors.length || chat.messages.at(-1)?.parts.at(-1)?.text?.includes("b"));
const again = new Chat(await load());
const resumed = again.resumeStream();
await until(() => errors.length || again.messages.at(-1)?.parts.at(-1)?.text?.includes("b"));
await fetch(`${url}/release`, { method: "POST" });
await Promise.all([answering, resumed]);
const reloaded = { live: shown(chat.messages), loaded: shown(again.messages) };
await chat.regenerate();
writeFileSync(found, JSON.stringify({ decided, reloaded, errors, regenerated: shown(chat.messages), loaded: shown(await load()) }));
