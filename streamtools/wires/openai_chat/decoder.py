"""Chat Completions chunks in, events out."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from typing_extensions import override

from ...errors import LimitExceeded, ProviderError
from ...events import Event, ProviderItem, ToolCallFragment
from ...ground.text import well_formed
from ...limits import Limits
from ...parts import Finish
from ..cited import cited_sources, made_files
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import ERROR, Path, malformed, object_of, place_of, provider_error, read_text, rest_of, unread
from . import facts
from .reasoning import Extras, LeadingThink


class OpenAIChatDecoder(WireDecoder):
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
        self._call_names: list[list[str | None]] = []  # the fields of the last pieces of calls without state
        self._choice: object = None  # index of the choice that is followed
        self._last_choice: object = None
        self._think: LeadingThink | None = LeadingThink()
        self._reasoning_field: str | None = None
        self._extras = Extras()
        self._blocks: Extras | None = None  # the typed blocks of the reasoning that is told
        self._in_thoughts = False  # the text so far is a summary of thoughts (Gemini's facade)
        self._said: dict[str, list[str]] = {"text": [], "reasoning": [], "refusal": []}
        self._empty: dict[str, str] = {}  # fields that the server gave as ""
        self._has_calls = False
        self._is_late: bool  # a piece of a call came after the last finish reason: that does not speak of it
        self._terminated = False

    @property
    @override
    def needs_each(self) -> bool:
        # Inside a leading block its end may come; before any text, reasoning has a field of its own.
        return (self._think is not None and self._think.state != "undecided") or self.loose or self.done

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        out = self.out = []
        if "error" in payload and (error := provider_error(payload)):
            self._read_usages(payload)
            self.fail_by(payload, error, facts.ERROR_CHUNK)
            return out
        choices = payload.get("choices")
        if not self._started and (choices or payload.get("id") or payload.get("model")):
            self.emit_start(payload.get("model"), payload.get("id"))
        if payload.get("usage") is not None or "x_groq" in payload or facts.INVOCATION in payload:
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
            self.fail(malformed("'choices' of a chunk is not a list"))
            return out
        self._payload, self._exact = payload, None
        for position, choice in enumerate(choices):
            if type(choice) is not dict:
                self.fail(malformed("a choice of a chunk is not an object"))
                return out
            index = choice.get("index")
            if index != self._choice and not self._follows(index):
                continue
            delta, finish = choice.get("delta"), choice.get("finish_reason")
            if type(delta) is dict:
                if delta and finish and self._finish_raw is None:
                    delta = self._without_repeats(delta)
                self._delta(delta, position)
            elif other := delta or choice.get("message") or choice.get("text"):
                self.emit_unknown(other)
            if "error" in choice and (error := provider_error({"error": choice["error"]})):
                self._fail_inside(choice, error, "choices", position)
                return out
            if finish:
                self._finished(finish, choice.get("native_finish_reason"))
            if "usage" in choice and payload.get("usage") is None:
                self.read_usage(choice.get("usage"))  # Moonshot (earendil-works/pi#2017)
            if not facts.KNOWN_OF_CHOICE.issuperset(choice):
                place = f"choices[{position}]"
                self.emit_beside(choice, self._repeats.known(choice, facts.KNOWN_OF_CHOICE, place), place)
            if "message" in choice and type(delta) is dict and isinstance(message := choice["message"], dict):
                self.emit_beside(message, self._kept_beside(message, facts.UNDERSTOOD), f"choices[{position}].message")
        if not facts.KNOWN.issuperset(payload):
            self._emit_rest(payload)
        return out

    def _emit_rest(self, payload: dict[str, Any]) -> None:
        self.emit_beside(payload, self._kept_beside(payload, self._repeats.known(payload, facts.KNOWN, "")), "")

    def _kept_beside(self, found: Mapping[str, Any], known: AbstractSet[str]) -> AbstractSet[str]:
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
        if not delta:
            return
        if len(delta) == 1 and (calls := delta.get("tool_calls")):  # what a call's arguments come in, mostly
            self._calls(calls, position)
            return
        if len(delta) == 1 and type(text := delta.get("content")) is str and text and not self._in_thoughts:
            self._content(text, ())
            return
        for name in () if facts.REASONING.isdisjoint(delta) else facts.REASONING_FIELDS:
            if (value := delta.get(name)) == "":
                self._empty[name] = ""
            elif isinstance(value, str):
                self._reason(value, name)
                break
        else:
            name = ""
        content, extra = delta.get("content"), object_of(delta["extra_content"]) if "extra_content" in delta else None
        is_thought = extra is not None and any(object_of(one).get("thought") is True for one in extra.values())
        for key in () if facts.OF_MESSAGES.isdisjoint(delta) else facts.OF_MESSAGES:
            value = delta.get(key)
            if key == "extra_content" and is_thought:  # no request takes the mark back
                fields = object_of(extra).items()
                rests = {field: rest_of(one, "thought") if type(one) is dict else one for field, one in fields}
                value = {field: rest for field, rest in rests.items() if rest}
            self._keep(self._extras, key, value, ("choices", position, "delta", key), shows=not name)
            name = name or (key if key in facts.ENTRIES and value else "")
        if content == "":
            self._empty["content"] = ""
        elif isinstance(content, str) and (is_thought or self._in_thoughts):
            thought, tag, text = content.removeprefix("<thought>").partition("</thought>")
            self._in_thoughts = is_thought and not tag
            if is_thought or tag:
                self._reason(thought, None)
                content = text
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

    def _keep(self, extras: Extras, name: str, value: object, path: Path, *, shows: bool = True) -> None:
        if (kept := self.to_keep(value)) is None:
            return
        for text in extras.add(name, kept):
            if text and shows and not (extras.is_signed and self._reasoning_field):
                self._reason(text, None)
        if extras.replaced:
            self.emit_unknown(extras.replaced, place_of(path))
        if extras.size > (limit := self.limits.max_text_bytes):
            self.fail(LimitExceeded("max_text_bytes", limit=limit, where="the reasoning details"))

    def _reason(self, text: str, field: str | None) -> None:
        if self._open == "reasoning" and field != self._reasoning_field:
            self.end_part()
        self._reasoning_field = field
        self.emit_reasoning(text)

    def _without_repeats(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Returns the last delta without a text that is all that was said so far: some gateways sum up at the end. A
        short piece, or a single one, may also have been said twice."""
        for name in ("content", *facts.REASONING_FIELDS):
            pieces, value = self._said["text" if name == "content" else "reasoning"], delta.get(name)
            is_long = isinstance(value, str) and len(value) >= (8 if len(pieces) > 1 else 32)
            if is_long and "".join(pieces) == value:
                self.warn("text_resent")
                delta = {**delta, name: None}
        return delta

    @override
    def _bounded(self, kind: str, text: str) -> str:
        pieces = self._said[kind]
        pieces.append(text)
        self.part.sink = pieces.append
        return super()._bounded(kind, text)

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
            if self._blocks is None or self._blocks.is_signed or path[-1]:  # of several in one delta, each stands alone
                self.end_part()
                self._blocks = Extras()
            self._keep(self._blocks, "content", [block], path)
            if self._open != "reasoning" and self._blocks.whole():  # withheld, but signed
                self._reason("", None)
            elif self._open != "reasoning":
                self._blocks = None
        else:
            self.emit_unknown(block)

    def _head_of_text(self, text: str) -> None:
        assert self._think is not None
        reasoning, rest = self._think.feed(text)
        if self._think.state != "undecided" and self._think.raw:
            self.warn("inline_think")
        self._emit_parts(reasoning, rest)

    def _end_head(self) -> None:
        if self._think:  # text that might have become a tag stays text
            self._emit_parts(*self._think.finish())
        if self._open:
            self.end_part()
        self._think = None

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
            if self._blocks is not None:
                provider_state, self._blocks = {"blocks": self._blocks.whole()["content"]}, None
        super().end_part(provider_state)

    # -- calls --

    def _calls(self, calls: object, position: int) -> None:
        path: tuple[str | int, ...] = ("choices", position, "delta", "tool_calls")
        if isinstance(calls, dict):  # TGI sends one object
            self._call(calls, (*path, "function", "arguments"))
        elif isinstance(calls, list):
            for number, call in enumerate(calls):
                if isinstance(call, dict):
                    if not self._adds_a_piece(call):
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
        if self._think is not None or self._open:
            self._end_head()
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
        of = custom if isinstance(custom, dict) else function if isinstance(function, dict) else {}
        names = [*call, None, *of]
        state = None
        if names not in self._call_names:  # a call begins with others
            is_known = not self.emit_unread(call, facts.CALL, *path[:-2])
            if not is_known:
                lost = sorted(str(name) for _, rest in unread(call, facts.CALL) for name in rest)
                self.warn("state_dropped", ", ".join(lost)[: self.limits.max_name_bytes])
            if not facts.OF_CALLS.isdisjoint(names):
                state = self._state_of(call, of)
            elif is_known:
                self._call_names = [*self._call_names[-1:], names]
        self._has_calls = True
        self._is_late = self._finish_raw is not None
        problem = None
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            self.warn("arguments_object")
            arguments, problem = self.object_text(arguments, path)
        self.out.append(
            ToolCallFragment(
                index if isinstance(index, (int, str)) else None,
                read_text(id_) if (id_ := call.get("id")) else None,
                read_text(name) if name else None,
                arguments,
                "custom" if call.get("type") == "custom" or custom is not None else "function",
                problem=problem,
                provider_state=state,
            )
        )

    def _adds_a_piece(self, call: dict[str, Any]) -> bool:
        """Emits what brings arguments and a label alone, as most do; returns False if it is anything else."""
        function = call.get("function")
        if len(call) != 2 or type(function) is not dict or len(function) != 1 or self._think is not None or self._open:
            return False
        index, arguments = call.get("index"), function.get("arguments")
        if type(index) is not int or type(arguments) is not str:
            return False
        self._is_late = self._finish_raw is not None
        self._has_calls = True
        self.out.append(ToolCallFragment(index, arguments=arguments))
        return True

    def _state_of(self, call: dict[str, Any], function: dict[str, Any]) -> dict[str, Any] | None:
        found = [(key, value, key) for key, value in call.items()]
        found += [(key, value, facts.IN_FUNCTION + key) for key, value in function.items()]
        extras = ((name, self.to_keep(value)) for key, value, name in found if key in facts.OF_CALLS and value)
        return {name: kept for name, kept in extras if kept is not None} or None

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
        kept = self._extras.whole() if self._extras.kept else {}
        if self._empty and not self._said["reasoning"]:
            kept |= {name: "" for name in facts.REASONING_FIELDS if name in self._empty}
        if kept:
            self.out.append(ProviderItem(next(iter(kept)), {"fields": kept}))
        if self._has_calls and "content" in self._empty and not self._said["text"]:
            self.out.append(ToolCallFragment(provider_state={facts.IN_MESSAGE + "content": ""}))
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
        """Reads the usage objects that a chunk may have; a count in the usual place replaces the others."""
        self.read_usage(payload.get(facts.INVOCATION))
        if isinstance(groq := payload.get("x_groq"), dict):
            self.read_usage(groq.get("usage"))
        self.read_usage(payload.get("usage"))
