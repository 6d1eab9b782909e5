"""Defines `Tool`: a function that a model can call, with its name, its text and its schema."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, Unpack, get_args, overload

from typing_extensions import ParamSpec, TypeVar

from ..content import Grammar, Namespace, RequestHints
from ..errors import InvalidArguments, SchemaError
from ..ground.on_demand import functions
from ..ground.own import own
from ..ground.text import shown_by
from ..limits import Limits
from ..parts import ToolCall
from ..schema import Kept
from ..schema.names import qualified
from ..wires import Wire
from . import checks
from .binder import ArgumentsValidator, Binder, Coerce, SchemaSource
from .callables import (
    NO_VALUES,
    Docstring,
    Placement,
    as_function,
    called_function,
    checked_name,
    inner_function,
    maker_of_growing,
    parameters_of,
    parse_docstring,
    refuse,
)
from .checks import Check, Checks, Enforced
from .context import ToolContext
from .options import RunKeywords, RunOptions, ToolOptions, check_options, policies_of
from .results import NO_RESULTS, OutputSchema, Results, plain, results_of
from .typed import TypedBinder, docstring_of

if TYPE_CHECKING:
    from .foreign import PassAs

run_one, refuse_declaration, refuse_unknown = functions(
    "streamtools.tools",
    ".front.at_hand:run_one",
    ".front.mistaken:refuse_declaration",
    ".front.mistaken:refuse_unknown",
)
P = ParamSpec("P", default=...)
Q = ParamSpec("Q")
R = TypeVar("R", default=Any)


@dataclass(slots=True)
class Bound:
    """Valid arguments in the types of the function."""

    # Not frozen, which would cost more than validating the arguments; nobody changes it.

    args: tuple[Any, ...] = field(repr=False)
    """The positional arguments, without injected parameters."""
    kwargs: dict[str, Any] = field(repr=False)
    """The keyword arguments, without injected parameters."""
    by_name: dict[str, Any] = field(repr=False)
    """All arguments by parameter name, defaults included."""
    coercions: tuple[str, ...] = ()
    """The values that were coerced: path and kind (``people: json_string``)."""
    validated: bool = True
    """True if a schema was enforced; False with an advisory boundary."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Tool(RunOptions, Generic[P, R]):
    """A function that a model can call, with a name, a description and a schema. Made by `tool`, and still callable.

    Pass it to ``pipeline(..., tools=[...])``, and put ``tool.to(wire)`` into the provider's request.
    """

    name: str
    """The name by which the model calls it."""
    description: str = field(repr=False)
    """The text that the model reads: the prose of the docstring."""
    fn: Callable[P, R] = field(repr=False)
    """The function that runs."""
    is_async: bool = field(repr=False)
    """True if `fn` is a coroutine function or an async generator function; others run in a thread."""
    kind: Literal["function", "custom"] = field(default="function", repr=False)
    """``custom``: a freeform tool, which takes one raw text (its argument ``input``) instead of an object."""
    grammar: Grammar | None = field(default=None, repr=False)
    """The grammar of a ``custom`` tool's text, for providers that can enforce it."""
    schema_source: SchemaSource = field(default="typed_signature", repr=False)
    """The source of the schema, for the record of each call."""
    owner: str | None = field(default=None, repr=False)
    """The owner of a schema that was written by hand."""
    boundary: Literal["validated", "advisory"] = field(default="validated", repr=False)
    """``advisory``: no schema is enforced; only the tool's own check runs before it."""
    title: str | None = field(default=None, repr=False)
    """A name for people."""
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the tool's result, if it is known. Do not change it. Results are checked against it only if it was
    declared; see `checks_results`."""
    namespace: Namespace | None = field(default=None, repr=False)
    """The group of tools that it belongs to; `name` begins with the group's: ``billing.get_eta``."""
    hints: RequestHints | None = field(default=None, repr=False)
    """Further hints for a provider."""
    annotations: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Hints for people and hosts, under MCP's names (``readOnlyHint``, ``destructiveHint``). Untrusted if foreign."""
    growing: Any = field(default=None, repr=False)
    """The parameter that the function may read while the model writes it; None if it has none."""
    _binder: Binder = field(repr=False)
    _judge: Enforced | None = field(default=None, repr=False)

    __repr__ = shown_by(
        "name", "effect", "needs_approval", "timeout", "max_concurrency", "exclusive", "retries",
    )  # fmt: skip

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments (2020-12, unless its ``$schema`` names another): a fresh copy."""
        return dict(own(self._binder.schema))

    @property
    def validator(self) -> str | None:
        """The name of the validator (``pydantic``, ``jsonschema-rs``); None if there is none."""
        return self._binder.validator_name

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the model reads about the tool, the same in every process.

        It changes with the name, the description, a schema or the grammar.
        """
        return fingerprint(self.name, self.description, self._binder.schema, self.output_schema, self.grammar)

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.fn(*args, **kwargs)

    def run(self, /, **arguments: Any) -> Awaitable[Any]:
        """Validates the arguments, runs the function and returns its value; await it.

            await get_weather.run(city="Oslo")

        It is `streamtools.run_calls` with one call: the tool's own timeout, checks, retries and middleware apply, and a
        sync function runs in a thread. Use `run_calls` for several calls, for approvals, or for a store.

        Args:
            arguments: under their names in the schema, as JSON values.

        Raises:
            InvalidArguments: they do not fit; the function was not called.
            ToolError: the call failed for another reason, such as a timeout, or an approval that the tool needs.
            Exception: the function's own exception.
        """
        running: Awaitable[Any] = run_one(self, arguments)
        return running

    if TYPE_CHECKING:
        # In a class body `@tool` makes a `ToolMethod`, which binds. Type checkers take that for a Tool, so this
        # declares how one binds. They think the same of a static method's, so call that on the class:
        # `Library.close(9)`.

        @overload
        def __get__(self, instance: None, owner: type) -> Tool[P, R]: ...
        @overload
        def __get__(self: Tool[Concatenate[Any, Q], R], instance: object, owner: type) -> Tool[Q, R]: ...
        def __get__(self, instance: Any, owner: type) -> Any: ...

    @staticmethod
    def from_schema(
        fn: Callable[..., Any],
        schema: Mapping[str, Any] | None,
        *,
        name: str | None = None,
        description: str | None = None,
        owner: str | None = None,
        pass_as: PassAs = "keywords",
        schema_source: SchemaSource = "hand_written",
        output_schema: OutputSchema | None = None,
        annotations: Mapping[str, Any] = NO_VALUES,
        title: str | None = None,
        namespace: Namespace | str | None = None,
        hints: RequestHints | None = None,
        validator: ArgumentsValidator | None = None,
        check: Check | None = None,
        coerce: Coerce = "lax",
        limits: Limits = Limits(),
        **running: Unpack[RunKeywords],
    ) -> Tool[..., Any]:
        """Makes a tool whose schema is not derived from its function, but handwritten or fetched.

        The schema is kept and enforced unchanged (2020-12, or draft-07 by its ``$schema``). It has an owner, and
        `check` lists the places where it differs from the function.

        Args:
            fn: the function, sync or async. Parameters annotated with `ToolContext` are filled when it runs.
            schema: JSON Schema of the arguments; copied. None: the boundary is advisory, the model may send any object,
                and only `check` runs before the function.
            name: the tool's name; by default the function's.
            description: the text for the model; by default the prose of the function's docstring. ``""`` for none.
            owner: the name of the schema's owner.
            pass_as: ``keywords`` calls ``fn(**arguments)``; ``mapping`` calls ``fn(arguments)``, with one dict.
            schema_source: for the record of each call.
            output_schema: see `tool`; by default nothing is known about the results.
            annotations: hints in MCP's words.
            title: a name for people.
            namespace: see `tool`.
            hints: see `tool`.
            validator: validates the arguments instead of the JSON Schema validator; its name is in each record.
            check: called with the arguments before the function runs. Raising a ``ValueError`` or `ToolError`, or
                returning False, refuses the call as ``invalid``; it must neither block nor change the arguments.
            coerce: ``lax`` decodes a string with the JSON text of an array or object where the schema requires one, and
                records it; ``strict`` does not.
            limits: the limits on the schema.
            running: ``effect``, ``needs_approval``, ``approvals``, ``policy``, ``trusted``, ``timeout``,
                ``max_concurrency``, ``conflict_key``, ``exclusive``, ``trial``, ``deferred``, ``background``,
                ``idempotency_key``, ``scope``, ``middleware``, ``retries`` and ``retry_delay_s``, as in `tool`.

        Raises:
            SchemaError: the schema is not a schema, refers to another document, or exceeds a limit.
            ToolDefinitionError: the function cannot take the arguments, or there is neither schema nor check.
            TypeError: there is no such option.
        """
        known = {*RunKeywords.__optional_keys__, *(Tool.from_schema.__kwdefaults__ or ())}
        refuse_unknown("Tool.from_schema", running, known)
        options = ToolOptions(
            name=name,
            coerce=coerce,
            namespace=namespace,
            hints=hints,
            output_schema=output_schema,
            validator=validator,
            check=check,
            **running,
        )
        made = of_schema(
            fn,
            schema,
            options,
            description=description,
            pass_as=pass_as,
            limits=limits,
            owner=owner,
            schema_source=schema_source,
            annotations=dict(annotations),
            title=title,
        )
        return Tool(**made)

    @staticmethod
    def from_model(
        model: type[Any],
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        coerce: Coerce = "lax",
        title: str | None = None,
        namespace: Namespace | str | None = None,
        hints: RequestHints | None = None,
        validator: ArgumentsValidator | None = None,
        check: Check | None = None,
        output_schema: OutputSchema | None = None,
        annotations: Mapping[str, Any] = NO_VALUES,
        **running: Unpack[RunKeywords],
    ) -> Tool[..., Any]:
        """Makes a tool of a model's fields; the function takes the model as a whole.

        Args:
            model: a pydantic ``BaseModel``, a dataclass or a ``TypedDict``.
            fn: the function, sync or async. Apart from injected parameters it has one, which receives the instance.
            name: the tool's name; by default the function's.
            description: what the model reads; by default the function's docstring, else the model's.
            coerce, namespace, hints, output_schema: as in `tool`.
            validator, check: as in `tool`; they see the instance under the name of the function's parameter.
            title: a name for people.
            annotations: hints in MCP's words.
            running: ``effect``, ``needs_approval``, ``approvals``, ``policy``, ``trusted``, ``timeout``,
                ``max_concurrency``, ``conflict_key``, ``exclusive``, ``trial``, ``deferred``, ``background``,
                ``idempotency_key``, ``scope``, ``middleware``, ``retries`` and ``retry_delay_s``, as in `tool`.

        Raises:
            ToolDefinitionError: the model has no schema, or the function does not take exactly one argument. Whether
                that is annotated with the model is not checked.
        """
        options = ToolOptions(
            name=name,
            coerce=coerce,
            namespace=namespace,
            hints=hints,
            output_schema=output_schema,
            validator=validator,
            check=check,
            **running,
        )
        return Tool(**of_model(model, fn, options, description=description, title=title, annotations=dict(annotations)))

    def running(self, fn: Callable[..., Any]) -> Tool[..., Any]:
        """Returns the same tool with another function; schema, checks and options stay.

        Use it, for example, to let a framework run the calls.

        Args:
            fn: takes the arguments as one dict of plain values, and a `ToolContext` if it has a parameter for one.
                ``needs_approval`` and ``conflict_key`` see those values, too.

        Raises:
            ToolDefinitionError: `fn` does not take one dict.
        """
        # Not `fn` itself: a partial, or an object with an async `__call__`, is no coroutine function.
        called = called_function(fn)
        is_async = inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called)
        from .foreign import Rerouted

        binder = Rerouted(self._binder, fn, self.name)
        return replace(self, fn=fn, is_async=is_async, schema_source="hand_written", growing=None, _binder=binder)

    def check(self) -> list[str]:
        """Returns a line for each place where function, docstring and a foreign schema differ.

        A line names a parameter that is missing from the schema, superfluous, required on one side only, or of another
        type; or a pattern, even of a declared output schema, that is not enforced because no engine runs it in linear
        time.
        """
        unenforced = () if self._judge is None else self._judge.unenforced
        return [*self._binder.drift(), *(f"output_schema: {line}; it is not enforced" for line in unenforced)]

    def validate(self, arguments: Mapping[str, Any], *, text: str | None = None, quick: bool = False) -> Bound:
        """Validates a call's arguments, and converts them to the function's Python values.

        Args:
            arguments: plain JSON values by name. They are not changed, and no part of them is kept.
            text: the JSON text of `arguments`, if available, which saves writing them again. It must have the same
                values, and neither NaN nor a number beyond a float.
            quick: give up after about 10 ms, so that you can repeat it in a thread. The time is limited either way.

        Raises:
            InvalidArguments: they do not fit; its ``problems`` name places and rules, for the model.
            TakesLong: the limit of `quick` was reached.
        """
        values, coercions = self._binder.validate(arguments, text, quick=quick)
        args, kwargs = self._binder.arrange(values, NO_VALUES)
        return Bound(args, kwargs, values, coercions, self.boundary == "validated")

    def copied(self, bound: Bound) -> Bound:
        """Returns a copy of the arguments for another run."""
        values = own(bound.by_name)
        return Bound(*self._binder.arrange(values, NO_VALUES), values, bound.coercions, bound.validated)

    @property
    def checks_results(self) -> bool:
        """True if the tool's `output_schema` was declared: a result that does not fit fails its call."""
        return self._judge is not None

    def check_result(self, value: Any, *, chars: int | None = None, quick: bool = False) -> list[str]:
        """Returns a line for each place where a result does not fit the declared output schema; none without one.

        Args:
            value: the result as plain JSON.
            chars: the length of the result as JSON, if it is known.
            quick: give up after about 10 ms, so that you can repeat it in a thread.

        Raises:
            TakesLong: the limit of `quick` was reached.
        """
        if self._judge is None:
            return []
        lines, _ = self._judge.judge(value, decode=False, chars=chars, quick=quick)
        return checks.listed(lines)

    @property
    def wants_context(self) -> bool:
        """True if the function has parameters that the program fills."""
        return bool(self._binder.injected)

    def complete(self, bound: Bound, ctx: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for one run: `bound`, and `ctx` or a part of it for its parameters."""
        injected = self._binder.injected
        if not injected:
            return bound.args, bound.kwargs
        return self._binder.arrange(bound.by_name, {name: one.value(ctx) for name, one in injected.items()})

    def argument(self, bound: Bound, name: str) -> Any:
        """Returns one of a call's validated arguments by its name in the schema; None if it is missing.

        Raises:
            KeyError, AttributeError: the function has no such argument.
        """
        named = bound.by_name
        if self.schema_source == "typed_model":
            (whole,) = named.values()
            return whole.get(name) if isinstance(whole, dict) else getattr(whole, name)
        return named[name] if self.schema_source == "typed_signature" else named.get(name)

    @property
    def needs_context(self) -> bool:
        """True if the function cannot run without the ``context=`` of a pipeline."""
        return any(one.needs_context for one in self._binder.injected.values())

    def context_problem(self, context: Any) -> str | None:
        """Returns the reason why the function cannot run with a pipeline's context; None if it can."""
        for name, one in self._binder.injected.items():
            if (why := one.problem(context)) is not None:
                return f"tool {self.name!r}, parameter {name!r}: {why}"
        return None

    def to(self, wire: Wire | str, *, strict: bool = False, hints: RequestHints | None = None) -> Any:
        """Returns the tool's entry in a provider's request: a fresh dict.

        Args:
            wire: its name (``openai.chat_completions``, ``anthropic.messages``), or a wire of your own. Gemini's entry
                goes into the list ``functionDeclarations`` of a tool, any other into the request's list of tools.
            strict: the strict form, which the provider enforces.
            hints: used instead of the tool's own.

        Raises:
            ExportError: the wire is unknown, or cannot carry this tool; or the model's arguments need decoding, for
                which an entry alone is not enough: use `streamtools.exports.export_all`.
        """
        from .entries import EntryOptions, payload_of  # the translator is loaded where a tool is exported

        return payload_of(self, wire, EntryOptions(strict=strict, hints=hints))


def validate_tool_call(call: ToolCall, tool: Tool) -> bool:
    """Returns whether a call names this tool and has valid arguments."""
    if call.name != tool.name or call.arguments is None:
        return False
    try:
        tool.validate(call.arguments)
    except InvalidArguments:
        return False
    return True


def fingerprint(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    output_schema: Mapping[str, Any] | None,
    grammar: Grammar | None,
) -> str:
    """Returns a hash of all that a model reads about a tool: SHA-256 in hexadecimal digits."""
    parts = {
        "name": name,
        "description": description,
        "schema": schema,
        "output_schema": output_schema,
        "grammar": None if grammar is None else asdict(grammar),
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))  # sorted: the order of keys means nothing in JSON
    return hashlib.sha256(text.encode()).hexdigest()


# -- the fields of a tool, by its source --


_ANYTHING: dict[str, Any] = {"type": "object"}  # for the model, where nothing is known


def of_function(target: object, options: ToolOptions) -> dict[str, Any]:
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
    grown = next(filter(None, (maker_of_growing(one.annotation) for one in binder.placement.open)), None)
    growing = None if grown is None else grown(binder, function, name, options)
    made = _made(
        function,
        options,
        _checked(binder, name, options),
        name=name,
        description=_required(docstring.description, name),
        kind="custom" if custom else "function",
        grammar=options.grammar,
        results=results_of(function, name, options.output_schema),
        growing=growing,
    )
    return made if growing is None else {**made, "fn": growing.runs}


def of_model(
    model: Any, target: object, options: ToolOptions, *, description: str | None, **preset: Any
) -> dict[str, Any]:
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
        **preset,
    )


def of_schema(
    target: object,
    schema: Mapping[str, Any] | None,
    options: ToolOptions,
    *,
    description: str | None,
    pass_as: PassAs,
    limits: Limits,
    schema_source: SchemaSource,
    **preset: Any,
) -> dict[str, Any]:
    function, name = _begun(target, options)
    from .foreign import Foreign, PassAs  # most tools have their schema from their own types

    if pass_as not in get_args(PassAs):
        raise refuse(name, f"pass_as: expected 'keywords' or 'mapping', got {pass_as!r}")
    if schema_source not in get_args(SchemaSource):
        raise refuse(name, f"schema_source: expected {' or '.join(get_args(SchemaSource))}, got {schema_source!r}")
    checks = Checks(tool=name, validator=options.validator, check=options.check)
    if schema is None and checks.validator is None and checks.check is None:
        raise refuse(name, "has no schema; pass check=..., which is then the only check before the function")
    declared = options.output_schema
    placement = Placement.of(function, parameters_of(function, name, require_hints=False), name)
    if pass_as == "mapping":
        placement.only(name, "pass_as='mapping' calls the function with one dict, in its one parameter")
    if pass_as == "keywords" and placement.var_positional is not None:
        raise refuse(name, "a schema names its arguments; *args cannot take them", placement.var_positional)
    if schema is not None and not isinstance(schema, Mapping):
        raise SchemaError(f"schema: expected a JSON object, got {type(schema).__name__}")
    refuse_declaration(schema or {})
    given = schema if schema is None or isinstance(schema, Kept) else dict(schema)
    # The validator looks at the schema first: it has the limits, and names the place of a mistake.
    # A validator of the user's takes its place: two judges would have to agree.
    judge = None if checks.validator is not None or given is None else Enforced(given, limits)
    accepted = None if given is None else _of_object(plain(given))
    binder = Foreign(
        tool=name,
        schema=_ANYTHING if accepted is None else accepted,
        judge=judge,
        checks=checks,
        coerce=options.coerce,
        pass_as=pass_as,
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
        **preset,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkTool:
    framework: str
    name: str
    description: str
    schema: Mapping[str, Any]
    fn: Callable[..., Any]  # runs a call, given its arguments as one dict, and a `ToolContext`
    needs_approval: bool = False


def of_framework(theirs: FrameworkTool, options: ToolOptions) -> dict[str, Any]:
    # An approval that its framework asks for is asked for here, too, whatever the options say.
    gate = options.needs_approval or theirs.needs_approval
    return of_schema(
        theirs.fn,
        theirs.schema,
        replace(options, name=options.name or theirs.name, needs_approval=gate),
        description=theirs.description,
        pass_as="mapping",
        limits=Limits(),
        schema_source="hand_written",
        owner=theirs.framework,
    )


def _checked(binder: TypedBinder, name: str, options: ToolOptions) -> TypedBinder:
    if options.validator is None and options.check is None:
        return binder
    checks = Checks(tool=name, validator=options.validator, check=options.check)
    judges = [binder.validator_name, *([] if options.validator is None else [options.validator.name])]
    return replace(binder, checks=checks, validator_name=", ".join(judges))


def _begun(target: object, options: ToolOptions) -> tuple[Callable[..., Any], str]:
    function = as_function(target)
    name = checked_name(function, options.name)
    check_options(name, options)
    if (namespace := _namespace(options)) is None:
        return function, name
    # The Responses API names a tool that was found by tool search in a namespace of the tool's own name, so that such a
    # call has to be one of the tool without a namespace.
    if name == namespace.name:
        raise refuse(name, "has the name of its namespace; give one of them another name")
    return function, qualified(namespace.name, name)


def _namespace(options: ToolOptions) -> Namespace | None:
    given = options.namespace
    return Namespace(given) if isinstance(given, str) else given


def _made(
    function: Callable[..., Any], options: ToolOptions, binder: Binder, *, results: Results, **preset: Any
) -> dict[str, Any]:
    # With `lazy`, the function has only name, text and signature: what it loads runs in a thread, sync or async.
    runs = function if options.lazy is None else LazyFunction(options.lazy)
    called = called_function(function)
    is_async = options.lazy is None and (inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called))
    for option in ("conflict_key", "idempotency_key"):
        _check_named(option, getattr(options, option), binder, preset["name"])
    for policy in policies_of(options.policy):
        _check_named("policy", getattr(policy, "names", ()), binder, preset["name"])
    if (options.commit or options.abort) and preset.get("growing") is None:
        raise refuse(preset["name"], "commit= and abort= require a parameter of type Growing")
    running = {option.name: getattr(options, option.name) for option in fields(RunOptions)}
    _check_examples(options, binder, preset["name"])
    group = {"namespace": _namespace(options), "hints": options.hints}
    returned = {"output_schema": results.schema, "_judge": results.judge}
    more = {"fn": runs, "is_async": is_async, **group, **returned, "_binder": binder}
    return {**running, **more, **preset}


def _check_examples(options: ToolOptions, binder: Binder, name: str) -> None:
    for number, example in enumerate(options.hints.examples if options.hints else ()):
        try:
            binder.validate(example, None)
        except InvalidArguments as error:
            problems = "; ".join(error.problems)
            raise refuse(name, f"hints.examples[{number}]: expected arguments that fit, got: {problems}") from None


def _check_named(option: str, given: object, binder: Binder, name: str) -> None:
    declared = binder.schema.get("properties")
    if not isinstance(declared, dict):
        return
    for each in [given] if isinstance(given, str) else given if isinstance(given, (list, tuple)) else ():
        if each not in declared:
            own = ", ".join(declared) or "it has none"
            raise refuse(name, f"{option}: expected one of its arguments ({own}), got {each!r}")


def _docstring(function: Callable[..., Any]) -> Docstring:
    inner = inner_function(function)
    text = inner.__doc__ or inspect.getdoc(inner) or ""  # an overriding method's may be inherited
    names = getattr(getattr(inner, "__code__", None), "co_varnames", ())
    return parse_docstring("" if text == type.__call__.__doc__ else text, names)


def _required(description: str, name: str) -> str:
    if not description:
        why = "by which the model decides when to call the tool"
        raise refuse(name, f"has no docstring; write one, {why} (Tool.from_schema also takes description=...)")
    return description


def _of_object(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type", "object")
    if isinstance(kind, (str, list)) and "object" not in ([kind] if isinstance(kind, str) else kind):
        raise SchemaError("expected the type 'object', since arguments are an object, got another type", path="#/type")
    return schema


class LazyFunction:
    """Loads an expensive function at the first call, once, whatever the number of threads that call. A loader that
    raises fails that call; the next one tries again.
    """

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self._load = load
        self._loaded: Callable[..., Any] | None = None
        # Reentrant: a loader that calls its own tool recurses into an error, and does not wait for itself.
        self._lock = threading.RLock()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        loaded = self._first() if self._loaded is None else self._loaded
        return loaded(*args, **kwargs)

    def _first(self) -> Callable[..., Any]:
        with self._lock:
            if self._loaded is None:
                loaded = self._load()
                if not callable(loaded):
                    raise TypeError(f"lazy: expected the loader to return a function, got a {type(loaded).__name__}")
                self._loaded = loaded
            return self._loaded
