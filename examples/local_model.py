"""Gives the examples a model without a key: where no key is set, or with `--local`, the tiny model on this machine.

It is the repository's own (`demo/`), served by llama.cpp: `pip install -e '.[demo]'`.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from pathlib import Path

__all__ = ["use_model"]

REPOSITORY = Path(__file__).resolve().parent.parent


def use_model(key: str) -> None:
    """Leaves the environment as it is if the variable `key` is set; else starts the tiny model, and tells the SDKs of
    OpenAI and Anthropic where it is."""
    if os.environ.get(key) and "--local" not in sys.argv:
        return
    url = start()
    os.environ |= {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "unused",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "unused",
        "no_proxy": "127.0.0.1",
    }
    print(f"The tiny model on this machine answers. To ask the provider's, set {key}.", file=sys.stderr)


def start() -> str:
    """Starts the model's server, which stops with the program; returns its URL."""
    sys.path.append(str(REPOSITORY))
    demo = importlib.import_module("demo.server")
    if not demo.installed():
        sys.exit(f"There is no key, and the model for this machine is not installed; in the repository: {demo.INSTALL}")
    server = demo.ModelServer()
    server.__enter__()
    atexit.register(server.__exit__, None, None, None)
    return str(server.url)
