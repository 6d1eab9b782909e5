"""Fifty mistakes of a first day, and more: each is answered by an error that says what to write."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from typing import Any

import httpx
import pytest
from first_day.mistakes import MISTAKES, PRELUDE, Mistake

from streamtools import errors

INTERNALS = re.compile(r" at 0x[0-9a-f]+|__\w+__|object is not|object has no|positional argument")
MOST_CHARACTERS = 420  # of a message: a list of all wires is the longest part of any

pytestmark = pytest.mark.anyio


async def fault_of(mistake: Mistake) -> str | None:
    """Runs a program; returns what is wrong with the answer, or None."""
    names: dict[str, Any] = {}
    exec(compile(PRELUDE, "prelude", "exec"), names)
    program = compile(mistake.wrote, mistake.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        if inspect.isawaitable(waiting := eval(program, names)):
            await waiting
    except Exception as error:
        return fault_in(error, mistake)
    return "nothing was raised"


def fault_in(error: Exception, mistake: Mistake) -> str | None:
    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    good = (
        isinstance(error, type_named(mistake.error))
        and mistake.says in said
        and len(said) <= MOST_CHARACTERS
        and "\n" not in said
        and not INTERNALS.search(said)
    )
    return None if good else f"{type(error).__name__}: {said}"


def type_named(name: str) -> type[BaseException]:
    module, _, own = name.rpartition(".")
    found = getattr(httpx if module else errors, own, None) or getattr(builtins, own)
    assert issubclass(found, BaseException)
    return found


@pytest.mark.parametrize("subject", MISTAKES)
async def test_a_mistake_is_answered_by_what_to_write(subject: str) -> None:
    faults = {mistake.name: await fault_of(mistake) for mistake in MISTAKES[subject]}
    assert {name: fault for name, fault in faults.items() if fault is not None} == {}


def test_a_program_without_a_mistake_is_not_taken_for_answered() -> None:
    assert fault_in(KeyError("x"), Mistake("", "", "TypeError", "x")) == "KeyError: 'x'"
    assert fault_in(TypeError("'f' object is not iterable"), Mistake("", "", "TypeError", "f")) is not None
    assert fault_in(TypeError("write [f]"), Mistake("", "", "TypeError", "write [f]")) is None


def test_there_are_fifty_mistakes_and_each_has_a_name_of_its_own() -> None:
    names = [mistake.name for mistakes in MISTAKES.values() for mistake in mistakes]
    assert len(names) >= 50
    assert len(set(names)) == len(names)
