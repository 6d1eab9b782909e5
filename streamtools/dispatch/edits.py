"""Applies arguments that a person has edited to the call that was approved with them.

Input: a call that waits, and the arguments of the decision about it, in the form that was shown. Output: the call bound
to them, or a denial that says why they cannot run. They are bounded, validated and judged by the policies as the
model's own. In the store the call stays the one that was shown: the first decision on record about that names the
arguments, so there is never a second set of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..content import Text
from ..errors import InvalidArguments, ToolError, ToolNotStarted
from ..limits import Limits
from ..stages.arguments import arguments_of, words_of_problem
from ..text import type_name
from ..tools import Bound, TakesLong, Tool, Toolset
from . import endings
from .decisions import decides, look_up
from .in_process import ThreadCall, take_thread

if TYPE_CHECKING:
    from .approval import Resolution
    from .origins import Origins
    from .states import Call, Ending
    from .store import IdempotencyStore


@dataclass(slots=True, eq=False)
class Edits:
    """Binds the calls of one turn to the arguments that people have given them."""

    tools: Toolset
    limits: Limits
    origins: Origins | None

    def check(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Refuses arguments that do not fit, as far as that can be said at once.

        Raises:
            InvalidArguments: they do not fit the tool.
        """
        try:
            call.ready[0].validate(self._plain(call, arguments), quick=True)
        except TakesLong:  # they are checked before the call runs
            return

    async def apply(self, call: Call, ended: Resolution) -> Resolution:
        """Binds a call to the arguments that it was approved with; returns its approval, or a denial if they do not fit
        or a rule does not allow them, and then the call is as it was."""
        assert ended.arguments is not None, "they were edited"
        try:
            plain = self._plain(call, ended.arguments)
            bound = await _validated(call.ready[0], plain)
            if self.origins is not None and self.origins.has_policy(call.call.name):
                await self.origins.catch_up()
            self._bind(call, ended.arguments, plain, bound)
        except ToolError as error:
            reason = f"its arguments were edited, and cannot be run: {error}"
            return replace(ended, approved=False, reason=reason, error=error, arguments=None)
        return ended

    async def apply_as_on_record(self, call: Call, store: IdempotencyStore | None) -> None:
        """Binds a call that has perhaps run before to the arguments that it was approved with then, if they were
        edited; notes whether somebody has decided about it.

        Raises:
            ToolNotStarted: the store failed.
        """
        if call.bound is None or call.edited is not None or not decides(store):
            return
        try:
            found = await look_up(store, call)
        except ToolNotStarted:
            raise
        except Exception as error:
            raise ToolNotStarted(f"not run: the store raised {type_name(error)}") from error
        call.is_decided = bool(found)
        edited = found[-1].arguments if len(found) == 1 else None
        if edited is not None:
            self.bind_again(call, edited)

    def bind_again(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Binds a call to arguments that were judged before; leaves it as it is where they do not fit any more."""
        try:
            plain = self._plain(call, arguments)
            _set(call, arguments, plain, call.ready[0].validate(plain))
        except InvalidArguments:
            return

    def take_back(self, call: Call, bound: Bound) -> None:
        """Binds a call to the arguments of the model again, since it has not begun with others."""
        call.bind(bound)
        call.edited = call.refined = None

    def noted(self, call: Call, content: str | Callable[[], str], ending: Ending) -> tuple[str, Ending]:
        """Returns what the model reads of an edited call, and its ending: behind the result it reads what was run."""
        assert call.edited is not None, "it was edited"
        note, result = endings.note_of_edits(call.edited), ending.result
        if result is not None:
            ending = replace(ending, result=replace(result, blocks=(*result.blocks, Text(note)), native={}))
        return f"{content() if callable(content) else content}\n\n{note}", ending

    def _plain(self, call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Returns edited arguments as the tool takes them."""
        if call.call.kind == "approval":
            raise InvalidArguments("the provider runs this call, and takes no other arguments for it")
        found = arguments_of(json.dumps(dict(arguments)), self.limits)
        if isinstance(found, str):
            raise InvalidArguments(words_of_problem(found, self.limits))
        return dict(self.tools.decode(call.call.name, found[0]))

    def _bind(self, call: Call, arguments: Mapping[str, Any], plain: dict[str, Any], bound: Bound) -> None:
        before = call.bound, call.findings, call.conflict
        _set(call, arguments, plain, bound)
        try:
            refused = None if self.origins is None else self.origins.judge(call)
            refused = refused or endings.keyed(call)
            if refused is not None and refused.error is not None:
                raise refused.error
        except ToolError:
            assert before[0] is not None, "it was validated"
            self.take_back(call, before[0])
            call.findings, call.conflict = before[1:]
            raise


def _set(call: Call, arguments: Mapping[str, Any], plain: dict[str, Any], bound: Bound) -> None:
    call.bind(bound)
    call.edited, call.refined = arguments, plain


async def _validated(tool: Tool[..., Any], plain: dict[str, Any]) -> Bound:
    try:
        return tool.validate(plain, quick=True)
    except TakesLong:
        thread = ThreadCall()
        try:
            bound: Bound = await thread.run(take_thread(), partial(tool.validate, plain))
        finally:
            thread.give_up()
        return bound
