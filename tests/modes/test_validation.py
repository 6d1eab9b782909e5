"""Whether a payload's call may run, and what is said where it may not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from datetime import date
from typing import Any, Literal

import pytest

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
from streamtools.modes.reading import unchecked


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


@pytest.mark.parametrize("adapter", JUDGING)
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


@pytest.mark.parametrize(("payload", "message"), WRONG)
def test_what_is_wrong_is_said_in_pydantics_words(payload: Any, message: str) -> None:
    for adapter in (ValidatedAdapter(), NativeToolAdapter()):
        found = adapter.validate_tool_call(payload, TOOLS)
        assert not found.is_valid
        assert found.arguments is None
        assert found.error_message is not None
        assert found.error_message == message or found.error_message.startswith(f"{message},")


def test_many_problems_are_counted() -> None:
    @tool
    def total(numbers: list[int]) -> int:
        """Add numbers."""
        return sum(numbers)

    found = ValidatedAdapter().validate_tool_call(
        {"tool": "total", "arguments": {"numbers": ["x"] * 40}}, {"total": total}
    )
    assert (found.error_message or "").endswith("\nand 24 more")


def test_no_message_repeats_what_the_model_sent() -> None:
    secret = "hunter2-hunter2"
    for arguments in ({"query": [secret]}, {"query": "x", "limit": secret}, {"query": "x", "since": secret}):
        found = ValidatedAdapter().validate_tool_call(call(**arguments), TOOLS)
        assert secret not in str(found)
        assert not found.is_valid


def test_arguments_do_not_show_in_a_representation() -> None:
    assert "hunter2" not in repr(ValidatedAdapter().validate_tool_call(call(query="hunter2"), TOOLS))


def test_a_verdict_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        ToolCallValidation(is_valid=True).is_valid = False  # type: ignore[misc]


def test_a_function_may_stand_among_the_tools() -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    found = NativeToolAdapter().validate_tool_call({"tool": "double", "arguments": {"number": 4}}, {"double": double})
    assert found.arguments == {"number": 4}


def test_structured_arguments_are_read_as_the_schema_had_them_written() -> None:
    payload = {"tool": "search", "arguments": {"query": "x", "limit": None, "since": None}}
    found = OpenAIStructuredAdapter().validate_tool_call(payload, TOOLS)
    assert found.arguments == {"query": "x", "limit": 3, "since": None}
    assert not ValidatedAdapter().validate_tool_call(payload, TOOLS).is_valid


# -- without validation -----------------------------------------------------------------------------------------


def test_parsed_arguments_pass_as_they_are_and_the_record_says_so() -> None:
    found = ParsedAdapter().validate_tool_call(call(query=123, unheard="of"), TOOLS)
    assert found == ToolCallValidation(is_valid=True, arguments={"query": 123, "unheard": "of"}, validated=False)


@pytest.mark.parametrize(
    "payload", [payload for payload, _ in WRONG if not isinstance((payload or {}).get("arguments"), dict)]
)
def test_what_is_no_call_does_not_pass_even_so(payload: Any) -> None:
    found = ParsedAdapter().validate_tool_call(payload, TOOLS)
    assert not found.is_valid
    assert not found.validated


def test_a_tool_that_takes_what_comes_is_otherwise_the_same() -> None:
    loose = unchecked(search)
    assert (loose.name, loose.schema, loose.fingerprint) == (search.name, search.schema, search.fingerprint)
    assert (loose.validator, loose.boundary, loose.check()) == (None, "advisory", [])


def test_validation_around_it_rejects_what_it_lets_pass() -> None:
    found = ValidatedAdapter(ParsedAdapter()).validate_tool_call(call(query=123), TOOLS)
    assert found.error_message == "ArgValidationError: query\n  Input should be a valid string"
    assert found.validated


class Mine:
    """An adapter of a user's: three methods."""

    def format_request(self, tools: Any, messages: Any) -> dict[str, Any]:
        return {"mine": True}

    def extract_tool_call(self, response: Any) -> Payload | None:
        return json.loads(response) if response else None

    def validate_tool_call(self, payload: Payload, tools_by_name: Mapping[str, Any]) -> ToolCallValidation:
        if payload["arguments"].get("query") == "forbidden":
            return ToolCallValidation(is_valid=False, error_message="not that")
        return ToolCallValidation(is_valid=True, arguments=payload["arguments"], validated=False)


def test_validation_wraps_an_adapter_of_the_users() -> None:
    adapter = ValidatedAdapter(Mine())
    assert adapter.format_request([search], []) == {"mine": True}
    payload = adapter.extract_tool_call(json.dumps(call(query=1)))
    assert payload == call(query=1)
    assert not adapter.validate_tool_call(payload, TOOLS).is_valid
    assert adapter.validate_tool_call(call(query="forbidden"), TOOLS).error_message == "not that"
    assert adapter.validate_tool_call(call(query="x"), TOOLS).is_valid
    assert not adapter.validate_tool_call(None, TOOLS).is_valid


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


def test_success_gives_the_budget_back() -> None:
    budget = RetryBudget(1)
    assert isinstance(budget.failed("x"), AskAgain)
    budget.succeeded()
    assert isinstance(budget.failed("x"), AskAgain)
    assert isinstance(budget.failed("x"), RetriesSpent)


def test_a_response_without_payload_is_told_so() -> None:
    outcome = RetryBudget(0).failed(None)
    assert isinstance(outcome, RetriesSpent)
    assert "no JSON object" in outcome.error_message


def test_a_budget_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="RetryBudget: expected a limit of 0 or more, got -1"):
        RetryBudget(-1)


@pytest.mark.parametrize("answers", [2, 5])
def test_a_scripted_model_corrects_itself_or_the_budgets_end_is_reported(answers: int) -> None:
    """The model sends a number for the query `answers` times, and then a text."""
    adapter, budget = ValidatedAdapter(), RetryBudget()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Search."}]
    script = [json.dumps(call(query=1))] * answers + [json.dumps(call(query="x"))]
    outcome: Any = None
    for response in script:
        payload = adapter.extract_tool_call(response)
        found = adapter.validate_tool_call(payload, TOOLS)
        if found.is_valid:
            outcome = search(**found.arguments or {})
            break
        step = budget.failed(found.error_message)
        if isinstance(step, RetriesSpent):
            outcome = step
            break
        messages += [adapter.format_assistant_message(response), step.message]
    assert len(messages) == 5
    assert messages[-1]["content"].startswith("Error: ArgValidationError: query\n  Input should be a valid string")
    if answers == 2:
        assert outcome == "3 results for x since None"
    else:
        assert outcome == RetriesSpent(
            attempts=2, error_message="ArgValidationError: query\n  Input should be a valid string"
        )
