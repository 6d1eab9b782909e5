r"""Gives ended calls their arguments, verbatim, losslessly normalised, or not at all; validates them by the tool's
schema.

pydantic-core parses the text (orjson turns integers from 2**64 on into floats). NaN and Infinity are refused; the last
of duplicate keys wins. If the text is not a JSON object, only steps that lose nothing are tried, and the call's
`normalizations` name each:

    empty_arguments    "", white space or null            → {}
    double_encoded     "{\"a\": 1}" as a JSON string      → the object inside
    fenced_arguments   a code fence, or a leading "json"  → the object inside
    bom                a leading byte order mark          → dropped
    lone_surrogate     half a surrogate pair              → U+FFFD, which every encoder takes
    raw_line_break     a line break or tab in a string    → its escape, which stands for the same character

A trailing comma or an extra bracket is not removed, since it may be the trace of a lost piece. For the same reason
nothing is normalised in a call whose pieces came in disorder. Nothing is ever completed or guessed. Large texts are
`Deferred`, since reading them would block the event loop.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MethodType
from typing import Any, NamedTuple, NoReturn

from pydantic_core import from_json, to_json

from ..errors import CallTruncated, InvalidArguments, ToolError
from ..events import Event, StreamWarning, ToolCallEnd, ToolCallValidated
from ..ground.own import own
from ..limits import Limits
from ..parts import ARGUMENTS, ToolCall, arguments_in
from ..tools import LARGE_CHARS, Bound, TakesLong, Tool, Toolset
from .preview import PartialJSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Work that a stage has to do before any other event may pass it.

    A stage stays a plain function of its event. If its work takes more than about 10 ms, it returns a `Deferred`
    instead of the resulting events. The chain then holds back all later events, in order, until its driver has done
    the work and called `Chain.resume`. A pipeline does the work in a thread, within the call's timeout.
    """

    run: Callable[[], Iterable[Event]]
    """Does the work, in any thread, and returns the events to pass on. It touches no shared state."""
    refuse: Callable[[str], list[Event]]
    """Returns the events to pass on if the work is not done. The text completes "could not be checked ..."."""
    timeout_s: float | None = None
    """The seconds that the work may take; None leaves that to the bounds on the work itself."""


class Checked(NamedTuple):
    """The arguments of an unfinished call, provided that only white space follows."""

    text: str
    value: dict[str, Any]
    bound: Bound


BLANK = " \t\n\r"  # JSON's white space
_LARGEST_FLOAT_DIGITS = 308
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_OPENING = ord("[")
# Whole pairs and escaped backslashes are kept; any other \\ud800 to \\udfff is half a pair.
_HALF_ESCAPE = re.compile(
    r"(?P<kept>\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
# A string that is never closed is matched to its end: to look for another one inside of it would take quadratic time.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_RAW_BREAK = re.compile(r"(?P<kept>\\.)|[\n\r\t]", re.DOTALL)
_BREAK_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_MESSAGES = {
    "incomplete_json": "the arguments were cut off: the JSON text is incomplete",
    "malformed_json": "the arguments are not valid JSON",
    "no_end": "the arguments may be complete, but the end of the call never came",
    "broken_and_cut": "the call did not end, and its arguments are not valid JSON",
    "concatenated_json": "the arguments hold more than one JSON value; it is unclear which one is meant",
    "non_object_arguments": "the arguments are not a JSON object",
    "number_out_of_range": "the arguments hold a number that is too large for a float",
    "argument_too_large": "the arguments hold more objects and arrays than max_argument_containers="
    "{max_argument_containers}",
    "too_deep": "the arguments are nested deeper than max_json_depth={max_json_depth}",
}


_BROKEN = frozenset({"malformed_json", "concatenated_json", "non_object_arguments"})


def _unchecked(event: ToolCallEnd, why: str) -> list[Event]:
    call = replace(event.call, status="invalid", problem="invalid_arguments", arguments=None)
    line = f"the arguments: could not be checked {why}"
    error = InvalidArguments(f"invalid arguments for {call.name}: {line}", problems=[line])
    return [replace(event, call=call, error=error)]


class Finalize:
    handles = frozenset({ToolCallEnd})

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.may_defer = False
        self.known: Mapping[str, Checked] = {}  # by the call's id

    def feed(self, event: Event) -> Iterable[Event | Deferred]:
        if not isinstance(event, ToolCallEnd):
            return (event,)
        call = event.call
        if call.status != "ready":
            return (replace(event, error=event.error or CallTruncated(_words_of_cut(call))),)
        if call.kind == "custom":
            return (replace(event, call=replace(call, arguments={"input": call.arguments_text})),)
        if self.may_defer and len(call.arguments_text) > LARGE_CHARS:
            return (Deferred(run=partial(self._finalized, event), refuse=partial(_unchecked, event)),)
        return self._finalized(event)

    def _finalized(self, event: ToolCallEnd) -> Iterable[Event]:
        call = event.call
        known = self.known.get(call.call_id) if self.known else None
        found: tuple[dict[str, Any], tuple[str, ...]] | str
        if known is not None and call.arguments_text.rstrip(BLANK) == known.text:
            found = known.value, ()
        else:
            found = arguments_of(call.arguments_text, self._limits)
        if event.in_disorder and (found in _BROKEN if isinstance(found, str) else found[1]):
            # What is broken, or needs a repair, lacks a piece: an empty text would run with `{}`, which the model did
            # not write.
            found = "incomplete_json"
        if isinstance(found, str):
            return (_refused(event, found, self._limits),)
        value, steps = found
        ARGUMENTS.__set__(call, value)  # nothing else has the call: a copy would cost as much as reading most arguments
        if steps:
            object.__setattr__(call, "normalizations", steps)
        return (*[StreamWarning(step) for step in steps if step != "empty_arguments"], event) if steps else (event,)

    def finish(self) -> Iterable[Event]:
        return ()


def _words_of_cut(call: ToolCall) -> str:
    """Returns why a call did not end. If its text could not have become JSON, or is whole, a model that read only of a
    cut would write the same again, only shorter."""
    state = _state(call.arguments_text if call.kind == "function" else "")
    return _MESSAGES[{"broken": "broken_and_cut", "complete": "no_end"}.get(state, "incomplete_json")]


def _refused(event: ToolCallEnd, problem: str, limits: Limits) -> ToolCallEnd:
    text = words_of_problem(problem, limits)
    cut = problem == "incomplete_json"
    error: ToolError = CallTruncated(text) if cut else InvalidArguments(text)
    call: ToolCall = replace(event.call, status="truncated" if cut else "invalid", problem=problem)
    return replace(event, call=call, error=error)


def words_of_problem(problem: str, limits: Limits) -> str:
    depth, most = limits.max_json_depth, limits.max_argument_containers
    return _MESSAGES[problem].format(max_json_depth=depth, max_argument_containers=most)


def arguments_of(text: str, limits: Limits = Limits()) -> tuple[dict[str, Any], tuple[str, ...]] | str:
    """Returns the arguments in a call's text and the lossless steps to them, or the code of the problem with it."""
    if problem := _out_of_bounds(text, limits):
        return problem
    if not text.strip():
        return {}, ("empty_arguments",)
    problem = ""
    for candidate, steps in _readings(text):
        try:
            value = from_json(candidate, allow_inf_nan=False)
        except ValueError:
            problem = problem or _what_is_wrong(text)
            continue
        if isinstance(value, str):
            for inside, more in _unbroken(value):
                if isinstance(inner := value_of(inside), dict):
                    if problem := _out_of_bounds(inside, limits):
                        return problem
                    candidate, value, steps = inside, inner, (*steps, "double_encoded", *more)
                    break
        if value is None:
            return {}, (*steps, "empty_arguments")
        if isinstance(value, dict):
            return "number_out_of_range" if _has_infinity(value, candidate) else (value, steps)
        return "non_object_arguments"
    return problem


def _readings(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields the text as it is, then without each wrapping; each is computed only when asked for."""
    yield text, ()
    for bare, steps in _unwrapped(text):
        for whole, more in _unbroken(bare):
            if steps or more:
                yield whole, (*steps, *more)


def _unwrapped(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield text, ()
    bare = text.removeprefix("\ufeff")
    steps: tuple[str, ...] = ("bom",) if bare != text else ()
    if steps:
        yield bare, steps
    if (inside := _unfenced(bare.strip())) is not None:
        yield inside, (*steps, "fenced_arguments")
    if _HALF_ESCAPE.search(bare):
        whole = _HALF_ESCAPE.sub(lambda match: match["kept"] or "\\ufffd", bare)
        if whole != bare:
            yield whole, (*steps, "lone_surrogate")


def _unbroken(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield text, ()
    whole = _STRING.sub(lambda string: _RAW_BREAK.sub(_escaped_break, string[0]), text)
    if whole != text:
        yield whole, ("raw_line_break",)


def _escaped_break(match: re.Match[str]) -> str:
    return match["kept"] or _BREAK_ESCAPES[match[0]]


def _unfenced(text: str) -> str | None:
    if text.startswith("```") and text.endswith("```") and len(text) >= 6:
        inside = text[3:-3]
        label = len(inside) - len(inside.lstrip(string.ascii_letters))
        return inside[label:]
    if text.startswith("json") and text[4:5].isspace():
        return text[4:]
    return None


def _has_infinity(value: dict[str, Any], text: str) -> bool:
    """Returns whether a number of the text was too large for a float; the parser then makes an infinity of it."""
    if "e" not in text and "E" not in text and len(text) < _LARGEST_FLOAT_DIGITS:
        return False
    # A tenth of the time of looking at each value; but no other thread runs meanwhile.
    if len(text) <= LARGE_CHARS and b"Infinity" not in to_json(value, inf_nan_mode="constants"):
        return False
    waiting: list[Any] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, float) and math.isinf(node):
            return True
        if isinstance(node, (dict, list)):
            waiting.extend(node.values() if isinstance(node, dict) else node)
    return False


def _what_is_wrong(text: str) -> str:
    if _state(text) != "broken":
        return "incomplete_json"
    try:
        _, end = DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return "malformed_json"
    return "concatenated_json" if _state(text.lstrip()[end:]) in ("complete", "partial") else "malformed_json"


def _state(text: str) -> str:
    seen = PartialJSON()
    seen.read(text)
    return seen.state()


def value_of(text: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


DECODER = json.JSONDecoder(parse_constant=_refuse)


def _out_of_bounds(text: str, limits: Limits) -> str | None:
    """Returns the problem's code if brackets outside strings exceed a bound. Linear: removes pairs level by level."""
    depth, most = limits.max_json_depth, limits.max_argument_containers
    if text.count("{") + text.count("[") <= min(depth, most):
        return None
    if "\\" in text:
        text = text.replace("\\\\", "").replace('\\"', "")
    inside = "".join(text.split('"')[::2])  # every other piece is a string
    brackets = inside.encode("utf-8", "replace").translate(_ONE_KIND, _NO_BRACKETS)
    if brackets.count(b"[") > most:
        return "argument_too_large"
    for _ in range(depth):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    level = highest = 0
    for bracket in brackets:  # a whole text leaves none, unless it is too deep
        level += 1 if bracket == _OPENING else -1
        highest = max(highest, level)
    return "too_deep" if b"[]" in brackets or highest > depth else None


class Validate:
    """Follows the `ToolCallEnd` of a good call with `ToolCallValidated`; marks a bad one ``invalid``."""

    handles = frozenset({ToolCallEnd})

    def __init__(self, tools: Toolset, limits: Limits) -> None:
        self._tools = tools
        self._limits = limits
        self.follows_finalize = False
        """True if this stage directly follows `Finalize`: verbatim arguments then equal their text."""
        self.may_defer = False
        self.known: Mapping[str, Checked] = {}  # as `Finalize` has it

    def feed(self, event: Event) -> Iterable[Event | Deferred]:
        if not isinstance(event, ToolCallEnd) or event.call.status != "ready" or event.call.kind == "server":
            return (event,)
        tool = self._tools.called(event.call)
        if tool is None:
            return (event,)
        try:
            return self._judged(event, tool, quick=self.may_defer)
        except TakesLong:
            timeout = self._limits.tool_timeout if tool.timeout is None else tool.timeout
            refuse = partial(_unchecked, event)
            return (Deferred(run=partial(self._judged, event, tool), refuse=refuse, timeout_s=timeout),)

    def finish(self) -> Iterable[Event]:
        return ()

    def _judged(self, event: ToolCallEnd, tool: Tool, *, quick: bool = False) -> Iterable[Event]:
        call, given = event.call, arguments_in(event.call)
        if given is None:
            return (event,)
        try:
            known = self.known.get(call.call_id) if self.known else None
            if known is not None and known.value is given:
                bound = known.bound
            else:
                arguments = self._tools.decode(call.name, given)
                verbatim = self.follows_finalize and arguments is given and not call.normalizations
                # A call whose own text is read once more need not be written again to be validated as JSON.
                text = call.arguments_text if verbatim and call.kind == "function" else None
                bound = tool.validate(arguments, text=text, quick=quick)
        except InvalidArguments as error:
            refused = replace(call, status="invalid", problem="invalid_arguments", arguments=None)
            return (replace(event, call=refused, error=error),)
        ARGUMENTS.__set__(call, MethodType(own, given))  # earlier readers may change what they were given
        return (event, ToolCallValidated(call, bound))
