"""The mandatory tests of the official JSON-Schema-Test-Suite, both dialects.

https://github.com/json-schema-org/JSON-Schema-Test-Suite is not part of this repository: it is looked for beside it, in
``shared/acceptance/data`` of the directory that holds it, or where the environment variable ``STREAMTOOLS_SUITE`` says.
Schemas that need another document (served by the suite's own server) have to be refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from profiles import every

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile

REPOSITORY = Path(__file__).resolve().parents[3]
BESIDE = REPOSITORY.parent / "shared" / "acceptance" / "data" / "json-schema-test-suite"
SUITE = Path(os.environ.get("STREAMTOOLS_SUITE") or BESIDE)
if not (SUITE / "draft2020-12").is_dir():
    pytest.skip(
        "THE JSON SCHEMA TEST SUITE WAS NOT FOUND, so nothing was compared with it: put it beside this repository as "
        "shared/acceptance/data/json-schema-test-suite, or set STREAMTOOLS_SUITE to its directory tests",
        allow_module_level=True,
    )

DIALECTS = {"draft2020-12": "2020-12", "draft7": "draft-07"}
REFUSED = ("refers to another document", "expected one of the dialects")
FILES = [path for folder in DIALECTS for path in sorted((SUITE / folder).glob("*.json"))]
FETCHING = {("draft2020-12", "dynamicRef"): 5, ("draft2020-12", "vocabulary"): 2}
"""Schemas of a file that need another document; of ``refRemote`` all."""


def groups(path: Path) -> Iterator[tuple[Any, list[dict[str, Any]]]]:
    for group in json.loads(path.read_text(encoding="utf-8")):
        yield group["schema"], group["tests"]


def made(schema: Any, dialect: Any) -> Any:
    """The validator; None for a schema that needs another document."""
    try:
        return compile(schema, dialect=dialect)
    except SchemaError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return None


@every("path", FILES)
def test_every_verdict_is_the_suites(path: Path) -> None:
    dialect: Any = DIALECTS[path.parent.name]
    wrong, refused, count = [], 0, 0
    for schema, tests in groups(path):
        count += 1
        validator = made(schema, dialect)
        if validator is None:
            refused += 1
            continue
        for test in tests:
            if (not validator.validate(test["data"])) is not test["valid"]:
                wrong.append((schema, test))
    assert wrong == []
    assert refused == (count if path.stem == "refRemote" else FETCHING.get((path.parent.name, path.stem), 0))
