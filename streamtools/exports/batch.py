"""Exports the tools of one request together, within the limits of a request, and compares two exports.

Input: the tools and a target. Output: `Exports`, in the order given, computed once for the same tools.

`diff` compares any two JSON values place by place: a schema with the one it was yesterday, or, with
`streamtools.exports.parts`, one tool as two providers read it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, overload

from pydantic_core import to_json

from ..errors import ExportError
from ..schema.bounds import counts
from ..schema.translation.document import pointer
from ..tools import AnyTools, Exported, Tool
from ..tools.entries import EntryOptions, find
from ..wires import Wire
from ..wires.tool_format import RequestLimits, ToolFormat
from .exporting import exported, tool_of

__all__ = ["Change", "Exports", "diff", "export_all"]


Strictness = Literal["where_possible"] | bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exports(Sequence[Exported]):
    """The tools of one request, exported: a sequence for ``pipeline(..., tools=exports)``, with what the request needs.

    It is kept for the next request with the same tools, so do not change the payloads of its items; `payloads` and
    `request` are yours to extend, and `copy` gives payloads to do with as you like.
    """

    wire: str
    """The name that they were exported by."""
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    """The reason, by the tool's name, for each one that could not be strict where that was possible for others."""
    _items: tuple[Exported, ...] = field(repr=False)
    _format: ToolFormat = field(repr=False)

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The entries for the request's list of tools: a list of your own, of entries of your own to add keys to
        (``cache_control``). What is inside the entries is shared: change a `copy`."""
        payloads: list[dict[str, Any]] = []
        for one in self._items:
            payload = dict(one.payload)
            hints = one.tool.hints
            if hints is None or hints.entry is None or payload not in payloads:  # a toolset has one entry for all
                payloads.append(payload)
        return payloads if self._format.namespace is None else self._format.namespace.joined(payloads)

    @property
    def request(self) -> dict[str, Any]:
        """All that the request says about its tools, by its field: ``client.chat(..., **exports.request)``. Gemini's
        declarations are wrapped, Bedrock's are in ``toolConfig``, and what makes Gemini and Cohere strict is there."""
        return self._format.request(self.payloads, any(one.strict for one in self._items))

    @property
    def losses(self) -> dict[str, tuple[str, ...]]:
        """The parts of each schema that the wire cannot say, by the tool's name; tools without losses are left out."""
        return {one.tool.name: one.losses for one in self._items if one.losses}

    def copy(self) -> list[dict[str, Any]]:
        """Returns the payloads, copied through and through."""
        return copy.deepcopy(self.payloads)

    @overload
    def __getitem__(self, index: int) -> Exported: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Exported, ...]: ...

    def __getitem__(self, index: int | slice) -> Exported | tuple[Exported, ...]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


def export_all(
    tools: AnyTools,
    wire: Wire | str,
    *,
    strict: Strictness = False,
    limits: RequestLimits | None = None,
) -> Exports:
    """Returns the tools of a request in a provider's own shapes, in the order given. Computed once for the same tools.

    Args:
        tools: made by `streamtools.tool`, or functions to make tools of.
        wire: see `export`.
        strict: True for all, or ``where_possible``: as many as can be, in the order given; `Exports.fallbacks` tells
            why not the others. Where strictness is a matter of the whole request (Cohere, Gemini), it is all or none.
        limits: what the endpoint takes of one request; by default what the provider documents.

    Raises:
        ExportError: a tool cannot be carried, two have one name, or the limits are exceeded.
        ToolDefinitionError: something is no tool, and none can be made of it.
        TypeError: these are no tools to go through.
    """
    if not isinstance(strict, bool) and strict != "where_possible":
        raise ExportError(f"strict must be True, False or 'where_possible', not {strict!r}")
    if isinstance(tools, (str, Tool, Exported)) or not isinstance(tools, Iterable):
        what = type(tools).__name__
        raise TypeError(f"export_all() takes a list of tools, not a single {what}; write export_all([...], {wire!r})")
    made = tuple(tool_of(one) for one in tools)
    return _export_all(made, wire, strict, limits)


@lru_cache(maxsize=16)  # the sets of tools that an application uses at a time; they are kept alive by it
def _export_all(
    tools: tuple[Tool[..., Any], ...], wire: Wire | str, strict: Strictness, limits: RequestLimits | None
) -> Exports:
    format, asked = find(wire, strict is True)
    if strict == "where_possible":
        find(wire, True)  # raises where there is no strict form
    limits = limits or format.limits
    if limits.tools is not None and len(tools) > limits.tools:
        raise ExportError(f"{format.name} takes {limits.tools} tools in a request, not {len(tools)}")
    batch = _Batch(format, limits)
    if strict != "where_possible" or asked:
        batch.add_all(tools, strict=asked)
    elif format.strict is not None and format.strict.whole_request:
        batch = _all_or_none(tools, format, limits)
    else:
        batch.add_where_possible(tools)
    return Exports(wire=format.name, fallbacks=batch.fallbacks, _items=tuple(batch.items), _format=format)


def _all_or_none(tools: Sequence[Tool[..., Any]], format: ToolFormat, limits: RequestLimits) -> _Batch:
    """Returns a strict batch if all tools can be strict, since the request is strict or is not."""
    batch = _Batch(format, limits)
    batch.add_where_possible(tools)
    if batch.fallbacks:
        reason = f"{format.name} is strict for a whole request, and cannot be for {', '.join(batch.fallbacks)}"
        fallbacks = {one.name: batch.fallbacks.get(one.name, reason) for one in tools}
        batch = _Batch(format, limits)
        batch.add_all(tools, strict=False)
        batch.fallbacks = fallbacks
    return batch


class _Batch:
    """A request's tools, one after the other."""

    def __init__(self, format: ToolFormat, limits: RequestLimits) -> None:
        self.format = format
        self.limits = limits
        self.items: list[Exported] = []
        self.fallbacks: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """The tools' own names by those that the model calls."""
        self.used = dict.fromkeys((one.name for one in fields(RequestLimits)), 0)

    def add(self, tool: Tool[..., Any], *, strict: bool) -> None:
        one = exported(tool, self.format, EntryOptions(strict=strict))
        if tool.name in self.names.values():
            raise ExportError(f"two tools are called {tool.name!r}; pass tool(..., name='...') to one of them")
        if one.name in self.names:
            rule = self.format.names
            assert rule is not None, "only a rule changes names"
            name = rule.fitted(tool.name, self.names)
            if name in self.names:
                raise ExportError(f"the tools {tool.name!r} and {self.names[name]!r} would both be called {name!r}")
            one = exported(tool, self.format, EntryOptions(strict=strict, name=name))
        if strict:
            self._use(one)
        self.names[one.name] = tool.name
        self.items.append(one)

    def add_all(self, tools: Iterable[Tool[..., Any]], *, strict: bool) -> None:
        for one in tools:
            self.add(one, strict=strict)

    def add_where_possible(self, tools: Iterable[Tool[..., Any]]) -> None:
        for one in tools:
            try:
                self.add(one, strict=True)
            except ExportError as error:
                self.fallbacks[one.name] = str(error)
                self.add(one, strict=False)

    def _use(self, one: Exported) -> None:
        """Counts a strict tool.

        Raises:
            ExportError: it is too much; nothing has been counted then.
        """
        groups = self.format.namespace
        schema: Any = one.payload if groups is None else groups.entry_in(one.payload)
        if "custom" in (one.tool.kind, schema.get("type")) and self.format.freeform is not None:
            return  # its text is held to a grammar, not to a schema
        for step in self.format.schema_at:
            schema = schema.get(step, {})
        found = counts(schema)
        counted = ("optional_properties", "unions", "properties")
        more = {"strict_tools": 1, **{what: found[what] for what in counted}}
        for what, count in more.items():
            limit = getattr(self.limits, what)
            if limit is not None and self.used[what] + count > limit:
                words = what.replace("_", " ")
                raise ExportError(
                    f"tool {one.tool.name!r}: {self.format.name} takes {limit} {words} in the strict tools of a "
                    f"request; with this one it would be {self.used[what] + count}"
                )
        for what, count in more.items():
            self.used[what] += count


# -- differences between two JSON values -------------------------------------------------------------------------------


MAX_SHOWN = 120
"""Characters of one value in a line of `Change`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference."""

    path: str
    """JSON pointer of the place; ``""`` is the whole."""
    kind: Literal["added", "removed", "changed"]
    before: Any = None
    """None if it was added."""
    after: Any = None
    """None if it was removed."""

    def __str__(self) -> str:
        place = self.path or "/"
        if self.kind == "added":
            return f"+ {place}: {_excerpt(_text(self.after))}"
        if self.kind == "removed":
            return f"- {place}: {_excerpt(_text(self.before))}"
        return "~ {}: {} -> {}".format(place, *_both_shown(self.before, self.after))


def diff(before: Any, after: Any) -> list[Change]:
    """Returns the differences between two JSON values, in the order of the first; linear in their sizes.

    Objects are compared by key, whatever the order. Lists of plain values (``required``, ``enum``) are compared as sets
    of their members, other lists by position.
    """
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_objects(before, after, path)
    elif isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield Change(path=path, kind="changed", before=before, after=after)


def _of_objects(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Change]:
    for key, value in before.items():
        place = pointer(path, str(key))
        if key in after:
            yield from _changes(value, after[key], place)
        else:
            yield Change(path=place, kind="removed", before=value)
    for key, value in after.items():
        if key not in before:
            yield Change(path=pointer(path, str(key)), kind="added", after=value)


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Change]:
    if not any(isinstance(value, (Mapping, list, tuple)) for value in (*before, *after)):
        olds, news = ({(type(value), value): None for value in values} for values in (before, after))
        for key in olds:
            if key not in news:
                yield Change(path=path, kind="removed", before=key[1])
        for key in news:
            if key not in olds:
                yield Change(path=path, kind="added", after=key[1])
        return
    for position in range(max(len(before), len(after))):
        place = f"{path}/{position}"
        if position >= len(after):
            yield Change(path=place, kind="removed", before=before[position])
        elif position >= len(before):
            yield Change(path=place, kind="added", after=after[position])
        else:
            yield from _changes(before[position], after[position], place)


def _both_shown(before: Any, after: Any) -> tuple[str, str]:
    """Returns two values; of long ones the part around their first difference, which may stand behind the cut."""
    old, new = _text(before), _text(after)
    if max(len(old), len(new)) <= MAX_SHOWN:
        return old, new
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - MAX_SHOWN // 4)
    return _excerpt(old, start), _excerpt(new, start)


def _excerpt(text: str, start: int = 0) -> str:
    end = start + MAX_SHOWN
    cut = f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
    return cut if cut == text else f"{cut} ({len(text)} characters)"


def _text(value: Any) -> str:
    return to_json(value, fallback=repr).decode()
