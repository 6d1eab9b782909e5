"""Whether a payload's call may run, and what is said where it may not."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from profiles import every

from streamtools import Tool, ToolContext, tool
from streamtools.modes import (
    AskAgain,
    JSONObjectAdapter,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    Payload,
    RetriesSpent,
    RetryBudget,
    ToolCallingAdapter,
    ToolCallValidation,
    ValidatedAdapter,
)
from streamtools.text_calls.validation import unchecked


@tool(effect="pure")
def search(query: str, limit: int = 3, since: date | None = None) -> str:
    """Search the web."""
    return f"{limit} results for {query} since {since}"


@tool
def act(kind: Literal["a", "b"], ctx: ToolContext) -> str:
    """Do something."""
    return kind


TOOLS: dict[str, Tool] = {"search": search, "act": act}
JUDGING: list[ToolCallingAdapter] = [
    NativeToolAdapter(),
    OpenAIStructuredAdapter(),
    OpenAIStructuredAdapter(strict=False),
    JSONObjectAdapter(),
    ValidatedAdapter(),
    ValidatedAdapter(NativeToolAdapter()),
]


def call(**arguments: Any) -> Payload:
    return {"tool": "search", "arguments": arguments}


@every("adapter", JUDGING)
def test_good_arguments_come_back_typed_and_with_defaults(adapter: ToolCallingAdapter) -> None:
    found = adapter.validate_tool_call(call(query="x", since="2026-01-02", limit=3), TOOLS)
    assert found == ToolCallValidation(is_valid=True, arguments={"query": "x", "limit": 3, "since": date(2026, 1, 2)})
    assert search(**found.arguments or {}) == "3 results for x since 2026-01-02"


WRONG: list[tuple[Payload | None, str]] = [
    (call(query=123), "ArgValidationError: query\n  Input should be a valid string"),
    (call(), "ArgValidationError: query\n  Field required"),
    (
        call(query=1, limit=[]),
        "ArgValidationError: query\n  Input should be a valid string\nlimit\n  Input should be a valid integer",
    ),
    ({"tool": "act", "arguments": {"kind": "c"}}, "ArgValidationError: kind\n  Input should be 'a' or 'b'"),
    (
        {"tool": "act", "arguments": {"kind": "a", "ctx": 1}},
        "ArgValidationError: ctx\n  Is not an argument of this tool",
    ),
    ({"tool": "search", "arguments": "{"}, "ArgValidationError: arguments\n  Input should be a valid JSON object"),
    ({"tool": "search", "arguments": [1]}, "ArgValidationError: arguments\n  Input should be a valid JSON object"),
    ({"tool": "rm", "arguments": {}}, "unknown tool 'rm'; available tools: act, search"),
    ({"tool": 5, "arguments": {}}, "the response has no tool call"),
    ({"answer": "x"}, "the response has no tool call"),
    (None, "the response has no tool call"),
]


@every(("payload", "message"), WRONG)
def test_what_is_wrong_is_said_in_pydantics_words(payload: Any, message: str) -> None:
    for adapter in (ValidatedAdapter(), NativeToolAdapter()):
        found = adapter.validate_tool_call(payload, TOOLS)
        assert not found.is_valid
        assert found.arguments is None
        assert found.error_message is not None
        assert found.error_message == message or found.error_message.startswith(f"{message},")


def test_structured_arguments_are_read_as_the_schema_had_them_written() -> None:
    payload = {"tool": "search", "arguments": {"query": "x", "limit": None, "since": None}}
    found = OpenAIStructuredAdapter().validate_tool_call(payload, TOOLS)
    assert found.arguments == {"query": "x", "limit": 3, "since": None}
    assert not ValidatedAdapter().validate_tool_call(payload, TOOLS).is_valid


# -- without validation -----------------------------------------------------------------------------------------


def test_parsed_arguments_pass_as_they_are_and_the_record_says_so() -> None:
    found = ParsedAdapter().validate_tool_call(call(query=123, unheard="of"), TOOLS)
    assert found == ToolCallValidation(is_valid=True, arguments={"query": 123, "unheard": "of"}, validated=False)


def test_a_tool_that_takes_what_comes_is_otherwise_the_same() -> None:
    loose = unchecked(search)
    assert (loose.name, loose.schema, loose.fingerprint) == (search.name, search.schema, search.fingerprint)
    assert (loose.validator, loose.boundary, loose.check()) == (None, "advisory", [])


# -- asking again ------------------------------------------------------------------------------------------------


def test_a_model_is_told_what_was_wrong_until_the_budget_is_spent() -> None:
    budget = RetryBudget()
    first = budget.failed("ArgValidationError: query\n  Field required")
    content = "Error: ArgValidationError: query\n  Field required. Try again."
    assert first == AskAgain(message={"role": "user", "content": content}, attempt=1, left=1)
    assert budget.failed("again") == AskAgain(
        message={"role": "user", "content": "Error: again. Try again."}, attempt=2, left=0
    )
    assert budget.failed("and again") == RetriesSpent(attempts=2, error_message="and again")
