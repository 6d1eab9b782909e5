"""A call whose arguments come piece by piece, until a part of it says that none will follow."""

from __future__ import annotations

from pydantic_core import from_json

from ...events import ToolCallFragment
from ...limits import Limits
from .partial_args import PartialArgs

__all__ = ["OpenCall"]


class OpenCall:
    """One call from its first part to its last."""

    __slots__ = ("arguments", "id", "index", "signature", "whole")

    def __init__(self, index: int, id_: str | None, limits: Limits) -> None:
        self.index = index
        self.id = id_
        self.arguments = PartialArgs(limits)
        self.whole: tuple[str, str | None] | None = None
        """The arguments at once, if they came so, too, and what is wrong with them."""
        self.signature: object = None

    def is_continued_by(self, name: str | None, id_: str | None) -> bool:
        """Whether a part with this name and id goes on with the call: only its first part needs to have a name."""
        if name:
            return id_ is not None and id_ == self.id
        return id_ is None or self.id is None or id_ == self.id

    def end(self, *, cut: bool) -> ToolCallFragment:
        """The call is over. Only now its arguments are a text, so that a call that was cut has none."""
        arguments = self.arguments
        text, problem = "", arguments.problem
        cut = cut or arguments.unfinished
        if not cut and problem is None:
            text = arguments.text() if arguments.began else ""
            if self.whole is not None:
                whole, problem = self.whole
                if arguments.began and not _same(whole, text):
                    text, problem = "", "bad_path"  # the two contradict each other
                else:
                    text = whole
        return ToolCallFragment(self.index, arguments=text, end=True, cut=cut, problem=problem)


def _same(left: str, right: str) -> bool:
    try:
        return bool(from_json(left) == from_json(right))
    except ValueError:
        return False
