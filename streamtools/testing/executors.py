"""Checks that an `Executor` keeps its promises, and raises `AssertionError` if not; see `check_executor`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio

from ..dispatch.executors import Executor
from ..tools import Tool
from .checks import CHECKS, CLOSING, LOST_WORKER, Bench, Check
from .executor_tools import TOOLS

__all__ = ["CHECKS", "MakeExecutor", "check_executor"]

MakeExecutor: TypeAlias = Callable[[list[Tool[..., Any]]], Executor]
"""Makes a fresh executor for these tools."""

WAIT_S = 20.0  # for each check; a worker may have to start


async def check_executor(
    make_executor: MakeExecutor, *, tools: Literal["async", "sync"] = "async", own_processes: bool = False
) -> list[str]:
    """Checks that an executor keeps the promises of `Executor`. Run it on every event loop that you support.

        @pytest.mark.anyio
        async def test_my_executor_does_what_executors_do() -> None:
            await check_executor(lambda tools: MyExecutor(tools))

    Args:
        make_executor: makes a fresh executor for the given tools, which are functions of
            ``streamtools.testing.executor_tools``; at least two calls must run at once. One executor serves all checks
            but those that close it. The tools count their effects in a file of this machine. Leaving the executor twice
            must do no harm.
        tools: the form of tool that the executor runs.
        own_processes: tools run in other processes of this machine; one of them is then killed, too.

    Returns:
        The names of the checks, in order.

    Raises:
        AssertionError: the executor breaks a promise, which the text names. The remaining checks are not run.
    """
    together = [check for check in CHECKS if check not in CLOSING] + list(LOST_WORKER if own_processes else ())
    rounds = [together, *([check] for check in CLOSING)]
    for checks in rounds:
        await _checked(checks, make_executor(list(TOOLS[tools])))
    return [_name(check) for checks in rounds for check in checks]


async def _checked(checks: Sequence[Check], executor: Executor) -> None:
    """Runs checks on one executor; raises only after its end, since its own task group may wrap an error that passes
    through."""
    failed: AssertionError | None = None
    try:
        with anyio.fail_after(WAIT_S * (len(checks) + 1)):
            async with executor:
                for check in checks:
                    failed = await _failed(check, executor)
                    if failed is not None:
                        break
    except Exception as error:  # raised while it was entered or left
        failed = failed or AssertionError(f"{_name(checks[-1])}: {error!r}")
        failed.__cause__ = failed.__cause__ or error
    if failed is not None:
        raise failed


async def _failed(check: Check, executor: Executor) -> AssertionError | None:
    with tempfile.TemporaryDirectory() as directory:
        try:
            with anyio.fail_after(WAIT_S):
                await check(Bench(executor, Path(directory, "marks")))
        except Exception as error:
            reason = f"it takes longer than {WAIT_S:g} s" if isinstance(error, TimeoutError) else repr(error)
            failed = AssertionError(f"{_name(check)}: {reason}")
            failed.__cause__ = error
            return failed
    return None


def _name(check: Check) -> str:
    return getattr(check, "__name__", repr(check))
