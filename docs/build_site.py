"""Builds the documentation site: ``python docs/build_site.py``, which `make docs` runs in a venv that has Zensical.

Copies the pages of this folder, those of the repository's root and the examples into ``build/docs/pages``, where links
lead from page to page, and lets Zensical make ``build/docs/site`` of them. A warning fails the build.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import reference
from redirects import address, write_redirects

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
BUILD = REPOSITORY / "build" / "docs"
ROOT_PAGES = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md", "CONVENTIONS.md": "conventions.md"}
"""The pages of the repository's root, and where they are on the site."""
_LINK = re.compile(r"(\]\()((?!\w+:)[^)#\s]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2$\n?", re.MULTILINE | re.DOTALL)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[a-z][._/(])(?=[a-z])")
_TAG = re.compile(r"<[^>]*>")
_COMMENT = re.compile(r"^<!--.*-->\n", re.MULTILINE)


def sources() -> dict[str, Path]:
    """Returns the file behind each page, by its path on the site."""
    pages = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    return pages | {on_site: REPOSITORY / name for name, on_site in ROOT_PAGES.items()}


def examples() -> dict[str, Path]:
    """Returns the programs of the repository that have a page, by the path of that page."""
    folder = REPOSITORY / "examples"
    return {f"examples/{path.relative_to(folder).with_suffix('.md')}": path for path in sorted(folder.rglob("*.py"))}


def write_pages(into: Path) -> list[str]:
    """Writes all pages; returns the links that lead nowhere on the site."""
    pages, programs = sources(), examples()
    places = {path: on_site for on_site, path in (pages | programs).items()}
    places[REPOSITORY / "README.md"] = "index.md"
    places[REPOSITORY / "examples"] = "examples/index.md"
    lost: list[str] = []
    for on_site, path in pages.items():
        _write(into / on_site, _for_the_site(path.read_text(encoding="utf-8"), path, on_site, places, lost))
    for on_site, path in programs.items():
        name = path.relative_to(REPOSITORY).as_posix()
        _write(into / on_site, f"# {name}\n\n````python\n{path.read_text(encoding='utf-8')}````\n")
    _write(into / "examples/index.md", _index_of_examples(programs))
    for path in (path for path in DOCS.rglob("*") if path.suffix in {".png", ".svg"}):
        target = into / path.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copy(DOCS / "site.css", into)
    for on_site, text in reference.pages().items():
        _write(into / on_site, text)
    return lost


def write_settings(build: Path) -> None:
    """Writes Zensical's file, with the pages of the interface in the table of contents, and ``llms.txt``."""
    modules = sorted(path.name for path in (build / "pages" / "reference" / "api").glob("*.md"))
    shown = ", ".join(f'{{ "{name[:-3]}" = "reference/api/{name}" }}' for name in modules if name != "index.md")
    text = (DOCS / "site.toml").read_text(encoding="utf-8")
    text = text.replace('{ "API" = [] }', f'{{ "API" = [{{ "Modules" = "reference/api/index.md" }}, {shown}] }}')
    _write(build / "zensical.toml", text)
    project = tomllib.loads(text)["project"]
    lines = [
        f"# {project['site_name']}",
        "",
        f"> {project['site_description']}",
        *_listed(project["nav"], build / "pages"),
    ]
    _write(build / "pages" / "llms.txt", "\n".join(lines) + "\n")


def label_cells(page: str) -> str:
    """Writes the heading of its column at each cell of a table, for docs/site.css, and says where a name may break."""

    def labelled(table: re.Match[str]) -> str:
        headings = [_TAG.sub("", heading) for heading in re.findall(r"<th\b[^>]*>(.*?)</th>", table[0], re.DOTALL)]

        def row(match: re.Match[str]) -> str:
            labels = iter(headings)
            return re.sub("<td", lambda _: f'<td data-label="{next(labels, "").replace(chr(34), "&quot;")}"', match[0])

        rows = re.sub(r"<tr>.*?</tr>", row, table[0], flags=re.DOTALL)
        return re.sub(r"(?<=<code>)[^<\s]{14,}(?=<)", lambda code: _HUMP.sub("<wbr>", code[0]), rows)

    return re.sub(r"<table>.*?</table>", labelled, page, flags=re.DOTALL)


def name_in_search(path: Path) -> None:
    """Says in the search's titles what is a program or the interface: a word near a title's beginning counts more."""
    index = json.loads(path.read_text(encoding="utf-8"))
    for item in index["items"]:
        folder, _, name = item["location"].partition("#")[0].strip("/").rpartition("/")
        if folder == "reference/api":
            module = "" if item["level"] == 1 or name == "streamtools" else f"{name}."
            item["title"] = f"API reference: {module}{item['title']}"
        elif folder.startswith("examples"):
            item["title"] = f"Example program: {item['title']}"
    path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _listed(nav: list[dict[str, Any]], pages: Path, title: str = "") -> Iterator[str]:
    """A line for each page: its title, its place and its first sentence."""
    for entry in nav:
        for name, target in entry.items():
            if isinstance(target, list):
                yield from ("", f"## {name}", "") if not title else ()
                yield from _listed(target, pages, name)
            else:
                yield f"- [{name}]({address(target)}): {_first_sentence((pages / target).read_text(encoding='utf-8'))}"


def _first_sentence(text: str) -> str:
    prose = re.sub(r"^(#|\||- |!\[|> ).*$", "", _FENCE.sub("", text), flags=re.MULTILINE)
    words = " ".join(prose.strip().split("\n\n")[0].split())
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", words)
    return re.split(r"(?<=[.!?]) ", words)[0]


def _index_of_examples(programs: dict[str, Path]) -> str:
    lines = ["# Examples", "", "Each is a complete program and needs no key.", ""]
    for on_site, path in programs.items():
        doc = re.match(r'(?:#!.*\n)?"""(.*?)(?:\n\n|""")', path.read_text(encoding="utf-8"), re.DOTALL)
        says = f": {' '.join(doc[1].split())}" if doc else ""
        lines.append(f"- [{path.name}]({on_site.removeprefix('examples/')}){says}")
    return "\n".join(lines) + "\n"


def _for_the_site(text: str, path: Path, on_site: str, places: dict[Path, str], lost: list[str]) -> str:
    """The page without the comments for tests, and with its links as the site has them."""

    def moved(match: re.Match[str]) -> str:
        target = (path.parent / match[2]).resolve()
        if target.suffix in {".png", ".svg"}:
            return match[0]
        if target not in places:
            lost.append(f"{path.relative_to(REPOSITORY)}: {match[2]}")
            return match[0]
        return f"{match[1]}{posixpath.relpath(places[target], posixpath.dirname(on_site) or '.')}{match[3]}"

    def prose(part: str) -> str:
        part = _LINK.sub(moved, _COMMENT.sub("", part))
        return re.sub(r"^((?!- |  |\d+\. |\s*$).*\n)(?=- |\d+\. )", r"\1\n", part, flags=re.MULTILINE)

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [prose(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, prose(text[end:])])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    """Builds the site; the status for the shell."""
    shutil.rmtree(BUILD, ignore_errors=True)
    lost = write_pages(BUILD / "pages")
    if lost:
        print("these links lead to nothing that is on the site:", *lost, sep="\n  ", file=sys.stderr)
        return 1
    write_settings(BUILD)
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"],
        cwd=BUILD, env={**os.environ, "NO_COLOR": "1"}, check=False,
    )  # fmt: skip
    if built.returncode == 0:
        for page in (BUILD / "site").rglob("*.html"):
            _write(page, label_cells(page.read_text(encoding="utf-8")))
        name_in_search(BUILD / "site" / "search.json")
        write_redirects(BUILD / "site")
        print(f"{len(list((BUILD / 'site').rglob('*.html')))} pages in {BUILD / 'site'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
