"""Judging by the compiled checks alone."""

from __future__ import annotations

from typing import Any

from ...limits import Limits
from .document import Document
from .run import Check, Exhausted, Run, SchemaProblem, Stop
from .values import deeper_than

__all__ = ["OwnValidator"]


class OwnValidator:
    """Judges by this package's own checks."""

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
        """Whether a value fits."""
        return self._judge(value, None) is True

    def validate(self, value: Any) -> list[SchemaProblem]:
        """What is wrong with a value."""
        verdict = self._judge(value, None)
        if verdict is True:
            return []
        problems: list[SchemaProblem] = []
        if verdict is False:
            verdict = self._judge(value, problems)
        if isinstance(verdict, SchemaProblem):
            return [*problems, verdict]
        if not problems:  # pragma: no cover - a check that fails notes what is broken; if not, better refused than run
            return [SchemaProblem(path=(), keyword="", message="does not fit the schema", schema_path="#")]
        return problems

    def _judge(self, value: Any, problems: list[SchemaProblem] | None) -> bool | SchemaProblem:
        """Whether a value fits, or the limit that keeps it from being told."""
        limits = self._limits
        if self._is_recursive and deeper_than(value, limits.max_schema_depth, size=limits.max_validation_steps):
            return _limit("max_schema_depth", limits.max_schema_depth, "is nested deeper than this schema is followed")
        run = Run(limits.max_validation_steps, self._resource, problems)
        try:
            return self._check(value, None, run)
        except Exhausted:
            return _limit("max_validation_steps", limits.max_validation_steps, "takes too much work to check")
        except Stop:
            return False
        except RecursionError:  # the interpreter's own limit, of which the caller may have used up most
            return _limit("max_schema_depth", limits.max_schema_depth, "is nested too deep to be checked from here")


def _limit(setting: str, limit: int, message: str) -> SchemaProblem:
    return SchemaProblem(path=(), keyword="limit", message=f"{message} (Limits({setting}={limit}))", schema_path="#")
