"""One file per library: ``read_KEY(wire, chunks)`` returns a function that reads the response once; where there is a
``run_KEY(answers)``, that returns one that runs to the last answer of Chat Completions, and returns it.

The files import what they need at their top, and are imported only in the process that measures them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ...workloads import ANTHROPIC, CHAT
from ..work import Read, Run


@dataclass(frozen=True, slots=True)
class Peer:
    """A reader, and what has to be installed for it."""

    key: str
    name: str
    file: str = field(default="", kw_only=True)
    """What it is in, if not in the file of its key."""
    wires: tuple[str, ...] = field(default=(CHAT, ANTHROPIC), kw_only=True)
    needs: tuple[str, ...] | Mapping[str, tuple[str, ...]] = field(kw_only=True)
    """Distributions; by wire where they differ."""
    extra: str = field(default="compare", kw_only=True)
    """The extra of this project that brings them."""

    @property
    def ours(self) -> bool:
        return self.key.startswith("ours")

    def distributions(self, wire: str) -> tuple[str, ...]:
        """What has to be installed to read that wire, the reader's own first."""
        return self.needs[wire] if isinstance(self.needs, Mapping) else self.needs

    def reader(self, wire: str, chunks: list[bytes]) -> Read:
        """Import it, and make ready to read."""
        make: Callable[..., Read] = self._made("read")
        return make(wire, chunks)

    def loop(self, answers: list[list[bytes]]) -> Run | None:
        """Make ready to run to the last of the answers, running the tools of the others; None if it has no loop."""
        make: Callable[..., Run] | None = self._made("run")
        return None if make is None else make(answers)

    def _made(self, what: str) -> Any:
        return getattr(import_module(f"{__name__}.{self.file or self.key}"), f"{what}_{self.key}", None)


def _with_sdk(*distributions: str) -> dict[str, tuple[str, ...]]:
    return {CHAT: (*distributions, "openai"), ANTHROPIC: (*distributions, "anthropic")}


_LANGCHAIN = {
    CHAT: ("langchain-openai", "langchain-core", "langchain", "openai"),
    ANTHROPIC: ("langchain-anthropic", "langchain-core", "anthropic"),
}
_OURS = "streamtools"
PEERS = (
    Peer("limit", "the limit: split, orjson.loads", needs=("orjson",)),
    Peer("ours_parse", "streamtools: parse()", needs=(_OURS,), file="ours"),
    Peer("ours_pipeline", "streamtools: pipeline(bytes)", needs=(_OURS,), file="ours"),
    Peer("ours_pipeline_sdk", "streamtools: pipeline(SDK stream)", needs=_with_sdk(_OURS), file="ours"),
    Peer("openai_raw", "openai: chunks iterated", wires=(CHAT,), needs=("openai",), file="openai_sdk"),
    Peer("openai_stream", "openai: .stream()", wires=(CHAT,), needs=("openai",), file="openai_sdk"),
    Peer("anthropic_raw", "anthropic: events iterated", wires=(ANTHROPIC,), needs=("anthropic",), file="anthropic_sdk"),
    Peer("anthropic_stream", "anthropic: .stream()", wires=(ANTHROPIC,), needs=("anthropic",), file="anthropic_sdk"),
    Peer("pydantic_ai", "pydantic-ai: model_request_stream()", needs=_with_sdk("pydantic-ai-slim")),
    Peer("openai_agents", "openai-agents: stream_response()", wires=(CHAT,), needs=("openai-agents", "openai")),
    Peer("langchain_events", "langchain: astream_events(v3)", needs=_LANGCHAIN, file="langchain"),
    Peer("langchain_sum", "langchain: astream(), summed", needs=_LANGCHAIN, file="langchain"),
    Peer("litellm", "litellm: acompletion(), built", needs=("litellm", "openai"), extra="compare-litellm"),
)
"""In the order of the table."""
