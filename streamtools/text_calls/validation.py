"""Decides whether a payload's call may run, words the problems for the model, and limits its retries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..errors import InvalidArguments, UnknownTool
from ..stages import arguments_of
from ..tools import AnyTool, Binder, Exported, Tool, Toolset
from ..tools.callables import reserved_names

_REQUIRED = "is required but missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallValidation:
    """The result of validating a call's arguments."""

    is_valid: bool
    error_message: str | None = None
    """The problems, for the model to read, without argument values; None if there are none."""
    arguments: dict[str, Any] | None = field(default=None, repr=False)
    """The arguments in the function's types and with its defaults; None unless they are valid."""
    validated: bool = True
    """True if a schema was checked; in a mode without a schema, `is_valid` only says that there are arguments."""


def check(
    payload: Mapping[str, Any] | None,
    tools_by_name: Mapping[str, AnyTool],
    shown_as: Callable[[str, Tool], Exported] | None = None,
) -> ToolCallValidation:
    """Validates a payload's call by the tool itself; `shown_as` returns a tool as it was shown to the model."""
    found = _call_of(payload, tools_by_name)
    if isinstance(found, ToolCallValidation):
        return found
    name, given, arguments = found
    # Decoded and validated as in a pipeline, where the toolset holds the exported form in the tool's place.
    tools = Toolset([given])
    (tool,) = tools.values()
    assert tool is not None, "it is a tool, not a bare name"
    if shown_as is not None:
        tools = Toolset([shown_as(name, tool)])
    try:
        bound = tool.validate(tools.decode(next(iter(tools)), arguments))
    except InvalidArguments as error:
        return _refused(error)
    return ToolCallValidation(is_valid=True, arguments=bound.by_name, validated=bound.validated)


def pass_unchecked(payload: Mapping[str, Any] | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
    """Lets a payload's call pass if there is such a tool and if its arguments are an object."""
    found = _call_of(payload, tools_by_name)
    if isinstance(found, ToolCallValidation):
        return replace(found, validated=False)
    return ToolCallValidation(is_valid=True, arguments=found[2], validated=False)


def _call_of(
    payload: Mapping[str, Any] | None, tools_by_name: Mapping[str, AnyTool]
) -> tuple[str, AnyTool, dict[str, Any]] | ToolCallValidation:
    name = payload.get("tool") if payload else None
    if payload is None or not isinstance(name, str):
        return _invalid("the response has no tool call")
    if name not in tools_by_name:
        return _invalid(str(UnknownTool(name, available=sorted(tools_by_name))))
    arguments = payload.get("arguments", {})
    if isinstance(arguments, str):
        found = arguments_of(arguments)
        arguments = None if isinstance(found, str) else found[0]
    if not isinstance(arguments, Mapping):
        return _invalid("ArgValidationError: arguments\n  Input should be a valid JSON object")
    return name, tools_by_name[name], dict(arguments)


def _invalid(message: str) -> ToolCallValidation:
    return ToolCallValidation(is_valid=False, error_message=message)


def _refused(error: InvalidArguments) -> ToolCallValidation:
    """Returns an error in the form that models know from pydantic: the place, and below it the rule."""
    # Of problems, never of values: those would come back in the next request, and stand in its logs.
    problems = error.problems or (f"arguments: {error}",)
    return _invalid("ArgValidationError: " + "\n".join(map(_in_two_lines, problems)))


def _in_two_lines(problem: str) -> str:
    where, colon, rule = problem.partition(": ")
    if not colon:
        return problem
    if rule == _REQUIRED:
        rule = "Field required"
    elif rule.startswith("should "):
        rule = f"Input {rule}"
    return f"{where}\n  {rule[:1].upper()}{rule[1:]}"


# -- tools that accept any arguments, and the bound on retries --


def unchecked(tool: Tool) -> Tool:
    """Returns the same tool, which accepts any arguments; the record of its calls says ``validated=False``."""
    return replace(tool, boundary="advisory", _binder=_Unchecked(tool))


class _Unchecked:
    """Binds arguments unchecked, but for parameters that only the program may set."""

    validator_name: str | None = None

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._binder: Binder = tool._binder
        self.schema, self.injected, self.drift = self._binder.schema, self._binder.injected, self._binder.drift
        self._reserved = reserved_names(tool.fn)

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        names = self.schema.get("properties", {})
        if self.schema.get("additionalProperties") is False and not names.keys() >= arguments.keys():
            raise self._refused("have a name that is not an argument of this tool")
        return dict(arguments), ()

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            args, kwargs = self._binder.arrange(values, injected)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self._refused("lack values that the function's parameters need") from None
        # A tool's `**kwargs` are one argument, an object, whose keys the model chooses: with validation they are
        # checked one by one, and without it a key could be that of a parameter for the context.
        if any(name in self._reserved and name not in values and name not in injected for name in kwargs):
            raise self._refused("set, through **kwargs, a parameter that only the program may set")
        return args, kwargs

    def _refused(self, rule: str) -> InvalidArguments:
        line = f"the arguments: {rule}"
        return InvalidArguments(f"invalid arguments for {self._tool.name}: {line}", problems=[line])


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAgain:
    """The decision to ask again: append `message` to the history."""

    message: dict[str, str]
    """The user message that names the problem."""
    attempt: int
    """The number of this retry, from 1."""
    left: int
    """The retries that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetriesSpent:
    """The decision not to ask again, since all retries are used up."""

    attempts: int
    """The retries that were made."""
    error_message: str
    """The last problem."""


RetryOutcome: TypeAlias = AskAgain | RetriesSpent


class RetryBudget:
    """Counts how often a model may still correct one call.

    >>> budget = RetryBudget(1)
    >>> budget.failed("no such tool")
    AskAgain(message={'role': 'user', 'content': 'Error: no such tool. Try again.'}, attempt=1, left=0)
    >>> budget.failed("no such tool")
    RetriesSpent(attempts=1, error_message='no such tool')

    Args:
        limit: retries in a row; a valid call restores them (`succeeded`).

    Raises:
        ValueError: `limit` is negative.
    """

    def __init__(self, limit: int = 2) -> None:
        if limit < 0:
            raise ValueError(f"RetryBudget: expected a limit of 0 or more, got {limit}")
        self.limit = limit
        self.used = 0
        """Retries since the last success."""

    def failed(self, error_message: str | None) -> RetryOutcome:
        """Counts a response that was not usable; returns whether to ask again.

        Args:
            error_message: the problem (`ToolCallValidation.error_message`); None if the response had no payload.
        """
        text = error_message or "the response contains no JSON object of the requested form"
        if self.used >= self.limit:
            return RetriesSpent(attempts=self.used, error_message=text)
        self.used += 1
        message = {"role": "user", "content": f"Error: {text}. Try again."}
        return AskAgain(message=message, attempt=self.used, left=self.limit - self.used)

    def succeeded(self) -> None:
        """Counts a usable response, and restores the whole budget."""
        self.used = 0
