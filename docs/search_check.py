"""Asks the built site's own search: ``python docs/search_check.py``, a step of `make docs`, with node.

Prints the first three pages for each phrase whose first one is not right (``-v``: for all), and fails unless nine of ten begin with a
right one and every phrase has one among the first three.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "build" / "docs" / "site"
FIRST = {
    "fastapi": "start/fastapi/ web/endpoint/",
    "structured output": "guide/structured-output/",
    "human in the loop": "approval/",
    "retry": "guide/retries/",
    "parallel tool calls": "guide/parallel-calls/",
    "resume stream": "web/chats/",
    "install": "start/install/",
    "timeout": "guide/timeouts/",
    "cancel": "guide/timeouts/ guide/steering/",
    "langgraph": "start/coming-from/ frameworks/",
    "anthropic": "providers/anthropic_messages/",
    "json repair": "guide/histories/ providers/deviations/ guide/models-without-tools/",
    "opentelemetry": "see/traces/",
    "mcp": "guide/mcp/",
    "exactly once": "guide/exactly-once/",
    "prompt injection": "guide/untrusted-input/",
    "testing": "see/testing/",
    "token usage": "providers/token-counts/",
    "gemini": "providers/gemini_generate_content/ providers/gemini_interactions/ providers/gemini_live/",
    "ollama": "providers/ollama_chat/",
    "websocket": "guide/sources/ providers/openai_realtime/ examples/responses_websocket/",
    "rate limit": "guide/retries/",
    "bedrock": "providers/bedrock_converse_stream/",
    "pydantic-ai": "start/coming-from/ frameworks/",
    "agent loop": "guide/loops/",
    "redis": "guide/exactly-once/",
    "ctrl-c": "see/debugging/",
    "debug": "see/debugging/",
    "usechat": "web/use-chat/ start/fastapi/",
    "budget": "guide/limits/",
}
"""What somebody looks for, and the pages that answer it: chosen before the search was looked at."""
MORE = {
    "start/install/": "requirements, python version, supported python, trio support",
    "start/first-agent/": "getting started, quickstart, hello world, tutorial",
    "start/fastapi/": "chat ui",
    "start/coming-from/ frameworks/": "langchain, llamaindex, openai agents sdk, crewai, autogen, pydantic ai, pydanticai, "
    "migrate from langchain, use with pydantic-ai, use with openai agents, wrap existing loop",
    "start/when-not/": "when not to use, comparison with langchain, temporal, rag, vector search, embeddings, time travel",
    "guide/tools/": "tool decorator, define a tool, dependency injection, context variable, docstring description, function tools, "
    "optional parameter, enum parameter, nested model, literal types, union types, rename arguments, tools from openapi, tool annotations, "
    "dynamic tools, toolsets",
    "guide/streams/": "streaming arguments, partial json, streaming, show progress bar",
    "guide/sources/": "httpx, raw http stream, openai sdk, aiohttp, requests library, bytes to events",
    "guide/loops/": "max iterations, infinite loop, final answer, multi-turn conversation, system prompt, temperature, agents",
    "guide/loops/ guide/tools/": "tool choice",
    "guide/turns/": "own loop, order of results, non streaming",
    "guide/structured-output/": "json mode, pydantic model output, typed result, strucutred output, output",
    "guide/errors/": "error handling, exceptions, tool raises exception, stream ends early, connection error, "
    "peer closed connection without sending complete message",
    "guide/retries/": "retry failed tool, exponential backoff, 429, rate limiting, http request retries",
    "guide/timeouts/": "tool takes too long, time out, tool timeout, kill a stuck tool, generator exit, GeneratorExit, async generator cleanup",
    "guide/limits/": "spending limit, token limit, concurrency limit, fairness, tool result too large, same tool called over and over",
    "guide/parallel-calls/": "run tools concurrently, parralel tool calls, task group, progress updates, tool streaming progress, middleware, "
    "caching results, large tool output, truncate output, tool returns generator, stream tool output, what is an observation",
    "approval/": "approval, aproval, confirm before running a tool, ask user for permission, tool permissions, reject a tool call, "
    "wait for approval days, approve in browser, approve from slack",
    "guide/external-calls/": "client side tools, frontend tools, ask the user a question, long running tools, deferred tools, background task, "
    "wait for user input",
    "guide/steering/": "stop button, abort, interrupt the model, steer, stopping streams",
    "guide/untrusted-input/": "untrusted tool output, guardrails, exfiltration, untrusted web page",
    "guide/threads-and-processes/": "multiprocessing, thread pool, blocking function, cpu bound tool, threads",
    "guide/threads-and-processes/ guide/sync/": "sync tools",
    "guide/exactly-once/": "idempotency, idempotent, duplicate tool calls, payment twice, sqlite, postgres, tool runs twice, idempotency key, lease",
    "guide/durable-runs/": "crash recovery, durable execution, checkpoint, journal, fault tolerance, restart server in the middle",
    "guide/durable-runs/ web/chats/": "persistence",
    "guide/dbos/": "dbos",
    "guide/ray/": "ray",
    "guide/histories/": "conversation history, message history, convert messages between providers, switch provider, context management, "
    "tool_use ids were found without tool_result blocks, messages and chat history",
    "guide/mcp/": "mcp server, model context protocol",
    "guide/models-without-tools/ guide/text-tool-calls/": "models without tool calling, react prompting, xml tool calls, small model tool calling",
    "guide/text-tool-calls/": "hermes format, llama tool calls in text, chain of thought, qwen tool call parser, vllm tool parser",
    "guide/consumers/": "multiple consumers, tee stream, backpressure, branch",
    "guide/sync/": "streamlit, gradio, synchronous, no running event loop, sync client",
    "guide/images/": "images, multimodal, vision, audio, pdf input, file upload, return image from tool, image input, return file",
    "guide/hand-offs/": "subagent, multi agent, handoff, agent as tool, delegate to another agent, orchestrating multiple agents, a2a",
    "web/endpoint/": "starlette, streaming to browser, server sent events, sse, slow client, heartbeat, keepalive, cors, docker, aws lambda, "
    "nginx buffering, user closes tab",
    "web/endpoint/ guide/durable-runs/": "deployment",
    "web/chats/": "reconnect after disconnect, page reload, multiple workers, gunicorn workers, authentication, sessions, several tabs, "
    "load balancer, refresh browser continues answer, message persistence",
    "web/django/": "django",
    "web/django/ guide/sync/": "flask",
    "web/use-chat/": "vercel ai sdk",
    "web/ag-ui/": "ag-ui, copilotkit, generative ui",
    "web/openai/": "openai compatible server",
    "web/events/ web/endpoint/ start/fastapi/": "typescript",
    "view/": "visualize run, terminal, visualization",
    "see/recordings/": "record and replay, vcr cassettes, determinism, golden tests",
    "see/traces/": "tracing, jaeger, langfuse, metrics, cost tracking, prices, observability, latency, time to first token, cost per request, "
    "disable telemetry, export spans",
    "see/debugging/": "logging, debugging a hang, keyboard interrupt, environment variables, hallucinated tool, unknown tool name, warnings, "
    "validation error, troubleshooting, print events",
    "see/testing/": "unit test without api key, mock llm, fake model, pytest, trio, anyio, simulate stream, test tools without llm",
    "see/privacy/": "secrets in logs, pii redaction, mask api keys, gdpr, hide prompts from traces",
    "providers/": "models and providers, models",
    "providers/openai_chat_completions/ providers/openai_responses/": "openai, azure openai, groq, deepseek, openrouter, vllm, llama.cpp, "
    "litellm, finish reason, xai grok, lm studio",
    "providers/openai_responses/": "openai responses api, previous_response_id, openai reasoning items",
    "providers/openai_realtime/": "realtime voice, voice agent",
    "providers/anthropic_messages/": "claude, extended thinking, stop reason",
    "providers/gemini_generate_content/": "google vertex, gemini thought signature",
    "providers/mistral_chat/": "mistral",
    "providers/cohere_chat/": "cohere",
    "providers/ollama_chat/": "local llm, ollama tools",
    "providers/deviations/": "malformed json, invalid json arguments, incomplete tool call, max tokens truncated, content filter, refusal, "
    "arguments cut off, response truncated by max tokens",
    "providers/hosted-tools/ providers/openai_responses/": "web search tool, hosted tools, code interpreter, computer use, builtin tools",
    "providers/token-counts/": "token count, reasoning tokens, usage, usage is null",
    "providers/json-schema/": "json schema, additionalProperties, $ref",
    "providers/own-provider/": "custom provider, add new model",
    "reference/events/": "events list, event types, event order, typed events",
    "reference/command/": "cli, command line, decode capture",
    "reference/glossary/": "glossary, what is a wire",
    "figures/": "performance, benchmark, overhead, how fast is it",
    "dependencies/": "license, pypi, pydantic version",
    "security/": "security, security policy",
    "changelog/": "changelog, release notes",
}
"""Others, by the pages that answer them."""
TABLES = {"the first phrases": FIRST, "all phrases": FIRST | {phrase: pages for pages, row in MORE.items() for phrase in row.split(", ")}}
PHRASES = TABLES["all phrases"]
ASK = """
const fs = require("fs"), path = require("path"), [site, ...phrases] = process.argv.slice(1);
const workers = path.join(site, "assets/javascripts/workers");
let got;
const self = { postMessage: (message) => got(structuredClone(message)) };
const worker = fs.readdirSync(workers).find((name) => name.startsWith("search"));
new Function("self", fs.readFileSync(path.join(workers, worker), "utf8"))(self);
const ask = (message) =>
  new Promise((done) => { got = done; self.onmessage({ data: structuredClone(message) }); });
const all = { input: { type: "operator", data: { operator: "and", operands: [] } }, aggregation: { input: [] } };
(async () => {
  const data = JSON.parse(fs.readFileSync(path.join(site, "search.json"), "utf8"));
  await ask({ type: 0, data });
  const found = {};
  for (const phrase of phrases) {
    const { data: { items } } = await ask({ type: 2, data: { input: phrase, filter: all } });
    found[phrase] = items.map(({ id }) => data.items[id].location);
  }
  console.log(JSON.stringify(found));
})();
"""


def main() -> int:
    """Asks, and prints the figures; the status for the shell."""
    node = shutil.which("node")
    if node is None:
        print("THE SEARCH IS NOT CHECKED: there is no node", file=sys.stderr)
        return 0
    done = subprocess.run([node, "-e", ASK, SITE, *PHRASES], capture_output=True, text=True, check=True)
    first = {name: 0 for name in TABLES}
    among = dict(first)
    for phrase, locations in json.loads(done.stdout).items():
        pages = list(dict.fromkeys(location.partition("#")[0] for location in locations))[:3]
        right = [page in PHRASES[phrase].split() for page in pages]
        for name, table in TABLES.items():
            first[name] += phrase in table and right[:1] == [True]
            among[name] += phrase in table and any(right)
        if right[:1] != [True] or "-v" in sys.argv:
            print(f"{'1' if right[:1] == [True] else '3' if any(right) else '-'}  {phrase:20} {'  '.join(pages)}")
    for name, table in TABLES.items():
        print(f"{name}: right first {first[name]} of {len(table)}; among the first three {among[name]}")
    good = all(10 * first[name] >= 9 * len(table) and among[name] == len(table) for name, table in TABLES.items())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
