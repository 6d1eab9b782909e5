"""Asks jsonschema-rs for a fast first opinion: a value that it finds valid is valid; this package judges any other.

Input: a document with its own validator. Output: a validator that asks both, or None where jsonschema-rs is not asked.
One difference is intended: a value so large that our own engine gives up (``max_validation_steps``) may be valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .compiler import Budget, OwnValidator, SchemaProblem
from .document import AGAIN, Document, Place
from .graph import Outline
from .patterns import translate

MAX_PEAK = 64
"""The most schemas applied to one value: jsonschema-rs cannot be stopped, and takes some 20 ns for each."""
MAX_WEIGHT = 4096
"""The largest weight of the patterns matched against one value, as `patterns` counts it."""
MAX_EXACT = 1 << 53
"""Numbers above which jsonschema-rs compares integers with floats as floats."""

_DROPPED = frozenset({"$schema", "$id", "$anchor", "$dynamicAnchor", "$defs", "definitions"})
_DRAFTS = {"2020-12": "Draft202012Validator", "draft-07": "Draft7Validator"}


@dataclass(slots=True, eq=False)
class RustValidator:
    """Asks jsonschema-rs first, and the package's own validator about any value that it does not find valid."""

    _own: OwnValidator
    _fits: Callable[[Any], bool]
    name: str = field(default="jsonschema-rs", init=False)

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Always empty: a schema with such a pattern is judged by the package's own validator."""
        return self._own.unenforced

    def is_valid(self, value: Any) -> bool:
        """Returns whether a value fits."""
        return self._accepts(value) or self._own.is_valid(value)

    def validate(self, value: Any, budget: Budget | None = None) -> list[SchemaProblem]:
        """Returns the problems of a value."""
        if (budget is None or budget.native) and self._accepts(value):
            return []
        return self._own.validate(value, budget)

    def _accepts(self, value: Any) -> bool:
        try:
            return self._fits(value)
        except (TypeError, ValueError):  # not possible in JSON text: half a surrogate pair, a key that is not a string
            return False


def rust_validator(own: OwnValidator, document: Document, shape: Outline, weight: int) -> RustValidator | None:
    """Returns a validator that asks jsonschema-rs first, then `own`; None if it is not to be asked."""
    # It cannot be stopped, and no other thread runs while it works, so its work has to be bounded: not for recursive
    # schemas, nor for those that apply many schemas to one value, nor for heavy patterns.
    if shape.is_recursive or shape.peak > MAX_PEAK or shape.peak * weight > MAX_WEIGHT:
        return None
    if own.unenforced or not _is_plain(document):
        return None
    try:
        import jsonschema_rs  # optional, and 60 ms to import
    except ImportError:
        return None
    make = getattr(jsonschema_rs, _DRAFTS[document.root.resource.dialect.name])
    try:
        made = make(
            _Rewriting(document).schema,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),  # which never backtracks
            retriever=_refuse,
        )
    except ValueError:  # stricter than this package about an annotation
        return None
    return RustValidator(own, made.is_valid)


def _refuse(uri: str) -> Any:
    raise ValueError("nothing is fetched")


def _is_plain(document: Document) -> bool:
    """Returns whether both validators read the document alike."""
    # Only where their verdicts are known to be the same: in one dialect, with numbers that floats can express, no items
    # to compare but texts, and without keywords about the parts that others have evaluated.
    dialect = document.root.resource.dialect
    return all(
        place.resource.dialect is dialect
        and AGAIN.isdisjoint(place.keywords)
        and all(_is_exact(value) for keyword, value in place.keywords.items() if keyword not in place.children)
        and (not place.keywords.get("uniqueItems") or _has_texts_only(place))
        for place in document.places
    )


def _has_texts_only(place: Place) -> bool:
    items = place.children.get("items", {}).get(0)
    if items is None or isinstance(place.keywords["items"], list) or "prefixItems" in place.keywords:
        return False
    return items.keywords.get("type") == "string"


def _is_exact(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return all(map(_is_exact, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, (int, float)) or -MAX_EXACT < value < MAX_EXACT


class _Rewriting:
    """Rewrites the document with only the keywords that decide, and the targets of references under ``$defs``."""

    # Each schema once, with local references only and its patterns translated: so jsonschema-rs resolves nothing by
    # itself, and reads nothing that this package has not read.

    def __init__(self, document: Document) -> None:
        targets = dict.fromkeys(target for place in document.places for target in place.references.values())
        self._names = {target: f"s{number}" for number, target in enumerate(targets)}
        holder = "definitions" if document.root.resource.dialect.lone_reference else "$defs"
        self._prefix = f"#/{holder}/"
        definitions = {name: self._schema(target) for target, name in self._names.items()}
        self.schema: Any = {"allOf": [self._use(document.root)], holder: definitions}

    def _use(self, place: Place) -> Any:
        """Returns a schema for the place of its use; a reference to it if it is among the definitions."""
        name = self._names.get(place)
        return self._schema(place) if name is None else {"$ref": self._prefix + name}

    def _schema(self, place: Place) -> Any:
        if isinstance(place.schema, bool):
            return place.schema
        written: dict[str, Any] = {}
        for keyword, value in place.keywords.items():
            if keyword in place.references:
                written[keyword] = self._prefix + self._names[place.references[keyword]]
            elif keyword in _DROPPED:
                continue
            elif keyword in place.children:
                written[keyword] = self._children(place, keyword, value)
            else:
                written[keyword] = _WRITTEN.get(keyword, _same)(value)
        return written

    def _children(self, place: Place, keyword: str, held: Any) -> Any:
        children = place.children[keyword]
        if isinstance(held, list):
            return [self._use(inner) for inner in children.values()]
        if place.resource.dialect.applicators[keyword].shape in ("one", "one_or_many"):
            return self._use(children[0])
        write = _translated if keyword == "patternProperties" else _same
        return {write(name): self._use(children[name]) if name in children else held[name] for name in held}


def _translated(pattern: str) -> str:
    """Returns the pattern in a form that means the same in ECMA-262 and in Rust."""
    return translate(pattern)[0]


def _same(value: Any) -> Any:
    return value


_WRITTEN: dict[str, Callable[[Any], Any]] = {
    "pattern": _translated,
    "required": lambda names: list(dict.fromkeys(names)),  # each once, as the metaschema demands
}
