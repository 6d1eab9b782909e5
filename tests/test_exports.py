"""The package's root: its names are a promise, so each one that comes or goes is a decision and changes `PUBLIC`."""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from profiles import FULL
from test_architecture import MODULES, REPOSITORY, Module
from test_imports import module_names

import streamtools

NAMES = """
    __version__
    pipeline Pipeline resume Suspended CallAnswer Decision Deny agent_loop AgentLoop Trajectory Limits
    parse StreamDecoder
    tool Tool ToolContext Growing run_calls
    Turn ToolCall Usage
    Event TextDelta ReasoningDelta ToolCallValidated ApprovalRequested Observation StreamEnd
    StreamToolsError StreamError ToolError ModelRetry
    Retry
"""
PUBLIC = NAMES.split()
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


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


def test_a_name_that_is_none_of_the_roots_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'Warning'$"):
        public("Warning")


def test_a_public_name_that_is_elsewhere_is_answered_by_its_import() -> None:
    """As an attribute and as an import; from each package that loads names on demand; and nothing is loaded for it."""
    homes = {
        "ToolStarted": "streamtools.events",
        "ToolCallDelta": "streamtools.events",
        "SqliteStore": "streamtools.dispatch",
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


@pytest.mark.thorough
def test_every_public_name_has_a_module_to_import_it_from() -> None:
    listed: dict[str, set[str]] = {}
    for module in MODULES.values():
        for name in module_names(module):
            listed.setdefault(name, set()).add(module.name)
    assert len(listed) > 500
    rooms = {path.stem for path in Path(streamtools.__file__).parent.iterdir()}
    for name in sorted(set(listed) - set(PUBLIC) - rooms)[:: 1 if FULL else 20]:
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
    for module in MODULES.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, set()).add(module.name)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1 or hasattr(builtins, name)} == {}


def test_every_public_class_and_function_and_member_says_what_it_is_for() -> None:
    """In the modules that have a page of the interface; an internal name has one only where it hides something."""
    names = [(module, name) for module in public_modules() for name in module_names(module)]
    assert len(names) > 400
    assert sorted({bare for module, name in names for bare in without_words(module, name)}) == []


def public_modules() -> Iterator[Module]:
    tree = ast.parse((REPOSITORY / "docs" / "reference.py").read_text(encoding="utf-8"))
    listed = next(s.value for s in tree.body if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "MODULES")
    pages = [str(node.value) for node in ast.walk(listed) if isinstance(node, ast.Constant)]
    for page in {*pages, "events", "limits"}:
        yield MODULES["streamtools" if page == "streamtools" else f"streamtools.{page}"]


def without_words(module: Module, name: str) -> Iterator[str]:
    """The definition of a name in `module`, or where it is imported from, and its members that have no docstring."""
    for home, _, last in {found.target.rpartition(".") for found in module.imports}:
        if last == name and home in MODULES and home != module.name:
            yield from without_words(MODULES[home], name)
    for node in module.tree.body:
        if isinstance(node, DEFINITIONS) and node.name == name:
            for one in (node, *(node.body if isinstance(node, ast.ClassDef) else ())):
                if isinstance(one, DEFINITIONS) and is_bare(one):
                    yield f"{module.name}: {name}" if one is node else f"{module.name}: {name}.{one.name}"


def is_bare(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    decorators = {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
    may_be = node.name.startswith("_") or decorators & {"overload", "override", "setter"}
    return not may_be and ast.get_docstring(node) is None
