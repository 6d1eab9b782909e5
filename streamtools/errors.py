"""Defines every error that streamtools raises, in one tree.

An error of the stream is raised at ``async for`` (and kept as ``turn.error``); an error of one call is an `Observation`
that carries the matching `ToolError`; a mistake of yours is raised where you made it. No message contains argument
values, tool results or credentials. docs/guide/errors.md draws the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from .ground.text import one_line

__all__ = [
    "AnswerError", "AnswerPending", "ApprovalPending", "BadRequest", "BeginRefused", "BudgetExceeded", "CallCancelled",
    "ChatConflict", "CallDenied", "CallQuoted", "CallRepeated", "CallSkipped", "CallStillRunning", "CallTruncated",
    "ConsumerTooSlow", "DeadlineExceeded", "AlreadyDecided", "DecisionError", "ExportError", "InvalidArguments",
    "InvalidResult", "JournalError", "LimitExceeded", "LocalProtocolError", "ModelRetry", "ProviderError",
    "RemoteProtocolError", "RequestError", "RunStillRunning", "RunTakenOver", "SchemaError", "StreamError",
    "StreamToolsError", "SuspendedError", "ToolDefinitionError", "ToolError", "ToolFailed", "ToolNotStarted",
    "ToolOutcomeUnknown", "ToolSuspended", "ToolTimeout", "TruncatedStream", "UnknownTool", "WrongWire",
]  # fmt: skip


_NAMES_SHOWN = 30  # of the available tools, in the error for an unknown one


# -- the stream --


class StreamToolsError(Exception):
    """Base of everything that streamtools raises on purpose."""


class StreamError(StreamToolsError):
    """The stream has failed. Catch this around ``async for``."""

    kind: str = "stream_error"
    """A short code for programs."""
    message: str
    """The text for people. A provider's own words stay as it sent them; ``str()`` shows them escaped, and cut."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RemoteProtocolError(StreamError):
    """The peer sent something that its wire format does not allow."""

    def __init__(self, message: str, *, kind: str = "protocol_error") -> None:
        super().__init__(message)
        self.kind = kind


class TruncatedStream(RemoteProtocolError):
    """The stream ended before its terminal marker: a lost connection, or a server that gave up. Or a whole answer is
    not finished."""

    def __init__(self, message: str) -> None:
        super().__init__(message, kind="stream_truncated")


class RequestError(StreamError):
    """The request for the stream failed before anything came. The turn has this error; the exception of the client's
    library, its ``__cause__``, is raised."""

    kind = "request_failed"
    status: int | None
    """The HTTP status of the refusal; None if there was no answer."""
    retry_after: float | None
    """The seconds after which the provider wants to be asked again, if it says so."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class WrongWire(StreamError, ValueError):
    """The stream speaks another wire than the one that was passed as ``wire=``."""

    kind = "wrong_wire"
    wire: str
    """The name of the wire that was passed."""
    looks_like: str
    """The name of the wire that the stream seems to speak."""

    def __init__(self, wire: str, *, looks_like: str) -> None:
        super().__init__(
            f"expected a stream of {wire}, got one that looks like {looks_like}; write wire={looks_like!r}"
        )
        self.wire = wire
        self.looks_like = looks_like


class LimitExceeded(StreamError):
    """The peer sent more than `Limits` allows. The message names the limit and how to raise it."""

    kind = "limit_exceeded"
    setting: str
    """The field of `Limits`."""
    limit: int
    value: int | None

    def __init__(self, setting: str, *, limit: int, value: int | None = None, where: str = "the stream") -> None:
        seen = "" if value is None else f" (saw {value})"
        super().__init__(f"{where} exceeds {setting}={limit}{seen}; raise Limits({setting}=...) if this is wanted")
        self.setting = setting
        self.limit = limit
        self.value = value


class ProviderError(StreamError):
    """The provider reported an error inside the stream, under HTTP status 200."""

    code: str | int | None
    """The provider's code, as it sent it (``429``, ``"tool_use_failed"``)."""
    type: str | None
    """The provider's error type (``"overloaded_error"``)."""

    def __init__(
        self, message: str, *, code: str | int | None = None, type: str | None = None, kind: str = "provider_error"
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.code = code
        self.type = type

    def __str__(self) -> str:
        # The provider's words go into logs and terminals: on one line, and cut. `message` has them as they were sent. A
        # code that is in the message already is not added.
        message = one_line(self.message, 2000)
        words = [one_line(str(word), 200) for word in (self.code, self.type) if word is not None]
        hints = ", ".join(word for word in words if word and word not in message)
        return f"{message} ({hints})" if hints else message


# -- mistakes of the program --


class LocalProtocolError(StreamToolsError, RuntimeError):
    """A method was called out of order, for example ``feed()`` after ``finish()``."""


class BadRequest(StreamToolsError, ValueError):
    """A client of a web app has sent something that is not what its protocol has, or more than is taken: answer it with
    `status` and the text of this error, which has nothing of the content."""

    path: str
    """The place in the body (``messages[3].parts[0].url``); ``""`` for the whole."""
    limit: str | None
    """The bound that was exceeded, with its value (``max_bytes=8388608``); None if it was none."""
    status: Literal[400, 413]
    """The HTTP status that says so."""

    def __init__(
        self, message: str, *, path: str = "", limit: str | None = None, status: Literal[400, 413] = 400
    ) -> None:
        place = f"{one_line(path, 200)}: " if path else ""
        super().__init__(f"{place}{message}" + (f" ({limit})" if limit else ""))
        self.path = path
        self.limit = limit
        self.status = status


class ChatConflict(StreamToolsError):
    """A client asks for what its conversation does not have, or not now: a run goes on, or calls wait, or do not.
    Answer it with the HTTP status 409 and the text of this error."""

    code: str
    """``running``, ``stopping``, ``waiting``, ``answered``, ``decided``, ``expired``, ``nothing_waits``,
    ``nothing_said``, ``edited``, ``unknown_message`` or ``bad_id``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class JournalError(StreamToolsError):
    """A run with a journal cannot go on: what happens could not be stored, or what is stored is of another run."""


class RunStillRunning(JournalError):
    """Somebody runs this run at this moment, in this process or another one, and the time to wait is over."""

    run_id: str

    def __init__(self, run_id: str, where: str) -> None:
        super().__init__(f"the run {run_id!r} is running already ({where}); wait for its end, and run the same line")
        self.run_id = run_id


class RunTakenOver(JournalError):
    """Somebody else goes on with this run, since its lease was not renewed in time: here it is over."""

    run_id: str

    def __init__(self, run_id: str) -> None:
        super().__init__(f"the run {run_id!r} was taken over: its lease ran out here, and somebody goes on with it")
        self.run_id = run_id


class ConsumerTooSlow(StreamToolsError):
    """A branch has ended because its reader was too far behind (``when_full="disconnect"``). The stream goes on."""

    size: int
    """The number of events that may wait."""
    seq: int
    """`seq` of the first event that the branch does not have."""

    def __init__(self, *, size: int, seq: int) -> None:
        super().__init__(
            f"the branch has ended before event {seq}: {size} events waited for its reader; take them sooner, or make "
            'the branch with a greater size or when_full="drop_oldest"'
        )
        self.size = size
        self.seq = seq


class DeadlineExceeded(StreamError):
    """The time for the first chunk, the step or the run was over. The step's running calls are ``cancelled``."""

    kind = "deadline_exceeded"
    limit: str
    """The field of `Limits`: ``first_chunk_timeout``, ``step_timeout`` or ``run_timeout``."""
    seconds: float
    """The limit's value."""

    def __init__(self, limit: str, seconds: float, what: str) -> None:
        super().__init__(f"{what} within {limit}={seconds:g} seconds")
        self.limit = limit
        self.seconds = seconds


class ToolDefinitionError(StreamToolsError, TypeError):
    """This function cannot be described as a tool. Raised where the tool is defined."""

    tool: str
    parameter: str | None

    def __init__(self, message: str, *, tool: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool
        self.parameter = parameter


class SchemaError(StreamToolsError, ValueError):
    """A given JSON Schema is not valid, asks for another document, or exceeds a limit, which the message names."""

    path: str
    """JSON pointer of the place in the schema (``#/properties/city``)."""

    def __init__(self, message: str, *, path: str = "#") -> None:
        super().__init__(f"{one_line(path, 1000)}: {message}")
        self.path = path


class SuspendedError(StreamToolsError, ValueError):
    """A text is not a state of suspended calls, or not one that can be trusted: changed, signed with another key, too
    old."""

    def __init__(self, message: str) -> None:
        super().__init__(f"suspended calls: {message}")


class DecisionError(StreamToolsError, ValueError):
    """A decision does not fit the suspended calls, so nothing was resumed."""

    call_id: str
    """The id that the decision names, as it was given."""
    code: Literal["unknown_call", "changed_call", "unnamed", "edited", "already_decided"]
    """``unknown_call``: no call of this id waits (a page is answered 404). ``changed_call``: one waits, but not the
    one that was shown (409). ``unnamed``, ``edited``: the tool requires several people, and the decision does not say
    who made it, or has arguments that the others have not seen. ``already_decided``: see `AlreadyDecided` (409)."""

    def __init__(
        self,
        call_id: str,
        code: Literal["unknown_call", "changed_call", "unnamed", "edited", "already_decided"],
        message: str,
    ) -> None:
        super().__init__(f"decisions: {message}")
        self.call_id = call_id
        self.code = code


class FirstDecision(Protocol):
    """The `Decision` that came first."""

    @property
    def verdict(self) -> bool: ...
    @property
    def by(self) -> str | None: ...
    @property
    def at(self) -> float: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def arguments(self) -> Mapping[str, Any] | None: ...


class AlreadyDecided(DecisionError):
    """Somebody has decided about the call before, so this decision changes nothing. The first one holds: resume without
    decisions to go on with it."""

    first: FirstDecision
    """The `Decision` that holds."""

    def __init__(self, call_id: str, first: FirstDecision) -> None:
        verdict, who = "approved" if first.verdict else "denied", one_line(first.by or "somebody", 100)
        super().__init__(
            call_id, "already_decided", f"the call {one_line(call_id, 100)!r} was {verdict} by {who} before"
        )
        self.first = first


class AnswerError(StreamToolsError, ValueError):
    """An answer does not fit the calls that wait for one, and changes nothing."""

    call_id: str
    """The id that the answer names, as it was given."""
    code: Literal["unknown_call", "changed_call", "already_answered", "over"]
    """``unknown_call``: no call of this id waits for an answer. ``changed_call``: one does, but not the one that was
    shown. ``already_answered``: it had another answer before, which holds. ``over``: it waits no longer."""

    def __init__(
        self, call_id: str, code: Literal["unknown_call", "changed_call", "already_answered", "over"], why: str
    ) -> None:
        super().__init__(f"answer: the call {one_line(call_id, 100)!r} {why}")
        self.call_id = call_id
        self.code = code


class ExportError(StreamToolsError, ValueError):
    """The target is unknown, or it cannot carry this tool."""


# -- one call --
#
# The texts of these errors are read by the model, except where the tool's own exception is behind them.


class ToolError(StreamToolsError):
    """One call did not succeed. `Observation.error` holds the error, which is never raised at the consumer."""


class CallTruncated(ToolError):
    """The call's arguments were cut before their end, so it did not run."""


class CallSkipped(ToolError):
    """The call was complete and did not run, because of how its turn ended."""


class ApprovalPending(CallSkipped):
    """The call needs an approval, and the block was left before anybody had decided. `Pipeline.suspended` keeps it."""

    def __init__(self, message: str = "the call was not run: it waits for an approval") -> None:
        super().__init__(message)


class CallCancelled(ToolError):
    """The call was cancelled: the consumer left, or the source failed."""


class CallDenied(ToolError):
    """The call was complete and may not run: it was not approved, or repeated too often."""


class InvalidArguments(ToolError, ValueError):
    """The arguments are not a JSON object, or do not fit the tool's schema."""

    problems: tuple[str, ...]
    """One line per problem: path and rule, never the value."""

    def __init__(self, message: str, *, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class UnknownTool(ToolError):
    """The model called a tool that was not given."""

    name: str | None
    closest: str | None
    """The one of `available` that was perhaps meant."""
    available: tuple[str, ...]

    def __init__(
        self, name: str | None, *, available: Sequence[str] = (), closest: str | None = None, awaits: str | None = None
    ) -> None:
        # The model can mend a wrong name where it reads the right ones. Names may come from an MCP server or a request,
        # so both their number and their length are bounded.
        shown = [one_line(known, 100) for known in available[:_NAMES_SHOWN]]
        more = f", and {len(available) - len(shown)} more" if len(available) > len(shown) else ""
        names = ", ".join(shown) + more if shown else "none"
        meant = "" if closest is None else f"; did you mean {closest!r}?"
        called = "a call without a name" if not name else f"unknown tool {name!r}"
        wanted = "" if awaits is None else f"; the provider waits for a {awaits}, so give it a tool of that name"
        super().__init__(f"{called}{wanted}; available tools: {names}{meant}")
        self.name = name
        self.closest = closest
        self.available = tuple(available)


class CallRepeated(CallDenied):
    """The call was made too often with the same arguments in one run (``Limits(max_repeated_calls=...)``), so it was
    not run."""

    def __init__(self, tool: str, most: int) -> None:
        text = f"not run: {tool} was called {most} times with the same arguments; use its result, or do something else"
        super().__init__(f"{text} (max_repeated_calls)")


class CallQuoted(CallDenied):
    """The model has written the call into its text, and the same call stands in a result that it has read: whoever
    wrote that may have wanted it, and nobody else. See ``pipeline(quoted_calls=...)``."""

    def __init__(self, tool: str) -> None:
        super().__init__(
            f"not run: this call of {tool} stands in what a tool returned, so that it may be the wish of whoever wrote "
            "that text; tell the user, and do not write it again"
        )


class BudgetExceeded(CallDenied):
    """The calls or tokens of the run, or of all runs that share the `CallPool`, are spent, so the call was not run."""

    budget: Literal["call_budget", "token_budget"]
    limit: int
    """The budget's value."""
    scope: Literal["run", "pool"]
    """What has the budget: ``run``: it is a field of `Limits`; ``pool``: an argument of the `CallPool`."""

    def __init__(
        self, budget: Literal["call_budget", "token_budget"], limit: int, scope: Literal["run", "pool"]
    ) -> None:
        what = "calls" if budget == "call_budget" else "tokens"
        whose, place = ("this run", "Limits") if scope == "run" else ("the runs that share a pool", "CallPool")
        super().__init__(
            f"not run: the {what} of {whose} are spent ({place}({budget}={limit})); make no more calls, and answer "
            "with what you have"
        )
        self.budget = budget
        self.limit = limit
        self.scope = scope


class ModelRetry(ToolError):
    """Raise this in a tool to ask the model to call again with better arguments: its text goes to the model, as that of
    any `ToolError`, and the library adds that another call is wanted, or, beyond ``Limits(max_model_retries=...)``,
    that it is not. The tool itself is not run again for it."""


class ToolFailed(ToolError):
    """The tool raised an exception; it is this error's ``__cause__``."""


class InvalidResult(ToolError):
    """The tool has run, and its result does not fit the output schema that it declares. The result is withheld, and the
    tool is not run again for it, whatever its effect."""

    # The effect has happened: another attempt would have it twice, and might return the same.


class ToolTimeout(ToolError):
    """The tool ran longer than it may."""

    timeout_s: float

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"the tool did not finish within {timeout_s:g} s")
        self.timeout_s = timeout_s


class ToolSuspended(ToolError):
    """Raise this in a tool whose end has to come from outside: an interrupt of a framework, an answer that is deferred.
    It is no failure, and is not on record: the same call runs again, from its beginning, when it is made again."""

    by_tool: bool | None = True
    """None once it has ended a call; see `ToolNotStarted.by_tool`."""


class AnswerPending(ToolSuspended):
    """The call is done outside, and the block was left before its answer was handed in. `Pipeline.suspended` keeps
    it."""

    by_tool = None

    def __init__(self, message: str = "the call has no result yet: it waits for an answer from outside") -> None:
        super().__init__(message)


class ToolNotStarted(ToolError):
    """The call is known not to have run: its executor has no worker for it, or a store refused it. Raise it in a tool
    that fails before it has had any effect. Whatever the tool's effect, the call may be made again."""

    by_tool: bool | None = False
    """True if a tool's own code has raised it, so that it holds also behind the call's begin; None once it has ended a
    call, so that a tool which passes on the error of another call says nothing of its own."""


class BeginRefused(ToolNotStarted):
    """Raised by ``begin()`` in an executor: the call is over, or its end is on record. Run nothing; let this out."""


class ToolOutcomeUnknown(ToolError):
    """The call was started, and how it ended is not known: its worker was lost, or an earlier process was. It may have
    had its effect. Do not make it again without looking."""

    goes_on: bool = False
    """True if its own tool can find out, by what it has noted: the call is let in again."""


class CallStillRunning(ToolOutcomeUnknown):
    """The call runs elsewhere at this moment, so its end is not known yet: ask again when it has ended."""


def contained(error: BaseException) -> BaseException:
    """Returns an error of a user's function; raises it if it is an interrupt, such as Ctrl-C, perhaps in a group."""
    if BaseExceptionGroup("", [error]).subgroup(KeyboardInterrupt) is not None:
        raise error
    return error
