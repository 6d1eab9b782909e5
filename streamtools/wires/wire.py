"""The record that each package of this room gives of its wire."""

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
    """One deviation of real servers that a wire takes: a row of its table, and of its page."""

    seen: str
    """The deviation, as the server sends it."""
    becomes: str
    """The outcome that it has here."""
    _: KW_ONLY
    case: str
    """Id of the case that shows it, in ``tests/data/quirks``."""
    warning: str | None = None
    """Code of the `StreamWarning` that says so; None where nothing was meant otherwise."""
    servers: str = ""
    """The servers that were seen to do it."""
    source: str = ""
    """Where it was reported or is specified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallIds:
    """The call ids that a provider takes back."""

    pattern: str
    """The pattern that a whole id has to match."""
    own: str = ""
    """The pattern of others that a server of the wire gives and wants back, since it wrote something into them."""
    made_up: Callable[[str], str] = lambda digest: f"call_{digest[:24]}"
    """An id that the provider takes, from 32 hexadecimal digits."""

    def takes(self, call_id: str, *, is_own: bool = False) -> bool:
        """Returns whether the provider takes this id; `is_own`: it stands in a history of the wire itself."""
        return any(re.fullmatch(pattern, call_id) for pattern in (self.pattern, *([self.own] if is_own else ())))

    def replacement(self, call_id: str, attempt: int) -> str:
        """Returns the stand-in for an id that the provider does not take, always the same for one attempt."""
        digest = hashlib.blake2b(f"{call_id}\0{attempt}".encode("utf-8", "replace"), digest_size=16)
        return self.made_up(digest.hexdigest())


def _no_rules() -> HistoryRules:
    from .history_rules import HistoryRules

    return HistoryRules()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Wire:
    """A provider's streaming format, and the way back. Each is itself alone, so that it may be a key."""

    name: str
    short_name: str | None = None
    """How the command line may call it, too."""
    provider: str
    """The provider as traces name it: `gen_ai.provider.name` of OpenTelemetry's conventions, where they know it."""
    decoder: Callable[[Limits], WireDecoder]
    recognises: Callable[[Mapping[str, Any]], bool]
    """Returns whether a payload can only be of this wire."""
    lanes: Callable[[], Lanes] | None = None
    """Makes what tells the responses of one connection apart; None if each response has a body of its own."""
    taken_back: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    """Returns the ids of the calls that a payload takes back while they run; None if the provider never does."""
    render_reply: Callable[[Answer], list[dict[str, Any]]]
    """An answer without its results as messages; none if nothing was said that the provider would take."""
    render_results: Callable[[Answer], list[dict[str, Any]]]
    """The results alone, as they follow it; none for none."""
    call_ids: CallIds
    usage: UsageMap = NO_COUNTS
    """Reads the wire's token counts."""
    tolerances: tuple[Tolerance, ...] = ()
    read: Callable[[Sequence[Mapping[str, Any]]], list[Entry]]
    """Native messages of this wire as entries, without a change of meaning; the inverse of `render` and
    `render_prompt`. A block that it does not know is an `Opaque`, what would be refused is left out with a flaw that
    says so, and what is no message at all gives no entry. Ask `entries`, which reads around what it raises for."""
    render_prompt: Callable[[Prompt], list[dict[str, Any]]]
    """A prompt as messages. A system prompt where the wire has none in its list gives none."""
    carries: tuple[str, ...] = ()
    """The fields that its answers may give to a request beside the messages; see `Turn.carry`."""
    chain: str | None = None
    """The one of these that names the answer before, which the provider has kept with all that it had read: the request
    then has only the messages behind that answer."""
    rules: HistoryRules = field(default_factory=_no_rules)
    """The provider's demands of a history."""
    calls: tuple[CallFormat, ...]
    """How its history writes a call, the usual form first."""
    results: ResultFormat
    """How its history writes the result of a call."""
    tools: tuple[ToolFormat, ...]
    """How its requests tell tools, the usual form first."""
    tool_changes: ToolChanges | None = None
    """How a request says behind its messages that its tools have changed; None if its list of tools has to change."""
    structured: StructuredOutput | None = None
    """How they ask for an answer that keeps to a schema; None if they cannot."""
    resumed_arguments: tuple[str, ...] | None = None
    """Where a payload of `ResumePoint.account` has a piece of arguments; None if nothing can be resumed."""
    is_answer: Callable[[Mapping[str, Any]], bool] | None = None
    """Returns whether an object is a whole answer of this wire; None if there are none."""
    whole: Callable[[Mapping[str, Any]], list[dict[str, Any]]] | None = None
    """Rewrites a whole answer as the payloads of a stream that says the same; None if an answer has the form of one."""
    ends_calls: bool = True
    """Whether it marks the end of each call; False if all of them end with the response."""
    message_in: tuple[str | int, ...] | None = None
    """Where a whole response has its message, with ``content`` and ``tool_calls``; None without such a one."""

    def __repr__(self) -> str:
        return f"Wire({self.name!r})"

    def render(self, answer: Answer) -> list[dict[str, Any]]:
        """Returns an answer with its results as native messages."""
        said = self.render_reply(answer)
        return [*said, *self.render_results(answer)] if said else said

    def entries(self, messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
        """Returns native messages as entries. A message that `read` raises for gives none."""
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
        """Returns whether a payload can only be of this wire. One that `recognises` raises for is another's."""
        try:
            return self.recognises(payload)
        except Exception:
            return False

    def new_decoder(self, limits: Limits) -> WireDecoder:
        """Returns a decoder for one stream, which knows the wire's name and where it counts tokens."""
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
    """A response of a connection that has several."""

    id: str | None
    stream_id: str | None
    has_content: bool = False
    """True if more came of it than that it was created."""
    ended: bool = False


class Lanes(Protocol):
    """Tells to which responses of a connection a payload belongs."""

    open: list[OpenResponse]
    """The responses that have begun and not ended."""

    def owners(self, payload: Mapping[str, Any], /) -> list[OpenResponse]:
        """Returns the responses that an event belongs to: mostly one, which begins here if it is not open; none if it
        comes between responses. An owner that the event ends is `ended` afterwards."""
        ...
