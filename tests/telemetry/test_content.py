"""What may be secret stays out of spans unless it is asked for; and what a peer sends can break no exporter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from profiles import every, examples
from scripted import Script, Spans
from telemetry.scripted import capturing

from streamtools.errors import InvalidArguments, ProviderError, ToolError, ToolFailed
from streamtools.parts import Outcome
from streamtools.telemetry import Tracing
from streamtools.telemetry.names import fitted_json

SECRET = "s3cr3t"


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


def refuse(message: str) -> NoReturn:
    raise ValueError(message)


def failed(message: str) -> ToolFailed:
    try:
        try:
            refuse(message)
        except ValueError as error:
            raise ToolFailed(f"the tool raised: {message}") from error
    except ToolFailed as outer:
        return outer


def secretive_run(tracing: Tracing) -> None:
    """A step in which every text, value and message is the secret."""
    script = Script.started(tracing)
    script.text("The password ", "is ", SECRET)
    errors: list[tuple[Outcome, ToolError | None]] = [
        ("ok", None),
        ("failed", failed(SECRET)),
        ("invalid", InvalidArguments(SECRET, problems=[SECRET])),
    ]
    for index, (outcome, error) in enumerate(errors):
        call_id = f"call_{index}"
        script.call(call_id, text=f'{{"key": "{SECRET}"}}', index=index, arguments={"key": SECRET})
        script.run(call_id)
        script.observe(
            call_id,
            outcome,
            index=index,
            error=error,
            value={"found": SECRET},
            model_content=json.dumps({"found": SECRET}),
            validated_args={"key": SECRET},
            validation_error=None if outcome == "ok" else SECRET,
        )
    script.end_stream("error", complete=False, error=ProviderError(f"you said {SECRET}", type="bad_request"))
    script.end("error")


def everything(spans: Spans) -> str:
    """All that an exporter would see."""
    return "".join(span.to_json() for span in spans.all) + str(encode_spans(spans.all))


def test_no_content_is_in_any_span_by_default(spans: Spans) -> None:
    secretive_run(Tracing(spans.provider))
    assert len(spans.all) == 5
    assert SECRET not in everything(spans)
    assert "ValueError" in everything(spans)


def test_content_is_captured_where_it_is_asked_for(spans: Spans) -> None:
    secretive_run(capturing(spans.provider, capture=True))
    ok, broken, invalid = sorted(
        (span for span in spans.all if span.name.startswith("execute_tool")),
        key=lambda span: attributes(span)["streamtools.call.key"],
    )
    assert attributes(ok)["gen_ai.tool.call.arguments"] == f'{{"key": "{SECRET}"}}'
    assert json.loads(attributes(ok)["gen_ai.tool.call.result"]) == {"found": SECRET}
    (event,) = broken.events
    said = event.attributes or {}
    assert (event.name, said["exception.type"], said["exception.message"]) == ("exception", "ValueError", SECRET)
    assert "in failed" in str(said["exception.stacktrace"])
    assert "in refuse" in str(said["exception.stacktrace"])
    assert broken.status.description == f"the tool raised: {SECRET}"
    assert invalid.status.description == SECRET
    chat = spans.named("chat glm-mini")
    assert chat.status.description == f"you said {SECRET} (bad_request)"
    assert json.loads(attributes(chat)["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": f"The password is {SECRET}"},
                *(
                    {
                        "type": "tool_call",
                        "id": f"call_{index}",
                        "name": "lookup",
                        "arguments": {"key": SECRET},
                    }
                    for index in range(3)
                ),
            ],
            "finish_reason": "error",
        }
    ]


@every(
    ("value", "captured"),
    [
        (None, False),
        ("true", True),
        ("True", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("EVENT_ONLY", False),
        ("NO_CONTENT", False),
        ("false", False),
        ("", False),
    ],
)
def test_the_standard_environment_variable_switches_content_on(
    monkeypatch: pytest.MonkeyPatch, value: str | None, captured: bool
) -> None:
    spans = Spans()
    if value is not None:
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    secretive_run(Tracing(spans.provider))
    assert (SECRET in everything(spans)) is captured


def test_captured_content_is_bounded(spans: Spans) -> None:
    script = Script.started(capturing(spans.provider, capture=True, max_attribute_chars=64))
    script.text(*["word "] * 1000)
    script.call("call_a", "alpha", json.dumps({"x": "y" * 9000}), arguments={"x": "y" * 9000})
    script.run("call_a", "alpha")
    script.observe("call_a", "failed", name="alpha", error=failed("z" * 9000), model_content="z" * 9000)
    script.end_step()
    for span in spans.all:
        texts = [*attributes(span).values(), span.status.description or ""]
        texts += [value for event in span.events for value in (event.attributes or {}).values()]
        assert all(len(text) <= 64 for text in texts if isinstance(text, str))
    tool = attributes(spans.named("execute_tool alpha"))
    assert tool["gen_ai.tool.call.result"].endswith("…")
    assert json.loads(tool["gen_ai.tool.call.arguments"])["x"].endswith("…"), "what is cut inside stays JSON"
    assert json.loads(attributes(spans.named("chat glm-mini"))["gen_ai.output.messages"])


@every(
    ("kind", "text", "more", "captured"),
    [
        ("function", '{"a":1}', {}, '{"a":1}'),
        ("function", '"{\\"a\\":1}"', {"normalizations": ("double_encoded",), "arguments": {"a": 1}}, '{"a": 1}'),
        ("custom", "ls -l", {}, "ls -l"),
    ],
)
def test_captured_arguments_are_json_or_bare_text(kind: Any, text: str, more: dict[str, Any], captured: str) -> None:
    spans = Spans()
    script = Script.started(capturing(spans.provider, capture=True))
    script.call("call_a", "alpha", text, kind=kind, **more)
    script.run("call_a", "alpha")
    script.observe("call_a", name="alpha", value="done", model_content="done")
    script.end_step()
    said = attributes(spans.named("execute_tool alpha"))
    assert said["gen_ai.tool.call.arguments"] == captured
    assert said["gen_ai.tool.call.result"] == "done"


def test_an_exception_whose_text_cannot_be_had_is_recorded_by_its_type(spans: Spans) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    outer = ToolFailed("the tool raised")
    outer.__cause__ = Mute()
    script = Script.started(capturing(spans.provider, capture=True))
    script.call("call_a")
    script.run("call_a")
    script.observe("call_a", "failed", error=outer)
    script.end_step()
    (event,) = spans.named("execute_tool lookup").events
    assert str((event.attributes or {})["exception.type"]).endswith("Mute")
    assert spans.ledger.balanced


@every("content", [False, True])
def test_half_a_surrogate_pair_breaks_no_exporter(content: bool) -> None:
    """JSON allows it in any string, UTF-8 does not: one such span would cost the whole OTLP batch."""
    spans = Spans()
    half = "\ud83d"
    script = Script(capturing(spans.provider, capture=content), run_id=f"run{half}")
    script.start(f"model{half}")
    script.text(half)
    script.call(f"id{half}", f"tool{half}", f'{{"{half}": 1}}', arguments={half: 1}, problem=half)
    script.run(f"id{half}", f"tool{half}")
    script.observe(f"id{half}", "failed", name="tool", error=failed(half), model_content=half, observation_type=half)
    script.end_stream("other", finish_raw=half, complete=False, error=ProviderError(half, type=half))
    script.end("error")
    assert {span.name for span in spans.all} == {"chat model?", "execute_tool tool?", "streamtools.step"}
    assert encode_spans(spans.all).SerializeToString()


def test_what_a_peer_chooses_is_bounded_also_without_content(spans: Spans) -> None:
    script = Script(Tracing(spans.provider))
    script.start("m" * 9000)
    script.call("c" * 9000, "n" * 9000)
    script.observe("c" * 9000)
    script.end_step("other", finish_raw="f" * 9000)
    for span in spans.all:
        assert len(span.name) < 1100
        for value in attributes(span).values():
            assert len(value if isinstance(value, str) else str(value)) < 1100


def test_the_scope_names_the_library_and_the_conventions(spans: Spans) -> None:
    Script(Tracing(spans.provider)).whole_step()
    scope = spans.all[0].instrumentation_scope
    assert (scope.name, scope.schema_url) == ("streamtools", "https://opentelemetry.io/schemas/1.41.0")
    assert scope.version


def test_a_step_looks_like_no_genai_operation(spans: Spans) -> None:
    """Jaeger's UI shows a span with any gen_ai attribute as an operation of a kind that it does not know."""
    Script(Tracing(spans.provider)).whole_step()
    assert not [name for name in attributes(spans.named("streamtools.step")) if name.startswith("gen_ai.")]


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    most=st.integers(8, 400),
)
@settings(max_examples=examples(60), deadline=None, derandomize=True)
def test_content_that_is_cut_is_json_within_its_bound_and_says_that_it_was_cut(value: Any, most: int) -> None:
    whole, written = json.dumps(value, ensure_ascii=False), fitted_json(value, most)
    read = json.loads(written)
    assert len(written) <= max(most, len('"…"'))
    assert (written == whole) is (len(whole) <= most)
    assert (read == value) is (len(whole) <= most) or "…" in written
