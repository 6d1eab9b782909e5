"""The table of names agrees with what OpenTelemetry publishes."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from wire_cases import CASES

from streamtools import Usage
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
    assert others == {"error.type"}


def test_no_attribute_name_means_two_things() -> None:
    ours = [name for name in written(SEMCONV) if name not in ("gen_ai.operation.name", SEMCONV.step_span)]
    assert len(ours) == len(set(ours))


def test_the_newer_profile_changes_what_its_conventions_renamed_and_nothing_else() -> None:
    before, after = set(written(SEMCONV)), set(written(PROFILES["genai-0.1"]))
    assert after - before == {
        "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.audio.input_tokens", "gen_ai.usage.audio.output_tokens",
    }  # fmt: skip
    assert len(before - after) == 3


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_names_every_count_of_tokens_and_nothing_else(profile: str) -> None:
    assert PROFILES[profile].usage.keys() == {field.name for field in fields(Usage)}
    assert profile != "semconv-1.41" or all(PROFILES[profile].usage.values())


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("provider", sorted({find(wire).provider for wire in WIRES if CASES[wire].telemetry_knows}))
def test_a_provider_is_one_that_opentelemetry_knows(provider: str) -> None:
    assert provider in {known.value for known in gen_ai_attributes.GenAiProviderNameValues}
