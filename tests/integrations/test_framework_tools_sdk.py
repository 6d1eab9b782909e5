"""Tools of other frameworks are tools here: the real ones, where they are installed."""

from __future__ import annotations

from typing import Any

import pytest

from streamtools import Observation, Tool, run_calls, tool
from streamtools.errors import ToolDefinitionError

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # the frameworks know no other


async def seen(made: Any, *arguments: dict[str, Any], **options: Any) -> list[Observation]:
    one = tool(made)
    calls = [(f"call_{number}", one.name, given) for number, given in enumerate(arguments)]
    return list((await run_calls(calls, [made], **options)).observations)


def properties(made: Tool) -> set[str]:
    return set(made.schema["properties"])


async def test_langchains_tools_run_and_their_errors_for_the_model_are_told() -> None:
    langchain = pytest.importorskip("langchain_core.tools")

    @langchain.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @langchain.tool
    async def late(a: int) -> int:
        """Add later."""
        if a > 5:
            raise langchain.ToolException("too large")
        return a

    (one,) = await seen(add, {"a": 1, "b": 2})
    assert (one.outcome, one.value, one.owner) == ("ok", 3, "LangChain")
    fine, large, wrong = await seen(late, {"a": 1}, {"a": 9}, {"a": "x"})
    assert (fine.value, large.outcome, wrong.outcome) == (1, "failed", "invalid")
    assert "too large" in large.model_content
    assert tool(add).description == "Add two numbers."


async def test_a_tool_of_langchains_that_wants_to_be_filled_is_refused() -> None:
    langchain = pytest.importorskip("langchain_core.tools")
    from typing import Annotated

    def keyed(a: int, call: Annotated[str, langchain.InjectedToolCallId]) -> int:
        """Add."""
        return a

    keyed.__annotations__["call"] = Annotated[str, langchain.InjectedToolCallId]
    keyed.__annotations__["a"] = keyed.__annotations__["return"] = int
    with pytest.raises(ToolDefinitionError, match="takes call, which only LangChain can fill"):
        tool(langchain.tool(keyed))


async def test_openai_agents_tools_run_and_wait_for_their_approval() -> None:
    agents = pytest.importorskip("agents")

    @agents.function_tool
    async def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    @agents.function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    (one,) = await seen(add, {"a": 1, "b": 2})
    assert (one.value, one.owner, properties(tool(add))) == (3, "openai-agents", {"a", "b"})
    asked: list[str] = []
    (paid,) = await seen(pay, {"amount": 1}, approve=lambda request: asked.append(request.tool_name) or True)
    assert (paid.value, asked) == ("paid 1", ["pay"])


async def test_pydantic_ais_tools_run_and_ask_for_another_try() -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")

    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        if a > 5:
            raise pydantic_ai.ModelRetry("smaller, please")
        return a + b

    fine, large = await seen(pydantic_ai.Tool(add), {"a": 1}, {"a": 9})
    assert (fine.value, fine.owner, type(large.error).__name__) == (3, "pydantic-ai", "ModelRetry")

    def told(ctx: Any, a: int) -> int:
        """Tell."""
        return a

    told.__annotations__ = {"ctx": pydantic_ai.RunContext[int], "a": int, "return": int}
    with pytest.raises(ToolDefinitionError, match="takes a RunContext, which only pydantic-ai can fill"):
        tool(pydantic_ai.Tool(told))


async def test_smolagents_tools_run() -> None:
    smolagents = pytest.importorskip("smolagents")

    class Add(smolagents.Tool):  # type: ignore[misc,name-defined]
        name, description, output_type = "add", "Add two numbers.", "integer"
        inputs = {  # noqa: RUF012
            "a": {"type": "integer", "description": "One."},
            "b": {"type": "integer", "description": "Other.", "nullable": True},
        }

        def forward(self, a: int, b: int | None = None) -> int:
            return a + (b or 0)

    one, other, wrong = await seen(Add(), {"a": 1, "b": 2}, {"a": 1}, {"b": 1})
    assert (one.value, one.owner, other.value, wrong.outcome) == (3, "smolagents", 1, "invalid")


async def test_strands_tools_run_report_progress_and_say_their_errors() -> None:
    strands = pytest.importorskip("strands")

    @strands.tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        if a > 5:
            raise ValueError("too large")
        return a + b

    fine, large = await seen(add, {"a": 1}, {"a": 9})
    assert (fine.value, fine.owner, large.outcome) == ("3", "Strands", "failed")
    assert "too large" in large.model_content
