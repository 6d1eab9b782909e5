"""What the tools of a test have done, in their order: `conftest.py` empties the list before each test."""

from typing import Any

ran: list[Any] = []
