"""Providers that keep their rules: each judges a request as its pages and its errors have it, then says something.

Nothing here uses the library's way of reading messages: `flow` of the wires' cases says who speaks, and who answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise, takewhile
from random import Random
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES, framed, said
from spoken_histories import NATIVE, Call, flow
from wire_cases.gemini import SKIP
from wire_cases.names import INTERACTIONS

from streamtools.wires import find

__all__ = ["RULED", "RULES", "Api", "Refused", "Request", "Rule"]

RULED = (CHAT, RESPONSES, ANTHROPIC, GEMINI, INTERACTIONS, BEDROCK, MISTRAL, COHERE, OLLAMA)
LATER, OVER = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
SERVED = ("server_tool_use", "mcp_tool_use")


class Refused(Exception):
    """400"""


@dataclass
class Request:
    api: Api
    messages: list[Any]  # with those that the provider has kept
    tools: list[Any]
    carry: Mapping[str, Any]

    @cached_property
    def spoken(self) -> list[Any]:
        return [one for one in flow(self.api.wire, self.messages) if one[0] != "system"]

    def carried(self, name: str) -> list[Any]:
        return [self.carry[name]] if name in self.carry else []


@dataclass(frozen=True)
class Rule:
    name: str
    sources: Mapping[str, str]  # by wire
    breaks: Callable[[Request], Iterable[Any]]  # yields where the request breaks it


# -- what they check -----------------------------------------------------------------------------------------------


def _unanswered(request: Request) -> Iterator[Any]:
    for at, (who, ids) in enumerate(request.spoken):
        then, answered = (*request.spoken, ("nobody", []))[at + 1]
        if who == "model" and ids and (then != "result" or not _known(answered) >= _known(ids)):
            yield ids


def _unasked(request: Request) -> Iterator[Any]:
    for (before, asked), (who, ids) in pairwise([("nobody", []), *request.spoken]):
        if who == "result" and (before != "model" or not _known(ids) <= _known(asked)):
            yield ids


def _repeated(found: Iterable[Any]) -> list[Any]:
    listed = list(found)
    return [one for at, one in enumerate(listed) if one in listed[:at]]


def _known(ids: Iterable[Any]) -> set[str]:
    return {str(one[0] or one[1]) if isinstance(one, tuple) else str(one) for one in ids}


def _blank(request: Request) -> Iterator[Any]:
    for one in request.messages:
        parts = one.get("content", one.get("parts"))
        found = [{"text": parts}] if isinstance(parts, str) else parts or []
        yield from (part for part in found if "text" in part and not part["text"].strip())
        if not found:
            yield one


def _not_objects(request: Request) -> Iterator[Any]:
    for value in _values(request.messages, ("input", "args", "arguments")):
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            found = None
        if not isinstance(found, dict) or isinstance(value, str) is not (request.api.wire in _TEXTS):
            yield value


_TEXTS = (CHAT, RESPONSES, MISTRAL, COHERE)


def _values(value: Any, keys: tuple[str, ...]) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if key in keys)
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _values(one, keys)


def _blocks(message: Any) -> list[Any]:
    return message["content"] if isinstance(message["content"], list) else []


def _results(message: Any) -> list[Any]:
    """The results that it begins with."""
    return list(takewhile(lambda block: block["type"] == "tool_result", _blocks(message)))


def _types(blocks: list[Any]) -> set[str]:
    return {block["type"] for block in blocks if isinstance(block, dict)}


def _unserved(request: Request) -> Iterator[Any]:
    """A call of the provider's has its result, or waits at the end; a result has its call."""
    open_: list[str] = []
    for one in request.messages:
        for block in _blocks(one) if one["role"] == "assistant" else ():
            if block["type"] in SERVED:
                open_.append(block["id"])
            elif block["type"].endswith("_tool_result"):
                if block["tool_use_id"] in open_:
                    open_.remove(block["tool_use_id"])
                else:
                    yield block
    yield from set(open_) - set(request.api.waits(request.messages))


def _unsigned(request: Request) -> Iterator[Any]:
    """In the turn that goes on, the first call of each answer has the signature that it came with."""
    for one in request.messages[_turn_begins(request.messages) :]:
        calls = [part for part in one["parts"] if "functionCall" in part]
        for part in calls[:1]:
            if part.get("thoughtSignature") not in (SKIP, request.api.signed.get(json.dumps(part["functionCall"]))):
                yield part


def _turn_begins(contents: list[Any]) -> int:
    asked = (at for at, one in enumerate(contents) if one["role"] == "user" and "text" in one["parts"][0])
    return max(asked, default=0)


def _apart(request: Request) -> Iterator[Any]:
    kinds = [(one.get("type", "message"), one.get("role", "assistant")) for one in request.messages]
    for (kind, _), (then, role) in pairwise([*kinds, ("nothing", "user")]):
        if kind == "reasoning" and (then not in ("reasoning", "function_call", "message") or role != "assistant"):
            yield kind


_CLAUDES = "[a-zA-Z0-9_-]+"
_IDS = {CHAT: ".{1,40}", RESPONSES: ".{1,64}", ANTHROPIC: _CLAUDES, BEDROCK: _CLAUDES, MISTRAL: "[a-zA-Z0-9]{9}"}
_GEMINI_TURNS = "langchain-ai/langchain#27799, google-gemini/gemini-cli#26486"
_GOOGLE = "https://ai.google.dev/gemini-api/docs/"
_CLAUDE = "https://platform.claude.com/docs/en/"
_THINKS = "tailcallhq/forgecode#2107"
_PROGRAMS = _CLAUDE + "agents-and-tools/tool-use/programmatic-tool-calling"
_SERVERS = _CLAUDE + "agents-and-tools/tool-use/server-tools (mixed turns); openai/openai-agents-js#1543, 2026-07-29"
RULES = [
    Rule("results alone", {GEMINI: "google-gemini/gemini-cli#4217"},
         lambda r: [one for one in r.messages if len({"functionResponse" in part for part in one["parts"]}) > 1]),
    Rule("results first", {ANTHROPIC: "Zoo-Code-Org/Zoo-Code#1705"},
         lambda r: [one for one in r.messages if "tool_result" in _types(_blocks(one)[len(_results(one)):])]),
    Rule("unanswered", {
        CHAT: "aliasrobotics/cai#111", RESPONSES: "bytedance/trae-agent#245", ANTHROPIC: "anthropics/claude-code#7929",
        GEMINI: "google-gemini/gemini-cli#4217", BEDROCK: "camel-ai/camel#3954", MISTRAL: "mistralai/client-ts#106",
        INTERACTIONS: _GOOGLE + "function-calling", COHERE: "langchain-ai/langchain-cohere#15",
    }, _unanswered),
    Rule("unasked", {
        CHAT: "dimagi/open-chat-studio#1659", RESPONSES: "continuedev/continue#10092", GEMINI: _GEMINI_TURNS,
        ANTHROPIC: "anthropics/claude-code#18947", BEDROCK: "strands-agents/harness-sdk#1435",
        MISTRAL: "zed-industries/zed#37021", INTERACTIONS: "google/adk-python#4381",
    }, _unasked),
    Rule("answered twice", {
        CHAT: "anomalyco/opencode#1211", ANTHROPIC: "'each tool_use must have a single result', as clients quote it",
        BEDROCK: "BerriAI/litellm#20047",
    }, lambda r: [ids for who, ids in r.spoken if who == "result" and len(_known(ids)) < len(ids)]),
    Rule("count", {GEMINI: "google-gemini/gemini-cli#4217", MISTRAL: "567-labs/instructor#724"},
         lambda r: [b for (who, a), (_, b) in pairwise(r.spoken) if who == "model" and a and len(a) != len(b)]),
    Rule("ids twice", {ANTHROPIC: "trycua/cua#524", BEDROCK: "bvcyber/Cyber-AutoAgent-ng#72",
                       MISTRAL: "NousResearch/hermes-agent#11722"},
         lambda r: _repeated(one for who, ids in r.spoken if who == "model" for one in ids)),
    Rule("ids", {
        CHAT: "pydantic/pydantic-ai#4389", RESPONSES: "openai/codex#14355", ANTHROPIC: "LibreChat-AI/agents#153",
        BEDROCK: "LibreChat-AI/agents#153", MISTRAL: "langchain-ai/langchain#24668",
    }, lambda r: [one for _, ids in r.spoken for one in ids if not re.fullmatch(_IDS[r.api.wire], str(one))]),
    Rule("user first", {ANTHROPIC: "lobehub/lobehub#1601", BEDROCK: "pydantic/pydantic-ai#4495",
                        GEMINI: "google-gemini/gemini-cli#11814"},
         lambda r: [who for who, _ in r.spoken[:1] if who != "user"]),
    Rule("model last", {
        ANTHROPIC: "QwenLM/qwen-code#8039", BEDROCK: "NousResearch/hermes-agent#101401",
        GEMINI: "LibreChat-AI/agents#323", MISTRAL: "huggingface/smolagents#757",
    }, lambda r: [who for who, _ in r.spoken[-1:] if who == "model" and not r.api.waits(r.messages)]),
    Rule("user behind result", {MISTRAL: "BerriAI/litellm#6323"},
         lambda r: [b for (a, _), (b, _) in pairwise(r.spoken) if (a, b) == ("result", "user")]),
    Rule("alternation", {BEDROCK: "microsoft/semantic-kernel#10281"},
         lambda r: [a["role"] for a, b in pairwise(r.messages) if a["role"] == b["role"]]),
    Rule("blank", {ANTHROPIC: "anthropics/claude-code#59812", BEDROCK: "OpenHands/OpenHands#5339",
                   GEMINI: "envoyproxy/ai-gateway#2686"}, _blank),
    Rule("arguments", {
        ANTHROPIC: "anthropics/anthropic-sdk-typescript#648", BEDROCK: "aws/aws-sdk-net#3377",
        CHAT: "router-for-me/CLIProxyAPI#2001", OLLAMA: "ollama/ollama#12794",
    }, _not_objects),
    Rule("text beside calls", {COHERE: "vercel/ai#5794"}, lambda r: [
        one for one in r.messages if one.get("tool_calls") and "text" in _types(one.get("content") or [])
    ]),
    Rule("thinking last", {ANTHROPIC: _THINKS, BEDROCK: _THINKS},
         lambda r: [one for one in r.messages if one["role"] != "user" and any(map(_signature, _blocks(one)[-1:]))]),
    Rule("prefix", {
        ANTHROPIC: _CLAUDE + "build-with-claude/preserved-thinking/prefix-checks; anomalyco/opencode#48637, 2026-09-12",
        BEDROCK: "https://docs.aws.amazon.com/bedrock/latest/userguide/claude-messages-thinking-block-binding.html",
    }, lambda r: r.api.unbound(r) if r.api.binding == "error" else []),
    Rule("container", {ANTHROPIC: "anthropics/anthropic-sdk-python#1424"}, lambda r: [
        one for one in r.api.waits(r.messages, by_code=True) if r.api.containers.get(one) != r.carry.get("container")
    ]),
    Rule("expired container", {ANTHROPIC: "vercel/ai#11708, 2026-01-11"},
         lambda r: [one for one in r.carried("container") if r.api.expiry.get(one) != LATER]),
    Rule("pending code", {ANTHROPIC: f"{_PROGRAMS}; {_SERVERS}"}, lambda r: [
        one for one in r.messages[-1:] if one["role"] == "user" and r.api.waits(r.messages)
        and (isinstance(one["content"], str) or len(_results(one)) < len(_blocks(one)))
    ]),
    Rule("served", {ANTHROPIC: f"open-gsd/gsd-pi#1330, anthropics/claude-code#64383; {_SERVERS}"}, _unserved),
    Rule("signature", {GEMINI: _GOOGLE + "thought-signatures; nanbingxyz/5ire#405"}, _unsigned),
    Rule("chained id", {
        RESPONSES: "maximhq/bifrost#2441, 2026-03-31",
        INTERACTIONS: _GOOGLE + "interactions (server-side state)",
    }, lambda r: [one for one in r.carried(str(find(r.api.wire).chain)) if one not in r.api.kept]),
    Rule("items twice", {RESPONSES: "vercel/ai#7883"},
         lambda r: _repeated(one["id"] for one in r.messages if one.get("id"))),
    Rule("reasoning apart", {RESPONSES: "continuedev/continue#8933"}, _apart),
    Rule("tools", {BEDROCK: "langgenius/dify#17545"}, lambda r: [] if r.tools else [ids for _, ids in r.spoken if ids]),
]  # fmt: skip
"""Each with where it was read: a page, or a thread with the words of the refusal."""


def _signature(block: Any) -> Any:
    return block.get("reasoningContent", {}).get("reasoningText", block).get("signature")


def _digest(*values: Any) -> str:
    return blake2b(json.dumps(values, sort_keys=True).encode(), digest_size=8).hexdigest()


# -- a provider ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Api:
    """One account with one provider. It keeps what it has said, and what it was sent."""

    wire: str
    name: str
    dice: Random
    most: int = 6
    """After so many requests it calls nothing more."""
    binding: str = "error"
    """What becomes of thinking behind a change: ``error``, or ``drop_block``."""
    codes: bool = True
    """Its code may call tools."""
    is_sole: bool = False
    """There is no fallback elsewhere. Only who has begun with code can go on with it: else it then does not fail."""
    requests: list[list[Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    dropped: int = 0
    bound: dict[str, str] = field(default_factory=dict)  # the digest of all before it, by signature
    signed: dict[str, str] = field(default_factory=dict)  # signatures, by call
    kept: dict[str, list[Any]] = field(default_factory=dict)  # what was read and said, by the id of the answer
    containers: dict[str, str] = field(default_factory=dict)  # by the id of the code in it
    expiry: dict[str, str] = field(default_factory=dict)  # by container
    sound: Callable[[Request], None] = lambda request: None

    def ask(self, messages: list[Any], tools: Any, carry: dict[str, Any]) -> Any:
        return self._answered(messages, tools, carry)

    def plainly(self, messages: list[Any], tools: Any) -> Any:
        return self._answered(messages, tools, {})

    def objections(self, request: Request) -> Iterator[tuple[Rule, Any]]:
        for rule in RULES:
            if self.wire in rule.sources:
                yield from ((rule, where) for where in rule.breaks(request))

    def unbound(self, request: Request) -> Iterator[Any]:
        """Thinking of its own, before which something has changed. What others have signed it drops in silence."""
        for at, message in enumerate(request.messages if self.wire in (ANTHROPIC, BEDROCK) else []):
            blocks = _blocks(message) if message["role"] == "assistant" else []
            for place, block in enumerate(blocks):
                bound = self.bound.get(_signature(block) or "")
                if bound not in (None, _digest(request.tools, request.messages[:at], blocks[:place])):
                    yield f"messages.{at}.content.{place}"

    def waits(self, messages: list[Any], *, by_code: bool = False) -> list[str]:
        """The calls of its own that the last answer has left, in which nothing but results may follow."""
        if self.wire != ANTHROPIC:
            return []
        last = next((_blocks(one) for one in messages[:-3:-1] if one["role"] == "assistant"), [])
        done = {block.get("tool_use_id") for one in messages if one["role"] == "assistant" for block in _blocks(one)}
        callers = {block.get("caller", {}).get("tool_id") for block in last} - done
        own = {block["id"] for block in last if block["type"] in SERVED} - done
        return sorted(one for one in (callers if by_code else callers | own) if one)

    def _answered(self, messages: list[Any], tools: Any, carry: dict[str, Any]) -> Any:
        kept = self.kept.get(carry.get(str(find(self.wire).chain)) or "", [])
        request = Request(self, [*kept, *deepcopy(messages)], deepcopy(tools), carry)
        for rule, where in self.objections(request):
            self.refused.append(f"{self.wire}: {rule.name}: {where!r:.200} in {json.dumps(request.messages)}")
            raise Refused(rule.name)
        self.dropped += len(list(self.unbound(request)))
        self.requests.append(request.messages)
        self.sound(request)
        messages.append("the caller's own")
        fails = self.dice.random() * (self.is_sole or not self.waits(request.messages, by_code=True))
        if 0 < fails < 0.08:
            raise ConnectionError("it hung up")
        body = framed(self.wire, self._said(request))
        return body[: self.dice.randrange(len(body))] if 0 < fails < 0.2 else body

    # -- what it says

    def _said(self, request: Request) -> list[Any]:
        dice, number = self.dice, len(self.requests)
        some = number < self.most and dice.random() < 0.8
        calls = [self._call(f"{self.name}{number:04}{at:04}"[-9:]) for at in range(dice.randint(1, 3) if some else 0)]
        text = [] if calls and dice.random() < 0.5 else ["Well."]
        thinks = dice.random() < 0.6
        if self.wire == ANTHROPIC:
            return self._claude(request, thinks, text, calls)
        key = f"{self.name}{number}"
        composed = json.dumps(said(self.wire, reasoning=["so"] if thinks else [], text=text, calls=calls))
        for name in ("c2ln", "QUI=", "rs_1", "msg_output_text", "fc_0", "fc_1", "fc_2", "resp_1", "v1_a"):
            is_signature = name in ("c2ln", "QUI=") and name in composed
            composed = composed.replace(f'"{name}"', f'"{self._sign(request, []) if is_signature else name + key}"')
        payloads: list[Any] = json.loads(composed.replace('"model": "m"', '"model": "gpt-5.5"'))
        for whole in payloads[-1].values() if find(self.wire).chain else ():
            if isinstance(whole, dict):
                whole.update({str(find(self.wire).chain): None} | dict(request.carry))
        if self.wire == RESPONSES:
            self.kept[f"resp_1{key}"] = [*request.messages, *deepcopy(payloads[-1]["response"]["output"])]
        elif self.wire == INTERACTIONS:
            steps = NATIVE[self.wire].said("".join(text), [Call(*one) for one in calls])
            self.kept[f"v1_a{key}"] = [
                *request.messages,
                *[{"type": "thought", "signature": f"{key}"}] * thinks,
                *steps,
            ]
        elif self.wire == GEMINI:
            parts = [one["candidates"][0]["content"]["parts"][0] for one in payloads]
            for part in [one for one in parts if "functionCall" in one][:1]:
                part["thoughtSignature"] = self.signed[json.dumps(part["functionCall"])] = f"signed {key}"
        return payloads

    def _call(self, id_: str) -> tuple[str, str, str]:
        name = self.dice.choice(("look", "look", "look", "pay", "note", "more", "other_1", "none"))
        whole = '{"at": 1}' if self.wire in (GEMINI, OLLAMA) else '{"at": "x'  # these have objects alone
        return id_, name, self.dice.choice(('{"at": "x"}', '{"at": "x"}', '{"at": "bad"}', "{}", whole))

    def _sign(self, request: Request, before: list[Any]) -> str:
        signature = f"{self.name}{len(self.bound)}"
        self.bound[signature] = _digest(request.tools, request.messages, before)
        return signature

    def _claude(self, request: Request, thinks: bool, text: list[str], calls: list[Any]) -> list[Any]:
        dice, number, content = self.dice, len(self.requests), list[Any]()

        def think() -> None:
            if thinks:
                signature = self._sign(request, deepcopy(content))
                content.append({"type": "thinking", "thinking": "so", "signature": signature})

        waited, by_code = self.waits(request.messages), self.waits(request.messages, by_code=True)
        goes_on = bool(by_code) and bool(calls) and dice.random() < 0.4
        for id_ in [] if goes_on else waited:
            kind = "code_execution" if id_ in self.containers else "web_search"
            content.append({"type": f"{kind}_tool_result", "tool_use_id": id_, "content": []})
        kinds = ("plain", "plain", "deferred", "paused", *(["code"] if self.codes else []))
        kind, stop, server = dice.choice(kinds), "end_turn", ""
        think()
        if not goes_on:
            content += [{"type": "text", "text": one} for one in text]
        if goes_on:
            server = by_code[0]
        elif (kind in ("code", "deferred") and calls) or (kind == "paused" and number < self.most):
            server = f"srv_{self.name}{number}"
            name = "code_execution" if kind == "code" else "web_search"
            content.append({"type": "server_tool_use", "id": server, "name": name, "input": {}})
            stop, calls = ("pause_turn", []) if kind == "paused" else (stop, calls)
        coded = goes_on or (kind == "code" and bool(server))
        caller = {"caller": {"type": "code_execution_20260521", "tool_id": server}} if coded else {}
        for id_, name, arguments in calls:
            stop, value = "tool_use", json.loads(arguments) if arguments.endswith("}") else {}
            content.append({"type": "tool_use", "id": id_, "name": name, "input": value, **caller})
            think()
        while content and content[-1]["type"] == "thinking":
            content.pop()
        made = request.carry.get("container") or f"c_{self.name}{number}"
        if coded:
            self.containers.setdefault(server, made)
        expires = self.expiry.setdefault(made, LATER if coded or dice.random() < 0.7 else OVER)
        held = {"container": {"id": made, "expires_at": expires}} if coded or dice.random() < 0.2 else {}
        facts = {"id": f"m{number}", "type": "message", "role": "assistant", "model": "claude-fable-5-1", "usage": {}}
        whole = find(self.wire).whole
        assert whole is not None
        content = content or [{"type": "text", "text": "Well."}]
        return whole(deepcopy({**facts, "content": content, "stop_reason": stop, **held}))
