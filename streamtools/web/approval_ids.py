"""Names the call that a person was shown, in the ids of approvals and answers: its run, step, id and fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

_SAFE = "".join(chr(code) for code in range(33, 127) if chr(code) not in "#%")


@dataclass(frozen=True, slots=True)
class ApprovalId:
    run_id: str
    step: int
    call_id: str
    fingerprint: str


def approval_id(run_id: str, step: int, call_id: str, fingerprint: str) -> str:
    return "#".join(quote(part, safe=_SAFE, errors="replace") for part in (run_id, str(step), call_id, fingerprint))


def read_approval_id(text: str) -> ApprovalId | None:
    """Returns the parts of an id; None if `approval_id` did not make it."""
    parts = text.split("#")
    if len(parts) != 4 or not (parts[1].isascii() and parts[1].isdecimal() and len(parts[1]) < 19):
        return None
    found = ApprovalId(unquote(parts[0]), int(parts[1]), unquote(parts[2]), unquote(parts[3]))
    return found if approval_id(found.run_id, found.step, found.call_id, found.fingerprint) == text else None
