"""Applies arguments that a person has edited: bounded, validated and judged by the policies like the model's own.

In the store, the call stays the one that was shown. The first decision on record about it names the arguments, so there
is never a second set of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..content import Text
from ..dispatch import endings
from ..dispatch.in_process import ThreadCall, take_thread
from ..errors import InvalidArguments, ToolError
from ..limits import Limits
from ..stages import arguments_of
from ..stages.arguments import words_of_problem
from ..tools import Bound, TakesLong, Tool, Toolset

_MOST_NOTED_CHARS = 2_000

if TYPE_CHECKING:
    from ..dispatch.rules import Judging, Rules
    from ..dispatch.states import Call
    from ..events import Observation


@dataclass(slots=True, eq=False)
class Edits:
    tools: Toolset
    limits: Limits
    rules: Rules | None

    def check(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Raises `InvalidArguments` if they do not fit, as far as a quick check can tell."""
        try:
            call.ready[0].validate(self._plain(call, arguments), quick=True)
        except TakesLong:  # they are checked before the call runs
            return

    async def apply(self, call: Call, arguments: Mapping[str, Any]) -> ToolError | None:
        """Binds a call to the arguments that it was approved with; returns an error if they do not fit or a rule does
        not allow them, and leaves the call as it was then."""
        try:
            plain = self._plain(call, arguments)
            bound = await _validated(call.ready[0], plain)
            judged = None if self.rules is None else self.rules.judge(call, (plain, bound))
            if judged is not None:
                await judged.finish()
            self._bind(call, arguments, plain, bound, judged)
        except ToolError as error:
            return error
        return None

    def bind_again(self, call: Call, arguments: Mapping[str, Any]) -> None:
        """Binds a call to arguments that were judged before; leaves it as it is if they no longer fit."""
        try:
            plain = self._plain(call, arguments)
            call.change(call.ready[0].validate(plain), plain, arguments)
        except InvalidArguments:
            return

    def noted(self, seen: Observation) -> Observation:
        assert seen.edited is not None, "it was edited"
        note, result = note_of_edits(seen.edited), seen.result
        if result is not None:
            result = replace(result, blocks=(*result.blocks, Text(note)), native={})
        return replace(seen, model_content=f"{seen.model_content}\n\n{note}", result=result)

    def _plain(self, call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if call.call.kind == "approval":
            raise InvalidArguments("the provider runs this call and takes no edited arguments; approve it as shown")
        found = arguments_of(json.dumps(dict(arguments)), self.limits)
        if isinstance(found, str):
            raise InvalidArguments(words_of_problem(found, self.limits))
        return dict(self.tools.decode(call.call.name, found[0]))

    def _bind(
        self, call: Call, arguments: Mapping[str, Any], plain: dict[str, Any], bound: Bound, judged: Judging | None
    ) -> None:
        before = call.ready, call.changed, call.findings, call.conflict
        call.change(bound, plain, arguments)
        if judged is not None:
            call.findings = judged.findings
        try:
            refused = None if judged is None else judged.refused
            refused = refused or endings.keyed(call)
            if refused is not None and refused.error is not None:
                raise refused.error
        except ToolError:
            call.ready, call.changed, call.findings, call.conflict = before
            raise


def note_of_edits(arguments: Mapping[str, Any]) -> str:
    text = json.dumps(dict(arguments), ensure_ascii=False)
    if len(text) > _MOST_NOTED_CHARS:
        text = f"{text[:_MOST_NOTED_CHARS]}… ({len(text)} characters in all)"
    return f"Note: a person approved this call with other arguments than yours: {text}"


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
