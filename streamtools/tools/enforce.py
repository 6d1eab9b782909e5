"""A JSON Schema as the judge of a call's arguments: problems in lines, and texts decoded where they may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from pydantic_core import from_json

from ..limits import Limits
from ..schema.paths import dotted
from .binder import TakesLong
from .problems import MAX_PROBLEMS

__all__ = ["Enforced"]

QUICK_STEPS = 10_000
"""Steps of a validation that is to be quick: some 5 ms."""

Path: TypeAlias = tuple[str | int, ...]

_HOLDS_TYPES = frozenset({"type", "anyOf", "oneOf"})
"""Keywords whose failure may mean that an array or object belongs where a string stands."""


class Problem(Protocol):
    """What the JSON Schema validator finds wrong at one place."""

    @property
    def path(self) -> tuple[str | int, ...]: ...
    @property
    def keyword(self) -> str: ...
    @property
    def message(self) -> str: ...


class SchemaJudge(Protocol):
    """What `streamtools.schema.validation.compile` returns."""

    @property
    def name(self) -> str: ...
    @property
    def unenforced(self) -> tuple[str, ...]: ...
    def validate(self, value: Any, budget: Any, /) -> Sequence[Problem]: ...


class Enforced:
    """A JSON Schema that is enforced.

    Args:
        schema: the schema; kept as it is now, whatever becomes of it later.
        limits: how large it may be.

    Raises:
        SchemaError: it is no schema, refers to another document, or exceeds a limit.
    """

    __slots__ = ("_budget", "_compiled", "_exhausted", "_steps", "name", "unenforced")

    def __init__(self, schema: Mapping[str, Any], limits: Limits) -> None:
        from ..schema.validation import Budget, Exhausted, compile  # only who brings a schema pays for its compiler

        self._budget, self._exhausted = Budget, Exhausted
        self._steps = limits.max_validation_steps
        self._compiled: SchemaJudge = compile(schema, limits=limits, engine="auto")
        self.name = self._compiled.name
        """``jsonschema``, or ``jsonschema-rs`` where that is installed and says the same."""
        self.unenforced = self._compiled.unenforced
        """Places of patterns that no linear-time engine can run, and why."""

    def judge(
        self, values: dict[str, Any], *, decode: bool, is_large: bool, quick: bool
    ) -> tuple[list[str], tuple[str, ...]]:
        """Lines of what is wrong, and what was decoded.

        Args:
            values: the arguments; with `decode` changed in place.
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

    def _judged(self, values: dict[str, Any], decode: bool, budget: Any) -> tuple[list[str], tuple[str, ...]]:
        found = self._compiled.validate(values, budget)
        texts: dict[Path, str] = {}
        if found and decode:
            texts = {path: text for path in _strings(found, values) if (text := _decode(values, path)) is not None}
        if texts:
            found = self._compiled.validate(values, budget)
            wrong = {problem.path for problem in found if problem.path in texts and problem.keyword in _HOLDS_TYPES}
            for path in wrong:
                _put(values, path, texts.pop(path))
            if wrong:
                found = self._compiled.validate(values, budget)
        lines = [f"{dotted(problem.path) or 'the arguments'}: {problem.message}" for problem in found]
        return lines, tuple(f"{dotted(path)}: json_string" for path in texts)


def _decode(values: dict[str, Any], path: Path) -> str | None:
    """Puts the array or object that the string at `path` holds in its place. The string; None if it holds none."""
    text: str = _descend(values, path)
    try:
        inner = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    if not isinstance(inner, (dict, list)):
        return None
    _put(values, path, inner)
    return text


def _put(values: dict[str, Any], path: Path, value: Any) -> None:
    _descend(values, path[:-1])[path[-1]] = value


def _strings(found: Iterable[Problem], values: dict[str, Any]) -> list[Path]:
    """Where a string stands and perhaps something else belongs: the first few places, each once."""
    paths = dict.fromkeys(problem.path for problem in found if problem.path and problem.keyword in _HOLDS_TYPES)
    return [path for path in paths if isinstance(_descend(values, path), str)][:MAX_PROBLEMS]


def _descend(values: Any, path: Path) -> Any:
    for part in path:
        values = values[part]
    return values
