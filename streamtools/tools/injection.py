"""Finds the parameters of a function that the program fills: the model neither sees them nor sets them.

    ctx: ToolContext, ctx: ToolContext[Deps]      the call, and with `.context` whatever the pipeline was given
    Annotated[str, InjectedToolCallId]            the call's id
    ctx: RunContextWrapper, RunContext, Context…  the pipeline's context itself, if that is such an object
    Annotated[dict, InjectedState], …             only its framework can fill it: its default, or the tool is refused

A framework's marker is known by the package and the name of its class, or of a base; nothing is imported for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, isclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from typing_extensions import TypeVar

from ..errors import ToolDefinitionError
from .context import ToolContext

__all__ = ["Injected", "injected_of", "mentions"]

Source: TypeAlias = Literal["call", "call_id", "context", "default"]
"""What fills a parameter: the `ToolContext`, the call's id, the pipeline's context, or the parameter's own default."""

_MARKERS: Mapping[tuple[str, str], Source] = {
    ("langchain_core", "InjectedToolCallId"): "call_id",
    ("langchain_core", "InjectedToolArg"): "default",  # LangGraph's InjectedState and InjectedStore are such, too
    ("langgraph", "InjectedState"): "default",
    ("langgraph", "InjectedStore"): "default",
    ("langchain_core", "RunnableConfig"): "context",
    ("langgraph", "ToolRuntime"): "context",
    ("langchain", "ToolRuntime"): "context",
    ("agents", "RunContextWrapper"): "context",
    ("pydantic_ai", "RunContext"): "context",
    ("strands", "ToolContext"): "context",
    ("strands", "Agent"): "context",
    ("mcp", "Context"): "context",
    ("fastmcp", "Context"): "context",
    ("google", "ToolContext"): "context",  # Google's Agent Development Kit
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """A parameter that the program fills."""

    source: Source
    wants: str
    """The type, as its author wrote it."""
    marker: tuple[str, str] | None = None
    """The package and class of the object that a ``context`` parameter wants."""
    type: Any = None
    """``Deps`` of ``ToolContext[Deps]``; None where nothing is said of it."""
    default: Any = Parameter.empty

    @property
    def needs_context(self) -> bool:
        """True if the parameter cannot do without the pipeline's context."""
        if self.source == "context":
            return self.default is Parameter.empty
        return self.type is not None and not _takes(self.type, None)

    def value(self, ctx: ToolContext) -> Any:
        """Returns the value for one run."""
        if self.source == "call":
            return ctx
        if self.source == "call_id":
            return ctx.call_id
        if self.source == "context" and self._fits(ctx.context):
            return ctx.context
        return self.default

    def problem(self, context: Any) -> str | None:
        """Returns why a pipeline with this context cannot fill the parameter, and what to write; None if it can."""
        if self.source == "context" and self.needs_context and not self._fits(context):
            given = "none was given" if context is None else f"context is a {type(context).__name__}"
            return f"wants a {self.wants}, and {given}; pass one as context=, or take a streamtools.ToolContext"
        if self.type is None or _takes(self.type, context):
            return None
        if context is None:
            return f"wants {self.wants}; pass its context with context=..."
        return f"wants {self.wants}, and context is a {type(context).__name__}"

    def _fits(self, context: Any) -> bool:
        return any(_named(kind) == self.marker for kind in type(context).__mro__)


def mentions(annotation: Any, kind: type) -> bool:
    """Returns whether a type is `kind`, one of its subclasses, or is made of one."""
    if any(isclass(one) and issubclass(one, kind) for one in (annotation, get_origin(annotation))):
        return True
    return any(mentions(part, kind) for part in get_args(annotation))


def injected_of(parameter: Parameter, tool: str) -> Injected | None:
    """Returns how a parameter is filled; None if the model sets it.

    Raises:
        ToolDefinitionError: a marker stands among other things, or nothing here can fill the parameter.
    """
    annotation = parameter.annotation
    if mentions(annotation, ToolContext):
        return _context(parameter, tool)
    found = _marker(annotation)
    if found is None:
        if (inside := _marker_within(annotation)) is not None:
            raise _refused(tool, parameter.name, f"{inside[1]} must be the parameter's whole type")
        return None
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        raise _refused(tool, parameter.name, f"{found[1]} must be the type of one parameter")
    source = _MARKERS[found]
    if source == "default" and parameter.default is Parameter.empty:
        framework = {"langgraph": "LangGraph", "langchain_core": "LangChain"}.get(found[0], found[0])
        why = f"is filled by {framework} alone; take a streamtools.ToolContext, and give the pipeline a context="
        raise _refused(tool, parameter.name, why)
    return Injected(source=source, wants=found[1], marker=found, default=parameter.default)


def _context(parameter: Parameter, tool: str) -> Injected:
    kinds = [kind for kind in _alternatives(parameter.annotation) if kind is not NoneType]
    single = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    if not single or not all(mentions(get_origin(kind) or kind, ToolContext) for kind in kinds):
        raise _refused(tool, parameter.name, "ToolContext must be the parameter's whole type")
    typed = [arg for kind in kinds for arg in get_args(kind)]
    wanted = typed[0] if typed and not isinstance(typed[0], TypeVar) else None
    name = f"ToolContext[{getattr(wanted, '__name__', wanted)}]" if wanted is not None else "ToolContext"
    return Injected(source="call", wants=name, type=wanted)


def _alternatives(annotation: Any) -> list[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin is Union or origin is UnionType:
        return [kind for member in get_args(annotation) for kind in _alternatives(member)]
    return [annotation]


def _marker(annotation: Any) -> tuple[str, str] | None:
    """Returns the marker that a parameter's type is, has beside it, or is with None; None if there is no marker."""
    beside = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    for one in beside:
        if (found := _known(one if isclass(one) else type(one))) is not None:
            return found
    for kind in _alternatives(annotation):
        if (found := _known(get_origin(kind) or kind)) is not None and kind is not annotation:
            return found if all(other in (kind, NoneType) for other in _alternatives(annotation)) else None
    return _known(get_origin(annotation) or annotation)


def _marker_within(annotation: Any) -> tuple[str, str] | None:
    """Returns a marker somewhere inside of a type, where nothing would fill it."""
    for part in get_args(annotation):
        if isinstance(part, list):  # the parameters of a Callable
            part = Union[tuple(part)] if part else None  # noqa: UP007
        found = _known(get_origin(part) or part) or _marker(part) or _marker_within(part)
        if found is not None:
            return found
    return None


def _known(kind: Any) -> tuple[str, str] | None:
    if not isclass(kind):
        return None
    return next((name for base in kind.__mro__ if (name := _named(base)) in _MARKERS), None)


def _named(kind: type) -> tuple[str, str]:
    return kind.__module__.partition(".")[0], kind.__name__


def _takes(wanted: Any, context: Any) -> bool:
    """Returns whether a context may be of this type; True where Python cannot tell."""
    for kind in _alternatives(wanted):
        kind = get_origin(kind) or kind
        if kind in (Any, object) or not isclass(kind):
            return True
        try:
            if isinstance(context, kind):
                return True
        except TypeError:  # a protocol that is not checked at run time
            return True
    return False


def _refused(tool: str, parameter: str, why: str) -> ToolDefinitionError:
    return ToolDefinitionError(f"tool {tool!r}, parameter {parameter!r}: {why}", tool=tool, parameter=parameter)
