"""The rules that hold for every module, read from its source: who imports whom, what stays sans-IO, how it is
written.

A rule takes a `Module` and yields what is wrong with it. `RULES` lists them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from profiles import every

from benchmarks.shape import CLASSES, measure

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = "streamtools"

LAYERS = (
    ("_version", "ground", "warning_codes", "limits", "content", "parts", "errors", "events", "observers"),
    ("framing", "schema"),
    ("wires",),
    ("privacy",),
    ("tools",),
    ("stages", "history"),
    ("exports", "turn"),
    ("seams",),
    ("decode", "interop", "text_calls", "modes"),  # sans-IO down to here
    ("sources", "realtime"),
    ("dispatch", "durable", "executors", "telemetry", "mcp", "pipelines", "policy", "provenance", "waiting"),
    ("front",),
    ("record",),
    ("web",),
    ("integrations", "view"),
    (PACKAGE,),  # the root: the public names
    ("testing", "cli", "__main__"),
)
"""Rooms from the bottom up. A module imports from its own layer and from those above it in this list."""

STRANGERS = (({"framing", "wires"}, {"stages"}), ({"wires"}, {"tools"}))
"""Rooms that meet in `events` and `parts`, and never import each other."""

FACTS_FOR_TOOLS = tuple(f"{PACKAGE}.wires.{name}" for name in ("Wire", "known", "names", "find", "meant", "formats"))
"""The exception: the tools ask the wires which there are, which a wrong name means, and how requests tell tools."""

SANS_IO = {"provenance", *(room for layer in LAYERS[:9] for room in layer)} - {"seams"}  # protocols of both halves
ABOVE_THE_LINE = {
    "streamtools.tools.context": "a running tool's view of its pipeline",
    "streamtools.provenance.rule": "the rule of a run, which gives way while texts are indexed",
    "streamtools.text_calls.quoted": "likewise, while results are searched",
}
"""Modules of the sans-IO rooms that are handed to async code."""

FORBIDDEN_BELOW = ("anyio", "asyncio", "trio", "logging", "opentelemetry", "random", "secrets", "time", "uuid")
SDK = ("opentelemetry.sdk", "opentelemetry.exporter")
READS_THE_SDK = {f"streamtools.telemetry.{name}" for name in ("setup", "lean_spans")}
"""The second once it is loaded, the third in a worker where it is wanted."""


class Import(NamedTuple):
    line: int
    target: str  # absolute and dotted: module, or module.name


@dataclass(frozen=True)
class Module:
    name: str
    source: str
    is_package: bool = False

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def room(self) -> str:
        return room_of(self.name)

    @cached_property
    def imports(self) -> list[Import]:
        return [Import(getattr(node, "lineno", 0), target) for node in self.nodes for target in self._targets(node)]

    def _targets(self, node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = self._base(level) + ([module] if module else [])
                yield from (".".join([*base, alias.name]) for alias in names)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if called(node) in {"import_module", "__import__"}:
                yield name
            case _:
                pass

    def _base(self, level: int) -> list[str]:
        parts = self.name.split(".")
        return parts[: len(parts) - level + self.is_package] if level else []


def room_of(name: str) -> str:
    """The first name under the package; the package itself for what it defines at its root."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in RANK else PACKAGE


def within(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def called(node: ast.expr) -> str:
    """The last name of what is called: ``anyio.create_task_group()`` -> ``create_task_group``."""
    match node:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name
    return ""


RANK = {room: rank for rank, layer in enumerate(LAYERS) for room in layer}


# -- the rules -----------------------------------------------------------------------------------------------


def has_a_layer(module: Module) -> Iterator[str]:
    if module.name != PACKAGE and module.name.split(".")[1] not in RANK:
        yield "is in no layer: add its room to LAYERS"


def imports_go_down_only(module: Module) -> Iterator[str]:
    """But for the names of rooms around it that a core room's package re-exports, on demand."""
    shown = {*shown_from_beside(module)}
    for line, target in module.imports:
        room = room_of(target)
        if within(target, PACKAGE) and RANK[room] > RANK[module.room] and room not in shown:
            yield f"line {line}: imports {target}, which is above it"


def shown_from_beside(module: Module) -> Iterator[str]:
    """The rooms whose names a package has by `on_demand.names`, with a dot before each."""
    for node in module.nodes if module.is_package else ():
        if isinstance(node, ast.Call) and called(node) == "names":
            keys = [key for part in node.args if isinstance(part, ast.Dict) for key in part.keys]
            places = (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
            yield from (place.split(".")[1] for place in places if place.startswith("."))


def strangers_meet_in_events_only(module: Module) -> Iterator[str]:
    for pair in STRANGERS:
        for mine, theirs in (pair, pair[::-1]):
            if module.room in mine:
                for line, target in module.imports:
                    if within(target, PACKAGE) and room_of(target) in theirs and not is_fact(module, target):
                        yield f"line {line}: imports {target}"


def is_fact(module: Module, target: str) -> bool:
    return module.room == "tools" and any(within(target, fact) for fact in FACTS_FOR_TOOLS)


def is_sans_io_below_the_line(module: Module) -> Iterator[str]:
    if module.room not in SANS_IO or module.name in ABOVE_THE_LINE:
        return
    for line, target in module.imports:
        if any(within(target, name) for name in FORBIDDEN_BELOW):
            yield f"line {line}: imports {target}"
    for node in module.nodes:
        if isinstance(node, (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)):
            yield f"line {node.lineno}: is async"
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield f"line {node.iter.lineno}: is async"


def only_telemetry_imports_opentelemetry(module: Module) -> Iterator[str]:
    for line, target in module.imports:
        if within(target, "opentelemetry") and module.room != "telemetry":
            yield f"line {line}: imports {target}"
        elif any(within(target, name) for name in SDK) and module.name not in READS_THE_SDK:
            yield f"line {line}: imports {target}; of telemetry/ only setup and lean_spans do that"


ONE_EVENT_LOOP = ("asyncio", "trio", "uvloop")
KNOWS_AN_EVENT_LOOP = {
    "streamtools.pipelines.tasks": "looks at what an interrupt has done to asyncio",
}


def only_these_import_one_event_loop(module: Module) -> Iterator[str]:
    for line, target in module.imports:
        if any(within(target, name) for name in ONE_EVENT_LOOP) and module.name not in KNOWS_AN_EVENT_LOOP:
            yield f"line {line}: imports {target}"


OPENS_GROUPS = {
    "streamtools.pipelines.runner": "the tasks of a stream",
    "streamtools.pipelines.tasks": "these, on trio",
    "streamtools.pipelines.agent_loop": "the steps of a run, in its block; nothing yields inside",
    "streamtools.executors.process": "a worker's end is awaited beside its pipe",
    "streamtools.testing.executors": "checks that run calls side by side",
    "streamtools.web.app": "writes while it waits for the client to go, in a response of its own",
    "streamtools.web.runs": "writes a run's log while it goes on, in a task of its own",
    "streamtools.integrations.asgi": "stands where an application's own code would: inside a pipeline's block",
}


def only_the_pipeline_opens_task_groups(module: Module) -> Iterator[str]:
    if module.name in OPENS_GROUPS:
        return
    for node in module.nodes:
        names = {getattr(node, field, None) for field in ("id", "attr", "name")}
        opens = names & {"create_task_group", "open_nursery"}
        if opens or (isinstance(node, ast.Call) and called(node) == "TaskGroup"):
            yield f"line {getattr(node, 'lineno', 1)}: opens a task group"


SCOPES = {"create_task_group", "open_nursery", "TaskGroup", "CancelScope", "fail_after", "move_on_after", "timeout"}


def nothing_yields_inside_a_scope(module: Module) -> Iterator[str]:
    """PEP 789; a function made into a context manager may, since its body never leaves the caller's frame."""
    for function in module.nodes:
        if isinstance(function, ast.AsyncFunctionDef) and not any(
            "contextmanager" in ast.unparse(decorator) for decorator in function.decorator_list
        ):
            yield from yields_in_scopes(function)


def yields_in_scopes(function: ast.AST, *, inside: bool = False) -> Iterator[str]:
    for node in ast.iter_child_nodes(function):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        scoped = isinstance(node, (ast.With, ast.AsyncWith)) and any(
            called(item.context_expr) in SCOPES for item in node.items
        )
        if inside and isinstance(node, (ast.Yield, ast.YieldFrom)):
            yield f"line {node.lineno}: yields inside a task group, cancel scope or timeout"
        yield from yields_in_scopes(node, inside=inside or scoped)


def begins_as_modules_do(module: Module) -> Iterator[str]:
    """A docstring; where more follows, the future import; in a package ``__all__``, unless it is a docstring alone."""
    if ast.get_docstring(module.tree) is None:
        yield "has no docstring"
    if module.is_package and len(module.tree.body) <= 1:
        return
    if not any(target == "__future__.annotations" for _, target in module.imports):
        yield "lacks `from __future__ import annotations`"
    assigned = {
        name.id
        for statement in module.tree.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    if module.is_package and "__all__" not in assigned:
        yield "lacks `__all__`"


RULES: tuple[Callable[[Module], Iterator[str]], ...] = (
    has_a_layer,
    imports_go_down_only,
    strangers_meet_in_events_only,
    is_sans_io_below_the_line,
    only_telemetry_imports_opentelemetry,
    only_these_import_one_event_loop,
    only_the_pipeline_opens_task_groups,
    nothing_yields_inside_a_scope,
    begins_as_modules_do,
)


# -- the package keeps them ----------------------------------------------------------------------------------


def load(path: Path) -> Module:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, path.read_text(encoding="utf-8"), is_package)


MODULES = {module.name: module for module in map(load, sorted((REPOSITORY / PACKAGE).rglob("*.py")))}


@every("rule", RULES)
def test_every_module_keeps_the_rule(rule: Callable[[Module], Iterator[str]]) -> None:
    problems = [f"{module.name}: {problem}" for module in MODULES.values() for problem in rule(module)]
    assert not problems, "\n".join(problems)


OF_FORM = (nothing_yields_inside_a_scope, begins_as_modules_do)


@every("rule", OF_FORM)
def test_the_demo_keeps_the_rules_of_form(rule: Callable[[Module], Iterator[str]]) -> None:
    modules = [load(path) for path in sorted((REPOSITORY / "demo").glob("*.py"))]
    problems = [f"{module.name}: {problem}" for module in modules for problem in rule(module)]
    assert modules
    assert not problems, "\n".join(problems)


def test_the_package_imports_nothing_that_stands_beside_it_in_the_repository() -> None:
    beside = {path.name for path in REPOSITORY.iterdir() if path.is_dir()} - {PACKAGE}
    found = [
        f"{module.name}: {target}"
        for module in MODULES.values()
        for _, target in module.imports
        if target.partition(".")[0] in beside
    ]
    assert "demo" in beside
    assert not found, "\n".join(found)


def imported(module: Module) -> set[str]:
    """The modules of the package that a module imports: at its top, in functions, for type checkers."""
    targets = (target for _, target in module.imports if within(target, PACKAGE))
    return {target if target in MODULES else target.rpartition(".")[0] for target in targets} - {module.name}


def test_no_modules_import_each_other_in_a_circle_not_even_lazily_or_for_types() -> None:
    graph = {name: imported(module) for name, module in MODULES.items()}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(graph)  # raises CycleError


def test_every_exception_is_still_needed() -> None:
    assert set(ABOVE_THE_LINE) - set(MODULES) == set()


# -- text: nothing left undone, nothing of one machine -------------------------------------------------------

TEXT_SUFFIXES = {".py", ".md", ".toml", ".txt", ".yml", ".yaml"}
TEXT_ROOTS = ("streamtools", "tests", "examples", "benchmarks", "docs", "demo")
UNDONE = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")s?\b")
MACHINE_PATH = re.compile(r"(?<![\w.:/~-])/(?:home|root|Users|work|opt|mnt)/\w+")


def ours(path: Path) -> bool:
    """Text that we wrote: recorded responses may say anything."""
    text = path.suffix in TEXT_SUFFIXES or path.name == "Makefile"
    return path.is_file() and text and "corpus" not in path.parts


def text_files() -> list[Path]:
    below = (path for root in TEXT_ROOTS for path in (REPOSITORY / root).rglob("*"))
    return sorted(path for path in [*REPOSITORY.iterdir(), REPOSITORY / ".ci" / "run", *below] if ours(path))


@every("pattern", [UNDONE, MACHINE_PATH])
def test_no_text_has(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {hit.group()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for hit in pattern.finditer(line)
    ]
    assert not found, "\n".join(found)


SHAPED = "class {}:\n    def __init__(self, one: int, *, two: int) -> None:\n        self.three = one\n"
SHAPED_FILES = {
    "privacy/copies.py": "from ..dispatch.pool import CallPool, private\nfrom ..dispatch import CallPool\n",
    "dispatch/__init__.py": '__all__ = ["CallPool"]\n',
    "dispatch/pool.py": "def f():\n    from ..privacy.copies import masked\n\n    load(offload, 'privacy.copies')\n",
    "front/checked.py": "from ..privacy import copies\nfrom ..dispatch.pool import private\n",
}


def test_the_shape_counts_what_the_core_knows_of_the_rooms_around_it(tmp_path: Path) -> None:
    """`make lint` relies on what `benchmarks.shape` sees."""
    classes = {path: SHAPED.format(name) for path, name in CLASSES.values()}
    for name, text in (SHAPED_FILES | classes).items():
        path = tmp_path / "streamtools" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    figures, places = measure(tmp_path)
    assert places == {
        "imports of the core from around it": [
            "dispatch/pool.py:2 privacy.copies masked",
            "dispatch/pool.py:4 privacy.copies",
        ],
        "private names taken from the core": [
            "privacy/copies.py:1 dispatch.pool CallPool",
            "privacy/copies.py:1 dispatch.pool private",
        ],
        "lines of outer concerns in dispatch and pipelines": [
            "dispatch/pool.py:4 policy",
        ],
    }
    assert figures["lines of the core"] == 4 + 3 * (len(classes) - 1)  # the face of a stream is the front's
    assert (figures["parameters of Pipeline.__init__"], figures["fields of Call"]) == (2, 1)
