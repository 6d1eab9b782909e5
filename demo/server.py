"""The real llama.cpp server, in this process, with a model from a file.

It speaks OpenAI's and Anthropic's wires on a loopback port, starts within 40 ms with the model in this folder, and
needs nothing but the ``xllamacpp`` wheel.
"""

from __future__ import annotations

import http.client
import importlib
import importlib.util
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from .errors import DemoError

__all__ = ["INSTALL", "MODEL", "ModelServer", "installed"]

MODEL = Path(__file__).with_name("tools.gguf")
"""The model in this folder; ``MODEL.md`` says what it can do."""

INSTALL = "pip install -e '.[demo]'"
"""How to get the server, from the repository."""

HOST = "127.0.0.1"  # never reachable from another machine
CONTEXT_TOKENS = 8192  # for all slots together, as llama.cpp counts
SLOTS = 4  # requests that it works on at once
START_S = 10.0  # it takes 0.04 s with the demo's model
SILENT, CHATTY = 0, 3  # llama.cpp's levels: nothing at all; information, warnings and errors


class ModelServer:
    """Serves a model while the block runs.

    Args:
        model: a GGUF file.
        port: the port to listen on; 0 takes any that is free.
        verbose: let llama.cpp write its log to standard error.

    Raises:
        DemoError: on entering: the file is no model, the port is taken, or the server is not installed.
    """

    def __init__(self, model: Path = MODEL, *, port: int = 0, verbose: bool = False) -> None:
        self.model = model
        self.port = port
        self.verbose = verbose
        self.url = ""
        """Where it listens, without a path. The wires are below: ``/v1/chat/completions``, ``/v1/messages``."""
        self._server: Any = None

    def __enter__(self) -> ModelServer:
        if not installed():
            raise DemoError(f"the model server is not installed: {INSTALL}")
        # llama.cpp fails with one message for everything, so what a user can get wrong is looked at before.
        _check_model(self.model)
        _check_port(self.port)
        xllamacpp = importlib.import_module("xllamacpp")
        try:
            self._server = xllamacpp.Server(self._parameters(xllamacpp))
        except RuntimeError as error:
            hint = "its log is above" if self.verbose else "--verbose shows its log"
            raise DemoError(f"the model server did not start with {self.model}; {hint}") from error
        self.url = self._server.listening_address
        self._wait_until_it_works()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server = None  # the server has no other way to stop: it lives as long as its object
        self.url = ""

    def _wait_until_it_works(self) -> None:
        # Its main loop has to answer this. A server that is stopped before its main loop began never stops.
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=START_S)
        try:
            connection.request("GET", "/slots")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            raise DemoError(f"the model server did not answer within {START_S:g} s") from error
        finally:
            connection.close()

    def _parameters(self, xllamacpp: Any) -> Any:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self.model)
        parameters.model_alias = {self.model.name}  # what responses call it: not the path
        parameters.hostnames, parameters.port = [HOST], self.port
        parameters.n_ctx, parameters.n_parallel = CONTEXT_TOKENS, SLOTS
        parameters.cpuparams.n_threads, parameters.n_gpu_layers = 1, 0  # it is too small to share
        parameters.sampling.temp = 0.0  # the same answer every time, where a request says nothing else
        parameters.use_jinja, parameters.warmup = True, False
        parameters.endpoint_slots = True
        parameters.verbosity = CHATTY if self.verbose else SILENT
        return parameters


def installed() -> bool:
    """Whether the server and a client for it are here: the extra ``demo``."""
    return all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", "httpx"))


def _check_model(path: Path) -> None:
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise DemoError(f"there is no model file {path}") from None
    except OSError as error:
        raise DemoError(f"cannot read the model file {path}: {error.strerror}") from error
    if magic != b"GGUF":
        raise DemoError(f"{path} is no GGUF file")


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DemoError(f"cannot listen on {HOST} port {port}: {error.strerror}") from error
