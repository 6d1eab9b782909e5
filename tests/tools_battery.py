"""Twenty tools as people write them, each with arguments that it takes: what exports are tried on."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from streamtools.tools import Tool, ToolContext, tool

__all__ = ["BATTERY", "RESERVED"]


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Priority(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Place(BaseModel):
    """Where something is."""

    city: str = Field(description="Its name.")
    code: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] = "DE"


class Traveller(BaseModel):
    name: str = Field(min_length=1, max_length=40)
    age: int = Field(ge=0, lt=150)
    home: Place | None = None


class Folder(BaseModel):
    name: str
    folders: list[Folder] = []


class Filter(TypedDict):
    field: str
    value: NotRequired[str | None]


@dataclass
class Window:
    width: float
    height: float = 1.0
    labels: list[str] = field(default_factory=list)


class Circle(BaseModel):
    shape: Literal["circle"]
    radius: float = 1.0


class Square(BaseModel):
    shape: Literal["square"]
    side: float | None = 2.0


Shape = Annotated[Circle | Square, Field(discriminator="shape")]


@tool
def add(a: int, b: int = 2, scale: float = 1.5, exact: bool = True, unit: str = "m") -> float:
    """Add.

    Args:
        a: The first.
    """
    return a + b


@tool
def search(query: str, after: int | None, limit: int | None = None, lang: str | None = "en") -> list[str]:
    """Search."""
    return []


@tool
def set_mode(mode: Literal["fast", "slow"], level: Literal[1, 2] = 1, mixed: Literal["a", 1, None] = None) -> None:
    """Set the mode."""


@tool
def convert(unit: Unit, priority: Priority = Priority.LOW) -> str:
    """Convert."""
    return unit.value


@tool
def book(travellers: list[Traveller], tags: set[str] = frozenset(), pair: tuple[int, str] = (1, "a")) -> int:
    """Book."""
    return len(travellers)


@tool
def meet(first: Traveller, second: Traveller | None = None) -> Place | None:
    """Meet."""
    return first.home


@tool
def tidy(root: Folder, keep: list[Folder] | None = None) -> Folder:
    """Tidy up."""
    return root


@tool
def count(votes: dict[str, int], places: dict[str, list[Place]] = {}, rest: dict[str, Any] = {}) -> dict[str, int]:
    """Count."""
    return votes


@tool
def remind(
    when: dt.datetime,
    day: dt.date = dt.date(2020, 1, 1),
    every: dt.timedelta = dt.timedelta(hours=1),
    who: uuid.UUID | None = None,
    price: decimal.Decimal = decimal.Decimal("1.0"),
    raw: bytes = b"",
) -> str:
    """Remind."""
    return when.isoformat()


@tool
def measure(
    times: Annotated[int, Field(ge=1, le=10, description="How often.")],
    step: Annotated[float, Field(gt=0, multiple_of=0.5)] = 0.5,
    note: Annotated[str, "A plain note."] = "",
    names: Annotated[list[str], Field(min_length=2, max_length=4)] = ["a", "b"],
) -> int:
    """Measure."""
    return times


@tool
def frame(window: Window, filters: list[Filter]) -> Window:
    """Frame."""
    return window


@tool
def collect(first: int, *others: str, sure: bool = False, **weights: float) -> int:
    """Collect."""
    return first


@tool
def ask(question: str, ctx: ToolContext) -> str:
    """Ask."""
    return question


@tool
def draw(shape: Shape, value: int | str | list[int] | dict[str, int] = 0) -> str:
    """Draw."""
    return shape.shape


@tool
def read(path: str, lines: int = 10) -> str:
    """Read a file.

    Parameters
    ----------
    path : str
        Path of the file.
    """
    return path


@tool
def ping() -> None:
    """Say that you are there."""


@tool
def pick(a: int, /, b: int, *, c: int = 3) -> int:
    """Pick."""
    return a


def anything(a, b=3):
    """Take anything."""
    return a


@tool
def shapes(named: dict[str, Shape], either: tuple[int, dict[str, int]] | dict[str, str] = {}) -> int:
    """Take shapes by name."""
    return len(named)


@tool
def reserved(schema: str, model_config: int, json: bool, copy: str = "x", _private: int = 1) -> str:
    """Have names that mean something to pydantic."""
    return schema


HOME = {"city": "Bonn", "code": "DE"}
ANNA = {"name": "Anna", "age": 3, "home": HOME}
BATTERY: tuple[tuple[Tool, tuple[dict[str, Any], ...]], ...] = (
    (add, ({"a": 1}, {"a": 1, "b": 3, "scale": 2.5, "exact": False, "unit": "km"})),
    (search, ({"query": "x", "after": None}, {"query": "x", "after": 1, "limit": 2, "lang": None})),
    (set_mode, ({"mode": "fast"}, {"mode": "slow", "level": 2, "mixed": 1}, {"mode": "slow", "mixed": "a"})),
    (convert, ({"unit": "kelvin"}, {"unit": "celsius", "priority": 2})),
    (book, ({"travellers": []}, {"travellers": [ANNA, {"name": "B", "age": 4}], "tags": ["t"], "pair": [2, "b"]})),
    (meet, ({"first": ANNA}, {"first": {"name": "B", "age": 1}, "second": ANNA})),
    (tidy, ({"root": {"name": "a"}}, {"root": {"name": "a", "folders": [{"name": "b", "folders": []}]}, "keep": []})),
    (count, ({"votes": {}}, {"votes": {"a": 1}, "places": {"x": [HOME]}, "rest": {"k": [1, None, {"z": "s"}]}})),
    (remind, ({"when": "2026-01-02T03:04:05Z"}, {"when": "2026-01-02T03:04:05Z", "price": "2.5", "raw": "abc"})),
    (measure, ({"times": 1}, {"times": 10, "step": 1.5, "note": "n", "names": ["x", "y", "z"]})),
    (frame, ({"window": {"width": 1.0}, "filters": [{"field": "f"}, {"field": "g", "value": None}]},)),
    (collect, ({"first": 1}, {"first": 1, "others": ["a"], "sure": True, "weights": {"w": 0.5}})),
    (ask, ({"question": "why"},)),
    (draw, ({"shape": {"shape": "circle"}}, {"shape": {"shape": "square", "side": None}, "value": {"a": 1}})),
    (read, ({"path": "p"}, {"path": "p", "lines": 3})),
    (ping, ({},)),
    (pick, ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 4})),
    (tool(anything, require_hints=False), ({"a": None}, {"a": {"k": [1, "x"]}, "b": "text"})),
    (shapes, ({"named": {"c": {"shape": "circle"}}}, {"named": {}, "either": [1, {"a": 2}]})),
    (reserved, ({"schema": "s", "model_config": 1, "json": True},)),
)
"""Tools, and plain arguments that each takes."""

RESERVED = (
    "title", "type", "properties", "default", "$ref", "items", "required", "enum", "const", "description", "anyOf",
    "additionalProperties", "$defs", "not", "format", "key", "value",
)  # fmt: skip
"""Names of properties that are keywords of JSON Schema, too."""
