"""Servers that speak Chat Completions each in their own way: what they want back, and what they say twice or apart."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

from openai.types.chat import ChatCompletion, ChatCompletionChunk
from profiles import every
from sansio import CHAT, DATA, byte_by_byte, check_histories, check_turn, codes, json_lines, random_splits
from streams import chat_chunk, sse
from wire_cases.names import ANTHROPIC, BEDROCK, MISTRAL, RESPONSES

from streamtools import Limits, StreamDecoder, Turn, parse
from streamtools.errors import LimitExceeded
from streamtools.events import UnknownPayload
from streamtools.history import convert, lint, repair
from streamtools.sources import as_item

Delta = dict[str, Any]
OSLO = '{"city":"Oslo"}'
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": OSLO}}
BEGUN = {"tool_calls": [{"index": 0, **CALLED, "function": {"name": "weather", "arguments": ""}}]}
GROWN = {"tool_calls": [{"index": 0, "function": {"arguments": OSLO}}]}
CALL = (BEGUN, GROWN)


def streamed(*deltas: Delta, finish: str = "tool_calls") -> list[dict[str, Any]]:
    return [*map(chat_chunk, deltas), chat_chunk({}, finish)]


def answered(message: Delta, finish: str = "tool_calls") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"id": "x", "object": "chat.completion", "created": 7, "model": "m", "choices": [choice]}


def ways(payloads: list[dict[str, Any]]) -> Iterator[Turn]:
    """A stream as dicts, as bytes however they are cut, and as an SDK's objects, which keep the extras apart."""
    body = b"".join([*sse(payloads), b"data: [DONE]\n\n"])
    for items in (payloads, [body], byte_by_byte(body), *random_splits(body, 4, "chat servers")):
        yield parse(items)
    with warnings.catch_warnings(action="ignore"):  # the SDK's: its type has no list as content
        yield parse([as_item(ChatCompletionChunk.construct(**payload)) for payload in payloads])


def wholes(answer: dict[str, Any]) -> Iterator[Turn]:
    yield parse(answer)
    yield parse([json.dumps(answer).encode()])
    with warnings.catch_warnings(action="ignore"):
        yield parse(as_item(ChatCompletion.construct(**answer)))


# -- what goes back ----------------------------------------------------------------------------------------------------


def summed(text: str, signature: str = "") -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, "signature": signature}]}


def function(**more: Any) -> dict[str, Any]:
    return {**CALLED["function"], **more}  # type: ignore[dict-item]


SIGNED = {"thought_signature": "U0lH+/="}
GOOGLE = {"google": SIGNED}

KEPT = {row["case"]: row for row in json_lines(DATA / "kept.jsonl")}
"""What servers say that has to go back: in deltas, and in the message of a whole answer."""


@every("name", KEPT)
def test_what_a_server_wants_back_goes_back_in_its_field_to_the_letter(name: str) -> None:
    deltas, message, reasoning = (KEPT[name][part] for part in ("deltas", "message", "reasoning"))
    says_calls = any("tool_calls" in delta for delta in deltas)
    calls = {"tool_calls": [CALLED]} if says_calls else {}
    back = {"role": "assistant", **calls, **message}
    finish = "tool_calls" if says_calls else "stop"
    for turn in ways(streamed(*deltas, finish=finish)):
        assert turn.messages()[0] == back
        assert turn.reasoning == reasoning
        check_turn(turn)
    check_histories(turn)
    for turn in wholes(answered({**calls, **message}, finish)):
        assert turn.messages()[0] == back
    # An answer that was kept as it came goes back so, too, also if something else in the history is repaired.
    bad = {"role": "assistant", "content": None, "tool_calls": []}
    history = [{"role": "user", "content": "Hi"}, bad, back, *turn.messages()[1:]]
    assert repair(history, CHAT)[1] == back
    assert "SIG" not in json.dumps(turn.messages(ANTHROPIC)), "another provider takes no signature"


EMPTY_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")


@every("field, calls", [(field, calls) for field in EMPTY_FIELDS for calls in (True, False)])
def test_reasoning_that_was_sent_empty_is_sent_back_empty(field: str, calls: bool) -> None:
    """Empty is not absent: DeepSeek refuses the next request without the field (llm-rosetta#356)."""
    said: list[Delta] = [{"content": None, field: ""}, *(CALL if calls else [{"content": "Hi", field: ""}])]
    finish = "tool_calls" if calls else "stop"
    message: Delta = {"tool_calls": [CALLED], "content": None} if calls else {"content": "Hi"}
    turns = [*ways(streamed(*said, finish=finish)), *wholes(answered({**message, field: ""}, finish))]
    for turn in turns:
        assert turn.messages()[0][field] == ""
        assert turn.reasoning == ""
    for turn in ways(streamed({field: ""}, {field: "Hm"}, {field: ""}, *said[1:], finish=finish)):
        assert turn.messages()[0][field] == "Hm"
    for turn in (
        *ways(streamed(*([{"content": "Hi"}] if not calls else CALL), finish=finish)),
        *wholes(answered(message, finish)),
    ):
        assert field not in turn.messages()[0], "absent is absent"


def test_reasoning_in_two_fields_goes_back_in_both() -> None:
    for turn in ways(streamed({"reasoning": "A"}, {"reasoning_content": "B"}, *CALL)):
        message = turn.messages()[0]
        assert (message["reasoning"], message["reasoning_content"], turn.reasoning) == ("A", "B", "AB")


@every("said, back", [("", ""), (None, None), ("absent", None)])
def test_content_that_says_nothing_beside_calls_goes_back_in_the_servers_own_form(
    said: str | None, back: str | None
) -> None:
    """Ollama Cloud, LM Studio and Workers AI refuse null (SAIL-Research-Lab/cheetahclaws#72), and say "" themselves.
    What is absent is null: some want the key (jekalmin/extended_openai_conversation#456), Bedrock behind a gateway
    refuses an empty text (vercel/ai#13538), and null is what OpenAI itself writes."""
    content = {} if said == "absent" else {"content": said}
    for deltas in ([{"role": "assistant", **content}, *CALL], [BEGUN, {**GROWN, **content}], [*CALL, content]):
        for turn in ways(streamed(*deltas)):
            assert turn.messages()[0]["content"] == back
            assert turn.messages(MISTRAL)[0]["content"] == ""
        check_histories(turn)
    for turn in wholes(answered({**content, "tool_calls": [CALLED]})):
        message = turn.messages()[0]
        assert message["content"] == back
        results = [
            message,
            *turn.messages()[1:],
            {"role": "assistant", "content": None},
            {"role": "user", "content": "?"},
        ]
        assert repair(results, CHAT)[0] == message
    for turn in ways(streamed({"content": ""}, {"content": "Hi"}, *CALL)):
        assert turn.messages()[0]["content"] == "Hi"


def test_a_field_of_a_call_that_is_not_kept_is_named_once_and_its_value_is_not() -> None:
    calls = [
        {"index": n, **CALLED, "id": f"c{n}", "lane": f"secret {n}", "function": function(tier="secret")}
        for n in (0, 1)
    ]
    for turn in ways(streamed({"tool_calls": [calls[0]]}, {"tool_calls": [calls[1]]})):
        dropped = [warning for warning in turn.warnings if warning.code == "state_dropped"]
        assert [warning.detail for warning in dropped] == ["lane, tier"]
    clean = {
        "tool_calls": [{"index": 0, **CALLED, "lane": None, "function": function(parsed_arguments={"city": "Oslo"})}]
    }
    assert codes(parse(streamed(clean))) == []


def test_an_opaque_value_that_another_replaces_is_passed_on() -> None:
    payloads = streamed({"reasoning_opaque": "A"}, {"reasoning_opaque": "B"}, *CALL)
    assert parse(payloads).messages()[0]["reasoning_opaque"] == "B"
    decoder = StreamDecoder()
    events = [event for payload in payloads for event in decoder.feed(payload)]
    [passed_on] = [event for event in events if isinstance(event, UnknownPayload)]
    assert (passed_on.raw, passed_on.place) == ({"reasoning_opaque": "A"}, "choices[0].delta.reasoning_opaque")


def test_what_is_kept_is_bounded() -> None:
    for delta in (
        {"reasoning_opaque": "x" * 60},
        {"extra_content": {"a": ["x" * 60]}},
        {"content": [summed("", "x" * 60)]},
    ):
        error = parse(streamed(delta, *CALL), limits=Limits(max_text_bytes=50)).error
        assert isinstance(error, LimitExceeded)
        assert error.setting == "max_text_bytes"
    again = [{"provider_specific_fields": {"found": ["x" * 20]}}] * 99
    assert parse(streamed(*again, *CALL), limits=Limits(max_text_bytes=50)).error is None, (
        "the same again costs nothing"
    )


# -- Gemini's facade: thoughts in the content --------------------------------------------------------------------------

MARK = {"extra_content": {"google": {"thought": True}}}
THOUGHTS: dict[str, list[Delta]] = {
    "between tags": [
        {"content": "<thought>Hm", **MARK},
        {"content": "m", **MARK},
        {"content": "</thought>Hi"},
        {"content": " you"},
    ],
    "without tags": [{"content": "Hm", **MARK}, {"content": "m", **MARK}, {"content": "Hi"}, {"content": " you"}],
    "whole": [{"content": "<thought>Hmm</thought>Hi you", **MARK}],
    "the end of the tag alone": [{"content": "<thought>Hmm", **MARK}, {"content": "</thought>"}, {"content": "Hi you"}],
    "Vertex": [{"content": "Hmm", "extra_content": {"vertex": {"thought": True}}}, {"content": "Hi you"}],
}


@every("name", THOUGHTS)
def test_a_text_that_is_marked_as_a_thought_is_reasoning_and_does_not_go_back(name: str) -> None:
    """The facade puts tags around it, too (olimorris/codecompanion.nvim, its adapter for Gemini)."""
    signed = {"content": "!", "extra_content": GOOGLE}
    for turn in ways(streamed(*THOUGHTS[name], signed, finish="stop")):
        assert (turn.reasoning, turn.text) == ("Hmm", "Hi you!")
        assert turn.messages() == [{"role": "assistant", "content": "Hi you!", "extra_content": GOOGLE}]
    extra = {"extra_content": {"google": {"thought": True, **SIGNED}}}
    for turn in wholes(answered({"content": "<thought>Hmm</thought>Hi", **extra}, "stop")):
        assert (turn.reasoning, turn.text) == ("Hmm", "Hi")
        assert turn.messages() == [{"role": "assistant", "content": "Hi", "extra_content": GOOGLE}]


def test_a_tag_without_the_mark_stays_text() -> None:
    turn = parse(streamed({"content": "<thought>a</thought>b"}, finish="stop"))
    assert (turn.text, turn.reasoning) == ("<thought>a</thought>b", "")


# -- ids that have a signature in them ---------------------------------------------------------------------------------


@every("size", [41, 200, 300, 2_000, 6_000, 8_192])
def test_an_id_with_a_signature_in_it_goes_back_to_its_server_and_to_no_other(size: int) -> None:
    """LiteLLM writes Gemini's signature into the id, and reads it there again (BerriAI/litellm#16895)."""
    id_ = ("call_ab12__thought__" + "Q0FJ+/=" * 1_200)[:size]
    head = {"tool_calls": [{"index": 0, **CALLED, "id": id_, "function": {"name": "weather", "arguments": ""}}]}
    for turn in (*ways(streamed(head, GROWN)), *wholes(answered({"tool_calls": [{**CALLED, "id": id_}]}))):
        message, result = turn.messages()
        assert (message["tool_calls"][0]["id"], result["tool_call_id"]) == (id_, id_)
        assert "id_replaced" not in codes(turn)
    if size < 100:
        return  # OpenAI takes 40 characters, and ids of other providers have hardly more
    history = [{"role": "user", "content": "Hi"}, message, result]
    assert lint(history, CHAT) == []
    assert repair(history, CHAT) is history
    for target in (ANTHROPIC, BEDROCK, MISTRAL):
        converted = convert(history, CHAT, target).messages
        assert id_ not in json.dumps(converted)
        assert lint(converted, target) == []
    other = convert(history, CHAT, CHAT, foreign=True).messages
    assert other[1]["tool_calls"][0]["id"] == other[2]["tool_call_id"] != id_
    assert lint(other, CHAT) == []
    called = {"type": "function_call", "call_id": id_, "name": "weather", "arguments": "{}"}
    items = [history[0], called, {"type": "function_call_output", "call_id": id_, "output": ""}]
    assert lint(items, RESPONSES) == []
    assert repair(items, RESPONSES) is items
    assert id_ not in json.dumps(convert(history, CHAT, RESPONSES).messages)


# -- the whole again at the end ----------------------------------------------------------------------------------------


@every("field", ["content", "reasoning_content", "reasoning"])
def test_a_text_that_the_last_chunk_has_whole_again_is_said_once(field: str) -> None:
    """The proof is that it equals all pieces before it, in the chunk with the finish reason: no token does. What is
    short, or came in one piece, may have been said twice, and stays."""

    def text_of(turn: Turn) -> str:
        return turn.text if field == "content" else turn.reasoning

    def told(*pieces: str, last: str) -> list[dict[str, Any]]:
        more: list[Delta] = [] if field == "content" else [{"content": "So."}]
        return [
            *(chat_chunk({field: piece}) for piece in pieces),
            *map(chat_chunk, more),
            chat_chunk({field: last}, "stop"),
        ]

    words = [f"word {n} " for n in range(20)]
    for pieces in (words, ["Hello ", "world"], ["".join(words)]):
        for turn in ways(told(*pieces, last="".join(pieces))):
            assert (text_of(turn), "text_resent" in codes(turn)) == ("".join(pieces), True)
    for pieces, last in (
        (["ha", "ha"], "haha"),
        (["Ha ha ha. "], "Ha ha ha. "),
        (words, "".join(words)[:-1]),
        (words, "more"),
    ):
        for turn in ways(told(*pieces, last=last)):
            assert (text_of(turn), "text_resent" in codes(turn)) == ("".join(pieces) + last, False)
