"""The programs that the type checkers look at are those that people read."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent


def test_both_checkers_look_at_the_programs_that_people_write() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    place = str(HERE.relative_to(REPOSITORY))
    assert place in settings["mypy"]["files"]
    assert place in settings["pyright"]["include"]


def test_the_first_program_of_the_readme_is_among_them() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert program is not None
    checked = (HERE / "as_people_write_it.py").read_text(encoding="utf-8")
    parts = [part.strip() for part in re.split(r"\n\n\n", program[1])]
    assert len(parts) == 5
    missing = [part for part in parts[1:] if part not in checked]
    assert not missing
