"""Recognises events that come again by their cursor: the field that names each event, and no two alike.

A client that reconnects, or a gateway that does, may get the last events once more, and their text must not double. But
nothing may be lost on a guess either: an event came before only if its cursor named an event of the same kind and place
before. A server that gives one cursor to two different events says nothing by it from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

_MAX_KEPT = 64  # events that are remembered: of those that were fed, and twice of the others
_MAX_DIGITS = 18  # of a number that no parser refuses
_MAX_SIZE = 256  # bytes of a cursor; a longer one is none
_Place: TypeAlias = list[str | int | None]


class EventCursors:
    __slots__ = ("_at", "_fed", "_last", "_latest", "_older", "_place", "_runs", "_texts", "field", "is_useless")

    def __init__(self, field: str, place: tuple[str, ...]) -> None:
        self.field = field
        self._at = place
        self._last: int | bytes | None = None
        self._latest: Mapping[str, Any] | None = None  # the last event that was fed; None if another one followed
        self._place: _Place = []  # its kind and place
        self._fed: dict[int | bytes, _Place] = {}  # kind and place by cursor, of those that were fed
        self._runs: set[int] = set()  # those among these that end a run
        self._texts: set[bytes] = set()  # of events that were not fed
        self._older: set[bytes] = set()  # likewise, from before these
        self.is_useless = False  # True once two different events had one cursor

    def start_after(self, cursor: int | str | None) -> None:
        self._last, self._latest, self._place = _written(cursor), None, []
        self._fed.clear()

    @property
    def last(self) -> int | str | None:
        return self._last.decode(errors="surrogatepass") if isinstance(self._last, bytes) else self._last

    def comes_again(self, payload: Mapping[str, Any]) -> bool:
        """Returns whether an event that is fed came before; if not, it is the last one from now on."""
        cursor = _written(payload.get(self.field))
        if cursor is None:
            return False
        place: _Place = [value if isinstance(value := payload.get(name), (str, int)) else None for name in self._at]
        if not self.is_useless:
            if isinstance(self._last, int) and self._fed and self._last not in self._fed:
                self._keep(self._last, self._place)
                self._runs.add(self._last)
                self._latest = None
            there = self._fed.get(cursor)
            if not self._fed and cursor == self._last:
                return True
            if there is not None:
                is_same = there == place and (cursor != self._last or _are_same(self._latest, payload))
                self.is_useless = not is_same
                if is_same:
                    return True
            elif cursor in self._texts or cursor in self._older or self._is_in_run(cursor, place):
                return True
            self._keep(cursor, place)
        self._last, self._latest, self._place = cursor, payload, place
        return False

    def _keep(self, cursor: int | bytes, place: _Place) -> None:
        self._fed[cursor] = place
        if len(self._fed) > _MAX_KEPT:
            oldest = next(iter(self._fed))
            del self._fed[oldest]
            self._runs.discard(oldest)

    def _is_in_run(self, cursor: int | bytes, place: _Place) -> bool:
        if not isinstance(cursor, int) or not isinstance(self._last, int):
            return False
        above = min((number for number in self._fed if isinstance(number, int) and number > cursor), default=cursor)
        return cursor < self._last and above in self._runs and self._fed[above] == place

    # -- events that are not fed, since they add nothing but a piece --

    def goes_on(self, payload: Mapping[str, Any]) -> bool:
        """Returns whether an event is new, by its cursor; then it is the last one from now on."""
        cursor = payload.get(self.field)
        if type(cursor) is int:
            return self.number_goes_on(cursor)
        if type(cursor) is str:
            return self.text_goes_on(cursor.encode(errors="surrogatepass"))
        return True

    def digits_go_on(self, digits: bytes) -> bool:
        return is_number(digits) and self.number_goes_on(int(digits))

    def number_goes_on(self, cursor: int) -> bool:
        last = self._last
        if self.is_useless or (type(last) is int and cursor == last + 1):
            self._last = cursor
            return True
        return False

    def text_goes_on(self, cursor: bytes) -> bool:
        if not self.is_useless:
            if len(cursor) > _MAX_SIZE or cursor in self._texts or cursor in self._older or cursor in self._fed:
                return False
            self._texts.add(cursor)
            if len(self._texts) == _MAX_KEPT:
                self._older, self._texts = self._texts, {cursor}
        self._last = cursor
        return True

    def take_back(self) -> None:
        """Forgets the last event, which was recognised but has to be fed."""
        if isinstance(self._last, int):
            self._last -= 1
        elif self._last is not None:
            self._texts.discard(self._last)
            self._last = None


def _written(cursor: object) -> int | bytes | None:
    if type(cursor) is str and 0 < len(cursor) <= _MAX_SIZE:
        return cursor.encode(errors="surrogatepass")
    return cursor if type(cursor) is int and cursor >= 0 else None


def is_number(written: bytes) -> bool:
    """Returns whether these bytes are digits without a leading zero, so that they may stand where a number stood."""
    return written.isdigit() and written[:1] != b"0" and len(written) <= _MAX_DIGITS


def _are_same(latest: Mapping[str, Any] | None, payload: Mapping[str, Any]) -> bool:
    try:
        return latest is None or latest == payload
    except RecursionError:
        return False
