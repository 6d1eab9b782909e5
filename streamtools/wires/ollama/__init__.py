"""``ollama.chat``: Ollama's chat lines in, events out; a turn in, Ollama's messages out.

    {"model":"m","created_at":"…","message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}
    {"model":"m","created_at":"…","message":{"role":"assistant","content":"Let me"},"done":false}
    {"model":"m","message":{"content":"","tool_calls":[{"id":"call_1","function":{"index":0,"name":"f","arguments":
        {"a":1}}}]},"done":false}
    {"model":"m","message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":9,"eval_count":5}

Source: https://docs.ollama.com/api/chat and ``api/types.go`` of ollama/ollama (read 2026-11-21). A payload is a line
(`streamtools.framing.json_bodies`). Calls come whole, with an object for arguments, so that a call ends with its line;
ids are newer than most servers. A response ends with ``done: true``. ``/api/generate`` has ``response`` in place of
``message``.
docs/providers/wires.md#ollama has what goes back.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "ollama.chat",
    facts,
    decoder="decoder:OllamaDecoder",
    short_name="ollama",
    provider="ollama",
    call_ids=CallIds(pattern=r"[\x21-\x7e]{1,256}"),  # any string, to a server that only compares it
    message_in=("message",),
)
