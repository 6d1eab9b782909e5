"""What holds for every encoder: it is pure, it can be cut at every event, and its frames can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profiles import FULL
from shown_runs import Shown, fed, shown_runs

from streamtools.events import EventBase, TextDelta
from streamtools.web.ag_ui import AGUI
from streamtools.web.encoding import Encoder, framed
from streamtools.web.own import OwnEvents
from streamtools.web.ui_messages import UIMessages

ENCODERS: list[Callable[[], Encoder]] = [
    OwnEvents,
    lambda: AGUI(thread_id="t"),
    lambda: AGUI(thread_id="t", run_id="r", answered=["a"]),
    UIMessages,
    lambda: UIMessages(version=6, message_id="m"),
]


def written(frames: Any) -> bytes:
    return b"".join(map(framed, frames))


class Other(EventBase):
    """An event that no encoder knows."""


def test_an_encoder_that_was_fed_silently_goes_on_with_the_same_bytes() -> None:
    """At every event of every run, in one response and over several."""
    for make in ENCODERS:
        for name, visits in shown_runs().items():
            events = [event for visit in visits for event in visit]
            first = make()
            frames = [written(first.begin()), *(written(first(event)) for event in events)]
            for cut in range(0, len(events) + 1, 1 if FULL else 5):
                again = make()
                again.begin()
                for event in events[:cut]:
                    again(event)
                rest = [written(again(event)) for event in [Other(), *events[cut:]]]
                assert rest == [b"", *frames[cut + 1 :]], (name, cut)


def test_a_response_that_begins_later_has_a_head_and_only_what_is_new() -> None:
    for make in ENCODERS:
        for name, visits in shown_runs().items():
            shown: list[Shown] = []
            for visit in visits:
                encoder = make()
                for event in shown:
                    encoder(event)
                frames = fed(encoder, visit)
                texts = "".join(str(frame[1] if isinstance(frame, tuple) else frame.decode()) for frame in frames)
                for event in shown:
                    assert not isinstance(event, TextDelta) or event.text not in texts, name
                shown += visit


def test_every_encoder_is_one_and_shows_no_exception_and_no_state_of_a_provider() -> None:
    for make in ENCODERS:
        assert isinstance(make(), Encoder)
        for name, visits in shown_runs().items():
            for visit in visits:
                assert b"secret" not in written(fed(make(), visit)), name
