"""Keeps the state of translating a schema into a provider's dialect, together with the plan of the way back.

`Build.say` takes one subschema to a `Translation`, by the translator that it was given; the modules named for objects,
arrays and unions translate these. Only schemas are walked, never data (``default``, ``enum``, ``const``, ``examples``).

Definitions are translated once, when the first reference comes. A recursive one is referred to before its translation
is known. So the first build assumes that its plan is empty, the next one uses the translation made by the first, and so
on until a build makes the same translation that it used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from ...errors import ExportError
from ..dialects import Action, Dialect
from .document import ANNOTATIONS, ANY, KEYWORDS_OF, SchemaDocument, pointer
from .notes import TOLD, described
from .plan import Translation

__all__ = ["Build"]

MAX_DEPTH = 64
"""Most levels of nested subschemas, references followed (as `Limits.max_schema_depth`)."""


Translate: TypeAlias = "Callable[[Build, Any, str], Translation]"


class Build:
    """One run over a tool's schema.

    Args:
        document: the tool's schema.
        dialect: the dialect to translate into.
        known: the definitions that the build before made.
        translate: takes a subschema, which is no boolean unless it is false, to the dialect; it calls `say` for those
            inside.
    """

    def __init__(
        self, document: SchemaDocument, dialect: Dialect, known: Mapping[str, Translation], translate: Translate
    ) -> None:
        self._translate = translate
        self.document = document
        self.dialect = dialect
        self.known = known
        self.definitions: dict[str, Translation | None] = {}
        """The definitions by name, in the order of first use; None while one is being translated."""
        self.inlining: list[str] = []
        """Pointers of the definitions that are being written in their references' places."""
        self.losses: dict[str, str] = {}
        """The losses by place: the parts that the schema does not express, with what replaces them."""
        self._depth = 0
        document.spent = 0

    def say(self, node: Any, place: str) -> Translation:
        """Translates one subschema into the dialect.

        Raises:
            ExportError: the dialect cannot express it, or it exceeds a bound; the message names the place.
        """
        self.document.spend(node, place)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.refused(place, f"the schema is nested deeper than {MAX_DEPTH} levels, its references followed")
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
        """Returns `schema` with everything in `node` besides its structure: bounds and annotations, or notes of them.

        Args:
            node: the original subschema.
            schema: the translation of its structure; not changed.
            place: the place of `node`.
            kinds: the types whose keywords matter.
            notes: keywords to note in any case.
            more: further notes, in words.
        """
        if "$ref" in schema:
            # A reference stands alone: OpenAI refuses, and Anthropic's own code loses, what is beside it.
            beside = self.finish(node, {}, place, kinds=kinds, notes=notes, more=more)
            return {**beside, "anyOf": [schema]} if beside else schema
        kept = dict(schema)
        told = dict(notes or {})
        wanted = ANY.union(*(KEYWORDS_OF.get(kind, frozenset()) for kind in kinds))
        for keyword, value in node.items():
            if keyword not in wanted or keyword in kept or keyword in told:
                continue
            match self.dialect.for_value(keyword, value):
                case Action.KEEP:
                    kept[keyword] = copy.deepcopy(value)
                case Action.DROP:
                    pass
                case _ if (keyword, value) != ("default", None):  # that leaving out means null goes without saying
                    told[keyword] = value
        for keyword in told:
            if keyword not in ANNOTATIONS:
                self.lose(pointer(place, keyword), TOLD)
        text = described(node.get("description"), told, more)
        if text is None:
            return kept
        # Ahead of the details, so that a model reads the description first.
        first = {"type": kept.pop("type")} if "type" in kept else {}
        return {**first, "description": text, **kept}

    def defined(self, name: str) -> Translation | None:
        """Returns a definition as far as it is known: that of this build, else that of the one before."""
        return self.definitions.get(name) or self.known.get(name)

    def lose(self, place: str, what: str) -> None:
        """Records that the part at `place` is not expressed as a schema, and what replaces it."""
        self.losses.setdefault(place, what)

    def refused(self, place: str, why: str) -> ExportError:
        """Returns the error for a part that the dialect cannot express."""
        return self.document.refused(place, why)
