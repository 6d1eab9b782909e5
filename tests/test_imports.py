"""What a program loads: only what its stream needs, however many wires and formats the package has."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator

from profiles import FULL
from test_architecture import MODULES, Module
from wire_cases import CASES, Response

from streamtools.wires.marks import MARKS

QUICK = ("openai.chat_completions", "anthropic.messages")
MOST_MODULES = 110
MOST_LINES = 26_000
BUILT_ON = {  # packages of wires whose decoders, or whose facts, others take over
    "cohere": {"openai_chat"},
    "gemini_interactions": {"gemini"},
    "gemini_live": {"gemini"},
    "mistral": {"openai_chat"},
    "ollama": {"openai_chat"},
    "bedrock": {"anthropic"},
    "openai_responses": {"openai_chat"},
    "openai_realtime": {"openai_chat", "openai_responses"},
}

PROGRAM = """
import json, os, sys
import anyio, anyio._backends._asyncio, orjson, pydantic

def run(body, wire):
    from streamtools import pipeline, tool

    @tool
    async def look(at: int) -> str:
        "Look."
        return "seen"

    async def main():
        async with pipeline(body, tools=[look], wire=wire) as events:
            async for _ in events:
                pass
        return events.turn

    turn = anyio.run(main)
    files = [module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] == "streamtools"]
    lines = sum(open(file, encoding="utf-8").read().count("\\n") for file in files)
    return turn.wire, [seen.outcome for seen in turn.observations], len(files), lines, sorted(
        name.rpartition(".")[2] for name, module in sys.modules.items()
        if name.startswith("streamtools.wires.") and hasattr(module, "WIRE")
        or name.startswith(("streamtools.provenance", "streamtools.privacy", "streamtools.telemetry", "opentelemetry")))

for wire, (body, given) in json.load(sys.stdin).items():
    if os.fork() == 0:  # what one stream loads is not there for the next
        os.write(1, json.dumps([wire, *run(body, given)]).encode() + b"\\n")
        os._exit(0)
    os.wait()
"""


def test_one_stream_loads_its_own_wire_and_little_else() -> None:
    """Each in a process of its own, which is forked where all third parties are loaded already."""
    answer = Response(text=["Hi"], calls=[("call_0001", "look", '{"at":1}')])
    given = {
        wire: (cases.say(answer), wire if cases.detected_as not in (None, wire) else None)
        for wire, cases in CASES.items()
        if FULL or wire in QUICK
    }
    made = subprocess.run([sys.executable, "-c", PROGRAM], input=json.dumps(given), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    found = {wire: told for wire, *told in map(json.loads, made.stdout.splitlines())}
    assert set(found) == set(given), made.stderr
    problems = []
    for wire, (spoken, outcomes, modules, lines, packages) in found.items():
        own = MARKS[wire].package
        if (spoken, outcomes) != (wire, ["ok"]):
            problems.append(f"{wire}: was read as {spoken}, and its call ended {outcomes}")
        if modules > MOST_MODULES or lines > MOST_LINES:
            problems.append(f"{wire}: {modules} modules, {lines} lines")
        if unneeded := set(packages) - {own} - BUILT_ON.get(own, set()):
            problems.append(f"{wire}: loads {sorted(unneeded)}, too")
    assert not problems, "\n".join(problems)


LOOP = """
import asyncio, json, sys
from streamtools import agent_loop, tool
imported = [name for name in sys.modules if name.partition(".")[0] == "streamtools"]

@tool
async def look(at: int) -> str:
    "Look."
    return "seen"

async def ask(messages, tools):
    return iter(json.loads(sys.argv[len(messages)]))

run = agent_loop(ask, [{"role": "user", "content": "Look."}], tools=[look], wire="anthropic.messages")
asyncio.run(run.finish())
loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "streamtools")
print(json.dumps([len(imported), run.outcome, len(run.turns), loaded]))
"""
AROUND = {"durable", "policy", "provenance", "privacy", "text_calls", "modes", "interop", "realtime", "record", "mcp"}
AROUND |= {"telemetry", "web", "view", "integrations", "testing", "cli"}
MOST_OF_A_LOOP = 85


def test_a_bare_loop_loads_no_room_around_the_core_and_no_other_wire() -> None:
    cases = CASES["anthropic.messages"]
    steps = [cases.say(Response(calls=[("call_0001", "look", '{"at":1}')])), cases.say(Response(text=["Seen."]))]
    given = [json.dumps(steps[0]), "", json.dumps(steps[1])]
    told = subprocess.run([sys.executable, "-c", LOOP, *given], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    imported, outcome, turns, loaded = json.loads(told.stdout)
    assert (outcome, turns) == ("answered", 2)
    assert [name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in AROUND] == []
    assert {name.split(".")[2] for name in loaded if name.startswith("streamtools.wires.") and name.count(".") > 2} == {
        "anthropic"
    }
    assert imported <= MOST_OF_A_LOOP


# -- names that are loaded on demand -----------------------------------------------------------------------------------


def test_what_is_loaded_on_demand_is_what_type_checkers_see() -> None:
    problems = []
    for module in MODULES.values():
        told, loaded = set(seen_by_type_checkers(module)), set(on_demand(module))
        if loaded - told:
            problems.append(f"{module.name}: type checkers do not see {sorted(loaded - told)}")
        if loaded and (hidden := {home for home in told - loaded if home[1] in module_names(module)}):
            problems.append(f"{module.name}: is not loaded on demand: {sorted(hidden)}")
    assert not problems, "\n".join(problems)
    assert sum(1 for module in MODULES.values() if any(on_demand(module))) > 10


def module_names(module: Module) -> set[str]:
    """The names in a module's ``__all__``."""
    for statement in module.tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                return set(ast.literal_eval(value))
    return set()


def seen_by_type_checkers(module: Module) -> Iterator[tuple[str, str]]:
    """Each name that is imported in an ``if TYPE_CHECKING`` at the top, with its module as it is written there."""
    for statement in module.tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom) and node.level:
                    yield from (("." * (node.level - 1) + (node.module or ""), alias.name) for alias in node.names)


def on_demand(module: Module) -> Iterator[tuple[str, str]]:
    """Each name in a call of `ground.on_demand`, with its module."""
    for node in module.nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="names") | ast.Attribute(attr="names"), args=[ast.Name(), ast.Dict() as homes]
            ):
                for home, listed in ast.literal_eval(homes).items():
                    yield from ((home, name) for name in listed.split())
            case ast.Call(func=ast.Name(id="functions"), args=[ast.Name(id="__name__"), *places]):
                for place in map(ast.literal_eval, places):
                    home, _, name = place.partition(":")
                    yield home, name or home.rpartition(".")[2]
            case _:
                pass


def test_every_name_that_is_loaded_on_demand_is_there() -> None:
    for path, module in MODULES.items():
        for _, name in on_demand(module):
            if name in module_names(module) and path != "streamtools.executors":  # an extra of its own
                assert hasattr(__import__(path, fromlist=[name]), name), (path, name)
