"""Leads old addresses of the site to new ones: docs/moved.toml has them, docs/build_site.py writes what leads on."""

from __future__ import annotations

import json
import posixpath
import tomllib
from pathlib import Path

MOVED = Path(__file__).parent / "moved.toml"


def write_redirects(site: Path) -> None:
    """Writes a page in the place of each that has gone, and a script into each page whose headings have moved."""
    for page, places in moved().items():
        file = site / address(page) / "index.html"
        leads = script(page, places)
        if "" not in places:
            file.write_text(file.read_text(encoding="utf-8").replace("</body>", f"{leads}</body>"), encoding="utf-8")
            continue
        to = _relative(page, places[""])
        head = f'<meta charset="utf-8"><meta name="robots" content="noindex"><title>Moved</title>{leads}'
        again = f'<noscript><meta http-equiv="refresh" content="0; url={to}"></noscript>'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'<!doctype html>{head}{again}<a href="{to}">This page has moved.</a>\n', encoding="utf-8")


def moved() -> dict[str, dict[str, str]]:
    """Returns where pages and headings have moved: by the old page, then by the heading, "" for the page."""
    found: dict[str, dict[str, str]] = {}
    for old, new in tomllib.loads(MOVED.read_text(encoding="utf-8")).items():
        page, mark, heading = old.partition("#")
        found.setdefault(page, {})[mark + heading] = new
    return found


def script(page: str, places: dict[str, str]) -> str:
    """Returns the script by which an old page, or an old heading of a page, leads to its new place."""
    to = {heading: _relative(page, new) for heading, new in places.items()}
    default = f" ?? {json.dumps(to.pop(''))}" if "" in to else ""
    return f"<script>{{const to = {json.dumps(to)}[location.hash]{default}; if (to) location.replace(to)}}</script>"


def address(page: str) -> str:
    """Where a page is on the site, from its root."""
    return page.removesuffix("index.md") or "./" if page.endswith("index.md") else page.removesuffix(".md") + "/"


def _relative(page: str, new: str) -> str:
    target, mark, heading = new.partition("#")
    return f"{posixpath.relpath(address(target), address(page))}/{mark}{heading}"
