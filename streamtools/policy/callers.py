"""The rule of ``RequestHints(allowed_callers=...)``: the request says who may call a tool, but a compatible server or a
gateway may ignore that.
"""

from __future__ import annotations

from ..errors import CallDenied
from ..seams import Allow, ReadyCall, Refuse, StepView, Verdict
from ..tools import Toolset

_WORDS = {"direct": "the model itself", "code": "the model's code"}


class Callers:
    only_refuses = True

    def __init__(self, tools: Toolset) -> None:
        self._allowed = {
            name: tool.hints.allowed_callers
            for name, tool in tools.items()
            if tool is not None and tool.hints is not None and tool.hints.allowed_callers
        }

    def concerns(self, name: str) -> bool:
        return name in self._allowed

    def judge(self, call: ReadyCall, step: StepView) -> Verdict:
        allowed = self._allowed[call.call.name]
        if call.caller in allowed:
            return Allow()
        only = " or ".join(_WORDS[one] for one in allowed)
        return Refuse(
            "denied", CallDenied(f"not run: {call.name} is for calls by {only}, not by {_WORDS[call.caller]}")
        )
