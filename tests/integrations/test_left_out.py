"""Says in one line that the tests beside this were left out."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_sdks_were_tried(request: pytest.FixtureRequest) -> None:
    if not any(item.path.name.endswith("_sdk.py") for item in request.session.items):
        stems = sorted(path.stem for path in Path(__file__).parent.glob("test_*_sdk.py"))
        names = [stem.removeprefix("test_").removesuffix("_sdk").replace("_", " ") for stem in stems]
        pytest.skip(f"NO SDK WAS TRIED ({', '.join(names)}): make test-integrations")
