"""Reads the tool objects of other frameworks, so that each can be used without a wrapper function.

    langchain_core  BaseTool       its schema for calls, `ainvoke`, or `invoke` in a thread
    agents          FunctionTool   openai-agents: its schema, `on_invoke_tool`
    pydantic_ai     Tool           its function's schema, and that function
    smolagents      Tool           a schema made of its `inputs`; called in a thread
    strands         AgentTool      its specification, and the result at the end of `stream`

A tool with parameters that only its framework can fill is refused. A framework's error for the model is one in this
package, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any

from pydantic_core import to_json

from ..errors import ModelRetry, ToolDefinitionError, ToolError
from ..tools import ToolContext
from ..tools.definition import FrameworkTool


def langchain(theirs: Any) -> FrameworkTool:
    called, accepted = theirs.tool_call_schema, theirs.get_input_schema()
    schema = called if isinstance(called, Mapping) else called.model_json_schema()
    seen = schema.get("properties", {})
    # Parameters that LangChain leaves out of the model's schema are those that it fills itself.
    hidden = {*getattr(accepted, "model_fields", ()), *getattr(theirs, "_injected_args_keys", ())} - {*seen}
    _refuse_injected(theirs.name, "LangChain", [name for name in sorted(hidden) if name != "v__args"])

    async def invoked(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return await _worded(lambda: theirs.ainvoke(arguments))

    def invoked_in_thread(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        try:
            return theirs.invoke(arguments)
        except Exception as error:
            raise _for_the_model(error) from error

    return FrameworkTool(
        framework="LangChain",
        name=theirs.name,
        description=theirs.description,
        schema=schema,
        fn=invoked if _is_async(theirs) else invoked_in_thread,
    )


def _is_async(theirs: Any) -> bool:
    # Otherwise LangChain hands the work to a thread, which an `invoke` in one of ours saves.
    if hasattr(theirs, "coroutine"):
        return theirs.coroutine is not None
    return not type(theirs)._arun.__module__.startswith("langchain_core.")


def openai_agents(theirs: Any) -> FrameworkTool:
    async def invoked(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        text = to_json(arguments).decode()
        made = sys.modules["agents.tool_context"].ToolContext  # loaded, since its tool is there
        context = made(context=None, tool_name=theirs.name, tool_call_id=ctx.call_id, tool_arguments=text)
        return await _worded(lambda: theirs.on_invoke_tool(context, text))

    gate = getattr(theirs, "needs_approval", False)
    return FrameworkTool(
        framework="openai-agents",
        name=theirs.name,
        description=theirs.description,
        schema=theirs.params_json_schema,
        fn=invoked,
        # A function of theirs decides by the state of their run, which does not exist: so each call asks.
        needs_approval=gate is not False,
    )


def pydantic_ai(theirs: Any) -> FrameworkTool:
    made = theirs.function_schema
    _refuse_injected(theirs.name, "pydantic-ai", ["a RunContext"] if theirs.takes_ctx else [])

    async def invoked(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        # By its own validator, which makes the types that its function wants: ours has only judged the plain values.
        return await _worded(lambda: made.call(made.validator.validate_python(arguments), None))

    return FrameworkTool(
        framework="pydantic-ai",
        name=theirs.name,
        description=theirs.description or "",
        schema=made.json_schema,
        fn=invoked,
        needs_approval=bool(getattr(theirs, "requires_approval", False)),
    )


_SMOL_TYPES = frozenset({"string", "boolean", "integer", "number", "array", "object", "null"})


def smolagents(theirs: Any) -> FrameworkTool:
    def called(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return theirs(**arguments)

    inputs: Mapping[str, Mapping[str, Any]] = theirs.inputs
    for name, given in inputs.items():
        types = {given["type"]} if isinstance(given["type"], str) else {*given["type"]}
        if not types <= _SMOL_TYPES | {"any"}:
            why = f"takes a {given['type']}, which JSON does not have"
            raise ToolDefinitionError(
                f"tool {theirs.name!r}, parameter {name!r}: {why}", tool=theirs.name, parameter=name
            )
    schema = {
        "type": "object",
        "properties": {name: _smol_schema(given) for name, given in inputs.items()},
        "required": [name for name, given in inputs.items() if not given.get("nullable")],
        "additionalProperties": False,
    }
    return FrameworkTool(
        framework="smolagents", name=theirs.name, description=theirs.description, schema=schema, fn=called
    )


def _smol_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in given.items() if key not in ("type", "nullable")}
    kinds = [given["type"]] if isinstance(given["type"], str) else [*given["type"]]
    if "any" in kinds:
        return kept
    kinds += ["null"] if given.get("nullable") and "null" not in kinds else []
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **kept}


def strands(theirs: Any) -> FrameworkTool:
    spec = theirs.tool_spec
    schema = spec["inputSchema"]

    async def invoked(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        last: Any = None
        use = {"toolUseId": ctx.call_id, "name": spec["name"], "input": arguments}
        async for event in theirs.stream(use, {}):
            last = event
            if isinstance(event, Mapping) and "tool_stream_event" in event:
                ctx.progress(event["tool_stream_event"].get("data"))
        return _strands_value(last.get("tool_result", last) if isinstance(last, Mapping) else last)

    return FrameworkTool(
        framework="Strands",
        name=spec["name"],
        description=spec["description"],
        schema=schema.get("json", schema),
        fn=invoked,
    )


def _strands_value(result: Any) -> Any:
    if not isinstance(result, Mapping) or "content" not in result:
        return result
    blocks = result["content"]
    texts = [block["text"] for block in blocks if "text" in block]
    if result.get("status") == "error":
        raise ToolError("\n".join(texts) or "the tool failed")
    if len(blocks) == 1:
        (block,) = blocks
        return block.get("text", block.get("json", block))
    return "\n".join(texts) if len(texts) == len(blocks) else blocks


async def _worded(work: Callable[[], Any]) -> Any:
    try:
        value = work()
        return await value if isawaitable(value) else value
    except Exception as error:
        raise _for_the_model(error) from error


_ERRORS: Mapping[tuple[str, str], type[ToolError]] = {
    ("langchain_core", "ToolException"): ToolError,
    ("pydantic_ai", "ModelRetry"): ModelRetry,
}


def _for_the_model(error: Exception) -> Exception:
    # Of any other exception the model reads the type alone, as of those of our own tools.
    for kind in type(error).__mro__:
        ours = _ERRORS.get((kind.__module__.partition(".")[0], kind.__name__))
        if ours is not None:
            return ours(str(error))
    return error


def _refuse_injected(tool: str, framework: str, names: list[str]) -> None:
    if names:
        raise ToolDefinitionError(
            f"tool {tool!r}: takes {', '.join(names)}, which only {framework} can fill; write a function that takes "
            "a streamtools.ToolContext instead",
            tool=tool,
        )
