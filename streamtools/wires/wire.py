"""Defines the record with which each package of this room describes its wire."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from ..ground.on_demand import functions
from ..limits import Limits
from .decoder import WireDecoder
from .marks import MARKS
from .reading import NO_COUNTS, UsageMap

if TYPE_CHECKING:
    from .formats import CallFormat, ResultFormat, StructuredOutput, ToolChanges, ToolFormat
    from .history_rules import HistoryRules
    from .transcript import Answer, Entry, Prompt


@dataclass(frozen=True, slots=True)
class Tolerance:
    """One deviation of real servers that a wire tolerates: a row of its table, and of its page."""

    seen: str
    """The deviation, as the server sends it."""
    becomes: str
    """The result here."""
    _: KW_ONLY
    case: str
    """The id of its test case in ``tests/data/quirks``."""
    warning: str | None = None
    """The code of its `StreamWarning`; None where the meaning is certain."""
    servers: str = ""
    """The servers that deviate in this way."""
    source: str = ""
    """The report or specification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIds:
    """The call ids that a provider accepts in a history."""

    pattern: str
    """The pattern that a whole id must match."""
    own: str = ""
    """The pattern of further ids that servers of the wire make and want back, since they contain data."""
    made_up: Callable[[str], str] = lambda digest: f"call_{digest[:24]}"
    """Makes an acceptable id from 32 hexadecimal digits."""

    def takes(self, call_id: str, *, is_own: bool = False) -> bool:
        """Returns whether the provider accepts this id; `is_own`: the history is the wire's own."""
        return any(re.fullmatch(pattern, call_id) for pattern in (self.pattern, *([self.own] if is_own else ())))

    def replacement(self, call_id: str, attempt: int) -> str:
        """Returns the replacement for an id that the provider does not accept; the same for each attempt number."""
        digest = hashlib.blake2b(f"{call_id}\0{attempt}".encode("utf-8", "replace"), digest_size=16)
        return self.made_up(digest.hexdigest())


def _no_rules() -> HistoryRules:
    from .history_rules import HistoryRules

    return HistoryRules()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Wire:
    """A provider's streaming format, with the way back. Wires are compared by identity and hashable."""

    name: str
    short_name: str | None = None
    """A second name, for the command line."""
    provider: str
    """The provider's name in traces: `gen_ai.provider.name` of OpenTelemetry's conventions, if they define one."""
    decoder: Callable[[Limits], WireDecoder]
    recognises: Callable[[Mapping[str, Any]], bool]
    """Returns whether a payload can only be of this wire."""
    lanes: Callable[[], Lanes] | None = None
    """Makes the object that separates the responses of one connection; None if each response has its own body."""
    taken_back: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    """Returns the ids of the running calls that a payload cancels; None if the provider never cancels calls."""
    render_reply: Callable[[Answer], list[dict[str, Any]]]
    """Renders an answer without its results as messages; none if the provider would accept nothing of it."""
    render_results: Callable[[Answer], list[dict[str, Any]]]
    """Renders only the results; an empty list for none."""
    call_ids: CallIds
    usage: UsageMap = NO_COUNTS
    """Reads the wire's token counts."""
    tolerances: tuple[Tolerance, ...] = ()
    read: Callable[[Sequence[Mapping[str, Any]]], list[Entry]]
    """Reads native messages of this wire as entries without changing their meaning; the inverse of `render` and
    `render_prompt`. An unknown block becomes an `Opaque`, content that would be refused is left out with a flaw, and
    anything that is not a message gives no entry. Call `entries`, which skips messages for which this raises."""
    render_prompt: Callable[[Prompt], list[dict[str, Any]]]
    """Renders a prompt as messages. A system prompt gives none where the wire has no system messages."""
    carries: tuple[str, ...] = ()
    """The fields of an answer that the next request needs besides the messages; see `Turn.carry`."""
    chain: str | None = None
    """The one of these that names the previous answer, which the provider stores with its input: the request then
    contains only the messages after that answer."""
    rules: HistoryRules = field(default_factory=_no_rules)
    """The provider's rules for a history."""
    calls: tuple[CallFormat, ...]
    """The forms of a call in a history, the usual one first."""
    results: ResultFormat
    """The form of a call's result in a history."""
    tools: tuple[ToolFormat, ...]
    """The forms of tools in a request, the usual one first."""
    tool_changes: ToolChanges | None = None
    """The way to say, after a request's messages, that its tools changed; None if the list itself has to change."""
    structured: StructuredOutput | None = None
    """The way to request an answer that fits a schema; None if there is none."""
    resumed_arguments: tuple[str, ...] | None = None
    """The place of arguments in a payload of `ResumePoint.account`; None if no response can be resumed."""
    is_answer: Callable[[Mapping[str, Any]], bool] | None = None
    """Returns whether an object is a whole answer of this wire; None if the wire has none."""
    whole: Callable[[Mapping[str, Any]], list[dict[str, Any]]] | None = None
    """Rewrites a whole answer as the payloads of an equivalent stream; None if an answer already has that form."""
    ends_calls: bool = True
    """True if the wire marks the end of each call; False if all calls end with the response."""
    message_in: tuple[str | int, ...] | None = None
    """The path of the message with ``content`` and ``tool_calls`` in a whole response; None if there is none."""

    def __repr__(self) -> str:
        return f"Wire({self.name!r})"

    def render(self, answer: Answer) -> list[dict[str, Any]]:
        """Returns an answer with its results as native messages."""
        said = self.render_reply(answer)
        return [*said, *self.render_results(answer)] if said else said

    def entries(self, messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
        """Returns native messages as entries. A message for which `read` raises gives none."""
        try:
            return self.read(messages)
        except Exception:
            readable = [message if self._can_read(message) else {} for message in messages]
        try:
            return self.read(readable)
        except Exception:  # each can be read, but not all of them together
            return []

    def _can_read(self, message: Mapping[str, Any]) -> bool:
        try:
            self.read([message])
        except Exception:
            return False
        return True

    def is_own(self, payload: Mapping[str, Any]) -> bool:
        """Returns whether a payload can only be of this wire. False if `recognises` raises."""
        try:
            return self.recognises(payload)
        except Exception:
            return False

    def new_decoder(self, limits: Limits) -> WireDecoder:
        """Returns a decoder for one stream, with the wire's name and token counts."""
        made = self.decoder(limits)
        made.name, made.usage = self.name, self.usage
        return made


def built_in(
    name: str,
    facts: ModuleType,
    *,
    decoder: str,
    read: str = "history:read",
    render_reply: str = "history:render_reply",
    render_results: str = "history:render_results",
    render_prompt: str = "history:render_prompt",
    whole: str | None = None,
    lanes: str | None = None,
    taken_back: str | None = None,
    **own: Any,
) -> Wire:
    """Returns the record of a wire of the library, with its row of `MARKS` and its facts. Decoder and functions are
    places as `functions` takes them, which loads them when they are used."""
    marks = MARKS[name]
    places = {"decoder": decoder, "read": read, "render_reply": render_reply, "render_results": render_results}
    places |= {"render_prompt": render_prompt}
    places |= {key: at for key, at in (("whole", whole), ("lanes", lanes), ("taken_back", taken_back)) if at}
    loaded: dict[str, Any] = dict(zip(places, functions(facts.__package__ or "", *places.values()), strict=True))
    return Wire(
        name=name,
        recognises=marks.recognises,
        is_answer=marks.is_answer,
        usage=facts.USAGE,
        rules=facts.RULES,
        tools=facts.TOOLS,
        structured=getattr(facts, "STRUCTURED", None),
        tool_changes=getattr(facts, "TOOL_CHANGES", None),
        calls=facts.CALLS,
        results=facts.RESULT,
        **loaded,
        **own,
    )


# -- lanes --

# A wire whose events travel over a connection of several responses gives in its record what makes `Lanes`: payloads
# in, the responses that each belongs to out. `streamtools.sources` splits a connection by them.


@dataclass(slots=True, eq=False)
class OpenResponse:
    """One of several responses of a connection."""

    id: str | None
    stream_id: str | None
    has_content: bool = False
    """True if content came, not just its creation."""
    ended: bool = False


class Lanes(Protocol):
    """Assigns the payloads of a connection to its responses."""

    open: list[OpenResponse]
    """The responses that have begun and not ended."""

    def owners(self, payload: Mapping[str, Any], /) -> list[OpenResponse]:
        """Returns the responses to which an event belongs: usually one, which begins here if it is not open; none
        between responses. A response that the event ends is `ended` afterwards."""
        ...
