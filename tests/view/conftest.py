"""What the tests of pages share: a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from view.browser import Browser


@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser
