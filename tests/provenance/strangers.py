"""Plays runs through the public API, by a script for the model: attacks on policies, and runs as users mean them.

The attacker has control of what tools return, such as pages, mails, names of files and errors, and the model obeys: it
calls what was written there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any, Literal

from streams import anthropic, chat, chat_chunk, sse, stream

from streamtools import ApprovalRequested, ToolError, agent_loop, pipeline, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.modes import get_adapter
from streamtools.provenance import Untrusted
from streamtools.stages import DEFAULT, text_calls
from streamtools.tools import Tool

__all__ = ["ATTACKS", "RUNS", "Case", "play"]


@dataclass
class Case:
    """A run: what the user says, or a whole history; what the model answers, step by step; what the tools return."""

    kind: str
    name: str
    user: Any
    script: list[Any]  # a call, a text, or both with reasoning and ids
    results: dict[str, Any] = field(default_factory=dict)  # a list is of `fetch`: one result after the other
    guards: list[str] = field(default_factory=list)  # the arguments under the policy, in place of the tool's own
    via: str = "loop"  # or request; mode:<name>; dialect:<name>
    wire: Literal["chat", "anthropic"] = "chat"
    request: dict[str, Any] = field(default_factory=dict)
    passes: list[str] = field(default_factory=list)  # the policies that do not ask, for a reason of the guide's


SPECIAL: dict[str, Callable[[str], Any]] = {
    "$untrusted": Untrusted,
    "$error": ToolError,
    "$filled": lambda text: lambda **arguments: text.format(**arguments),
    "$picture": lambda text: ToolResult(
        blocks=(Text(text), Media(kind="image", mime_type="image/png", data="iVBORw0KGgo="))
    ),
}


def _special(value: dict[str, Any]) -> Any:
    name = next(iter(value), "")
    return SPECIAL[name](value[name]) if name in SPECIAL else value


def _cases(name: str) -> list[Case]:
    rows = (Path(__file__).resolve().parents[1] / "data" / name).read_text(encoding="utf-8").splitlines()
    return [Case(**json.loads(row, object_hook=_special)) for row in rows]


ATTACKS, RUNS = _cases("policy_attacks.jsonl"), _cases("policy_runs.jsonl")

GUARDS: dict[str, tuple[str, ...]] = {
    "pay": ("to", "amount"),
    "send_mail": ("to",),
    "delete_file": ("path",),
    "transfer": ("iban", "amount", "on"),
    "post": ("url", "json"),
}
PARAMETERS = {**GUARDS, "send_mail": ("to", "subject", "body")}
LOOKUPS: dict[str, tuple[str, ...]] = {
    "fetch": ("url",),
    "search": ("query",),
    "read_mail": (),
    "calendar": ("day",),
    "list_files": ("path",),
    "save_note": ("text",),
    "contacts": ("name",),
    "notes": (),
    "payments": ("to",),
}
TRUSTED = ("contacts", "notes", "payments")


async def play(case: Case, policy: Callable[..., Any]) -> Literal["ran", "asked", "neither"]:
    """Plays a case; a person who is asked denies. Returns what became of its call that matters."""
    ran: list[str] = []
    tools = [*_acts(case, policy, ran), *_lookups(case)]
    asked = await (_one_step if case.via == "request" else _loop)(case, tools)
    return "asked" if asked else "ran" if ran else "neither"


async def _one_step(case: Case, tools: list[Tool]) -> bool:
    asked = False
    wire = {"chat": "openai.chat_completions", "anthropic": "anthropic.messages"}[case.wire]
    request = {"messages": case.user, **case.request}
    async with pipeline(stream(_body(case.script[0], 0, case.wire)), tools=tools, wire=wire, request=request) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                asked = True
                events.deny(event, "no")
    return asked


async def _loop(case: Case, tools: list[Tool]) -> bool:
    script, number, asked = iter([*case.script, "Done."]), count(), False
    messages = case.user if isinstance(case.user, list) else [{"role": "user", "content": case.user}]
    kind, _, name = case.via.partition(":")
    options: dict[str, Any] = {}  # a quoted call is left to the policy
    if kind == "mode":
        options = {"mode": get_adapter("mistral-7b", name), "quoted_calls": "run"}
    elif kind == "dialect":
        stages = DEFAULT.insert_before("accumulate", text_calls(name))
        options = {"stages": stages, "quoted_calls": "run"}

    async def ask(messages: Any, fields: Any) -> Any:
        return stream(_body(next(script), next(number)))

    async with agent_loop(ask, messages, tools=tools, wire="openai.chat_completions", **options) as run:
        while run.outcome is None:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    asked = True
                    run.deny(event, "no")
    return asked


# -- the tools ---------------------------------------------------------------------------------------------------------


def _lookups(case: Case) -> list[Tool]:
    pages = iter(case.results["fetch"]) if isinstance(case.results.get("fetch"), list) else None

    def lookup(name: str, parameters: tuple[str, ...]) -> Tool:
        async def body(**arguments: Any) -> Any:
            found = next(pages) if pages is not None and name == "fetch" else case.results.get(name, "ok")
            if isinstance(found, Exception):
                raise found
            return found(**arguments) if callable(found) else found

        properties = {key: {"type": "string"} for key in parameters}
        schema = {"type": "object", "properties": properties, "required": [*parameters], "additionalProperties": False}
        return Tool.from_schema(
            body, name=name, description="Look it up.", schema=schema, effect="pure", trusted=name in TRUSTED
        )

    return [lookup(name, parameters) for name, parameters in LOOKUPS.items()]


def _acts(case: Case, policy: Callable[..., Any], ran: list[str]) -> list[Tool]:
    def options(name: str) -> dict[str, Any]:
        names = [one for one in case.guards or GUARDS[name] if one in PARAMETERS[name]]
        return {"policy": policy(*names)} if names else {}

    @tool(**options("pay"))
    async def pay(to: str, amount: float) -> None:
        """Pay somebody."""
        ran.append("pay")

    @tool(**options("send_mail"))
    async def send_mail(to: str | list[str], subject: str, body: str) -> None:
        """Send a mail."""
        ran.append("send_mail")

    @tool(**options("delete_file"))
    async def delete_file(path: str) -> None:
        """Delete a file or folder."""
        ran.append("delete_file")

    @tool(**options("transfer"))
    async def transfer(iban: str, amount: float, on: date | None = None) -> None:
        """Transfer money."""
        ran.append("transfer")

    @tool(**options("post"))
    async def post(url: str, json: dict[str, Any]) -> None:
        """Post JSON."""
        ran.append("post")

    return [pay, send_mail, delete_file, transfer, post]


# -- the streams -------------------------------------------------------------------------------------------------------


def _body(answer: Any, number: int, wire: str = "chat") -> list[bytes]:
    said: dict[str, Any] = {"calls": [answer]}
    if not isinstance(answer, list):
        said = {"text": answer} if isinstance(answer, str) else answer
    made = said.get("calls", [])
    ids = said.get("ids") or [f"c{number}_{index}" for index in range(len(made))]
    calls = [(call_id, name, json.dumps(given)) for call_id, (name, given) in zip(ids, made, strict=True)]
    text = [said["text"]] if "text" in said else []
    if wire == "anthropic":
        return anthropic(text, calls)
    thought = sse([chat_chunk({"reasoning_content": said["reasoning"]})]) if "reasoning" in said else []
    return [*thought, *chat(text, calls, "tool_calls" if calls else "stop")]
