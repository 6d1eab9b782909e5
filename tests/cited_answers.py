"""Answers that name sources, or are files, in the shapes of each wire; and what they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import responses_streams as responses
from streams import chat_chunk
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, INTERACTIONS, LIVE, MISTRAL, RESPONSES

Payload = dict[str, Any]
PNG = "iVBORw0KGgo="
"""The first bytes of an image, which are no text."""
ONE, TWO = "https://one.example/a?b=c#d", "http://two.example/"


@dataclass(frozen=True)
class CitedAnswer:
    """An answer, and what is to be read of it."""

    wire: str
    payloads: list[Payload]
    sources: tuple[tuple[str | None, str | None], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    goes_back: bool = True
    """The sources are in the history, too."""


def _chat(*deltas: Payload, **beside: Any) -> list[Payload]:
    return [*(chat_chunk(delta) | beside for delta in deltas), chat_chunk({}, "stop") | beside]


def _gemini(*parts: Payload, **about: Any) -> list[Payload]:
    last = {"content": {"role": "model", "parts": []}, "finishReason": "STOP", "index": 0, **about}
    first = {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0}]}
    return [first, {"candidates": [last]}, {"candidates": [last]}]


def _responses(*items: Payload) -> list[Payload]:
    told = [each for at, item in enumerate(items) for each in (responses.added(at, _begun(item)), *_said(at, item))]
    return [responses.CREATED, *told, responses.ended(output=items)]


def _begun(item: Payload) -> Payload:
    return {**item, "status": "in_progress", "content": []} if "content" in item else {**item, "result": None}


def _said(at: int, item: Payload) -> list[Payload]:
    found = [responses.event("output_text.delta", at, delta=part["text"]) for part in item.get("content", ())]
    found += [
        responses.event("output_text.annotation.added", at, annotation=one, annotation_index=number, content_index=0)
        for part in item.get("content", ())
        for number, one in enumerate(part["annotations"])
    ]
    if item["type"] == "image_generation_call":
        found.append(responses.event("image_generation_call.partial_image", at, partial_image_b64="AAAA"))
    return [*found, responses.done(at, item)]


def _page(url: str, title: str | None = None, **more: Any) -> Payload:
    return {"type": "url_citation", "url": url, **({} if title is None else {"title": title}), **more}


def _interaction(*deltas: Payload) -> list[Payload]:
    interaction = {"id": "i1", "status": "in_progress", "model": "m"}
    return [
        {"event_type": "interaction.created", "interaction": interaction},
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        *({"event_type": "step.delta", "index": 0, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": 0},
        {"event_type": "interaction.completed", "interaction": interaction | {"status": "completed"}},
    ]


def _cohere(*citations: Payload) -> list[Payload]:
    def at(kind: str, **more: Any) -> Payload:
        return {"type": kind, "index": 0, **more}

    return [
        {"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant", "content": []}}},
        at("content-start", delta={"message": {"content": {"type": "text", "text": ""}}}),
        at("content-delta", delta={"message": {"content": {"text": "so they say"}}}),
        at("content-end"),
        *(at("citation-start", delta={"message": {"citations": one}}) for one in citations),
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}},
    ]


def _block(*deltas: Payload) -> list[Payload]:
    events = [{"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}} for delta in deltas]
    end: list[Payload] = [{"contentBlockStop": {"contentBlockIndex": 0}}, {"messageStop": {"stopReason": "end_turn"}}]
    return [{"messageStart": {"role": "assistant"}}, *events, *end, {"metadata": {"usage": {}}}]


_MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
_TEXT = {"type": "output_text", "text": "so they say"}
_FILE = {"type": "file_citation", "file_id": "f1", "filename": "a.pdf", "index": 3}
_IN_CONTAINER = {"type": "container_file_citation", "container_id": "c", "file_id": "f2", "filename": "b.csv"}
_GROUNDING = {
    "webSearchQueries": ["q"],
    "groundingChunks": [
        {"web": {"uri": ONE, "title": "One"}},
        {"retrievedContext": {"uri": "gs://bucket/book", "title": "A book"}},
        {"maps": {"uri": TWO, "title": "Two"}},
        {"web": {"uri": ONE, "title": "One, once more"}},
        {"web": {"uri": "javascript:alert(1)", "title": "X"}},
    ],
}

ANSWERS = {
    "chat's annotations": CitedAnswer(
        CHAT,
        _chat(
            {"content": "so they say"},
            {"annotations": [{"type": "url_citation", "url_citation": {"url": ONE, "title": "One", "start_index": 0}}]},
            {"annotations": [{"type": "url_citation", "url_citation": {"url": TWO, "title": "Two"}}, 3]},
        ),
        ((ONE, "One"), (TWO, "Two")),
        goes_back=False,
    ),
    "perplexity's lists, in every chunk": CitedAnswer(
        CHAT,
        _chat({"content": "so "}, {"content": "they "}, {"content": "say"}, citations=[ONE, TWO],
              search_results=[{"title": "One", "url": ONE, "date": "2026-01-01"}]),
        ((ONE, "One"), (TWO, None)),
        goes_back=False,
    ),
    "openrouter's images, in two chunks": CitedAnswer(
        CHAT,
        _chat(
            {"content": ""},
            {"images": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]},
            {"images": [{"type": "image_url", "image_url": {"url": f"data:image/webp;base64,{PNG}"}, "index": 1}]},
        ),
        files=(("image/png", PNG), ("image/webp", PNG)),
    ),
    "gemini's grounding": CitedAnswer(
        GEMINI,
        _gemini(
            {"text": "so they say"},
            groundingMetadata=_GROUNDING,
            citationMetadata={"citationSources": [{"startIndex": 0, "uri": "https://three.example", "license": ""}]},
        ),
        ((ONE, "One"), (None, "A book"), (TWO, "Two"), ("https://three.example", None)),
        goes_back=False,
    ),
    "live's grounding": CitedAnswer(
        LIVE,
        [
            {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "so they say"}]}}},
            {"serverContent": {"groundingMetadata": _GROUNDING}},
            {"serverContent": {"turnComplete": True}, "usageMetadata": {}},
        ],
        ((ONE, "One"), (None, "A book"), (TWO, "Two")),
        goes_back=False,
    ),
    "gemini's image": CitedAnswer(
        GEMINI,
        _gemini(
            {"text": "here it is"},
            {"thought": True, "inlineData": {"mimeType": "image/png", "data": "AAAA"}},
            {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2ln"},
            {"inlineData": {"mimeType": "audio/L16;codec=pcm;rate=24000", "data": PNG}},
        ),
        files=(("image/png", PNG),),
    ),
    "responses' annotations": CitedAnswer(
        RESPONSES,
        _responses(_MESSAGE | {"content": [
            _TEXT | {"annotations": [_page(ONE, "One"), _FILE, _page(ONE, "One", start_index=9)]},
            _TEXT | {"annotations": [_IN_CONTAINER, {"type": "file_path", "file_id": "f3"}]},
        ]}),
        ((ONE, "One"), (None, "a.pdf"), (None, "b.csv")),
    ),
    "responses' image": CitedAnswer(
        RESPONSES,
        _responses(
            {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG,
             "output_format": "webp", "revised_prompt": "a cat"},
            _MESSAGE | {"content": [_TEXT | {"annotations": []}]},
        ),
        files=(("image/webp", PNG),),
    ),
    "interactions' annotations, and an image": CitedAnswer(
        INTERACTIONS,
        _interaction(
            {"type": "text", "text": "so they say"},
            {"type": "text_annotation_delta", "annotations": [
                _page(ONE, "One"),
                {"type": "place_citation", "url": TWO, "name": "Two"},
                {"type": "file_citation", "file_name": "a.pdf", "document_uri": "gs://a"},
            ]},
            {"type": "image", "mime_type": "image/jpeg", "data": PNG},
        ),
        ((ONE, "One"), (TWO, "Two"), (None, "a.pdf")),
        (("image/jpeg", PNG),),
    ),
    "cohere's citations": CitedAnswer(
        COHERE,
        _cohere(
            {"start": 0, "end": 2, "text": "so", "sources": [
                {"type": "document", "id": "d1", "document": {"id": "d1", "title": "A book", "snippet": "..."}},
                {"type": "document", "id": "d2", "document": {"snippet": "..."}},
            ]},
            {"start": 3, "end": 7, "text": "they", "sources": [
                {"type": "tool", "id": "t:0", "tool_output": {"url": ONE, "title": "One"}},
                {"type": "tool", "id": "t:1", "tool_output": {"content": "..."}},
            ]},
        ),
        ((None, "A book"), (None, "d2"), (ONE, "One")),
    ),
    "mistral's references": CitedAnswer(
        MISTRAL,
        _chat(
            {"content": "so they say"},
            {"content": [{"type": "reference", "reference_ids": [1, "2"]}]},
            {"content": [{"type": "tool_reference", "tool": "web_search", "title": "One", "url": ONE}]},
        ),
        ((ONE, "One"),),
    ),
    "bedrock's image": CitedAnswer(
        BEDROCK,
        [
            {"messageStart": {"role": "assistant"}},
            {"contentBlockStart": {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}},
            *_block({"image": {"source": {"bytes": PNG}}})[1:],
        ],
        files=(("image/png", PNG),),
    ),
    "bedrock's citations": CitedAnswer(
        BEDROCK,
        _block({"text": "so they say"}, {"citation": {"location": {"web": {"url": ONE}}, "title": "One"}},
               {"citation": {"location": {"documentPage": {"documentIndex": 0}}, "title": "A book"}}),
        ((ONE, "One"), (None, "A book")),
    ),
    "anthropic's citations": CitedAnswer(
        ANTHROPIC,
        [
            {"type": "message_start", "message": {"id": "m1", "type": "message", "role": "assistant", "content": [],
                                                  "model": "m", "usage": {}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "so they say"}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": one}}
              for one in ({"type": "web_search_result_location", "url": ONE, "title": "One",
                           "encrypted_index": "SECRET"},
                          {"type": "page_location", "document_title": "A book", "document_index": 0})),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
            {"type": "message_stop"},
        ],
        ((ONE, "One"), (None, "A book")),
    ),
}  # fmt: skip
