"""Reads the functions that become tools: name, parameters with their types resolved, descriptions, how to call them."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, isclass
from types import CoroutineType, FrameType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import TypeVar

from ..errors import ToolDefinitionError
from ..schema.names import TOOL_NAMES
from .context import ToolContext

_INSTEAD_OF_GENERATOR = (
    "; make it an async generator, whose values are progress up to `yield FinalResult(value)`, or write a function "
    "that returns the result, and report progress by ctx.progress(value), where ctx is a parameter annotated with "
    "ToolContext"
)

_INSTEAD_OF: Mapping[type, str] = {
    str: ", and options by their names: @tool(name='...')",
    dict: " or the tool itself, and put the result of .to(...) into the request; make a tool from your own schema by "
    "Tool.from_schema(function, schema)",
    CoroutineType: " itself, without calling it",
    list: ", and the tools of a list one by one: tools=[*these, that]",
}


def refuse(tool: str, why: str, parameter: str | None = None) -> ToolDefinitionError:
    where = f"tool {tool!r}" if parameter is None else f"tool {tool!r}, parameter {parameter!r}"
    return ToolDefinitionError(f"{where}: {why}", tool=tool, parameter=parameter)


def as_function(target: object) -> Callable[..., Any]:
    if isinstance(target, staticmethod):
        return as_function(target.__func__)
    name = _own_name(inner_function(target))
    if isinstance(target, classmethod):
        raise refuse(name, "is an unbound classmethod; make the tool outside the class: tool(Class.method)")
    if isinstance(target, type):
        raise refuse(name, "is a class; pass a function, or an object that can be called")
    if not callable(target):
        instead = ", or its .tool" if hasattr(target, "tool") else _INSTEAD_OF.get(type(target), "")
        raise refuse(name, f"is not callable; pass a function{instead}")
    inner = called_function(target)
    # Its call returns at once, and none of its body runs: the model would read of a generator object.
    if inspect.isgeneratorfunction(inner):
        raise refuse(name, "is a generator" + _INSTEAD_OF_GENERATOR)
    return target


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Returns whether a function can be called with so many arguments; True if it has no signature."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some of Python's own
        return True
    return True


def inner_function(target: Any) -> Any:
    """Returns the function with name, docstring and annotations: behind a partial, in a wrapper, or ``__call__``."""
    called = called_function(target)
    wrapped = inspect.unwrap(target) if called is not target and callable(target) else target
    return wrapped if inspect.isfunction(wrapped) else called


def called_function(target: Any) -> Any:
    """Returns the function whose body runs: behind a partial, or an object's ``__call__``."""
    while isinstance(target, functools.partial):
        target = target.func
    is_object = callable(target) and not inspect.isroutine(target) and not isinstance(target, type)
    return target.__call__ if is_object else target


def _own_name(inner: Any) -> str:
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return type(inner.__self__).__name__ if name == "__call__" else name


def checked_name(target: Callable[..., Any], name: str | None) -> str:
    if name is None:
        name = _own_name(inner_function(target))
    # A provider refuses the whole request for one name that it does not accept.
    if not isinstance(name, str) or not TOOL_NAMES.accepts(name):
        rule = "a name is 1 to 64 letters, digits, '_', '.' or '-', and starts with a letter or '_'"
        raise refuse(str(name), f"{rule}; pass tool(..., name='...')")
    return name


def returned_by(target: Callable[..., Any]) -> Any:
    inner = inspect.unwrap(inner_function(target))
    annotation = getattr(inner, "__annotations__", {}).get("return", inspect.Parameter.empty)
    if annotation is inspect.Parameter.empty:
        return annotation
    try:
        return _as_type(annotation, _namespace(inner))
    except Exception:  # the annotation is code of the user's, and only tools with outputs need it
        return inspect.Parameter.empty


def parameters_of(target: Callable[..., Any], tool: str, *, require_hints: bool) -> list[inspect.Parameter]:
    inner = inner_function(target)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError, NameError) as error:
        raise refuse(tool, f"has no signature to read ({error})") from error
    # What a partial has bound is settled, and may be a secret: the model neither sees nor sets it.
    bound = target.keywords if isinstance(target, functools.partial) else {}
    parameters = [p for p in signature.parameters.values() if p.name not in bound]
    if require_hints:
        _require_hints(parameters, signature, tool)
    namespace = _namespace(inspect.unwrap(inner))
    return [p.replace(annotation=_resolved(p, namespace, tool)) for p in parameters]


def reserved_names(target: Any) -> frozenset[str]:
    """Returns the names that an entry of ``**kwargs`` may not have: those of all parameters, and of bound arguments."""
    # Also of `self`, of injected parameters, and of those of wrappers: the model chooses the keys, and Python would
    # pass the value to the parameter of that name, wherever it stands.
    if isinstance(target, functools.partial):
        return frozenset(target.keywords) | reserved_names(target.func)
    names: set[str] = set()
    waiting = [called_function(target), inspect.unwrap(target)]
    while waiting:
        function = waiting.pop()
        if inspect.ismethod(function):
            waiting.append(function.__func__)
            continue
        if hasattr(function, "__wrapped__"):
            waiting.append(function.__wrapped__)
        names.update(_names_of(function))
    return frozenset(names)


def _names_of(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # written in C (`functools.lru_cache`), which takes what the wrapped one takes
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _require_hints(parameters: list[inspect.Parameter], signature: inspect.Signature, tool: str) -> None:
    for position, parameter in enumerate(parameters):
        if parameter.annotation is not parameter.empty:
            continue
        if position == 0 and parameter.name in ("self", "cls"):
            raise refuse(tool, "is a method; make the tool from an instance: tool(instance.method)", parameter.name)
        one = f"{parameter.name}: ToolContext" if parameter.name in ("ctx", "context") else "one"
        text = f"has no type hint; add {one}, or accept any value with tool(..., require_hints=False)"
        raise refuse(tool, text, parameter.name)
    if signature.return_annotation is signature.empty:
        raise refuse(tool, "has no return annotation; add one (-> None if it returns nothing)")


def class_body_of(function: Any) -> Mapping[str, Any] | None:
    """Returns the names of the class body that the function is being defined in; None outside of one."""
    enclosing, _, _ = str(getattr(function, "__qualname__", "")).rpartition(".")
    if not enclosing or enclosing.endswith("<locals>"):
        return None
    return next((names for names in _frames(enclosing) if names.get("__qualname__") == enclosing), None)


def _namespace(function: Any) -> dict[str, Any]:
    # Those of its module, and those of the functions and the class body that it is being defined in: these still run,
    # so that their frames have the names, which a decorator in a test or a factory needs.
    found: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    *scopes, _ = str(getattr(function, "__qualname__", "")).split(".")
    for depth in range(1, len(scopes) + 1):
        if scopes[depth - 1] != "<locals>":
            found.update(next(_frames(".".join(scopes[:depth])), {}))
    found.update((param.__name__, param) for param in getattr(function, "__type_params__", ()))
    return found


def _frames(qualname: str) -> Iterator[Mapping[str, Any]]:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_qualname == qualname:
            yield frame.f_locals
        frame = frame.f_back


def _resolved(parameter: inspect.Parameter, namespace: dict[str, Any], tool: str) -> Any:
    if parameter.annotation is parameter.empty:
        return parameter.empty
    try:  # each alone, so that the error can name the parameter
        return _as_type(parameter.annotation, namespace)
    except Exception as error:  # the annotation is code of the user's
        why = f"its annotation {parameter.annotation!r} cannot be resolved ({error})"
        hint = "it must exist at run time, so do not import it under `if TYPE_CHECKING:`"
        raise refuse(tool, f"{why}; {hint}", parameter.name) from error


def _as_type(annotation: Any, namespace: dict[str, Any]) -> Any:
    # `get_type_hints` reads no bare annotation, so a function carries it: that evaluates texts, also inside of others,
    # and with `include_extras` keeps the `Annotated` of descriptions and constraints.
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return get_type_hints(holder, namespace, include_extras=True)["it"]


# -- calling a function with values by name --

# `*args` takes a list under its own name and `**kwargs` a dict, so that no position can shift, and no key can take the
# place of a parameter.

NO_VALUES: Mapping[str, Any] = {}
RESERVED = "is a parameter of the tool itself, and cannot be set here"
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    open: tuple[Parameter, ...]
    """Parameters that a caller fills, annotations resolved; neither injected nor bound by a `functools.partial`."""
    injected: Mapping[str, Injected]
    positional: tuple[str, ...]  # parameters to pass by position, injected ones included
    defaults: Mapping[str, Any]
    var_positional: str | None
    var_keyword: str | None
    reserved: frozenset[str]  # names that an entry of ``**kwargs`` may not have

    @classmethod
    def of(cls, function: Callable[..., Any], parameters: Sequence[Parameter], tool: str) -> Placement:
        found = ((p.name, injected_of(p, tool)) for p in parameters)
        injected = {name: one for name, one in found if one is not None}
        kinds = {p.kind: p.name for p in parameters}
        # *args can only follow parameters that are passed by position.
        last = Parameter.POSITIONAL_OR_KEYWORD if Parameter.VAR_POSITIONAL in kinds else Parameter.POSITIONAL_ONLY
        positional = [p for p in parameters if p.kind <= last]
        return cls(
            open=tuple(p for p in parameters if p.name not in injected),
            injected=injected,
            positional=tuple(p.name for p in positional),
            defaults={p.name: p.default for p in positional if p.name not in injected and p.default is not p.empty},
            var_positional=kinds.get(Parameter.VAR_POSITIONAL),
            var_keyword=kinds.get(Parameter.VAR_KEYWORD),
            reserved=reserved_names(function),
        )

    @property
    def named(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.open if p.kind not in _VARIABLE)

    def only(self, tool: str, why: str) -> Parameter:
        if len(self.open) != 1 or len(self.named) != 1:
            raise refuse(tool, f"{why}; this has: {', '.join(p.name for p in self.open) or 'none'}")
        return self.named[0]

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self.positional and self.var_positional is None and self.var_keyword is None:
            return (), {**values, **injected} if injected else values
        # With defaults: by position, a later value must not take the place of one that is left out.
        named = {**self.defaults, **values, **injected} if self.positional else {**values, **injected}
        args = [named.pop(name) for name in self.positional if name in named]
        if self.var_positional is not None:
            args.extend(named.pop(self.var_positional))
        if self.var_keyword is not None:
            named.update(named.pop(self.var_keyword, NO_VALUES))
        return tuple(args), named

    def clashes(self, keys: Iterable[str]) -> list[str]:
        # They could set an injected parameter, or one that a partial has bound.
        return [key for key in keys if key in self.reserved]


# -- parameters that the program fills --

# The model neither sees nor sets them:
#
#     ctx: ToolContext, ctx: ToolContext[Deps]      the call, and with `.context` whatever the pipeline was given
#     Annotated[str, InjectedToolCallId]            the call's id
#     ctx: RunContextWrapper, RunContext, Context…  the pipeline's context itself, if that is such an object
#     Annotated[dict, InjectedState], …             only its framework can fill it: its default, or the tool is refused
#
# A framework's marker is known by the package and the name of its class, or of a base; nothing is imported for it.

Source: TypeAlias = Literal["call", "call_id", "context", "default"]
"""The source of a parameter's value: the `ToolContext`, the call's id, the pipeline's context, or its own default."""

_MARKERS: Mapping[tuple[str, str], Source] = {
    ("langchain_core", "InjectedToolCallId"): "call_id",
    ("langchain_core", "InjectedToolArg"): "default",  # LangGraph's InjectedState and InjectedStore are such, too
    **dict.fromkeys((("langgraph", "InjectedState"), ("langgraph", "InjectedStore")), "default"),
    **dict.fromkeys((
        ("langchain_core", "RunnableConfig"), ("langgraph", "ToolRuntime"), ("langchain", "ToolRuntime"),
        ("agents", "RunContextWrapper"), ("pydantic_ai", "RunContext"), ("strands", "ToolContext"),
        ("strands", "Agent"), ("mcp", "Context"), ("fastmcp", "Context"),
        ("agno", "RunContext"), ("agno", "Agent"), ("agno", "Team"),
        ("google", "ToolContext"),  # Google's Agent Development Kit
        ("workflows", "Context"), ("llama_index", "Context"),  # llama-index
        ("agent_framework", "FunctionInvocationContext"), ("agent_framework", "AgentContext"),
        ("agent_framework", "AgentSession"),
    ), "context"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """Fills a parameter that the model neither sees nor sets."""

    source: Source
    wants: str  # the type, as its author wrote it
    marker: tuple[str, str] | None = None  # the package and class of the object that a `context` parameter wants
    type: Any = None  # ``Deps`` of ``ToolContext[Deps]``; None for a bare ``ToolContext``
    default: Any = Parameter.empty

    @property
    def needs_context(self) -> bool:
        if self.source == "context":
            return self.default is Parameter.empty
        return self.type is not None and not _accepts(self.type, None)

    def value(self, ctx: ToolContext) -> Any:
        if self.source == "call":
            return ctx
        if self.source == "call_id":
            return ctx.call_id
        if self.source == "context" and self._fits(ctx.context):
            return ctx.context
        return self.default

    def problem(self, context: Any) -> str | None:
        if self.source == "context" and self.needs_context and not self._fits(context):
            given = "none was given" if context is None else f"context is a {type(context).__name__}"
            return f"requires a {self.wants}, but {given}; pass one as context=, or take a streamtools.ToolContext"
        if self.type is None or _accepts(self.type, context):
            return None
        if context is None:
            return f"requires {self.wants}; pass its context with context=..."
        return f"requires {self.wants}, but context is a {type(context).__name__}"

    def _fits(self, context: Any) -> bool:
        return any(_named(kind) == self.marker for kind in type(context).__mro__)


def mentions(annotation: Any, kind: type) -> bool:
    if any(isclass(one) and issubclass(one, kind) for one in (annotation, get_origin(annotation))):
        return True
    return any(mentions(part, kind) for part in get_args(annotation))


def maker_of_growing(annotation: Any) -> Any:
    """Returns the function that makes a parameter grow, if its type says so: `streamtools.Growing`, anywhere in it."""
    maker = getattr(get_origin(annotation) or annotation, "__growing__", None)
    return maker or next(filter(None, map(maker_of_growing, get_args(annotation))), None)


def injected_of(parameter: Parameter, tool: str) -> Injected | None:
    """Returns how a parameter is filled; None if the model sets it. Refuses one that nothing here can fill."""
    annotation = parameter.annotation
    if mentions(annotation, ToolContext):
        return _context(parameter, tool)
    found = _marker(annotation)
    if found is None:
        # Inside of a type, as in `list[RunContext]`, nothing would fill it: the model would be asked for one.
        if (inside := _marker_within(annotation)) is not None:
            raise refuse(tool, f"{inside[1]} must be the parameter's whole type", parameter.name)
        return None
    if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
        raise refuse(tool, f"{found[1]} must be the type of one parameter", parameter.name)
    source = _MARKERS[found]
    if source == "default" and parameter.default is Parameter.empty:
        framework = {"langgraph": "LangGraph", "langchain_core": "LangChain"}.get(found[0], found[0])
        why = f"can only be filled by {framework}; take a streamtools.ToolContext, and pass context= to the pipeline"
        raise refuse(tool, why, parameter.name)
    return Injected(source=source, wants=found[1], marker=found, default=parameter.default)


def _context(parameter: Parameter, tool: str) -> Injected:
    kinds = [kind for kind in _alternatives(parameter.annotation) if kind is not NoneType]
    single = parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    if not single or not all(mentions(get_origin(kind) or kind, ToolContext) for kind in kinds):
        raise refuse(tool, "ToolContext must be the parameter's whole type", parameter.name)
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
    metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    for one in metadata:
        if (found := _known(one if isclass(one) else type(one))) is not None:
            return found
    # `Context | None` is one; in `Context | str` the model would have to choose.
    for kind in _alternatives(annotation):
        if (found := _known(get_origin(kind) or kind)) is not None and kind is not annotation:
            return found if all(other in (kind, NoneType) for other in _alternatives(annotation)) else None
    return _known(get_origin(annotation) or annotation)


def _marker_within(annotation: Any) -> tuple[str, str] | None:
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


def _accepts(wanted: Any, context: Any) -> bool:
    """Returns whether a context may be of this type; True where Python cannot know."""
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


# -- descriptions --

# Google, NumPy, Sphinx and epytext, also mixed in one text. The prose becomes the tool's description, the sections
# about parameters become theirs. Sections about results and errors are left out, since the model calls and does not
# program; any other section (`Note:`, `Example:`) is prose and stays.
#
# One pass over the lines, linear in the text. A line opens a section (a known word and a colon, a known word underlined
# with dashes, `:param x:`, `@param x:`), continues the open one, or, by its indentation, ends it. A title in place of
# an item (`Note:` in `Args:`) also ends it, unless a parameter is called so. Lines go to `_into`: the prose, the
# parameters of the current item, or nowhere.


_PARAMETER_SECTIONS = frozenset({
    "args", "arguments", "params", "parameters", "keyword args", "keyword arguments", "other args", "other arguments",
    "other parameters",
})  # fmt: skip
_DROPPED_SECTIONS = frozenset(
    {"return", "returns", "yield", "yields", "receives", "raise", "raises", "except", "exceptions", "warns"}
)
_PROSE_SECTIONS = frozenset({
    "attention", "attributes", "caution", "danger", "error", "example", "examples", "hint", "important", "methods",
    "note", "notes", "references", "see also", "tip", "todo", "warning", "warnings",
})  # fmt: skip
_PARAMETER_FIELDS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "kwarg"})
_DROPPED_FIELDS = frozenset(
    {"type", "return", "returns", "rtype", "yield", "yields", "ytype", "raise", "raises", "except", "exception"}
)

# Possessive quantifiers (*+, ++) keep each match linear in the line.
_GOOGLE_ITEM = re.compile(r"[\\*]*+(\w++)\s*+(?:\(.*?\)\s*+)?:\s*+(.*)")  # x (int, optional): the x
_NUMPY_ITEM = re.compile(r"([\\*]*+\w++(?:\s*+,\s*+[\\*]*+\w++)*)\s*+(?::.*)?")  # x, y : int
_TITLE = re.compile(r"([A-Z]\w*+(?: \w++)?+)\s*+:\s*+(.*)")  # Note: it is slow
_FIELD = re.compile(r"[:@](\w++)(?:\s++([^:]*+))?:\s*+(.*)")  # :param int x: the x


@dataclass(frozen=True, slots=True)
class Docstring:
    description: str  # the prose, summary first
    parameters: dict[str, str]  # descriptions by parameter name, stars stripped; line breaks are as written


def parse_docstring(text: str, names: Container[str] = ()) -> Docstring:
    """Reads a docstring, indented or not; anything outside of known sections is prose. `names` are parameters, also
    those that are called like a section."""
    lines = inspect.cleandoc(text).split("\n")
    reader = _Reader(names)
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        reader.read(line, following)
    return reader.result()


class _Reader:
    def __init__(self, names: Container[str]) -> None:
        self._names = names
        self._prose: list[str] = []
        self._items: dict[str, list[str]] = {}
        self._into: list[list[str]] = [self._prose]
        self._style: Literal["prose", "google", "numpy", "field"] = "prose"
        self._has_items = False  # the open section lists parameters
        self._indent = 0  # of the line that opened the section
        self._margin = 0  # of the prose: that of the title that ended a section from inside
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
        # A line that is deeper than the section's head is content: `args:` may be the name of a parameter.
        elif (self._style != "prose" and indent > self._indent) or not self._opens(text, indent, following):
            self._continue(line, text, indent)
        self._after_blank = not text

    def result(self) -> Docstring:
        description = re.sub(r"\n{3,}", "\n\n", "\n".join(self._prose)).strip()
        items = {name: inspect.cleandoc("\n".join(lines)) for name, lines in self._items.items()}
        return Docstring(description, {name: text for name, text in items.items() if text})

    def _opens(self, text: str, indent: int, following: str) -> bool:
        # Three dashes below a line make it a title of NumPy's; below "Parameters", or below a section that stays prose.
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
        if self._style != "prose" and self._opens_inside(text, indent):
            return
        if self._style == "google" and self._has_items and self._google_item(text, indent):
            return
        if self._style == "numpy" and self._has_items and self._numpy_item(text, indent):
            return
        if self._ends_section(indent):
            self._back_to_prose()
        self._append(line[min(indent, self._margin) :])

    def _opens_inside(self, text: str, indent: int) -> bool:
        deepest = self._indent if self._item_indent is None or self._style != "google" else self._item_indent
        is_first = self._style == "google" and self._has_items and self._item_indent is None
        found = _TITLE.fullmatch(text) if indent <= deepest or is_first else None
        if found is None or found[1] in self._names:
            return False
        title = found[1].lower()
        if title in _PROSE_SECTIONS:
            self._back_to_prose(indent)
            self._append(text)
            return True
        return (title in _DROPPED_SECTIONS or not found[2]) and self._open_section("google", title, indent)

    def _google_item(self, text: str, indent: int) -> bool:
        if self._item_indent is None:
            self._item_indent = indent
        item = _GOOGLE_ITEM.fullmatch(text) if self._indent < indent <= self._item_indent else None
        if item is not None:
            self._start_item([item[1]], item[2])
        return item is not None

    def _numpy_item(self, text: str, indent: int) -> bool:
        # `x, y : int` names two parameters, which share the description.
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

    def _back_to_prose(self, margin: int = 0) -> None:
        self._style, self._margin = "prose", margin
        self._into = [self._prose]
        self._append("")

    def _append(self, line: str) -> None:
        for lines in self._into:
            lines.append(line)
