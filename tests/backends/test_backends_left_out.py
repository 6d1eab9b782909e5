"""Says in one line that the tests beside this were left out."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_back_ends_were_asked(request: pytest.FixtureRequest) -> None:
    if not any(item.path.name.endswith("_backend.py") for item in request.session.items):
        stems = sorted(path.stem for path in Path(__file__).parent.glob("test_*_backend.py"))
        names = [stem.removeprefix("test_").removesuffix("_backend") for stem in stems]
        pytest.skip(f"NO BACK END WAS SENT A TRACE ({', '.join(names)}): make test-backends")
