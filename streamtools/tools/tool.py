"""Makes tools from functions: `tool`.

In a class body `@tool` makes a `ToolMethod`, which is a tool once there is an instance.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any, Unpack, overload

from typing_extensions import ParamSpec, TypeVar

from .callables import class_body_of, refuse
from .definition import FrameworkTool, Tool, of_framework, of_function, refuse_unknown
from .options import ToolKeywords, ToolOptions

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULTS = ToolOptions()


@overload
def tool(fn: Tool[P, R], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, R], /, **options: Unpack[ToolKeywords]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolKeywords]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Unpack[ToolKeywords]) -> Any:
    """Makes a tool from a function. Use it as a decorator, with or without arguments, or call it.

        @tool(effect="pure")
        async def get_weather(city: str, days: int = 1) -> Forecast:
            \"""Weather forecast for a city.

            Args:
                city: City name, as a person would write it.
                days: How many days ahead, 1 to 14.
            \"""

    Docstring, type hints and return annotation are required, so that a mistake shows here, not in production. The
    docstring (Google, NumPy, Sphinx or epytext) has the descriptions; ``Annotated[str, "text"]`` and pydantic's
    ``Field`` work, too. A parameter annotated with `ToolContext` is filled when the tool runs; the model neither sees
    nor sets it.

    On a method in a class body it works as well: ``instance.method`` is then the tool, and `tools_of` ``(instance)``
    lists them all. A tool that is passed without options is returned as it is.

    Args:
        fn: a sync or async function, bound method, `functools.partial` or object with ``__call__``; or an async
            generator function, whose values are progress up to its `streamtools.content.FinalResult`; or a tool of
            LangChain, openai-agents, pydantic-ai, smolagents or Strands.
        name: the tool's name; by default the function's.
        effect: what a second run of the same call does: ``pure``, ``idempotent`` or ``once``.
        needs_approval: True, and no call runs before somebody has approved it (`Pipeline.approve`); or a plain function
            of the validated arguments by name that says so for one call. If that function raises, the call fails.
        approvals: how many people have to approve such a call, each by another name (``approve(event, by="ann")``). One
            denial ends it.
        policy: asks about a call, or denies it, by the texts that its arguments come from: ``untrusted("to")`` or
            ``only_from_user("to")`` of `streamtools.provenance`, or a function; several as a list.
        trusted: the tool's results count as trusted for such policies: nobody but the program writes them.
        timeout: seconds that one run may take; None leaves it to ``Limits(tool_timeout=...)``.
        max_concurrency: how many calls of this tool may run at once; more wait.
        conflict_key: what a call works on: the name of an argument, or a function of the validated arguments by name.
            Calls with equal keys, of whatever tool, run one at a time and in call order; those of ``pure`` tools side
            by side. None as a key conflicts with nothing. Keep keys of different kinds apart:
            ``lambda arguments: ("order", arguments["id"])``.
        exclusive: a call of this tool runs alone: no other runs beside it, whatever the tool.
        trial: False keeps a ``pure`` call from being tried before it has ended, say since each run is dear; see the
            *trials* of `pipeline`.
        deferred: somebody else (a browser, a person, another service) answers the calls: the function is never called,
            and gives only name, text and signature. `AnswerRequested` shows a call, and `Pipeline.answer` hands in its
            result. True: when nothing else goes on, the run's iteration ends, and it may be left as ``suspended`` and
            resumed with the answers. ``wait``: the run waits for each answer, within the call's timeout.
        background: a call is answered at once, the run goes on, and the result comes later, in a message of the user's
            role. `agent_loop` does so; everybody else who runs the call waits for its result.
        idempotency_key: what must not happen twice, whichever call asks for it, say after a timeout and under another
            id: the names of arguments (``("to", "amount")``), or a function of the validated arguments by name that
            returns a plain value. The call's key is made of it. The pipeline's store answers a repetition from its
            record, and the model reads that it had been done already. For ``once`` tools.
        scope: where that must not happen twice: in one ``run``, in one ``conversation``, or ``forever``.
        middleware: an ``async def middleware(call, run)`` that is called in the place of each call, and whose value
            is the call's: ``return await run()``; see `streamtools.tools.Middleware`.
        retries: how often a run that raised or timed out is tried again; for ``pure`` and ``idempotent`` tools.
        retry_delay_s: seconds before the first retry, twice that before the next, and so on, 60 at most. The call keeps
            its place meanwhile.
        require_hints: False accepts parameters without a type hint (they take any value), and a missing return
            annotation.
        kind: ``custom`` makes a freeform tool, for providers that have those: the function takes one text, which the
            model writes as it is and not as JSON.
        grammar: what the text of a freeform tool has to match; makes it one.
        coerce: ``lax`` turns a value of another type into the wanted one where nothing is lost (``"1"`` for an
            integer), and the call's record says so; ``strict`` refuses the call.
        namespace: the group that the tool belongs to, by its name or as a `Namespace` with a description. The tool's
            name is then ``billing.get_eta``, so that another group may have a tool of the same name; providers that
            know namespaces are given the group, all others a name that they take.
        hints: more about the tool for a provider, as a `streamtools.content.RequestHints`: load it only when it is
            searched for, cache the request up to it, examples of its arguments.
        validator: judges the arguments beside their types: an object with a ``name``, which is in each record, and a
            method ``validate`` that returns a line for each problem. It sees the validated values by parameter name.
        check: a plain function of the validated arguments by name. Raising a ``ValueError`` or `ToolError`, or
            returning False, refuses the call as ``invalid``; it must not block, or change the values.
        output_schema: declares the results: a JSON Schema, a type that pydantic knows, or True for the return
            annotation. It is sent to providers with a field for it, and a result that does not fit fails its call with
            an `InvalidResult`: it reaches neither the model nor the program.
        commit: of a tool with a `Growing` parameter: a sync or async function that lets take effect what the body has
            prepared, once the call has ended well and may run. It is given those of the tool's parameters that it
            names, the growing one as a whole.
        abort: undoes what the body has prepared, where the call turns out to be cut, void or invalid, or where the
            body or `commit` raises. It is given those of the other parameters that it names.
        lazy: a function without parameters that returns the one to run, called at the first call of the tool, in its
            thread and within its timeout; `fn` then gives only name, text and signature.

    Raises:
        ToolDefinitionError: the function cannot be a tool; the message names the tool, the parameter and the way out.
        TypeError: there is no such option.
    """
    refuse_unknown("tool", options, ToolKeywords.__optional_keys__)
    chosen = ToolOptions(**options)

    def make(target: Callable[..., Any]) -> Any:
        return _make(target, chosen)

    return make if fn is None else make(fn)


def _make(target: Any, options: ToolOptions) -> Tool[..., Any] | ToolMethod:
    if isinstance(target, Tool):
        # Without options it is the tool already; options would be dropped without a word.
        if options == _DEFAULTS:
            return target
        raise refuse(target.name, "is a tool already; to make another of its function, pass tool.fn")
    if isinstance(target, ToolMethod):
        raise refuse(target.function.__name__, "is a method; make the tool from an instance: instance.method is one")
    # Strands' tools have `__get__`, which makes `inspect.isroutine` take them for functions.
    is_ours = inspect.isfunction(target) or inspect.ismethod(target) or inspect.isbuiltin(target)
    if not is_ours and (theirs := read_framework_tool(target)) is not None:
        return Tool(**of_framework(theirs, options))
    if is_method_in_class_body(target):
        return ToolMethod(target, lambda bound: Tool(**of_function(bound, options)))
    return Tool(**of_function(target, options))


# Readers of other frameworks' tools, by package and name of a class: no framework is imported to ask for its types.
framework_readers: dict[str, Callable[[Any], FrameworkTool]] = {}


def read_framework_tool(target: object) -> FrameworkTool | None:
    for kind in type(target).__mro__[:-1]:
        reader = framework_readers.get(f"{kind.__module__.partition('.')[0]}.{kind.__name__}")
        if reader is not None:
            return reader(target)
    return None


def is_method_in_class_body(target: object) -> bool:
    """Returns whether `target` is a method, or a ``classmethod`` object, whose class is being defined right now;
    refuses ``@tool`` below ``@classmethod``, where it would never see the class."""
    # A decorator sees a plain function, and no class yet: what runs around it is the body of the class, and the first
    # parameter is called `self`.
    function = target.__func__ if isinstance(target, classmethod) else target
    if not inspect.isfunction(function) or class_body_of(function) is None:
        return False
    first = next(iter(inspect.signature(function).parameters), None)
    if first == "cls" and not isinstance(target, classmethod):
        raise refuse(function.__name__, "is a classmethod; write @tool above @classmethod")
    return first == "self" or isinstance(target, classmethod)


class ToolMethod:
    """Becomes a `Tool` when it is read off an instance, or, if a classmethod, off the class too."""

    def __init__(self, method: Callable[..., Any] | classmethod[Any, Any, Any], make: Callable[[Any], Tool]) -> None:
        function = method.__func__ if isinstance(method, classmethod) else method
        functools.update_wrapper(self, function)
        self.of_class = isinstance(method, classmethod)
        """True if it belongs to the class: the tool exists without an instance."""
        self.function: Callable[..., Any] = function
        # Now, and not at an access: a mistake shows when the class is defined, and each access only binds the function.
        self.template = make(MethodType(function, object()))
        """The tool, bound to a bare object: its text and schema are those of each instance's."""
        self._runs = getattr(self.template.fn, "__func__", self.template.fn)

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """Returns the tool, bound; the method itself where there is nothing to bind it to."""
        bound_to = (owner or type(instance)) if self.of_class else instance
        return self if bound_to is None else replace(self.template, fn=MethodType(self._runs, bound_to))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        kind, _, method = self.function.__qualname__.rpartition(".")
        hint = f"; it becomes a tool on an instance: {kind}(...).{method}" if hasattr(Tool, name) else ""
        raise AttributeError(f"the tool method {self.function.__qualname__} has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return f"<tool method {self.function.__qualname__}; its tool is read off an instance>"


def tools_of(instance: object) -> list[Tool]:
    """Returns the tools among an object's methods, in the order of their definition, those of its base classes first.

        pipeline(stream, tools=tools_of(Library(database)))

    Args:
        instance: an object whose class has methods marked with ``@tool``; or the class, for those that need none.
    """
    kind = instance if isinstance(instance, type) else type(instance)
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    marked: dict[int, str] = {}  # by identity: a method that has a second name is one tool
    for name in names:
        member = inspect.getattr_static(kind, name)
        if isinstance(member, (ToolMethod, Tool, staticmethod)):
            marked.setdefault(id(member), name)
    found = (getattr(instance, name) for name in marked.values())
    return [tool for tool in found if isinstance(tool, Tool)]
