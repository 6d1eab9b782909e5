"""``gemini.generate_content``: responses of ``streamGenerateContent`` in, events out; a turn in, contents out.

    data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Let me see.","thought":true}]},"index":0}]}
    data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"c2ln"}]}}]}
    data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"g","willContinue":true}}]}}]}
    data: {"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.b","numberValue":2}]}}]}}]}
    data: {"candidates":[{"content":{"parts":[{"text":""}]},"finishReason":"STOP"}],"usageMetadata":{}}

Source: https://ai.google.dev/api/generate-content, and for `partialArgs` Vertex'
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Content (read 2026-11-20). Without
``alt=sse`` the same objects come as one JSON array. A call comes whole, or in pieces until one without `willContinue`.
A response is complete when a finish reason was seen; reading goes on after it, since there is no other end marker.
docs/providers/wires.md#gemini-generatecontent has what goes back.
"""

from __future__ import annotations

from ..wire import CallIds, built_in
from . import facts

__all__ = ["WIRE"]

WIRE = built_in(
    "gemini.generate_content",
    facts,
    decoder="decoder:GeminiDecoder",
    short_name="gemini",
    provider="gcp.gemini",
    # No rule is documented; these are the characters of the ids that the API itself gives.
    call_ids=CallIds(pattern=r"[a-zA-Z0-9_-]{1,64}"),
)
