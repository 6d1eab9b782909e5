"""Docstrings of four styles, and what their descriptions become."""

from __future__ import annotations

from profiles import every

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


@every(
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
)
def test_each_style_describes_its_parameters(text: str, parameters: dict[str, str]) -> None:
    assert parse_docstring(text).parameters == parameters


@every(
    ("text", "description"),
    [
        (GOOGLE, "Read a file.\n\nLonger text here.\n\nNote:\n    Stays in the prose."),
        (NUMPY, "Read a file.\n\nNotes\n-----\nStays in the prose."),
        (SPHINX, "Read a file.\n\nStays in the prose, as does\n:func:`open`."),
        (EPYTEXT, "Read a file."),
    ],
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


INSIDE = [
    # Google: at the items' indentation, with and without a text of its own, and first of all
    ("Args:\n    x: the x\n\n    Note:\n        It is slow.\n", "Note:\n    It is slow.", {"x": "the x"}),
    ("Args:\n    x: the x\n    Note: it is slow\n", "Note: it is slow", {"x": "the x"}),
    ("Args:\n    Example:\n        f(1)\n", "Example:\n    f(1)", {}),
    ("Args:\n    x: the x\n    See Also:\n        g: faster\n", "See Also:\n    g: faster", {"x": "the x"}),
    (
        "Args:\n    x: the x\n    Tip: do\n    y: prose\n    Returns:\n        a sum\n",
        "Tip: do\ny: prose",
        {"x": "the x"},
    ),
    ("Args:\n    x: the x\n    Returns:\n        int: a sum\n    Raises: an error\n", "", {"x": "the x"}),
    ("Args:\n    x: the x\n    Keyword Args:\n        y: the y\n", "", {"x": "the x", "y": "the y"}),
    # of the item, of the margin, a parameter in lower case, the name of a parameter, no section's name
    ("Args:\n    x: the x\n        Note: odd\n", "", {"x": "the x\nNote: odd"}),
    ("Args:\n    x: the x\n\nNotes:\n    It is slow.\n", "Notes:\n    It is slow.", {"x": "the x"}),
    ("Args:\n    note: a text\n    example: another\n", "", {"note": "a text", "example": "another"}),
    ("Args:\n    x: the x\n    Yield: of the bond\n", "", {"x": "the x", "Yield": "of the bond"}),
    ("Args:\n    Nota: it is slow\n", "", {"Nota": "it is slow"}),
    # NumPy
    ("Parameters\n----------\nx : int\n    the x\nNote:\n    It is slow.\n", "Note:\n    It is slow.", {"x": "the x"}),
    ("Parameters\n----------\nx\n    the x\nWarnings: slow\n", "Warnings: slow", {"x": "the x"}),
    ("Parameters\n----------\nx\n    the x\n    Note: odd\n", "", {"x": "the x\nNote: odd"}),
    ("Parameters\n----------\nYield : int\n    of the bond\n", "", {"Yield": "of the bond"}),
    # Sphinx, epytext
    (":param x: the x\nNote: it is slow\n", "Note: it is slow", {"x": "the x"}),
    ("@param x: the x\nExamples:\n    f(1)\n", "Examples:\n    f(1)", {"x": "the x"}),
    (":param x: the x\n    Note: odd\n", "", {"x": "the x\nNote: odd"}),
]


def test_a_section_in_place_of_a_parameter_ends_the_parameters() -> None:
    read = {text: parse_docstring(f"Sum.\n\n{text}", ["x", "Yield"]) for text, _, _ in INSIDE}
    assert {text: (each.description.removeprefix("Sum.").strip(), each.parameters) for text, each in read.items()} == {
        text: (prose, parameters) for text, prose, parameters in INSIDE
    }
