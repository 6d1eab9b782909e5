"""Measures the shape of the package: how large the core is, and what it knows of the rooms around it.

    python -m benchmarks.shape              compare with the figures that are committed; fail where one is higher
    python -m benchmarks.shape --list       name each import and each line that counts
    python -m benchmarks.shape --update     write the figures, in the commit that moves them

The figures in ``benchmarks/shape.json`` only fall: `make lint` refuses a change that lets one rise. They are read from
the code. Read them with sense: no name becomes public, and none is changed, to please them.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIGURES = Path(__file__).with_suffix(".json")

AROUND = {"durable", "policy", "privacy", "provenance", "text_calls", "interop", "executors", "realtime", "mcp", "web"}
AROUND |= {"view", "record", "telemetry", "integrations", "testing", "cli"}
"""The rooms around the core."""
NOT_YET_AROUND = re.compile(
    r"waiting/edits"
    r"|wires/(gemini_live|openai_realtime|gemini_interactions)/"
)
"""Files of rooms of the core that belong around it."""
PUBLIC = {f"{name}.py" for name in ("events", "parts", "errors", "limits", "turn", "content", "seams")}
"""Modules of the core that users import from, beside its rooms."""
BUSY = ("dispatch/", "pipelines/")
"""The rooms of the core that know no promise but its own."""
CONCERNS = {
    "attempts": r"retry|_attempt_seq|_pause$|void|discard|carried|_broke|_rest$|fallback|Attempt|esume_?[pP]oint",
    "durable": r"journal|replay|withheld|on_record|elsewhere|unshown|resum|suspended|ticket|redeem|ran_before",
    "people": r"approv|deci[ds]|[rR]esolution|edit|gated|(^|_)asked$|asking|_question|den[iy]|answer|hand(ed)?_out",
    "privacy": r"copies|privacy|sees_originals|Withheld|copied",
    "policy": r"origins|[fF]inding|provenance|repeated|exhausted|RunCounts|ffload|LongRes|quote",
    "say": r"inbox|^say$|_cut$|_cut_for|^cut$|spares|withdraw|continues|unsettled|restored|counted_before",
    "faces": r"hosted|branch|open_in|^sync$",
}
"""What identifiers of promises that few take contain, by these promises."""
CLASSES = {
    "parameters of Pipeline.__init__": ("front/face.py", "Pipeline"),
    "fields of Call": ("dispatch/states.py", "Call"),
    "fields of DispatchOptions": ("dispatch/options.py", "DispatchOptions"),
    "fields of AgentLoop": ("pipelines/agent_loop.py", "Loop"),
}
"""The classes that hold what the busy rooms know, and their files."""


class File:
    def __init__(self, name: str, text: str) -> None:
        self.name, self.lines, self.nodes = name, text.count("\n"), list(ast.walk(ast.parse(text)))
        self.is_front = name.endswith(("__init__.py", "__main__.py")) or name.startswith("front/")
        self.is_around = name.split("/")[0] in AROUND or bool(NOT_YET_AROUND.match(name))
        self.is_core = not (self.is_around or self.is_front)
        listed = re.search(r"^__all__ = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
        self.exported = set(re.findall(r'"(\w+)"', listed[1] if listed else ""))

    def imports(self) -> Iterator[tuple[int, str, str]]:
        """Yields the line, the module and the name of each import from the package, also where it is a string."""
        room = self.name.split("/")[:-1]
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "streamtools"):
                module = (node.module or "").removeprefix("" if node.level else "streamtools").strip(".")
                above = room[: len(room) - node.level + 1] if node.level else []
                yield from ((node.lineno, ".".join([*above, module]).strip("."), alias.name) for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(text := node.value, str) and "." in text:
                yield node.lineno, text.removeprefix("streamtools.").lstrip("."), ""

    def outer_lines(self) -> dict[int, str]:
        """Returns the lines that belong to a promise around the core, each with the promise."""
        found: dict[int, str] = {}
        for node in self.nodes:
            for name in (getattr(node, field, None) for field in ("id", "attr", "arg", "name")):
                concern = _concern(name) if isinstance(name, str) else None
                if concern and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    found.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), concern))
                elif concern:
                    found.setdefault(getattr(node, "end_lineno", 0), concern)
        return found


def _concern(name: str) -> str | None:
    return next((concern for concern, pattern in CONCERNS.items() if re.search(pattern, name)), None)


def measure(root: Path = ROOT) -> tuple[dict[str, int], Mapping[str, list[str]]]:
    """Returns the figures, and the places that count for those that have any."""
    package = root / "streamtools"
    names = {path: path.relative_to(package).as_posix() for path in sorted(package.rglob("*.py"))}
    files = {name: File(name, path.read_text(encoding="utf-8")) for path, name in names.items()}
    modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name for name in files}
    taken: list[str] = []
    private: list[str] = []
    for file in files.values():
        for line, module, name in file.imports():
            home = files.get(modules.get(f"{module}.{name}".strip("."), modules.get(module, "")))
            if home is None or home.name == "__init__.py":
                continue
            place = f"{file.name}:{line} {module} {name}".rstrip()
            room = files.get(modules.get(module, ""), home)
            is_public = (
                home.name in PUBLIC
                or name in home.exported | room.exported
                or (f"{module}.{name}" in modules and home.is_front)
            )
            if file.is_core and home.is_around:
                taken.append(place)
            elif file.is_around and not home.is_around and name and not is_public:
                private.append(place)
    core = [file for file in files.values() if file.is_core]
    busy = [file for file in core if file.name.startswith(BUSY)]
    places = {
        "imports of the core from around it": taken,
        "private names taken from the core": private,
        "lines of outer concerns in dispatch and pipelines": [
            f"{file.name}:{line} {concern}" for file in busy for line, concern in sorted(file.outer_lines().items())
        ],
    }
    figures = {
        "lines of the core": sum(file.lines for file in core),
        "lines of the core without wires": sum(file.lines for file in core if not file.name.startswith("wires/")),
        **{name: len(found) for name, found in places.items()},
        **{name: _size(files[path], class_, name) for name, (path, class_) in CLASSES.items()},
    }
    return figures, places


def _size(file: File, class_: str, what: str) -> int:
    (body,) = (node.body for node in file.nodes if isinstance(node, ast.ClassDef) and node.name == class_)
    made = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == "__init__"), None)
    if made is None:
        return sum(isinstance(node, ast.AnnAssign) for node in body)
    if what.startswith("parameters"):
        return len(made.args.args) + len(made.args.kwonlyargs) - 1
    written = (node for node in ast.walk(made) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return len({node.attr for node in written if ast.unparse(node.value) == "self"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares, lists or updates, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="name each place that counts")
    parser.add_argument("--update", action="store_true", help="write the figures into the table")
    options = parser.parse_args(arguments)
    figures, places = measure()
    if options.list:
        print("\n".join(f"{name}:\n  " + "\n  ".join(found) for name, found in places.items()))
    if options.update:
        FIGURES.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    known = json.loads(FIGURES.read_text(encoding="utf-8"))
    for name, figure in figures.items():
        print(f"{figure:>8,}  {name}" + (f" ({known[name]:,} in the table)" if figure != known.get(name) else ""))
    if risen := [name for name, figure in figures.items() if figure > known.get(name, -1)]:
        print(
            f"The shape got worse: {', '.join(risen)}. The places: python -m benchmarks.shape --list", file=sys.stderr
        )
    elif figures != known:
        print("Better than the table; write it anew: python -m benchmarks.shape --update")
    return int(bool(risen))


if __name__ == "__main__":
    sys.exit(main())
