"""Holds the `ToolInteropRegistry` of one request: reads foreign schemas, calls and results, and writes them for another
provider.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NoReturn

from ..errors import ExportError
from ..wires import WIRES, Wire, find, known
from .calls import accessors_of, inspected, render_results, written
from .contributions import (
    LEVELS,
    Contribution,
    InspectedCall,
    InspectedResult,
    InspectedSchema,
    Level,
    ToolCallAccessor,
    ToolCallAdapter,
    contribution_of,
)
from .flows import CallFlow, ConvertedSchema, ResultFlow, SchemaFlow
from .formats import STORED_WIRE, TARGET_FORMATS, ToolInteropTarget, call_formats, raw_formats
from .schemas import Memory, members, namespace_format, schema_accessors, schema_adapters


class DefaultRegistryWarning(UserWarning):
    """Warns that the registry of last resort is used where a request has its own."""


@dataclass(frozen=True, slots=True)
class ToolDescriptor:
    """Names a tool, with its author's schema, which no conversion changes."""

    plugin_name: str
    tool_name: str
    schema: Mapping[str, Any] = field(repr=False)


class ToolInteropRegistry:
    """Reads and writes foreign formats by accessors and adapters, in their order of precedence.

    Build one for each request with `of`.

    Args:
        contributions: with the level of each; within a level the first wins. The built-in one is always there, last.
        descriptors: the request's tools, so that calls of freeform ones are known before any schema was converted.
        last_resort: the registry does not belong to a request: it remembers nothing, and warns where a request has a
            registry.

    Raises:
        TypeError: a descriptor is not a `ToolDescriptor`.
        ExportError: no accessor knows a descriptor's schema.
    """

    def __init__(
        self,
        contributions: Iterable[tuple[Level, Contribution]] = (),
        *,
        descriptors: Iterable[ToolDescriptor] = (),
        last_resort: bool = False,
    ) -> None:
        self._built_in = _built_in(tuple(map(find, WIRES)) if last_resort else known())
        given: list[tuple[Level, Contribution]] = [*contributions, ("built_in", self._built_in)]
        self.contributions: tuple[tuple[Level, Contribution], ...] = tuple(
            sorted(given, key=lambda pair: LEVELS.index(pair[0]))
        )
        """Every contribution with its level, the one that wins first."""
        self.descriptors = tuple(descriptors)
        """The request's tools with their authors' schemas."""
        own = [contribution for _, contribution in self.contributions]
        # It remembers conversions: a freeform tool that had to become a function is called with `{"input": "..."}`, and
        # only the registry that wrote it so can give the tool its raw text again.
        self._memory = memory = Memory(keeps=not last_resort)
        self._last_resort = last_resort
        self._schemas, self._calls = SchemaFlow(own, memory), CallFlow(own, memory)
        self._results = ResultFlow(own, memory)
        for descriptor in self.descriptors:
            if not isinstance(descriptor, ToolDescriptor):
                raise TypeError(
                    "descriptors: expected ToolDescriptor(plugin_name, tool_name, schema), got "
                    f"{type(descriptor).__name__}; registry.describe(plugin_name, schemas) makes them of schemas"
                )
            memory.note_schema(self._schemas.inspect(descriptor.schema))

    @classmethod
    def of(
        cls,
        *,
        config: Iterable[object] = (),
        provider: object = None,
        extensions: Iterable[object] = (),
        tools: Iterable[object] = (),
        descriptors: Iterable[ToolDescriptor] = (),
    ) -> ToolInteropRegistry:
        """Builds a registry of the contributions of a request's parties (`contribution_of`).

        Their order of precedence is: explicit config, the provider, its extensions, the tools, and the built-in one.
        """
        levels: list[tuple[Level, Iterable[object]]] = [
            ("config", config),
            ("provider", () if provider is None else (provider,)),
            ("extension", extensions),
            ("tool", tools),
        ]
        found: list[tuple[Level, Contribution]] = [
            (level, each)
            for level, parties in levels
            for party in parties
            if (each := contribution_of(party)) is not None
        ]
        return cls(found, descriptors=descriptors)

    def without(self, name: str) -> ToolInteropRegistry:
        """Returns a registry without the contributions of this name; the built-in one stays.

        The descriptors go along, the memory of conversions does not.
        """
        kept = [pair for pair in self.contributions if pair[1] is not self._built_in and pair[1].name != name]
        return ToolInteropRegistry(kept, descriptors=self.descriptors, last_resort=self._last_resort)

    def __repr__(self) -> str:
        names = ", ".join(f"{level}: {contribution.name or 'unnamed'}" for level, contribution in self.contributions)
        return f"ToolInteropRegistry({names})"

    def __reduce_ex__(self, _: object) -> NoReturn:
        # pickle, copy and deepcopy all come to this method. A registry has functions, and the memory of one request.
        raise TypeError(
            "a ToolInteropRegistry belongs to one request and cannot be copied or stored: keep it in the request's "
            'context (context["tool_interop"]["registry"]), not in state or config'
        )

    def _used(self) -> None:
        """Warns if the registry of last resort is asked from outside where a request has its own."""
        if self._last_resort:
            _warn_if_bypassed()

    # -- schemas --

    def describe(self, plugin_name: str, schemas: Iterable[object]) -> list[ToolDescriptor]:
        """Returns descriptors of a plugin's schemas, which they keep as they are.

        Items that are not dicts are left out. A group of tools (``{"type": "namespace"}``) becomes a descriptor for
        each, whose schema is a group of that tool alone.

        Raises:
            ExportError: no accessor knows one of them.
        """
        self._used()
        given = _each(schemas)
        return [ToolDescriptor(plugin_name, self._schemas.inspect(schema).tool_name, schema) for schema in given]

    def inspect_schema(self, schema: Mapping[str, Any]) -> InspectedSchema:
        """Returns the meaning of a schema.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._schemas.inspect(schema)

    def knows_format(self, format: str) -> bool:
        """Returns whether schemas of this format can be read or written: it is built in, or contributed."""
        return self._schemas.knows(format)

    def convert_schema(
        self, schema: dict[str, Any], *, target: ToolInteropTarget | str, target_formats: Sequence[str] | None = None
    ) -> ConvertedSchema:
        """Converts one schema to a format that the target accepts, and lists the losses; see `convert_schemas`."""
        self._used()
        return self._schemas.convert(schema, _target(target), target_formats)

    def convert_schemas(
        self, schemas: Iterable[object], *, target: ToolInteropTarget | str, target_formats: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Converts tools for the target's request. The given schemas stay as they are.

        Args:
            schemas: source schemas of any known format. Items that are not dicts are left out; those in an accepted
                format go through untouched, as the same objects. A group of tools stays one where the wire has groups,
                else each of its tools stands alone, and the group's name is a part of the tool's.
            target: the wire that the request goes to. Parts of a schema that its provider refuses are rewritten, as
                `streamtools.exports` does; `inspect_call` knows the way back.
            target_formats: the formats that the request may have, preferred ones first; by default all that the wire
                accepts by itself.

        Raises:
            ExportError: a schema is of no known format, or cannot be written in any of these; or two tools would be
                called by one name.
        """
        self._used()
        to = _target(target)
        converted = [self._schemas.convert(schema, to, target_formats) for schema in _each(schemas)]
        # Whoever knows the name that a tool gets could otherwise take its calls with a tool of that name.
        named: dict[str, str] = {}
        for found in converted:
            if found.inspected.kind != "built_in":
                own = found.inspected.tool_name
                name = self._memory.name_on(to.wire, own)
                if named.setdefault(name, own) != own:
                    raise ExportError(f"the tools {named[name]!r} and {own!r} would both be called {name!r} by {to}")
        group, entries = namespace_format(to.wire), [found.schema for found in converted]
        return entries if group is None else group.joined(entries)

    # -- calls --

    def inspect_call(self, call: Mapping[str, Any]) -> InspectedCall:
        """Returns a call's tool, its id, and its payload as that tool takes it.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._calls.inspect(call)

    def convert_tool_calls(
        self,
        calls: Iterable[object],
        *,
        target: ToolInteropTarget | str,
        target_formats: Sequence[str] | None = None,
        id_seed: str = "",
    ) -> list[dict[str, Any]]:
        """Converts calls for the target's history.

        Args:
            calls: calls of any known format. Items that are not dicts are left out; those in an accepted format go
                through untouched. A raw call stays raw where the target has custom calls, and is wrapped as
                ``{"input": "..."}`` where it has not; a call that was wrapped so is unwrapped again.
            target: the wire whose history they are for. Ids stay as they are (`streamtools.history.repair` fits them).
            target_formats: the formats that may occur there; by default all that the wire has.
            id_seed: makes the ids of this turn differ from those of another (a response's id), where calls have no id
                and the target needs one.

        Returns:
            The calls; one whose arguments are corrupt is a `SanitizedCall`, with empty ones.

        Raises:
            ExportError: a call is of no known format, or cannot be written in any of these.
        """
        self._used()
        to = _target(target)
        wanted = target_formats or to.formats()
        given = [call for call in calls if isinstance(call, dict)]
        return [self._calls.convert(call, to.wire, wanted, seed=f"{id_seed}\0{at}") for at, call in enumerate(given)]

    def sanitize_tool_call(self, call: dict[str, Any], *, complete: bool = True) -> dict[str, Any]:
        """Returns a call as it may stand in a history: corrupt arguments become empty ones.

        Args:
            call: a call of any known format, which is not changed. One that no accessor knows is returned as it is.
            complete: the turn came to its end. If not, a call without any arguments was cut before they began.

        Returns:
            The very call that was given, if there is nothing to do. Arguments that had a wrapping (a code fence, double
            encoding, nothing at all for no arguments) are written anew. Any other call becomes a `SanitizedCall`: it
            keeps the original arguments (`raw`), and this registry's `inspect_call` returns its problem and no payload,
            so that it is never run.
        """
        self._used()
        return self._calls.sanitize(call, complete=complete)

    def stored_tool_call(self, call: dict[str, Any], *, wire: str | None = None) -> dict[str, Any]:
        """Converts a call for a stored history (`assistant_message`), in the shape of chat completions.

        It has the tool's own name, and arguments as the tool takes them.

        Args:
            call: a call of any known format.
            wire: the wire of the call, where its format does not show it.

        Raises:
            ExportError: no accessor knows it, or it has no id.
        """
        self._used()
        return self._calls.convert(call, None, TARGET_FORMATS[STORED_WIRE], source_wire=wire)

    def name_on(self, tool_name: str, target: ToolInteropTarget | str) -> str:
        """Returns a tool's name for a target: its own, unless the target refuses that."""
        return self._memory.name_on(_target(target).wire, tool_name)

    # -- results --

    def inspect_result(self, result: Mapping[str, Any]) -> InspectedResult:
        """Returns the description of a result, be it a stored one (`format_tool_result`) or a provider's.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._results.inspect(result)

    def result_content(self, result: InspectedResult, wire: str) -> Any:
        """Returns a result's content in a wire's own shape; None where the wire writes text and blocks itself.

        A contributed adapter wrote it, or, for this very wire, the tool.
        """
        self._used()
        return self._results.content(result, wire)

    def convert_results(
        self, results: Iterable[object], *, target: ToolInteropTarget | str, target_formats: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Converts results for the target's native history: to a message, an item or a block each.

        Images that do not fit there follow in a message of their own.

        Args:
            results: stored or native ones. Items that are not dicts are left out. One that was written for another
                provider becomes its text, with placeholders; ``metadata.display`` is not sent.
            target: a wire, or ``mcp``.
            target_formats: the formats of calls that they answer; without one of custom calls, a freeform tool was
                called as a function.

        Raises:
            ExportError: a result is of no known format, or has no call id where one is needed.
        """
        self._used()
        wire = _target(target).wire
        found = [self._results.inspect(result) for result in results if isinstance(result, dict)]
        # The result has to be of the kind of its call, as it stands in that history: custom, or wrapped in a function.
        if target_formats and raw_formats().isdisjoint(target_formats):
            found = [replace(result, kind="function") for result in found]
        contents = [self._results.content(result, wire) for result in found]
        return render_results(found, wire, contents, lambda name: self._memory.name_on(wire, name))


@lru_cache(maxsize=1)
def _built_in(wires: tuple[Wire, ...]) -> Contribution:
    return Contribution(
        name="built-in",
        schema_accessors=schema_accessors(),
        schema_adapters=schema_adapters(),
        call_accessors=tuple(
            ToolCallAccessor(format.name, partial(inspected, format), format.replaced) for format in call_formats(wires)
        ),
        call_adapters=tuple(ToolCallAdapter(format.name, partial(written, format)) for format in call_formats(wires)),
        result_accessors=accessors_of(wires),
    )


def _each(schemas: Iterable[object]) -> list[dict[str, Any]]:
    """Returns the schemas of single tools, also of those in a group; items that are not dicts are left out."""
    return [one for schema in schemas if isinstance(schema, dict) for one in members(schema)]


def _target(target: ToolInteropTarget | str) -> ToolInteropTarget:
    return ToolInteropTarget(target) if isinstance(target, str) else target


# -- the registry of the request that a task is part of --


_IN_FORCE: ContextVar[Callable[[], object | None] | None] = ContextVar("tool_interop_registry", default=None)


def put_in_force(registry: object) -> None:
    """Notes that this task, and those that it starts, belong to a request with a registry of its own."""
    # Weakly: a task of the program outlives its requests, and a registry of one that is over is bypassed by nobody.
    _IN_FORCE.set(weakref.ref(registry))


def _warn_if_bypassed() -> None:
    in_force = _IN_FORCE.get()
    if in_force is not None and in_force() is not None:
        warnings.warn(
            "the default tool interop registry is used although this request has one of its own, so that what its "
            "provider and tools contribute is bypassed; use get_registry_from_context(context)",
            DefaultRegistryWarning,
            stacklevel=_frames_of_ours(),
        )


def _frames_of_ours() -> int:
    """Counts the frames up to the first caller outside this package, as `warnings.warn` counts them."""
    # So the warning shows the program's own line, at whatever depth of the registry it was asked for.
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, count = frame.f_back, count + 1
    return count
