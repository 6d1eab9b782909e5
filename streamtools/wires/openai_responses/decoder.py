"""Responses stream events in, events out. One item is told at a time: another that comes in between ends the part, and
what the first still has to say begins a part of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...errors import ProviderError
from ...events import Event, ProviderItem, ToolCallFragment
from ...ground.text import well_formed
from ...limits import Limits
from ...parts import Finish, ResumePoint
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import (
    KnownFields,
    Path,
    malformed,
    named_error,
    object_of,
    place_of,
    provider_error,
    read_text,
    rest_of,
    unread,
)
from . import facts, items
from .items import Item, Register, call_kind, name_of, texts_of, type_of
from .lanes import Followed

_PARTS = {"text": "text", "summary": "reasoning", "content": "reasoning"}  # a refusal is no part
_BETWEEN = {"text": "", "reasoning": "\n\n"}  # the pieces of a part that was corrected


class ResponsesDecoder(WireDecoder):
    plain = (
        PlainDelta(
            ("delta",), {(): facts.ENVELOPE}, varies=frozenset({("event_id",), ("obfuscation",), ("sequence_number",)})
        ),
    )
    handlers: ClassVar[Mapping[str, Callable[[Any, dict[str, Any]], None]]]
    event_fields: ClassVar[Mapping[str, KnownFields]] = facts.EVENT_FIELDS
    later_fields: ClassVar[KnownFields] = facts.LATER  # those of events whose content comes again
    text_deltas: ClassVar[Mapping[str, tuple[str, str, str]]] = facts.TEXT_DELTAS
    text_dones: ClassVar[Mapping[str, tuple[str, str, str]]] = facts.TEXT_DONES
    cursor = "sequence_number"
    cursor_place = ("type", "output_index", "item_id", "content_index", "summary_index")
    may_end_calls = True

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._stored = True  # the provider keeps the items, so that an id is enough to give one back
        self._register = Register()
        self._followed = Followed(self._register)
        self._telling: Item | None = None  # the item whose text or reasoning is being told
        self._has_calls = False
        self._call_count = 0
        self._response: dict[str, Any] = {}  # as it was created
        self._ended = False
        self._is_listed = False  # the end has a list of the items
        self._plain_names: list[object] = []  # the type and the fields of an event that has no other
        self._beside_response: dict[str, Any] = {}  # fields of the response that are not read, as they stood last

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        kind = payload.get("type")
        out = self.out = []
        if self._is_anothers(payload):
            return out
        if self.cursors is not None and self.cursors.comes_again(payload):
            self.warn("event_repeated")
            return out
        self._payload, self._exact = payload, None
        handler = self.handlers.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
            self._pass_on_rest(kind, payload)
            if self._started and not self._followed.begun:
                self._followed.begin(payload)
        elif isinstance(kind, str) and self._says_nothing_new(kind, payload):
            pass
        else:
            self.read_foreign(payload, facts.ERROR_EVENT, kind)
        return out

    def terminate(self) -> list[Event]:
        """Takes ``[DONE]``, which some gateways add (OpenRouter). It proves nothing, but nothing follows it."""
        self.out = []
        self.done = True
        return self.out

    @override
    def after_end(self, payload: dict[str, Any]) -> list[Event] | None:
        out = self.out = []
        kind = payload.get("type")
        if self._is_anothers(payload) or kind in facts.QUIET:
            return out
        if kind not in facts.NOTICES:
            return None
        self._notice(payload)
        return out

    def _is_anothers(self, payload: dict[str, Any]) -> bool:
        name = self._followed.other(payload)
        if name is None:
            return False
        if name:
            self.warn("other_response", name[: self.limits.max_name_bytes])
        return True

    def _says_nothing_new(self, kind: str, payload: dict[str, Any]) -> bool:
        topic = kind.removeprefix("response.").partition(".")[0]
        later = topic in facts.TOLD_LATER and self._register.knows(payload.get("output_index"), payload.get("item_id"))
        if later or kind in facts.QUIET:
            self.emit_unread(payload, self.later_fields if later else self.event_fields[kind])
        return later or kind in facts.QUIET

    def _pass_on_rest(self, kind: object, payload: dict[str, Any]) -> None:
        names = [kind, *payload]
        if names == self._plain_names:
            return
        fields = self.event_fields.get(str(kind))
        if fields is not None and not fields.inside and fields.known.issuperset(payload):
            self._plain_names = names
        for path, rest in unread(payload, fields) if fields is not None else ():
            if path != ("response",) or rest != self._beside_response:
                self.emit_unknown(rest, place_of(path))
            if path == ("response",):
                self._beside_response = rest

    # -- the response --

    def _created(self, payload: dict[str, Any]) -> None:
        if self._started:
            self.warn("duplicate_message_start")
        self._progress(payload)

    def _progress(self, payload: dict[str, Any]) -> None:
        response = object_of(payload.get("response"))
        if not self._started:
            self.emit_start(response.get("model"), response.get("id"))
            self._response = {key: response[key] for key in ("id", "model", "store") if key in response}
        if (status := read_text(response.get("status"))) in facts.RUNNING:
            self.pending_as = status
        if isinstance(stored := response.get("store"), bool):
            self._stored = stored

    def _terminal(self, payload: dict[str, Any]) -> None:
        self._progress(payload)
        response = object_of(payload.get("response"))
        self.read_usage(response.get("usage"))
        status = response.get("status")
        if not isinstance(status, str) or status not in facts.STATUSES or status == "completed":
            status = facts.TERMINALS[payload["type"]]  # what the event is called counts where the status is no bad news
        if status == "failed" or response.get("error"):  # whatever the event is called
            error = provider_error({"error": response.get("error")})
            self.fail(error or ProviderError("the response failed; the provider gave no reason"))
            return
        if isinstance(output := response.get("output"), list):
            self._reconcile(output)
        reason = object_of(response.get("incomplete_details")).get("reason")
        self._finish_raw = reason if isinstance(reason, str) and reason else status
        self._ended = self.done = True
        if self._stored and response.get("previous_response_id"):  # the program chains its requests
            self.carry_on("previous_response_id", response.get("id"))

    def _reconcile(self, output: list[Any]) -> None:
        """Takes from the whole list at the end what never streamed, and ends what was not ended."""
        self._is_listed = bool(output)
        for position, (raw, item) in enumerate(zip(output, self._register.repeated(output), strict=True)):
            if not isinstance(raw, dict):
                continue
            is_open = item is None or not item.done or (item.kind is not None and not item.ended)
            if item is None or (is_open and items.has_news(item, raw)):
                self.warn("terminal_backfill")
            item = item or self._new_item(type_of(raw), position, raw.get("id"))
            if item is None:
                return
            path = ("response", "output", position)
            if is_open:
                self._complete(item, raw, path)
            else:
                known = {key for key, value in item.head.items() if key in facts.HEAD or raw.get(key) == value}
                self.emit_beside(raw, known, place_of(path))

    def _error(self, payload: dict[str, Any]) -> None:
        self.fail_by(payload, named_error(payload), facts.ERROR_EVENT)

    def _notice(self, payload: dict[str, Any]) -> None:
        if (code := facts.NOTICES[payload["type"]]) is not None:
            self.warn(code, str(object_of(payload.get("error")).get("code"))[: self.limits.max_name_bytes])
        self.emit_unknown(payload)

    # -- items --

    def _added(self, payload: dict[str, Any]) -> None:
        if (raw := self._raw_item(payload)) is None:
            return
        item = self._find(payload, raw)
        if item is not None and item.announced and _same(item, raw):
            self.warn("duplicate_block_start")
            if item.kind is not None:
                self.out.append(items.said_again(item))
            return
        if item is None or item.announced:
            item = self._new_item(type_of(raw), payload.get("output_index"), raw.get("id"))
        if item is not None:
            self._announce(item, raw)
            if item.type in facts.TEXTS and self._telling is None:
                self._show(item, facts.TEXTS[item.type][0], "", None)

    def _done(self, payload: dict[str, Any]) -> None:
        if (raw := self._raw_item(payload)) is None:
            return
        item = self._find(payload, raw)
        if item is not None and item.done and _same(item, raw):
            self.warn("duplicate_block_stop")
            return
        if item is None or item.done:
            self.warn("item_without_added")
            item = self._new_item(type_of(raw), payload.get("output_index"), raw.get("id"))
        if item is not None:
            self._complete(item, raw, ("item",))

    def _raw_item(self, payload: dict[str, Any]) -> dict[str, Any] | None:
        raw = payload.get("item")
        if isinstance(raw, dict):
            return raw
        self.fail(malformed(f"'item' of {payload['type']} is not an object"))
        return None

    def _find(self, payload: dict[str, Any], raw: dict[str, Any]) -> Item | None:
        return self._register.find(type_of(raw), payload.get("output_index"), raw.get("id"), raw.get("call_id"))

    def _new_item(self, type_: str, index: object, id_: object) -> Item | None:
        if not self.holds(len(self._register.items) + 1, "the response"):
            return None
        if not self._started:
            self.emit_start(None, None)
        return self._register.open(type_, index, id_)

    def _meant(self, payload: dict[str, Any], type_: str) -> Item | None:
        return self._register.find(type_, payload.get("output_index"), payload.get("item_id"), payload.get("call_id"))

    def _item_of(self, payload: dict[str, Any], type_: str) -> Item | None:
        id_, item = payload.get("item_id"), self._meant(payload, type_)
        if item is None:
            self.warn("delta_without_block")
            return self._new_item(type_, payload.get("output_index"), id_)
        if item.done or item.text_done:
            self.warn("delta_after_stop")
            return None
        known = item.head.get("id")
        if isinstance(id_, str) and isinstance(known, str) and id_ != known:
            self.warn("item_id_rotated")
        return item

    def _announce(self, item: Item, raw: dict[str, Any]) -> None:
        item.head, item.identity, item.name = raw, items.identity(raw), name_of(raw) or item.name
        self._register.call(item, raw.get("call_id"))
        if item.announced:
            return
        item.announced = True
        start = item.kind is None
        item.kind = item.kind or call_kind(item.type, raw)
        if item.kind is not None:
            self._count_call(item, start=start)
            self.out.append(items.announced(item, raw, self.to_keep(raw) or {}, start=start))
        elif item.type not in facts.TEXTS and item.type not in items.OPAQUE:
            self.warn("unknown_block_type", item.type[: self.limits.max_name_bytes])

    def _complete(self, item: Item, raw: dict[str, Any], path: Path) -> None:
        repeated = {key for key, value in raw.items() if key in facts.GROWING or item.head.get(key) == value}
        self.emit_beside(item.head, repeated, "item")  # which the end leaves out or replaces
        self._announce(item, raw)
        item.done = True
        state: dict[str, Any] = {"output_index": item.place}
        if (kept := self.to_keep(raw)) is not None:
            if item.type == "message" and not kept.get("content") and any(item.shown.values()):
                whole = items.message_so_far(item, "completed")  # what streamed is all of it
                kept = {**kept, "content": whole["content"]}
            # An id that is in the input twice is refused: "Duplicate item found with id rs_1" (vercel/ai#7883).
            twin = item.is_twin and item.type in facts.TEXTS
            state["item"] = rest_of(kept, "id") if twin else kept
        if item.kind is not None:
            text, problem = items.arguments_of(item.type, raw, path, self.object_text)
            self.out.append(items.completed(item, raw, text, problem, state, may_end=self.may_end_calls))
        elif item.type in facts.TEXTS:
            self._complete_text(item, raw, state)
        elif kept is None or not item.type:
            self.emit_unknown(raw)
        else:
            self.out.append(ProviderItem(item.type, state))

    # -- text and reasoning --

    def _show(self, item: Item, channel: str, text: str, paragraph: int | None) -> None:
        if self._telling is not item:
            self._end_shown()
            self._telling = item
        shown = item.shown.setdefault(channel, [])
        if text and (not item.paragraphs or item.paragraphs[-1][:2] != (channel, paragraph)):
            item.paragraphs.append((channel, paragraph, len(shown)))
        if channel in _PARTS and self._open != _PARTS[channel]:
            item.part_at = len(shown)
        if channel == "text":
            self.emit_text(text)
        elif channel == "refusal":
            self.emit_refusal(text)
        else:
            if item.paragraph not in (None, (channel, paragraph)):
                self.emit_reasoning("\n\n")
            item.paragraph = (channel, paragraph) if text else None
            self.emit_reasoning(text)
        if text:
            shown.append(text)
        self.part.sink = shown.append

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        item = self._telling
        if item is not None and item.corrected and self._open is not None:
            item.corrected = False
            texts = item.shown["text"] if self._open == "text" else next(filter(None, item.shown.values()))
            self.replace_part(_BETWEEN[self._open].join(texts[item.part_at :]))
        super().end_part(provider_state)

    def _end_shown(self) -> None:
        """Ends what is told of this item, since another comes; what it still has to say will be a part of its own."""
        self.end_part()
        self._telling = None

    def _keep(self, item: Item, state: dict[str, Any]) -> None:
        """Lets the state of an item that is over go with the part that tells it; alone if another is being told."""
        if self._telling is item and self._open is not None:
            self.end_part(state)
        elif "item" in state:
            self.out.append(ProviderItem(item.type, state))
        if self._telling is item:
            self._end_shown()
        item.shown, item.paragraphs = {}, []

    def _complete_text(self, item: Item, raw: dict[str, Any], state: dict[str, Any]) -> None:
        for channel in facts.TEXTS[item.type]:
            # Of reasoning, the summary or the content is told; both only if both streamed.
            if item.type == "message" or item.shown.get(channel) or not any(item.shown.values()):
                self._compare(item, channel, texts_of(raw, channel))
        if item.type == "reasoning" and not (self._stored or raw.get("encrypted_content") or raw.get("content")):
            state.pop("item", None)  # neither the provider nor the item has it: "Item with id 'rs_...' not found"
            self.emit_beside(raw, facts.HEAD, "item")
        elif "item" not in state and item.type == "message" and any(item.shown.values()):
            state["item"] = items.message_so_far(item, "completed")
        self._keep(item, state)

    def _end_text(self, item: Item, channel: str, text: str, number: int | None) -> None:
        if (channel, number) in item.over or len(item.over) > self.limits.max_open_blocks:
            return
        item.over.add((channel, number))
        since = item.over_at.get(channel, 0)
        if not "".join(item.shown.get(channel, ())[since:]).endswith(text):  # one before it may have had no end
            self._compare(item, channel, [text], since)
        item.over_at[channel] = len(item.shown[channel])

    def _compare(self, item: Item, channel: str, texts: list[str], since: int = 0) -> None:
        """Compares the whole text with the pieces told of it: tells what is missing, replaces what is wrong."""
        shown, whole = "".join(item.shown.get(channel, ())[since:]), "".join(texts)
        if self.loose:
            shown, whole = well_formed(shown), well_formed(whole)
        if not whole or whole == shown:
            return
        if not shown:
            for paragraph, text in enumerate(texts):
                self._show(item, channel, text, paragraph)
            return
        self.warn("done_overrides_delta")
        if whole.startswith(shown):
            self._show(item, channel, whole[len(shown) :], item.paragraph and item.paragraph[1])
        elif self._telling is item and self._open == _PARTS.get(channel):
            self._correct(item, item.shown[channel], texts, since)

    def _correct(self, item: Item, shown: list[str], texts: list[str], since: int) -> None:
        """Replaces the pieces of the part that is open. What stands in a part that has ended cannot be replaced."""
        if self._open == "reasoning":
            if since or item.part_at or sum(map(bool, item.shown.values())) > 1:
                return
        elif since < item.part_at:
            ended, whole = "".join(shown[since : item.part_at]), "".join(texts)
            if not whole.startswith(ended):
                return
            since, texts = item.part_at, [whole[len(ended) :]]
        shown[since:] = texts
        item.corrected = True

    def _text_delta(self, payload: dict[str, Any]) -> None:
        type_, channel, number = self.text_deltas[payload["type"]]
        text, paragraph = payload.get("delta"), payload.get(number)
        if not isinstance(text, str):
            self.emit_unknown(payload)
        elif (item := self._item_of(payload, type_)) is not None and text:
            self._show(item, channel, text, paragraph if isinstance(paragraph, int) else None)

    def _text_done(self, payload: dict[str, Any]) -> None:
        """Ends a text, which is right even if its deltas were not. Reasoning is compared at the end of its item."""
        type_, channel, field = self.text_dones[payload["type"]]
        text, number = payload.get(field), payload.get("content_index")
        item = self._register.find(type_, payload.get("output_index"), payload.get("item_id"))
        if not isinstance(text, str) or not text or (item is not None and item.done):
            return
        if (item := item or self._item_of(payload, type_)) is None:
            return
        if type_ == "message":
            self._end_text(item, channel, text, number if isinstance(number, int) else None)
        elif not item.shown.get(channel):
            self._show(item, channel, text, None)

    # -- calls --

    def _arguments_delta(self, payload: dict[str, Any]) -> None:
        piece, problem = payload.get("delta"), None
        prefix = payload["type"].removesuffix(".delta")
        if isinstance(piece, dict) and piece:  # arguments that cannot be read must not be taken for none
            self.warn("arguments_object")
            piece, problem = self.object_text(piece, ("delta",))
        if not isinstance(piece, str):
            self.emit_unknown(payload)
        elif (item := self._call_of(payload, prefix) or self._meant(payload, facts.ARGUMENTS[prefix][0])) and piece:
            self.out.append(items.grown(item, piece, problem))

    def _arguments_done(self, payload: dict[str, Any]) -> None:
        item = self._call_of(payload, payload["type"].removesuffix(".done"))
        if item is not None:
            text, problem = items.arguments_of(item.type, payload, (), self.object_text)
            self.out.append(items.repeated(item, payload, text, problem))

    def _call_of(self, payload: dict[str, Any], prefix: str) -> Item | None:
        type_, kind = facts.ARGUMENTS[prefix]
        item = self._item_of(payload, type_)
        if item is not None and item.kind is None:
            item.kind = kind
            self._count_call(item, start=True)
            self.out.append(items.begun(item))
        return item

    def _count_call(self, item: Item, *, start: bool) -> None:
        self._has_calls = self._has_calls or item.kind != "server"
        if start:
            item.call_number, self._call_count = self._call_count, self._call_count + 1

    # -- the end --

    @override
    def resume_point(self) -> ResumePoint | None:
        followed = self._followed
        if self._ended or followed.id is None:
            return None
        shown = items.account(self._response, followed.lane, self._register.items, followed.elsewhere)
        return ResumePoint(
            response_id=followed.id, after=self.cursors.last if self.cursors else None, account=tuple(shown)
        )

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        whole = self._ended and self.error is None
        if any(item.is_placeless_call for item in self._register.items):
            self.out.append(ToolCallFragment(disorder="early"))  # its arguments may be those of any call without any
        for item in self._register.items:
            if item.kind is not None:
                if not item.ended:
                    if whole and not (item.done or item.text_done):
                        self.warn("missing_block_stop", item.type[: self.limits.max_name_bytes])
                    # A list at the end that leaves the call out contradicts it; many servers' lists are empty.
                    self.out.append(items.ended(item, whole=whole and (item.repeated or not self._is_listed)))
            elif not item.done:
                self._abandon(item)
        self._end_shown()
        finish = facts.FINISHES.get(self._finish_raw, "other") if self._finish_raw else None
        if finish == "stop" and self._has_calls:
            finish = "tool_calls"
        return finish, self._ended

    def _abandon(self, item: Item) -> None:
        if self._ended:
            self.warn("missing_block_stop", item.type[: self.limits.max_name_bytes])
        if item.type not in facts.TEXTS:
            self.emit_unknown(item.head)
            return
        self.emit_beside(item.head, facts.HEAD, "item")
        if item.type == "message" and any(item.shown.values()):
            status = "completed" if self._finish_raw == "completed" else "incomplete"
            self._keep(item, {"output_index": item.place, "item": items.message_so_far(item, status)})


ResponsesDecoder.handlers = {
    "response.created": ResponsesDecoder._created,
    "response.queued": ResponsesDecoder._progress,
    "response.in_progress": ResponsesDecoder._progress,
    "response.output_item.added": ResponsesDecoder._added,
    "response.output_item.done": ResponsesDecoder._done,
    **dict.fromkeys(facts.TERMINALS, ResponsesDecoder._terminal),
    **dict.fromkeys(facts.TEXT_DELTAS, ResponsesDecoder._text_delta),
    **dict.fromkeys(facts.TEXT_DONES, ResponsesDecoder._text_done),
    **{f"{prefix}.delta": ResponsesDecoder._arguments_delta for prefix in facts.ARGUMENTS},
    **{f"{prefix}.done": ResponsesDecoder._arguments_done for prefix in facts.ARGUMENTS},
    **dict.fromkeys(facts.ERRORS, ResponsesDecoder._error),
    **dict.fromkeys(facts.NOTICES, ResponsesDecoder._notice),
}


def _same(item: Item, raw: dict[str, Any]) -> bool:
    return item.identity == items.identity(raw) and (item.identity is not None or item.head == raw)
