"""Holds the policy of a run: what its copies may contain.

    Trajectory(privacy=Privacy(redact=redact_secrets()))

policy.Privacy          the policy, for recordings, spans, metrics, pages, logs and web frames alike
secrets.redact_secrets  masks the usual shapes of secrets, in whole texts and in those that grow
values.Values           redacts values of any type
copies.Copies           the events of a step as the copies may have them

Nothing of it is loaded before a run has a policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground import names

if TYPE_CHECKING:
    from .policy import Privacy
    from .secrets import Redact, redact_secrets
else:
    __getattr__ = names(__name__, {"policy": "Privacy", "secrets": "Redact redact_secrets"})

__all__ = ["Privacy", "Redact", "redact_secrets"]
