"""Defines the privacy policy of a run: the content that its copies may contain.

    Trajectory(privacy=Privacy(redact=redact_secrets()))

policy.Privacy          the policy, for recordings, spans, metrics, pages, logs and web frames alike
secrets.redact_secrets  masks secrets of the usual shapes, in whole and in growing texts values.Values           redacts
values of any type copies.Copies           redacted copies of a step's events

Nothing of this is loaded before a run has a policy.
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
