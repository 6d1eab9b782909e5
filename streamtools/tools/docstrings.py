"""Reads descriptions out of docstrings: Google, NumPy, Sphinx and epytext, also mixed in one text.

The prose becomes the tool's description, the parameter sections become the descriptions of the parameters. Sections
about results and errors are left out; any other section (``Note:``, ``Example:``) is prose and stays.

Theory of operation: one pass over the lines. A line opens a section (a known word and a colon, a known word
underlined with dashes, ``:param x:``, ``@param x:``), continues the open one, or, by its indentation, ends it. Lines go
to `_into`: the prose, the parameters of the current item, or nowhere. Time is linear in the text.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Docstring", "parse_docstring"]

_PARAMETER_SECTIONS = frozenset(
    {
        "args",
        "arguments",
        "params",
        "parameters",
        "keyword args",
        "keyword arguments",
        "other args",
        "other arguments",
        "other parameters",
    }
)
_DROPPED_SECTIONS = frozenset(
    {"return", "returns", "yield", "yields", "receives", "raise", "raises", "except", "exceptions", "warns"}
)
_PARAMETER_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"})
_DROPPED_FIELDS = frozenset(
    {"type", "return", "returns", "rtype", "yield", "yields", "ytype", "raise", "raises", "except", "exception"}
)

# Possessive quantifiers (*+, ++) keep each match linear in the line.
_GOOGLE_ITEM = re.compile(r"[\\*]*+(\w++)\s*+(?:\(.*?\)\s*+)?:\s*+(.*)")  # x (int, optional): the x
_NUMPY_ITEM = re.compile(r"([\\*]*+\w++(?:\s*+,\s*+[\\*]*+\w++)*)\s*+(?::.*)?")  # x, y : int
_FIELD = re.compile(r"[:@](\w++)(?:\s++([^:]*+))?:\s*+(.*)")  # :param int x: the x


@dataclass(frozen=True, slots=True)
class Docstring:
    """The parts of a docstring that a model reads."""

    description: str
    """The prose, summary first."""
    parameters: dict[str, str]
    """Descriptions by parameter name, stars stripped; line breaks are as written."""


def parse_docstring(text: str) -> Docstring:
    """Reads a docstring, indented or not. Nothing in it is an error: what no style explains is prose."""
    lines = inspect.cleandoc(text).split("\n")
    reader = _Reader()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, following)
    return reader.result()


class _Reader:
    """The state of the pass over the lines."""

    def __init__(self) -> None:
        self._prose: list[str] = []
        self._items: dict[str, list[str]] = {}
        self._into: list[list[str]] = [self._prose]
        self._style: Literal["prose", "google", "numpy", "field"] = "prose"
        self._has_items = False  # the open section lists parameters
        self._indent = 0  # of the line that opened the section
        self._item_indent: int | None = None  # of a Google section's items
        self._skip_underline = False
        self._after_blank = False

    def read(self, line: str, following: str) -> None:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if self._skip_underline:
            self._skip_underline = False
        elif not text:
            self._append("")
        elif self._is_inside(indent) or not self._opens(text, indent, following):
            self._continue(line, text, indent)
        self._after_blank = not text

    def result(self) -> Docstring:
        description = re.sub(r"\n{3,}", "\n\n", "\n".join(self._prose)).strip()
        items = {name: inspect.cleandoc("\n".join(lines)) for name, lines in self._items.items()}
        return Docstring(description, {name: text for name, text in items.items() if text})

    def _is_inside(self, indent: int) -> bool:
        """Returns whether a line is deeper than the section's head, so that it is content (``args:`` may be a
        parameter)."""
        return self._style != "prose" and indent > self._indent

    def _opens(self, text: str, indent: int, following: str) -> bool:
        """Opens a section or field if the line does; returns whether it does."""
        underline = following.strip()
        if len(underline) >= 3 and not underline.strip("-"):
            if self._open_section("numpy", text.lower(), indent):
                return True
            self._back_to_prose()  # a section of another kind ends this one
            return False
        if text.endswith(":") and self._open_section("google", text[:-1].rstrip().lower(), indent):
            return True
        field = _FIELD.fullmatch(text)
        return field is not None and self._open_field(field[1].lower(), field[2] or "", field[3], indent)

    def _open_section(self, style: Literal["google", "numpy"], title: str, indent: int) -> bool:
        has_items = title in _PARAMETER_SECTIONS
        if not has_items and title not in _DROPPED_SECTIONS:
            return False
        self._style, self._has_items, self._indent, self._item_indent = style, has_items, indent, None
        self._into = []
        self._skip_underline = style == "numpy"
        return True

    def _open_field(self, role: str, argument: str, text: str, indent: int) -> bool:
        if role not in _PARAMETER_FIELDS and role not in _DROPPED_FIELDS:
            return False
        self._style, self._indent, self._into = "field", indent, []
        words = argument.split()
        if role in _PARAMETER_FIELDS and words:  # ":param int x:" names x, ":param:" nothing
            self._start_item(words[-1:], text)
        return True

    def _continue(self, line: str, text: str, indent: int) -> None:
        if self._style == "google" and self._has_items and self._google_item(text, indent):
            return
        if self._style == "numpy" and self._has_items and self._numpy_item(text, indent):
            return
        if self._ends_section(indent):
            self._back_to_prose()
        self._append(line)

    def _google_item(self, text: str, indent: int) -> bool:
        if self._item_indent is None:
            self._item_indent = indent
        item = _GOOGLE_ITEM.fullmatch(text) if self._indent < indent <= self._item_indent else None
        if item is not None:
            self._start_item([item[1]], item[2])
        return item is not None

    def _numpy_item(self, text: str, indent: int) -> bool:
        item = _NUMPY_ITEM.fullmatch(text) if indent <= self._indent else None
        if item is not None:
            self._start_item(item[1].split(","), "")
        return item is not None

    def _ends_section(self, indent: int) -> bool:
        if indent > self._indent or self._style == "prose":
            return False
        if self._style == "field":  # a wrapped line may stand at the margin, a new paragraph may not
            return self._after_blank
        return self._style == "google" or self._has_items

    def _start_item(self, names: Iterable[str], first: str) -> None:
        self._into = [self._items.setdefault(name.strip().lstrip("\\*"), []) for name in names]
        self._append(first)

    def _back_to_prose(self) -> None:
        self._style = "prose"
        self._into = [self._prose]
        self._append("")

    def _append(self, line: str) -> None:
        for lines in self._into:
            lines.append(line)
