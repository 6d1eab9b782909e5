"""What every executor promises, held on a cluster."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from ray_cluster import TwoNodes

pytest.importorskip("ray.cluster_utils", reason="ray is not installed: RayExecutor was not tested")

from streamtools.dispatch.executors.ray import RayExecutor
from streamtools.testing import check_executor
from streamtools.tools import Tool


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_the_executor_keeps_every_promise_of_the_contract(
    kind: Literal["async", "sync"], cluster: TwoNodes
) -> None:
    def make(tools: list[Tool[..., Any]]) -> RayExecutor:
        return RayExecutor(tools, actors=1, max_concurrency=4)

    assert await check_executor(make, tools=kind, own_processes=True)
