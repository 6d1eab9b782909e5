"""The package's root: its names are a promise, so each one that comes or goes is a decision and changes `PUBLIC`."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
from pathlib import Path
from typing import get_origin

import pytest

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
    with pytest.raises(AttributeError, match="has no attribute 'Warning'"):
        public("Warning")


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
