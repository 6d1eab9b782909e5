"""Input items of the Responses API: read and written back as they are; what it refuses is found, and mended."""

from __future__ import annotations

from typing import Any

import anyio
from every_wire import RESPONSES
from native_histories import again, codes, found, observed, repaired
from openai._models import construct_type
from openai.types.responses import ResponseStreamEvent
from profiles import every
from sdk_types import check_types
from streams import chat_chunk
from wire_cases.responses import check_items

from streamtools import Turn, history, parse, pipeline
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.wires import find
from streamtools.wires.transcript import Prompt, Reply, Returned

WIRE = find(RESPONSES)
ASK, MORE = {"role": "user", "content": "Hi"}, {"role": "user", "content": "more"}
PNG = "data:image/png;base64,iVBO"


def message(*content: Any, **more: Any) -> dict[str, Any]:
    item = {"type": "message", "role": "assistant", "status": "completed", "content": list(content)}
    return item | {"id": "msg_1"} | more


def text(value: str = "ok") -> dict[str, Any]:
    return {"type": "output_text", "text": value, "annotations": []}


def thought(id_: str = "rs_1", **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": id_, "summary": [], "encrypted_content": "gAAA", **more}


def call(call_id: str = "call_1", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": "f",
        "arguments": arguments,
    } | more


def output(call_id: str = "call_1", value: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value} | more


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "id"}


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_c", "name": "sh", "input": "ls"}
CUSTOM_OUTPUT = {
    "type": "custom_tool_call_output",
    "call_id": "call_c",
    "output": [{"type": "input_text", "text": "a"}],
}
ACTION = {"type": "exec", "command": ["ls"], "env": {}}
SHELL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "call_s",
    "status": "completed",
    "action": ACTION,
}
SHELL_OUTPUT = {"type": "local_shell_call_output", "call_id": "call_s", "output": "done"}


PICTURE = {"type": "input_image", "image_url": PNG, "detail": "low"}

# -- reading -----------------------------------------------------------------------------------------------------------

RICH: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look"}, PICTURE]},
    thought(),
    message(text("Let me see")),
    SEARCH,
    call(namespace="n"),
    CUSTOM,
    SHELL,
    output(),
    CUSTOM_OUTPUT,
    SHELL_OUTPUT,
    thought("rs_2", summary=[{"type": "summary_text", "text": "Hm"}, {"type": "summary_text", "text": "so"}]),
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
    message({"type": "refusal", "refusal": "No."}, id="msg_2"),
    {"role": "assistant", "content": "by hand"},
    MORE,
]  # fmt: skip


def test_a_good_history_is_the_same_object_after_repair_and_is_written_back_as_it_stood() -> None:
    assert history.lint(RICH, RESPONSES) == []
    assert history.repair(RICH, RESPONSES) is RICH
    assert again(RICH, RESPONSES) == RICH
    check_types(RESPONSES, RICH)


def test_items_that_follow_one_another_are_one_answer_and_stay_in_their_places() -> None:
    entries = WIRE.read(RICH)
    assert [type(entry) for entry in entries] == [Prompt, Prompt, Reply, Returned, Returned, Returned, Reply, Prompt]
    first, second = (entry for entry in entries if isinstance(entry, Reply))
    assert (first.origin, second.origin) == ((2, 8), (11, 15))
    assert [(part.kind, part.text) for part in first.answer.parts] == [
        ("reasoning", ""),
        ("text", "Let me see"),
        *[("call", "")] * 4,
    ]
    assert [(part.kind, part.text) for part in second.answer.parts] == [
        ("reasoning", "Hm\n\nso"),
        ("provider", ""),
        ("refusal", "No."),
        ("provider", ""),
        ("text", "by hand"),
    ]
    states = [part.provider_state for part in first.answer.parts if part.provider_state]
    states += [made.provider_state for made in first.answer.calls.values() if made.provider_state]
    assert [(state["output_index"], state["item"]) for state in states] == list(enumerate(RICH[2:8]))
    made = first.answer.calls
    assert [(c.name, c.kind, dict(c.arguments or {})) for c in made.values()] == [
        ("web_search_call", "server", {"action": SEARCH["action"]}),
        ("n.f", "function", {}),
        ("sh", "custom", {"input": "ls"}),
        ("local_shell_call", "function", {"action": ACTION}),
    ]


def test_a_developers_prompt_is_a_system_prompt_that_keeps_its_role() -> None:
    prompt = WIRE.read(RICH)[0]
    assert isinstance(prompt, Prompt)
    assert (prompt.role, prompt.blocks, prompt.state) == ("system", (Text("Be brief."),), {"role": "developer"})


@every(
    ("item", "content", "is_error", "media"),
    [
        (output(value="a"), "a", False, None),
        (output(value=[{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]), "a\nb", False, None),
        (
            output(value=[{"type": "input_image", "image_url": PNG}]),
            "[image: image/png]",
            False,
            ("image", "image/png", "iVBO", None, None),
        ),
        (
            output(value=[{"type": "input_image", "image_url": "https://x"}]),
            "[image]",
            False,
            ("image", None, None, "https://x", None),
        ),
        (
            output(value=[{"type": "input_file", "file_id": "f", "filename": "n"}]),
            "[file: n]",
            False,
            ("file", None, None, None, "f"),
        ),
        (output(value=[{"type": "input_file", "file_url": "u"}]), "[file]", False, ("file", None, None, "u", None)),
        (output(value={"a": 1}), '{"a":1}', False, None),
        (output(value=[{"stdout": "a", "outcome": {}}]), '[{"stdout":"a","outcome":{}}]', False, None),
        ({**output(), "type": "apply_patch_call_output", "status": "failed"}, "ok", True, None),
        ({"type": "local_shell_call_output", "id": "call_1", "output": "a"}, "a", False, None),
    ],
)
def test_an_output_is_read_as_text_and_blocks(item: Any, content: str, is_error: bool, media: Any) -> None:
    (entry,) = WIRE.read([item])
    assert isinstance(entry, Returned)
    (result,) = entry.results
    assert (result.call_id, result.content, result.is_error) == ("call_1", content, is_error)
    assert bool(result.blocks) is (media is not None)
    for block in result.blocks:
        assert isinstance(block, Media)
        assert (block.kind, block.mime_type, block.data, block.url, block.file_id) == media


def test_the_providers_own_outputs_stay_among_its_items() -> None:
    run = {"type": "shell_call", "id": "sh_1", "call_id": "call_x", "environment": {"type": "container_auto"}}
    done = {"type": "shell_call_output", "call_id": "call_x", "output": []}
    (entry,) = WIRE.read([run, done, message(text())])
    assert isinstance(entry, Reply)
    assert [part.kind for part in entry.answer.parts] == ["call", "provider", "text"]
    assert codes([ASK, SEARCH, message(text()), output("call_9"), MORE], RESPONSES) == ["orphan_result"]


def test_outputs_whose_call_may_be_stored_are_let_be() -> None:
    items = [ASK, {"type": "item_reference", "id": "fc_1"}, output("call_1"), message(text())]
    assert found(items, RESPONSES) == []
    assert history.repair(items, RESPONSES) is items


ODD: list[Any] = [
    None, 1, "x", {}, {"type": None}, {"type": "message"}, {"role": ["user"]}, {"role": "tool", "content": "x"},
    {"role": "user"}, {"role": "user", "content": [None, 1, {}, {"type": []}]}, {"role": "assistant", "content": None},
    {"role": "assistant", "content": [None, 1]}, {"type": "function_call"}, {"type": "function_call_output"},
    {"type": "function_call", "call_id": {}, "name": 1, "arguments": {"a": 1}}, {"type": "reasoning", "summary": 1},
    {"type": "custom_tool_call", "input": "\ud800"}, {"type": "custom_tool_call", "input": 1},
    {"type": "mcp_call", "id": []}, {"type": "zzz", "id": None},
    {"type": "function_call_output", "call_id": [], "output": object()}, {"type": "message", "role": "assistant"},
    {"role": "user", "type": "", "id": None, "content": [{"type": "input_image"}, {"type": "input_text", "text": "a"}]},
]  # fmt: skip


@every("odd", ODD)
def test_odd_items_are_mended_or_dropped_and_never_raise(odd: Any) -> None:
    after = history.repair([ASK, odd, message(text())], RESPONSES, last=True)
    assert found(after, RESPONSES) == []
    assert after[0] == ASK
    assert message(text()) in after


# -- what the API refuses ----------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[list[Any], str, str]] = {
    "a call without an output": ([ASK, call(), MORE], "unanswered_call", "No tool output found for function call"),
    "an output without a call": (
        [ASK, output()],
        "orphan_result",
        "No tool call found for function call output with call_id",
    ),
    "a call id that is too long": (
        [ASK, call("c" * 65), output("c" * 65)],
        "bad_id",
        "string too long. Expected a string with maximum length 64",
    ),
    "one id for two items": (
        [ASK, thought(), message(text()), MORE, thought(), message(text("b"), id="msg_2")],
        "duplicate_id",
        "Duplicate item found with id rs_1. Remove duplicate items from your input and try again.",
    ),
    "reasoning without what it led to": (
        [ASK, thought(), MORE],
        "reasoning_apart",
        "of type 'reasoning' was provided without its required following item",
    ),
    "a call without its reasoning": (
        [ASK, call(), output(), message(text()), MORE, thought(), call("call_2"), output("call_2")],
        "reasoning_apart",
        "of type 'function_call' was provided without its required 'reasoning' item",
    ),
    "reasoning without a summary": (
        [ASK, {"type": "reasoning", "id": "rs_1"}, message(text())],
        "missing_field",
        "Missing required parameter: 'input[7].summary'.",
    ),
}


@every("name", REFUSED)
def test_what_the_api_refuses_is_found_in_its_words_and_mended(name: str) -> None:
    items, code, words = REFUSED[name]
    told = [(v.code, v.provider_text) for v in found(items, RESPONSES)]
    assert any(found_ == code and words in said for found_, said in told), told
    repaired(items, RESPONSES)


def test_an_item_that_is_there_twice_goes_and_one_that_has_anothers_id_loses_it() -> None:
    twin, other = message(text("a")), message(text("b"))
    items = [ASK, twin, MORE, dict(twin), other, MORE]
    assert codes(items, RESPONSES) == ["duplicate_id", "duplicate_id"]
    assert repaired(items, RESPONSES) == [ASK, twin, MORE, without_id(other), MORE]


def test_reasoning_goes_where_what_it_led_to_is_missing_and_all_else_stays() -> None:
    items = [ASK, thought(), message(text()), thought("rs_2"), MORE]
    after = repaired(items, RESPONSES)
    assert after == [*items[:3], MORE]
    assert repaired([ASK, thought(), MORE], RESPONSES) == [ASK, MORE]
    led = [ASK, thought(), thought("rs_2"), call(), output()]
    assert history.repair(led, RESPONSES) is led


def test_items_whose_reasoning_is_lost_go_without_their_ids() -> None:
    items = [ASK, call(), output(), message(text()), MORE, thought(), message(text("b"), id="msg_2")]
    after = repaired(items, RESPONSES)
    assert after == [ASK, without_id(call()), output(), *items[3:]]
    assert [one is other for one, other in zip(after, items, strict=True)] == [True, False, *[True] * 5]


def test_only_what_a_reasoning_model_says_first_to_a_prompt_needs_reasoning() -> None:
    assert found([ASK, thought(), call(), output(), call("call_2"), output("call_2"), message(text())], RESPONSES) == []
    assert found([ASK, call(), output(), message(text()), MORE, message(text(), id="msg_2")], RESPONSES) == []
    nameless = [ASK, without_id(call()), output(), MORE, thought(), message(text())]
    assert found(nameless, RESPONSES) == []


def test_a_null_where_a_text_belongs_goes() -> None:
    items = [ASK, message(text(), id=None, status=None), {**MORE, "type": None}, {**call(), "id": None}, output()]
    assert codes(items, RESPONSES) == ["missing_field"] * 3
    assert repaired(items, RESPONSES) == [ASK, without_id(message(text())), MORE, without_id(call()), output()]


def test_what_says_nothing_goes_and_what_is_no_block_does() -> None:
    odd = [{"role": "user", "content": ["x", {"type": "input_text", "text": "a"}]}, message(text("b"), 5)]
    items = [ASK, {"role": "user", "content": ""}, message(), *odd]
    assert codes(items, RESPONSES) == ["empty_message", "empty_message", "not_a_message", "not_a_message"]
    after = repaired(items, RESPONSES)
    assert after == [ASK, {"role": "user", "content": odd[0]["content"][1:]}, message(text("b"))]


# -- writing -----------------------------------------------------------------------------------------------------------


def turn_of(item: dict[str, Any]) -> Turn:
    return parse(
        [
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"status": "completed", "output": []}},
        ],
        wire=RESPONSES,
    )


def output_of(result: ToolResult | None, item: dict[str, Any], content: str = "t") -> Any:
    """The output of a turn's one call, as it is written."""
    *_, last = observed(turn_of(item), result, content=content).messages()
    check_items([last])
    return last["output"]


def told(value: str) -> dict[str, Any]:
    return {"type": "input_text", "text": value}


@every("item", [call(), CUSTOM])
@every(
    ("blocks", "native"),
    [
        ((Text("a"), Text("b")), "t"),
        (
            (Text("a"), Media(kind="image", mime_type="image/png", data="iVBO")),
            [told("a"), {"type": "input_image", "image_url": PNG, "detail": "auto"}],
        ),
        (
            (Media(kind="image", url="https://x"),),
            [{"type": "input_image", "image_url": "https://x", "detail": "auto"}],
        ),
        ((Media(kind="image", file_id="f"),), [{"type": "input_image", "file_id": "f", "detail": "auto"}]),
        (
            (Media(kind="file", mime_type="application/pdf", data="JVBE", filename="a.pdf"),),
            [{"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}],
        ),
        (
            (Media(kind="file", mime_type="text/csv", data="JVBE"),),
            [{"type": "input_file", "filename": "file", "file_data": "data:text/csv;base64,JVBE"}],
        ),
        ((Media(kind="file", url="u"),), [{"type": "input_file", "file_url": "u"}]),
        ((Media(kind="file", file_id="f"),), [{"type": "input_file", "file_id": "f"}]),
        ((Media(kind="video", url="u"), Text("")), [told("[video]")]),
        ((Media(kind="video", mime_type="video/mp4", data="AAAA"),), [told("[video: video/mp4]")]),
    ],
)
def test_what_a_tool_returned_is_written_as_text_or_as_a_list(blocks: Any, native: Any, item: Any) -> None:
    assert output_of(ToolResult(blocks=blocks), item) == native


def test_a_results_own_form_goes_as_it_is() -> None:
    own = [told("mine")]
    assert output_of(ToolResult(native={RESPONSES: own}), call()) == own
    assert output_of(ToolResult(native={RESPONSES: "mine"}), call()) == "mine"
    assert output_of(ToolResult(native={RESPONSES: {"a": 1}}), call()) == '{"a":1}'
    opaque = ToolResult(blocks=(Opaque(told("o")), Media(kind="file", url="u")))
    assert output_of(opaque, call()) == [told("o"), {"type": "input_file", "file_url": "u"}]
    patch = {"type": "apply_patch_call", "id": "a", "call_id": "c", "operation": {"type": "delete_file", "path": "p"}}
    assert output_of(ToolResult(blocks=(Media(kind="file", url="u"),)), patch) == "t"


def test_a_result_that_was_read_is_written_anew_where_its_type_is_another() -> None:
    items = [ASK, CUSTOM, output("call_c", "a", id="fco_1"), MORE]
    answer, result = (entry for entry in WIRE.read(items) if not isinstance(entry, Prompt))
    assert isinstance(answer, Reply)
    assert isinstance(result, Returned)
    assert again(items, RESPONSES)[2] == {"type": "custom_tool_call_output", "call_id": "call_c", "output": "a"}


def test_what_only_another_provider_understands_stays_there() -> None:
    turn = parse([chat_chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]})])
    blocks = (Opaque({"x": 1}), Text("a", state={"x": 1}), Media(kind="image", url="https://x"))
    *_, last = observed(turn, ToolResult(blocks=blocks)).messages(RESPONSES)
    assert last["output"] == [told("a"), {"type": "input_image", "image_url": "https://x", "detail": "auto"}]
    check_items([last])


def test_what_is_no_item_parts_two_answers() -> None:
    items = [ASK, message(text("a")), 5, message(text("b"), {"type": "refusal", "refusal": "No."}, id="msg_2")]
    said = [entry for entry in WIRE.read(items) if isinstance(entry, Reply)]
    assert [entry.origin for entry in said] == [(1, 2), (3, 4)]
    assert [(part.kind, part.text) for part in said[1].answer.parts] == [("text", "b"), ("refusal", "No.")]
    assert repaired(items, RESPONSES) == [ASK, items[1], items[3]]


def test_prompts_are_written_as_text_or_as_blocks_and_not_at_all_if_they_say_nothing() -> None:
    prompts = [
        (Prompt(role="user", blocks=(Text("a"),)), [{"role": "user", "content": "a"}]),
        (Prompt(role="system", blocks=(Text("a"), Text("b"))), [{"role": "system", "content": [told("a"), told("b")]}]),
        (Prompt(role="user", blocks=(Text(""),)), []),
        (Prompt(role="user", blocks=(Text(""), Text(""))), []),
    ]
    for prompt, items in prompts:
        assert WIRE.render_prompt(prompt) == items


# -- round trips -------------------------------------------------------------------------------------------------------


def _read(form: str, items: list[dict[str, Any]]) -> list[Any]:
    """The history of a turn whose items came in this form."""
    response = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": items}
    if form == "whole":
        return parse(response).messages()
    events: list[Any] = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
    for at, item in enumerate(items if form != "in the last event" else ()):
        events += [
            {"type": f"response.output_item.{word}", "output_index": at, "item": item} for word in ("added", "done")
        ]
    events.append(
        {
            "type": "response.completed",
            "response": response if form == "in the last event" else {**response, "output": []},
        }
    )
    if form != "SDK objects":
        return parse(events).messages()

    async def source() -> Any:
        for event in events:
            yield construct_type(type_=ResponseStreamEvent, value=event)

    async def run() -> Turn:
        return await pipeline(source())

    return anyio.run(run).messages()


def test_reasoning_goes_back_without_the_fields_that_the_api_gives_and_refuses() -> None:
    words = [{"type": "reasoning_text", "text": "hm"}]
    for thoughts, kept in [
        (thought(status="completed"), thought()),
        (thought(status="in_progress", content=words), thought()),
        (thought(status=None, content=[]), thought(content=[])),
        (thought(encrypted_content=None, content=words), thought(encrypted_content=None, content=words)),
        (
            thought(encrypted_content="", content=words, status="completed"),
            thought(encrypted_content="", content=words),
        ),
    ]:
        items = [thoughts, message(text("hm")), call(status="completed")]
        for form in ("events", "SDK objects", "whole", "in the last event"):
            assert _read(form, items)[:3] == [kept, *items[1:]], form
        foreign = [ASK, *items, output(), MORE]
        surplus = sum(bool(thoughts.get(key)) and key not in kept for key in ("status", "content"))
        assert codes(foreign, RESPONSES).count("surplus_field") == surplus
        assert history.repair(foreign, RESPONSES)[1:4] == [kept, *items[1:]]
        assert history.convert(foreign, RESPONSES, RESPONSES).messages[1:4] == [kept, *items[1:]]
        assert codes(history.repair(foreign, RESPONSES), RESPONSES) == []
