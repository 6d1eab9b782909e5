"""A DBOS workflow that is recovered by each process: one step has the model's answer, one runs its calls."""

from __future__ import annotations

import asyncio

from crashes.schedules import Work
from dbos import DBOS, SetWorkflowID

from streamtools import run_calls, tool
from streamtools.errors import CallStillRunning, ToolNotStarted

ASKS = False
LONGEST_S = 5.0
current: Work | None = None


@tool
def pay(call: str) -> str:
    """Pay."""
    assert current is not None
    return current.run(call)


@tool
async def pay_async(call: str) -> str:
    """Pay."""
    assert current is not None
    return await asyncio.to_thread(current.run, call)


@DBOS.step(retries_allowed=True, interval_seconds=0.05, max_attempts=1000, backoff_rate=1.0)
async def take_turn(call_ids: list[str], name: str) -> dict[str, str]:
    assert current is not None
    calls = [(call_id, name, {"call": call_id}) for call_id in call_ids]
    with current.store() as store:
        turn = await run_calls(calls, [pay, pay_async], store=store, identity=str(DBOS.workflow_id))
    for one in turn.observations:
        if isinstance(one.error, (CallStillRunning, ToolNotStarted)):
            raise one.error
    return {one.call_id: str(one.model_content) for one in turn.observations}


@DBOS.workflow()
async def order(call_ids: list[str], name: str) -> dict[str, str]:
    return await take_turn(call_ids, name)


def prepare(work: Work) -> None:
    """There is nothing: the workflow begins with the calls."""


def visit(work: Work) -> dict[str, str]:
    return asyncio.run(_visit(work))


async def _visit(work: Work) -> dict[str, str]:
    global current
    current = work
    DBOS(
        config={
            "name": "orders",
            "system_database_url": f"sqlite:///{work.folder / 'dbos.db'}",
            "application_version": "1",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    try:
        with SetWorkflowID("order-7"):
            handle = await DBOS.start_workflow_async(
                order, list(work.plans), "pay_async" if work.variant & 1 else "pay"
            )
        # It may be another process' workflow. If that was killed, the next start takes it over.
        return await asyncio.wait_for(handle.get_result(), LONGEST_S)
    finally:
        DBOS.destroy()
