"""Finds reasoning between tags and tool calls that a model without other means writes into its text.

Both are off unless asked for, since a text may also quote such markup:

    stages = DEFAULT.insert_before("accumulate", split_think()).insert_before("accumulate", text_calls("hermes"))
    async with pipeline(stream, tools=[get_weather], stages=stages) as events: ...

In this order a call inside a block of reasoning is reasoning. All text around blocks and calls stays as it is.
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
"""The name that stands for the dialect of the model."""


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

    Each call found goes through the same checks as a native one, and its arguments stream where the model writes them
    as JSON. Markup that is no call, or that ends too early to say which, stays text. A call whose arguments have begun
    cannot be taken back: if it is cut or its markup is broken, it is reported as such, and does not run. A turn with
    calls finishes with ``tool_calls`` where the server said ``stop``.

    Args:
        dialect_name: how the model writes calls, a key of `DIALECTS`: ``hermes``, ``llama3``, ``mistral``...;
            ``auto``: the dialect of the model, by its name. All is text if that is not known.
        model: the model's name, for ``auto``; without it, or if it is not known, the name that the stream tells counts.
        in_unclosed_thoughts: run the calls at the end of a thought that the model never closed, for a model that often
            forgets it (Kimi K2 Thinking, MiniMax M3). A call there does not run if the response was cut, or text or a
            call follows the thought. Without this it is reasoning; a ``call_in_reasoning`` warning names it either way.

    Returns:
        A recipe for `StageList.insert_before`, with the name ``text_calls``.

    Raises:
        ValueError: there is no such dialect, or a model was named beside one.
    """
    if dialect_name != AUTO and dialect_name not in DIALECTS:
        raise ValueError(f"no dialect called {dialect_name!r}; there are: {', '.join([*DIALECTS, AUTO])}")
    if dialect_name != AUTO and model is not None:
        raise ValueError(f"model={model!r} chooses a dialect, and so does {dialect_name!r}; give one of them")
    known = dialect_of(model) if dialect_name == AUTO else dialect_name

    def make(tools: Toolset, limits: Limits) -> TextCalls | AutoCalls:
        def of(name: str) -> TextCalls:
            return TextCalls(DIALECTS[name], tools, limits, runs_thoughts=in_unclosed_thoughts)

        return AutoCalls(of) if known is None else of(known)

    return TextRecipe("text_calls", make, before="accumulate")


def split_think(tags: Iterable[str | tuple[str, str]] = DEFAULT_TAGS, *, opened: bool = False) -> TextRecipe:
    """Splits reasoning off the text wherever it stands between tags such as ``<think>`` or ``[THINK]``.

        pipeline(stream, stages=DEFAULT.insert_before("accumulate", split_think()))

    A block that opens the text of a chat response is split off without this stage. A block that is never closed is
    reasoning to its end. Reasoning split off here is not sent back with the turn's messages.

    Args:
        tags: names (``"think"`` for ``<think>``), opening tags (``"[THINK]"``) or pairs of opening and closing tag.
        opened: the text begins inside a block, since the chat template has opened it in the prompt.

    Returns:
        A recipe for `StageList.insert_before`, with the name ``split_think``.

    Raises:
        ValueError: there are no tags, or one is empty.
    """
    known = split((tags,) if isinstance(tags, str) else tags, opened=opened)
    return TextRecipe("split_think", lambda tools, limits: TextCalls(known, Toolset(()), limits))
