"""Writes the table of what several loops do with the same bytes into README and docs: ``python docs/same_bytes.py``.

The table is made of ``benchmarks/peers.json``, which ``make compare`` measures. It stands between
``<!-- same bytes: begin -->`` and ``<!-- same bytes: end -->``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "benchmarks" / "peers.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "index.md")
_BLOCK = re.compile(r"(<!-- same bytes: begin -->\n).*?(<!-- same bytes: end -->)", re.DOTALL)

COLUMNS = {
    "sdk": "a loop on the SDK",
    "langgraph": "LangGraph",
    "pydantic_ai": "pydantic-ai",
    "openai_agents": "openai-agents",
    "streamtools": "streamtools",
}
ROWS = {
    "cut": 'The arguments are cut off: `{"to":"Ada`',
    "lost": "The stream ends before the response does",
    "same_index": "The server gives both calls index 0",
    "raises": "One of three tools raises an exception",
    "started": "When an idempotent call starts",
    "killed": "The process dies while paying, then restarts",
}
NOTES = {
    ("cut", "sdk"): "Raised by `json.loads` in the loop from OpenAI's guide. The SDK's helper, "
    "`chat.completions.stream()`, raises {sdk_helper}.",
    ("cut", "langgraph"): "LangChain completes partial JSON while it streams. The message's metadata has "
    "`finish_reason: length`, which your node or middleware can check.",
    ("lost", ""): "The body ends without an error (a proxy can cause this), so `max_retries` and "
    "`ModelRetryMiddleware` have nothing to retry. With streamtools, `retry=` sends the request again. If the "
    "transport reports that the connection was cut, {reset}.",
    ("same_index", ""): "Seen with Ollama, LiteLLM and Gemini's compatible endpoint (ollama/ollama#15457, "
    "vercel/ai#14277, huggingface/smolagents#1569). When the indexes differ, all five loops run both.",
    ("raises", ""): "LangGraph with `ToolErrorMiddleware`, pydantic-ai with `raise ToolFailed` in the tool; "
    "openai-agents and streamtools by default. In your own loop, use `try`/`except`.",
    ("started", ""): 'On the Responses API, with `effect="idempotent"`; the others have no equivalent. In '
    "pydantic-ai-harness, `CodeMode(eager=True)` starts lines of *generated code* early.",
    ("killed", "langgraph"): '`create_agent` with a checkpointer and `durability="sync"`.',
    ("killed", "pydantic_ai"): "With DBOS and the tool as a step: {pydantic_ai_dbos}, because "
    "[steps run at least once](https://docs.dbos.dev/explanations/concurrent-executions). With pydantic-ai-harness' "
    "`StepPersistence`: {pydantic_ai_steps}; its ledger lists the unresolved payment, "
    "but your program has to check the ledger.",
    ("killed", "openai_agents"): "With `SQLiteSession`. With DBOS (`DBOSRunner`, the tool as a step): "
    "{openai_agents_dbos}.",
    ("killed", "streamtools"): "With `journal=`. If your payment API takes an idempotency key, send one as well: "
    "only the API knows whether the payment went through.",
}
"""What an expert of a peer would want to know about a cell, or about a row."""


def words(row: str, met: dict[str, Any]) -> str:
    """Returns what a cell says of what was measured."""
    paid, error, read = met["paid"], met.get("error"), " ".join(met.get("read", ()))
    match row:
        case "cut" if paid:
            return f"**pays `{paid[0]}`**"
        case "cut" if error:
            return f"`{error}`"
        case "cut":
            return f"not run; the model {'is told why' if 'JSON' in read else 'reads an error'}"
        case "lost":
            return "**pays anyway**" if paid else f"`{error}`, nothing paid"
        case "same_index" if sorted(paid) == ["Ada", "Bob"]:
            return "both run"
        case "same_index":
            return f"**neither runs**{f' (`{error}`)' if error else ''}"
        case "raises" if "paid Ada" in read and "paid Bob" in read:
            return "the model reads the error and the other results"
        case "raises":
            return f"`{error}` ends the run"
        case "started":
            return "while the model is writing" if met["early"] else "at the end of the response"
        case _:
            return (
                "**pays twice**"
                if len(paid) > 1
                else f"pays once{'; a person checks whether it went through' * bool(met['unresolved'])}"
            )


def table() -> str:
    """Returns the table, its notes, and with which versions it was measured."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    peers = measured["peers"]
    beside = {key: words(row, met) for key in peers if key not in COLUMNS for row, met in peers[key]["rows"].items()}
    pays = any(peer["rows"].get("reset", {}).get("paid") for peer in peers.values())
    beside["reset"] = "some loops pay" if pays else "no loop pays"
    numbers = {place: number for number, place in enumerate(NOTES, 1)}

    def noted(text: str, row: str, column: str) -> str:
        number = numbers.get((row, column))
        return text if number is None else f"{text} <sup>{number}</sup>"

    lines = [f"|  | {' | '.join(COLUMNS.values())} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    for row, title in ROWS.items():
        cells = [noted(words(row, peers[key]["rows"][row]), row, key) for key in COLUMNS]
        lines.append(f"| {' | '.join([noted(title, row, ''), *cells])} |")
    versions = {name: version for peer in peers.values() for name, version in peer["versions"].items()}
    versions.pop("streamtools")
    listed = ", ".join(f"{name} {version}" for name, version in versions.items())
    notes = [f"{numbers[place]}. {text.format(**beside)}" for place, text in NOTES.items()]
    return "\n".join([*lines, "", f"Measured {measured['date']} with {listed}.", "", *notes, ""])


def with_table(page: str) -> str:
    """Returns the page with the table as it was measured."""
    made = table()
    return _BLOCK.sub(lambda match: f"{match[1]}{made}{match[2]}", page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
