"""Defines `ToolInteropRegistry`: reads foreign schemas, calls and results, and writes them for another provider."""

from __future__ import annotations

import hashlib
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NoReturn, TypeVar

from ..errors import ExportError
from ..wires import WIRES, Wire, find, known
from .calls import SanitizedCall, inspected, inspected_result, render_results, written
from .contributions import (
    LEVELS,
    Accessor,
    Adapter,
    Contribution,
    InspectedCall,
    InspectedResult,
    InspectedSchema,
    Level,
    ToolCallAccessor,
    contribution_of,
)
from .formats import (
    BUILT_IN,
    STORED_WIRE,
    TARGET_FORMATS,
    TOOL_RESULT,
    ToolInteropTarget,
    call_formats,
    entry_of,
    raw_formats,
)
from .schemas import (
    Memory,
    SchemaWriter,
    alike,
    members,
    namespace_format,
    require_shallow,
    schema_accessors,
    schema_adapters,
)

W = TypeVar("W")


class DefaultRegistryWarning(UserWarning):
    """Warns that the default registry is used although the request has its own."""


@dataclass(frozen=True, slots=True)
class ToolDescriptor:
    """A tool's name with its source schema, which no conversion changes."""

    plugin_name: str
    tool_name: str
    schema: Mapping[str, Any] = field(repr=False)


class ToolInteropRegistry:
    """Reads and writes foreign formats by accessors and adapters in order of precedence.

    Build one for each request with `of`.

    Args:
        contributions: with the level of each; within a level the first wins. The built-in one always comes last.
        descriptors: the request's tools, so that calls of freeform tools are known before any schema is converted.
        last_resort: the registry belongs to no request: it remembers nothing, and warns where a request has its own.

    Raises:
        TypeError: a descriptor is not a `ToolDescriptor`.
        ExportError: no accessor knows the schema of a descriptor.
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
        self._memory = Memory(keeps=not last_resort)
        self._last_resort = last_resort
        self._schemas, self._calls, self._results = (_Flow(own, what) for what in ("schema", "call", "result"))
        self._inputs = {tool: text for one in reversed(own) for tool, text in one.input_descriptions.items()}
        for descriptor in self.descriptors:
            if not isinstance(descriptor, ToolDescriptor):
                raise TypeError(
                    "descriptors: expected ToolDescriptor(plugin_name, tool_name, schema), got "
                    f"{type(descriptor).__name__}; registry.describe(plugin_name, schemas) makes them of schemas"
                )
            self._memory.note_schema(self._meaning(descriptor.schema))

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
        own: Iterable[object] = () if provider is None else (provider,)
        found: list[tuple[Level, Contribution]] = [
            (level, each)
            for level, parties in zip(LEVELS, (config, own, extensions, tools), strict=False)
            for party in parties
            if (each := contribution_of(party)) is not None
        ]
        return cls(found, descriptors=descriptors)

    def without(self, name: str) -> ToolInteropRegistry:
        """Returns a registry without the contributions of this name.

        The built-in one and the descriptors stay; the memory of conversions does not.
        """
        kept = [pair for pair in self.contributions if pair[1] is not self._built_in and pair[1].name != name]
        return ToolInteropRegistry(kept, descriptors=self.descriptors, last_resort=self._last_resort)

    def __repr__(self) -> str:
        names = ", ".join(f"{level}: {contribution.name or 'unnamed'}" for level, contribution in self.contributions)
        return f"ToolInteropRegistry({names})"

    def __reduce_ex__(self, _: object) -> NoReturn:
        # pickle, copy and deepcopy all come to this method. A registry has functions, and the memory of one request.
        raise TypeError(
            "a ToolInteropRegistry belongs to one request and cannot be copied or stored; keep it in the request's "
            'context (context["tool_interop"]["registry"]), not in state or config'
        )

    # -- schemas --

    def describe(self, plugin_name: str, schemas: Iterable[object]) -> list[ToolDescriptor]:
        """Returns descriptors of a plugin's schemas, which stay unchanged.

        Items that are not dicts are left out. A group of tools (``{"type": "namespace"}``) becomes one descriptor per
        tool, whose schema is a group of that tool alone.

        Raises:
            ExportError: no accessor knows one of them.
        """
        self._used()
        return [ToolDescriptor(plugin_name, self._meaning(schema).tool_name, schema) for schema in _each(schemas)]

    def inspect_schema(self, schema: Mapping[str, Any]) -> InspectedSchema:
        """Returns the meaning of a schema.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._meaning(schema)

    def _meaning(self, schema: Mapping[str, Any]) -> InspectedSchema:
        if (count := len(members(dict(schema)))) != 1:
            raise ExportError(f"expected the schema of one tool, got {count}; use registry.describe(...) first")
        found: InspectedSchema = self._schemas.read(schema)[0]
        described = self._inputs.get(found.tool_name)
        return found if described is None else replace(found, input_description=described)

    def knows_format(self, format: str) -> bool:
        """Returns whether schemas of this format can be read or written: the format is built in or contributed."""
        return self._schemas.knows(format) or self._schemas.knows(entry_of(format)) or format.endswith(BUILT_IN)

    def convert_schemas(
        self, schemas: Iterable[object], *, target: ToolInteropTarget | str, target_formats: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Converts tools for the target's request. The source schemas are not changed.

        Args:
            schemas: source schemas of any known format. Items that are not dicts are left out; those in an accepted
                format are returned as the same objects. A group of tools stays a group where the wire has groups;
                otherwise its tools become separate, with the group's name as part of theirs.
            target: the wire of the request. Parts of a schema that its provider refuses are rewritten, as by
                `streamtools.exports`; `inspect_call` translates calls back.
            target_formats: the formats that the request may contain, preferred ones first; by default all that the wire
                accepts by itself.

        Raises:
            ExportError: a schema has no known format, or cannot be written in any of these; or two tools would get the
                same name.
        """
        self._used()
        to = _target(target)
        entries, named = list[dict[str, Any]](), dict[str, str]()
        for schema in _each(schemas):
            found = self._meaning(schema)
            entries.append(self._converted(found, schema, to, target_formats))
            own = found.tool_name
            name = self._memory.name_on(to.wire, own)
            # Whoever knows the name that a tool gets could otherwise take its calls with a tool of that name.
            if found.kind != "built_in" and named.setdefault(name, own) != own:
                raise ExportError(f"the tools {named[name]!r} and {own!r} would both get the name {name!r} for {to}")
        group = namespace_format(to.wire)
        return entries if group is None else group.joined(entries)

    def _converted(
        self,
        found: InspectedSchema,
        schema: dict[str, Any],
        target: ToolInteropTarget,
        target_formats: Sequence[str] | None,
    ) -> dict[str, Any]:
        formats = target_formats or target.formats()
        self._memory.note_schema(found)
        wanted = list(dict.fromkeys(each if self._schemas.knows(each) else entry_of(each) for each in formats))
        # The very object, if it may go as it is: its author may have used fields that no description has.
        # In its group only where the target has groups.
        keeps_group = found.namespace is None or namespace_format(target.wire) is not None
        if (keeps_group and self._is_accepted(found, wanted)) or _is_run_by(found, target):
            return schema
        return self._schemas.write(
            found.tool_name, found.format, wanted, found.kind == "custom", partial(self._written, found, target)
        )

    def _is_accepted(self, found: InspectedSchema, wanted: Sequence[str]) -> bool:
        # An entry may be of two formats: those of Gemini's Interactions are of the Responses API, too, where they have
        # no `strict`.
        own, others = self._schemas.accessors, () if found.kind == "built_in" else alike(found.format)
        twins = (own[name] for name in wanted if name in others and name in own)
        return found.format in wanted or any(twin.inspect(found.source) is not None for twin in twins)

    def _written(
        self, found: InspectedSchema, target: ToolInteropTarget, adapter: Adapter[InspectedSchema]
    ) -> dict[str, Any]:
        require_shallow(found)
        own = adapter.adapt
        # Only our own writers need a schema that is fitted to the provider: a contributed adapter knows its wire.
        if isinstance(own, SchemaWriter) and (not own.format.freeform or found.namespace is not None):
            found = self._memory.fitted(found, target.wire, as_text=own.format.freeform)
        schema: dict[str, Any] = own(found)
        return schema

    # -- calls --

    def inspect_call(self, call: Mapping[str, Any]) -> InspectedCall:
        """Returns a call's tool, its id, and its payload in the tool's own form.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._asked(call)

    def _asked(self, call: Mapping[str, Any], wire: str | None = None) -> InspectedCall:
        found = self._memory.as_authored(self._calls.read(call)[0], wire)
        # A call whose arguments were emptied must never run: neither while its object lives, which says so, nor after
        # the provider's history has been read again, where only its id is left.
        if isinstance(call, SanitizedCall):
            return replace(found, payload=None, problem=call.problem)
        if self._memory.was_sanitized(found):
            return replace(found, payload=None, problem="sanitized")
        return found

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
            calls: calls of any known format. Items that are not dicts are left out; those in an accepted format stay
                unchanged. A raw call stays raw if the target has custom calls, and is otherwise wrapped as ``{"input":
                "..."}``; such a call is unwrapped again.
            target: the wire of the history. Ids stay unchanged (`streamtools.history.repair` fits them).
            target_formats: the allowed formats; by default all that the wire has.
            id_seed: such as a response's id; makes generated ids differ from those of other turns, where calls have no
                id and the target needs one.

        Returns:
            The calls; one with corrupt arguments is a `SanitizedCall`, with empty arguments.

        Raises:
            ExportError: a call has no known format, or cannot be written in any of these.
        """
        self._used()
        to = _target(target)
        wanted = target_formats or to.formats()
        given = [call for call in calls if isinstance(call, dict)]
        return [self._rewritten(call, to.wire, wanted, f"{id_seed}\0{at}", None) for at, call in enumerate(given)]

    def _rewritten(
        self, call: dict[str, Any], wire: str | None, wanted: Sequence[str], seed: str, source_wire: str | None
    ) -> dict[str, Any]:
        """Writes a call in one of the formats wanted; without a wire under the tool's own name and parameters."""
        found = self._asked(call, source_wire)
        name = found.tool_name if wire is None else self._memory.name_on(wire, found.tool_name)
        if found.payload_format in wanted and not self._wants_change(call, found, name, wire, wanted):
            return call if found.problem is None else self._sanitized(call, complete=True)
        # Gemini may omit ids, and MCP has none, where most other wires need one for the result.
        if found.call_id is None and wire is not None:
            found = replace(found, call_id=_made_up(found, seed))
        fits = wire is not None and name == found.tool_name and namespace_format(wire) is not None
        named = replace(found, tool_name=name, namespace=found.namespace if fits else None)
        made: dict[str, Any] = self._calls.write(
            name, found.payload_format, wanted, found.payload_kind == "raw", lambda adapter: adapter.adapt(named)
        )
        return made if found.problem is None else self._flagged(made, call, found)

    def _wants_change(
        self, call: Mapping[str, Any], found: InspectedCall, name: str, wire: str | None, wanted: Sequence[str]
    ) -> bool:
        """Returns whether a call of an accepted format has to be written anew: for its text, name or arguments."""
        return (
            # Raw text that stands in a function's call, for a history that may have custom calls.
            bool(found.payload_metadata.get("unwrapped") and not raw_formats().isdisjoint(wanted))
            or (wire is None and "decoded" in found.payload_metadata.get("normalizations", ()))
            # Without groups on the wire, the group's name becomes a part of the tool's.
            or (wire is not None and found.namespace is not None and namespace_format(wire) is None)
            or self._calls.read(call)[0].tool_name != name
        )

    def sanitize_tool_call(self, call: dict[str, Any], *, complete: bool = True) -> dict[str, Any]:
        """Returns a call that is fit for a history: corrupt arguments become empty ones.

        Args:
            call: a call of any known format, which is not changed. One that no accessor knows is returned unchanged.
            complete: the turn ended properly. If not, a call without arguments was cut before they began.

        Returns:
            The same object, if there is nothing to do. Wrapped arguments (a code fence, double encoding, an empty text
            for none) are written anew. Any other call becomes a `SanitizedCall`: it keeps the original arguments
            (`raw`), and this registry's `inspect_call` returns its problem and no payload, so that it never runs.
        """
        self._used()
        return self._sanitized(call, complete=complete)

    def _sanitized(self, call: dict[str, Any], *, complete: bool) -> dict[str, Any]:
        if isinstance(call, SanitizedCall):
            return call
        try:
            found, accessor = self._calls.read(call)
        except ExportError:
            return call  # of a format that nobody reads: it goes back as it is
        # In a turn that was cut, a call without arguments looks like one that was cut before they began.
        steps = found.payload_metadata.get("normalizations", ())
        if found.problem is None and (complete or "empty_arguments" not in steps):
            changed: dict[str, Any] = accessor.replace(call, found.payload) if steps else call
            return changed
        # `{}` is for the history alone. Run, it would be a call of a tool without required arguments.
        return self._flagged(accessor.replace(call, "" if found.payload_kind == "raw" else {}), call, found)

    def _flagged(self, clean: dict[str, Any], call: Mapping[str, Any], found: InspectedCall) -> SanitizedCall:
        raw = call.raw if isinstance(call, SanitizedCall) else found.payload_metadata.get("arguments_text")
        self._memory.note_sanitized(found.call_id)
        return SanitizedCall(clean, raw=raw, problem=found.problem or "incomplete_json")

    def stored_tool_call(self, call: dict[str, Any], *, wire: str | None = None) -> dict[str, Any]:
        """Converts a call for a stored history (`assistant_message`), in the shape of chat completions.

        It has the tool's own name, and arguments in the tool's own form.

        Args:
            call: a call of any known format.
            wire: the wire of the call, if its format does not show it.

        Raises:
            ExportError: no accessor knows it, or it has no id.
        """
        self._used()
        return self._rewritten(call, None, TARGET_FORMATS[STORED_WIRE], "", wire)

    def name_on(self, tool_name: str, target: ToolInteropTarget | str) -> str:
        """Returns a tool's name for a target: its own, unless the target refuses it."""
        return self._memory.name_on(_target(target).wire, tool_name)

    # -- results --

    def inspect_result(self, result: Mapping[str, Any]) -> InspectedResult:
        """Returns the description of a stored result (`format_tool_result`), or of one in a contributed format.

        Raises:
            ExportError: no accessor knows it.
        """
        self._used()
        return self._returned(result)

    def _returned(self, result: Mapping[str, Any]) -> InspectedResult:
        found: InspectedResult = self._results.read(result)[0]
        return replace(found, kind="custom") if self._memory.is_freeform(found.tool_name) else found

    def result_content(self, result: InspectedResult, wire: str) -> Any:
        """Returns a result's content in a wire's own shape, from a contributed adapter or, for this wire, from the
        tool; None where the wire writes text and blocks itself.
        """
        self._used()
        return self._content(result, wire)

    def _content(self, result: InspectedResult, wire: str) -> Any:
        adapter = self._results.adapter(result.format, wire)
        content = None if adapter is None else adapter.adapt(result)
        return result.native.get(wire) if content is None else content

    def convert_results(
        self, results: Iterable[object], *, target: ToolInteropTarget | str, target_formats: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Converts each result to a message, an item or a block of the target's history.

        Images that do not fit there follow in a separate message.

        Args:
            results: stored results. Items that are not dicts are left out. A result that was written for another
                provider becomes text, with placeholders; ``metadata.display`` is not sent.
            target: the wire.
            target_formats: the formats of their calls; without one for custom calls, a freeform tool was called as a
                function.

        Raises:
            ExportError: a result has no known format, or lacks a required call id.
        """
        self._used()
        wire = _target(target).wire
        found = [self._returned(result) for result in results if isinstance(result, dict)]
        # The result has to be of the kind of its call, as it stands in that history: custom, or wrapped in a function.
        if target_formats and raw_formats().isdisjoint(target_formats):
            found = [replace(result, kind="function") for result in found]
        contents = [self._content(result, wire) for result in found]
        return render_results(found, wire, contents, lambda name: self._memory.name_on(wire, name))

    def _used(self) -> None:
        """Warns if the registry of last resort is asked from outside where a request has its own."""
        in_force = _IN_FORCE.get() if self._last_resort else None
        if in_force is not None and in_force() is not None:
            warnings.warn(
                "the default tool interop registry is used although this request has its own, which bypasses the "
                "contributions of provider and tools; use get_registry_from_context(context)",
                DefaultRegistryWarning,
                stacklevel=_frames_of_ours(),
            )


class _Flow:
    """The accessors and adapters of schemas, calls or results, those that win first."""

    def __init__(self, contributions: Iterable[Contribution], what: str) -> None:
        self._what = what
        self.accessors: dict[str, Any] = {}
        self._adapters: dict[tuple[str | None, str], Adapter[Any]] = {}
        for one in contributions:
            for accessor in getattr(one, f"{what}_accessors"):
                self.accessors.setdefault(accessor.format, accessor)
            for adapter in getattr(one, f"{what}_adapters"):
                self._adapters.setdefault((adapter.source, adapter.format), adapter)

    def read(self, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Returns what the first accessor that recognises it says, and the accessor."""
        for accessor in self.accessors.values():
            if (found := accessor.inspect(given)) is not None:
                return found, accessor
        keys = ", ".join(sorted(str(key) for key in given)[:12]) or "none"
        raise ExportError(f"no accessor knows this {self._what} (its keys: {keys}); contribute one for its format")

    def knows(self, format: str) -> bool:
        return format in self.accessors or any(format == written for _, written in self._adapters)

    def adapter(self, source: str, format: str) -> Adapter[Any] | None:
        return self._adapters.get((source, format)) or self._adapters.get((None, format))

    def write(self, name: str, source: str, wanted: Sequence[str], raw: bool, write: Callable[[Adapter[Any]], W]) -> W:
        """Writes with the first adapter that can; if none can, the first one's reason is raised."""
        # Raw text stays raw, and an object an object, wherever one of the accepted formats allows it.
        raw_ones, problems = raw_formats(), list[ExportError]()
        for format in sorted(wanted, key=lambda format: (format in raw_ones) is not raw):
            if (adapter := self.adapter(source, format)) is not None:
                try:
                    return write(adapter)
                except ExportError as error:
                    # The next format may carry what this one cannot: an object, where this one is of raw text.
                    problems.append(error)
        if problems:
            raise problems[0]
        formats = " or ".join(wanted)
        raise ExportError(
            f"the {self._what} of {name!r} is {source}, and no adapter writes it as {formats}; contribute one"
        )


def _is_run_by(schema: InspectedSchema, target: ToolInteropTarget) -> bool:
    """Returns whether the target's provider runs this tool itself; raises an `ExportError` if another one does."""
    if schema.kind != "built_in":
        return False
    # No other provider has such a tool, so it is never translated.
    owner = schema.format.rpartition(".")[0]
    if owner != target.wire:
        raise ExportError(
            f"{schema.tool_name!r} is not a function; it seems to be a tool that its provider runs ({owner}), which "
            f"{target} cannot have"
        )
    return True


def _made_up(call: InspectedCall, seed: str) -> str:
    # A hash: the same history has the same ids each time that it is converted, and in every process.
    digest = hashlib.blake2b(f"{seed}\0{call.tool_name}".encode("utf-8", "replace"), digest_size=12)
    return f"call_{digest.hexdigest()}"


@lru_cache(maxsize=1)
def _built_in(wires: tuple[Wire, ...]) -> Contribution:
    formats = call_formats(wires)
    return Contribution(
        name="built-in",
        schema_accessors=schema_accessors(),
        schema_adapters=schema_adapters(),
        call_accessors=tuple(ToolCallAccessor(one.name, partial(inspected, one), one.replaced) for one in formats),
        call_adapters=tuple(Adapter(one.name, partial(written, one)) for one in formats),
        result_accessors=(Accessor(TOOL_RESULT, inspected_result),),
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


def _frames_of_ours() -> int:
    """Counts the frames up to the first caller outside this package, as `warnings.warn` counts them."""
    # So the warning shows the program's own line, at whatever depth of the registry it was asked for.
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, count = frame.f_back, count + 1
    return count
