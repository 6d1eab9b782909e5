"""Judges a call's arguments, or its result, by a JSON Schema: tells the problems in lines, and decodes texts where that
is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..limits import Limits
from ..text import dotted
from .binder import TakesLong
from .checks import MAX_PROBLEMS, Path, decode_at, descend

if TYPE_CHECKING:
    from ..schema.validation import SchemaProblem, Validator

__all__ = ["Enforced"]

QUICK_STEPS = 10_000
"""Steps of a quick validation: some 5 ms."""

_HOLDS_TYPES = frozenset({"type", "anyOf", "oneOf"})
"""Keywords whose failure may mean that an array or object belongs where a string stands."""


class Enforced:
    """A JSON Schema that is enforced.

    Args:
        schema: the schema; kept as it is now, whatever becomes of it later.
        limits: how large it may be.
        whole: the words for the whole value in a problem.

    Raises:
        SchemaError: it is no schema, refers to another document, or exceeds a limit.
    """

    __slots__ = ("_budget", "_compiled", "_exhausted", "_steps", "_whole", "name", "unenforced")

    def __init__(self, schema: Mapping[str, Any], limits: Limits, *, whole: str = "the arguments") -> None:
        from ..schema.validation import Budget, Exhausted, compile  # only who brings a schema pays for its compiler

        self._budget, self._exhausted = Budget, Exhausted
        self._whole = whole
        self._steps = limits.max_validation_steps
        self._compiled: Validator = compile(schema, limits=limits, engine="auto")
        self.name = self._compiled.name
        """``jsonschema``, or ``jsonschema-rs`` where that is installed and says the same."""
        self.unenforced = self._compiled.unenforced
        """Places of patterns that no linear-time engine can run, with the reason."""

    def judge(self, values: Any, *, decode: bool, is_large: bool, quick: bool) -> tuple[list[str], tuple[str, ...]]:
        """Returns a line for each problem, and one for each text that was decoded.

        Args:
            values: the arguments, with `decode` changed in place; or a result.
            decode: decode a string that holds the JSON text of an array or object, if the schema refuses the string and
                not what it holds.
            is_large: it is a lot of them, so that no engine is asked that cannot be stopped.
            quick: give up what takes more than about 10 ms.

        Raises:
            TakesLong: it was to be quick, and is not.
        """
        steps = min(self._steps, QUICK_STEPS) if quick else self._steps
        budget = self._budget(steps, tells=steps == self._steps, native=not is_large)
        try:
            return self._judged(values, decode, budget)
        except self._exhausted:
            raise TakesLong from None

    def _judged(self, values: Any, decode: bool, budget: Any) -> tuple[list[str], tuple[str, ...]]:
        found = self._compiled.validate(values, budget)
        texts: dict[Path, str] = {}
        if found and decode:
            texts = {path: text for path in _strings(found, values) if (text := decode_at(values, path)) is not None}
        if texts:
            found = self._compiled.validate(values, budget)
            wrong = {problem.path for problem in found if problem.path in texts and problem.keyword in _HOLDS_TYPES}
            for path in wrong:
                descend(values, path[:-1])[path[-1]] = texts.pop(path)
            if wrong:
                found = self._compiled.validate(values, budget)
        lines = [f"{dotted(problem.path) or self._whole}: {problem.message}" for problem in found]
        return lines, tuple(f"{dotted(path)}: json_string" for path in texts)


def _strings(found: Iterable[SchemaProblem], values: dict[str, Any]) -> list[Path]:
    """Returns the first few places, each once, where a string stands and perhaps something else belongs."""
    paths = dict.fromkeys(problem.path for problem in found if problem.path and problem.keyword in _HOLDS_TYPES)
    return [path for path in paths if isinstance(descend(values, path), str)][:MAX_PROBLEMS]
