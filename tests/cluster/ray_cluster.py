"""Two Ray nodes on this machine: "first", which the tests' process belongs to, and "second", which comes and goes."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Ray reads these when it is imported. Nothing leaves the machine, and nothing is written into the home directory.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

NODE = {"num_cpus": 2, "object_store_memory": 80 << 20, "include_dashboard": False}


@dataclass
class TwoNodes:
    """The cluster, and what takes nodes to and from it."""

    cluster: Any
    second: Any

    def kill_second(self) -> None:
        """End the second node at once, as a power failure would."""
        self.cluster.remove_node(self.second, allow_graceful=False)

    def restore_second(self) -> None:
        """A second node again, if it was killed."""
        if self.second not in self.cluster.list_all_nodes():
            self.second = self.cluster.add_node(resources={"second": 8}, **NODE)
            self.cluster.wait_for_nodes()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """A cluster of two nodes, and Ray initialised for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        import ray
        from ray.cluster_utils import Cluster

        here = Path(__file__).parent
        directory = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets are in it, whose paths must be short
        os.environ["RAY_TMPDIR"] = directory
        cluster = Cluster(initialize_head=True, head_node_args={"resources": {"first": 8}, **NODE})
        nodes = TwoNodes(cluster, None)
        try:
            nodes.restore_second()
            environment = {"PYTHONPATH": os.pathsep.join([str(here), str(here.parents[1]), *sys.path])}
            ray.init(address=cluster.address, runtime_env={"env_vars": environment}, log_to_driver=False)
            yield nodes
        finally:
            ray.shutdown()
            cluster.shutdown()
            shutil.rmtree(directory, ignore_errors=True)
