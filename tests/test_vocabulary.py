"""The words that everything speaks: errors, events and the turn."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest
from streams import chat, stream

from streamtools import Observation, StreamToolsError, ToolCall, errors, parse, pipeline, tool
from streamtools.errors import (
    LimitExceeded,
    ProviderError,
    RemoteProtocolError,
    StreamError,
    ToolTimeout,
    TruncatedStream,
    UnknownTool,
)

REPOSITORY = Path(__file__).resolve().parent.parent

# -- errors ------------------------------------------------------------------------------------------------------------


def error_classes() -> dict[str, type[BaseException]]:
    members = vars(errors).values()
    return {c.__name__: c for c in members if isinstance(c, type) and issubclass(c, StreamToolsError)}


def test_every_error_stands_in_the_tree_of_its_page_below_its_base() -> None:
    page = (REPOSITORY / "docs" / "guide" / "errors.md").read_text(encoding="utf-8")
    drawn = page[page.index("```text") :]
    assert set(errors.__all__) == set(error_classes())
    tree: list[tuple[int, str]] = []
    for line in drawn.splitlines():
        if name := next((word for word in line.replace("─", " ").split() if word in error_classes()), None):
            depth = line.index(name)
            bases = [above for column, above in tree if column < depth]
            assert not bases or issubclass(error_classes()[name], error_classes()[bases[-1]])
            tree = [*((column, above) for column, above in tree if column < depth), (depth, name)]
    assert all(name in drawn for name in error_classes())


def test_an_error_can_be_caught_as_what_python_calls_it() -> None:
    assert issubclass(errors.LocalProtocolError, RuntimeError)
    assert issubclass(errors.ToolDefinitionError, TypeError)
    assert issubclass(errors.ExportError, ValueError)
    assert issubclass(errors.InvalidArguments, ValueError)
    assert not issubclass(StreamError, errors.ToolError)


def test_a_stream_error_has_a_code_for_programs_and_words_for_people() -> None:
    told = [
        (RemoteProtocolError("odd"), "protocol_error", "odd"),
        (RemoteProtocolError("odd", kind="malformed_chunk"), "malformed_chunk", "odd"),
        (TruncatedStream("cut"), "stream_truncated", "cut"),
        (ProviderError("no", code=429, type="t"), "provider_error", "no (429, t)"),
        (LimitExceeded("max_text_bytes", limit=3, value=4), "limit_exceeded", "max_text_bytes=3"),
    ]
    for error, kind, words in told:
        assert error.kind == kind
        assert words in str(error)
        assert str(error).startswith(error.message)


def test_an_error_about_one_call_names_what_would_have_been_right() -> None:
    assert "search, get_time" in str(UnknownTool("serch", available=["search", "get_time"]))
    assert "without a tool name" in str(UnknownTool("", available=["search"]))
    assert "none" in str(UnknownTool("x"))
    assert "2.5 s" in str(ToolTimeout(2.5))


# -- events ------------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_observation_cannot_be_changed() -> None:
    @tool(effect="pure")
    async def f() -> str:
        """Tell."""
        return "secret"

    source = stream(chat(calls=[("a", "f", "{}")]))
    (seen,) = (await pipeline(source, tools=[f])).observations
    made = Observation(call_id="a", tool_name="f", outcome="ok", value={"x": 1}, model_content="secret")
    for observation in (seen, made):
        assert "secret" not in repr(observation)
        assert "secret" not in observation.report()
        check_frozen(observation, replace(observation, seq=observation.seq), "outcome")


def check_frozen(one: Any, replaced: Any, name: str) -> None:
    for loaded in (one, pickle.loads(pickle.dumps(one)), copy.copy(one), replaced):
        assert loaded == one
        with pytest.raises(FrozenInstanceError):
            setattr(loaded, name, getattr(one, name))


# -- the turn ----------------------------------------------------------------------------------------------------------


def test_a_turn_and_its_calls_cannot_be_changed() -> None:
    turn = parse(chat(["Hi"], [("a", "f", "{}")]))
    with pytest.raises(FrozenInstanceError):
        turn.complete = False  # type: ignore[misc]
    check_frozen(turn.calls[0], replace(turn.calls[0]), "dispatchable")
    assert isinstance(turn.calls[0], ToolCall)
