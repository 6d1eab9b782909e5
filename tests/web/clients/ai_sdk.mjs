// Has the chats of `ai` read responses: JSON lines in, the client's messages out, one line a chat.
//
//   {"version": 7, "responses": [{"answers": [...], "resumes": false, "body": "data: ..."}]}
//   {"messages": [...], "refused": ["..."], "told": [{"finishReason", "isAbort", "isError"}]}
//
// A response follows `sendMessage`, the answers to what the last one asked (all at once), or a reload of the page.

import { readFileSync, writeFileSync } from 'node:fs';
import * as ai6 from 'ai6';
import * as ai7 from 'ai';

const SDKS = { 6: ai6, 7: ai7 };
const HEADERS = { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' };

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => (this.messages = this.messages.concat(message));
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (at, message) => (this.messages = this.messages.with(at, structuredClone(message)));
  snapshot = thing => structuredClone(thing);
}

function chatOf(sdk, bodies, found) {
  let number = 0;
  const transport = new sdk.DefaultChatTransport({
    api: 'http://agent/',
    fetch: async (url, { body }) => {
      found.posted.push(body);
      return new Response(bodies.shift(), { headers: HEADERS });
    },
  });
  class Chat extends sdk.AbstractChat {}
  return new Chat({
    id: 'chat',
    state: new State(),
    transport,
    generateId: () => `made-${number++}`,
    onToolCall: ({ toolCall }) => void found.called.push([toolCall.toolCallId, toolCall.input]),
    onError: error => found.refused.push(String(error.message ?? error)),
    onFinish: ({ finishReason, isAbort, isError }) => found.told.push({ finishReason, isAbort, isError }),
  });
}

async function answer(chat, { approvalId, approved, reason, toolCallIds, output }) {
  if (approvalId != null) return chat.addToolApprovalResponse({ id: approvalId, approved, reason });
  const parts = chat.messages.at(-1).parts.filter(part => toolCallIds.includes(part.toolCallId));
  const { type, toolCallId } = parts.at(-1);
  return chat.addToolOutput({ tool: type.slice('tool-'.length), toolCallId, output });
}

async function judged({ version, responses }) {
  const found = { refused: [], told: [], called: [], posted: [] };
  const bodies = responses.map(({ body }) => body);
  const chat = chatOf(SDKS[version], bodies, found);
  for (const [number, { answers, resumes }] of responses.entries()) {
    if (number === 0) {
      await chat.sendMessage({ text: 'Go.' });
    } else if (resumes) {
      if (version === 6) chat.messages = chat.messages.slice(0, 1); // 6 adds what it is sent to what it has
      await chat.resumeStream();
    } else {
      for (const one of answers) await answer(chat, one);
      chat.clearError();
      await chat.sendMessage();
    }
  }
  return { messages: chat.messages, status: chat.status, ...found };
}

const [, , input, output] = process.argv;
const lines = readFileSync(input, 'utf8').split('\n').filter(Boolean);
const results = [];
for (const line of lines) {
  try {
    results.push(JSON.stringify(await judged(JSON.parse(line))));
  } catch (error) {
    results.push(JSON.stringify({ messages: [], refused: [`judge: ${error.stack}`], told: [], called: [], posted: [] }));
  }
}
writeFileSync(output, results.join('\n'));
