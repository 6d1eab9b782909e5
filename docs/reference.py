"""Writes the pages of the interface from the code's docstrings, when the site is built: a page for each public module.

`griffe` reads the code without running it. ``**options`` become rows of their own: types from the keywords' TypedDict,
defaults from the function or the dataclass that they go to, words from the docstring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

MODULES = (
    *("streamtools", "errors", "turn", "parts", "content", "tools", "exports", "dispatch"),
    *(
        "executors",
        "seams",
        "history",
        "mcp",
        "modes",
        "stages",
        "wires",
        "sources",
        "decode",
        "observers",
        "policy",
        "telemetry",
    ),
    *("record", "view", "privacy", "provenance", "web", "integrations", "integrations.httpx", "integrations.langgraph"),
    *("integrations.pydantic_ai", "integrations.smolagents", "integrations.strands", "testing", "interop", "schema"),
    "warning_codes",
)
"""The modules that a program imports from."""
SAME_AS = {"PipelineKeywords": "streamtools.front.streams.pipeline"}
"""The function whose docstring and defaults hold for the options of others."""
DEFAULTS = {"ToolKeywords": "streamtools.tools.options.ToolOptions"}
"""The dataclass that has the defaults of options."""
_UNPACK = re.compile(r"Unpack\[(?:\w+\.)*(\w+)\]")


def pages() -> dict[str, str]:
    """Returns the text of each page, by its path on the site."""
    package: Any = griffe.load(
        "streamtools", resolve_aliases=True, docstring_parser="google", docstring_options={"warnings": False}
    )
    made = {f"reference/api/{name}.md": _Page(package, name).text() for name in MODULES}
    rows = [f"| [`{_full(name)}`]({name}.md) | {_summary(_module(package, name))} |" for name in MODULES]
    made["reference/api/index.md"] = "\n".join(
        ["# API: modules", "", "| module | what it does |", "|---|---|", *rows, ""]
    )
    return made


def _full(name: str) -> str:
    return name if name == "streamtools" else f"streamtools.{name}"


def _module(package: Any, name: str) -> Any:
    return package if name == "streamtools" else package[name]


def _summary(thing: Any) -> str:
    return _cell(thing.docstring.value.split("\n\n")[0]) if thing.docstring else ""


def _cell(text: object) -> str:
    return _words(" ".join(str(text).split())).replace("|", "\\|")


def _words(text: str) -> str:
    """A docstring's prose as Markdown: ``code`` with one backtick, and no emphasis by accident."""
    return re.sub(r"(?<!`)``(?!`)([^`]+)``(?!`)", r"`\1`", text)


class _Page:
    """The page of one module."""

    def __init__(self, package: Any, name: str) -> None:
        self._package, self._name, self._module = package, name, _module(package, name)

    def text(self) -> str:
        lines = [f"# {_full(self._name)}", "", *self._prose(self._module), ""]
        for name in self._names():
            thing = self._module.members.get(name)
            if thing is not None:
                lines += self._member(name, thing.final_target if thing.is_alias else thing)
        return "\n".join(lines) + "\n"

    def _names(self) -> list[str]:
        return [str(getattr(name, "name", name)) for name in self._module.exports or []]

    def _member(self, name: str, thing: Any) -> Iterator[str]:
        yield f"## {name}"
        yield ""
        if thing.is_function:
            yield from self._callable(name, thing)
        elif thing.is_class:
            yield from self._class(name, thing)
        elif thing.is_module:
            yield from self._prose(thing)
        else:
            yield from _code(f"{name} = {thing.value}" if len(str(thing.value)) < 400 else name)
            yield from self._prose(thing)
        yield ""

    def _class(self, name: str, cls: Any) -> Iterator[str]:
        bases = ", ".join(str(base) for base in cls.bases if str(base) not in {"Protocol", "Generic[T]", "CallsFace"})
        yield from _code(f"class {name}({bases})" if bases else f"class {name}")
        yield from self._prose(cls)
        rows = [
            (f"`{member.name}`", _type(member.annotation), _default(member.value), _summary_of(member))
            for member in self._public(cls)
            if member.is_attribute and (member.docstring or "instance-attribute" in member.labels or member.annotation)
        ]
        yield from _table(("field", "type", "default", ""), rows)
        init = cls.members.get("__init__")
        if init is not None and not init.is_alias and any(one.name != "self" for one in init.parameters):
            yield from self._callable(name, init)
        for member in self._public(cls):
            if member.is_function:
                # A heading would come before the guide in the search.
                yield f'<a id="{name}.{member.name}"></a> **`{name}.{member.name}`**'
                yield ""
                yield from self._callable(f"{name}.{member.name}", member)

    def _public(self, cls: Any) -> list[Any]:
        found: dict[str, Any] = {}
        for one in [*reversed(cls.mro()), cls]:
            if one.path.startswith("streamtools."):
                found |= {key: member for key, member in one.members.items() if not key.startswith("_")}
        return [member for member in found.values() if not member.is_alias]

    def _callable(self, name: str, function: Any) -> Iterator[str]:
        shown = [one for one in function.parameters if one.name not in {"self", "cls"}]
        parts = [_parameter(one) for one in shown]
        keyword = next((i for i, one in enumerate(shown) if one.kind and one.kind.value == "keyword-only"), None)
        if keyword is not None and not any(one.kind and one.kind.value == "variadic positional" for one in shown):
            parts.insert(keyword, "*")
        start = "async " if "async" in function.labels else ""
        inside = "".join(f"\n    {part}," for part in parts) + "\n" if len(", ".join(parts)) > 70 else ", ".join(parts)
        yield from _code(f"{start}{name}({inside})" + (f" -> {function.returns}" if function.returns else ""))
        yield from self._prose(function, shown)

    def _prose(self, thing: Any, parameters: list[Any] | None = None) -> Iterator[str]:
        """The docstring, its parameters as a table with types and defaults, and those of ``**options``."""
        described: dict[str, str] = {}
        for section in thing.docstring.parse("google", warnings=False) if thing.docstring else []:
            kind = section.kind.value
            if kind == "parameters":
                described |= _described(section)
                rows = self._parameters(parameters or [], described)
                yield from _table(("parameter", "type", "default", ""), rows)
            elif kind in {"returns", "yields"}:
                text = " ".join(_cell(one.description) for one in section.value)
                yield from (f"**{kind.capitalize()}:** {text}", "")
            elif kind == "raises":
                rows = [(f"`{one.annotation}`", _cell(one.description)) for one in section.value]
                yield from _table(("raises", "if"), rows)
            elif kind == "examples":
                for what, text in section.value:
                    yield from _code(text) if what.value == "examples" else (_words(text), "")
            elif kind == "text":
                yield from (_indented(section.value), "")
            elif kind == "admonition":
                yield from (f"**{section.title}:** {_words(section.value.description)}", "")

    def _parameters(self, parameters: list[Any], described: dict[str, str]) -> list[tuple[str, ...]]:
        rows = []
        for one in parameters:
            unpacked = (
                _UNPACK.search(str(one.annotation))
                if one.kind is not None and one.kind.value == "variadic keyword"
                else None
            )
            if unpacked is not None:
                rows += self._options(unpacked[1], described, {other.name for other in parameters})
            else:
                default = one.default if one.kind and not one.kind.value.startswith("variadic") else None
                rows.append(
                    (f"`{one.name}`", _type(one.annotation), _default(default), _cell(described.get(one.name, "")))
                )
        return rows

    def _options(self, keywords: str, described: dict[str, str], taken: set[str]) -> Iterator[tuple[str, ...]]:
        """A row for each option of a TypedDict."""
        same = self._package[SAME_AS[keywords].removeprefix("streamtools.")] if keywords in SAME_AS else None
        defaults = {one.name: one.default for one in same.parameters} if same else {}
        words = dict(described)
        if same:
            for section in same.docstring.parse("google", warnings=False):
                if section.kind.value == "parameters":
                    words = _described(section) | words
        if keywords in DEFAULTS:
            defaults = {
                one.name: one.value
                for one in self._public(self._package[DEFAULTS[keywords].removeprefix("streamtools.")])
            }
        for field in self._fields(keywords):
            if field.name not in taken:
                yield (
                    f"`{field.name}`",
                    _type(field.annotation),
                    _default(defaults.get(field.name)),
                    _cell(words.get(field.name, "")),
                )

    def _fields(self, keywords: str) -> list[Any]:
        for module in ("front.checked", "tools.options"):
            if keywords in self._package[module].members:
                found = self._package[module][keywords]
                return [
                    one for one in self._public(found.final_target if found.is_alias else found) if one.is_attribute
                ]
        raise LookupError(f"no TypedDict {keywords} where docs/reference.py looks")


def _parameter(one: Any) -> str:
    """A parameter as a signature has it."""
    kind = one.kind.value if one.kind else ""
    stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
    type_ = f": {one.annotation}" if one.annotation else ""
    return f"{stars}{one.name}{type_}" + (f" = {one.default}" if one.default is not None and not stars else "")


def _described(section: Any) -> dict[str, str]:
    """The words of each parameter, of which a line may name several."""
    return {name.strip(" *"): one.description for one in section.value for name in one.name.split(",")}


def _summary_of(member: Any) -> str:
    return _cell(member.docstring.value) if member.docstring else ""


def _type(annotation: Any) -> str:
    return f"`{str(annotation).strip(chr(34))}`".replace("|", "\\|") if annotation else ""


def _default(value: Any) -> str:
    """A default as the code has it; that of a field without the field."""
    field = re.match(r"field\(default=(.*?)(?:, \w+=.*)?\)$", str(value))
    value = field[1] if field else value
    return f"`{_cell(value)}`" if value is not None and len(str(value)) < 60 else ""


def _indented(text: str) -> str:
    """Prose with its indented examples as fenced code."""
    parts = re.split(r"((?:^(?: {4,}\S.*|[ ]*)\n?)+)", text, flags=re.MULTILINE)
    made = [
        f"\n```python\n{_dedented(part)}\n```\n"
        if part.strip() and part.lstrip("\n").startswith("    ")
        else _words(part)
        for part in parts
    ]
    return "".join(made).strip("\n")


def _dedented(text: str) -> str:
    """Code without its indentation and the blank lines around it."""
    return "\n".join(line[4:] for line in text.strip("\n").rstrip().split("\n"))


def _code(text: str) -> tuple[str, ...]:
    return ("```python", text, "```", "")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    if rows:
        for cells in (head, ("---",) * len(head), *rows):
            yield "| " + " | ".join(cells) + " |"
        yield ""
