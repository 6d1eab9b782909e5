"""What any `Executor` must do, as checks that raise `AssertionError`; see `check_executor`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio

from ..dispatch.executors import Executor
from ..tools import Tool
from .bench import Bench
from .checks import CHECKS, LOST_WORKER, Check
from .tools import TOOLS

__all__ = ["CHECKS", "MakeExecutor", "check_executor"]

MakeExecutor: TypeAlias = Callable[[list[Tool[..., Any]]], Executor]
"""Makes a fresh executor for these tools."""

WAIT_S = 20.0  # for anything; a worker may have to start


async def check_executor(
    make_executor: MakeExecutor, *, tools: Literal["async", "sync"] = "async", own_processes: bool = False
) -> list[str]:
    """Hold an executor to what `Executor` promises. Run it on every event loop that you support.

        @pytest.mark.anyio
        async def test_my_executor_does_what_executors_do() -> None:
            await check_executor(lambda tools: MyExecutor(tools))

    Args:
        make_executor: makes a fresh executor for the given tools, which are functions of this module; at least two
            calls must run at once. Leaving it twice must do no harm.
        tools: which form of tool it runs.
        own_processes: tools run in other processes of this machine; one of them is then killed, too.

    Returns:
        The names of the checks, in order.

    Raises:
        AssertionError: it breaks a promise; the text names which. Others are not tried any more.
    """
    checks = CHECKS + (LOST_WORKER if own_processes else ())
    for check in checks:
        await _checked(check, make_executor(list(TOOLS[tools])))
    return [_name(check) for check in checks]


async def _checked(check: Check, executor: Executor) -> None:
    with tempfile.TemporaryDirectory() as directory:
        try:
            with anyio.fail_after(WAIT_S):
                async with executor:
                    await check(Bench(executor, Path(directory, "marks")))
        except TimeoutError as error:
            raise AssertionError(f"{_name(check)}: it takes longer than {WAIT_S:g} s") from error
        except Exception as error:
            raise AssertionError(f"{_name(check)}: {error!r}") from error


def _name(check: Check) -> str:
    return getattr(check, "__name__", repr(check))
