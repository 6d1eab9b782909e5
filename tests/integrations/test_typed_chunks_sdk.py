"""What an SDK's typed chunks give back is what the bytes say: texts, calls, opaque state, usage, to the last digit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from bedrock_streams import START, end, events, text_deltas, tool_use
from bedrock_streams import USAGE as BEDROCK_USAGE
from cohere_streams import block, citation, cohere, plan
from gemini_streams import call as gemini_call
from gemini_streams import response, text
from loopback import Loopback
from mistral_streams import mistral, thinking
from responses_streams import CREATED, added, arguments, done, ended, function, message, output_text, reasoning, summary
from responses_streams import text as responses_text
from streams import Call, anthropic, chat, chat_chunk, sse

from streamtools import Turn, parse
from streamtools.sources import as_item

CALLS: list[Call] = [("call_1", "f", '{"n": 123456789012345678901234567890, "x": 1.10}'), ("call_2", "g", "{}")]
MISTRAL_CALLS: list[Call] = [("D681PevKs", "f", '{"n": 1}'), ("D681PevKt", "g", "{}")]
HELLO = [{"role": "user", "content": "Hi"}]
KEYS = {"api_key": "none", "max_retries": 0}

Build = Callable[[Any, str], Iterator[Any]]


def rich_chat() -> list[bytes]:
    extra = (
        chat_chunk({"reasoning_content": "Hm. "}),
        chat_chunk({"reasoning_details": [{"type": "x", "data": "b3Bh"}]}),
    )
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
    *body, done_line = chat(["Hé", "llo"], CALLS)
    return [*sse(extra), *body, *sse([{**chat_chunk({}), "choices": [], "usage": usage}]), done_line]


def rich_anthropic() -> list[bytes]:
    *body, stop, last = anthropic(["Hé"], CALLS)  # blocks 0 to 2
    thought = [
        {"type": "content_block_start", "index": 3, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "signature_delta", "signature": "c2ln+/="}},
        {"type": "content_block_stop", "index": 3},
        {"type": "content_block_start", "index": 4, "content_block": {"type": "redacted_thinking", "data": "cmVk"}},
        {"type": "content_block_stop", "index": 4},
    ]
    return [*body, *sse(thought, named=True), stop, last]


def rich_responses() -> list[bytes]:
    items = [
        reasoning("Hm.", encrypted_content="ZW5j"),
        message(output_text("Hello")),
        function(1, '{"n": 123456789012345678901234567890}'),
    ]
    payloads = [
        CREATED,
        added(0, reasoning()),
        summary(0, "Hm."),
        done(0, items[0]),
        added(1, message()),
        responses_text(1, "Hello"),
        done(1, items[1]),
        added(2, function(1)),
        arguments(2, '{"n": 123456789012345678901234567890}'),
        done(2, items[2]),
        ended(output=items, usage={"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}),
    ]
    return sse([{**payload, "sequence_number": number} for number, payload in enumerate(payloads)], named=True)


def rich_gemini() -> list[bytes]:
    payloads = [
        response(text("Hm.", thought=True)),
        response(text("Hé")),
        response(gemini_call("f", {"n": 12345678901234567890}, signature="+/+/AAE=", id="call_1")),
        response(gemini_call("g", {})),
        response(text("", signature="/+/+AAE="), finish="STOP", usageMetadata={"promptTokenCount": 9}),
    ]
    return [b"data: " + orjson.dumps(payload) + b"\n\n" for payload in payloads]


def rich_bedrock() -> list[bytes]:
    thought: list[dict[str, Any]] = [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm."}}}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "c2ln+/="}}}},
        {"contentBlockStop": {"contentBlockIndex": 0}},
    ]
    told = [START, *thought, *text_deltas(["Hé", "llo"], 1), *tool_use(2, CALLS[0], pieces=5), *tool_use(3, CALLS[1])]
    return events([*told, end("tool_use"), BEDROCK_USAGE])


def rich_cohere() -> list[bytes]:
    told = [*plan("I will ", "look."), *block(0, "Hm.", kind="thinking"), *block(1, "Hé", "llo")]
    return cohere(*told, *citation(0, 0, 2, "Hé"), calls=CALLS, finish="TOOL_CALL")


def rich_ollama() -> list[bytes]:
    def line(content: str = "", **more: Any) -> bytes:
        told = {"role": "assistant", "content": content, **more}
        return (
            orjson.dumps({"model": "m", "created_at": "2026-01-01T00:00:00Z", "message": told, "done": False}) + b"\n"
        )

    calls = [{"function": {"name": name, "arguments": {"n": 12345678901234567890}}} for name in ("f", "g")]
    last = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    told = [line(thinking="Hm."), line("Hé"), line("llo"), line(tool_calls=calls)]
    return [*told, orjson.dumps({**last, "prompt_eval_count": 9, "eval_count": 3}) + b"\n"]


def openai_chat(sdk: Any, url: str) -> Any:
    return sdk.OpenAI(base_url=url, **KEYS).chat.completions.create(model="m", messages=HELLO, stream=True)


def openai_responses(sdk: Any, url: str) -> Any:
    return sdk.OpenAI(base_url=url, **KEYS).responses.create(model="m", input="Hi", stream=True)


def groq_chat(sdk: Any, url: str) -> Any:
    return sdk.Groq(base_url=url, **KEYS).chat.completions.create(model="m", messages=HELLO, stream=True)


def anthropic_messages(sdk: Any, url: str) -> Any:
    client = sdk.Anthropic(base_url=url, **KEYS)
    return client.messages.create(model="m", messages=HELLO, max_tokens=9, stream=True)


def anthropic_helper(sdk: Any, url: str) -> Iterator[Any]:
    with sdk.Anthropic(base_url=url, **KEYS).messages.stream(model="m", messages=HELLO, max_tokens=9) as stream:
        yield from stream


def google_genai(sdk: Any, url: str) -> Iterator[Any]:
    client = sdk.Client(api_key="none", http_options={"base_url": url})
    yield from client.models.generate_content_stream(model="m", contents="Hi")


def mistralai(sdk: Any, url: str) -> Any:
    return sdk.Mistral(api_key="none", server_url=url).chat.stream(model="m", messages=HELLO)


def cohere_v2(sdk: Any, url: str) -> Any:
    return sdk.ClientV2(api_key="none", base_url=url).chat_stream(model="m", messages=HELLO)


def ollama_chat(sdk: Any, url: str) -> Any:
    return sdk.Client(host=url).chat(model="m", messages=HELLO, stream=True)


def boto3_converse(sdk: Any, url: str) -> Any:
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "region_name": "us-east-1"}
    client = sdk.client("bedrock-runtime", endpoint_url=url, **keys)
    return client.converse_stream(modelId="m", messages=[{"role": "user", "content": [{"text": "Hi"}]}])["stream"]


MISTRAL_BODY = mistral([thinking("Hm.")], "Hé", "llo", calls=MISTRAL_CALLS, finish="tool_calls")
FRAMES, LINES = "application/vnd.amazon.eventstream", "application/x-ndjson"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("module", "ask", "wire", "body", "content_type"),
    [
        ("openai", openai_chat, "openai.chat_completions", rich_chat(), ""),
        ("openai", openai_responses, "openai.responses", rich_responses(), ""),
        ("groq", groq_chat, "openai.chat_completions", rich_chat(), ""),
        ("anthropic", anthropic_messages, "anthropic.messages", rich_anthropic(), ""),
        ("anthropic", anthropic_helper, "anthropic.messages", rich_anthropic(), ""),
        ("google.genai", google_genai, "gemini.generate_content", rich_gemini(), ""),
        ("mistralai.client", mistralai, "mistral.chat", MISTRAL_BODY, ""),
        ("cohere", cohere_v2, "cohere.chat", rich_cohere(), ""),
        ("ollama", ollama_chat, "ollama.chat", rich_ollama(), LINES),
        ("boto3", boto3_converse, "bedrock.converse_stream", rich_bedrock(), FRAMES),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_typed_chunks_say_what_the_bytes_say(
    module: str, ask: Build, wire: str, body: list[bytes], content_type: str
) -> None:
    sdk = pytest.importorskip(module, reason=f"THE {module} SDK IS NOT INSTALLED: nox -s integrations")
    with Loopback(body, content_type=content_type or "text/event-stream") as server:
        items = [item for chunk in ask(sdk, server.url) if (item := as_item(chunk)) is not None]
    typed, raw = parse(items, wire=wire), parse(body, wire=wire)
    assert raw.reasoning
    assert raw.text
    assert raw.complete
    assert len(raw.calls) >= 1
    assert said(typed) == said(raw)
    assert typed.messages() == raw.messages()


def said(turn: Turn) -> dict[str, Any]:
    told = [(call.call_id, call.name, call.arguments, call.status, call.provider_state) for call in turn.calls]
    return {
        "reasoning": turn.reasoning,
        "text": turn.text,
        "calls": told,
        "parts": [(part.kind, part.provider_state) for part in turn.parts],
        "finish": (turn.finish, turn.finish_raw, turn.complete, turn.error),
        "usage": turn.usage,
    }
