"""The table of names agrees with what OpenTelemetry publishes."""

from __future__ import annotations

import json
from dataclasses import astuple, fields, replace

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from profiles import every
from scripted import Spans
from streams import chat, stream
from wire_cases import CASES

from streamtools import Trajectory, Usage, pipeline
from streamtools.privacy import Privacy
from streamtools.telemetry import Tracing
from streamtools.telemetry.metrics import METRIC_PROFILES
from streamtools.telemetry.names import PROFILES, SEMCONV, Names, provider_of
from streamtools.wires import WIRES, find, register, unregister

PUBLISHED = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}


def written(names: Names) -> list[str]:
    """Every attribute name of a profile."""
    found: list[object] = [*names.usage.values()]
    for value in astuple(replace(names, usage={})):
        found += value if isinstance(value, dict) else [value]
    return [name for name in found if isinstance(name, str) and "." in name and "/" not in name]


@pytest.mark.skipif("gen_ai.usage.cache_read.input_tokens" not in PUBLISHED, reason="what is installed is from before")
def test_every_gen_ai_name_is_one_that_opentelemetry_published() -> None:
    ours = {name for name in written(SEMCONV) if name.startswith("gen_ai.")}
    assert len(ours) > 12
    assert ours <= PUBLISHED


def test_all_other_names_of_the_default_profile_are_ours_or_stable() -> None:
    others = {name for name in written(SEMCONV) if not name.startswith(("gen_ai.", "streamtools."))}
    assert others == {"error.type", "server.address", "server.port"}


def test_no_attribute_name_means_two_things() -> None:
    ours = [name for name in written(SEMCONV) if name not in ("gen_ai.operation.name", SEMCONV.step_span)]
    assert len(ours) == len(set(ours))


def test_the_newer_profile_changes_what_its_conventions_renamed_and_nothing_else() -> None:
    before, after = set(written(SEMCONV)), set(written(PROFILES["genai-0.1"]))
    assert after - before == {
        "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.audio.input_tokens", "gen_ai.usage.audio.output_tokens",
    }  # fmt: skip
    assert len(before - after) == 3
    assert METRIC_PROFILES.keys() == PROFILES.keys()


WITHDRAWN = {"gen_ai.usage.cache_creation.input_tokens", "finish_reason"}
WITHDRAWN_FROM_AGENTS = {
    "gen_ai.agent.id", "gen_ai.agent.version", "gen_ai.provider.name", "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
}  # fmt: skip
"""The migration guide of the newer conventions, as far as it concerns spans that are written here."""


@pytest.mark.anyio
async def test_no_span_of_the_newer_profile_has_a_name_that_its_conventions_withdrew(spans: Spans) -> None:
    usage = (
        b'data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,'
        b'"prompt_tokens_details":{"cached_tokens":4,"cache_write_tokens":2}}}\n\n'
    )
    *events, done = chat(text=["Hi."])
    for profile in PROFILES:
        run = Trajectory(
            name="a", privacy=Privacy(content_in_spans=True), observers=[Tracing(spans.provider, names=profile)]
        )
        async with run, pipeline(stream([*events, usage, done]), trajectory=run) as seen:
            _ = [event async for event in seen]
        agent, answer = (dict(spans.all[at].attributes or {}) for at in (-1, -3))
        (message,) = json.loads(answer["gen_ai.output.messages"])
        found = {*answer, *message} & WITHDRAWN | agent.keys() & WITHDRAWN_FROM_AGENTS
        assert bool(found) == (profile == "semconv-1.41"), found
        assert agent["gen_ai.usage.input_tokens"] == 9


@every("profile", PROFILES)
def test_a_profile_names_every_count_of_tokens_and_nothing_else(profile: str) -> None:
    assert PROFILES[profile].usage.keys() == {field.name for field in fields(Usage)}
    assert profile != "semconv-1.41" or all(PROFILES[profile].usage.values())


@every(
    ("wire", "provider"),
    [*((wire, cases.provider) for wire, cases in CASES.items()), ("someones.own.wire", "someones")],
)
def test_the_provider_is_the_flavour_of_the_wire(wire: str, provider: str) -> None:
    assert provider_of(wire) == provider


def test_a_wire_of_the_users_own_has_its_own_provider_if_it_is_registered() -> None:
    own = replace(find("openai.chat_completions"), name="example.own", short_name=None, provider="example_ai")
    assert provider_of("example.own") == "example"
    register(own)
    try:
        assert provider_of("example.own") == "example_ai"
    finally:
        unregister(own)


@pytest.mark.skipif("gen_ai.provider.name" not in PUBLISHED, reason="what is installed is from before")
@every("provider", sorted({find(wire).provider for wire in WIRES if CASES[wire].telemetry_knows}))
def test_a_provider_is_one_that_opentelemetry_knows(provider: str) -> None:
    assert provider in {known.value for known in gen_ai_attributes.GenAiProviderNameValues}
