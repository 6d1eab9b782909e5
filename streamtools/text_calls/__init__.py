"""Finds tool calls, and reasoning between tags, that a model writes into its text.

Both are off by default, since a text may also quote such markup:

    stages = DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", text_calls("hermes"))
    async with pipeline(stream, tools=[get_weather], stages=stages) as events: ...

In this order a call inside a reasoning block is reasoning. All text around blocks and calls stays unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..limits import Limits
from ..tools import Toolset
from .calls import TextCalls
from .dialects import DIALECTS, AutoCalls, dialect_of
from .thoughts import DEFAULT_TAGS, split

__all__ = ["AUTO", "DIALECTS", "TextRecipe", "split_think", "text_calls"]

AUTO = "auto"
"""The name for the model's own dialect."""


@dataclass(frozen=True, slots=True)
class TextRecipe:
    name: str  # the stage's name in the list
    _make: Callable[[Toolset, Limits], TextCalls | AutoCalls]
    before: str | None = None  # the stage that takes the events of this one, and so has to come after it

    def build(self, tools: Toolset, limits: Limits, id_salt: str) -> TextCalls | AutoCalls:
        return self._make(tools, limits)


def text_calls(dialect_name: str = AUTO, *, model: str | None = None, in_unclosed_thoughts: bool = False) -> TextRecipe:
    """Finds the calls that a model writes into its text, for a model or server without native tool calling.

        pipeline(stream, tools=[...], stages=DEFAULT.insert_before("accumulate", text_calls("hermes")))

    Each call passes the same checks as a native one, and its arguments stream if the model writes them as JSON. Markup
    that is not a call, or is too short to tell, stays text. A call whose arguments have begun cannot be retracted: if
    it is cut or its markup is broken, it is reported as such, and does not run. A turn with calls finishes with
    ``tool_calls`` where the server said ``stop``.

    Args:
        dialect_name: the model's dialect, a key of `DIALECTS`: ``hermes``, ``llama3``, ``mistral``...; ``auto``: the
            dialect by the model's name. If the model is unknown, all is text.
        model: the model's name, for ``auto``; by default, or if it is unknown, the name in the stream.
        in_unclosed_thoughts: run the calls at the end of a thought that the model never closed, for models that often
            forget that (Kimi K2 Thinking, MiniMax M3). Such a call does not run if the response was cut, or text or a
            call follows the thought. By default it is reasoning; a ``call_in_reasoning`` warning names it either way.

    Returns:
        A recipe for `StageList.insert_before`, with the name ``text_calls``.

    Raises:
        ValueError: the dialect is unknown, or a model was passed with a dialect other than ``auto``.
    """
    if dialect_name != AUTO and dialect_name not in DIALECTS:
        raise ValueError(f"unknown dialect {dialect_name!r}; known: {', '.join([*DIALECTS, AUTO])}")
    if dialect_name != AUTO and model is not None:
        raise ValueError(f"model={model!r} and {dialect_name!r} both choose a dialect; pass only one of them")
    known = dialect_of(model) if dialect_name == AUTO else dialect_name

    def make(tools: Toolset, limits: Limits) -> TextCalls | AutoCalls:
        def of(name: str) -> TextCalls:
            return TextCalls(DIALECTS[name], tools, limits, runs_thoughts=in_unclosed_thoughts)

        return AutoCalls(of) if known is None else of(known)

    return TextRecipe("text_calls", make, before="accumulate")


def split_think(tags: Iterable[str | tuple[str, str]] = DEFAULT_TAGS, *, opened: bool = False) -> TextRecipe:
    """Splits reasoning off the text wherever it stands between tags such as ``<think>`` or ``[THINK]``.

        pipeline(stream, stages=DEFAULT.insert_before("accumulate", split_think()))

    A block at the start of a chat response is split off without this stage. A block that is never closed is reasoning
    to its end. Reasoning from here is not sent back with the turn's messages.

    Args:
        tags: names (``"think"`` for ``<think>``), opening tags (``"[THINK]"``) or pairs of opening and closing tag.
        opened: the text begins inside a block, which the chat template opened in the prompt.

    Returns:
        A recipe for `StageList.insert_before`, with the name ``split_think``.

    Raises:
        ValueError: there are no tags, or one is empty.
    """
    known = split((tags,) if isinstance(tags, str) else tags, opened=opened)
    return TextRecipe("split_think", lambda tools, limits: TextCalls(known, Toolset(()), limits))
