"""Recorded responses of many servers, against what the provider's own SDK made of the same bytes.

The recordings are not part of this repository: they are looked for beside it, in ``shared/corpus`` of the directory
that holds it, or where the environment variable ``STREAMTOOLS_CORPUS`` says. An SDK is a good judge, not a perfect one:

* null and "" are the same text and the same arguments; no arguments, and JSON null, are the same as {};
* text that opens with a <think> block may come without it;
* reasoning is compared only where the SDK has some, white space aside;
* arguments are equal when their JSON values are; where the SDK's are no JSON, their texts must be the same;
* "stop" with calls of ours is `tool_calls`; where a gateway masks a cut, `length` is right, too; where the SDK saw no
  finish reason, or an error, None and `error` are; where it lost the last event for want of a blank line, any;
* where the manifest prefers the merge of its second reader, only text and calls are compared, with that; where there is
  neither, only whether there is text, and whether there are calls (so it is for Cohere, Ollama and Bedrock);
* with several choices the turn is one of them, never a mixture;
* of a server's own calls, names and arguments are compared only where the wire has them verbatim;
* Gemini's output tokens may include the thoughts.

Recordings that speak no wire of ours (older APIs, other endpoints) must not raise.

Where we deviate on purpose: ``corpus_exceptions.md``.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from profiles import every, thorough_unless
from sansio import byte_by_byte, check_histories, check_turn, checked, is_found, json_lines, snapshot, tells
from wire_cases import CASES

from streamtools import ToolCall, Turn, Usage, parse
from streamtools.wires import WIRES as KNOWN_WIRES

REPOSITORY = Path(__file__).resolve().parent.parent
CORPUS = Path(os.environ.get("STREAMTOOLS_CORPUS") or REPOSITORY.parent / "shared" / "corpus")
if not (CORPUS / "MANIFEST.jsonl").is_file():
    pytest.skip(
        "THE RECORDED RESPONSES WERE NOT FOUND, so none was compared: "
        "put them beside this repository as shared/corpus, or set STREAMTOOLS_CORPUS",
        allow_module_level=True,
    )

FOLDERS = {
    "openai-chat": "openai.chat_completions",
    "openai-responses": "openai.responses",
    "anthropic-messages": "anthropic.messages",
    "gemini": "gemini.generate_content",
    "mistral": "mistral.chat",
    "cohere": "cohere.chat",
    "ollama-ndjson": "ollama.chat",
    "bedrock": "bedrock.converse_stream",
}


@cache
def body_of(file: str) -> bytes:
    return (CORPUS / file).read_bytes()


def wire_of(row: dict[str, Any]) -> str | None:
    """The wire that a recording speaks; None if it is none of ours."""
    if row["wire"] == "other":
        return "gemini.generate_content" if row.get("subwire") == "gemini-jsonarray" else None
    if row["wire"] == "bedrock" and b"messageStart" not in body_of(row["file"]):
        return None  # InvokeModel, and the agents' events
    if row["wire"] == "ollama-ndjson" and b'"message"' not in body_of(row["file"]):
        return None  # /api/generate
    return FOLDERS[row["wire"]]


EVERYTHING = json_lines(CORPUS / "MANIFEST.jsonl")
WIRES = {row["file"]: wire for row in EVERYTHING if (wire := wire_of(row)) in KNOWN_WIRES}
RECORDINGS = [row for row in EVERYTHING if row["file"] in WIRES]
CORE = [row for row in RECORDINGS if row["core"]]
WITH_CALLS = [row for row in CORE if row["n_tool_calls"]]
CUTS = 16
LONG_BYTES = 20_000  # a recording beyond it is read in pieces of seven bytes instead of one by one
EXCEPTION = re.compile(r"^- `(?P<file>\S+)`: \S", re.MULTILINE)
EXCEPTIONS = set(EXCEPTION.findall((Path(__file__).parent / "corpus_exceptions.md").read_text(encoding="utf-8")))

FINISHES = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "content_filter",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "pause",
    "completed": "stop",
    "incomplete:max_output_tokens": "length",
    "incomplete:content_filter": "content_filter",
    "failed": "error",
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
}
THINK = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


def of(rows: list[dict[str, Any]]) -> Callable[[Any], Any]:
    return every("row", thorough_unless(lambda row: row["core"], rows))


def read(row: dict[str, Any], body: bytes | list[bytes] | None = None, tools: tuple[str, ...] = ()) -> Turn:
    return parse(body_of(row["file"]) if body is None else body, wire=WIRES[row["file"]], tools=tools)


@of(RECORDINGS)
def test_a_recording_says_what_its_providers_sdk_read(row: dict[str, Any]) -> None:
    turn = read(row)
    check_turn(turn)
    found = next(differences(row, turn), None)
    if row["file"] in EXCEPTIONS:
        assert found is not None, "it no longer deviates: take it out of corpus_exceptions.md"
    else:
        assert found is None


@of(RECORDINGS)
def test_a_recordings_wire_is_found(row: dict[str, Any]) -> None:
    body, wire = body_of(row["file"]), WIRES[row["file"]]
    assert is_found(parse(body).wire, wire) or not tells(body, wire)


@of([row for row in EVERYTHING if row["file"] not in WIRES])
def test_a_recording_of_another_api_does_not_raise(row: dict[str, Any]) -> None:
    turn = parse(body_of(row["file"]))
    check_turn(turn)
    if turn.wire:
        check_histories(turn)


@of(CORE)
def test_a_recordings_histories_are_such_that_no_provider_refuses_them(row: dict[str, Any]) -> None:
    check_histories(read(row))


@of(CORE)
def test_a_recording_says_the_same_in_single_bytes(row: dict[str, Any]) -> None:
    body = body_of(row["file"])
    chunks = byte_by_byte(body) if len(body) <= LONG_BYTES else [body[at : at + 7] for at in range(0, len(body), 7)]
    assert snapshot(read(row, chunks)) == snapshot(read(row))


@of([row for row in CORE if row.get("chunk_sizes")])
def test_a_recording_says_the_same_as_the_network_cut_it(row: dict[str, Any]) -> None:
    body, chunks, at = body_of(row["file"]), [], 0
    for size in row["chunk_sizes"]:
        chunks.append(body[at : at + size])
        at += size
    assert at == len(body)
    assert snapshot(read(row, chunks)) == snapshot(read(row))


@of(WITH_CALLS)
def test_a_cut_recording_runs_only_what_had_ended(row: dict[str, Any]) -> None:
    body = body_of(row["file"])
    names = tuple({call.name for call in read(row).calls if call.name})
    full = read(row, tools=names)
    end = turn_end(body)
    for cut in random.Random(row["file"]).sample(range(1, len(body)), min(CUTS, len(body) - 1)):
        turn = checked(read(row, [body[:cut]], names))
        if cut < end:
            assert not turn.complete, f"cut at {cut}"
        running = [call for call in turn.calls if call.dispatchable]
        assert not running or cut >= end, f"cut at {cut}"
        wanted = {call.index: (call.name, call.arguments) for call in full.calls}
        assert all(wanted[call.index] == (call.name, call.arguments) for call in running), f"cut at {cut}"


def turn_end(body: bytes) -> int:
    """Where the bytes first say that the turn is over: the end of the payload that does, by a plain reading."""
    if body[:1] == b"\0":
        at = body.find(b"messageStop")
        while at > 0:  # the message that says so begins where its own length leads past it
            begin = body.rfind(b"\0\0", 0, at)
            length = int.from_bytes(body[begin : begin + 4])
            if begin >= 0 and 16 <= length <= 2048 and begin + length > at:
                return begin + length
            at = body.find(b"messageStop", at + 1)
        return len(body) + 1
    for match in re.finditer(rb"^(?:data: ?)?(\{.*\}) *\r?$", body, re.MULTILINE):
        try:
            payload = json.loads(match[1])
        except ValueError:
            continue
        if ends_the_turn(payload):
            return match.end(1)
    return len(body) + 1


def ends_the_turn(payload: dict[str, Any]) -> bool:
    return (
        payload.get("type") in ENDS
        or payload.get("event_type") == "stream-end"
        or payload.get("done") is True
        or any(choice.get("finish_reason") for choice in payload.get("choices") or ())
        or any(candidate.get("finishReason") for candidate in payload.get("candidates") or ())
    )


ENDS = ("message_stop", "response.completed", "response.incomplete", "response.failed", "message-end")


# -- the comparison --------------------------------------------------------------------------------------------------


def differences(row: dict[str, Any], turn: Turn) -> Iterator[str]:
    path = row.get("expected")
    answer: dict[str, Any] = json.loads((CORPUS / path).read_text(encoding="utf-8")) if path else {}
    if not answer or ("oracle_error" in answer and "tolerant" not in answer):
        yield from manifest_differences(row, turn)
    elif row.get("preferred") == "tolerant":
        merged = answer["tolerant"]
        calls = [call for call in merged["tool_calls"] if call.get("choice", 0) == 0]
        yield from text_differences({merged["text"] or ""}, turn.text)
        yield from calls_differences(calls, turn)
        if answer["error"] and turn.error is None:
            yield "error: expected some, got none"
    else:
        yield from text_differences({choice["text"] or "" for choice in answer.get("choices") or [answer]}, turn.text)
        if answer["reasoning"] and "".join(answer["reasoning"].split()) != "".join(turn.reasoning.split()):
            yield f"reasoning: expected {answer['reasoning']!r}, got {turn.reasoning!r}"
        if answer.get("refusal") not in (None, turn.refusal):
            yield f"refusal: expected {answer['refusal']!r}, got {turn.refusal!r}"
        yield from calls_differences(answer["tool_calls"], turn)
        yield from end_differences(row, answer, turn)
        yield from usage_differences(answer["usage"] or {}, turn)


def manifest_differences(row: dict[str, Any], turn: Turn) -> Iterator[str]:
    if row["has_text"] and not turn.text:
        yield "text: expected some, got none"
    if row["n_tool_calls"] and not turn.calls:
        yield "calls: expected some, got none"
    fails = row["error"] or row.get("oracle_status") == "error" or "finish:ERROR" in row["quirks"]
    if not fails and turn.error is not None:
        yield f"error: expected none, got {turn.error.kind}"


def text_differences(texts: set[str], got: str) -> Iterator[str]:
    texts |= {text[think.end() :] for text in texts if (think := THINK.match(text))}
    if got not in texts:
        yield f"text: expected {sorted(texts)!r}, got {got!r}"


def calls_differences(expected: list[dict[str, Any]], turn: Turn) -> Iterator[str]:
    wanted, got = [call["name"] for call in expected], [call.name for call in turn.calls]
    if len(wanted) != len(got):
        yield f"calls: expected {wanted!r}, got {got!r}"
        return
    for call, ours in zip(expected, turn.calls, strict=True):
        if call["kind"] != ours.kind:
            yield f"{ours.name}: kind: expected {call['kind']}, got {ours.kind}"
        item = call.get("block_type") or call.get("item_type")
        if ours.kind == "server" and item not in VERBATIM_SERVER_ITEMS:
            continue
        if call["name"] != ours.name:
            yield f"name: expected {call['name']!r}, got {ours.name!r}"
        if call["id"] and call["id"] != ours.call_id:
            yield f"{ours.name}: call_id: expected {call['id']!r}, got {ours.call_id!r}"
        if not same_arguments(call["arguments_json"] or "", ours):
            yield f"{ours.name}: arguments: expected {call['arguments_json']!r}, got {ours.arguments_text!r}"


VERBATIM_SERVER_ITEMS = ("server_tool_use", "mcp_tool_use", "custom_tool_call")


def same_arguments(expected: str, call: ToolCall) -> bool:
    if expected in ("", "null"):
        return call.arguments == {} or call.arguments_text == expected
    try:
        value = json.loads(expected)
        ours = json.loads(call.arguments_text) if call.arguments is None else call.arguments
    except ValueError:
        return call.arguments_text == expected
    return json.dumps(value, sort_keys=True) == json.dumps(ours, sort_keys=True)


def end_differences(row: dict[str, Any], answer: dict[str, Any], turn: Turn) -> Iterator[str]:
    raw, failed = answer["finish_reason"], bool(answer["error"])
    lost_end = not raw and not body_of(row["file"]).endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
    finish = FINISHES.get(raw, "error" if raw == "error" else "other") if raw else None
    if finish == "stop" and any(call["kind"] != "server" for call in answer["tool_calls"]):
        finish = "tool_calls"
    allowed = {finish}
    if answer.get("native_finish_reason"):
        allowed.add("length")
    if finish is None or failed:
        allowed |= {None, "error"}
    if turn.finish not in allowed and not lost_end:
        yield f"finish: expected one of {allowed}, got {turn.finish}"
    if (failed or finish == "error" or (not raw and "decode_error" in answer)) and turn.error is None:
        yield "error: expected some, got none"
    if raw and not failed and finish != "error" and turn.error is not None:
        yield f"error: expected none, got {turn.error.kind}"


def usage_differences(usage: dict[str, Any], turn: Turn) -> Iterator[str]:
    got = turn.usage or Usage()
    cache = (got.cached_input_tokens or 0) + (got.cache_write_input_tokens or 0)
    if usage.get("input_tokens") is not None:
        wanted = usage["input_tokens"] + (cache if turn.wire and CASES[turn.wire].cache_apart else 0)
        if got.input_tokens != wanted:
            yield f"usage.input_tokens: expected {wanted}, got {got.input_tokens}"
    if usage.get("output_tokens") is not None:
        thoughts = {usage.get("thoughts_tokens") or 0, got.reasoning_tokens or 0}  # xAI's are no part of the output
        allowed = {usage["output_tokens"] + more for more in (0, *thoughts)}
        if got.output_tokens not in allowed:
            yield f"usage.output_tokens: expected one of {allowed}, got {got.output_tokens}"


def test_every_exception_is_a_recording() -> None:
    assert {row["file"] for row in RECORDINGS} >= EXCEPTIONS
