"""How tools are made, and what is refused: of a function, of a foreign schema, of a model."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from ..content import ToolResult
from ..errors import SchemaError
from ..limits import Limits
from .binder import ArgumentsValidator, Binder, Coerce, SchemaSource
from .callables import (
    as_function,
    called_function,
    checked_name,
    inner_function,
    mentions,
    parameters_of,
    refuse,
    returned_by,
)
from .definition import ConflictKey, Effect, NeedsApproval, Tool
from .docstrings import Docstring, parse_docstring
from .enforce import Enforced
from .fingerprint import Grammar
from .foreign import Check, Foreign, Takes
from .kept import Kept
from .lazy import LazyFunction
from .model import ModelBinder, docstring_of
from .placement import Placement
from .schema import JsonSchema
from .signature import Signature

__all__ = ["Options", "of_function", "of_model", "of_schema"]

_ANYTHING: dict[str, Any] = {"type": "object"}  # what a model is told where nothing is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What may be said about a tool beside its function."""

    name: str | None = None
    effect: Effect = "once"
    needs_approval: NeedsApproval = False
    timeout: float | None = None
    max_concurrency: int | None = None
    conflict_key: ConflictKey | None = None
    exclusive: bool = False
    retries: int = 0
    retry_delay_s: float = 0.5
    require_hints: bool = True
    kind: Literal["function", "custom"] = "function"
    grammar: Grammar | None = None
    coerce: Coerce = "lax"
    lazy: Callable[[], Callable[..., Any]] | None = None

    def check(self, tool: str) -> None:
        """Refuse what is no option.

        Raises:
            ToolDefinitionError: it names the option and what it may be.
        """
        if self.effect not in get_args(Effect):
            raise refuse(tool, f"effect must be 'pure', 'idempotent' or 'once', not {self.effect!r}")
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise refuse(tool, f"timeout must be a number of seconds greater than 0, or None, not {self.timeout!r}")
        self._check_dispatch(tool)
        if self.coerce not in get_args(Coerce):
            raise refuse(tool, f"coerce must be 'lax' or 'strict', not {self.coerce!r}")
        if self.kind not in ("function", "custom"):
            raise refuse(tool, f"kind must be 'function' or 'custom', not {self.kind!r}")
        if self.grammar is not None and not isinstance(self.grammar, Grammar):
            raise refuse(tool, "grammar must be a Grammar(syntax=..., definition=...)")
        if self.lazy is not None and (not callable(self.lazy) or inspect.iscoroutinefunction(self.lazy)):
            raise refuse(tool, "lazy must be a plain function that returns the one to run; that one may be async")

    def _check_dispatch(self, tool: str) -> None:
        if self.max_concurrency is not None and not _is_count(self.max_concurrency, 1):
            what = "must be an integer of 1 or more, or None"
            raise refuse(tool, f"max_concurrency {what}, not {self.max_concurrency!r}")
        if not isinstance(self.exclusive, bool):
            raise refuse(tool, f"exclusive must be True or False, not {self.exclusive!r}")
        gate = self.needs_approval
        if not isinstance(gate, bool) and (not callable(gate) or inspect.iscoroutinefunction(gate)):
            raise refuse(tool, "needs_approval must be True, False, or a plain function of the arguments by name")
        key = self.conflict_key
        if key is not None and not isinstance(key, str) and (not callable(key) or inspect.iscoroutinefunction(key)):
            raise refuse(tool, "conflict_key must be an argument's name, or a plain function of the arguments by name")
        if not _is_count(self.retries, 0):
            raise refuse(tool, f"retries must be an integer of 0 or more, not {self.retries!r}")
        if self.retries and self.effect == "once":
            raise refuse(tool, "retries would run a 'once' tool twice; say effect='idempotent' if that does no harm")
        if not _is_seconds(self.retry_delay_s):
            raise refuse(tool, f"retry_delay_s must be a number of seconds greater than 0, not {self.retry_delay_s!r}")


def _is_count(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _is_seconds(timeout: object) -> bool:
    return isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < math.inf


def of_function(target: object, options: Options) -> Tool[..., Any]:
    """A tool with the schema of a function's signature.

    Raises:
        ToolDefinitionError: it cannot be a tool; the message names the tool, the parameter and the way out.
    """
    function = as_function(target)
    name = checked_name(function, options.name)
    options.check(name)
    docstring = _docstring(function)
    custom = options.kind == "custom" or options.grammar is not None
    binder = Signature.of(
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
        binder,
        name=name,
        description=_required(docstring.description, name),
        kind="custom" if custom else "function",
        grammar=options.grammar,
        output_schema=_output_schema(function),
    )


def of_model(
    model: Any,
    target: object,
    options: Options,
    *,
    description: str | None,
    title: str | None,
    annotations: Mapping[str, Any],
) -> Tool[..., Any]:
    """A tool with the schema of a model; see `Tool.from_model`."""
    function = as_function(target)
    name = checked_name(function, options.name)
    options.check(name)
    binder = ModelBinder.of(model, function, name, coerce=options.coerce)
    if description is None:
        description = _docstring(function).description or docstring_of(model).description
    return _made(
        function,
        options,
        binder,
        name=name,
        description=_required(description, name),
        schema_source="typed_model",
        title=title,
        annotations=dict(annotations),
        output_schema=_output_schema(function),
    )


def of_schema(
    target: object,
    schema: Mapping[str, Any] | None,
    options: Options,
    *,
    description: str | None,
    takes: Takes,
    validator: ArgumentsValidator | None,
    check: Check | None,
    limits: Limits,
    owner: str | None,
    schema_source: SchemaSource,
    output_schema: Mapping[str, Any] | None,
    annotations: Mapping[str, Any],
    title: str | None,
) -> Tool[..., Any]:
    """A tool with a foreign schema, or none; see `Tool.from_schema`."""
    function = as_function(target)
    name = checked_name(function, options.name)
    options.check(name)
    if takes not in get_args(Takes):
        raise refuse(name, f"takes must be 'keywords' or 'mapping', not {takes!r}")
    if schema_source not in get_args(SchemaSource):
        raise refuse(name, f"schema_source must be one of {', '.join(get_args(SchemaSource))}, not {schema_source!r}")
    if check is not None and (not callable(check) or inspect.iscoroutinefunction(check)):
        raise refuse(name, "check must be a plain function: it runs before the call is accepted")
    if validator is not None and not isinstance(validator, ArgumentsValidator):
        raise refuse(
            name, "validator must have a name, and a method validate(arguments) that returns a list of problems"
        )
    if schema is None and validator is None and check is None:
        raise refuse(name, "has no schema; pass check=..., which is then all that stands before the function")
    placement = Placement.of(function, parameters_of(function, name, require_hints=False), name)
    _check_placement(placement, takes, name)
    if schema is not None and not isinstance(schema, Mapping):
        raise SchemaError(f"the schema of a tool's arguments is a JSON object, not {type(schema).__name__}")
    # The validator looks at the schema first: it knows its limits, and where something is wrong.
    judge = validator if validator is not None or schema is None else Enforced(_json(schema), limits)
    plain = None if schema is None else _of_object(_plain(schema))
    binder = Foreign(
        tool=name,
        schema=_ANYTHING if plain is None else plain,
        judge=judge,
        check=check,
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
        owner=owner,
        boundary="advisory" if judge is None else "validated",
        title=title,
        output_schema=None if output_schema is None else _plain(output_schema),
        annotations=dict(annotations),
    )


def _made(function: Callable[..., Any], options: Options, binder: Binder, **said: Any) -> Tool[..., Any]:
    """The tool, of what all ways of making one share and what each says itself."""
    runs = function if options.lazy is None else LazyFunction(options.lazy)
    called = called_function(function)
    is_async = options.lazy is None and (inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called))
    _check_conflict_key(options.conflict_key, binder, said["name"])
    return Tool(
        effect=options.effect,
        needs_approval=options.needs_approval,
        timeout=options.timeout,
        max_concurrency=options.max_concurrency,
        conflict_key=options.conflict_key,
        exclusive=options.exclusive,
        retries=options.retries,
        retry_delay_s=options.retry_delay_s,
        fn=runs,
        is_async=is_async,
        _binder=binder,
        **said,
    )


def _check_conflict_key(key: ConflictKey | None, binder: Binder, name: str) -> None:
    """A name has to be one of an argument that is declared, where any are."""
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
    """Whether the function can be called that way."""
    if takes == "mapping" and (len(placement.open) != 1 or len(placement.named) != 1):
        names = ", ".join(p.name for p in placement.open) or "none"
        raise refuse(name, f"takes='mapping' calls the function with one dict, in its one parameter; this has: {names}")
    if takes == "keywords" and placement.var_positional is not None:
        raise refuse(name, "a schema names its arguments; *args cannot take them", placement.var_positional)


def _json(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A mapping of the user's as the dict that it stands for."""
    return schema if isinstance(schema, Kept) else dict(schema)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a schema, which has to be plain JSON; one that is kept as it is."""
    if isinstance(schema, Kept):
        return schema.schema
    try:
        copied: dict[str, Any] = json.loads(json.dumps(dict(schema), allow_nan=False))
    except RecursionError as error:
        raise SchemaError("the schema is nested too deep to be written as JSON") from error
    except (TypeError, ValueError) as error:
        raise SchemaError("a schema is plain JSON, and this one holds something else") from error
    return copied


def _of_object(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema, which has to be one that arguments can fit."""
    kind = schema.get("type", "object")
    if isinstance(kind, (str, list)) and "object" not in ([kind] if isinstance(kind, str) else kind):
        raise SchemaError("arguments are an object, and the schema asks for another type", path="#/type")
    return schema


def _output_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """JSON Schema of what the function says it returns; None if it says nothing, nothing plain, or no JSON."""
    returned = returned_by(function)
    if returned in (inspect.Parameter.empty, None, type(None), Any) or mentions(returned, ToolResult):
        return None
    try:
        schema = TypeAdapter(returned).json_schema(mode="serialization", schema_generator=JsonSchema)
        return _plain(schema)
    except Exception:  # of the user's types; a tool runs as well without
        return None
