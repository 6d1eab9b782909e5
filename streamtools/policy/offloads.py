"""Keeps long results of a run out of the history: the model reads their beginning, and the rest by a tool.

Ids are derived from the call's key, so that the same run finds the results again in the same directory.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio.to_thread

from ..content import Block, Media, Text
from ..dispatch.results import any_content
from ..durable.files import write_private
from ..errors import ModelRetry
from ..events import Observation, StreamWarning
from ..exports import Exports
from ..ground import one_line, type_name
from ..limits import Limits, checked_bound
from ..seams import ReadText, StepView
from ..tools import AnyTools, Tool, Toolset, tool

_ID = re.compile(r"r[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offloading:
    """Configures which results a run keeps outside the history, and where. Sizes are in characters, unless stated.

    Raises:
        ValueError: a size is not a positive integer, or the beginning or a piece is longer than `above`.
    """

    above: int  # a result with more text is kept, and the model reads its beginning
    head: int = 2_000  # how much of it the model reads at first; at most `above`
    piece: int | None = None  # how much of it the model reads at a time; at most `above`, which is the default
    max_result: int = 8 << 20
    """The longest result, in bytes of UTF-8; a longer one is cut. It replaces ``Limits(max_result_bytes=...)``."""
    max_kept: int = 64 << 20  # all results of the run; beyond that the oldest are forgotten
    directory: Path | str | None = None
    """The directory for files with the results, readable by their owner only; None: memory. Files survive until the run
    is resumed, and are not deleted at its end."""
    tool_name: str = "read_result"  # the name of the tool by which the model reads on

    def __post_init__(self) -> None:
        for name in ("above", "head", "max_result", "max_kept"):
            checked_bound(name, getattr(self, name))
        object.__setattr__(self, "head", min(self.head, self.above))
        if self.piece is None:
            object.__setattr__(self, "piece", self.above)
        elif checked_bound("piece", self.piece) > self.above:
            raise ValueError(f"piece={self.piece} is more than above={self.above}; choose a smaller piece")


@dataclass(slots=True)
class _Kept:
    tool: str
    call_id: str
    trusted: bool
    head: str = field(repr=False)
    chars: int
    text: str | None = field(repr=False)  # None if it is in a file


class Offloads:
    def __init__(self, settings: Offloading, trusted: Collection[str]) -> None:
        self._settings = settings
        self._trusted = trusted  # the names of the tools whose results nobody but the user and the program has written
        self._prefix = ""
        self._directory = None if settings.directory is None else Path(settings.directory)
        self._kept: dict[str, _Kept] = {}
        self._chars = 0
        self.tool: Tool[..., Any] = self._made_tool()

    def _made_tool(self) -> Tool[..., Any]:
        most = self._settings.piece or 0

        async def read(result_id: str, offset: int = 0, length: int = most) -> str:
            """Read on in a result that was too long to be shown whole.

            Args:
                result_id: The id that stands at the end of the shortened result.
                offset: The first character to read, from 0.
                length: How many characters to read; no more than the default are read at a time.
            """
            return await self._read(result_id, offset, min(length, most))

        return tool(read, name=self._settings.tool_name, effect="pure")

    @property
    def directory(self) -> Path | None:
        return self._directory

    def begin(self, run_id: str) -> None:
        self._prefix = _digest(run_id)

    # -- keeping --

    def apply(self, observation: Observation, step: StepView) -> Observation:
        """Keeps a long result: the model reads its beginning, and how to read on."""
        seen, result, above = observation, observation.result, self._settings.above
        whole = seen.model_content
        if result is not None:
            whole = "\n".join(block.text for block in result.blocks if isinstance(block, Text))
        if len(whole) <= above or seen.tool_name == self.tool.name or (result is not None and result.native):
            return seen
        is_trusted = seen.tool_name in self._trusted and seen.outcome == "ok" and seen.validated_args is not None
        kept = _Kept(seen.tool_name, seen.call_id, is_trusted, whole[: self._settings.head], len(whole), whole)
        result_id = _id_of(seen.idempotency_key, step.number, seen.call_id)
        failed = self._keep(result_id, kept)
        if failed is not None:
            label = f"{one_line(seen.tool_name)}, call {one_line(seen.call_id)}"
            step.warn(StreamWarning("result_not_stored", f"{label}: {type_name(failed)}"))
        way = f'{self.tool.name}(result_id="{result_id}", offset={len(kept.head)})'
        note = f"{kept.head}\n[The first {len(kept.head)} of {kept.chars} characters. Read more by {way}.]"
        if result is None:
            return replace(seen, model_content=note)
        blocks: list[Block] = [Text(note), *(block for block in result.blocks if not isinstance(block, Text))]
        texts = (block.placeholder() for block in blocks if isinstance(block, Media))
        return replace(seen, model_content="\n".join((note, *texts)), result=replace(result, blocks=tuple(blocks)))

    def restore(self, seen: Observation, step: StepView) -> None:
        """Keeps again what a step on record had kept in memory, if its value still has the text."""
        result_id = _id_of(seen.idempotency_key, step.number, seen.call_id)
        if self._directory is not None or f'result_id="{result_id}"' not in seen.model_content:
            return
        text, head = any_content(seen.value, self._settings.max_result, seen.tool_name), self._settings.head
        if seen.model_content.startswith(text[:head]):
            self._keep(result_id, _Kept(seen.tool_name, seen.call_id, False, text[:head], len(text), text))

    def _keep(self, result_id: str, kept: _Kept) -> OSError | None:
        failed: OSError | None = None
        if self._directory is not None:
            try:
                write_private(self._path(result_id), kept.text or "")
                kept.text = None
            except OSError as error:
                failed = error
        before = self._kept.pop(result_id, None)
        self._kept[result_id] = kept
        self._chars += kept.chars - (0 if before is None else before.chars)
        while self._chars > self._settings.max_kept and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            self._chars -= self._kept.pop(oldest).chars
            if self._directory is not None:
                try:
                    self._path(oldest).unlink(missing_ok=True)
                except OSError as error:  # the file stays, and may still be read
                    failed = failed or error
        return failed

    def _path(self, result_id: str) -> Path:
        assert self._directory is not None, "requested where there is one"
        return self._directory / f"{self._prefix}-{result_id}.txt"

    # -- reading --

    async def _read(self, result_id: str, offset: int, length: int) -> str:
        text = await self._text(result_id) if _ID.fullmatch(result_id) else None
        if text is None:
            raise ModelRetry(
                "there is no result with this id, or it is no longer kept; ids are at the end of shortened results"
            )
        if not 0 <= offset < len(text) or length < 1:
            raise ModelRetry(f"offset must be from 0 to {len(text) - 1}, and length at least 1")
        end = min(offset + length, len(text))
        rest = f"continue with offset={end}" if end < len(text) else "this is the end"
        return f"{text[offset:end]}\n[Characters {offset} to {end} of {len(text)}; {rest}.]"

    async def _text(self, result_id: str) -> str | None:
        kept = self._kept.get(result_id)
        if kept is not None and kept.text is not None:
            return kept.text
        if self._directory is None:
            return None
        try:
            read = await anyio.to_thread.run_sync(self._path(result_id).read_bytes)
        except FileNotFoundError:
            return None
        return read.decode("utf-8", "replace")

    # -- origins --

    def text_of(self, seen: Observation) -> ReadText | None:
        """Returns the text that the model reads of a result that is kept, or of a piece of one; None for any other."""
        kept = self._kept.get(_id_of(seen.idempotency_key, seen.step, seen.call_id))
        if kept is not None:
            return ReadText(kept.head, kept.tool, kept.call_id, kept.trusted)
        if seen.tool_name != self.tool.name or seen.outcome != "ok":
            return None
        text = seen.model_content.rpartition("\n[")[0]
        kept = self._kept.get((seen.validated_args or {}).get("result_id", ""))
        if kept is None:  # of the run before it was resumed
            return ReadText(text, seen.tool_name, seen.call_id)
        return ReadText(text, kept.tool, kept.call_id, kept.trusted)


def _id_of(key: str | None, step: int, call_id: str) -> str:
    return f"r{_digest(f'{key} {step} {call_id}')}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def remove_files(directory: Path, run_id: str) -> None:
    """Removes what a run has kept in a directory. Blocks; raises an `OSError` for the first file that stays."""
    for path in directory.glob(f"{_digest(run_id)}-r*.txt"):
        path.unlink(missing_ok=True)


def offloads_of(
    given: int | Offloading, tools: AnyTools | Exports, options: Mapping[str, Any]
) -> tuple[Offloads, list[Any], dict[str, Any]]:
    """Returns the place for the results of a run, its tools with the reading one, and its options for that. Raises a
    `TypeError` if the tools were exported already, or *given* is neither a number nor `Offloading`; a `ValueError` if
    another tool has the name of the reading one."""
    settings = given if isinstance(given, Offloading) else None
    if settings is None:
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError(
                f"offload_above takes a number of characters or Offloading(...), not {type(given).__name__}"
            )
        settings = Offloading(above=given)
    if isinstance(tools, Exports):
        raise TypeError("offload_above= adds a tool, so pass the tools themselves, not their exports")
    listed = list(tools)
    made = [one for one in Toolset(listed).values() if one is not None]
    offloads, names = Offloads(settings, {one.name for one in made if one.trusted}), {one.name for one in made}
    if settings.tool_name in names:
        raise ValueError(f"offload_above: the name {settings.tool_name!r} is taken; pass Offloading(tool_name=...)")
    changed: dict[str, Any] = dict(options)
    executor = changed.get("executor")
    if executor is not None and not hasattr(executor, "keys"):  # the reading tool runs here
        changed["executor"] = dict.fromkeys(names, executor)
    limits: Limits = changed.get("limits", Limits())
    changed["limits"] = replace(limits, max_result_bytes=max(limits.max_result_bytes, settings.max_result))
    return offloads, [*listed, offloads.tool], changed
