"""Converts a history of one provider for another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..content import Block, Media, Opaque, Text
from ..wires import Wire
from ..wires.transcript import CallResult, Entry, Prompt, Reply, encoded, text_of
from .calls import Messages, pair, refuse_another_wires, wire_named
from .repairing import BadArguments, HistorySettling, repair, written


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """Holds a history in the shape of another provider, and lists what was lost."""

    messages: list[Any]
    """Native messages of the target."""
    system: str | None = None
    """The system prompt if the target takes it apart from the messages; None if it is among them or missing."""
    losses: tuple[str, ...] = field(default=())
    """The parts that could not be converted, one line each, with their place in the source."""


def convert(
    messages: Sequence[Any],
    source: Wire | str,
    target: Wire | str,
    *,
    system: str | None = None,
    foreign: bool = False,
    model: str | None = None,
    last: bool = False,
    bad_arguments: BadArguments = "empty",
) -> Converted:
    """Converts a history of `source` to one that `target` accepts, and repairs its broken parts, as `repair` does.

    Texts, calls, results and media are converted. Reasoning, its signatures, and calls that a provider ran itself are
    left out, since no other provider takes them. Content that the target has no place for is replaced by a placeholder,
    and `losses` lists it. Calls get other ids where the target refuses theirs, always the same ones.

    Args:
        messages: native messages of `source`. They are not changed.
        source: the wire of the messages, or its name.
        target: the wire to convert to, or its name.
        system: the system prompt, if `source` has it apart from the messages.
        foreign: the messages come from another endpoint of the same wire (OpenAI's and Azure's, Gemini's and
            Vertex's): content that only the issuing endpoint takes back is left out.
        model: the target's model, where an endpoint has models that demand more than others (Bedrock).
        last: also answer calls without a result at the very end, which otherwise count as still running.
        bad_arguments: as in `repair`.

    Raises:
        ExportError: there is no such wire; or no message is of `source`, and some are of another wire.
        TypeError: `messages` is not a list.
    """
    reader, writer = wire_named(source), wire_named(target, model)
    prompts = [Prompt(role="system", blocks=(Text(system),))] if system else []
    if reader.name == writer.name and not foreign:  # to the same endpoint, so signatures are valid and ids stay
        repaired = repair(list(messages), target, model=model, last=last, bad_arguments=bad_arguments)
        if writer.rules.system == "apart":
            return Converted(messages=repaired, system=system)
        return Converted(messages=[*(message for prompt in prompts for message in written(prompt, writer)), *repaired])
    read = Messages(messages, reader)
    refuse_another_wires(read)
    conversion = _Conversion(reader, writer)
    conversion.unread(read.unread)
    entries = conversion.without_system([*prompts, *conversion.entries(read.entries)])
    steps = HistorySettling(writer, last=last, bad_arguments=bad_arguments).settle(pair(entries, reader.rules).steps)
    out = [message for step in steps for message in written(step, writer)]
    # A message written for one rule (a picture after its results) may break another.
    out = repair(out, target, model=model, last=last)
    return Converted(messages=out, system=conversion.system, losses=conversion.losses(out))


class _Conversion:
    """Strips entries of everything that only their own wire understands, and notes the losses. Signatures and encrypted
    reasoning are valid at the endpoint that issued them and nowhere else, Gemini's not even at Vertex.
    """

    def __init__(self, source: Wire, target: Wire) -> None:
        self.system: str | None = None
        self._name = source.rules.list_name
        self._source, self._target = source.name, target
        self._is_same = source.name == target.name
        self._losses: list[tuple[int, str]] = []
        self._media: list[tuple[int, Media]] = []

    def unread(self, places: Iterable[int]) -> None:
        for place in places:
            self._lose(place, f"not a message that {self._source} knows")

    def entries(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            place = entry.origin[0] if entry.origin else -1
            if isinstance(entry, Prompt):
                if blocks := self._blocks(entry.blocks, place):
                    yield replace(entry, blocks=blocks, state=entry.state if self._is_same else None, flaws=())
            elif isinstance(entry, Reply):
                self._note_left_out(entry, place)
                yield replace(entry, answer=replace(entry.answer, own_wire=False), flaws=())
            else:
                results = tuple(self._result(result, place) for result in entry.results)
                yield replace(entry, results=results, flaws=())

    def without_system(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Returns the entries without system prompts, which go to `system`, if the target has them apart."""
        texts: list[str] = []
        has_begun = False
        for entry in entries:
            if self._target.rules.system == "apart" and isinstance(entry, Prompt) and entry.role == "system":
                texts.append(text_of(entry.blocks))
                if has_begun:  # it was about the messages after it, and is now about all
                    self._lose(entry.origin[0] if entry.origin else -1, "a system prompt, which now comes first")
            else:
                has_begun = True
                yield entry
        self.system = "\n\n".join(texts) or None

    def losses(self, messages: list[Any]) -> tuple[str, ...]:
        # Only the messages show which media the target had a place for: its renderer decides block by block.
        carried = set(_strings(messages)) if self._media else set()
        for place, media in self._media:
            if not {media.data, media.url} & carried:
                self._lose(place, f"{media.placeholder()}, which {self._target.name} cannot hold there")
        lines = sorted(self._losses, key=lambda loss: loss[0])
        return tuple(dict.fromkeys(f"{self._name}[{place}]: {what}" if place >= 0 else what for place, what in lines))

    def _note_left_out(self, reply: Reply, place: int) -> None:
        # `own_wire=False` makes every renderer leave these out.
        for part in reply.answer.parts:
            if part.kind == "reasoning":
                self._lose(place, "reasoning")
            elif part.kind == "provider":
                self._lose(place, f"content that only {self._source} understands")
        for call in reply.answer.calls.values():
            if call.kind == "server":
                self._lose(place, f"a call that the provider ran itself ({call.name!r})")

    def _result(self, result: CallResult, place: int) -> CallResult:
        text, blocks = result.content, self._blocks(result.blocks, place)
        # Chat Completions, Mistral, Cohere and Ollama have no flag for errors: only a word tells the model.
        if result.is_error and not text.lower().startswith("error"):
            text, blocks = f"Error: {text}", (Text("Error:"), *blocks)
        has_media = any(isinstance(block, Media) for block in blocks)
        return replace(result, content=text, blocks=blocks if has_media else (), native=None, state=None)

    def _blocks(self, blocks: Sequence[Block], place: int) -> tuple[Block, ...]:
        kept: list[Block] = []
        for block in blocks:
            if self._is_same and (not isinstance(block, Media) or block.data is not None or block.url is not None):
                kept.append(block)
            elif isinstance(block, Text):
                kept.append(Text(block.text))
            elif isinstance(block, Opaque):
                self._lose(place, f"content that only {self._source} understands")
            elif block.data is not None or block.url is not None:
                kept.append(replace(block, file_id=None, state=None))
                self._media.append((place, block))
            else:  # the id of a file that only the other endpoint stores
                kept.append(Text(block.placeholder()))
                self._lose(place, f"{block.placeholder()}, of which there is only a file id")
        return tuple(kept)

    def _lose(self, place: int, what: str) -> None:
        self._losses.append((place, what))


def _strings(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            waiting.extend(node.values())
        elif isinstance(node, (list, tuple)):
            waiting.extend(node)
        elif isinstance(node, (bytes, bytearray)):
            yield encoded(bytes(node))
        elif isinstance(node, str):
            yield node
            if node.startswith("data:"):
                yield node.partition(",")[2]
