"""Shows a run as one answer of OpenAI's Chat Completions, as `openai.types.chat` in openai 3.57 for Python has it.

All steps of the run are one message: their texts, separated by empty lines. Calls that run here are not shown, since
the client would run them, too. Calls that are handed out (`AnswerRequested`) stand in it as ``tool_calls`` when the run
rests; the client's results come with its next request (`chat_requests`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from .. import events as of
from ..events import Event
from ..parts import Finish, Usage
from .encoding import Frame, RunEnd, json_bytes, plain

_FINISHES: Mapping[Finish | None, str] = {"length": "length", "content_filter": "content_filter"}  # others: stop
_UNFINISHED = frozenset({"max_steps", "budget", "pending"})  # the answer has no end: a client may ask on
_FAILED = frozenset({"error", "interrupted", "truncated", "suspended"})  # what no finish reason says


class ChatCompletions:
    """Encodes a run as a Chat Completions stream: ``EventStreamResponse(run, encode=ChatCompletions("agent-1"))``.

    A run that fails, or that waits for a person who cannot decide by this protocol, ends with an ``error`` frame, which
    OpenAI's clients raise.

    Args:
        model: the name that the answer shows for its model: the one that was asked for.
        id: the id of the answer; by default made of the run's, and of the place where this response begins.
        created: seconds since 1970, for clients that show them.
        include_usage: send the tokens of the answer before its end; see `ChatRequest.include_usage`.
        reasoning: send the reasoning as ``reasoning_content``, as DeepSeek and vLLM do, which OpenAI does not define.
        tools: the names of the client's tools: calls that are handed out to others are not shown. None: all are the
            client's.
        between: stands between the texts of two steps.
    """

    can_retract: bool = False
    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        model: str,
        *,
        id: str | None = None,
        created: int = 0,
        include_usage: bool = False,
        reasoning: bool = False,
        tools: Collection[str] | None = None,
        between: str = "\n\n",
    ) -> None:
        self._model, self._id, self._created = model, id, created
        self._counts, self._reasons, self._tools = include_usage, reasoning, tools
        self._between = between
        # of the run
        self._run_id = self._place = self._shown_id = ""
        self._seq = -1
        self._handed_out: dict[tuple[int, str], of.AnswerRequested] = {}
        self._started: set[tuple[int, str]] = set()
        self._ids: dict[str, int] = {}  # the step that has each call id
        # of the response
        self._text = _AnswerText(between)
        self._begun = self._has_reasoned = False
        self._finish: Finish | None = None
        self._usage: Usage | None = None

    def begin(self) -> Iterable[Frame]:
        """Returns the head of the message, if its run is known; else it comes with the first event."""
        if self._seq >= 0:
            self._place = f"-{self._seq}"
        self._text.restart()
        self._begun = self._has_reasoned = False
        self._finish = self._usage = None
        return self._head() if self._run_id else ()

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]:
        if isinstance(event, RunEnd):
            return self._end(event)
        self._seq = max(self._seq, event.seq)
        self._note_event(event)
        found = [*self._head()] if self._run_id else []
        if isinstance(event, of.RefusalDelta):
            return [*found, self._chunk({"refusal": event.text})] if event.text else found
        if isinstance(event, of.ReasoningDelta):
            if self._reasons and event.text:
                self._has_reasoned = True
                found.append(self._chunk({"reasoning_content": event.text}))
        elif isinstance(event, of.ReasoningStart):
            if self._has_reasoned:
                found.append(self._chunk({"reasoning_content": self._between}))
        elif text := self._text.feed(event):
            found.append(self._chunk({"content": text}))
        return found

    def whole(self, events: Iterable[Event | RunEnd]) -> dict[str, Any]:
        """Returns the answer to a request without ``stream``: a ``chat.completion``, or ``{"error": ...}``.

        Args:
            events: those of this response, to the `RunEnd`. What came before has been given to the encoder.
        """
        self._counts = True
        frames = [*self.begin(), *(one for event in events for one in self(event))]
        return _joined([frame[1] for frame in frames if not isinstance(frame, bytes)])

    # -- the run --

    def _note_event(self, event: Event) -> None:
        if isinstance(event, of.StepStart):
            self._run_id = event.run_id
        elif isinstance(event, of.AnswerRequested):
            # A call that has begun waits for the rest of its own work, not for the client.
            is_for_client = event.question is None and (event.step, event.call_id) not in self._started
            if is_for_client and (self._tools is None or event.tool_name in self._tools):
                self._handed_out[event.step, event.call_id] = event
                self._ids.setdefault(event.call_id, event.step)
        elif isinstance(event, of.ToolStarted):
            self._started.add((event.step, event.call_id))
            self._handed_out.pop((event.step, event.call_id), None)
        elif isinstance(event, of.Observation):
            self._started.discard((event.step, event.call_id))
            self._handed_out.pop((event.step, event.call_id), None)
        elif isinstance(event, of.StreamEnd):
            self._finish = event.finish
            self._add(event.usage)
        elif isinstance(event, of.AttemptDiscarded):
            self._add(event.usage)
            self._handed_out = {
                key: one for key, one in self._handed_out.items() if one.step != event.step or one.seq < event.from_seq
            }

    def _add(self, usage: Usage | None) -> None:
        if usage is not None:
            self._usage = usage if self._usage is None else self._usage + usage

    # -- the response --

    def _head(self) -> Iterable[Frame]:
        if self._begun:
            return ()
        self._begun = True
        self._shown_id = self._id or f"chatcmpl-{self._run_id}{self._place}"
        return (self._chunk({"role": "assistant", "content": ""}),)

    def _end(self, end: RunEnd) -> list[Frame]:
        calls = [*self._handed_out.values()] if end.outcome == "suspended" else []
        done: Frame = ("", "[DONE]")
        if end.kind is not None or (end.outcome in _FAILED and not calls):
            code, again = end.kind or end.outcome, {} if end.retry_after is None else {"retry_after": end.retry_after}
            failure = {"message": end.words, "type": "server_error", "param": None, "code": code, **again}
            return [("", {"error": failure}), done]
        found = [*self._head()]
        found += [self._chunk({"tool_calls": [self._call(at, call)]}) for at, call in enumerate(calls)]
        reason = "length" if end.outcome in _UNFINISHED else _FINISHES.get(self._finish, "stop")
        found.append(self._chunk({}, "tool_calls" if calls else reason))
        if self._counts and self._usage is not None:
            found.append(("", {**self._envelope(), "choices": [], "usage": _usage(self._usage)}))
        return [*found, done]

    def _call(self, at: int, call: of.AnswerRequested) -> dict[str, Any]:
        # An id may recur in another step; the results in the client's history are found by theirs.
        is_first = self._ids[call.call_id] == call.step
        arguments = json_bytes(plain(call.arguments, {})).decode()
        return {
            "index": at,
            "id": call.call_id if is_first else f"{call.call_id}@{call.step}",
            "type": "function",
            "function": {"name": call.tool_name, "arguments": arguments},
        }

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> Frame:
        data = self._envelope()
        data["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
        if self._counts:
            data["usage"] = None
        return "", data

    def _envelope(self) -> dict[str, Any]:
        return {"id": self._shown_id, "object": "chat.completion.chunk", "created": self._created, "model": self._model}


def _usage(usage: Usage) -> dict[str, Any]:
    read, written = usage.input_tokens or 0, usage.output_tokens or 0
    details = {"cached_tokens": usage.cached_input_tokens, "audio_tokens": usage.audio_input_tokens}
    made_of = {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": usage.audio_output_tokens}
    return {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "prompt_tokens_details": {name: count for name, count in details.items() if count is not None},
        "completion_tokens_details": {name: count for name, count in made_of.items() if count is not None},
    }


def _joined(chunks: list[Any]) -> dict[str, Any]:
    chunks = [chunk for chunk in chunks if chunk != "[DONE]"]
    if "error" in chunks[-1]:
        return {"error": chunks[-1]["error"]}
    texts: dict[str, list[str]] = {"content": [], "refusal": [], "reasoning_content": []}
    calls, finish, usage = [], None, None
    for chunk in chunks:
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            for name, value in choice["delta"].items():
                if name in texts:
                    texts[name].append(value)
                elif name == "tool_calls":
                    calls += [{key: one for key, one in call.items() if key != "index"} for call in value]
            finish = choice["finish_reason"] or finish
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts["content"]) or None}
    message["refusal"] = "".join(texts["refusal"]) or None
    if texts["reasoning_content"]:
        message["reasoning_content"] = "".join(texts["reasoning_content"])
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    whole = {**chunks[0], "object": "chat.completion", "choices": [choice], "usage": usage}
    return whole if usage is not None else {name: one for name, one in whole.items() if name != "usage"}


class _AnswerText:
    def __init__(self, between: str) -> None:
        self._between = between
        self._any = self._is_due = False
        self._block: list[str] = []  # the text that grows

    def restart(self) -> None:
        self._any = self._is_due = False

    def feed(self, event: Event | RunEnd) -> str:
        if isinstance(event, of.TextDelta):
            self._block.append(event.text)
            return self._joined(event.text)
        if isinstance(event, of.RefusalDelta):
            return self._joined(event.text)
        if isinstance(event, of.TextEnd) and event.whole is not None:
            shown = "".join(self._block)
            # Where the whole contradicts the deltas, nobody can take back what was shown.
            return self._joined(event.whole[len(shown) :]) if event.whole.startswith(shown) else ""
        if isinstance(event, of.TextStart):
            self._block = []
        elif isinstance(event, (of.StepStart, of.AttemptDiscarded)):
            self._is_due = self._any
        return ""

    def _joined(self, text: str) -> str:
        if not text:
            return ""
        head, self._is_due, self._any = self._between if self._is_due else "", False, True
        return head + text
