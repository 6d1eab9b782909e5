"""Gemini's calls whose arguments come in pieces: paths, values, ends, and what cannot be placed."""

from __future__ import annotations

import json
from typing import Any

from every_wire import GEMINI
from gemini_streams import call, gemini, piece, pieces, response, text
from profiles import every
from sansio import checked

from streamtools import Limits, StreamDecoder, ToolCall, Turn, parse
from streamtools.events import ToolCallDelta, ToolCallEnd, ToolCallStart, UnknownPayload


def read(*payloads: dict[str, Any], **options: Any) -> Turn:
    return checked(parse([*payloads, response(finish="STOP")], wire=GEMINI, **options))


def made(*given: Any, **options: Any) -> ToolCall:
    """The call that these pieces make, all in one part and each in its own."""
    at_once = read(response(call("f", partialArgs=list(given))), **options)
    single = [response(pieces(one)) for one in given]
    one_by_one = read(response(call("f", willContinue=True)), *single, response({"functionCall": {}}), **options)
    assert [c.arguments_text for c in at_once.calls] == [c.arguments_text for c in one_by_one.calls]
    assert [c.problem for c in at_once.calls] == [c.problem for c in one_by_one.calls]
    return at_once.calls[0]


# -- whole -------------------------------------------------------------------------------------------------------------


def test_pieces_make_the_arguments_in_the_order_in_which_they_came() -> None:
    found = made(
        piece("$.q", goes_on=True, stringValue="a"),
        piece("$.q", goes_on=True, stringValue="b"),
        piece("$.q", stringValue=""),
        piece("$.items[0].n", numberValue=1),
        piece("$.items[1].n", numberValue=-2.5),
        piece("$.items[1].ok", boolValue=False),
        piece("$.none", nullValue="NULL_VALUE"),
        piece("$.null", nullValue=None),
    )
    assert found.arguments_text == '{"q":"ab","items":[{"n":1},{"n":-2.5,"ok":false}],"none":null,"null":null}'
    assert found.arguments == json.loads(found.arguments_text)
    assert found.dispatchable


def test_the_text_of_the_arguments_comes_only_with_the_end() -> None:
    decoder = StreamDecoder(tools=["f"])
    assert [type(event) for event in decoder.feed(response(call("f", willContinue=True)))][1:] == [ToolCallStart]
    assert not decoder.feed(response(pieces(piece("$.a", numberValue=1))))
    assert not decoder.feed(response(text("")))
    ends = decoder.feed(response({"functionCall": {}}))
    assert [type(event) for event in ends][:2] == [ToolCallDelta, ToolCallEnd]


@every(
    ("path", "arguments"),
    [
        ("$.a", {"a": 1}),
        ("$.a.b.c", {"a": {"b": {"c": 1}}}),
        ("$.a[0][0]", {"a": [[1]]}),
        ("$['a']", {"a": 1}),
        ('$["a"].b', {"a": {"b": 1}}),
        ("$['a.b'][0]", {"a.b": [1]}),
        ("$['it\\'s']", {"it's": 1}),
        ("$['\"']", {'"': 1}),
        ("$['\\u0041\\\\n']", {"A\\n": 1}),
        ('$["\\ud83d\\ude00"]', {"\U0001f600": 1}),
        ("$['']", {"": 1}),
        ("$['0']", {"0": 1}),
        ("$.0", {"0": 1}),
        ("$.a-b.$ref.@type", {"a-b": {"$ref": {"@type": 1}}}),
        ("$.名", {"名": 1}),
        ("$.__proto__.isAdmin", {"__proto__": {"isAdmin": 1}}),
        ("$.__class__['__init__']", {"__class__": {"__init__": 1}}),
    ],
)
def test_a_path_is_names_and_indexes_and_nothing_else(path: str, arguments: dict[str, Any]) -> None:
    assert made(piece(path, numberValue=1)).arguments == arguments


@every(
    "path",
    [
        None, 7, "", "a", "$", ".a", "$a", "$.", "$..a", "$.*", "$[*]", "$.a[*]", "$.a[-1]", "$.a[0:2]", "$.a[?@.b]",
        "$.a[1]", "$.a[01]", "$.a[0", "$.a['b]", "$.a['b'", "$.a[b]", "$.a b", "$.a.", "$['\\x']", '$["\n"]', "$[0]",
        "$.a[10001]", "$.a[999999999999999999999]", "$" + ".a" * 65, "$['" + "\\n" * 300 + "']",
    ],
)  # fmt: skip
def test_a_path_that_is_none_makes_the_call_unusable(path: Any) -> None:
    found = made(piece("$.ok", numberValue=1), piece(path, numberValue=1), piece("$.later", numberValue=1))
    assert (found.status, found.problem, found.arguments_text) == ("invalid", "bad_path", "")


@every(
    "value",
    [
        {}, {"stringValue": 1}, {"numberValue": "1"}, {"numberValue": True}, {"boolValue": 1}, {"boolValue": "true"},
        {"stringValue": "a", "numberValue": 1}, {"structValue": {}}, {"numberValue": [1]},
        {"nullValue": 0, "boolValue": True},
    ],
)  # fmt: skip
def test_a_value_that_is_none_makes_the_call_unusable(value: dict[str, Any]) -> None:
    assert made(piece("$.a", **value)).problem == "bad_path"


@every("given", ["x", 7, None, ["$.a"]])
def test_a_piece_that_is_none_makes_the_call_unusable(given: Any) -> None:
    assert made(given).problem == "bad_path"
    assert read(response(call("f", partialArgs={"jsonPath": "$.a"}))).calls[0].problem == "bad_path"


@every(
    "second",
    [
        piece("$.a", numberValue=1),
        piece("$.a", stringValue="y"),
        piece("$.a", nullValue="NULL_VALUE"),
        piece("$.a.b", numberValue=1),
        piece("$.a[0]", numberValue=1),
        piece("$.list.a", numberValue=1),
        piece("$.list", numberValue=1),
        piece("$.list", goes_on=True),
        piece("$.list[0]", stringValue="y"),
        piece("$.list[2]", stringValue="y"),
        piece("$.object[0]", numberValue=1),
        piece("$.object", stringValue="y"),
    ],
)
def test_a_place_that_is_taken_is_not_overwritten(second: dict[str, Any]) -> None:
    first = [piece("$.a", stringValue="x"), piece("$.list[0]", numberValue=1), piece("$.object.n", numberValue=1)]
    assert made(*first).status == "ready"
    assert made(*first, second).problem == "bad_path"


def test_marks_without_a_value_change_nothing() -> None:
    found = made(
        piece("$.q", goes_on=True),
        piece("$.q", goes_on=True, stringValue="a"),
        piece("$.q", goes_on=True),
        piece("$.q"),
        piece("$.q"),
        piece("$.n", numberValue=1),
        piece("$.n"),
    )
    assert found.arguments == {"q": "a", "n": 1}


def test_integers_keep_all_their_digits() -> None:
    given = b'{"jsonPath":"$.n","numberValue":%d},{"jsonPath":"$.x","numberValue":1e30}' % 2**70
    part = b'{"functionCall":{"name":"f","partialArgs":[%s]}}' % given
    for spelled in (part, part.replace(b"jsonPath", b"json_path").replace(b"functionCall", b"function_call")):
        body = b'data: {"candidates":[{"content":{"parts":[%s]}}]}\r\n\r\n' % spelled + gemini()[-1]
        assert parse(body).calls[0].arguments == {"n": 2**70, "x": 1e30}
    assert made(piece("$.n", numberValue=2**70)).arguments == {"n": 2**70}


@every("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_does_not_run(number: float) -> None:
    turn = parse([response(call("f", partialArgs=[piece("$.n", numberValue=number)])), response(finish="STOP")])
    assert [c.status for c in turn.calls] == ["invalid"]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_call_ends_with_the_part_that_does_not_go_on() -> None:
    turn = read(
        response(call("f", willContinue=True, signature="cw==")),
        response({"functionCall": {"willContinue": True}}),
        response(pieces(piece("$.a", numberValue=1), goes_on=False), call("g", {})),
    )
    assert [(c.name, c.arguments) for c in turn.calls] == [("f", {"a": 1}), ("g", {})]
    assert turn.calls[0].provider_state == {"thoughtSignature": "cw=="}
    assert not turn.warnings


def test_a_call_without_any_piece_has_no_arguments() -> None:
    turn = read(response(call("f", willContinue=True)), response({"functionCall": {}}))
    assert [(c.status, c.arguments) for c in turn.calls] == [("ready", {})]


@every("finish", ["STOP", "MAX_TOKENS", None])
def test_a_call_that_was_not_ended_is_truncated_whatever_it_has(finish: str | None) -> None:
    payloads = [
        response(call("bash", willContinue=True)),
        response(pieces(piece("$.cmd", stringValue="rm -rf /tmp/x"))),
        response(finish=finish),
    ]
    turn = parse(payloads)
    assert [(c.status, c.problem, c.arguments_text) for c in turn.calls] == [("truncated", "incomplete_json", "")]
    assert not turn.calls[0].dispatchable
    assert turn.messages()[0]["parts"] == [{"functionCall": {"name": "bash", "args": {}}}]


@every("mark", ["yes", 1, [0]])
def test_a_mark_that_is_odd_is_taken_for_going_on(mark: Any) -> None:
    turn = read(response(call("f", {"a": 1}, willContinue=mark)))
    assert [c.status for c in turn.calls] == ["truncated"]
    turn = read(response(call("f", partialArgs=[piece("$.a", stringValue="x") | {"willContinue": mark}])))
    assert [c.status for c in turn.calls] == ["truncated"]


def test_a_value_that_was_to_go_on_and_did_not_was_cut() -> None:
    turn = read(
        response(call("f", willContinue=True)),
        response(pieces(piece("$.n", goes_on=True, numberValue=1))),
        response(pieces(goes_on=False)),
    )
    assert [(c.status, c.problem) for c in turn.calls] == [("truncated", "incomplete_json")]


def test_the_calls_own_id_tells_what_belongs_to_it() -> None:
    turn = read(
        response(call("f", id="i", willContinue=True)),
        response(pieces(piece("$.a", numberValue=1), id="i", name="f")),
        response(pieces(piece("$.b", numberValue=2), id="j")),
        response(pieces(piece("$.c", numberValue=3), id="i", goes_on=False)),
    )
    assert [(c.call_id, c.arguments) for c in turn.calls] == [("i", {"a": 1, "c": 3})]
    assert [w.code for w in turn.warnings] == ["delta_without_block"]


def test_a_piece_of_no_call_is_reported_and_nobodys() -> None:
    decoder = StreamDecoder()
    orphans = [pieces(piece("$.a", numberValue=1)), {"functionCall": {"willContinue": True}}, call(signature="cw==")]
    told = decoder.feed(response(*orphans, finish="STOP")) + decoder.finish()
    assert len([event for event in told if isinstance(event, UnknownPayload)]) == 3
    assert told[-1].finish == "stop"  # type: ignore[attr-defined]


def test_a_name_while_a_call_is_open_begins_another() -> None:
    turn = read(
        response(call("f", willContinue=True)),
        response(call("f", partialArgs=[piece("$.a", numberValue=1)])),
        response(call("f", willContinue=True)),
        response(call("g", {})),
    )
    assert [(c.name, c.status) for c in turn.calls] == [
        ("f", "truncated"),
        ("f", "ready"),
        ("f", "truncated"),
        ("g", "ready"),
    ]


def test_the_first_part_of_a_call_and_the_first_signature_count() -> None:
    late = {"functionCall": {}, "thoughtSignature": "dHdv", "partMetadata": {"k": 1}}
    payloads = [
        response(call("f", willContinue=True) | {"partMetadata": {"k": 0}}),
        response(pieces(piece("$.a", numberValue=1)) | {"thoughtSignature": "b25l", "thought": True}),
        response(late),
    ]
    turn = read(*payloads)
    assert turn.calls[0].provider_state == {"thoughtSignature": "b25l", "partMetadata": {"k": 0}}
    assert [w.code for w in turn.warnings] == ["extra_signature"]
    decoder = StreamDecoder()
    unknown = [event.raw for item in payloads for event in decoder.feed(item) if isinstance(event, UnknownPayload)]
    assert unknown == [{"partMetadata": {"k": 1}}]


def test_arguments_at_once_may_come_with_a_call_that_goes_on() -> None:
    for payloads, expected in (
        ([call("f", {"a": 1}, willContinue=True), {"functionCall": {}}], {"a": 1}),
        ([call("f", {"a": 1}, partialArgs=[piece("$.a", numberValue=1)])], {"a": 1}),
        ([call("f", {}, partialArgs=[piece("$.a", numberValue=1)])], {"a": 1}),
        ([call("f", {"a": 2}, partialArgs=[piece("$.a", numberValue=1)])], None),
        ([call("f", '{"a":', partialArgs=[piece("$.a", numberValue=1)])], None),
        ([call("f", willContinue=True), call(args='{"a": 1}')], {"a": 1}),
    ):
        [found] = read(*(response(part) for part in payloads)).calls
        assert found.arguments == expected
        assert (found.problem == "bad_path") is (expected is None)


# -- limits ------------------------------------------------------------------------------------------------------------


def test_limits_hold_before_anything_is_kept() -> None:
    small = Limits(max_argument_bytes=50, max_path_depth=3, max_array_index=2)
    for given in (
        [piece("$.a", stringValue="x" * 60)],
        [piece(f"$.a{number}", numberValue=1) for number in range(20)],
        [piece(f"$['{'a' * number}'][0]", numberValue=1) for number in range(10)],
        [piece(f"$.{'a' * 30}[{number}]", numberValue=1) for number in range(3)] + [piece("$.b[0]", boolValue=True)],
        [piece("$.a", goes_on=True, stringValue="x" * 20)] * 3,
        [piece("$." + "n" * 60, goes_on=True)],
        [piece("$." + "n" * 60 + ".b", boolValue=True)],
    ):
        assert made(*given, limits=small).problem == "argument_too_large"
    items = [piece(f"$.a[{number}]", numberValue=1) for number in range(4)]
    assert made(*items, limits=Limits(max_argument_bytes=20)).problem == "argument_too_large"
    assert made(piece("$.a.b.c.d", numberValue=1), limits=small).problem == "bad_path"
    three = [piece(f"$.l[{number}]", numberValue=1) for number in range(3)]
    assert made(*three, limits=small).arguments == {"l": [1, 1, 1]}
    assert made(*three, piece("$.l[3]", numberValue=1), limits=small).problem == "bad_path"
