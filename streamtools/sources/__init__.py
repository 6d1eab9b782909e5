"""Turns any kind of stream into one asynchronous iterator of bytes, text or payloads.

    source = open_source(stream)
    await source.items()           an async iterator
    source.as_item(item)           the input for the decoder
    await source.aclose()          closes all that was opened, on every exit

Blocking streams are read in a thread of their own (`threads`); objects of SDKs become the payloads of their wire
(`kinds`), LangChain's chunks those of Chat Completions. A connection with several responses is split into
a stream for each (`responses`); one over a socket is read a response at a time and left open.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..ground.on_demand import names
from .kinds import Item, answer_of, as_item, chunk_readers
from .source import ModelRequest, Source, open_source

if TYPE_CHECKING:
    from ..realtime import Responses, ResponseSource, responses
else:
    __getattr__ = names(__name__, {".realtime": "Responses ResponseSource responses"})


def _langchain() -> Any:
    # Loaded by the first such chunk: most streams are of others.
    return import_module("..integrations.langchain_chunks", __name__).LangChainChunks().payload


chunk_readers["langchain"] = _langchain

__all__ = [
    "Item", "ModelRequest", "ResponseSource", "Responses", "Source", "answer_of", "as_item", "open_source", "responses",
]  # fmt: skip
