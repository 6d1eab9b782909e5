"""Compares two JSON values, and one tool on several wires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pydantic_core import to_json

from ..schema.translation.document import pointer
from ..tools import Exported
from ..tools.entries import find


def parts(one: Exported) -> dict[str, Any]:
    """Returns the parts of an export under the same names for every wire, to compare them.

    The names are ``name``, ``description``, ``parameters``, ``output``, ``strict``, ``grammar``, ``title`` and
    ``annotations``; those that a payload does not contain are left out.
    """
    format, _ = find(one.wire, False)
    forms = (form for form in (format.freeform, format.function) if form is not None)
    entry = one.payload if format.namespace is None else format.namespace.entry_in(one.payload)
    described = next(described for form in forms if (described := form.read(entry)) is not None)
    found = {
        "name": described.name,
        "description": described.description,
        "parameters": described.schema,
        "output": described.output_schema,
        "strict": described.strict,
        "grammar": None if described.grammar is None else asdict(described.grammar),
        "title": described.title,
        "annotations": described.annotations,
    }
    return {name: value for name, value in found.items() if value is not None}


# -- differences between two JSON values --


MAX_SHOWN = 120  # characters of one value in a line of `Change`


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference between two JSON values; ``str()`` makes a readable line of it."""

    path: str
    """JSON pointer of the place; ``""`` is the whole value."""
    kind: Literal["added", "removed", "changed"]
    before: Any = None
    """The old value; None if it was added."""
    after: Any = None
    """The new value; None if it was removed."""

    def __str__(self) -> str:
        place = self.path or "/"
        if self.kind == "added":
            return f"+ {place}: {_excerpt(_text(self.after))}"
        if self.kind == "removed":
            return f"- {place}: {_excerpt(_text(self.before))}"
        return "~ {}: {} -> {}".format(place, *_both_shown(self.before, self.after))


def diff(before: Any, after: Any) -> list[Change]:
    """Returns the differences between two JSON values, in the order of the first; linear in their sizes.

    The values may be two versions of a schema, or the `parts` of one tool on two wires. Objects are compared by key, in
    any order. Lists of plain values (``required``, ``enum``) are compared as sets of their members, other lists by
    position.
    """
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _of_objects(before, after, path)
    elif isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        yield from _of_lists(before, after, path)
    elif type(before) is not type(after) or before != after:  # 1, 1.0 and True are equal in Python, and not in a schema
        yield Change(path=path, kind="changed", before=before, after=after)


def _of_objects(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> Iterator[Change]:
    for key, value in before.items():
        place = pointer(path, str(key))
        if key in after:
            yield from _changes(value, after[key], place)
        else:
            yield Change(path=place, kind="removed", before=value)
    for key, value in after.items():
        if key not in before:
            yield Change(path=pointer(path, str(key)), kind="added", after=value)


def _of_lists(before: Sequence[Any], after: Sequence[Any], path: str) -> Iterator[Change]:
    if not any(isinstance(value, (Mapping, list, tuple)) for value in (*before, *after)):
        # The order of `required`, `enum` and `type` means nothing in JSON Schema.
        olds, news = ({(type(value), value): None for value in values} for values in (before, after))
        for key in olds:
            if key not in news:
                yield Change(path=path, kind="removed", before=key[1])
        for key in news:
            if key not in olds:
                yield Change(path=path, kind="added", after=key[1])
        return
    for position in range(max(len(before), len(after))):
        place = f"{path}/{position}"
        if position >= len(after):
            yield Change(path=place, kind="removed", before=before[position])
        elif position >= len(before):
            yield Change(path=place, kind="added", after=after[position])
        else:
            yield from _changes(before[position], after[position], place)


def _both_shown(before: Any, after: Any) -> tuple[str, str]:
    old, new = _text(before), _text(after)
    if max(len(old), len(new)) <= MAX_SHOWN:
        return old, new
    # Descriptions often differ at their ends only: two excerpts of their beginnings would read alike.
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - MAX_SHOWN // 4)
    return _excerpt(old, start), _excerpt(new, start)


def _excerpt(text: str, start: int = 0) -> str:
    end = start + MAX_SHOWN
    cut = f"{'...' if start else ''}{text[start:end]}{'...' if end < len(text) else ''}"
    return cut if cut == text else f"{cut} ({len(text)} characters)"


def _text(value: Any) -> str:
    return to_json(value, fallback=repr).decode()
