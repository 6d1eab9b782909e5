"""Says what to write in place of an option that a function does not have, such as the word of another library."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ..errors import SchemaError
from ..limits import Limits

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = {
    "model system system_prompt instructions temperature max_tokens client tool_choice": "put it into your request",
    "max_steps max_turns max_iterations recursion_limit": "write max_steps=... in agent_loop",
    "stop stop_when stopWhen until": "write stop=lambda turn: ... in agent_loop",
    "timeout": "write limits=Limits(tool_timeout=..., run_timeout=...)",
    "max_retries retries": "write retry=Retry(attempts=...)",
    "needs_approval require_approval interrupt_on": "write it on the tool: @tool(needs_approval=True)",
    "on_approval approval_handler can_use_tool": "write approve=..., a function of an ApprovalRequested",
    "deps dependencies state": "write context=..., which a tool reads as ctx.context",
    "callbacks handlers hooks on_event": "iterate over the events, or write trajectory=Trajectory(observers=[...])",
    "observers": "write trajectory=Trajectory(observers=[...]), which all steps share",
    "functions toolset toolsets": "write tools=[...]",
    "guardrails input_guardrails output_guardrails": "write capabilities=[...], with a rule or a filter",
    "journal memory session checkpointer": "write journal=... in agent_loop, or store=...",
    "output_type response_model response_format": "write output=...",
    "conversation_id thread_id session_id": "write conversation_id=... in agent_loop",
}
_OF_CHATS = {
    "agent handler on_message": "write run=..., a function that returns agent_loop(...)",
    "store db database path url": "write records=...",
    "auth authorize may": "write it in chats.app(may=...)",
    "ttl retention": "write keep=..., in seconds",
}
_OF_TOOLS = {
    "description": "the docstring is the description; Tool.from_schema takes one",
    "parameters schema": "type hints make it; Tool.from_schema takes one that you wrote by hand",
    "strict": "a tool is made strict for a request: tool.to(wire, strict=True)",
    "requires_approval require_approval needsApproval": "write needs_approval=...",
    "read_only readonly readOnlyHint": "write effect='pure'",
    "idempotent": "write effect='idempotent', or 'once' for what must not happen twice",
}
_KEYWORDS = {"properties", "patternProperties", "additionalProperties", "required", "$ref", "allOf", "anyOf", "oneOf"}


def explained(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function refuse an option that it does not have with the words to write instead."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        code = function.__code__
        known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        function.__qualname__ = name  # in Python's own errors

        @wraps(function)
        def checked(*given: P.args, **options: P.kwargs) -> Any:
            if not known.issuperset(options):
                refuse_unknown(name, options, known - {"self"})
            return function(*given, **options)

        return checked

    return decorate


def needs_wire(function: Callable[P, R]) -> Callable[P, R]:
    """Has `agent_loop` say which wires there are, where Python would only say that ``wire`` is missing."""

    @wraps(function)
    def checked(*given: P.args, **options: P.kwargs) -> R:
        if "wire" not in options:
            from ..wires import names  # only for a mistake

            what = "the format that your function's requests and streams have"
            raise TypeError(f"agent_loop needs wire=, {what}; known: {', '.join(names())}")
        return function(*given, **options)

    return checked


def refuse_unknown(function: str, options: Iterable[str], known: Collection[str]) -> None:
    """Raises a `TypeError` for the first option that is not known, with the words to write instead."""
    for name in sorted(set(options) - set(known)):
        raise TypeError(f"{function} has no option {name!r}; {_instead_of(name, known)}")


def refuse_declaration(schema: Mapping[str, Any]) -> None:
    """Raises a `SchemaError` for a tool's declaration in place of its schema, with the key of the schema."""
    if schema.get("type") == "object" or not _KEYWORDS.isdisjoint(schema):
        return
    function = schema.get("function")
    outer, declaration = ("['function']", function) if isinstance(function, Mapping) else ("", schema)
    for key in ("input_schema", "inputSchema", "parameters"):
        if isinstance(declaration.get(key), Mapping):
            what = "this is the declaration of a tool, not its parameters' schema"
            raise SchemaError(f"{what}: pass schema{outer}[{key!r}], with name= and description=")


def _instead_of(option: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only for a mistake

    rows = _OF_TOOLS if "effect" in known else _WORDS | _OF_CHATS if "records" in known else _WORDS
    for words, instead in rows.items():
        if option in words.split():
            return instead
    if option in Limits.__dataclass_fields__ and "effect" not in known:
        return f"it is a limit; write limits=Limits({option}=...)"
    near = get_close_matches(option, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
