"""The test cases of each wire: a module per wire, named by the wire's short name, with its record as ``CASES``.

A new wire adds one module here and fills in a `WireCases`; `record` explains each field, `parts` has pieces that
several wires share. The tests over all wires find it by themselves. The modules here import nothing of the tests but
each other and the composers of streams (``cohere_streams``), so that every other module may import them.
"""

from __future__ import annotations

from importlib import import_module

from streamtools.wires import WIRES, find

from .record import Call, Format, Message, Native, Payload, Response, Spoken, Vary, WireCases

__all__ = ["CASES", "Call", "Format", "Message", "Native", "Payload", "Response", "Spoken", "Vary", "WireCases"]


def _cases_of(wire: str) -> WireCases:
    module = f"{__name__}.{find(wire).short_name}"
    try:
        cases = import_module(module).CASES
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise AssertionError(f"{wire} has no test cases: write tests/{module.replace('.', '/')}.py") from None
    assert isinstance(cases, WireCases)
    return cases


CASES: dict[str, WireCases] = {wire: _cases_of(wire) for wire in WIRES}
"""The cases of each of the library's wires."""
