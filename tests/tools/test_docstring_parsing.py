"""Docstrings of four styles, and what their descriptions become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamtools.tools.callables import parse_docstring

GOOGLE = """Read a file.

    Longer text here.

    Args:
        path (str): Path of the file
            on two lines.
        lines (dict[str, (int)], optional): How many:
            - all
            - some
        *rest: More.
        args: a parameter that is called like a section
        broken off: is no item

    Keyword Args:
        **options: Even more.

    Returns:
        The text.

    Raises:
        OSError: it cannot be read.

    Note:
        Stays in the prose.
    """

NUMPY = """Read a file.

    Parameters
    ----------
    path : str
        Path of the file.
    first, last : int, optional
        Which lines.
    mode :
        How.
    *rest
        More.

    Returns
    -------
    str
        The text.

    Notes
    -----
    Stays in the prose.
    """

SPHINX = """Read a file.

    :param path: Path of the file,
        absolute:
        or not.
    :param int lines: How many
    lines.
    :type path: str
    :key mode: How.
    :param: nothing
    :returns: The text.
    :rtype: str

    Stays in the prose, as does
    :func:`open`.
    """

EPYTEXT = """Read a file.

    @param path: Path of the file.
    @type path: str
    @return: The text.
    """


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (
            GOOGLE,
            {
                "path": "Path of the file\non two lines.",
                "lines": "How many:\n- all\n- some",
                "rest": "More.",
                "args": "a parameter that is called like a section\nbroken off: is no item",
                "options": "Even more.",
            },
        ),
        (
            NUMPY,
            {
                "path": "Path of the file.",
                "first": "Which lines.",
                "last": "Which lines.",
                "mode": "How.",
                "rest": "More.",
            },
        ),
        (
            SPHINX,
            {"path": "Path of the file,\nabsolute:\nor not.", "lines": "How many\nlines.", "mode": "How."},
        ),
        (EPYTEXT, {"path": "Path of the file."}),
    ],
    ids=["google", "numpy", "sphinx", "epytext"],
)
def test_each_style_describes_its_parameters(text: str, parameters: dict[str, str]) -> None:
    assert parse_docstring(text).parameters == parameters


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (GOOGLE, "Read a file.\n\nLonger text here.\n\nNote:\n    Stays in the prose."),
        (NUMPY, "Read a file.\n\nNotes\n-----\nStays in the prose."),
        (SPHINX, "Read a file.\n\nStays in the prose, as does\n:func:`open`."),
        (EPYTEXT, "Read a file."),
    ],
    ids=["google", "numpy", "sphinx", "epytext"],
)
def test_the_prose_is_the_description_and_results_and_errors_are_left_out(text: str, description: str) -> None:
    assert parse_docstring(text).description == description


def test_a_section_ends_where_the_indentation_does() -> None:
    read = parse_docstring("Sum.\n\nArgs:\n    x: the x\nMore prose.\n")
    assert read.description == "Sum.\n\nMore prose."
    assert read.parameters == {"x": "the x"}


def test_a_numpy_section_ends_at_text_that_is_no_item() -> None:
    read = parse_docstring("Sum.\n\nParameters\n----------\nx : int\n    the x\n\nMore prose, here.\n")
    assert read.description == "Sum.\n\nMore prose, here."
    assert read.parameters == {"x": "the x"}


def test_a_word_and_a_colon_in_the_prose_open_nothing() -> None:
    text = "Sum.\n\nNote: see Args: below.\nAs follows:\n    1. this"
    assert parse_docstring(text).description == text
    assert parse_docstring(text).parameters == {}


def test_a_parameter_without_text_has_no_description() -> None:
    assert parse_docstring("Sum.\n\nArgs:\n    x:\n    y: the y\n").parameters == {"y": "the y"}


LINES = """
Args:
    x: the x
        deeper

Parameters
----------
x : int
:param x: text
@param y: z
Returns:
prose
Note:
    :param z: in a block
-----
  x (int: odd
    *args: all
""".splitlines()


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=20), max_size=12).map("\n".join))
def test_any_text_is_read_and_no_description_is_empty(text: str) -> None:
    read = parse_docstring(text)
    assert all(description.strip() for description in read.parameters.values())
    assert all(name.isidentifier() or not name.isascii() or name[0].isdigit() for name in read.parameters)
