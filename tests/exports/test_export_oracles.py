"""Twenty tools for every target, judged by the providers' own packages; and what a model says arrives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import mcp.types
import pytest
from constrained_model import accepts, as_json_schema, say
from export_targets import EVERY, IN_OPENAPI, NO_RECURSION, schema_in
from profiles import mostly_thorough
from strict_subset import problems
from tools_battery import BATTERY, RESERVED
from wire_cases import CASES

from streamtools.errors import ExportError
from streamtools.exports import export, targets
from streamtools.tools import Tool, tool
from streamtools.wires import WIRES, find


def by_mcp(payload: dict[str, Any]) -> None:
    assert mcp.types.Tool.model_validate(payload).name == payload["name"]


ORACLES = {tools.name: CASES[wire].takes_tool for wire in WIRES for tools in find(wire).tools} | {"mcp": by_mcp}


def strictly(made: Tool, target: str) -> bool:
    """Whether the tool has a strict form there, as it should."""
    recursive = made.name == "tidy" and target in NO_RECURSION
    bare = made.name == "ping" and target == "cohere.chat.strict"
    return not recursive and not bare


@pytest.mark.parametrize("target", EVERY)
@pytest.mark.parametrize(
    ("made", "arguments"), mostly_thorough(BATTERY, 8), ids=lambda given: getattr(given, "name", "")
)
def test_every_tool_is_carried_and_what_a_model_says_arrives(
    made: Tool, arguments: tuple[dict[str, Any], ...], target: str
) -> None:
    if not strictly(made, target):
        with pytest.raises(ExportError, match="without strict"):
            export(made, target)
        return
    exported = export(made, target)
    json.dumps(exported.payload, allow_nan=False)
    ORACLES[target.removesuffix(".strict")](exported.payload)
    if "parameters" not in exported.payload and target in IN_OPENAPI:
        assert made.name == "ping"  # a function without parameters says nothing of them
        return
    schema = schema_in(exported.payload, target)
    jsonschema_rs.meta.validate(as_json_schema(schema))
    for plain in arguments:
        written = say(schema, plain)
        assert accepts(schema, written)
        assert made.validate(exported.decode(written)).by_name == made.validate(plain).by_name


@pytest.mark.parametrize("made", [made for made, _ in BATTERY], ids=lambda made: made.name)
def test_strict_schemas_of_openai_keep_to_the_documented_subset(made: Tool) -> None:
    for target in ("openai.chat_completions", "openai.responses", "mistral.chat"):
        exported = export(made, target, strict=True)
        assert problems(schema_in(exported.payload, target)) == []


@pytest.mark.parametrize("made", [made for made, _ in BATTERY], ids=lambda made: made.name)
def test_where_the_schema_is_kept_the_payload_alone_will_do(made: Tool) -> None:
    for target in targets():
        if target not in IN_OPENAPI:
            assert not export(made, target).rewritten
            assert made.to(target) == export(made, target).payload


@pytest.mark.parametrize("target", EVERY)
def test_properties_may_be_called_like_keywords(target: str) -> None:
    texts = {name: {"type": "string"} for name in RESERVED}
    inner = {"type": "object", "properties": texts, "required": list(RESERVED)}
    numbers = {name: {"type": "integer"} for name in RESERVED}
    schema = {"type": "object", "properties": {**numbers, "inner": inner}, "required": ["type", "$ref"]}
    made = Tool.from_schema(lambda **arguments: None, schema, name="keywords", description="Have odd names.")
    exported = export(made, target)
    ORACLES[target.removesuffix(".strict")](exported.payload)
    said = schema_in(exported.payload, target)
    assert len(said["properties"]) == len(RESERVED) + 1
    odd = [name for name in RESERVED if name not in said["properties"]]
    assert odd == (["$ref", "$defs"] if target.startswith(("anthropic", "gemini", "bedrock.converse_stream.s")) else [])
    plain = {"type": 1, "$ref": 2, "default": 3, "inner": dict.fromkeys(RESERVED, "x")}
    written = say(said, renamed(plain, said))
    assert exported.decode(written) == plain
    assert made.validate(exported.decode(written)).by_name == plain


def renamed(plain: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """The plain arguments under the names that the target got, which are in the same order."""
    names = dict(zip([*RESERVED, "inner"], said["properties"], strict=True))
    inside = said["properties"]["inner"]
    inside = inside["anyOf"][0] if "anyOf" in inside else inside  # with null, since it may be left out
    inner = dict(zip(RESERVED, inside["properties"], strict=True))
    made = {names[name]: value for name, value in plain.items()}
    return {**made, "inner": {inner[name]: value for name, value in plain["inner"].items()}}


def test_payloads_are_the_same_in_every_process() -> None:
    code = (
        "import hashlib, json; from tools_battery import BATTERY; from streamtools.exports import export, targets;"
        "print(hashlib.sha256(json.dumps([[export(t, target).payload, export(t, 'openai.responses.strict').payload]"
        " for t, _ in BATTERY for target in targets()]).encode()).hexdigest())"
    )
    tests = Path(__file__).parent.parent
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(answers) == 1


def test_a_second_export_is_the_first_again() -> None:
    @tool
    def note(text: str) -> None:
        """Note."""

    first = export(note, "openai.chat_completions")
    first.payload["function"]["parameters"].clear()
    assert export(note, "openai.chat_completions").payload["function"]["parameters"] == note.schema
