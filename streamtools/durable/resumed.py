"""Reads the rest of a response that broke off, from another source, by the decoder that has read its beginning.

The decoder's framing may hold the beginning of an event that comes again as a whole. So the rest is cut into its
payloads here, and observers of the body see these in the place of bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from ..decode.body import Body, read_json
from ..framing import Frame
from ..limits import Limits
from ..sources import Source
from ..wires import malformed


class RestSource(Source):
    async def items(self) -> AsyncIterator[Any]:
        return Payloads(await super().items(), self.as_item, self._limits)


class Payloads:
    def __init__(self, items: AsyncIterator[Any], as_item: Callable[[Any], Any], limits: Limits) -> None:
        self._items = items
        self._as_item = as_item
        self._body = Body(limits)
        self._ready: deque[Mapping[str, Any]] = deque()
        self._ended = False

    def __aiter__(self) -> Payloads:
        return self

    async def __anext__(self) -> Mapping[str, Any]:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            try:
                item = self._as_item(await anext(self._items))
            except StopAsyncIteration:
                self._ended = True
                self._add(self._body.finish())
                continue
            if isinstance(item, Mapping):
                self._ready.append(item)
            elif item is not None:
                data = item.encode("utf-8", "surrogatepass") if isinstance(item, str) else item
                self._add(self._body.feed_payloads(data))
        return self._ready.popleft()

    def _add(self, found: Any) -> None:
        for one in found:
            data = (one.data if isinstance(one, Frame) else one).strip()
            if not data or data == b"[DONE]" or data.startswith(b":"):
                continue
            payload = read_json(data)
            if not isinstance(payload, dict):
                raise malformed("the data of an event of the rest is no JSON object")
            self._ready.append(payload)
