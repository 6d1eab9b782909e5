"""Runs in words of ours: their schema, their types, and what anybody may see of them."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator
from shown_runs import fed, shown_runs

from streamtools.durable.codec import EVENTS
from streamtools.events import (
    ApprovalRequested,
    AttemptDiscarded,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFragment,
)
from streamtools.parts import ToolCall
from streamtools.web.approval_ids import approval_id, read_approval_id
from streamtools.web.encoding import RunEnd, framed
from streamtools.web.own import OwnEvents, encode_event, schema


def frames_of(name: str) -> list[Any]:
    encoder = OwnEvents()
    return [data for visit in shown_runs()[name] for _, data in fed(encoder, visit)]


def test_every_frame_of_every_run_fits_the_schema_as_it_is_written() -> None:
    Draft202012Validator.check_schema(schema())
    whole, seen = Draft202012Validator(schema()), dict[str, Any]()
    kinds, named = schema()["$defs"], schema()["discriminator"]["mapping"]
    each = {name: Draft202012Validator(kinds[ref.rpartition("/")[2]]) for name, ref in named.items()}  # alone: quick
    for name, visits in shown_runs().items():
        encoder = OwnEvents()
        for event in (event for visit in visits for event in visit):
            for frame in encoder(event):
                text = framed(frame).decode().partition("\ndata: ")[2]
                data = json.loads(text)
                assert data["event"] == frame[0]
                assert [problem.message for problem in each[frame[0]].iter_errors(data)] == [], (name, data)
                seen[frame[0]] = data
    assert all(map(whole.is_valid, seen.values()))
    assert each.keys() == seen.keys()
    for data in ({"event": "step_end"}, {"event": "gap", "seq": 1, "step": 0, "from_seq": 1, "to_seq": 1, "more": 1}):
        assert not whole.is_valid(data)


def test_every_event_of_the_library_has_its_words() -> None:
    assert schema()["$defs"].keys() == {*EVENTS, "RunEnd"} - {"ToolCallFragment", "OutputDelta"}
    assert list(OwnEvents()(ToolCallFragment())) == []


def test_the_default_sends_some_fields_of_the_same_frames_and_nothing_private() -> None:
    private = {"result", "error", "delta", "reasoning_delta", "display", "words"}
    for name, visits in shown_runs().items():
        encoder = OwnEvents()
        for event in (event for visit in visits for event in visit):
            (frame,) = list(encoder(event)) or [None]
            sent = encode_event(event)
            if isinstance(event, TextEnd) and event.whole is not None:
                assert sent == ("text_replaced", {"text": event.whole})
            elif sent is not None:
                assert frame is not None
                assert {key: frame[1][key] for key in sent[1]} == sent[1], name
                assert not private & {sent[0], *sent[1]}


def test_results_errors_and_progress_are_json_or_the_text_that_the_model_read() -> None:
    found = [(one["call_id"], one["outcome"], one.get("result"), one.get("error"), one.get("display"))
             for one in frames_of("three steps") if one["event"] == "observation"]  # fmt: skip
    assert sorted(found) == [
        ("a", "ok", "done", None, {"html": "<b>3</b>"}),
        ("a", "ok", "seen", None, None),
        ("b", "failed", None, "Error: no such place", None),
        ("c", "ok", {"at": "2026-11-28", "size": 1 << 70}, None, None),
        ("d", "ok", "\ud83d", None, None),
        ("e", "ok", {"of": None}, None, None),
        ("f", "ok", "_w==", None, None),
    ]
    values = [one["value"] for one in frames_of("three steps") if one["event"] == "tool_progress"]
    assert values == [
        1,
        "two",
        {"at": "2026-11-28", "size": 1 << 70},
        "[a value of type _Odd, which cannot be written as JSON]",
    ]


def test_arguments_grow_and_are_sent_whole_only_where_the_pieces_were_others() -> None:
    encoder = OwnEvents()
    pieces = [ToolCallDelta("a", '{"at"'), ToolCallDelta("b", "{}"), ToolCallDelta("a", ': "x"}')]
    assert [data["delta"] for _, data in fed(encoder, pieces)] == ['{"at"', "{}", ': "x"}']
    ends = [
        ToolCallEnd(ToolCall(call_id="a", name="f", arguments_text='{"at": "x"}', status="ready")),
        ToolCallEnd(ToolCall(call_id="b", name="f", arguments_text='{"at": 1}')),
    ]
    assert [data.get("whole") for _, data in fed(encoder, ends)] == [None, '{"at": 1}']
    again = [ToolCallDelta("a", "{"), AttemptDiscarded(1, 0, "crash"), *pieces, ends[0]]
    assert [data for _, data in fed(encoder, again)][-1].get("whole") is None


def test_an_approval_is_named_by_what_was_shown() -> None:
    (shown,) = (one for one in frames_of("approved") if one["event"] == "approval_requested")
    (event,) = (one for one in shown_runs()["approved"][0] if isinstance(one, ApprovalRequested))
    read = read_approval_id(shown["approval_id"])
    assert read is not None
    (run_id,) = {one["run_id"] for one in frames_of("approved") if one["event"] == "step_start"}
    assert (read.run_id, read.step, read.call_id, read.fingerprint) == (run_id, 0, "a", event.fingerprint)
    assert not {"approvals", "findings"} & shown.keys()
    (answer,) = (one for one in frames_of("a question") if one["event"] == "answer_requested")
    assert answer["question"] == {"which": "one"}
    for run_id, call_id in (("r", "c"), ("r#1", "a#b%23 é\n"), ("", "")):
        read = read_approval_id(approval_id(run_id, 3, call_id, "f"))
        assert (read.run_id, read.step, read.call_id, read.fingerprint) == (run_id, 3, call_id, "f")
    for text in ("", "a#b", "a#x#c#d", "a#1#c#d#e", "a#-1#c#d", "%zz#1#c#d", f"a#{'9' * 30}#c#d"):
        assert read_approval_id(text) is None, text


def test_a_run_ends_with_words_for_people() -> None:
    ends = {name: frames_of(name)[-1]["words"] for name in ("text", "broken", "refused", "contradicted")}
    assert ends == {
        "text": "the model made no more calls",
        "broken": "the run failed: stream truncated",
        "refused": "the run failed: internal error",
        "contradicted": "the response is complete",
    }
    assert RunEnd(outcome="error").words == "the run failed: internal error"
