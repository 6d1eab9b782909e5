"""Asks code of the user's about a call's arguments: a validator, or a check. Neither can do more than refuse them.

A refusal that quotes the arguments is not passed on: the model reads the text, and logs hold it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from ..errors import InvalidArguments, ToolError
from . import problems
from .binder import ArgumentsValidator, Binder
from .callables import refuse
from .injection import Injected

__all__ = ["Check", "Checked", "Checks", "check_checks"]

T = TypeVar("T")

Check: TypeAlias = Callable[[dict[str, Any]], object]
"""A check of the user's: raises a ``ValueError`` or `ToolError`, or returns False, to refuse the arguments."""


def check_checks(tool: str, validator: object, check: object) -> None:
    """Refuses what is neither a validator nor a check.

    Raises:
        ToolDefinitionError: the message says what one is.
    """
    if check is not None and (not callable(check) or inspect.iscoroutinefunction(check)):
        raise refuse(tool, "check must be a plain function: it runs before the call is accepted")
    if validator is not None and not isinstance(validator, ArgumentsValidator):
        why = "validator must have a name, and a method validate(arguments) that returns a list of problems"
        raise refuse(tool, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """A user's validator and check of one tool."""

    tool: str
    """The tool's name, for errors."""
    validator: ArgumentsValidator | None = None
    check: Check | None = None

    def judge(self, values: dict[str, Any], given: dict[str, Any]) -> None:
        """Asks the validator.

        Args:
            values: the arguments as the validator is to see them.
            given: the arguments as plain JSON, which a refusal must not quote.

        Raises:
            InvalidArguments: it has found a problem, raised, or returned no list of lines.
        """
        if self.validator is not None and (lines := self._asked(_lines, self.validator.validate, values, given)):
            raise self._refusal(lines)

    def run(self, values: dict[str, Any], given: dict[str, Any]) -> None:
        """Runs the check; see `judge`.

        Raises:
            InvalidArguments: it has returned False, or raised.
        """
        if self.check is not None and self._asked(_verdict, self.check, values, given) is False:
            raise self._refusal([f"the arguments: {problems.WITHHELD}"])

    def _asked(
        self,
        read: Callable[[Any], T],
        ask: Callable[[dict[str, Any]], Any],
        values: dict[str, Any],
        given: dict[str, Any],
    ) -> T:
        """Asks, and reads the answer; it may also refuse the arguments by raising."""
        try:
            return read(ask(values))
        except InvalidArguments as error:
            raise self._refusal(error.problems or [f"the arguments: {_text(error)}"]) from error
        except ToolError as error:  # its text is for the model
            raise self._refusal([f"the arguments: {_text(error)}"]) from error
        except ValueError as error:  # perhaps pydantic's, whose text quotes the value
            raise self._refusal([f"the arguments: {problems.rule_of_a_check(_text(error), given)}"]) from None
        except Exception as error:
            problem = f"the arguments: the tool's own check raised {type(error).__name__}"
            raise self._refusal([problem]) from error

    def _refusal(self, lines: list[str] | tuple[str, ...]) -> InvalidArguments:
        return problems.refusal(self.tool, problems.listed(lines))


@dataclass(frozen=True, slots=True)
class Checked:
    """A `Binder` whose values have to pass a user's validator and check, too. They see a dict of the values that the
    function will get, by parameter name."""

    binder: Binder
    checks: Checks

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments. Do not change it."""
        return self.binder.schema

    @property
    def validator_name(self) -> str | None:
        """The names of all judges."""
        validator = self.checks.validator
        names = (self.binder.validator_name, None if validator is None else validator.name)
        return ", ".join(name for name in names if name is not None) or None

    @property
    def injected(self) -> Mapping[str, Injected]:
        """Parameters that the program fills, by name."""
        return self.binder.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns values by parameter name, and the coercions; see `Binder`."""
        values, coercions = self.binder.validate(arguments, text, quick=quick)
        given = dict(arguments)
        self.checks.judge(dict(values), given)
        self.checks.run(dict(values), given)
        return values, coercions

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function."""
        return self.binder.arrange(values, injected)

    def drift(self) -> list[str]:
        """Returns a line for each disagreement of schema and signature."""
        return self.binder.drift()


def _verdict(said: object) -> object:
    """Returns the result of a check. A coroutine has checked nothing, so it lets nothing pass.

    Raises:
        TypeError: it is one.
    """
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError("the check is async, and it has to be a plain function")
    return said


def _lines(said: object) -> list[str]:
    """Returns the lines of a validator; anything else is no consent.

    Raises:
        TypeError: it is none.
    """
    said = _verdict(said)
    if not isinstance(said, (list, tuple)) or not all(isinstance(line, str) for line in said):
        raise TypeError(f"the validator returned a {type(said).__name__}, and it has to return a list of lines")
    return list(said)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # code of the user's
        return problems.WITHHELD
