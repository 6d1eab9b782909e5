"""What is wrong with a call's arguments, in lines that a model can act on and that never repeat a value.

Each line is a path into the arguments as they were sent, and the rule that they break:

    city: is required but missing
    people[0].age: should be greater than or equal to 0
    pet.lives (as cat): should be a valid integer

The rules are pydantic's own words, except where those quote the input. What a validator of yours says (the text of its
``ValueError``) is kept unless it repeats something of the input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from pydantic_core import ErrorDetails, ValidationError, from_json
from pydantic_core.core_schema import ErrorType

from ..errors import InvalidArguments
from ..schema.paths import MAX_PATH_CHARS, dotted
from ..text import cut

__all__ = [
    "MAX_PROBLEMS",
    "WITHHELD",
    "decode_strings",
    "describe",
    "listed",
    "locate",
    "refusal",
    "rule_of_a_check",
]

MAX_PROBLEMS = 16  # lines; a list of a thousand bad items says nothing more than its first ones
MAX_RULE_CHARS = 300  # one rule: a Literal or pattern may be long

_REQUIRED = frozenset({"missing", "missing_keyword_only_argument"})

_REWRITTEN = {
    "extra_forbidden": "is not allowed here",
    "union_tag_invalid": "{discriminator} should be one of {expected_tags}",
    "union_tag_not_found": "is missing {discriminator}, which tells its kind",
    "uuid_parsing": "should be a valid UUID",
    "timezone_offset": "should have a timezone offset of {tz_expected} seconds",
    "bytes_invalid_encoding": "should be valid {encoding}",
    "needs_python_object": "has a type that no JSON value fits",
}
"""Rules whose own text quotes the input or speaks of Python. Filled from the error's context."""

_OWN_WORDS = frozenset({"value_error", "assertion_error", "mapping_type", "iteration_error", "get_attribute_error"})
_BUILT_IN = frozenset(get_args(ErrorType)) - _OWN_WORDS
WITHHELD = "was refused by the tool's own check"

_ARRAY: tuple[type, ...] = (list,)
_OBJECT: tuple[type, ...] = (dict,)
_WANTED = {
    "list_type": _ARRAY,
    "tuple_type": _ARRAY,
    "set_type": _ARRAY,
    "frozen_set_type": _ARRAY,
    "deque_type": _ARRAY,
    "iterable_type": _ARRAY,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dataclass_type": _OBJECT,
    "named_tuple_type": (list, dict),
}
"""Errors that mean "an array (an object) belongs here", and what a string there may decode to."""

_Path = tuple[str | int, ...]


def refusal(tool: str, lines: Sequence[str]) -> InvalidArguments:
    """The error that refuses a call, from its problems."""
    return InvalidArguments(f"invalid arguments for {tool}: " + "; ".join(lines), problems=lines)


def listed(lines: Sequence[str]) -> list[str]:
    """The first 16 lines, each once and of bounded length, and how many more there are."""
    return _counted(lines[:MAX_PROBLEMS], len(lines))


def _counted(first: Iterable[str], count: int) -> list[str]:
    kept = dict.fromkeys(cut(line, MAX_RULE_CHARS + MAX_PATH_CHARS) for line in first)
    rest = count - MAX_PROBLEMS
    return [*kept, f"and {rest} more"] if rest > 0 else list(kept)


def rule_of_a_check(said: str, given: Any) -> str:
    """What a check of the user's says, unless it repeats something of what it was given."""
    words = said[:MAX_RULE_CHARS]
    return WITHHELD if not words or _repeats(words, given) else words


def describe(error: ValidationError, arguments: dict[str, Any], takes: Iterable[str]) -> list[str]:
    """One line per problem, in the order of the schema; linear in the arguments.

    Args:
        error: what validating `arguments` raised.
        arguments: the arguments as plain JSON.
        takes: the names of the tool's arguments, for the line about one that it does not have.
    """
    details = error.errors(include_url=False)
    return _counted([_line(item, arguments, takes) for item in details[:MAX_PROBLEMS]], len(details))


def decode_strings(error: ValidationError, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Decodes the strings that hold the JSON text of the array or object that `error` says belongs in their place.

    `arguments` is changed in place. Returns what was done, ``people: json_string`` for each, at most 16 and a line that
    counts the rest; only once: strings inside what was decoded stay strings. Nothing else is ever coerced here.
    """
    done: list[_Path] = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, _, value = locate(item, arguments)
        wanted = _WANTED.get(item["type"], ())
        if not path or not wanted or not isinstance(value, str):
            continue
        try:
            decoded = from_json(value, allow_inf_nan=False)
        except ValueError:
            continue  # no JSON: the problem stays what it is
        if isinstance(decoded, wanted):
            _descend(arguments, path[:-1])[path[-1]] = decoded
            done.append(path)
    return tuple(_counted([f"{dotted(path)}: json_string" for path in done[:MAX_PROBLEMS]], len(done)))


def _line(item: ErrorDetails, arguments: dict[str, Any], takes: Iterable[str]) -> str:
    path, labels, _ = locate(item, arguments)
    where = dotted(path) or "the arguments"
    if item["type"] == "extra_forbidden" and len(path) == 1:
        names = ", ".join(takes)
        return f"{where}: is no argument of this tool, which takes {names or 'none'}"
    return f"{where}{_alternative(labels)}: {_rule(item, arguments)}"


def _rule(item: ErrorDetails, arguments: dict[str, Any]) -> str:
    kind = item["type"]
    if kind in _REQUIRED:
        return "is required but missing"
    if kind in _REWRITTEN:
        return _REWRITTEN[kind].format_map(item.get("ctx", {}))
    words = item["msg"]
    if kind not in _BUILT_IN:
        words = words.removeprefix("Value error, ").removeprefix("Assertion failed, ")
        # What the check was given, and of the rest, which it may have seen as well, what can hardly be there by chance.
        return WITHHELD if _quotes(words, arguments) else rule_of_a_check(words, item["input"])
    words = words.removeprefix("Input ")
    if words[1:2].islower():  # "String should ...", but not "URL should ..."
        words = words[0].lower() + words[1:]
    return cut(words, MAX_RULE_CHARS)


def _repeats(words: str, given: Any) -> bool:
    """Whether a validator's text holds a value of the input, or a longer word or a number out of one.

    Keys may be named; they are the schema's.
    """
    words = words.casefold()
    tokens = set(re.findall(r"\w+", words))
    telling = [token for token in tokens if len(token) > 3 or not token.isalpha()]
    return any(leaf in words or any(token in leaf for token in telling) for leaf in _leaves(given))


def _quotes(words: str, given: Any) -> bool:
    """Whether a text holds a value of the input that is longer than a common word or number."""
    words = words.casefold()
    return any(len(leaf) > 5 and leaf in words for leaf in _leaves(given))


def _leaves(given: Any) -> Iterator[str]:
    """The texts and numbers of a JSON value, case folded."""
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif value not in ("", None) and not isinstance(value, bool):
            yield str(value).casefold()


def locate(item: ErrorDetails, arguments: dict[str, Any]) -> tuple[_Path, list[str], Any]:
    """Where the problem is: the path that exists in the arguments, and pydantic's names for the alternative that was
    tried there (a union's member, ``[key]``), which its location mixes in."""
    path: list[str | int] = []
    labels: list[str] = []
    value: Any = arguments
    last = len(item["loc"]) - 1
    for position, part in enumerate(item["loc"]):
        if _has(value, part):
            path.append(part)
            value = value[part]
        elif position == 0 or (position == last and item["type"] in _REQUIRED):
            path.append(part)  # it names what is missing
            value = None
        else:
            labels.append(str(part))
    return tuple(path), labels, value


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _descend(value: Any, path: _Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _alternative(labels: list[str]) -> str:
    names = [label for label in labels if "function-" not in label]  # names of validators, not of types
    if "[key]" in names:
        return " (its key)"
    return f" (as {names[-1]})" if names else ""
