// Reads runs as AG-UI's client does, its verifier on. In: lines of {responses: [{body, answers}]}. Out: a line for each.
// Before a response the client answers: all interrupts, and the calls of `answers` ([id, content]).
import { readFileSync, writeFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";

const complaints = [];
for (const level of ["warn", "error"]) console[level] = (...words) => complaints.push(words.map(String).join(" "));

const pieces = (body) => {
  const bytes = new TextEncoder().encode(body);
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += 1009) controller.enqueue(bytes.slice(at, at + 1009));
      controller.close();
    },
  });
};

const read = async ({ responses }) => {
  complaints.length = 0;
  const posted = [];
  const ends = [];
  const customs = [];
  let body;
  const fetch = async (_, request) => {
    posted.push(JSON.parse(request.body));
    return new Response(pieces(body), { headers: { "content-type": "text/event-stream" } });
  };
  const initialMessages = [{ id: "u", role: "user", content: "Go." }];
  const agent = new HttpAgent({ url: "http://agent", threadId: "t", fetch, initialMessages });
  agent.subscribe({
    onRunFinishedEvent: ({ outcome, interrupts, pendingToolCallIds, result, event }) =>
      ends.push({ outcome, interrupts, pendingToolCallIds, result, usage: event.usage, metadata: event.metadata }),
    onRunErrorEvent: ({ event: { code, message } }) => ends.push({ outcome: "error", code, message }),
    onCustomEvent: ({ event }) => customs.push([event.name, event.value]),
  });
  try {
    for (const [at, response] of responses.entries()) {
      const payload = { approved: true };
      const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
      for (const [id, content] of response.answers)
        agent.addMessage({ id: `answer ${id}`, role: "tool", toolCallId: id, content });
      body = response.body;
      await agent.runAgent({ runId: `run ${at}`, ...(resume.length ? { resume } : {}) });
    }
  } catch (error) {
    complaints.push(String(error));
  }
  return { messages: agent.messages, ends, customs, posted, complaints: [...complaints] };
};

const found = [];
for (const line of readFileSync(process.argv[2], "utf8").split("\n")) found.push(JSON.stringify(await read(JSON.parse(line))));
writeFileSync(process.argv[3], found.join("\n"));
