"""Tools of other frameworks are known by the class of the object, and nothing is imported for them.

The classes here have the names and the parts that the frameworks' own have; those run in `tests/integrations`.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from single_calls import run_alone

from streamtools import ToolContext, tool
from streamtools.errors import ToolDefinitionError

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def made(package: str, kind: str, **parts: Any) -> Any:
    return type(kind, (), {"__module__": f"{package}.tools", **parts})()


class LangChain:
    __module__ = "langchain_core.tools.base"
    name, description, tool_call_schema, coroutine = "look", "Look.", SCHEMA, None

    def get_input_schema(self) -> Any:
        return type("Taken", (), {"model_fields": {"a": None}})

    def invoke(self, arguments: dict[str, Any]) -> int:
        return int(arguments["a"]) + 1


LangChain.__name__ = "BaseTool"


async def agents_invoke(ctx: Any, text: str) -> str:
    return f"{ctx.tool_call_id} {text}"


async def strands_stream(self: Any, use: dict[str, Any], state: dict[str, Any]) -> Any:
    yield {"tool_stream_event": {"data": "half"}}
    status = "error" if use["input"]["a"] > 5 else "success"
    blocks = [{"text": "too large"}] if status == "error" else [{"json": {"n": use["input"]["a"]}}]
    yield {"type": "tool_result", "tool_result": {"toolUseId": "x", "status": status, "content": blocks}}


async def test_a_tool_of_langchains_runs_by_its_schema() -> None:
    assert (await run_alone(LangChain(), {"a": 1})).value == 2  # type: ignore[arg-type]
    assert (await run_alone(LangChain(), {"a": "x"})).outcome == "invalid"  # type: ignore[arg-type]
    assert "langchain_core" not in sys.modules


async def test_a_tool_of_strands_reports_progress_and_its_result_is_read() -> None:
    spec = {"name": "look", "description": "Look.", "inputSchema": {"json": SCHEMA}}
    theirs = made("strands", "AgentTool", tool_spec=spec, stream=strands_stream)
    assert (await run_alone(theirs, {"a": 1})).value == {"n": 1}
    seen = await run_alone(theirs, {"a": 9})
    assert (seen.outcome, "too large" in seen.model_content) == ("failed", True)


async def test_a_tool_of_smolagents_has_a_schema_of_its_inputs() -> None:
    inputs = {
        "a": {"type": "integer", "description": "One."},
        "b": {"type": "any", "description": "Any.", "nullable": True},
        "c": {"type": ["string", "null"], "description": "Text."},
    }
    theirs = made(
        "smolagents", "Tool", name="look", description="Look.", inputs=inputs, __call__=lambda self, **given: given
    )
    one = tool(theirs)
    assert one.schema["properties"] == {
        "a": {"type": "integer", "description": "One."},
        "b": {"description": "Any."},
        "c": {"type": ["string", "null"], "description": "Text."},
    }
    assert one.schema["required"] == ["a", "c"]
    assert (await run_alone(theirs, {"a": 1, "c": None})).value == {"a": 1, "c": None}
    picture = made("smolagents", "Tool", name="look", description="Look.", inputs={"a": {"type": "image"}})
    with pytest.raises(ToolDefinitionError, match="takes a image, which JSON does not have"):
        tool(picture)


async def test_options_of_ours_stand_beside_the_frameworks_and_its_own_approval_stays() -> None:
    theirs = made(
        "agents", "FunctionTool", name="pay", description="Pay.", params_json_schema=SCHEMA,
        on_invoke_tool=staticmethod(agents_invoke), needs_approval=True,
    )  # fmt: skip
    one = tool(theirs, effect="pure", name="pay_now")
    assert (one.name, one.effect, one.needs_approval, one.owner) == ("pay_now", "pure", True, "openai-agents")


def test_what_only_looks_like_a_frameworks_tool_is_a_function_like_any_other() -> None:
    class FunctionTool:
        """Look."""

        def __call__(self, a: int, ctx: ToolContext) -> int:
            """Look."""
            return a

    assert (tool(FunctionTool()).name, tool(FunctionTool()).owner) == ("FunctionTool", None)
