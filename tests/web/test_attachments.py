"""A file of the user's: the model reads it, or the user is told at once that it cannot; the conversation goes on."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from profiles import FULL, every
from test_changed_programs import PNG, Deploys
from test_chat_app import said
from wire_cases.names import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES

from streamtools.history import lint
from streamtools.wires import WIRES

pytestmark = pytest.mark.anyio
ANSWER = [("text", ["Well."])]
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
KINDS: Mapping[str, tuple[str, str]] = {
    "png": ("image/png", PNG),
    "jpg": ("image/jpg", "/9j/4AAQSkZJRgABAQ=="),
    "svg": ("image/svg+xml", b64encode(b"<svg/>").decode()),
    "docx": (DOCX, b64encode(b"PK docx").decode()),
    "sound": ("audio/wav", b64encode(b"RIFF sound").decode()),
    "film": ("video/mp4", b64encode(b"ftyp film").decode()),
    "pdf": ("application/pdf", b64encode(b"%PDF-1.4").decode()),
    "text": ("text/plain", b64encode(b"hello there").decode()),
    "archive": ("application/zip", b64encode(b"PK archive").decode()),
}
PROTOCOLS = ("useChat", "ours", "AG-UI")
CASES = [(wire, kind, form) for wire in WIRES for kind in KINDS for form in ("content", "address")]
TAKEN = {
    (ANTHROPIC, "png"): True, (ANTHROPIC, "jpg"): True, (ANTHROPIC, "svg"): False, (ANTHROPIC, "docx"): False,
    (ANTHROPIC, "sound"): False, (ANTHROPIC, "film"): False, (ANTHROPIC, "pdf"): True, (CHAT, "film"): False,
    (CHAT, "jpg"): True, (RESPONSES, "sound"): False, (GEMINI, "film"): True, (OLLAMA, "pdf"): False,
}  # fmt: skip
"""Whether a wire takes a file by its content."""


def posted(protocol: str, chat: str, media_type: str, url: str, *, id: str = "m1") -> tuple[str, dict[str, Any]]:
    """The path and the body of a message with a file."""
    text = {"type": "text", "text": "Look."}
    if protocol in ("useChat", "ours"):
        body = said("", id=id, chat=chat)
        body["messages"][0]["parts"] = [text, {"type": "file", "mediaType": media_type, "url": url}]
        return "/" if protocol == "useChat" else f"/{chat}/events", body
    head, _, data = url.partition(";base64,")
    has_content = head != url
    kind = media_type.partition("/")[0]
    place = {"type": "data", "value": data} if has_content else {"type": "url", "value": url}
    part: dict[str, Any] = {"type": kind if kind in ("image", "audio", "video") else "document",
                            "source": {**place, "mimeType": media_type}}  # fmt: skip
    message = {"id": id, "role": "user", "content": [text, part]}
    return "/ag-ui", {"threadId": chat, "runId": "r", "messages": [message], "tools": [], "context": []}


def contents(value: Any) -> Iterator[str | bytes]:
    if isinstance(value, (str, bytes)):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from contents(one)


def has(messages: Any, data: str, url: str) -> bool:
    """Whether messages have a file, in whatever form."""
    content = b64decode(data)
    found = [one for one in contents(messages) if one]
    texts = [one for one in found if isinstance(one, str)]
    return content in found or any(data in one or url in one for one in texts) or content.decode("latin-1") in texts


@every("wire, kind, form", CASES[:: 5 if FULL else 17])
@pytest.mark.deadline(300)
async def test_a_file_is_read_by_the_model_or_refused_in_words_and_nothing_is_stored(
    wire: str, kind: str, form: str, tmp_path: Path
) -> None:
    media_type, data = KINDS[kind]
    url = f"data:{media_type};base64,{data}" if form == "content" else f"https://example.com/{kind}.bin"
    number = CASES.index((wire, kind, form))
    deploys = Deploys(tmp_path / f"{number}.db", [ANSWER] * 20)
    page = deploys.page(wire)
    verdicts = set()
    for chat, protocol in enumerate((PROTOCOLS * 2)[number % 3 :][: 2 if FULL else 1]):
        asked = len(deploys.asked)
        path, body = posted(protocol, f"k{chat}", media_type, url)
        answer = await page.ask("POST", path, body)
        verdicts.add(answer.status)
        if answer.status == 200:
            assert has(deploys.asked[-1], data, url), (protocol, deploys.asked[-1])
            assert "image/jpg" not in str(deploys.asked[-1])
        else:
            error = answer.json["error"]
            assert (answer.status, error["code"]) == (400, "bad_request"), (protocol, error)
            assert media_type.replace("image/jpg", "image/jpeg") in error["message"], error
            assert "it takes " in error["message"], error
            assert (await page.ask("GET", f"/k{chat}")).status == 404, "nothing is stored"
            assert len(deploys.asked) == asked
        later = await page.ask("POST", "/", said("Go on.", id="m2", chat=f"k{chat}"))
        assert "Well." in str(later.chunks), (protocol, later.body)
        assert [one.code for one in lint(deploys.asked[-1], wire)] == []
    assert len(verdicts) == 1, "every protocol is told the same"
    if form == "content" and (wire, kind) in TAKEN:
        assert (verdicts == {200}) == TAKEN[wire, kind]


@every("wire, kind", [(wire, kind) for wire in WIRES for kind in KINDS][:: 4 if FULL else 13])
@pytest.mark.deadline(300)
async def test_a_file_of_an_earlier_message_is_read_by_another_wire_or_stands_there_by_its_kind(
    wire: str, kind: str, tmp_path: Path
) -> None:
    media_type, data = KINDS[kind]
    url = f"data:{media_type};base64,{data}"
    deploys = Deploys(tmp_path / f"{wire}{kind}.db", [ANSWER] * 4)
    path, body = posted("useChat", "k", media_type, url)
    assert (await deploys.page(GEMINI).ask("POST", path, body)).status == 200
    for id, regenerates in (("m2", False), ("m3", False), ("m1", True)):
        again = said("Go on.", id=id)
        if regenerates:  # the message with the file itself, which was taken before
            again = {**body, "trigger": "regenerate-message"}
        answer = await deploys.page(wire).ask("POST", "/", again)
        assert "Well." in str(answer.chunks), answer.body
        messages = deploys.asked[-1]
        stands_in = f"{media_type.replace('image/jpg', 'image/jpeg')}]"
        assert has(messages, data, url) != (stands_in in str(messages)), messages
        assert [one.code for one in lint(messages, wire)] == []


async def test_what_is_no_file_with_content_is_refused_and_no_part_vanishes(tmp_path: Path) -> None:
    page, numbers = Deploys(tmp_path / "chats.db").page(CHAT), count()

    def ui(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        body = said("", chat=f"k{next(numbers)}")
        body["messages"][0]["parts"] = [{"type": "text", "text": "Look."}, part]
        return "/", body

    def ag_ui(part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        message = {"id": "m1", "role": "user", "content": [{"type": "text", "text": "Look."}, part]}
        return "/ag-ui", {"threadId": f"k{next(numbers)}", "runId": "r", "messages": [message]}

    empty = {"type": "data", "value": "", "mimeType": "image/png"}
    for (path, body), words in (
        (ui({"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,"}), "the file is empty"),
        (ui({"type": "file", "mediaType": "text/plain", "url": "data:,"}), "the file is empty"),
        (ui({"type": "file", "mediaType": "image/png", "url": "blob:https://x/1"}), "https: URL"),
        (ui({"type": "file", "mediaType": "picture", "url": f"data:picture;base64,{PNG}"}), "media type"),
        (ui({"type": "data-note", "data": {"a": 1}}), "expected one of"),
        (ag_ui({"type": "image", "source": empty}), "the file is empty"),
        (ag_ui({"type": "image", "source": {"type": "file", "value": "file-1"}}), "its content or its URL"),
        (ag_ui({"type": "hologram", "source": empty}), "expected one of"),
    ):
        answer = await page.ask("POST", path, body)
        message = answer.json["error"]["message"]
        assert (answer.status, words in message) == (400, True), (body, message)
        assert (await page.ask("GET", "/k0")).status == 404


@every("wire", WIRES)
async def test_a_picture_that_a_tool_returns_is_in_the_history_of_the_next_message(wire: str, tmp_path: Path) -> None:
    """Bedrock's messages have its bytes, which JSON has no form for."""
    steps = [[("calls", [("call00001", "look", '{"at": "picture"}')])], ANSWER, ANSWER]
    deploys = Deploys(tmp_path / f"{wire}.db", steps)
    await deploys.page(wire).ask("POST", "/", said("Look."))
    assert "Well." in (await deploys.page(wire).ask("GET", "/k")).body.decode()
    again = await deploys.page(wire).ask("POST", "/", said("Go on.", id="m2"))
    assert "Well." in str(again.chunks), again.body
    assert has(deploys.asked[-1], PNG, "no address") == has(deploys.asked[1], PNG, "no address")
    assert str(deploys.asked[-1]).startswith(str(deploys.asked[1])[:-1])
