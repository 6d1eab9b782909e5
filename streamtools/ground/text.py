"""Makes a peer's text safe: well-formed for every encoder, printable on one line, short where it is quoted.

Our objects show themselves by it, too: on one line, without secrets.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

# Servers that escape per token cut a character outside the BMP in two (UKGovernmentBEIS/inspect_ai#3802). A half of
# such a surrogate pair in a Python string makes everything that encodes UTF-8 raise, so none leaves the library: halves
# are joined where they meet, and replaced where they stay alone.
_HALF = re.compile("[\ud800-\udfff]")
MAX_KEY_CHARS = 64  # of one key in a path: the model chose it
_MAX_CLASS_CHARS = 200
MAX_PATH_CHARS = 700  # of a whole path: ten long keys

PLAIN_NAME_CHARACTERS = "a-zA-Z0-9_-"
"""The characters of a name that most providers take, as the inside of a character class."""
PLAIN_NAME_LENGTH = 64


# -- well-formed text --


class SurrogateJoiner:
    """Makes one text, fed in deltas, well-formed. A half at the end waits for the next delta."""

    __slots__ = ("_held", "lone")

    def __init__(self) -> None:
        self._held = ""
        self.lone = False  # True if a lone half became U+FFFD

    def feed(self, text: str) -> str:
        # Most deltas are ASCII, which `isascii` knows without looking at the characters.
        if not self._held and (text.isascii() or not _HALF.search(text)):
            return text
        # Only a first half can be completed by the next delta. A second one at the end is alone.
        text = self._held + text
        self._held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return self._well_formed(text[: len(text) - len(self._held)])

    def finish(self) -> str:
        held, self._held = self._held, ""
        return self._well_formed(held) if held else ""

    def _well_formed(self, text: str) -> str:
        joined = well_formed(text)
        if joined.count("\ufffd") > text.count("\ufffd"):
            self.lone = True
        return joined


def well_formed(text: str) -> str:
    if text.isascii() or not _HALF.search(text):
        return text
    # In UTF-16 two halves side by side are the character that they stand for.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_tree(value: Any) -> Any:
    """Copies a JSON value so that every encoder accepts it: strings and keys well-formed, null for NaN and infinity.
    The caller bounds the depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_tree(item) for item in value]
    if isinstance(value, dict):
        return {well_formed_tree(key): well_formed_tree(item) for key, item in value.items()}
    return value


# -- text that is shown --


def one_line(text: str, max_chars: int | None = None) -> str:
    r"""Escapes line breaks, control characters and invisible characters, so that `text` stays on one line.

    A text longer than `max_chars`, in which an escaped character counts as one, ends in ``…``.

    >>> one_line("ok\nERROR forged\x1b[2J")
    'ok\\nERROR forged\\x1b[2J'
    """
    if max_chars is not None and len(text) > max_chars:
        text = text[:max_chars] + "…"
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    half = "\ud800" <= character <= "\udfff"  # of a surrogate pair: not a character
    return "\N{REPLACEMENT CHARACTER}" if half else character.encode("unicode_escape").decode()


def printable(text: str) -> str:
    """Escapes everything in `text` that a terminal might obey or show as nothing; line feeds stay.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    # Text from a model or a file must not move the cursor, change the title or reverse the direction of writing. For
    # Python, none of these is printable, nor is a separator other than the space.
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else character.encode("unicode_escape").decode()
        for character in text
    )


def excerpt(data: bytes | str, limit: int) -> str:
    """Returns the first characters of a peer's data, safe to show: anything beyond printable ASCII is escaped."""
    # Four bytes a character at most: no more of a large body is decoded.
    text = data[: 4 * limit].decode("utf-8", "replace") if isinstance(data, bytes) else data[:limit]
    shown = re.sub(r"[^\x20-\x7e]", lambda match: ascii(match[0])[1:-1], text.strip()[:limit])
    return shown + ("…" if len(data) > limit else "")


def cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else text[:max_chars] + "..."


def known_names(name: str, known: Sequence[str], words: Mapping[str, str] = MappingProxyType({})) -> str:
    """Returns the end of the message about an unknown name: the name that was perhaps meant, and all there are. `words`
    are other words that people try for some of them, with blanks between them.

    >>> known_names("anthropic", ["openai.responses", "anthropic.messages"])
    "write 'anthropic.messages'; known: openai.responses, anthropic.messages"
    >>> known_names("claude-4", ["openai.responses", "anthropic.messages"], {"anthropic.messages": "claude"})
    "write 'anthropic.messages'; known: openai.responses, anthropic.messages"
    """
    from difflib import get_close_matches  # only for a mistake

    name = name[:MAX_KEY_CHARS].lower()
    likely = get_close_matches(name, known, n=1, cutoff=0.85) or _of_like_words(name, known, words)
    meant = likely or get_close_matches(name, known, n=1)
    return f"{f'write {meant[0]!r}; ' if meant else ''}known: {', '.join(known)}"


def _of_like_words(name: str, known: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """Returns the known name that has most of a name's words, if it has any: each counts more than all behind it."""
    parts = _words(name)
    scores = {one: [part in _words(f"{one} {words.get(one, '')}") for part in parts] for one in known}
    return [max(known, key=lambda one: scores[one])] if any(map(any, scores.values())) else []


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name)


def dotted(path: tuple[str | int, ...]) -> str:
    """Returns a path into a JSON value as a person reads it: ``people[0].age``.

    A key that is not a plain word is quoted, a long key or path is cut.
    """
    parts = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif re.fullmatch(r"[\w-]{1,64}", part):
            parts.append(f".{part}")
        else:
            parts.append(f"[{cut(part, MAX_KEY_CHARS)!r}]")
    return cut("".join(parts).removeprefix("."), MAX_PATH_CHARS)


def deeper_than(limit: int, value: object) -> bool:
    # Without recursion, which the value that is looked for would exceed.
    waiting = [(value, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, (dict, list)):
            if depth > limit:
                return True
            waiting.extend((child, depth + 1) for child in (node.values() if isinstance(node, dict) else node))
    return False


# -- how our objects show themselves --
#
# As a developer looks for them, on one printable line: what they are, the model's text cut short, and no secrets. A
# value that is its field's default is left out. Of content, which may be secret (arguments, results, data of the
# provider's), only the type and the size are shown, unless the environment variable `STREAMTOOLS_DEBUG` is `1`. Content
# is each field of a dataclass with `repr=False`; `ALWAYS` and `NEVER` are the metadata of fields that are shown, or
# left out, whatever their value.

ALWAYS: Mapping[str, str] = MappingProxyType({"shown": "always"})
NEVER: Mapping[str, str] = MappingProxyType({"shown": "never"})

_MAX_TEXT = 100  # characters of a text
_MAX_ERROR = 300  # characters of an error's message
_MAX_CONTENT = 1000  # characters of content, where it is shown
_MAX_ITEMS = 10  # of a tuple
_SIZED = (str, bytes, list, tuple, dict, set, frozenset)
_PLAIN = (str, bool, int, float, tuple, type(None))  # may be compared with a default


class _Shown(NamedTuple):
    name: str
    default: Any  # the value that is not shown; MISSING if any is
    is_content: bool


def shown_by(*names: str, last: Iterable[str] = ()) -> Any:  # pyright does not take a callable's type for a method's
    """Returns a ``__repr__`` that shows these attributes, which may be properties; by default the fields of a
    dataclass, those in `last` behind the others."""
    # By the class of the object, which may be a subclass with fields of its own.
    plans: dict[type, list[_Shown]] = {}

    def __repr__(self: Any) -> str:
        kind = type(self)
        if kind not in plans:
            plans[kind] = _plan(kind, names, tuple(last))
        shown_items = ((one, getattr(self, one.name, MISSING)) for one in plans[kind])
        parts = [
            f"{one.name}={_value(value, one)}" for one, value in shown_items if not _is_default(value, one.default)
        ]
        return f"{kind.__name__}({', '.join(parts)})"

    return __repr__


def class_name(value: object) -> str:
    # A class may be made at run time, of a peer's words: a fault of a service, the class of a record.
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return one_line(name, _MAX_CLASS_CHARS)


def stand_in(error: BaseException, *words: str) -> BaseException:
    """Returns an exception with the same name and frames, safe to show, which has these words alone."""
    kind = type(error)
    name, module = one_line(kind.__qualname__, _MAX_CLASS_CHARS), one_line(kind.__module__, _MAX_CLASS_CHARS)
    base = Exception if isinstance(error, Exception) else BaseException
    made: Any = type(type_name(error), (base,), {"__module__": module, "__qualname__": name})
    return made(*words).with_traceback(error.__traceback__)  # type: ignore[no-any-return]


def type_name(value: object) -> str:
    return one_line(type(value).__name__, _MAX_CLASS_CHARS)


def is_debugging() -> bool:
    """Returns whether ``STREAMTOOLS_DEBUG`` is set to ``1``: content may be shown, and tools' exceptions logged
    whole."""
    return os.environ.get("STREAMTOOLS_DEBUG") == "1"


def described(value: object) -> str:
    """Returns the type of a value, and its size if it has one: ``dict of 2``."""
    kind = type_name(value)
    return f"{kind} of {len(value)}" if isinstance(value, _SIZED) else kind


def _plan(kind: type, names: tuple[str, ...], last: tuple[str, ...]) -> list[_Shown]:
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)} if is_dataclass(kind) else {}
    chosen = names or (*(name for name in known if name not in last), *(name for name in last if name in known))
    return [_shown(name, known.get(name)) for name in chosen if name not in known or _may_be_shown(known[name])]


def _may_be_shown(one: Field[Any]) -> bool:
    return not one.name.startswith("_") and one.metadata != NEVER and (one.repr or one.compare)


def _shown(name: str, one: Field[Any] | None) -> _Shown:
    if one is None:  # a property: text that may be empty, or an object
        return _Shown(name, "", False)
    default = one.default if one.default_factory is MISSING else one.default_factory()
    return _Shown(name, MISSING if one.metadata == ALWAYS else default, not one.repr)


def _is_default(value: object, default: object) -> bool:
    # A user's value may raise in its `==`, and 1 is not True.
    return value is default or (isinstance(value, _PLAIN) and type(value) is type(default) and value == default)


def _value(value: object, one: _Shown) -> str:
    if not one.is_content:
        return _container(value)
    return one_line(_safely(value), _MAX_CONTENT) if is_debugging() else f"<{described(value)}>"


def _container(value: object) -> str:
    show = next((show for kind, show in _FORMATTERS if isinstance(value, kind)), _safely)
    return show(value)


def _quoted(text: str, most: int = _MAX_TEXT) -> str:
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"


def _error(error: BaseException) -> str:
    return f"{type_name(error)}({_quoted(str(error), _MAX_ERROR)})"


def _items(items: tuple[Any, ...]) -> str:
    shown_items = [_container(item) for item in items[:_MAX_ITEMS]]
    if len(items) > _MAX_ITEMS:
        shown_items.append(f"… {len(items) - _MAX_ITEMS} more")
    return f"({', '.join(shown_items)}{',' if len(items) == 1 else ''})"


def _safely(value: object) -> str:
    try:
        return repr(value)
    except Exception:
        return f"<a {type(value).__name__} that cannot be shown>"


_FORMATTERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, _quoted),
    (float, lambda value: repr(round(value, 6))),  # a duration
    (tuple, _items),
    (BaseException, _error),
)
