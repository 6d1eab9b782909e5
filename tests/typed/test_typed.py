"""The programs that the type checkers look at are those that people read."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def test_the_first_program_of_the_readme_is_among_them() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert program is not None
    checked = (HERE / "as_people_write_it.py").read_text(encoding="utf-8")
    parts = [part.strip() for part in re.split(r"\n\n\n", program[1])]
    assert len(parts) == 5
    missing = [part for part in parts[1:] if part not in checked]
    assert not missing
