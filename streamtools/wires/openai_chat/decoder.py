"""Chat Completions chunks in, events out."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from typing_extensions import override

from ...errors import LimitExceeded, ProviderError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ...text import well_formed
from ..cited import cited_sources, made_files
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import ERROR, Path, malformed, provider_error, read_text
from . import facts
from .reasoning import LeadingThink, ReasoningDetails, texts_of


class OpenAIChatDecoder(WireDecoder):
    """Decodes one Chat Completions response. Only one choice is followed."""

    plain = tuple(
        PlainDelta(
            ("choices", 0, "delta", *path),
            {
                (): facts.NOISE.keys() | facts.REPEATED.keys(),
                ("choices", 0): {"index"} | facts.REPEATED.keys(),
                ("choices", 0, "delta"): frozenset({"role"}),
                ("choices", 0, "delta", "tool_calls", 0): frozenset({"id", "index", "type"}),
            },
            varies=frozenset((name,) for name in facts.NOISE),
        )
        for path in (
            ("content",),
            *((name,) for name in facts.REASONING_FIELDS),
            ("tool_calls", 0, "function", "arguments"),
        )
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._repeats = facts.Repeats()
        self._call_names: list[list[str | None]] = []  # the fields of the last pieces of calls without unknown ones
        self._choice: object = None  # index of the choice that is followed
        self._last_choice: object = None
        self._think: LeadingThink | None = LeadingThink()
        self._reasoning_field: str | None = None
        self._details = ReasoningDetails()
        self._has_calls = False
        self._is_late: bool  # a piece of a call came after the last finish reason: that does not speak of it
        self._terminated = False

    @property
    @override
    def needs_each(self) -> bool:
        # Inside a leading block its end may come; before any text, reasoning has a field of its own.
        return (self._think is not None and self._think.state != "undecided") or self.loose or self.done

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Takes one chunk."""
        out = self.out = []
        if "error" in payload and (error := provider_error(payload)):
            self._read_usages(payload)
            self.fail_by(payload, error, facts.ERROR_CHUNK)
            return out
        choices = payload.get("choices")
        if not self._started and (choices or payload.get("id") or payload.get("model")):
            self.emit_start(payload.get("model"), payload.get("id"))
        if payload.get("usage") is not None or "x_groq" in payload:
            self._read_usages(payload)
            groq = payload.get("x_groq")
            if isinstance(groq, dict) and (error := provider_error({"error": groq.get("error")})):
                self._fail_inside(groq, error, "x_groq")  # "why a stream was stopped early" (the type of Groq's SDK)
                return out
            if isinstance(groq, dict):
                self.emit_beside(groq, facts.KNOWN_OF_GROQ, "x_groq")
        if not choices:
            if choices is None and (error := provider_error(payload)):
                self.fail_by(payload, error, facts.ERROR_CHUNK)
            elif not facts.ENVELOPE.isdisjoint(payload):
                self._emit_rest(payload)
            elif payload.get("type") == "ping":
                self.emit_unread(payload, facts.PING)
            else:
                self.warn("unknown_event")
                self.emit_unknown(payload)
            return out
        if type(choices) is not list:
            self.fail(malformed("'choices' of a chunk is no list"))
            return out
        self._payload, self._exact = payload, None
        for position, choice in enumerate(choices):
            if type(choice) is not dict:
                self.fail(malformed("a choice of a chunk is no object"))
                return out
            index = choice.get("index")
            if index != self._choice and not self._follows(index):
                continue
            delta = choice.get("delta")
            if type(delta) is dict:
                self._delta(delta, position)
            elif other := delta or choice.get("message") or choice.get("text"):
                self.emit_unknown(other)
            if "error" in choice and (error := provider_error({"error": choice["error"]})):
                self._fail_inside(choice, error, "choices", position)
                return out
            if finish := choice.get("finish_reason"):
                self._finished(finish, choice.get("native_finish_reason"))
            if not facts.KNOWN_OF_CHOICE.issuperset(choice):
                place = f"choices[{position}]"
                self.emit_beside(choice, self._repeats.known(choice, facts.KNOWN_OF_CHOICE, place), place)
            if "message" in choice and type(delta) is dict and isinstance(message := choice["message"], dict):
                self.emit_beside(message, self._kept_beside(message, facts.UNDERSTOOD), f"choices[{position}].message")
        if not facts.KNOWN.issuperset(payload):
            self._emit_rest(payload)
        return out

    def _emit_rest(self, payload: dict[str, Any]) -> None:
        """Emits the fields of a chunk that are not read, and have changed if they only repeat what stands."""
        self.emit_beside(payload, self._kept_beside(payload, self._repeats.known(payload, facts.KNOWN, "")), "")

    def _kept_beside(self, found: Mapping[str, Any], known: AbstractSet[str]) -> AbstractSet[str]:
        """Keeps sources and files in an object; returns the fields that are known, with theirs."""
        for names, read in ((facts.CITED, cited_sources), (facts.MADE, made_files)):
            lists = {name: found[name] for name in names if name in found and name not in known}
            if not lists or next(iter(read(lists)), None) is None:
                continue
            known |= lists.keys()
            self._part_count += 1
            if self.holds(self._part_count, "the response") and self.charge(lists) and (kept := self.to_keep(lists)):
                self.out.append(ProviderItem(next(iter(lists)), kept))
        return known

    def _fail_inside(self, found: Mapping[str, Any], error: ProviderError, *path: str | int) -> None:
        if isinstance(body := found["error"], dict):
            self.emit_unread(body, ERROR, *path, "error")
        self.fail(error)

    def terminate(self) -> list[Event]:
        """Takes ``[DONE]``."""
        self.out = []
        self._terminated = True
        self.done = True
        return self.out

    # -- the parts of a delta --

    def _follows(self, index: object) -> bool:
        """Returns whether a choice with a new index belongs to the one that is followed. With n > 1 the others are left
        out. But Foundry Local counts tokens there (microsoft/foundry-local#144): an index that begins above 0 and only
        grows labels nothing."""
        if index is None:
            return True
        if self._choice is None:
            self._choice = self._last_choice = index
            return True
        self.warn("extra_choice")
        last, counts = self._last_choice, self._choice != 0
        if counts and isinstance(index, int) and isinstance(last, int) and index > last:
            self._last_choice = index
            return True
        return index == last

    def _delta(self, delta: dict[str, Any], position: int) -> None:
        if len(delta) == 1 and (calls := delta.get("tool_calls")):  # what a call's arguments come in, mostly
            self._calls(calls, position)
            return
        for name in facts.REASONING_FIELDS:
            value = delta.get(name)
            if isinstance(value, str) and value:
                self._reasoning_field = name
                self.emit_reasoning(value)
                break
        else:
            name = ""
        if details := delta.get("reasoning_details"):
            for text in self._details.add(details):
                if not name and text:  # otherwise the same text stands in the field above
                    self.emit_reasoning(text)
            if self._details.replaced:
                self.emit_unknown(self._details.replaced, f"choices[{position}].delta.reasoning_details")
            if self._details.size > (limit := self.limits.max_text_bytes):
                self.fail(LimitExceeded("max_text_bytes", limit=limit, where="the reasoning details"))
        content = delta.get("content")
        if content:
            self._content(content, ("choices", position, "delta", "content"))
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.emit_refusal(refusal)
        calls = delta.get("tool_calls")
        if calls:
            self._calls(calls, position)
        elif isinstance(legacy := delta.get("function_call"), dict):
            at = ("choices", position, "delta", "function_call")
            self.emit_unread(legacy, facts.LEGACY_CALL, *at)
            function = {key: legacy.get(key) for key in facts.LEGACY_CALL.known}
            self._call({"index": "function_call", "function": function}, (*at, "arguments"))
        if not facts.UNDERSTOOD.issuperset(delta):
            self.emit_beside(delta, self._kept_beside(delta, facts.UNDERSTOOD), f"choices[{position}].delta")

    def _content(self, content: object, path: Path) -> None:
        if isinstance(content, str):
            self._head_of_text(content) if self._think else self.emit_text(content)
        elif isinstance(content, (list, dict)):  # typed blocks: Mistral, Databricks
            for number, block in enumerate(content if isinstance(content, list) else [content]):
                self._block(block, (*path, number))
        else:
            self.emit_unknown(content)

    def _block(self, block: object, path: Path) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(block, str):
            self._content(block, path)
        elif isinstance(block, dict) and isinstance(text := block.get("text"), str):
            if text:
                self._content(text, path)
            self.emit_unread(block, facts.TEXT_BLOCK, *path)
        elif isinstance(block, dict) and kind in ("thinking", "reasoning"):
            inner = block.get("thinking") or block.get("summary") or block.get("reasoning")
            for text in texts_of(inner):
                self._reasoning_field = "content"
                self.emit_reasoning(text)
            self.emit_unread(block, facts.THOUGHT_BLOCK, *path)
        else:
            self.emit_unknown(block)

    def _head_of_text(self, text: str) -> None:
        """Takes text while a leading ``<think>`` block is still possible."""
        assert self._think is not None
        reasoning, rest = self._think.feed(text)
        if self._think.state != "undecided" and self._think.raw:
            self.warn("inline_think")
        self._emit_parts(reasoning, rest)

    def _emit_parts(self, reasoning: str, text: str) -> None:
        think = self._think
        if reasoning:
            self.emit_reasoning(reasoning)
        if think and think.state == "text":
            if think.raw:
                self.emit_reasoning("")  # also a block that held nothing goes back
                self.end_part()
            self._think = None
        if text:
            self.emit_text(text)

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        if self._open == "reasoning" and provider_state is None:
            provider_state = {"field": self._reasoning_field} if self._reasoning_field else {}
            if self._reasoning_field is None and self._think and self._think.raw:
                provider_state = {"inline": well_formed("".join(self._think.raw))}
        super().end_part(provider_state)

    # -- calls --

    def _calls(self, calls: object, position: int) -> None:
        path: tuple[str | int, ...] = ("choices", position, "delta", "tool_calls")
        if isinstance(calls, dict):  # TGI sends one object
            self._call(calls, (*path, "function", "arguments"))
        elif isinstance(calls, list):
            for number, call in enumerate(calls):
                if isinstance(call, dict):
                    self._call(call, (*path, number, "function", "arguments"))
                elif call is not None:
                    self.emit_unknown(call)
        else:
            self.emit_unknown(calls)

    def _call(self, call: dict[str, Any], path: tuple[str | int, ...]) -> None:
        kind = call.get("type")
        if isinstance(kind, str) and kind not in ("function", "custom") and isinstance(call.get(kind), (dict, list)):
            self.emit_unknown(call)  # a tool that the provider runs itself (``web_search``)
            return
        if self._think:  # text that might have become a tag stays text
            self._emit_parts(*self._think.finish())
        if self._open:
            self.end_part()
        self._think = None
        custom = call.get("custom")
        function = call.get("function")
        if isinstance(custom, dict):
            name, arguments = custom.get("name"), custom.get("input")
            path = (*path[:-2], "custom", "input")
        elif isinstance(function, dict):
            name, arguments = function.get("name"), function.get("arguments")
        else:
            name = arguments = None
        index = call.get("index")
        if index is None:
            self.warn("missing_index")
        names = [*call, None, *(function if isinstance(function, dict) else ())]
        if names not in self._call_names and not self.emit_unread(call, facts.CALL, *path[:-2]):
            self._call_names = [*self._call_names[-1:], names]  # a call begins with other fields than it goes on with
        self._has_calls = True
        self._is_late = self._finish_raw is not None
        problem = None
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            self.warn("arguments_object")
            arguments, problem = self.object_text(arguments, path)
        extra = call.get("extra_content")
        self.out.append(
            ToolCallFragment(
                index if isinstance(index, (int, str)) else None,
                read_text(id_) if (id_ := call.get("id")) else None,
                read_text(name) if name else None,
                arguments,
                "custom" if call.get("type") == "custom" or custom is not None else "function",
                problem=problem,
                provider_state={"extra_content": kept} if extra and (kept := self.to_keep(extra)) else None,
            )
        )

    # -- the end --

    def _finished(self, finish: object, native: object) -> None:
        if not isinstance(finish, str):
            self.emit_unknown(finish)
            return
        self._is_late = False
        if self._finish_raw is None:
            self._finish_raw = finish
        elif finish == self._finish_raw:
            self.warn("repeated_finish_reason")
        else:
            self.warn("conflicting_finish_reason")
            if facts.FINISHES.get(finish) in facts.BAD_NEWS:
                self._finish_raw = finish
        if isinstance(native, str) and native in facts.NATIVE_CUT and facts.FINISHES.get(finish) != "length":
            self.warn("masked_truncation")
            self._finish_raw = native

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        if self._think:
            self._emit_parts(*self._think.finish())
        self.end_part()
        if self._details and (details := self.to_keep(self._details.joined())):
            self.out.append(ProviderItem("reasoning_details", {"reasoning_details": details}))
        raw = self._finish_raw
        if raw is None:
            return None, False
        if framed and not self._terminated and self.error is None:
            self.warn("missing_done")
        finish = facts.FINISHES.get(raw, "length" if raw in facts.NATIVE_CUT else "other")
        if finish == "tool_calls" and not self._has_calls:
            self.warn("finish_without_calls")
        return self.normalized(finish, self._has_calls), self._terminated or not self._is_late

    def _read_usages(self, payload: dict[str, Any]) -> None:
        """Reads both usage objects that a chunk may have; a count in the usual place replaces the other."""
        if isinstance(groq := payload.get("x_groq"), dict):
            self.read_usage(groq.get("usage"))
        self.read_usage(payload.get("usage"))
