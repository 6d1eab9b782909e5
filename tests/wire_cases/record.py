"""The record of a wire's test cases, and the values that pass between it and the tests over all wires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from streamtools import Turn

__all__ = ["Call", "Format", "Message", "Native", "Objection", "Payload", "Response", "Spoken", "Vary", "WireCases"]

Payload = dict[str, Any]
"""One parsed JSON object of a stream."""
Message = dict[str, Any]
"""One message of a history in the provider's own shape."""
Vary = Callable[[int], Any]
"""Makes the n-th of endless payloads."""
Spoken = tuple[str, list[Any]]
"""The speaker of a message, and the ids of its calls or results: ``("model", ["a"])``, ``("result", ["a"])``."""
Objection = Callable[[list[Message], list[Spoken]], Iterable[str]]
"""Yields what a provider objects to, from a history and its flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The content of a response that is to be composed."""

    text: Sequence[str] = ()
    """The text, a delta an item; `reasoning` and `refusal` likewise."""
    reasoning: Sequence[str] = ()
    refusal: Sequence[str] = ()
    calls: Sequence[tuple[str, str, str]] = ()
    """Whole calls: id, name, arguments as JSON text."""
    pieces: int = 1
    """How many deltas each call's arguments come in, where the wire has them in deltas."""
    ends: bool = True
    """Whether the wire's own end follows."""


@dataclass(frozen=True)
class Call:
    """A call in a history, and its result."""

    id: str
    name: str = "look"
    arguments: str = '{"at": 1}'
    result: str = "seen"


@dataclass(frozen=True, slots=True)
class Native:
    """Writes a history in the provider's own shape, by hand: without the library."""

    user: Callable[[str], Message]
    """Writes a message of the user."""
    said: Callable[[str, list[Call]], list[Message]]
    """Writes an answer of the model: its text, which may be empty, and its calls."""
    came: Callable[[list[Call]], list[Message]]
    """Writes the results of these calls; none of no calls."""
    system: Callable[[str], Message] | None = None
    """Writes a system prompt; None where it stands in the request, outside the messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Writes calls, and the tools that are called so, in one format of `streamtools.interop`."""

    name: str
    """The format's name, as the wire's `CallFormat` has it."""
    call: Callable[[str, str, str, Any], Message]
    """Writes a call from its id, its name, its arguments as text and the same as a value: one of these two is used."""
    tool: Callable[[Mapping[str, str], Any], Message] | None = None
    """Writes a tool from its ``name`` and ``description`` and its parameters, which a raw format leaves out; None where
    the wire has this format for calls alone, and their tools are in the usual one."""
    raw: bool = False
    """Whether its calls carry one raw text instead of arguments."""
    read_as: str | None = None
    """The format that what it writes is read as, where that looks the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCases:
    """The facts about one wire that the tests over all wires ask for.

    Every wire fills in the fields without a default. The others describe a peculiarity, and a wire that does not have
    it leaves them out.
    """

    # -- the stream

    say: Callable[[Response], list[Payload]]
    """Composes the payloads of a response, without anything the wire has no word for."""
    told_by: bytes
    """A regular expression for the bytes that only this wire's responses have: what detection goes by."""
    nothing: Mapping[str, Vary]
    """Payloads that say nothing about the response, by a description of each: an empty text, an event that is not known
    yet. Where a name or a value in them may be new, the n-th has one that the others have not (`parts.new`)."""
    blocks: Callable[[int], list[Payload]]
    """Payloads in the middle of a response that are so many blocks, as `Limits.max_open_blocks` counts them."""
    events_of_a_call: int | None
    """How many payloads a call in three deltas has up to its own end marker; None where calls end with the response."""
    framings: tuple[str, ...] = ("sse",)
    """The framings that its responses come in, the usual one first."""
    in_deltas: bool = True
    """Whether a call's arguments come as text in deltas; otherwise they come as objects, whole."""
    refuses: bool = False
    """Whether the wire has a word for the model's refusal."""
    reasons: bool = True
    """Whether the wire has a word for the model's reasoning."""
    detected_as: str | None = None
    """The wire that its payloads are detected as, where they are the same as another one's."""
    signature_characters: int = 0
    """Characters of the signature that `say` puts behind reasoning: they count as text."""
    payloads_after_end: int = 0
    """How many payloads `say` puts behind the one that ends the response."""
    cache_apart: bool = False
    """Whether the provider's count of input leaves out the tokens that were read from a cache or written to one."""
    not_found_again: Mapping[str, str] = field(default_factory=dict)
    """Strings of the stream that no event has and need not have: a regular expression for their places, as
    `found_again.place_of` words them, and the reason."""

    # -- the history

    native: Native
    """Writes the wire's messages."""
    flow: Callable[[Message], Iterable[Spoken]]
    """Reads from a message who speaks, and which calls are made or answered there."""
    joined: tuple[str, ...] = ("result",)
    """The speakers whose messages in a row are one turn."""
    objections: tuple[Objection, ...] = ()
    """The provider's rules of order beyond those of every provider (each call is answered, no id is used twice)."""
    model_roles: tuple[str, ...] | None = ("assistant",)
    """The values of ``role`` in a message of the model; None where messages have no such field."""
    check: Callable[[Turn, list[Message]], None]
    """Asserts that the provider takes the messages of a turn: its answer, and a result for each of its calls."""
    is_answered: Callable[[list[Message], int], bool] | None = None
    """Returns whether the messages of a turn have results for so many calls. It stands in for `check` on turns of this
    wire whose payloads were garbage, which goes back as it came; None where `check` holds even then."""
    takes: Callable[[list[Message]], Any] | None = None
    """Raises, a pydantic ``ValidationError`` or an ``AssertionError``, where the types of the provider's SDK refuse a
    history; None without such types."""
    pictures_in_results: bool = True
    """Whether a picture in a tool's result can be sent; otherwise a placeholder stands for it."""
    says_failures: bool = True
    """Whether a result says that its call failed."""
    text_beside_calls: bool = True
    """Whether text beside calls is the answer's text; otherwise it is something of this provider's alone."""

    # -- the tools

    formats: tuple[Format, ...]
    """Writes each of its formats of calls, the usual one first."""
    request: Callable[[Message], Payload]
    """Writes a request's fields for one tool, given in the usual format."""
    takes_tool: Callable[[Payload], None]
    """Asserts that the provider takes an exported tool, strict or not: by its SDK's types, or by its documentation."""

    # -- telemetry

    provider: str
    """The provider's name in spans."""
    telemetry_knows: bool = True
    """Whether OpenTelemetry's conventions list that name."""
