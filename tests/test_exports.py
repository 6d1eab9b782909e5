"""The package's root: its names are a promise, so each one that comes or goes is a decision and changes `PUBLIC`."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import get_origin

import pytest
from test_architecture import MODULES
from test_imports import module_names

import streamtools

NAMES = """
    __version__
    pipeline Pipeline resume Suspended CallAnswer Decision Deny agent_loop AgentLoop Trajectory Limits
    parse StreamDecoder
    tool Tool ToolContext run_calls
    Turn ToolCall Usage
    Event TextDelta ReasoningDelta ToolCallValidated ApprovalRequested Observation StreamEnd
    StreamToolsError StreamError ToolError ModelRetry
    Retry
"""
PUBLIC = NAMES.split()


def public(name: str) -> object:
    return getattr(streamtools, name)


def test_the_root_promises_these_names_and_no_others() -> None:
    assert sorted(streamtools.__all__) == sorted(PUBLIC)


def test_no_name_is_promised_twice() -> None:
    assert len(set(PUBLIC)) == len(PUBLIC)
    classes_and_functions = [public(name) for name in PUBLIC if name != "__version__"]
    assert len({id(value) for value in classes_and_functions}) == len(classes_and_functions)


def test_the_root_has_no_public_name_beside_the_promised() -> None:
    own = {"TYPE_CHECKING", "Any", "annotations", "import_module", *sys.builtin_module_names}
    found = {name for name in dir(streamtools) if not name.startswith("_") and name not in own}
    modules = {name for name in found if isinstance(vars(streamtools).get(name), types.ModuleType)}
    assert found - modules == set(PUBLIC) - {"__version__"}


def test_no_module_of_the_root_takes_the_place_of_a_public_name() -> None:
    """Importing a submodule sets an attribute of that name, whatever stands there."""
    rooms = {path.stem for path in Path(streamtools.__file__).parent.iterdir()}
    assert rooms & set(PUBLIC) == set()


def test_a_name_that_is_none_of_the_roots_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Warning'$"):
        public("Warning")


def test_a_public_name_that_is_elsewhere_is_answered_by_its_import() -> None:
    """As an attribute and as an import; from each package that loads names on demand; and nothing is loaded for it."""
    homes = {
        "ToolStarted": "streamtools.events",
        "ToolCallDelta": "streamtools.events",
        "SqliteStore": "streamtools.dispatch",
        "RayExecutor": "streamtools.dispatch.executors",
        "EventStreamResponse": "streamtools.integrations",
        "Tap": "streamtools.integrations.httpx",
        "convert": "streamtools.history",
        "TurnBuilder": "streamtools.turn",
    }
    loaded = set(sys.modules)
    for package in ("streamtools", "streamtools.wires", "streamtools.tools"):
        for name, home in homes.items():
            says = re.escape(f"{name!r}") + f".*; write: from {home} import {name}$"
            with pytest.raises(AttributeError, match=says):
                getattr(sys.modules[package], name)
            with pytest.raises(ImportError, match=says):
                exec(f"from {package} import {name}")
    assert set(sys.modules) == loaded
    assert not hasattr(streamtools, "ToolStarted")


def test_every_public_name_has_a_module_to_import_it_from() -> None:
    listed: dict[str, set[str]] = {}
    for module in MODULES.values():
        for name in module_names(module):
            listed.setdefault(name, set()).add(module.name)
    assert len(listed) > 500
    rooms = {path.stem for path in Path(streamtools.__file__).parent.iterdir()}
    for name in sorted(set(listed) - set(PUBLIC) - rooms):
        with pytest.raises(AttributeError, match=f"; write: from .* import {name}$") as raised:
            public(name)
        assert str(raised.value).split()[-3] in listed[name]


def test_a_module_that_was_not_imported_is_answered_by_its_import() -> None:
    program = """
import streamtools
try:
    streamtools.warning_codes
except AttributeError as error:
    print(error)
from streamtools import warning_codes
print(streamtools.warning_codes is warning_codes)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    says = "module 'streamtools' has no attribute 'warning_codes'; write: import streamtools.warning_codes"
    assert ran.stdout.splitlines() == [says, "True"]


def test_no_public_class_has_the_name_of_another_or_of_a_builtin() -> None:
    homes: dict[str, set[str]] = {}
    for path in sorted(Path(streamtools.__file__).parent.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(str(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1 or hasattr(builtins, name)} == {}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is_for(name: str) -> None:
    value = public(name)
    if name == "__version__":
        assert isinstance(value, str)
    elif get_origin(value) is None:  # an alias for a union or a literal cannot carry a docstring
        written = inspect.getdoc(value)
        assert written
        assert not written.startswith(f"{name}("), "a dataclass without a docstring shows its signature"


def test_the_root_tells_the_flow() -> None:
    assert "async with pipeline(" in (streamtools.__doc__ or "")
