"""Definitions written in their references' places, for readers that resolve none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .document import LISTS, MAPS, ONE, Document, pointer, reference_of
from .merge import Lose
from .said import ANNOTATIONS, DEFINITIONS, REFERENCES, without
from .verbatim import MAX_DEPTH

__all__ = ["inlined"]


def inlined(document: Document, lose: Lose) -> dict[str, Any]:
    """The whole schema without references; what contains itself stays a definition, which `lose` is told of.

    Parts of the schema that hold no references are shared with the original: do not change them.

    Raises:
        ExportError: that makes it too large or too deep.
    """
    document.spent = 0
    inline = _Inline(document, lose)
    made: Any = inline.say(document.root, "#", 0)
    if made is False:
        raise document.refused("#", "accepts nothing, so no call could be right")
    made = {} if made is True else made
    kept = {document.name(at): inline.say(document.target(at, at)[1], at, 1) for at in inline.kept}  # grows meanwhile
    return {**made, "$defs": kept} if kept else made


class _Inline:
    def __init__(self, document: Document, lose: Lose) -> None:
        self.document = document
        self.lose = lose
        self.kept: list[str] = []

    def say(self, node: Any, place: str, depth: int) -> Any:
        self.document.spend(node, place)
        if depth > MAX_DEPTH:
            raise self.document.refused(place, f"with its references inlined, it is deeper than {MAX_DEPTH} levels")
        if not isinstance(node, Mapping):
            return node
        said = {
            keyword: self._value(keyword, value, pointer(place, keyword), depth + 1)
            for keyword, value in without(node, REFERENCES, DEFINITIONS).items()
        }
        reference = reference_of(node)
        return said if reference is None else self._reference(said, reference, place, depth)

    def _reference(self, beside: dict[str, Any], reference: str, place: str, depth: int) -> Any:
        at, target = self.document.target(reference, place)
        if at in self.document.recursive:
            self.lose(place, "stays a reference, since the schema contains itself")
            if at not in self.kept:
                self.kept.append(at)
            return {"$ref": f"#/$defs/{self.document.name(at)}", **beside}
        whole = self.say(target, at, depth + 1)
        if not beside:
            return whole
        if isinstance(whole, dict) and all(key in ANNOTATIONS or key not in whole for key in beside):
            return {**whole, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), whole]}

    def _value(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        if keyword in MAPS and isinstance(value, dict):
            return {key: self.say(inner, pointer(place, key), depth) for key, inner in value.items()}
        if isinstance(value, list) and (keyword in LISTS or keyword == "items"):
            return [self.say(inner, pointer(place, number), depth) for number, inner in enumerate(value)]
        return self.say(value, place, depth) if keyword in ONE else value
