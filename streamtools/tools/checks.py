"""Runs your validator or check on a call's arguments, and words all problems of arguments for the model.

    people[0].age: should be greater than or equal to 0
    pet.lives (as cat): should be a valid integer
    priority: string to integer

Problems and coercions are lines that a model can act on and that never repeat a value.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, get_args

from pydantic_core import ErrorDetails, ValidationError, from_json
from pydantic_core.core_schema import ErrorType

from ..errors import InvalidArguments, ToolError, contained
from ..ground.own import own
from ..ground.text import MAX_PATH_CHARS, cut, dotted, type_name
from ..limits import Limits
from .binder import ArgumentsValidator, TakesLong
from .callables import refuse

if TYPE_CHECKING:
    from ..schema.validation import SchemaProblem, Validator

T = TypeVar("T")

Check: TypeAlias = Callable[[dict[str, Any]], object]
"""Your own check: raises a ``ValueError`` or `ToolError`, or returns False, to refuse the arguments."""


def check_checks(tool: str, validator: object, check: object) -> None:
    if check is not None and (not callable(check) or inspect.iscoroutinefunction(check)):
        raise refuse(tool, "check: expected a plain function, since it runs before the call is accepted")
    if validator is not None and not isinstance(validator, ArgumentsValidator):
        why = "an object with a name, and a method validate(arguments) that returns a list of problems"
        raise refuse(tool, f"validator: expected {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    tool: str
    validator: ArgumentsValidator | None = None
    check: Check | None = None

    def judge(self, values: dict[str, Any], given: dict[str, Any]) -> None:
        """Asks the validator, which sees `values`; `given` are the arguments as plain JSON, which a refusal must not
        quote. Raises `InvalidArguments` if it has found a problem, raised, or returned something else than a list of
        lines."""
        if self.validator is not None and (lines := self._asked(_lines, self.validator.validate, values, given)):
            raise self._refusal(lines)

    def run(self, values: dict[str, Any], given: dict[str, Any]) -> None:
        if self.check is not None and self._asked(_verdict, self.check, values, given) is False:
            raise self._refusal([f"the arguments: {WITHHELD}"])

    def _asked(
        self,
        read: Callable[[Any], T],
        ask: Callable[[dict[str, Any]], Any],
        values: dict[str, Any],
        given: dict[str, Any],
    ) -> T:
        # A refusal that quotes the arguments is not passed on: the model reads the text, and logs have it.
        try:
            return read(ask(own(values)))
        except InvalidArguments as error:
            raise self._refusal(error.problems or [f"the arguments: {_text(error)}"]) from error
        except ToolError as error:  # its text is for the model
            raise self._refusal([f"the arguments: {_text(error)}"]) from error
        except ValueError as error:  # perhaps pydantic's, whose text quotes the value
            raise self._refusal([f"the arguments: {rule_of_a_check(_text(error), given)}"]) from None
        except BaseException as error:
            problem = f"the arguments: the tool's own check raised {type_name(error)}"
            raise self._refusal([problem]) from contained(error)

    def _refusal(self, lines: list[str] | tuple[str, ...]) -> InvalidArguments:
        return refusal(self.tool, listed(lines))


def _verdict(answer: object) -> object:
    if inspect.isawaitable(answer):  # it has checked nothing yet, so it lets nothing pass
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError("expected a plain function as check, got an async one")
    return answer


def _lines(answer: object) -> list[str]:
    answer = _verdict(answer)
    # None or True is no consent: it may be the answer of a validator that raises, or of one for another library.
    if not isinstance(answer, (list, tuple)) or not all(isinstance(line, str) for line in answer):
        raise TypeError(f"expected a list of lines from the validator, got a {type(answer).__name__}")
    return list(answer)


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # code of the user's
        return WITHHELD


# -- problems and coercions in lines for the model --

# The rules are pydantic's own words, except where those quote the input. The text of a `ValueError` of a user's
# validator is kept unless it repeats something of the input.

MAX_PROBLEMS = 16  # lines; a list of a thousand bad items says nothing more than its first ones
MAX_RULE_CHARS = 300  # one rule: a Literal or pattern may be long

_REQUIRED = frozenset({"missing", "missing_keyword_only_argument"})

_REWRITTEN = {
    "extra_forbidden": "is not allowed here",
    "union_tag_invalid": "{discriminator} should be one of {expected_tags}",
    "union_tag_not_found": "is missing {discriminator}, which names its kind",
    "uuid_parsing": "should be a valid UUID",
    "timezone_offset": "should have a timezone offset of {tz_expected} seconds",
    "bytes_invalid_encoding": "should be valid {encoding}",
    "needs_python_object": "has a type that no JSON value fits",
}  # rules whose own text quotes the input or speaks of Python. Filled from the error's context.

_OWN_WORDS = frozenset({"value_error", "assertion_error", "mapping_type", "iteration_error", "get_attribute_error"})
_BUILT_IN = frozenset(get_args(ErrorType)) - _OWN_WORDS
WITHHELD = "was refused by the tool's own check"

_ARRAYS = ("list_type", "tuple_type", "set_type", "frozen_set_type", "deque_type", "iterable_type")
_OBJECTS = ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type")
_CONTAINERS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_ARRAYS, (list,)),
    **dict.fromkeys(_OBJECTS, (dict,)),
    "named_tuple_type": (list, dict),
}
"""Errors that mean "an array (an object) belongs here", with the types that a string there may decode to."""

Path: TypeAlias = tuple[str | int, ...]


def refusal(tool: str, lines: Sequence[str]) -> InvalidArguments:
    return InvalidArguments(f"invalid arguments for {tool}: " + "; ".join(lines), problems=lines)


def listed(lines: Sequence[str]) -> list[str]:
    """Returns the first 16 lines, each once and of bounded length, and a line with the number of the others."""
    return _counted(lines[:MAX_PROBLEMS], len(lines))


def _counted(first: Iterable[str], count: int) -> list[str]:
    kept = dict.fromkeys(cut(line, MAX_RULE_CHARS + MAX_PATH_CHARS) for line in first)
    rest = count - MAX_PROBLEMS
    return [*kept, f"and {rest} more"] if rest > 0 else list(kept)


def unknown(keys: Iterable[str], names: Iterable[str]) -> list[str]:
    rule = f"is not an argument of this tool, which takes {', '.join(names) or 'none'}"
    return [f"{dotted((key,))}: {rule}" for key in keys]


def rule_of_a_check(rule: str, given: Any) -> str:
    """Returns the words of a user's check, unless they repeat something of its input."""
    words = rule[:MAX_RULE_CHARS]
    return WITHHELD if not words or _repeats(words, given) else words


def describe(error: ValidationError, arguments: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Returns one line per problem that validating `arguments` found, in the order of the schema; linear in the
    arguments. `names` are those of the tool's arguments, for the line about one that it does not have."""
    details = error.errors(include_url=False)
    return _counted([_line(item, arguments, names) for item in details[:MAX_PROBLEMS]], len(details))


def decode_strings(error: ValidationError, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Decodes strings with the JSON text of an array or object where `error` says that one belongs: in place; strings
    inside a decoded value stay strings. Returns a line for each (``people: json_string``), at most 16 and one that
    counts the rest."""
    done: list[Path] = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        path, _, value = locate(item, arguments)
        wanted = _CONTAINERS.get(item["type"], ())
        if path and wanted and isinstance(value, str) and decode_at(arguments, path, wanted) is not None:
            done.append(path)
    return tuple(_counted([f"{dotted(path)}: json_string" for path in done[:MAX_PROBLEMS]], len(done)))


def decode_at(arguments: dict[str, Any], path: Path, wanted: tuple[type, ...] = (list, dict)) -> str | None:
    text: str = descend(arguments, path)
    try:
        decoded = from_json(text, allow_inf_nan=False)
    except ValueError:
        return None  # not JSON: the problem stays what it is
    if not isinstance(decoded, wanted):
        return None
    descend(arguments, path[:-1])[path[-1]] = decoded
    return text


def _line(item: ErrorDetails, arguments: dict[str, Any], names: Iterable[str]) -> str:
    path, labels, _ = locate(item, arguments)
    where = dotted(path) or "the arguments"
    if item["type"] == "extra_forbidden" and len(path) == 1:
        return unknown((str(path[0]),), names)[0]
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
        # Nothing of the check's own input, nor any longer part of the other arguments, which it may have seen as well.
        return WITHHELD if _quotes(words, arguments) else rule_of_a_check(words, item["input"])
    words = words.removeprefix("Input ")
    if words[1:2].islower():  # "String should ...", but not "URL should ..."
        words = words[0].lower() + words[1:]
    return cut(words, MAX_RULE_CHARS)


def _repeats(words: str, given: Any) -> bool:
    """Returns whether a validator's text repeats a value of the input, or a longer word or a number out of one."""
    # Keys may be named: they are the schema's.
    words = words.casefold()
    tokens = set(re.findall(r"\w+", words))
    distinctive = [token for token in tokens if len(token) > 3 or not token.isalpha()]
    return any(leaf in words or any(token in leaf for token in distinctive) for leaf in _leaves(given))


def _quotes(words: str, given: Any) -> bool:
    # Short values are words that a rule may well have itself: "red", "5".
    words = words.casefold()
    return any(len(leaf) > 5 and leaf in words for leaf in _leaves(given))


def _leaves(given: Any) -> Iterator[str]:
    waiting = [given]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif value not in ("", None) and not isinstance(value, bool):
            yield str(value).casefold()


def locate(item: ErrorDetails, arguments: dict[str, Any]) -> tuple[Path, list[str], Any]:
    """Returns the path of a problem in the arguments, pydantic's names for the alternative there, and the value."""
    # pydantic mixes these names into its location: a union's member, `[key]`, a validator. A part that leads nowhere in
    # the arguments is one, unless it names what is missing.
    path: list[str | int] = []
    labels: list[str] = []
    value: Any = arguments
    last = len(item["loc"]) - 1
    for position, part in enumerate(item["loc"]):
        if _has(value, part):
            path.append(part)
            value = value[part]
        elif position == 0 or (position == last and item["type"] in _REQUIRED):
            path.append(part)
            value = None
        else:
            labels.append(str(part))
    return tuple(path), labels, value


def _has(value: Any, part: str | int) -> bool:
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def descend(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _alternative(labels: list[str]) -> str:
    names = [label for label in labels if "function-" not in label]  # names of validators, not of types
    if "[key]" in names:
        return " (its key)"
    return f" (as {names[-1]})" if names else ""


BY_LAX_RULES = "the arguments: by lax rules"

_TYPE_NAMES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    dt.datetime: "datetime",
    dt.date: "date",
    dt.time: "time",
    dt.timedelta: "duration",
}
_WANTED: Mapping[str, str] = {
    "bool_type": "boolean",
    "int_type": "integer",
    "float_type": "number",
    "string_type": "string",
    **dict.fromkeys(("datetime_type", "datetime_parsing"), "datetime"),
    **dict.fromkeys(("date_type", "date_parsing"), "date"),
    **dict.fromkeys(("time_type", "time_parsing"), "time"),
    **dict.fromkeys(("time_delta_type", "time_delta_parsing"), "duration"),
    "decimal_type": "decimal",
    "enum": "enum",
}  # strict errors that lax rules may get over in JSON, with the wanted type

_ABSENT = object()


def coercions_of(strict: ValidationError, arguments: dict[str, Any], value: Any) -> tuple[str, ...]:
    """Returns a line for each coercion that lax validation made, at most 16 and one that counts the rest."""
    # The places are those of strict validation's errors; the new type is that of the value that lax rules made there.
    wanted: dict[Path, dict[str, None]] = {}  # kinds, each once and in order
    given: dict[Path, str] = {}
    for item in strict.errors(include_url=False, include_context=False, include_input=False):
        kind = _WANTED.get(item["type"])
        path, _, found = locate(item, arguments)
        if kind is None or isinstance(found, (list, dict)):
            continue  # an error of a union's other member: lax rules never make a scalar of an array or object
        given[path] = "null" if found is None else _TYPE_NAMES[type(found)]
        wanted.setdefault(path, {})[kind] = None
    lines = [
        f"{dotted(path) or 'the arguments'}: {given[path]} to {into}"
        for path, kinds in wanted.items()
        if (into := _TYPE_NAMES.get(type(_follow(value, path)), " or ".join(kinds))) != given[path]
    ]
    return tuple(listed(lines)) or (BY_LAX_RULES,)


def _follow(value: Any, path: Path) -> Any:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
        value = value[1]  # (args, kwargs) of a signature
    for part in path:
        inner = value if isinstance(value, (dict, list, tuple)) else getattr(value, "__dict__", None)
        try:
            value = inner[part]  # type: ignore[index]  # None has no items: a TypeError like any other misfit
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return value


# -- judging by a JSON Schema --

_HOLDS_TYPES = frozenset({"type", "anyOf", "oneOf"})
"""Keywords whose failure may mean that an array or object belongs where a string stands."""


class Enforced:
    """Judges a call's arguments, or its result, by a JSON Schema as it is now; `whole` stands for the value."""

    __slots__ = ("_compiled", "_too_much", "_whole", "name", "unenforced")

    def __init__(self, schema: Mapping[str, Any], limits: Limits, *, whole: str = "the arguments") -> None:
        from ..schema.validation import TooMuch, compile  # only who brings a schema pays for the engine

        self._whole, self._too_much = whole, TooMuch
        self._compiled: Validator = compile(schema, limits=limits)
        self.name = self._compiled.name  # `jsonschema-rs`
        self.unenforced = self._compiled.unenforced
        """Places of patterns that no linear-time engine can run, with the reason."""

    def judge(
        self, values: Any, *, decode: bool, chars: int | None = None, quick: bool = False
    ) -> tuple[list[str], tuple[str, ...]]:
        """Returns a line for each problem, and one for each text that was decoded. `decode` decodes in place a string
        with the JSON text of an array or object, if the schema refuses the string and accepts that value; `quick`
        raises `TakesLong` for what takes more than about 10 ms.
        """
        found = self._validated(values, chars, quick)
        texts: dict[Path, str] = {}
        # Only after a refusal: a string that the schema accepts is meant as a string, whatever it looks like.
        if found and decode:
            texts = {path: text for path in _strings(found, values) if (text := decode_at(values, path)) is not None}
        if texts:
            found = self._validated(values, None, quick)
            # A string whose value does not fit either goes back: the problem is that of the model's own text. All of
            # them together, since each question may cost all the work that a validation may take.
            wrong = {problem.path for problem in found if problem.path in texts and problem.keyword in _HOLDS_TYPES}
            for path in wrong:
                descend(values, path[:-1])[path[-1]] = texts.pop(path)
            if wrong:
                found = self._validated(values, None, quick)
        lines = [f"{dotted(problem.path) or self._whole}: {problem.message}" for problem in found]
        return lines, tuple(f"{dotted(path)}: json_string" for path in texts)

    def _validated(self, values: Any, chars: int | None, quick: bool) -> list[SchemaProblem]:
        try:
            return self._compiled.validate(values, chars=chars, quick=quick)
        except self._too_much:
            raise TakesLong from None


def _strings(found: Iterable[SchemaProblem], values: dict[str, Any]) -> list[Path]:
    paths = dict.fromkeys(problem.path for problem in found if problem.path and problem.keyword in _HOLDS_TYPES)
    return [path for path in paths if isinstance(descend(values, path), str)][:MAX_PROBLEMS]
