"""The cluster of the session, and the cluster with both its nodes up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ray_cluster import TwoNodes, two_nodes


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[TwoNodes]:
    with two_nodes() as nodes:
        yield nodes


@pytest.fixture
def cluster(session_cluster: TwoNodes) -> TwoNodes:
    session_cluster.restore_second()
    return session_cluster
