"""Nothing that a peer sends is evaluated, imported, unpickled or fetched: what could do so stands in few places, each
with its reason, and none of them reads what came over the wire."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from every_wire import framed, said
from hostile import every_place
from profiles import every
from streams import chat, stream

from streamtools import parse, pipeline, tool
from streamtools.errors import SchemaError, ToolDefinitionError
from streamtools.tools import Tool
from streamtools.wires import WIRES

PACKAGE = Path(__file__).resolve().parents[2] / "streamtools"

DANGEROUS: dict[str, frozenset[str]] = {
    "runs text as Python": frozenset({"eval", "exec", "builtins.compile", "runpy", "code", "codeop"}),
    "evaluates annotations": frozenset(
        {"typing.get_type_hints", "ForwardRef", "create_model", "pydantic.create_model"}
    ),
    "imports by name": frozenset({"importlib", "__import__", "pkgutil", "pydoc", "imp"}),
    "makes objects of bytes": frozenset({"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "copyreg"}),
    "starts programs": frozenset(
        ["subprocess", "os.system", "os.popen", "pty", "anyio.open_process", "multiprocessing"]
    ),
    "opens connections": frozenset(
        [
            "socket",
            "ssl",
            "urllib.request",
            "http",
            "ftplib",
            "smtplib",
            "requests",
            "httpx",
            "aiohttp",
            "xmlrpc",
            "webbrowser",
        ]
    ),
    "writes text as a format": frozenset({"string.Formatter", "string.Template", "format_map", "jinja2"}),
    "loads native code": frozenset({"ctypes", "cffi"}),
}
"""What a peer's words must never get at: names that are called or imported, by what they do."""

ALLOWED: dict[tuple[str, str], str] = {
    ("evaluates annotations", "tools/callables.py"): "hints of a function that the program registers, once, then",
    (
        "evaluates annotations",
        "durable/fields.py",
    ): "those of the package's own classes, once, for the checks of their fields",
    ("evaluates annotations", "durable/alone.py"): "the hint of what a function of the program returns",
    ("evaluates annotations", "web/own.py"): "models of the package's own events",
    ("imports by name", "ground/on_demand.py"): "the package's own modules, by constants",
    ("imports by name", "tools/__init__.py"): "the package's own reader of frameworks' tools, by a constant",
    ("imports by name", "wires/__init__.py"): "the packages of the library's own wires, by constants",
    ("imports by name", "cli/schema.py"): "module:function of the command line",
    ("imports by name", "executors/codec.py"): "the worker finds the tools that the program registered",
    ("imports by name", "mcp/peer.py"): "the version of mcp that is installed, for an error",
    ("imports by name", "sources/encoding.py"): "the optional decoders of bodies, by constants",
    ("imports by name", "sources/__init__.py"): "the package's own reader of LangChain's chunks, by a constant",
    ("imports by name", "view/page.py"): "the package's own files",
    ("makes objects of bytes", "tools/entries.py"): "bytes that were made in the same process, of the same export",
    ("makes objects of bytes", "stages/output.py"): "the same",
    ("makes objects of bytes", "exports/exporting.py"): "the same",
    ("writes text as a format", "tools/checks.py"): "templates of its own, filled with what pydantic counts",
    ("opens connections", "integrations/httpx.py"): "a transport of the application's own is wrapped, and does so",
    ("opens connections", "durable/store_postgres.py"): "ends the connection that the program's own address has opened",
    ("opens connections", "cli/view.py"): "--open shows the page that was just written, by the path of its file",
    ("starts programs", "executors/process.py"): "the workers: this Python, this package, no shell",
    ("starts programs", "mcp/transports.py"): "the server that the program names, no shell",
}
"""Where such a name may stand, and why that is no way in."""


def named(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, every name that is called, dotted as far as it is written."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Call(func=ast.Name(id=name)):
                yield name
            case ast.Call(func=ast.Attribute() as function):
                yield ast.unparse(function)
                yield function.attr
            case _:
                pass


def found_in(source: str) -> set[str]:
    """The kinds of danger that a module names."""
    names = set(named(ast.parse(source)))
    names |= {".".join(name.split(".")[:end]) for name in names for end in range(1, name.count(".") + 1)}
    return {kind for kind, dangerous in DANGEROUS.items() if names & dangerous}


@pytest.mark.thorough
def test_what_could_run_a_peers_words_stands_only_where_it_cannot_read_them() -> None:
    found: dict[tuple[str, str], None] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for kind in found_in(path.read_text(encoding="utf-8")):
            found[(kind, path.relative_to(PACKAGE).as_posix())] = None
    assert set(found) - set(ALLOWED) == set()
    assert set(ALLOWED) - set(found) == set(), "these reasons are of no use any more"


# -- what happens when Python is sent -----------------------------------------------------------------------------

PYTHON = [
    "__import__('os').system('touch {marker}')",
    "{{0.__class__.__mro__}}",
    "${{jndi:ldap://127.0.0.1/a}}",
    "{{{{7*7}}}}",
    "!!python/object/apply:os.system ['touch {marker}']",
    "cos\nsystem\n(S'touch {marker}'\ntR.",
    "http://127.0.0.1:9/{marker}",
    "file:///etc/passwd",
    "../../../../etc/passwd",
]


AUDITED = (
    "exec", "compile", "import", "marshal.", "pickle.", "open", "os.", "subprocess.", "socket.", "ctypes.", "urllib.",
    "shutil.", "ftplib.", "http.", "code.", "builtins.input",
)  # fmt: skip

_HEARD: list[list[tuple[str, Any]]] = []  # by whoever listens; a hook cannot be taken back, so that there is one


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if _HEARD and event.startswith(AUDITED):
        _HEARD[-1].append((event, args))


@cache
def _listen() -> None:
    sys.addaudithook(_hear)


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    """What Python's own auditing sees of code, files, programs and connections while the fixture is in use."""
    _listen()
    _HEARD.append([])
    yield _HEARD[-1]
    _HEARD.clear()


@tool(effect="pure")
def note(text: str, number: int = 0) -> str:
    """Note it."""
    return text


@pytest.mark.parametrize("wire", WIRES)
def test_python_in_any_place_of_any_wire_is_text(wire: str, told: list[tuple[str, Any]], tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    payloads = said(wire, text=["hi"], reasoning=["hm"], calls=[("call_1", "note", '{"text": "a"}')])
    text = "\n".join(PYTHON).format(marker=marker)
    bodies = [framed(wire, changed) for _, changed in every_place(payloads, text)]
    for body in bodies:  # what is imported once is, now
        parse(body, wire=wire, tools=[note]).messages()
    told.clear()
    for body in bodies:
        turn = parse(body, wire=wire, tools=[note])
        repr(turn)
        turn.messages()
    assert told == []
    assert not marker.exists()


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "title": "{code}", "properties": {"{code}": {"type": "string", "title": "{code}"}}},
    {"type": "object", "properties": {"a": {"type": "string", "default": "{code}", "format": "{code}"}}},
    {"type": "object", "properties": {"a": {"const": "{code}"}, "b": {"enum": ["{code}"]}}},
    {"type": "object", "$defs": {"{code}": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/{code}"}}},
    {"type": "object", "properties": {"a": {"$comment": "{code}", "contentMediaType": "{code}", "x-{code}": "{code}"}}},
    {"type": "object", "properties": {"__class__": {}, "__init__": {}, "model_config": {}, "def": {}, "1": {}, "": {}}},
    {"type": "object", "$schema": "{code}", "properties": {}},
    {"type": "object", "$id": "{code}", "properties": {}},
]


@every(("schema", "code"), [(schema, code) for schema in SCHEMAS for code in PYTHON])
def test_python_in_a_schema_of_somebody_elses_is_text(
    code: str, schema: dict[str, Any], told: list[tuple[str, Any]], tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    text = json.dumps(schema).replace("{code}", json.dumps(code.format(marker=marker))[1:-1])
    _try(json.loads('{"type": "object", "properties": {"a": {"type": "string"}}}'))  # what is imported once is, now
    told.clear()
    _try(json.loads(text))
    assert told == []
    assert not marker.exists()


def _try(schema: dict[str, Any]) -> None:
    async def take(**arguments):  # type: ignore[no-untyped-def]  # hints would be evaluated, as they should
        return "ran"

    try:
        made = Tool.from_schema(take, schema, name="foreign", description="Foreign.")
        made.to("openai.chat_completions")
        made.validate({})
    except (SchemaError, ToolDefinitionError, ValueError):
        pass


# -- annotations --------------------------------------------------------------------------------------------------

EVALUATED: list[str] = []


def _seen(name: str) -> type[int]:
    EVALUATED.append(name)
    return int


def hinted(a: "_seen('a')", b: "_seen('b')" = 1) -> "_seen('return')":  # type: ignore[valid-type]  # noqa: UP037
    """Have hints that tell when they are evaluated."""
    return a


@pytest.mark.anyio
async def test_hints_are_evaluated_when_the_tool_is_registered_and_never_for_a_call() -> None:
    EVALUATED.clear()
    made = tool(hinted, effect="pure")
    registered = len(EVALUATED)
    assert {"a", "b"} <= set(EVALUATED)
    for arguments in ('{"a": 1}', '{"a": "_seen(\'wire\')"}', '{"a": 1, "_seen(\'wire\')": 1}'):
        await pipeline(stream(chat(calls=[("c", "hinted", arguments)])), tools=[made])
    assert len(EVALUATED) == registered
    assert "wire" not in EVALUATED
