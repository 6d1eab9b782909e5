"""Django: the programs of its page serve a chat beside its views, and a view that streams."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from streams import chat as chat_body

django = pytest.importorskip("django")
httpx = pytest.importorskip("httpx")

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PAGE = REPOSITORY / "docs" / "web" / "endpoint.md"
BODY = b"".join(chat_body(["Sun", "ny."], finish="stop"))


async def ask(messages: Any, tools: Any) -> bytes:
    return BODY


@pytest.mark.anyio
@pytest.mark.asyncio_only
async def test_the_programs_of_the_page_serve_a_chat_beside_a_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.conf import settings
    from django.urls import path

    monkeypatch.chdir(tmp_path)
    section = PAGE.read_text(encoding="utf-8").partition("\n## Django\n")[2]
    blocks = [part.partition("```")[0] for part in section.split("```python\n")[1:]]
    page = ModuleType("the_page")
    monkeypatch.setitem(sys.modules, page.__name__, page)
    settings.configure(ROOT_URLCONF=page.__name__, SECRET_KEY="x", ALLOWED_HOSTS=["*"])
    django.setup()
    for block in blocks:
        exec(compile(block, PAGE, "exec", dont_inherit=True), vars(page))
    vars(page).update(ask=ask, urlpatterns=[path("say", vars(page)["say"])])
    transport = httpx.ASGITransport(vars(page)["application"])
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        said = await client.get("/say", params={"question": "weather?"})
        assert (said.status_code, said.text) == (200, "Sunny.")
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "weather?"}]}
        chatted = await client.post("/api/chat/", json={"id": "c1", "messages": [message], "trigger": "submit-message"})
        assert chatted.status_code == 200
        assert '"finishReason":"stop"' in chatted.text
        kept = (await client.get("/api/chat/c1")).json()
        assert kept["messages"][1]["parts"][-1]["text"] == "Sunny."
        assert [message["role"] for message in kept["messages"]] == ["user", "assistant"]
        assert (await client.get("/api/chatter")).status_code == 404  # Django's
