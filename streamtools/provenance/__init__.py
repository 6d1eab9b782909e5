"""Finds the texts from which the arguments of a call come, and asks for approval if these are not trusted.

    @tool(policy=only_from_user("to", "amount"))
    async def pay(to: str, amount: int) -> str: ...

policies.untrusted       asks if a value occurs only in untrusted text policies.only_from_user  asks unless a value
occurs in trusted text history.Untrusted        marks text that a user has pasted index.Index              the texts of
a run by origin, and the search for a value history                  what the model has read, on its way into the index

Nothing of this is loaded before a tool or a pipeline has a policy.
"""

from __future__ import annotations

from ..parts import Finding
from .history import Untrusted
from .policies import Policy, only_from_user, untrusted

__all__ = ["Finding", "Policy", "Untrusted", "only_from_user", "untrusted"]
