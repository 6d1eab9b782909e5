// Reads responses as OpenAI's client for node does. In: lines of {name, body, whole, status}. Out: a line for each.
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const asked = { model: "m", messages: [{ role: "user", content: "Go." }] };
const clientOf = (body, type, status) =>
  new OpenAI({
    apiKey: "none",
    baseURL: "http://agent",
    maxRetries: 0,
    fetch: async () => new Response(body, { status, headers: { "content-type": type } }),
  });
const tried = async (read) => {
  try {
    return { message: (await read()).choices[0] };
  } catch (error) {
    return { error: error.error?.message ?? String(error) };
  }
};

for (const line of readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
  const { name, body, whole, status } = JSON.parse(line);
  const streamed = await tried(() => {
    const stream = clientOf(body, "text/event-stream", 200).chat.completions.stream(asked);
    return stream.finalChatCompletion();
  });
  const plain = clientOf(JSON.stringify(whole), "application/json", status);
  console.log(JSON.stringify({ name, streamed, whole: await tried(() => plain.chat.completions.create(asked)) }));
}
