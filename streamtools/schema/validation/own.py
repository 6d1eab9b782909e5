"""Validates by the compiled checks alone."""

from __future__ import annotations

from typing import Any

from ...limits import Limits
from .document import Document
from .run import Budget, Check, Exhausted, Found, SchemaProblem, Stop, ValidationRun, problems_of
from .values import deeper_than

__all__ = ["OwnValidator"]


class OwnValidator:
    """Validates by this package's own checks."""

    __slots__ = ("_check", "_is_recursive", "_limits", "_resource", "unenforced")

    name = "jsonschema"

    def __init__(
        self, check: Check, document: Document, is_recursive: bool, unenforced: tuple[str, ...], limits: Limits
    ) -> None:
        self._resource = document.root.resource
        self._is_recursive = is_recursive
        self._check = check
        self._limits = limits
        self.unenforced = unenforced

    def is_valid(self, value: Any) -> bool:
        """Returns whether a value fits."""
        return self._judge(value, Budget(self._limits.max_validation_steps), None) is True

    def validate(self, value: Any, budget: Budget | None = None) -> list[SchemaProblem]:
        """Returns the problems of a value."""
        budget = budget or Budget(self._limits.max_validation_steps)
        verdict = self._judge(value, budget, None)
        if verdict is True:
            return []
        found: list[Found] = []
        if verdict is False:
            verdict = self._judge(value, budget, found)
        problems = problems_of(found)
        if isinstance(verdict, SchemaProblem):
            return [*problems, verdict]
        if not problems:  # pragma: no cover - a check that fails notes the broken rule; if not, better refused than run
            return [SchemaProblem(path=(), keyword="", message="does not fit the schema", schema_path="#")]
        return problems

    def _judge(self, value: Any, budget: Budget, found: list[Found] | None) -> bool | SchemaProblem:
        """Returns whether a value fits, or the limit that keeps this from being found out."""
        limits = self._limits
        run = ValidationRun(budget.units, self._resource, found)
        try:
            if self._is_recursive and found is None and deeper_than(value, limits.max_schema_depth, run.spend_on):
                what = "is nested deeper than this schema is followed"
                return _limit("max_schema_depth", limits.max_schema_depth, what)
            return self._check(value, None, run)
        except Exhausted:
            if not budget.tells:
                raise
            return _limit("max_validation_steps", limits.max_validation_steps, "takes too much work to check")
        except Stop:
            return False
        except RecursionError:  # the interpreter's own limit, most of which the caller may have used up
            return _limit("max_schema_depth", limits.max_schema_depth, "is nested too deep to be checked from here")
        finally:
            budget.units = run.units


def _limit(setting: str, limit: int, message: str) -> SchemaProblem:
    return SchemaProblem(path=(), keyword="limit", message=f"{message} (Limits({setting}={limit}))", schema_path="#")
