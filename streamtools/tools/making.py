"""Makes the fields of a tool, or refuses it: of a function, a foreign schema, a model, or a framework's tool."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, get_args

from ..content import Namespace
from ..errors import InvalidArguments, SchemaError
from ..limits import Limits
from ..schema import Kept
from ..schema.names import qualified
from .binder import Binder, SchemaSource
from .callables import (
    Placement,
    as_function,
    called_function,
    checked_name,
    inner_function,
    parameters_of,
    refuse,
)
from .checks import Checked, Checks
from .docstrings import Docstring, parse_docstring
from .options import ConflictKey, RunOptions, ToolOptions, check_options
from .results import NO_RESULTS, Results, plain, results_of
from .typed_binder import TypedBinder, docstring_of

if TYPE_CHECKING:
    from .foreign import Takes
    from .frameworks import FrameworkTool

__all__ = ["of_framework", "of_function", "of_model", "of_schema"]


_ANYTHING: dict[str, Any] = {"type": "object"}  # what a model is told where nothing is known


def of_function(target: object, options: ToolOptions) -> dict[str, Any]:
    """Returns the fields of a tool with the schema of a function's signature.

    Raises:
        ToolDefinitionError: it cannot be a tool; the message names the tool, the parameter and the way out.
    """
    function, name = _begun(target, options)
    docstring = _docstring(function)
    custom = options.kind == "custom" or options.grammar is not None
    binder = TypedBinder.of_signature(
        function,
        name,
        require_hints=options.require_hints,
        descriptions=docstring.parameters,
        coerce=options.coerce,
        freeform=custom,
    )
    return _made(
        function,
        options,
        _checked(binder, name, options),
        name=name,
        description=_required(docstring.description, name),
        kind="custom" if custom else "function",
        grammar=options.grammar,
        results=results_of(function, name, options.output_schema),
    )


def of_model(
    model: Any, target: object, options: ToolOptions, *, description: str | None, **said: Any
) -> dict[str, Any]:
    """Returns the fields of a tool with the schema of a model; see `Tool.from_model`. Those in `said` are kept."""
    function, name = _begun(target, options)
    binder = TypedBinder.of_model(model, function, name, coerce=options.coerce)
    if description is None:
        description = _docstring(function).description or docstring_of(model).description
    return _made(
        function,
        options,
        _checked(binder, name, options),
        name=name,
        description=_required(description, name),
        schema_source="typed_model",
        results=results_of(function, name, options.output_schema),
        **said,
    )


def of_schema(
    target: object,
    schema: Mapping[str, Any] | None,
    options: ToolOptions,
    *,
    description: str | None,
    takes: Takes,
    limits: Limits,
    schema_source: SchemaSource,
    **said: Any,
) -> dict[str, Any]:
    """Returns the fields of a tool with a foreign schema, or none; see `Tool.from_schema`. Those in
    `said` are kept."""
    function, name = _begun(target, options)
    from .enforce import Enforced
    from .foreign import Foreign, Takes  # most tools have their schema from their own types

    if takes not in get_args(Takes):
        raise refuse(name, f"takes must be 'keywords' or 'mapping', not {takes!r}")
    if schema_source not in get_args(SchemaSource):
        raise refuse(name, f"schema_source must be one of {', '.join(get_args(SchemaSource))}, not {schema_source!r}")
    checks = Checks(tool=name, validator=options.validator, check=options.check)
    if schema is None and checks.validator is None and checks.check is None:
        raise refuse(name, "has no schema; pass check=..., which is then all that stands before the function")
    declared = options.output_schema
    placement = Placement.of(function, parameters_of(function, name, require_hints=False), name)
    _check_placement(placement, takes, name)
    if schema is not None and not isinstance(schema, Mapping):
        raise SchemaError(f"the schema of a tool's arguments is a JSON object, not {type(schema).__name__}")
    given = schema if schema is None or isinstance(schema, Kept) else dict(schema)
    # The validator looks at the schema first: it knows its limits, and where something is wrong.
    judge = None if checks.validator is not None or given is None else Enforced(given, limits)
    accepted = None if given is None else _of_object(plain(given))
    binder = Foreign(
        tool=name,
        schema=_ANYTHING if accepted is None else accepted,
        judge=judge,
        checks=checks,
        coerce=options.coerce,
        takes=takes,
        placement=placement,
        names=frozenset(parameter.name for parameter in placement.named),
    )
    return _made(
        function,
        options,
        binder,
        name=name,
        description=_required(_docstring(function).description, name) if description is None else description,
        schema_source=schema_source,
        boundary="advisory" if judge is None and checks.validator is None else "validated",
        results=NO_RESULTS if declared is None else results_of(function, name, declared, limits),
        **said,
    )


def of_framework(theirs: FrameworkTool, options: ToolOptions) -> dict[str, Any]:
    """Returns the fields of a tool that another framework has made; see `frameworks`."""
    gate = options.needs_approval or theirs.needs_approval
    return of_schema(
        theirs.fn,
        theirs.schema,
        replace(options, name=options.name or theirs.name, needs_approval=gate),
        description=theirs.description,
        takes="mapping",
        limits=Limits(),
        schema_source="hand_written",
        owner=theirs.framework,
    )


def _checked(binder: Binder, name: str, options: ToolOptions) -> Binder:
    """Returns the binder, with the user's validator and check behind it if there are any."""
    if options.validator is None and options.check is None:
        return binder
    return Checked(binder, Checks(tool=name, validator=options.validator, check=options.check))


def _begun(target: object, options: ToolOptions) -> tuple[Callable[..., Any], str]:
    """Returns the function that is to run and the tool's name, its options checked."""
    function = as_function(target)
    name = checked_name(function, options.name)
    check_options(name, options)
    if (namespace := _namespace(options)) is None:
        return function, name
    if name == namespace.name:
        raise refuse(name, "has the name of its namespace; give one of them another name")
    return function, qualified(namespace.name, name)


def _namespace(options: ToolOptions) -> Namespace | None:
    given = options.namespace
    return Namespace(given) if isinstance(given, str) else given


def _made(
    function: Callable[..., Any], options: ToolOptions, binder: Binder, *, results: Results, **said: Any
) -> dict[str, Any]:
    """Returns the fields of a `Tool`: those that all ways of making one share, and those that each says itself."""
    runs = function if options.lazy is None else LazyFunction(options.lazy)
    called = called_function(function)
    is_async = options.lazy is None and (inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called))
    _check_conflict_key(options.conflict_key, binder, said["name"])
    running = {option.name: getattr(options, option.name) for option in fields(RunOptions)}
    _check_examples(options, binder, said["name"])
    group = {"namespace": _namespace(options), "hints": options.hints}
    returned = {"output_schema": results.schema, "_judge": results.judge}
    more = {"fn": runs, "is_async": is_async, **group, **returned, "_binder": binder}
    return {**running, **more, **said}


def _check_examples(options: ToolOptions, binder: Binder, name: str) -> None:
    """Refuses an example that the tool would not take."""
    for number, example in enumerate(options.hints.examples if options.hints else ()):
        try:
            binder.validate(example, None)
        except InvalidArguments as error:
            raise refuse(
                name, f"hints.examples[{number}] is no call that it takes: {'; '.join(error.problems)}"
            ) from None


def _check_conflict_key(key: ConflictKey | None, binder: Binder, name: str) -> None:
    """Refuses a name that is none of the declared arguments, where any are."""
    declared = binder.schema.get("properties")
    if isinstance(key, str) and isinstance(declared, dict) and key not in declared:
        raise refuse(name, f"conflict_key={key!r} is none of its arguments: {', '.join(declared) or 'there are none'}")


def _docstring(function: Callable[..., Any]) -> Docstring:
    inner = inner_function(function)
    text = inner.__doc__ or inspect.getdoc(inner) or ""  # an overriding method's may be inherited
    return parse_docstring("" if text == type.__call__.__doc__ else text)


def _required(description: str, name: str) -> str:
    if not description:
        raise refuse(name, "has no docstring; write one, the model decides by it when to call the tool")
    return description


def _check_placement(placement: Placement, takes: Takes, name: str) -> None:
    """Refuses a function that cannot be called that way."""
    if takes == "mapping":
        placement.only(name, "takes='mapping' calls the function with one dict, in its one parameter")
    if takes == "keywords" and placement.var_positional is not None:
        raise refuse(name, "a schema names its arguments; *args cannot take them", placement.var_positional)


def _of_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema; refuses one that no arguments can fit."""
    kind = schema.get("type", "object")
    if isinstance(kind, (str, list)) and "object" not in ([kind] if isinstance(kind, str) else kind):
        raise SchemaError("arguments are an object, and the schema asks for another type", path="#/type")
    return schema


class LazyFunction:
    """A function that is expensive to have: loaded at the first call, once, whatever the number of threads that call.

    A call that comes while another loads waits for it. A loader that raises fails that call; the next one tries again.

    Args:
        load: returns the function that runs: sync, or async for a dispatcher that awaits what comes back.
    """

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self._load = load
        self._loaded: Callable[..., Any] | None = None
        self._lock = threading.RLock()  # a loader that calls its own tool recurses into an error, and hangs nobody

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Loads the function if need be, and calls it."""
        loaded = self._first() if self._loaded is None else self._loaded
        return loaded(*args, **kwargs)

    def _first(self) -> Callable[..., Any]:
        with self._lock:
            if self._loaded is None:
                loaded = self._load()
                if not callable(loaded):
                    raise TypeError(f"lazy: the loader returned a {type(loaded).__name__}, which cannot be called")
                self._loaded = loaded
            return self._loaded
