"""Writes the tables of the pages that are made of the code's own data: ``python docs/tables.py``.

A table stands between its marker and ``<!-- end -->``. ``<!-- tolerances: NAME -->``, where NAME is a wire, ``bodies``
or ``calls``, has the rows of `streamtools.wires.Tolerance`; ``<!-- exports: NAME -->`` compares the wires by
``targets``, ``keywords`` or ``outputs``; ``<!-- dialects: all -->`` has the dialects of calls in text;
``<!-- words: NAME -->`` has the rows of a vocabulary: ``counts``, ``waits``, ``runs`` or ``warnings``, ``outcomes``,
``limits``, ``events``, ``extras`` or ``commands``; the last four have their words from docstrings, pyproject.toml and
the command's own help.
So the pages cannot say anything else than the code.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias, get_args

from streamtools import Limits, cli, events
from streamtools.parts import COUNTS, OUTCOMES, RUN_OUTCOMES, WAITS
from streamtools.schema.dialects import COLUMNS, KEYWORDS, Action
from streamtools.stages import DIALECTS
from streamtools.text_calls.dialects import FAMILIES
from streamtools.tools.entries import tool_formats
from streamtools.warning_codes import WARNINGS
from streamtools.wires import Tolerance, known

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from tolerated import TOLERATED  # beside the cases that show each

_DOCS = Path(__file__).parent
PAGES = sorted(page for page in _DOCS.rglob("*.md") if "\n<!-- end -->" in page.read_text(encoding="utf-8"))
"""The pages that have such a table."""
_TABLE = re.compile(r"(<!-- (tolerances|exports|dialects|words): (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"{match[1]}{_made(match[2], match[3])}{match[4]}", page)


def _made(kind: str, name: str) -> str:
    if kind == "dialects":
        return _dialects()
    if name == "events":
        return _events()
    if name == "commands":
        return _commands()
    if kind == "words":
        return _plain(*_WORDS[name])
    return table(_rows(name)) if kind == "tolerances" else _plain(*_EXPORTS[name]())


def table(rows: Iterable[Tolerance]) -> str:
    """Rows as a Markdown table."""
    lines = ["| deviation | result | warning | seen with |", "|---|---|---|---|"]
    for row in rows:
        cells = (row.seen, row.becomes, f"`{row.warning}`" if row.warning else "", row.servers)
        lines.append("|" + "|".join(f" {cell} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _counts() -> Iterator[tuple[str, ...]]:
    for count, facts in COUNTS.items():
        whole = "" if facts.part_of is None else f"`{facts.part_of}`"
        yield (f"`{count}`", whole, f"`{facts.span}`", facts.metric or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", "⏎")


def _documented(path: str, name: str) -> Iterator[tuple[str, str, str, str]]:
    """The fields of a class: name, type, default and docstring."""
    module = ast.parse((_DOCS.parent / "streamtools" / path).read_text(encoding="utf-8"))
    (found,) = (node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name)
    for field, words in pairwise([*found.body, ast.Pass()]):
        if isinstance(field, ast.AnnAssign) and isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant):
            default = "" if field.value is None else ast.unparse(field.value).replace("(default=", "(")
            text = " ".join(str(words.value.value).replace("``", "`").split())
            yield ast.unparse(field.target), ast.unparse(field.annotation).strip("'"), default, text


def _limits() -> Iterator[tuple[str, ...]]:
    for name, type_, default, words in _documented("limits.py", "Limits"):
        value = getattr(Limits(), name)
        shown = f"{value >> 20} MiB" if "<< 20" in default else f"{value >> 10} KiB" if "<< 10" in default else value
        words = words.removesuffix(" None: no limit.")
        yield (f"`{name}`", f"{shown}", _cell(words), "allowed" if "None" in type_ else "")


def _events() -> str:
    """A section for each event, in the order in which they can occur."""
    parts = []
    for event in get_args(events.Event):
        if event is events.ToolCallFragment:  # no consumer meets it
            continue
        text = re.sub(r"``", "`", inspect.cleandoc(event.__doc__ or ""))
        parts += [f"### {event.__name__}\n", f"{text}\n"]
        rows = [
            (f"`{name}`", f"`{_cell(type_)}`", _cell(words))
            for name, type_, _, words in _documented("events.py", event.__name__)
        ]
        if rows:
            parts.append(_plain(("field", "type", ""), rows))
    return "\n".join(parts)


def _extras() -> Iterator[tuple[str, ...]]:
    """The extras for users, with what the page about dependencies says of them."""
    page = (_DOCS / "dependencies.md").read_text(encoding="utf-8")
    found: dict[str, list[tuple[str, str]]] = {}
    for extra, package, words in re.findall(r"^\| `([\w-]+)` \| `([^`]+)` \|.*\| ([^|]+) \|$", page, re.MULTILINE):
        found.setdefault(extra, []).append((package, words.replace("](guide/", "](../guide/")))
    for extra, packages in found.items():
        yield (f"`{extra}`", ", ".join(f"`{one}`" for one, _ in packages), "; ".join(words for _, words in packages))


def _commands() -> str:
    """The help of the command, and of each command in it."""
    main = cli._parser()
    main.formatter_class = _Narrow
    parts = []
    for name, parser in [("streamtools", main), *_subcommands(main, "streamtools")]:
        parser.formatter_class = _Narrow
        parts.append(f"### {name}\n\n```text\n{parser.format_help().rstrip()}\n```\n")
    return "\n".join(parts)


class _Narrow(argparse.RawDescriptionHelpFormatter):
    """Formats help in 100 columns, whatever the terminal has."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=100)


def _subcommands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, one in action.choices.items():
                yield f"{name} {word}", one
                yield from _subcommands(one, f"{name} {word}")


_WORDS: dict[str, tuple[tuple[str, ...], Iterable[tuple[str, ...]]]] = {
    "counts": (("count", "part of", "on spans", "`gen_ai.token.type` of the metric"), [*_counts()]),
    "waits": (
        ("`streamtools.wait.reason`", "the call waits for", "ends on its own"),
        [(f"`{reason}`", one.phrase, "no" if one.reader_acts else "yes") for reason, one in WAITS.items()],
    ),
    "runs": (("outcome", "what happened"), [(f"`{word}`", one.words) for word, one in RUN_OUTCOMES.items()]),
    "outcomes": (
        ("outcome", "what happened", "stage", "may have had an effect"),
        [
            (
                f"`{word}`",
                one.words.format(type="an exception"),
                one.stage or "",
                "yes" if one.may_have_had_effect else "",
            )
            for word, one in OUTCOMES.items()
        ],
    ),
    "limits": (("limit", "default", "bounds", "`None` (no limit)"), [*_limits()]),
    "extras": (("extra", "installs", "for"), [*_extras()]),
    "warnings": (
        ("code", "severity", "what happened"),
        [(f"`{code}`", one.severity, one.words) for code, one in WARNINGS.items()],
    ),
}


_Table: TypeAlias = tuple[tuple[str, ...], Iterable[tuple[str, ...]]]

_WORDS_OF_ACTIONS = {
    Action.KEEP: "kept",
    Action.DROP: "dropped",
    Action.NOTE: "noted",
    Action.REWRITE: "rewritten",
    Action.INLINE: "inlined",
    Action.REFUSE: "refused",
}


def _targets() -> _Table:
    """Where each wire has the schema and strictness, and which names it accepts."""
    rows = [
        (
            f"`{format.name}`",
            f"`{'.'.join(format.schema_at)}`",
            "no" if format.strict is None else format.strict.location,
            "any" if format.names is None else f"`{_cell(format.names.pattern)}`",
            "no" if format.function.output_at is None else f"`{format.function.output_at}`",
            "custom" if format.freeform is not None else "a function with `input`",
        )
        for format in tool_formats()
    ]
    return ("Wire", "Schema in", "Strict", "Tool names", "Result schema", "Freeform tools"), rows


def _outputs() -> _Table:
    """The fields that ask for an answer by a schema; whether the model may be shown one without being held to it."""
    asked = [(wire.name, wire.structured) for wire in known() if wire.structured is not None]
    rows = [(f"`{name}`", form.strict.location, "no" if form.loose is None else "yes") for name, form in asked]
    return ("Wire", "Asked for by", "`strict=False`"), rows


def _keywords() -> _Table:
    """The action for each keyword of JSON Schema in each dialect; keywords with the same actions share a row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for keyword, row in KEYWORDS.items():
        actions = tuple(_WORDS_OF_ACTIONS[row[one]] for one in COLUMNS)
        alike.setdefault(actions, []).append(keyword if keyword.startswith("(") else f"`{keyword}`")
    rows = [(", ".join(keywords), *actions) for actions, keywords in alike.items()]
    return ("Keywords", *(f"`{column}`" for column in COLUMNS)), rows


_EXPORTS = {"targets": _targets, "keywords": _keywords, "outputs": _outputs}


def _plain(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["|" + "|".join(f" {cell} ".replace("  ", " ") for cell in row) + "|" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"


def _dialects() -> str:
    """The dialects of calls in text as a Markdown table."""
    lines = ["| dialect | models | a call looks like this | also accepted |", "|---|---|---|---|"]
    for name, dialect in DIALECTS.items():
        models = ", ".join(family.models for family in FAMILIES if family.dialect == name)
        fence = "``" if "`" in dialect.example else "`"
        example = f"{fence}{' ' if fence != '`' else ''}{dialect.example}{' ' if fence != '`' else ''}{fence}"
        cells = (f"`{name}`", models or "any model that is prompted to write it", example, dialect.tolerates)
        lines.append("|" + "|".join(f" {_cell(cell)} ".replace("  ", " ") for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _rows(name: str) -> tuple[Tolerance, ...]:
    return TOLERATED[name]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
