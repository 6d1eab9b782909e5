"""The table of names agrees with what OpenTelemetry publishes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from profiles import every
from wire_cases import CASES

from streamtools import Usage
from streamtools.telemetry.names import Names, provider_of
from streamtools.wires import WIRES, find, register, unregister

PUBLISHED = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}


def written() -> list[str]:
    """Every attribute name."""
    found: list[object] = [*Names.usage.values()]
    for field, value in vars(Names).items():
        if field != "usage" and not field.startswith("__"):
            found += value if isinstance(value, dict) else [value]
    return [name for name in found if isinstance(name, str) and "." in name]


@pytest.mark.skipif("gen_ai.usage.cache_read.input_tokens" not in PUBLISHED, reason="what is installed is from before")
def test_every_gen_ai_name_is_one_that_opentelemetry_published() -> None:
    ours = {name for name in written() if name.startswith("gen_ai.")}
    assert len(ours) > 12
    assert ours <= PUBLISHED


def test_all_other_names_are_ours_or_stable() -> None:
    others = {name for name in written() if not name.startswith(("gen_ai.", "streamtools."))}
    assert others == {"error.type", "server.address", "server.port"}


def test_no_attribute_name_means_two_things() -> None:
    ours = [name for name in written() if name not in ("gen_ai.operation.name", Names.step_span)]
    assert len(ours) == len(set(ours))


def test_every_count_of_tokens_has_a_name() -> None:
    assert Names.usage.keys() == {field.name for field in fields(Usage)}
    assert all(Names.usage.values())


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
