"""Prints the public interface as JSON, or what breaks programs for a release: python -m release.api [--against WHEEL]

Both read the sources by griffe and import nothing. The interface is each name in a module's `__all__`, and of a class
each member without an underscore.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

REPOSITORY = Path(__file__).resolve().parent.parent


def loaded(folder: Path) -> Any:
    """Reads the package below a folder."""
    logging.getLogger("griffe").setLevel(logging.ERROR)  # what other packages define is not looked up
    return griffe.load(
        "streamtools", search_paths=[str(folder)], try_relative_path=False, resolve_aliases=True, resolve_external=False
    )


def dumped(folder: Path) -> str:
    """Returns the interface: by path, a signature, an annotation with its default, or the bases of a class."""
    return json.dumps(dict(sorted(_names(loaded(folder)))), indent=0, ensure_ascii=False) + "\n"


def _modules(module: Any) -> Iterator[tuple[str, Any]]:
    """Yields the modules with public names, by their paths."""
    if module.exports:
        yield module.path, module
    for name, inner in module.modules.items():
        if not name.startswith("_"):
            yield from _modules(inner)


def _names(package: Any) -> Iterator[tuple[str, str]]:
    for path, module in _modules(package):
        for name in map(str, module.exports):
            if (found := module.all_members.get(name)) is None:  # griffe does not see a, b = 1, 2
                yield f"{path}.{name}", ""
            else:
                yield from _described(f"{path}.{name}", found)


def _described(path: str, found: Any) -> Iterator[tuple[str, str]]:
    try:
        thing = found.final_target if found.is_alias else found
    except griffe.AliasResolutionError:  # another package's
        yield path, f"from {found.target_path}"
        return
    if thing.is_function:
        yield path, thing.signature().removeprefix(thing.name)
    elif thing.is_attribute:
        yield path, " = ".join(str(part) for part in (thing.annotation, thing.value) if part is not None)
    elif thing.is_class:
        yield path, f"class({', '.join(map(str, thing.bases))})"
        for name, member in thing.members.items():
            if not name.startswith("_") or name == "__init__":
                yield from _described(f"{path}.{name}", member)


def breakages(old: Path, new: Path) -> list[str]:
    """Returns what a program for the package below `old` may trip over below `new`."""
    before, after = dict(_modules(loaded(old))), dict(_modules(loaded(new)))
    gone = [f"{path}: the module was removed" for path in before.keys() - after.keys()]
    # Each by itself: griffe takes a module for private if its package does not list it in `__all__`.
    found = (griffe.find_breaking_changes(before[path], after[path]) for path in before.keys() & after.keys())
    return sorted({_worded(one) for each in found for one in each} | {*gone})


def _worded(breakage: griffe.Breakage) -> str:
    words = breakage.explain(griffe.ExplanationStyle.ONE_LINE).rpartition(": ")[2]
    return re.sub(r"\x1b\[\d+m", "", f"{breakage.obj.path}: {words}")


def main() -> int:
    """Prints the interface, or what may break; 1 if anything may."""
    parser = argparse.ArgumentParser(description="the public interface of streamtools")
    parser.add_argument(
        "--against", metavar="WHEEL", help="a release: what may break programs that are written for it?"
    )
    against = parser.parse_args().against
    if against is None:
        print(dumped(REPOSITORY), end="")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(against) as wheel:
            wheel.extractall(folder)
        found = breakages(Path(folder), REPOSITORY)
    print("\n".join(found) or f"nothing breaks programs that are written for {Path(against).name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
