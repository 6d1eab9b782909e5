"""Reads a JSON Schema as a document, and keeps the state of translating it, together with the plan of the way back.

Only schemas are walked, never data (``default``, ``enum``, ``const``, ``examples``).
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import unquote

from ...errors import ExportError
from ..circles import on_circles
from ..dialects import Action, Dialect
from .plan import Translation

ONE = frozenset({"items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"}) | frozenset(
    {"additionalProperties", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else"}
)
"""Keywords whose value is a schema (draft-07's ``items`` may be a list of them)."""
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})  # keywords whose value is a list of schemas
MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
REFERENCES = frozenset({"$ref", "$dynamicRef"})
DEFINITIONS = frozenset({"$defs", "definitions"})
ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
ANY = ANNOTATIONS - {"description"} | {"not", "if", "then", "else"}  # keywords that can stand beside any type
_STRING = frozenset({"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"})
_NUMBER = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"})
_ARRAY = frozenset({"minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"})
_OBJECT = frozenset(
    {"minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "patternProperties", "propertyNames"}
)
KEYWORDS_OF: Mapping[str, frozenset[str]] = {
    "string": _STRING,
    "number": _NUMBER,
    "integer": _NUMBER,
    "array": _ARRAY,
    "object": _OBJECT,
}

MAX_COST = 50_000
"""The most subschemas that one export may write, with references followed; lists and long texts count as several. A
schema at the limit makes a few megabytes."""


def without(node: Mapping[str, Any], *keywords: AbstractSet[str]) -> dict[str, Any]:
    gone = frozenset[str]().union(*keywords)
    return {keyword: value for keyword, value in node.items() if keyword not in gone}


def free_name(name: str, used: Container[str]) -> str:
    """Returns a free name: `name` itself, or with the first number that makes it free (``name_2``)."""
    free, number = name, 2
    while free in used:
        free, number = f"{name}_{number}", number + 1
    return free


def pointer(place: str, *steps: str | int) -> str:
    """Returns a JSON pointer with further steps: ``#/properties`` and ``a/b`` make ``#/properties/a~1b``."""
    escaped = (str(step).replace("~", "~0").replace("/", "~1") for step in steps)
    return "/".join([place, *escaped])


def reference_of(node: Mapping[str, Any]) -> str | None:
    # A dynamic one leads to its static target: an export only shows a model what to write, and validation resolves it
    # correctly.
    reference = node.get("$ref", node.get("$dynamicRef"))
    return reference if isinstance(reference, str) else None


def mapped(keyword: str, value: Any, place: str, each: Callable[[Any, str], Any]) -> Any:
    if keyword in MAPS and isinstance(value, dict):
        return {name: each(inner, pointer(place, name)) for name, inner in value.items()}
    if isinstance(value, list) and (keyword in LISTS or keyword == "items"):
        return [each(inner, pointer(place, number)) for number, inner in enumerate(value)]
    return each(value, place) if keyword in ONE else value


def subschemas(node: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    # Never data: an object in `default` or `enum` may look like a schema.
    for keyword, value in node.items():
        if keyword in MAPS and isinstance(value, dict):
            for name, inner in value.items():
                if not isinstance(inner, list):  # `dependencies` may list names
                    yield pointer(place, keyword, name), inner
        elif isinstance(value, list) and (keyword in LISTS or keyword == "items"):
            for number, inner in enumerate(value):
                yield pointer(place, keyword, number), inner
        elif keyword in ONE:
            yield pointer(place, keyword), value


class SchemaDocument:
    def __init__(self, root: Mapping[str, Any], tool: str) -> None:
        self.root = root
        self.tool = tool
        self.spent = 0
        self._names: dict[str, str] = {}

    def spend(self, node: Any, place: str) -> None:
        # References are followed as often as they occur, so that a schema of a kilobyte may write gigabytes.
        self.spent += 1
        if isinstance(node, Mapping):
            for value in node.values():
                if isinstance(value, str):
                    self.spent += len(value) // 100
                elif isinstance(value, list):
                    self.spent += len(value)
        if self.spent > MAX_COST:
            raise self.refused(place, "the schema, with its references followed, is too large; make it smaller")

    def target(self, reference: str, place: str) -> tuple[str, Any]:
        """Raises an `ExportError` if the reference leads nowhere in this document, or in the end to itself."""
        passed: set[str] = set()
        at, node = self._found(reference, place)
        result = at, node
        while isinstance(node, dict) and (further := reference_of(node)) is not None:
            if at in passed:
                raise self.refused(place, f"refers to {reference[:80]!r}, which only refers to itself")
            passed.add(at)
            at, node = self._found(further, at)
        return result

    def name(self, at: str) -> str:
        # OpenAI resolves only `#` and `#/$defs/x`, and schemas refer to any place, so each target becomes a definition.
        if at not in self._names:
            last = at.rpartition("/")[2].replace("~1", "/").replace("~0", "~") if at != "#" else "arguments"
            plain = re.sub(r"[^a-zA-Z0-9_.-]", "_", last) or "definition"
            self._names[at] = free_name(plain, self._names.values())
        return self._names[at]

    @cached_property
    def recursive(self) -> frozenset[str]:
        """Pointers of the definitions that contain themselves, and of those between two of them."""
        # From both sides: a definition that leads into a circle, and is led to from one, is on one or between two.
        edges: dict[str, set[str]] = {}
        waiting = list(self.references(self.root, "#"))
        while waiting:
            at = waiting.pop()
            if at not in edges:
                edges[at] = self.references(self.target(at, at)[1], at)
                waiting.extend(edges[at])
        return on_circles(edges)

    def references(self, node: Any, place: str) -> set[str]:
        found: set[str] = set()
        waiting = [(place, node)]
        while waiting:
            at, inner = waiting.pop()
            if not isinstance(inner, dict):
                continue
            reference = reference_of(inner)
            if reference is not None:
                found.add(self.target(reference, at)[0])
            # Definitions count where they are referred to.
            waiting.extend(subschemas(without(inner, DEFINITIONS), at))
        return found

    def refused(self, place: str, why: str) -> ExportError:
        return ExportError(f"tool {self.tool!r}: {place[:200]}: {why}")

    def _found(self, reference: str, place: str) -> tuple[str, Any]:
        where, _, fragment = reference.partition("#")
        # Nothing is fetched, whoever wrote the schema.
        if where and where != str(self.root.get("$id", "")).rstrip("#"):
            raise self.refused(place, f"refers to another document ({where[:80]!r}); write it into $defs")
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise self.refused(place, f"refers to the anchor {fragment[:80]!r}, which this document does not have")
            return self._anchors[fragment]
        node: Any = self.root
        for step in fragment.split("/")[1:]:
            node = _step(node, step.replace("~1", "/").replace("~0", "~"))
        if not isinstance(node, (dict, bool)):
            raise self.refused(place, f"refers to {reference[:80]!r}, which is not a schema of this document")
        return "#" + fragment, node

    @cached_property
    def _anchors(self) -> dict[str, tuple[str, Any]]:
        found: dict[str, tuple[str, Any]] = {}
        waiting: list[tuple[str, Any]] = [("#", self.root)]
        while waiting:
            at, node = waiting.pop()
            if isinstance(node, dict):
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(node.get(keyword), str):
                        found.setdefault(node[keyword], (at, node))
                waiting.extend(subschemas(node, at))
        return found


def _step(node: Any, step: str) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    if isinstance(node, list) and step.isascii() and step.isdigit() and int(step) < len(node):
        return node[int(step)]
    return None


# -- one run over a schema --


# Definitions are translated once, when the first reference is met. A recursive one is referred to before its
# translation is known. So the first build assumes that its plan is empty, the next one uses the translation made by the
# first, and so on until a build makes the same translation that it used.

MAX_DEPTH = 64  # the most levels of nested subschemas, with references followed (as `Limits.max_schema_depth`)


Translate: TypeAlias = "Callable[[Build, Any, str], Translation]"


class Build:
    """Keeps the state of one run over a tool's schema. `known` are the definitions that the build before made;
    `translate` translates a subschema, which is an object or false, and calls `Build.translate` for those inside."""

    def __init__(
        self, document: SchemaDocument, dialect: Dialect, known: Mapping[str, Translation], translate: Translate
    ) -> None:
        self._translate = translate
        self.document = document
        self.dialect = dialect
        self.known = known
        self.definitions: dict[str, Translation | None] = {}
        """The definitions by name, in the order of their first use; None for one that is being translated."""
        self.inlining: list[str] = []
        """Pointers of the definitions that are being written in the places of their references."""
        self.losses: dict[str, str] = {}
        self._depth = 0
        document.spent = 0

    def translate(self, node: Any, place: str) -> Translation:
        self.document.spend(node, place)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refused(place, f"the schema with its references is nested deeper than {MAX_DEPTH} levels")
        try:
            return self._translate(self, {} if node is True else node, place)
        finally:
            self._depth -= 1

    def finish(
        self,
        node: Mapping[str, Any],
        schema: dict[str, Any],
        place: str,
        *,
        kinds: Iterable[str] = (),
        notes: Mapping[str, Any] | None = None,
        more: Iterable[str] = (),
    ) -> dict[str, Any]:
        """Returns `schema`, the translation of the structure of `node`, with the bounds and annotations of `node`, or
        notes of them. `kinds`: the types whose keywords matter; `notes`: keywords to note in any case; `more`: further
        notes, in words."""
        if "$ref" in schema:
            # A reference stands alone: OpenAI refuses keywords beside it, and Anthropic's own code loses them.
            rest = self.finish(node, {}, place, kinds=kinds, notes=notes, more=more)
            return {**rest, "anyOf": [schema]} if rest else schema
        kept = dict(schema)
        noted = dict(notes or {})
        wanted = ANY.union(*(KEYWORDS_OF.get(kind, frozenset()) for kind in kinds))
        for keyword, value in node.items():
            if keyword not in wanted or keyword in kept or keyword in noted:
                continue
            match self.dialect.for_value(keyword, value):
                case Action.KEEP:
                    kept[keyword] = copy.deepcopy(value)
                case Action.DROP:
                    pass
                case _ if (keyword, value) != ("default", None):  # an optional property may be null in any case
                    noted[keyword] = value
        for keyword in noted:
            if keyword not in ANNOTATIONS:
                self.lose(pointer(place, keyword), NOTED)
        text = described(node.get("description"), noted, more)
        if text is None:
            return kept
        # Type and description first: a model reads a schema in its order.
        first = {"type": kept.pop("type")} if "type" in kept else {}
        return {**first, "description": text, **kept}

    def defined(self, name: str) -> Translation | None:
        return self.definitions.get(name) or self.known.get(name)

    def lose(self, place: str, what: str) -> None:
        self.losses.setdefault(place, what)

    def refused(self, place: str, why: str) -> ExportError:
        return self.document.refused(place, why)


# -- demands in words --

# Demands that the dialect cannot express go to the end of the description: `(min 1, max 10, default 5)`. The text is
# always the same for one schema and never depends on the order of a dictionary, since a request that changes from one
# turn to the next misses the provider's prompt cache.

NOTED = "in the description only"  # the entry in `Exported.losses` for a keyword that is noted in the description

MAX_SHOWN = 200
"""The most characters of one keyword's value in a description; of a longer one only the keyword is named."""

_WORDS: Mapping[str, str] = {
    "minimum": "min",
    "maximum": "max",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
    "minLength": "min length",
    "maxLength": "max length",
    "minItems": "min items",
    "maxItems": "max items",
    "minProperties": "min properties",
    "maxProperties": "max properties",
    "minContains": "min contained",
    "maxContains": "max contained",
    "enum": "one of",
    "const": "always",
    "contentEncoding": "encoding",
    "contentMediaType": "media type",
    "dependentRequired": "required together",
    "dependentSchemas": "if present",
    "propertyNames": "keys",
    "patternProperties": "properties by pattern",
    "additionalProperties": "further properties",
}
_BARE = frozenset({"format", "contentEncoding", "contentMediaType", "pattern"})  # shown without quotes
_ORDER = {keyword: number for number, keyword in enumerate([*_WORDS, "default"])}


def note(keyword: str, value: Any) -> str:
    if keyword == "uniqueItems":
        return "unique items"
    if keyword in ("deprecated", "readOnly", "writeOnly"):
        return {"readOnly": "read only", "writeOnly": "write only"}.get(keyword, keyword)
    word = _WORDS.get(keyword, keyword)
    if keyword == "enum" and isinstance(value, list):
        text = ", ".join(map(_json, value))
    elif keyword in _BARE and isinstance(value, str):
        text = value
    else:
        text = _json(value)
    return f"{word} {text}" if len(text) <= MAX_SHOWN else f"{word}: see the error if refused"


def described(text: Any, keywords: Mapping[str, Any], more: Iterable[str] = ()) -> str | None:
    """Returns a description with notes of `keywords`, and further notes; None if there are none of these."""
    # A description that is not text counts as none: no provider accepts it.
    own: str | None = text if isinstance(text, str) else None
    in_order = sorted(keywords, key=lambda keyword: (_ORDER.get(keyword, len(_ORDER)), keyword))
    notes = [note(keyword, keywords[keyword]) for keyword in in_order]
    notes.extend(more)
    if not notes:
        return own
    noted = f"({', '.join(notes)})"
    return f"{own} {noted}" if own else noted


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
