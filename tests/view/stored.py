"""Spans as trace stores write them: OTLP's JSON in each of its spellings."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

Document = dict[str, Any]
_IDS = ("traceId", "spanId", "parentSpanId")


def to_otlp(spans: Sequence[ReadableSpan]) -> Document:
    """As OTLP has it: ids in hexadecimal, enums as integers, 64-bit integers as text."""
    found: Document = _in_hex(MessageToDict(encode_spans(spans), use_integers_for_enums=True))
    return found


def spellings(spans: Sequence[ReadableSpan]) -> dict[str, Document]:
    """The same spans, as the writers that there are spell them."""
    plain = to_otlp(spans)
    return {
        "OTLP": plain,
        "Jaeger's API": {"result": plain},
        "a generic writer of protobuf": MessageToDict(encode_spans(spans)),
        "numbers as numbers": json.loads(json.dumps(plain), object_hook=_as_numbers),
    }


def _in_hex(value: Any) -> Any:
    if isinstance(value, list):
        return [_in_hex(one) for one in value]
    if isinstance(value, dict):
        return {key: base64.b64decode(one).hex() if key in _IDS else _in_hex(one) for key, one in value.items()}
    return value


def _as_numbers(held: Document) -> Document:
    return {key: int(one) if key == "intValue" or key.endswith("UnixNano") else one for key, one in held.items()}
