"""Whole answers, of requests without a stream: read as a stream of one item, with the turn of the stream."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pytest
from profiles import every
from sansio import check_turn
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, INTERACTIONS, MISTRAL, OLLAMA, RESPONSES

from streamtools import Limits, StreamDecoder, Turn, agent_loop, parse, pipeline, tool
from streamtools.errors import StreamError, TruncatedStream
from streamtools.turn import TurnBuilder
from streamtools.wires import find

CITATION = {"type": "char_location", "cited_text": "sun", "document_index": 0}
ANSWERS: dict[str, dict[str, Any]] = {
    CHAT: {
        "id": "r1", "object": "chat.completion", "model": "m", "created": 1, "choices": [{
            "index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Let me look.", "reasoning_content": "Paris?", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                    {"id": "c2", "type": "function", "function": {"name": "f", "arguments": '{"a": 2}'}}]}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    },
    RESPONSES: {
        "id": "r1", "object": "response", "model": "m", "status": "completed", "error": None, "output": [
            {"type": "reasoning", "id": "rs1", "summary": [{"type": "summary_text", "text": "Paris?"}]},
            {"type": "message", "id": "m1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Let me look.", "annotations": []}]},
            {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "f", "arguments": '{"a": 1}',
             "status": "completed"},
            {"type": "function_call", "id": "fc2", "call_id": "c2", "name": "f", "arguments": '{"a": 2}',
             "status": "completed"}],
        "usage": {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14},
    },
    ANTHROPIC: {
        "id": "r1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "stop_sequence": None, "content": [
            {"type": "thinking", "thinking": "Paris?", "signature": "c2ln"},
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "f", "input": {"a": 2}}],
        "usage": {"input_tokens": 9, "output_tokens": 5},
    },
    GEMINI: {
        "responseId": "r1", "modelVersion": "m", "candidates": [{"index": 0, "finishReason": "STOP", "content": {
            "role": "model", "parts": [
                {"text": "Paris?", "thought": True}, {"text": "Let me look."},
                {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
                {"functionCall": {"id": "c2", "name": "f", "args": {"a": 2}}}]}}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14},
    },
    MISTRAL: {
        "id": "r1", "object": "chat.completion", "model": "m", "choices": [{
            "index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Paris?"}]},
                {"type": "text", "text": "Let me look."}], "tool_calls": [
                    {"id": "c1c1c1c1c", "function": {"name": "f", "arguments": '{"a": 1}'}},
                    {"id": "c2c2c2c2c", "function": {"name": "f", "arguments": '{"a": 2}'}}]}}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
    },
    COHERE: {
        "id": "r1", "finish_reason": "TOOL_CALL", "message": {
            "role": "assistant", "tool_plan": "Paris?", "content": [{"type": "text", "text": "Let me look."}],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                {"id": "c2", "type": "function", "function": {"name": "f", "arguments": '{"a": 2}'}}]},
        "usage": {"tokens": {"input_tokens": 9, "output_tokens": 5}},
    },
    OLLAMA: {
        "model": "m", "created_at": "2026-11-21T00:00:00Z", "done": True, "done_reason": "stop", "message": {
            "role": "assistant", "thinking": "Paris?", "content": "Let me look.", "tool_calls": [
                {"id": "c1", "function": {"name": "f", "arguments": {"a": 1}}},
                {"id": "c2", "function": {"name": "f", "arguments": {"a": 2}}}]},
        "prompt_eval_count": 9, "eval_count": 5,
    },
    BEDROCK: {
        "output": {"message": {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "Paris?", "signature": "c2ln"}}},
            {"text": "Let me look."},
            {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
            {"toolUse": {"toolUseId": "c2", "name": "f", "input": {"a": 2}}}]}},
        "stopReason": "tool_use", "usage": {"inputTokens": 9, "outputTokens": 5, "totalTokens": 14},
        "metrics": {"latencyMs": 3},
    },
    INTERACTIONS: {
        "id": "r1", "object": "interaction", "status": "requires_action", "model": "m", "steps": [
            {"type": "thought", "summary": [{"type": "text", "text": "Paris?"}], "signature": "c2ln"},
            {"type": "model_output", "content": [{"type": "text", "text": "Let me look."}]},
            {"type": "function_call", "id": "c1", "name": "f", "arguments": {"a": 1}},
            {"type": "function_call", "id": "c2", "name": "f", "arguments": {"a": 2}}],
        "usage": {"total_input_tokens": 9, "total_output_tokens": 5},
    },
}  # fmt: skip
COUNTED = {
    "input_tokens": 9, "output_tokens": 5, "total_tokens": 14,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}  # fmt: skip
NAMED = {MISTRAL}  # the others are found


@tool(effect="pure")
def f(a: int) -> int:
    """Double it."""
    return 2 * a


def check(turn: Turn, wire: str) -> None:
    assert turn.error is None
    assert (turn.wire, turn.complete, turn.finish) == (wire, True, "tool_calls")
    assert (turn.text, turn.reasoning) == ("Let me look.", "Paris?")
    assert [(call.name, call.arguments, call.status) for call in turn.calls] == [
        ("f", {"a": 1}, "ready"), ("f", {"a": 2}, "ready")
    ]  # fmt: skip
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (9, 5)
    assert turn.warnings == ()


@every("wire", ANSWERS)
def test_an_answer_is_read_as_a_dict_as_text_and_as_bytes(wire: str) -> None:
    answer, named = ANSWERS[wire], wire if wire in NAMED else None
    before = json.dumps(answer)
    for body in (answer, before.encode(), json.dumps(answer, indent=2).encode()):
        check(parse(body, wire=named), wire)
        check(parse(body, wire=wire), wire)
    check(parse(before, wire=named), wire)  # type: ignore[arg-type]
    assert json.dumps(answer) == before


@every("wire", ANSWERS)
@pytest.mark.anyio
async def test_its_calls_run_and_its_messages_are_such_that_the_provider_takes_them(wire: str) -> None:
    turn = await pipeline(ANSWERS[wire], tools=[f], wire=wire)
    assert [seen.value for seen in turn.observations] == [2, 4]
    own = parse(ANSWERS[wire], wire=wire)
    assert str(turn.messages()[0]) == str(own.messages(results={call.call_id: "x" for call in own.calls})[0])


def test_an_sdks_object_is_an_answer() -> None:
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.model_validate(ANSWERS[CHAT])

    async def read() -> Turn:
        return await pipeline(completion, tools=[f])

    import anyio

    check(anyio.run(read), CHAT)
    from anthropic.types import Message

    message = Message.model_validate(ANSWERS[ANTHROPIC])

    async def read_message() -> Turn:
        return await pipeline(message, tools=[f])

    check(anyio.run(read_message), ANTHROPIC)
    from openai.types.responses import Response

    response = Response.model_validate(
        {
            **ANSWERS[RESPONSES],
            "usage": COUNTED,
            "created_at": 1,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )

    async def read_response() -> Turn:
        return await pipeline(response, tools=[f])

    check(anyio.run(read_response), RESPONSES)


@every("wire", [CHAT, ANTHROPIC, RESPONSES, COHERE, BEDROCK])
def test_an_answer_that_was_cut_is_an_error_and_has_no_call(wire: str) -> None:
    text = json.dumps(ANSWERS[wire]).encode()
    turn = parse(text[:-20], wire=wire)
    assert (turn.calls, isinstance(turn.error, StreamError)) == ((), True)


@every("wire", [RESPONSES, INTERACTIONS])
@pytest.mark.anyio
async def test_an_answer_that_still_grows_in_the_background_is_pending_and_none_of_its_calls_runs(wire: str) -> None:
    ran: list[int] = []

    @tool(name="f", effect="pure")
    async def noting(a: int) -> int:
        """Note that it ran."""
        ran.append(a)
        return a

    for status in ("queued", "in_progress"):
        answer = {**ANSWERS[wire], "status": status}
        for body in (answer, json.dumps(answer).encode()):
            events = pipeline(body, tools=[noting], start="early")
            async with events:
                _ = [event async for event in events]
            turn = events.turn
            assert (ran, turn.complete, turn.error) == ([], False, None)
            assert (turn.finish, turn.finish_raw) == ("pending", status)
            assert (turn.text, turn.reasoning) == ("Let me look.", "Paris?")
            assert [(call.name, call.status, json.loads(call.arguments_text)) for call in turn.calls] == [
                ("f", "truncated", {"a": 1}), ("f", "truncated", {"a": 2})
            ]  # fmt: skip
            assert [seen.outcome for seen in turn.observations] == ["truncated"] * 2
            assert turn.resume_from.response_id == "r1"
            check_turn(turn)
            assert [turn.messages(), turn.messages(CHAT)] == [[], []]
    whole = await pipeline(ANSWERS[wire], tools=[noting])
    assert (sorted(ran), whole.complete) == ([1, 2], True)


@every("item", [{"type": "custom_tool_call", "input": "ls"}, {"type": "mcp_approval_request"}])
def test_no_item_that_waits_for_us_is_whole_in_an_answer_that_still_grows(item: dict[str, Any]) -> None:
    done = {"type": "web_search_call", "id": "ws1", "status": "completed", "action": {"query": "x"}}
    asked = {"id": "i1", "call_id": "c1", "name": "f", "arguments": "{}", "server_label": "s", **item}
    turn = parse({"id": "r1", "object": "response", "status": "in_progress", "output": [done, asked]})
    assert [(call.kind == "server", call.status) for call in turn.calls] == [(True, "ready"), (False, "truncated")]


def test_an_answer_that_still_grows_goes_on_with_the_stream_of_its_response() -> None:
    whole = ANSWERS[RESPONSES]
    head, said, call, _ = copy.deepcopy(whole["output"])
    said |= {"status": "in_progress", "content": [{**said["content"][0], "text": "Let me"}]}
    first = parse({**whole, "status": "in_progress", "output": [head, said, call]})
    assert first.text == "Let me"
    turn = parse(find(RESPONSES).whole(whole), wire=RESPONSES, continues=first)
    assert (turn.text, turn.complete, turn.error) == ("Let me look.", True, None)
    assert [(one.call_id, one.arguments) for one in turn.calls] == [("c1", {"a": 1}), ("c2", {"a": 2})]


def test_a_choice_that_is_whole_and_has_an_empty_finish_reason_is_complete_and_runs_no_call() -> None:
    message = {"role": "assistant", "content": "done"}
    turn = parse({"choices": [{"index": 0, "finish_reason": "", "message": message}]})
    assert (turn.text, turn.complete, turn.error, turn.finish) == ("done", True, None, "other")
    answer = copy.deepcopy(ANSWERS[CHAT])
    answer["choices"][0]["finish_reason"] = ""
    assert [(call.status, call.dispatchable) for call in parse(answer).calls] == [("ready", False)] * 2
    answer["choices"][0]["finish_reason"] = None
    assert isinstance(parse(answer).error, TruncatedStream)


@pytest.mark.anyio
async def test_a_run_that_gets_a_pending_answer_asks_no_further() -> None:
    async def ask(messages: Any, tools: Any) -> Any:
        return {**ANSWERS[RESPONSES], "status": "in_progress"}

    prompt = {"role": "user", "content": "?"}
    run = agent_loop(ask, [prompt], tools=[f], wire=RESPONSES)
    turn = await run
    assert (turn.finish, run.outcome, turn.text) == ("pending", "pending", "Let me look.")
    assert run.messages == [prompt]  # the finished answer, once it is asked for, has all of it


def test_an_answer_with_an_empty_delta_beside_its_message_is_whole() -> None:
    answer = copy.deepcopy(ANSWERS[CHAT])
    for delta in ({"role": "assistant", "content": ""}, {}, None):
        answer["choices"][0]["delta"] = delta
        check(parse(answer), CHAT)
    body = b"".join(
        b"data: %s\n\n" % json.dumps({**answer, "choices": [{**answer["choices"][0], "delta": delta}]}).encode()
        for delta in ({"content": "Let me look."}, {"content": ""})
    )
    assert parse(body).text == "Let me look."


def test_the_cited_text_and_the_servers_calls_of_an_answer_are_kept() -> None:
    answer = copy.deepcopy(ANSWERS[BEDROCK])
    cited = {"title": "t", "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 5}}}
    answer["output"]["message"]["content"][1:2] = [
        {"toolUse": {"toolUseId": "s1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}},
        {"toolResult": {"toolUseId": "s1", "type": "nova_grounding_result", "content": [{"text": "r"}]}},
        {"text": "Let me "},
        {"citationsContent": {"content": [{"text": "look."}], "citations": [cited]}},
    ]
    turn = parse(answer)
    assert (turn.text, turn.warnings) == ("Let me look.", ())
    assert [(call.kind, call.name, call.status) for call in turn.calls] == [
        ("server", "nova_grounding", "ready"), ("function", "f", "ready"), ("function", "f", "ready")
    ]  # fmt: skip
    history = json.dumps(turn.messages())
    assert all(json.dumps(kept)[1:-1] in history for kept in (cited, "nova_grounding_result", "look."))


def test_of_several_choices_the_one_with_index_0_is_taken_wherever_it_stands() -> None:
    big = {"n": 2**70}
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": big}}
    b, c, unnumbered = _choice(1, "b"), _choice(2, "c"), _choice(None, "a")
    for choices, calls in (
        ([b, _choice(0, "a")], 0),
        ([c, b, _choice(0, "a")], 0),
        ([_choice(0, "a"), b], 0),
        ([unnumbered, b, unnumbered], 0),
        ([b, _choice(0, "a", tool_calls=[call])], 1),
    ):
        answer = {**ANSWERS[CHAT], "choices": choices}
        for wire in (CHAT, MISTRAL):
            for given in (answer, json.dumps(answer).encode()):
                turn = parse(given, wire=wire)
                assert (turn.text, turn.complete, "extra_choice" in {warning.code for warning in turn.warnings}) == (
                    "a",
                    True,
                    True,
                )
                assert [json.loads(each.arguments_text) for each in turn.calls] == [big] * calls
    assert parse({**ANSWERS[CHAT], "choices": [b, c]}).text == "b"


def _choice(index: int | None, words: str, **more: Any) -> dict[str, Any]:
    return {"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": words, **more}}


def test_an_error_in_an_answers_place_says_the_providers_words() -> None:
    turn = parse({"error": {"message": "no such model", "type": "invalid_request_error"}})
    assert "no such model" in str(turn.error)
    turn = parse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, wire=ANTHROPIC)
    assert "Overloaded" in str(turn.error)


def test_what_beside_an_answer_nobody_reads_is_told() -> None:
    turn = parse({**ANSWERS[CHAT], "citations": ["https://a.example"]})
    assert turn.text == "Let me look."
    message = json.loads(json.dumps(ANSWERS[ANTHROPIC]))
    message["content"][1]["citations"] = [CITATION]
    assert "sun" in json.dumps(parse(message).messages())


@every("given", [{}, {"a": 1}, {"choices": []}, {"output": []}])
def test_a_dict_that_is_no_answer_is_named(given: Any) -> None:
    with pytest.raises(TypeError, match="a whole answer of any known wire, got another dict or object; pass the SDK's"):
        parse(given)
    with pytest.raises(TypeError, match="a whole answer of any known wire"):
        pipeline(given)
    with pytest.raises(TypeError, match=r"a whole answer of anthropic\.messages, got"):
        parse(ANSWERS[CHAT], wire=ANTHROPIC)


@every("indent", [None, 1])
def test_an_answer_is_kept_within_the_limit_of_an_event_and_no_further(indent: int | None) -> None:
    body = json.dumps(ANSWERS[ANTHROPIC], indent=indent).encode()
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    check(parse(pieces, limits=Limits(max_event_bytes=len(body))), ANTHROPIC)
    turn = parse(pieces, limits=Limits(max_event_bytes=len(body) // 2))
    assert (turn.calls, turn.complete, isinstance(turn.error, StreamError)) == ((), False, True)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Find the objects in a JSON value, by their paths."""
    if isinstance(value, dict):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@every("wire", ANSWERS)
def test_what_a_provider_adds_to_its_answers_is_found_again(wire: str) -> None:
    for path in places(ANSWERS[wire]):
        answer = copy.deepcopy(ANSWERS[wire])
        reduce(lambda inner, key: inner[key], path, answer)["new"] = "the new field"
        turn, told = TurnBuilder(), []
        decoder = StreamDecoder(wire=wire)
        whole = find(wire).whole
        for payload in [answer] if whole is None else whole(answer):
            told += decoder.feed(payload)
        told += decoder.finish()
        turn.add_all(told)
        kept = [part.provider_state for part in turn.build().parts]
        kept += [call.provider_state for call in turn.build().calls]
        shown = [getattr(event, field.name) for event in told for field in dataclasses.fields(event)]
        assert "the new field" in f"{kept} {shown}", path
