"""The cases of Gemini's Interactions; its steps are checked with the SDK's own types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pydantic import TypeAdapter

from streamtools import Turn

from .names import INTERACTIONS
from .parts import cut, each, new, value_of
from .record import Call, Format, Message, Native, Payload, Response, Spoken, WireCases

__all__ = ["CASES"]

_RESULTS = {"function_call": "function_result", "tool_search_call": "tool_search_result"}


def _say(response: Response) -> list[Payload]:
    head = {"id": "v1_a", "object": "interaction", "model": "m"}
    payloads: list[Payload] = [
        {"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}},
    ]
    steps = 0

    def step(begun: dict[str, Any], deltas: Iterable[dict[str, Any]]) -> None:
        nonlocal steps
        payloads.append({"event_type": "step.start", "index": steps, "step": begun})
        payloads.extend({"event_type": "step.delta", "index": steps, "delta": delta} for delta in deltas)
        payloads.append({"event_type": "step.stop", "index": steps})
        steps += 1

    if response.reasoning:
        told: list[dict[str, Any]] = [
            {"type": "thought_summary", "content": {"type": "text", "text": piece}} for piece in response.reasoning
        ]
        step({"type": "thought"}, [*told, {"type": "thought_signature", "signature": "QUI="}])
    if response.text:
        step({"type": "model_output"}, [{"type": "text", "text": piece} for piece in response.text])
    for call_id, name, arguments in response.calls:
        pieces = [{"type": "arguments_delta", "arguments": piece} for piece in cut(arguments, response.pieces)]
        step({"type": "function_call", "id": call_id, "name": name, "arguments": {}}, pieces)
    if response.ends:
        usage = {"total_input_tokens": 1, "total_output_tokens": 1}
        status = "requires_action" if response.calls else "completed"
        payloads.append(
            {"event_type": "interaction.completed", "interaction": {**head, "status": status, "usage": usage}}
        )
    return payloads


def _blocks(count: int) -> list[Payload]:
    return _say(Response(calls=[(f"c{number}", "f", "{}") for number in range(count)], ends=False))[1:]


def _said(text: str, calls: list[Call]) -> list[Message]:
    output = {"type": "model_output", "content": [{"type": "text", "text": text}]}
    steps = [{"type": "function_call", "id": c.id, "name": c.name, "arguments": value_of(c.arguments)} for c in calls]
    return [*([output] if text else []), *steps]


def _flow(step: Message) -> Iterator[Spoken]:
    kind = step["type"]
    if kind == "function_call":
        yield "model", [step["id"]]
    elif kind == "function_result":
        yield "result", [step["call_id"]]
    else:
        yield ("user" if kind == "user_input" else "model"), []


def _check(turn: Turn, steps: list[Message]) -> None:
    """Each call of ours has one result, in call order, after all that the model said; and no step is refused."""
    own = turn.wire == INTERACTIONS
    unsaid = [call for call in turn.calls if own and (call.provider_state or {}).get("unsaid")]
    ours = [call for call in turn.calls if call.kind != "server" and call not in unsaid]
    said, results = steps[: len(steps) - len(ours)], steps[len(steps) - len(ours) :]
    served = {call.call_id for call in turn.calls if call.kind == "server"}
    asked = [step for step in said if step["type"] in _RESULTS and step.get("id") not in served]
    by_id = {step["id"]: step for step in asked}
    assert len(by_id) == len(asked) == len(ours)
    for result in results:
        assert result["type"] == _RESULTS[by_id[result["call_id"]]["type"]]
    for step in asked:
        assert isinstance(step["arguments"], dict)
    if own:
        _takes(results)  # the rest is the server's own, whatever that was
    else:
        assert [step["id"] for step in asked] == [result["call_id"] for result in results]
        assert all(step["content"] for step in said if step["type"] == "model_output")
        _takes(steps)


def _is_answered(steps: list[Message], count: int) -> bool:
    return all(step["type"].endswith("_result") for step in steps[len(steps) - count :])


def _types() -> Any:
    """The SDK's types, imported when they are asked for, as that takes a second; None before google-genai 3, which
    `nox -s oldest` has: what is written is compared with them in the other tests."""
    there = find_spec("google.genai._gaos")
    return None if there is None else import_module("google.genai._gaos.types.interactions")


def _takes(steps: list[Message]) -> None:
    if (types := _types()) is None:
        assert all(isinstance(step["type"], str) for step in steps)
        return
    for step in TypeAdapter(list[types.Step]).validate_python([step for step in steps if step["type"] != "alien"]):
        assert not getattr(step, "is_unknown", False), "the SDK knows no such step"


def _takes_tool(payload: Payload) -> None:
    if (types := _types()) is None:
        assert payload["type"] == "function"
        return
    made = types.Function.model_validate(payload)
    assert set(payload) <= set(types.Function.model_fields)
    assert made.name == payload["name"]


CASES = WireCases(
    say=_say,
    told_by=rb'"event_type"\s*:\s*"(interaction\.|step\.|content\.)',
    nothing={
        "an unknown event": lambda n: {"event_type": f"new{n}", "data": n},
        "an unknown delta": lambda n: {"event_type": "step.delta", "index": 0, "delta": {"type": f"new{n}"}},
        "empty text": lambda _: {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": ""}},
        "a delta of no step": lambda n: {"event_type": "step.delta", "index": n + 9, "delta": {"type": "x"}},
        "the stop of no step": lambda n: {"event_type": "step.stop", "index": n + 9},
        "progress": lambda n: {
            "event_type": "interaction.status_update",
            "interaction_id": "v1_a",
            "status": "in_progress",
            "usage": {"total_output_tokens": n, new(n): n},
        },
    },
    blocks=_blocks,
    events_of_a_call=5,
    not_found_again={
        r"interaction\.completed:interaction\.continuation_token=": "of an interaction that was continued: it is used",
        r"interaction\.created:interaction\.id=": "of several interactions, the first id and the last one count",
        r"step\.start:step\.arguments": "a placeholder where the arguments come in pieces",
    },
    signature_characters=4,
    native=Native(
        user=lambda text: {"type": "user_input", "content": [{"type": "text", "text": text}]},
        said=_said,
        came=each(lambda c: {"type": "function_result", "call_id": c.id, "name": c.name, "result": c.result}),
    ),
    flow=_flow,
    joined=("result", "model"),
    model_roles=None,
    check=_check,
    is_answered=_is_answered,
    takes=_takes,
    formats=(
        Format(
            name="gemini.interactions.function",
            call=lambda call_id, name, _, value: {
                "type": "function_call",
                "id": call_id,
                "name": name,
                "arguments": value,
            },
            tool=lambda said, parameters: {"type": "function", **said, "parameters": parameters},
        ),
    ),
    request=lambda tool: {"tools": [tool], "generation_config": {"tool_choice": "auto"}},
    takes_tool=_takes_tool,
    provider="gcp.gemini",
)
