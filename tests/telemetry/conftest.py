"""What the telemetry tests share: a private provider, and a program without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util._once import Once
from scripted import Spans


@pytest.fixture
def spans() -> Spans:
    return Spans()


@pytest.fixture
def no_global_provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The program has set no TracerProvider; one that the test sets is forgotten after it.

    OpenTelemetry offers no way to unset the provider, so its module variables are put back.
    """
    monkeypatch.delenv("OTEL_PYTHON_TRACER_PROVIDER", raising=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    yield
    provider = trace._TRACER_PROVIDER
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"):
        monkeypatch.delenv(name, raising=False)
