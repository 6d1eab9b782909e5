"""Asks the built site's search: ``python docs/search_check.py``, a step of `make docs`, with node.

Prints the first three pages for each phrase whose first one is not right, and fails unless 40 of the 42 begin with a
right one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "build" / "docs" / "site"
PHRASES = {
    "fastapi": "start/fastapi/ web/endpoint/",
    "structured output": "guide/structured-output/",
    "human in the loop": "guide/approval/",
    "retry": "guide/errors/",
    "parallel tool calls": "guide/parallel-calls/",
    "resume stream": "web/chats/",
    "install": "start/install/",
    "timeout": "guide/limits/",
    "cancel": "guide/limits/",
    "langgraph": "start/coming-from/ guide/frameworks/",
    "anthropic": "providers/wires/",
    "json repair": "guide/histories/ providers/deviations/ guide/text-tool-calls/",
    "opentelemetry": "see/traces/",
    "mcp": "guide/mcp/",
    "exactly once": "guide/exactly-once/",
    "prompt injection": "guide/untrusted-input/",
    "testing": "see/testing/",
    "token usage": "providers/",
    "gemini": "providers/wires/",
    "ollama": "providers/wires/",
    "websocket": "guide/streams/ providers/wires/ examples/responses_websocket/",
    "rate limit": "guide/errors/",
    "bedrock": "providers/wires/",
    "pydantic-ai": "start/coming-from/ guide/frameworks/",
    "agent loop": "guide/loops/",
    "redis": "guide/exactly-once/",
    "postgres": "web/several-machines/ guide/exactly-once/",
    "load balancer": "web/several-machines/",
    "replicas": "web/several-machines/",
    "multiple workers": "web/several-machines/",
    "ctrl-c": "see/debugging/",
    "debug": "see/debugging/",
    "usechat": "web/use-chat/ start/fastapi/",
    "budget": "guide/limits/",
    "run_json": "reference/from-the-design-documents/",
    "to_openai": "reference/from-the-design-documents/ reference/api/exports/",
    "ToolInteropRegistry": "reference/from-the-design-documents/ reference/api/interop/",
    "ReAct": "reference/from-the-design-documents/",
    "causal tag": "reference/from-the-design-documents/",
    "stopWhen": "start/coming-from/",
    "needsApproval": "start/coming-from/",
    "deps": "start/coming-from/",
}
"""What somebody looks for, and the pages that answer it: chosen before the search was looked at."""
LEAST = 40
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
    first = 0
    for phrase, locations in json.loads(done.stdout).items():
        pages = list(dict.fromkeys(location.partition("#")[0] for location in locations))[:3]
        if pages[:1] and pages[0] in PHRASES[phrase].split():
            first += 1
        else:
            print(f"{phrase:20} {'  '.join(pages)}")
    print(f"right first: {first} of {len(PHRASES)}")
    return 0 if first >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
