"""Tools in class bodies, and the audit of such a class."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from single_calls import run_alone

from streamtools import ToolContext, tool
from streamtools.errors import ToolDefinitionError
from streamtools.tools import Tool, Toolset, tools_of, validate_tool_class


class Library:
    """A class with every kind of tool."""

    class Item(BaseModel):
        title: str

    motto = "read"

    def __init__(self, name: str) -> None:
        self.name = name

    @tool(effect="pure")
    async def find(self, query: str, ctx: ToolContext, limit: int = 3) -> str:
        """Find a book.

        Args:
            query: What to look for.
        """
        return f"{self.name} {query} {limit} {ctx.tool_name}"

    @tool(effect="pure", name="library.lend")
    def lend(self, item: Item) -> str:
        """Lend a book."""
        return f"{self.name} lends {item.title}"

    @tool
    @classmethod
    def open(cls, hour: int) -> str:
        """Open."""
        return f"{cls.__name__} {hour}"

    @tool
    @staticmethod
    def close(hour: int) -> str:
        """Close."""
        return f"closed {hour}"

    def plain(self) -> str:
        return self.name


class Branch(Library):
    """Overrides one tool, hides another, adds a third."""

    @tool(effect="pure")
    def lend(self, title: str) -> str:
        """Lend a book here."""
        return f"here {title}"

    close = None  # type: ignore[assignment]

    @tool
    def extra(self) -> str:
        """Be extra."""
        return self.name


def names(tools: list[Tool]) -> list[str]:
    return [each.name for each in tools]


def test_a_method_read_off_an_instance_is_a_tool_of_that_instance() -> None:
    one, other = Library("one"), Library("other")
    made: Any = one.find
    assert isinstance(made, Tool)
    assert (made.name, made.effect, made.is_async) == ("find", "pure", True)
    assert made.description == "Find a book."
    assert made.schema["properties"] == {
        "query": {"type": "string", "description": "What to look for."},
        "limit": {"type": "integer", "default": 3},
    }
    for library in (one, other):
        lend: Any = library.lend
        assert anyio.run(run_alone, lend, {"item": {"title": "Emma"}}).unwrap() == f"{library.name} lends Emma"


def test_annotations_may_name_what_the_class_body_defines() -> None:
    lend: Any = Library("x").lend
    assert lend.validate({"item": {"title": "Emma"}}).by_name == {"item": Library.Item(title="Emma")}


def test_a_bound_tool_can_still_be_called_as_the_method() -> None:
    library: Any = Library("one")
    assert library.lend(Library.Item(title="x")) == "one lends x"
    assert library.open(9) == "Library 9"
    assert Library.__dict__["lend"](library, Library.Item(title="x")) == "one lends x"


def test_class_and_static_methods_are_tools_without_an_instance() -> None:
    kind: Any = Branch
    assert anyio.run(run_alone, kind.open, {"hour": 9}).unwrap() == "Branch 9"
    assert names(tools_of(Library)) == ["open", "close"]
    assert tools_of(Library)[1].fn(7) == "closed 7"


def test_the_tools_of_an_instance_come_in_the_order_of_their_definition() -> None:
    assert names(tools_of(Library("x"))) == ["find", "library.lend", "open", "close"]
    assert names(tools_of(Branch("x"))) == ["find", "lend", "open", "extra"]
    assert Toolset(tools_of(Library("x"))).names == {"find", "library.lend", "open", "close"}
    assert tools_of(object()) == []


def test_a_static_method_may_stand_above_the_decorator() -> None:
    class Odd:
        @staticmethod
        @tool
        def close(hour: int) -> str:
            """Close."""
            return f"closed {hour}"

        @staticmethod
        def plain() -> None:
            pass

    assert names(tools_of(Odd())) == ["close"]


def test_the_method_itself_is_no_tool() -> None:
    method: Any = Library.find
    assert "find" in repr(method)
    assert method.__doc__.startswith("Find a book.")
    for use in (tool, lambda it: Toolset([it])):
        with pytest.raises(ToolDefinitionError, match=r"instance\.method is one"):
            use(method)


def test_a_mistake_shows_when_the_class_is_defined() -> None:
    with pytest.raises(ToolDefinitionError, match="tool 'go', parameter 'where': has no type hint"):

        class Wrong:
            @tool
            def go(self, where) -> None:  # type: ignore[no-untyped-def]
                """Go."""

    with pytest.raises(ToolDefinitionError, match="write @tool above @classmethod"):

        class Upside:
            @classmethod
            @tool
            def go(cls) -> None:
                """Go."""


def test_a_function_of_a_class_body_without_self_is_a_plain_tool() -> None:
    class Space:
        @tool
        def add(a: int, b: int) -> int:  # type: ignore[misc]
            """Add."""
            return a + b

    assert isinstance(Space.add, Tool)


# -- the audit ----------------------------------------------------------------------------------------------------


class Unit(enum.Enum):
    METRE = "m"


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return inner


def computed() -> int:
    return 3


class Careless:
    """Everything that can be wrong."""

    attribute = 3

    def undecorated(self, x: int) -> int:
        """Work."""
        return x

    @staticmethod
    def unhinted(a, b: int, c=1):  # type: ignore[no-untyped-def]
        """Work."""

    @classmethod
    def silent(cls) -> None: ...

    @tool
    def defaults(self, a: int = 1, b: int = computed(), *, c: list[int] = [1, 2], d: Any = lambda: 1) -> int:
        """Work."""
        return a

    @tool
    def member(self, unit: Unit = Unit.METRE, size: int = -1) -> int:
        """Work."""
        return nowhere + size + attribute + nowhere  # type: ignore[name-defined]  # noqa: F821

    @tool(require_hints=False)
    def loose(self, x):  # type: ignore[no-untyped-def]
        """Work."""

    def _private(self, x): ...  # type: ignore[no-untyped-def]


ISSUES = [
    "Method 'undecorated' missing @tool decorator",
    "Method 'unhinted' missing @tool decorator",
    "Method 'unhinted' missing type hints: a, c",
    "Method 'unhinted' missing return annotation",
    "Method 'silent' missing @tool decorator",
    "Method 'silent' missing docstring",
    "Method 'defaults' has a default for 'b' that is not a literal",
    "Method 'defaults' has a lambda as default of 'd'",
    "Method 'member' uses the undefined name 'nowhere'",
    "Method 'member' uses the undefined name 'attribute'",
    "Method 'loose' missing type hints: x",
    "Method 'loose' missing return annotation",
]


def test_the_audit_lists_every_issue() -> None:
    assert validate_tool_class(Careless) == ISSUES
    assert [issue for issue in validate_tool_class(Library) if "plain" not in issue] == []


def test_the_audit_may_raise() -> None:
    with pytest.raises(ToolDefinitionError, match="Careless: Method 'undecorated' missing @tool decorator; ") as caught:
        validate_tool_class(Careless, raise_on_issue=True)
    assert caught.value.tool == "Careless"

    class Fine:
        @tool
        @staticmethod
        def close(hour: int) -> str:
            """Close."""
            return str(hour)

    assert validate_tool_class(Fine, raise_on_issue=True) == []


def test_names_of_every_origin_are_defined() -> None:
    closed_over = 1

    class Names:
        @tool
        def every(self, a: int, *rest: int, **more: int) -> int:
            """Define names in every way."""
            import os.path
            from json import dumps as written

            global_ = [each for each in rest]  # noqa: C416
            try:
                (first := 1)
            except ValueError as error:
                print(error)
            with open(os.path.devnull) as handle:
                handle.read()
            match more:
                case {"a": 1, **others}:
                    print(others)
                case [1, *tail]:
                    print(tail)
                case {"b": found}:
                    print(found)

            class Inner: ...

            def helper(b: int) -> int:
                return b

            print(written, global_, first, Inner, __class__)  # type: ignore[name-defined]
            return helper(a) + closed_over + computed() + len(rest)

        @tool
        @decorated
        def wrapped(self) -> int:
            """Be wrapped."""
            return lost  # type: ignore[name-defined, no-any-return]  # noqa: F821

    assert validate_tool_class(Names) == ["Method 'wrapped' uses the undefined name 'lost'"]


def test_a_class_without_source_is_audited_without_it() -> None:
    namespace: dict[str, Any] = {"tool": tool}
    exec(
        "class Made:\n    @tool\n    def go(self, x: int = abs(-1)) -> int:\n        'Go.'\n        return lost",
        namespace,
    )
    assert validate_tool_class(namespace["Made"]) == []


def test_a_description_of_what_is_no_parameter_is_refused_where_the_tool_is_defined() -> None:
    def method(described: str) -> type:
        class Shop:
            def count(self, item: str, ctx: ToolContext) -> int:
                return len(item)

            count.__doc__ = f"How many are there?\n\nArgs:\n    {described}: What to count.\n    ctx: The call."
            count = tool(effect="pure")(count)  # type: ignore[assignment]

        return Shop

    def counted(**kinds: str) -> int:
        """Count.

        Args:
            fruit: What to count, among the `kinds`.
        """
        return len(kinds)

    for described, says in {"itme": "write 'item'", "city": "its parameters are item, ctx"}.items():
        line = f"tool 'count': the docstring describes {described!r}, which is no parameter; {says}"
        with pytest.raises(ToolDefinitionError) as refused:
            method(described)
        assert str(refused.value) == line
    assert tools_of(method("item")())[0].check() == tool(counted).check() == []


def test_a_tool_that_is_read_off_the_class_says_that_it_wants_an_instance() -> None:
    class Shop:
        @tool(effect="pure")
        def count(self, item: str) -> int:
            """How many are there?"""
            return len(item)

    says = r"has no attribute 'to'; it becomes a tool on an instance: .*Shop\(...\).count"
    with pytest.raises(AttributeError, match=says):
        _ = Shop.count.to
    with pytest.raises(AttributeError, match=r"has no attribute 'colour'\Z"):
        _ = Shop.count.colour  # type: ignore[attr-defined]
