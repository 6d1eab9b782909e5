"""One answer of the model while it is read back out of a provider's messages: what every wire's `read` collects into.

Calls are told apart over the whole history, also where a provider's messages do not: an id that stood there before, or
none at all, gets a name of its own (`CallNames`), from which `id_as_read` gives back what stood there. A call whose
arguments are no JSON object has ``status="invalid"``, keeps their text, and goes on with ``{}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json

from ..parts import CallKind, Finish, Part, ToolCall
from .history_rules import Violation
from .reading import json_text
from .transcript import Answer, Said

__all__ = ["CallNames", "AnswerBuilder", "id_as_read"]

_APART = "\0"  # in no id: JSON writes it as an escape, and no provider gives or takes it


def id_as_read(call_id: str) -> str:
    """The id that stood in the message; ``""`` if there was none."""
    return call_id.partition(_APART)[0]


class CallNames:
    """Names by which the calls of one history are told apart. One for each `read`."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def name(self, given: object) -> str:
        """A name that no other call has: the given id, if it is one and stands there for the first time."""
        own = id_as_read(given) if isinstance(given, str) else ""
        count = self._seen[own] = self._seen.get(own, 0) + 1
        return own if own and count == 1 else f"{own}{_APART}{count}"


class AnswerBuilder:
    """Collects one answer, piece by piece, in its order."""

    def __init__(self, names: CallNames) -> None:
        self._names = names
        self._parts: list[Part] = []
        self._calls: dict[str, ToolCall] = {}
        self._arguments: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._flaws: list[Violation] = []

    @property
    def is_empty(self) -> bool:
        """Nothing was said so far."""
        return not self._parts

    @property
    def says_more(self) -> bool:
        """There is a call or a refusal."""
        return bool(self._calls) or any(part.kind == "refusal" for part in self._parts)

    def text(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """The model said this."""
        self._parts.append(Part(kind="text", text=text, provider_state=state))

    def reasoning(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """The model thought this."""
        self._parts.append(Part(kind="reasoning", text=text, provider_state=state))

    def refusal(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """The model refused in these words."""
        self._parts.append(Part(kind="refusal", text=text, provider_state=state))

    def provider(self, state: Mapping[str, Any]) -> None:
        """Something that only its provider understands."""
        self._parts.append(Part(kind="provider", provider_state=state))

    def call(
        self,
        call_id: object,
        name: object,
        arguments: object,
        *,
        kind: CallKind = "function",
        state: Mapping[str, Any] | None = None,
    ) -> ToolCall:
        """The model called a tool. Returns the call, whose status says whether its arguments are an object.

        Args:
            call_id: as it stands there, whatever that is.
            name: likewise.
            arguments: an object, or the text of one; the input of a ``custom`` call.
            kind: who runs it, and whether its input is text.
            state: what the decoder would have kept with it.
        """
        key = self._names.name(call_id)
        text, value, problem = _custom(arguments) if kind == "custom" else _arguments(arguments)
        self._arguments[key] = (text if problem is None else "{}", value)
        call = self._calls[key] = ToolCall(
            call_id=key,
            call_id_synthesized=key != call_id,
            name=name if isinstance(name, str) else "",
            kind=kind,
            index=len(self._calls),
            arguments_text=arguments if isinstance(arguments, str) else text,
            arguments=dict(value) if problem is None else None,
            status="ready" if problem is None else "invalid",
            problem=problem,
            provider_state=state,
        )
        self._parts.append(Part(kind="call", call_id=key))
        return call

    def flaw(self, flaw: Violation) -> None:
        """Something was wrong with the message that does not show in what was collected."""
        self._flaws.append(flaw)

    def said(self, origin: tuple[int, int] | None = None, finish: Finish | None = None) -> Said:
        """The answer so far, for the wire that it was read from."""
        answer = Answer(
            parts=tuple(self._parts), calls=self._calls, arguments=self._arguments, results=(), finish=finish
        )
        return Said(answer=answer, origin=origin, flaws=tuple(self._flaws))


def _arguments(given: object) -> tuple[str, Mapping[str, Any], str | None]:
    """Arguments as text and as an object, and what is wrong with them."""
    text = given if isinstance(given, str) else json_text(given)
    value = given
    if isinstance(given, str):
        try:
            value = from_json(given, allow_inf_nan=False)
        except (ValueError, TypeError):  # the latter for half a surrogate pair
            return given, {}, "malformed_json"
    if text is None:
        return "", {}, "malformed_json"
    return (text, value, None) if isinstance(value, dict) else (text, {}, "non_object_arguments")


def _custom(given: object) -> tuple[str, Mapping[str, Any], str | None]:
    value = {"input": given if isinstance(given, str) else ""}
    text = json_text(value)
    return (text, value, None) if text is not None else ("", value, "malformed_json")
