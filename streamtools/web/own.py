"""Writes a run in the library's own format: every event by its name, with its fields by name.

    TextDelta("Hello", seq=4, step=0)  →  {"event": "text_delta", "seq": 4, "step": 0, "text": "Hello"}

One table has the names and fields, and the schema is made from it. A call is named by its step and its id. The
provider's data (signatures, encrypted reasoning, raw payloads), requests, previews and exception texts are never sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from inspect import cleandoc
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from .. import events as of
from ..dispatch.results import no_content
from ..durable.fields import hints_of
from ..events import Event
from ..parts import COUNTS
from ..wires import cited_sources, distinct_sources, made_files
from .approval_ids import approval_id
from .encoding import Frame, RunEnd, plain

# -- fields that are no attributes; their types are those of the results --


class _Sofar:
    def __init__(self) -> None:
        self.run_id = ""
        self.arguments: dict[tuple[int, str], list[str]] = {}  # of the calls whose arguments grow

    def add(self, event: Event | RunEnd) -> None:
        if isinstance(event, of.ToolCallDelta):
            self.arguments.setdefault((event.step, event.call_id), []).append(event.delta)
        elif isinstance(event, of.StepStart):
            self.run_id = event.run_id
        elif isinstance(event, (of.AttemptDiscarded, of.StepEnd)):
            self.arguments.clear()


def _shown_id(event: Any, sofar: _Sofar) -> str:
    return approval_id(sofar.run_id, event.step, event.call_id, event.fingerprint)


def _whole_arguments(event: of.ToolCallEnd, sofar: _Sofar) -> str | None:
    """Returns the whole text where it is another than the deltas were."""
    whole = event.call.arguments_text
    return None if "".join(sofar.arguments.pop((event.step, event.call_id), ())) == whole else whole


def _result(event: of.Observation, sofar: _Sofar) -> Any:
    """Returns the value of a call that is ok, or the text that the model reads where JSON has no form for it."""
    return plain(event.value, event.model_content) if event.outcome == "ok" else None


def _error(event: of.Observation, sofar: _Sofar) -> str | None:
    return None if event.outcome == "ok" else event.model_content


def _display(event: of.Observation, sofar: _Sofar) -> Any:
    return None if event.result is None else event.result.display


def _sources(event: of.TextEnd | of.ProviderItem, sofar: _Sofar) -> tuple[dict[str, str], ...] | None:
    """Returns the addresses and documents that the text, or the part, names as sources, each once."""
    found = distinct_sources(cited_sources(event.raw if isinstance(event, of.ProviderItem) else event.provider_state))
    return tuple(({"url": one.url} if one.url else {}) | ({"title": one.title} if one.title else {})
                 for one in found) or None  # fmt: skip


def _files(event: of.ProviderItem | of.ToolCallEnd, sofar: _Sofar) -> tuple[dict[str, str], ...] | None:
    found = made_files(event.raw if isinstance(event, of.ProviderItem) else event.call.provider_state)
    return tuple({"media_type": one.mime_type or "", "url": one.address() or ""} for one in found) or None


def _usage(event: of.AttemptDiscarded | of.StreamEnd, sofar: _Sofar) -> dict[str, int] | None:
    if event.usage is None:
        return None
    return {name: count for name in COUNTS if (count := getattr(event.usage, name)) is not None}


def _findings(event: of.ApprovalRequested, sofar: _Sofar) -> tuple[str, ...] | None:
    return (*map(str, event.findings),) or None


def _stream_error(event: of.StreamEnd, sofar: _Sofar) -> str | None:
    return None if event.error is None else event.error.kind


def _waiting(end: RunEnd, sofar: _Sofar) -> tuple[str, ...] | None:
    return end.call_ids if end.outcome == "suspended" else None


# -- the table --


@dataclass(frozen=True, slots=True)
class _Words:
    """The name of an event, and its fields. One with a ``?`` is left out where it has its default, or is None."""

    name: str
    by_default: str | None = None  # those that `encode_event` sends; None: it does not send the event
    also: str = ""
    derived: Mapping[str, Callable[[Any, _Sofar], Any]] | None = None


_WORDS: Mapping[type, _Words] = {
    of.StepStart: _Words("step_start", also="run_id asks_model dispatches continued replayed"),
    of.RequestFailed: _Words("request_failed", also="outcome error_type status? retry_after?"),
    of.MessageAdded: _Words("message_added", also="message_id messages when"),
    of.AttemptBegan: _Words("attempt_began", also="attempt fallback after_output"),
    of.AttemptDiscarded: _Words(
        "attempt_discarded", "attempt from_seq cause delay_s", also="error_type usage?", derived={"usage": _usage}
    ),
    of.AttemptCommitted: _Words("attempt_committed", also="attempt cut"),
    of.StreamStart: _Words("stream_start", also="wire model? response_id?"),
    of.TextStart: _Words("text_start"),
    of.TextDelta: _Words("text_delta", "text"),
    of.TextEnd: _Words("text_end", also="whole? sources?", derived={"sources": _sources}),
    of.ReasoningStart: _Words("reasoning_start"),
    of.ReasoningDelta: _Words("reasoning_delta", also="text"),
    of.ReasoningEnd: _Words("reasoning_end", also="whole?"),
    of.RefusalDelta: _Words("refusal_delta", "text"),
    of.ProviderItem: _Words(
        "provider_item", also="type sources? files?", derived={"sources": _sources, "files": _files}
    ),
    of.ToolCallStart: _Words("tool_call_start", "call_id name", also="kind index call_id_synthesized"),
    of.ToolCallDelta: _Words("tool_call_delta", also="call_id delta"),
    of.ToolCallEnd: _Words(
        "tool_call_end",
        also="call_id call.name call.status call.problem? whole? files?",
        derived={"whole": _whole_arguments, "files": _files},
    ),
    of.ToolCallValidated: _Words("tool_call_validated", also="call_id call.arguments?"),
    of.ApprovalRequested: _Words(
        "approval_requested",
        "call_id tool_name arguments fingerprint caller findings? approvals?",
        also="approval_id index",
        derived={"approval_id": _shown_id, "findings": _findings},
    ),
    of.ApprovalResolved: _Words("approval_resolved", "call_id tool_name approved by at arguments?", also="reason?"),
    of.AnswerRequested: _Words(
        "answer_requested",
        "call_id tool_name arguments fingerprint caller question?",
        also="answer_id rests index",
        derived={"answer_id": _shown_id},
    ),
    of.ToolStarted: _Words("tool_started", "call_id tool_name", also="attempt effect?"),
    of.ToolProgress: _Words("tool_progress", also="call_id tool_name value"),
    of.Observation: _Words(
        "observation",
        "call_id tool_name outcome",
        also="result? error? display? index duration? attempts boundary coercions? validation_error? recorded? "
        "still_running?",
        derived={"result": _result, "error": _error, "display": _display},
    ),
    of.OutputEnd: _Words("output_end", also="value? problem?"),
    of.StreamEnd: _Words(
        "stream_end",
        "finish complete",
        also="finish_raw? error? usage? response_id? model?",
        derived={"error": _stream_error, "usage": _usage},
    ),
    of.StepEnd: _Words("step_end", "outcome"),
    of.StreamWarning: _Words("stream_warning", also="code detail"),
    of.UnknownPayload: _Words("unknown_payload", also="place?"),
    of.EventsDropped: _Words("gap", "from_seq to_seq"),
    RunEnd: _Words("run_end", "outcome kind? call_ids? retry_after?", also="words", derived={"call_ids": _waiting}),
}
"""All events that are sent. By default: the answer's text, the names of called tools, the outcome of each call, and
arguments only where a person has to approve or answer; no results, reasoning or error texts."""


class _Sent(NamedTuple):
    name: str
    get: Callable[[Any, _Sofar], Any]
    hint: Any
    is_optional: bool
    default: Any


@cache
def _sent(kind: type, whole: bool) -> tuple[_Sent, ...]:
    words = _WORDS[kind]
    names = f"{words.by_default or ''} {words.also}" if whole else words.by_default or ""
    return tuple(_field(kind, words.derived or {}, name.rstrip("?"), name.endswith("?")) for name in names.split())


def _field(kind: Any, derived: Mapping[str, Callable[[Any, _Sofar], Any]], path: str, is_optional: bool) -> _Sent:
    name = path.rpartition(".")[2]
    if name in derived:
        return _Sent(name, derived[name], hints_of(derived[name])["return"], is_optional, None)
    read = attrgetter(path)
    while "." in path:
        first, _, path = path.partition(".")
        kind = hints_of(kind)[first]
    hints = hints_of(kind)
    hint = hints[name] if name in hints else hints_of(getattr(kind, name).fget)["return"]  # of a field, else a property
    default = next((one.default for one in fields(kind) if one.name == name), None)
    return _Sent(name, lambda event, _: read(event), hint, is_optional, default)


def _written(event: Event | RunEnd, sofar: _Sofar, data: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    kind: Any = type(event)
    for name, get, hint, is_optional, default in _sent(kind, whole):
        value = get(event, sofar)
        if is_optional and (value is None or value is default or (type(value) in _COMPARED and value == default)):
            continue
        data[name] = value if type(value) in _JSON else plain(value, no_content(value) if hint is Any else {})
    return data


_JSON = frozenset({str, int, float, bool, type(None)})
_COMPARED = (bool, int, tuple)  # not a tool's own values, whose `==` may do anything

# -- the encoders --


class OwnEvents:
    """Encodes every event with all its fields by name: ``EventStreamResponse(run, encode=OwnEvents())``.

    It includes results, arguments, reasoning and the texts of failed calls, redacted by the run's privacy policy;
    `encode_event` sends none of these. After ``attempt_discarded`` a client has to forget everything whose ``seq`` is
    ``from_seq`` or greater.
    """

    can_retract: bool = True
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self._sofar = _Sofar()

    def begin(self) -> Iterable[Frame]:
        """Returns no frames: every frame says where it belongs."""
        return ()

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]:
        words = _WORDS.get(type(event))
        if words is None:
            return ()
        self._sofar.add(event)
        data: dict[str, Any] = {"event": words.name}
        if not isinstance(event, RunEnd):
            data["seq"], data["step"] = event.seq, event.step
        return ((words.name, _written(event, self._sofar, data, whole=True)),)


def encode_event(event: Event | RunEnd) -> tuple[str, dict[str, Any]] | None:
    """Returns the data sent by default: the answer's text, the names of called tools, approval requests and decisions,
    deferred calls, and the outcomes of calls and run.

    It sends no results, reasoning, error texts or provider state, and arguments only with a request to approve or
    answer them. To send more, call it from your own function, or use `OwnEvents`.

    >>> encode_event(of.TextDelta("Hello"))
    ('text_delta', {'text': 'Hello'})
    """
    # The end of the text contradicts the deltas that the client has shown: it has to replace them.
    if isinstance(event, of.TextEnd) and event.whole is not None:
        return "text_replaced", {"text": event.whole}
    words = _WORDS.get(type(event))
    if words is None or words.by_default is None:
        return None
    return words.name, _written(event, _NOTHING, {}, whole=False)


_NOTHING = _Sofar()  # no field of the default depends on what came before

# -- the schema --


def schema() -> dict[str, Any]:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "An event of a run"}
    return head | frames_of_events().json_schema()


def frames_of_events() -> TypeAdapter[Any]:
    models: Any = Union[tuple(map(_model, _WORDS))]  # noqa: UP007 - of a tuple
    frame: Any = Annotated[models, Field(discriminator="event")]  # pyright: ignore[reportInvalidTypeForm]
    return TypeAdapter(frame)


@cache
def _model(kind: type) -> type[BaseModel]:
    name: Any = Literal[_WORDS[kind].name]
    place: dict[str, Any] = {} if kind is RunEnd else {"seq": (int, ...), "step": (int, ...)}
    optional: Any = Field(None, json_schema_extra=_without_default)
    sent: dict[str, Any] = {one.name: (one.hint, optional if one.is_optional else ...) for one in _sent(kind, True)}
    return create_model(
        kind.__name__,
        __config__=ConfigDict(extra="forbid", protected_namespaces=()),
        __doc__=" ".join(cleandoc(kind.__doc__ or "").split("\n\n")[0].split()),
        event=(name, ...),
        **place,
        **sent,
    )


def _without_default(written: dict[str, Any]) -> None:
    del written["default"]  # what has it is left out
