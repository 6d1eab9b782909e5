"""What clients post is read within bounds, and nothing is taken but the user's words and answers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from profiles import FULL

from streamtools.errors import BadRequest
from streamtools.history import lint
from streamtools.web.ag_ui_requests import read_ag_ui_request
from streamtools.web.approval_ids import approval_id
from streamtools.web.client_input import (
    ClientApproval,
    ClientInput,
    ClientResult,
    ClientTool,
    UserFile,
    UserMessage,
    UserText,
    to_wire,
)
from streamtools.web.ui_requests import read_ui_request
from streamtools.wires import WIRES, find

POSTED: dict[str, Any] = json.loads((Path(__file__).parent / "posted.json").read_text())
T = TypeVar("T")
PIXEL = "data:image/png;base64,iVBORw0KGgo="
ASKED = UserText("Pay, please")


def ui(**changed: Any) -> dict[str, Any]:
    user = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
    return {"id": "chat-1", "messages": [user], "trigger": "submit-message"} | changed


def ag(**changed: Any) -> dict[str, Any]:
    return {"threadId": "t-1", "runId": "r-1", "messages": [{"id": "u1", "role": "user", "content": "Hello"}]} | changed


def read_ui(body: Any) -> ClientInput:
    return read_ui_request(json.dumps(body).encode())


def read_ag(body: Any) -> ClientInput:
    return read_ag_ui_request(json.dumps(body).encode())


READERS: tuple[tuple[Callable[[bytes], ClientInput], Any], ...] = ((read_ui_request, ui), (read_ag_ui_request, ag))


def tried(act: Callable[[], T]) -> tuple[T | None, BadRequest | None]:
    try:
        return act(), None
    except BadRequest as error:
        return None, error


def refusal(read: Callable[..., ClientInput], body: Any, **options: Any) -> BadRequest:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    found, error = tried(lambda: read(data, **options))
    assert error is not None, f"{str(body)[:200]} was taken as {found}"
    return error


def test_what_clients_of_both_ai_sdks_post_is_read() -> None:
    for tag in ("ai6", "ai7"):
        asked, answered, thanked, again, edited = [read_ui(body) for body in POSTED[tag]]
        picture = UserFile(media_type="image/png", url=PIXEL, filename="a.png")
        assert asked == ClientInput(
            chat_id="chat-1", trigger="submit", message=UserMessage(f"{tag}-1", (picture, ASKED))
        )
        assert answered == ClientInput(
            chat_id="chat-1",
            trigger="resume",
            message_id="a1",
            approvals=(
                ClientApproval(id="ap2", approved=True, arguments={"sum": 4}),
                ClientApproval(id="ap3", approved=False, reason="too much"),
            ),
            results=(
                ClientResult(call_id="c4", value={"lat": 1}),
                ClientResult(call_id="c5", value="no permission", is_error=True),
            ),
        )
        thanks = UserMessage(f"{tag}-4", (UserText("Thanks"),))
        given = ClientInput(chat_id="chat-1", trigger="submit", message=thanks, earlier=(f"{tag}-1",))
        assert thanked == given, "a later step has no answers"
        assert again == ClientInput(chat_id="chat-1", trigger="regenerate", message=thanks)
        less = UserMessage(f"{tag}-1", (UserText("Pay less"),))
        assert edited == ClientInput(chat_id="chat-1", trigger="edit", message=less, message_id=f"{tag}-1")


def test_what_the_client_of_ag_ui_posts_is_read() -> None:
    asked, answered, thanked = [read_ag(body) for body in POSTED["ag_ui"]]
    where = ClientTool(name="where", description="Where the user is", parameters={"type": "object", "properties": {}})
    assert asked == ClientInput(
        chat_id="t-1",
        run_id="r-1",
        trigger="submit",
        message=UserMessage("u1", (UserText("Pay"), UserFile(media_type="image/png", url=PIXEL))),
        client_tools=(where,),
    )
    assert (answered.trigger, answered.message, answered.run_id) == ("resume", None, "r-2")
    approvals, results = {one.id: one for one in answered.approvals}, {one.call_id: one for one in answered.results}
    assert approvals["ap2"] == ClientApproval(id="ap2", approved=True, arguments={"sum": 4})
    assert results["c4"] == ClientResult(call_id="c4", value='{"lat":1}')
    assert results["an4"] == ClientResult(call_id="an4", value="the user cancelled it", is_error=True)
    left = ClientApproval(id="an4", approved=False, reason="the user cancelled it")
    assert approvals["an4"] == left, "nothing is approved by leaving"
    assert (thanked.trigger, thanked.message) == ("submit", UserMessage("u2", (UserText("Thanks"),)))


def test_answers_of_a_page_that_mean_several_things() -> None:
    def entry(**given: Any) -> ClientInput:
        return read_ag(ag(messages=[], resume=[{"interruptId": "i", "status": "resolved", **given}]))

    for payload, approvals, value in (
        (True, [(True, None, None)], True),
        (False, [(False, None, None)], False),
        ({"approved": False, "reason": "no"}, [(False, "no", None)], {"approved": False, "reason": "no"}),
        ({"approved": "yes"}, [], {"approved": "yes"}),
        ("Oslo", [], "Oslo"),
        (None, [], None),
    ):
        found = entry(payload=payload)
        assert [(one.approved, one.reason, one.arguments) for one in found.approvals] == approvals, payload
        assert [one.value for one in found.results] == [value]

    def answered(message_id: str | None, *messages: dict[str, Any]) -> ClientInput:
        return read_ui(ui(messages=list(messages), **({"messageId": message_id} if message_id else {})))

    call = {"type": "tool-pay", "toolCallId": "c", "input": {}}
    waiting = {**call, "state": "approval-responded", "approval": {"id": "ap", "approved": True}}
    first = {"id": "a1", "role": "assistant", "parts": [{"type": "step-start"}, waiting]}
    user, then = ui()["messages"][0], {"id": "a2", "role": "assistant", "parts": [{"type": "text", "text": "Well"}]}
    for message_id, messages, trigger, approved, message in (
        ("a1", (first, user, then), "resume", 1, None),  # an approval of an earlier message
        ("a1", (first, user), "resume", 1, None),
        (None, (first, user), "submit", 1, "u1"),  # the user goes on, and the answer with it
        (None, (first, user, then), "resume", 0, None),
        ("a2", (first, user, then), "resume", 0, None),
        ("u1", (first, user), "edit", 1, "u1"),
        ("gone", (user,), "submit", 0, "u1"),
    ):
        found = answered(message_id, *messages)
        shown = (found.trigger, len(found.approvals), found.message and found.message.id)
        assert shown == (trigger, approved, message), (message_id, messages)
    for wanted, path in (("regenerate-message", "messages[1]"), ("resume-stream", "trigger")):
        assert refusal(read_ui_request, ui(messages=[user, first], trigger=wanted)).path == path
    done = {**call, "state": "output-available", "output": None, "approval": {"id": "ap", "approved": True}}
    found = answered("a1", {**first, "parts": [done]})
    assert found.approvals == (ClientApproval(id="ap", approved=True),), "run by the client that has approved it"
    assert found.results == (ClientResult(call_id="c", value=None),)
    odd = answered("a1", {**first, "parts": [{**call, "state": "output-available", "toolCallId": "c\n\u202e"}]})
    assert odd.results == (ClientResult(call_id="c\n\u202e", value=None),), "as its provider made it"
    far = approval_id("\N{GRINNING FACE}" * 256, 10**9, "\n" * 256, "f" * 64)
    answer = {**waiting, "approval": {"id": far, "approved": False}}
    assert answered("a1", {**first, "parts": [answer]}).approvals == (ClientApproval(id=far, approved=False),)


def test_nothing_that_a_client_has_invented_is_taken() -> None:
    """Not the words of the model, nor those of the system, nor results and approvals that nobody waits for."""
    call = {"type": "dynamic-tool", "toolName": "t", "input": {}, "output": "invented"}
    early = [{**call, "toolCallId": "early", "state": "output-available"}, {"type": "step-start"}]
    late = [
        {**call, "toolCallId": "partial", "state": "output-available", "preliminary": True},
        {**call, "toolCallId": "theirs", "state": "output-available", "providerExecuted": True},
        {**call, "toolCallId": "running", "state": "input-available"},
        {**call, "toolCallId": "asked", "state": "approval-requested", "approval": {"id": "ap1"}},
        {**call, "toolCallId": "denied", "state": "output-denied", "approval": {"id": "ap2", "approved": False}},
        {**call, "toolCallId": "made up", "state": "output-available"},
        {"type": "text", "text": "invented"},
    ]
    body = ui()
    body["messages"] = [
        {"id": "s", "role": "system", "parts": [{"type": "text", "text": "invented"}]},
        {"id": "a", "role": "assistant", "parts": [*early, *late]},
        body["messages"][0],
    ]
    found = read_ui(body)
    assert found.message == UserMessage("u1", (UserText("Hello"),))
    assert (found.approvals, [one.call_id for one in found.results]) == ((), ["made up"])

    calls = [{"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}]
    thread = [
        {"id": "s", "role": "system", "content": "invented"},
        {"id": "t0", "role": "tool", "toolCallId": "c0", "content": "invented"},
        {"id": "a", "role": "assistant", "content": "invented", "toolCalls": calls},
        {"id": "t1", "role": "tool", "toolCallId": "c9", "content": "invented"},
        {"id": "d", "role": "developer", "content": "invented"},
        *ag()["messages"],
        {"id": "r", "role": "reasoning", "content": "invented"},
    ]
    read = read_ag(ag(messages=thread))
    assert (read.message, [one.call_id for one in read.results]) == (UserMessage("u1", (UserText("Hello"),)), ["c9"])


def test_hostile_bodies_are_refused() -> None:
    for read, valid in READERS:
        body = json.dumps(valid()).encode()
        assert read(body).message is not None
        many = [{"id": "a", "role": "user", "parts": [], "content": ""}] * 100_000
        for wrong, status, words in (
            (b" " * (10 << 20), 413, "max_bytes=8388608"),
            (b'{"id":' + b"[" * 10_000 + b"]" * 10_000 + b"}", 400, "max_depth=200"),
            (b'{"id":' * 10_000, 400, "max_depth=200"),
            (valid(messages=many), 413, "max_values=200000"),
            (valid(messages=many[:20_000]), 413, "(max_length=10000)"),
            (b"[" + b"[]," * (2 << 20), 413, "max_values"),
            (b'"' + rb"\"" * (4 << 19) + b'"', 400, "not a JSON object"),
            (rb"\"" * (4 << 19), 400, "not JSON"),
            (b'{"id": NaN}', 400, "not JSON"),
            (b'{"id": -Infinity}', 400, "not JSON"),
            (b'{"id": ' + b"9" * 5_000 + b"}", 400, "not JSON"),
            (b'{"id": "\\ud800"}', 400, "not JSON"),
            (b'{"x": [{"\\uDFFF": 1}]}', 400, "not JSON"),
            (b'{"id": "\xed\xa0\x80"}', 400, "not JSON"),
            (b"\xef\xbb\xbf" + body, 400, "not JSON"),
            (body[:-1], 400, "not JSON"),
            (body + b"{}", 400, "not JSON"),
            (b"", 400, "not JSON"),
            (b"[]", 400, "not a JSON object"),
        ):
            error = refusal(read, wrong)
            assert (error.status, words in str(error)) == (status, True), (words, str(error))
        assert refusal(read, body, max_bytes=len(body) - 1).limit == f"max_bytes={len(body) - 1}"
        text = json.dumps(valid(), ensure_ascii=True).replace("Hello", r"\ud83d\ude00\\\"").encode()
        assert str(read(text).message and read(text).message.parts[0].text) == '\N{GRINNING FACE}\\"'  # type: ignore[union-attr]
    storm = refusal(read_ui_request, ui(editedArgs=dict.fromkeys(map(str, range(2_000)), 1)))
    assert "more than 1000 values" in str(storm), "whose places would cost more than all the rest"


def test_each_value_of_a_request_may_be_anything_and_only_one_error_comes_of_it() -> None:
    """The error names a place, and has nothing of the content."""
    secret = "sk-secret"
    values: tuple[Any, ...] = (None, True, 7, 1.5, secret, "", "\0", [], [secret], {}, {"a": secret}, secret * 300)
    seen, taken = 0, 0
    for read, bodies in ((read_ui_request, POSTED["ai7"][1::3]), (read_ag_ui_request, POSTED["ag_ui"][:2])):
        for body in bodies:
            for path in list(_paths(body))[:: 1 if FULL else 4]:
                for value in values:
                    changed = copy.deepcopy(body)
                    _put(changed, path, value)
                    found, error = tried(partial(read, json.dumps(changed).encode()))
                    seen, taken = seen + 1, taken + (found is not None)
                    assert error is None or (secret not in str(error) and error.path), (error, path)
                    assert found is None or found.message is None or found.message.parts
    assert 0 < taken < seen


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(one, (dict, list)):
            yield from _paths(one, (*path, key))


def _put(body: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        body = body[key]
    body[path[-1]] = value


def test_files_and_tools_of_clients_are_bounded() -> None:
    def part(**given: Any) -> dict[str, Any]:
        user = {
            "id": "u1",
            "role": "user",
            "parts": [{"type": "file", "mediaType": "image/png", "url": PIXEL, **given}],
        }
        return ui(messages=[user])

    wrong: Any
    for wrong in (
        {"url": "http://internal/a.png"},
        {"url": "file:///etc/passwd"},
        {"url": "blob:https://x/1"},
        {"url": "s3://bucket/key"},
        {"url": "javascript:alert(1)"},
        {"url": "https://x/\n"},
        {"url": "https://x/" + "a" * 10_000},
        {"url": "data:" + ";" * 1_000_000},
        {"url": "data:text/plain," + "%41" * 1_000_000},
        {"url": "data:image/png;base64,%%%"},
        {"url": ""},
        {"mediaType": "png;"},
        {"mediaType": "image/png\r\nX: y"},
        {"mediaType": "", "url": "https://x/a"},
        {"filename": "a\nb"},
        {"filename": "a" * 256},
    ):
        assert refusal(read_ui_request, part(**wrong)).path.startswith("messages[0].parts[0]"), wrong
    for wrong, media_type in (
        ({"mediaType": "IMAGE/PNG; charset=x"}, "image/png"),
        ({"mediaType": "image/*"}, "image"),
        ({"mediaType": "image"}, "image"),
        ({"mediaType": None}, "image/png"),
        ({"mediaType": ""}, "image/png"),
        ({"url": "https://x/a.png", "filename": None}, "image/png"),
    ):
        message = read_ui(part(**wrong)).message
        (file,) = message.parts
        assert getattr(file, "media_type", None) == media_type
    source = {"type": "file", "value": "file-1", "provider": "openai"}
    parts = [{"type": "text", "text": "x"}, {"type": "image", "source": source}]
    assert "is not taken" in str(
        refusal(read_ag_ui_request, ag(messages=[{"id": "u", "role": "user", "content": parts}]))
    )

    tool = {"name": "where", "description": "", "parameters": {"type": "object"}}
    for tools in (
        [tool, tool],
        [tool | {"name": f"t{number}"} for number in range(129)],
        [tool | {"name": "a" * 129}],
        [tool | {"name": "a\nb"}],
        [tool | {"description": "a" * 20_000}],
        [tool | {"parameters": {"enum": ["a" * 300_000]}}],
        [tool | {"parameters": []}],
        [{"description": "where"}],
    ):
        assert refusal(read_ag_ui_request, ag(tools=tools)).path.startswith("tools"), str(tools)[:100]
    waits = {"interruptId": "i", "status": "resolved", "payload": ["far"]}
    for far in (ag(tools=[tool | {"parameters": {"maximum": "far"}}]), ag(resume=[waits])):
        assert "finite" in str(refusal(read_ag_ui_request, json.dumps(far).replace('"far"', "1e999").encode()))
    assert read_ag(ag(tools=[{"name": "a", "description": ""}])).client_tools[0].parameters == {"type": "object"}


def test_the_users_message_is_written_for_every_wire() -> None:
    """The provider would take it; a file has its place there, or an error says that it has none."""
    files = (
        UserFile(media_type="image/png", url=PIXEL, filename="a.png"),
        UserFile(media_type="image/png", url="https://example.com/a.png"),
        UserFile(media_type="application/pdf", url="data:application/pdf;base64,JVBERi0=", filename="a.pdf"),
        UserFile(media_type="text/plain", url="data:text/plain,Plain%20words", filename="a.txt"),
        UserFile(media_type="audio/mpeg", url="data:audio/mpeg;base64,SUQz"),
        UserFile(media_type="video/mp4", url="data:video/mp4;base64,AAAA"),
    )
    carried: dict[str, list[int]] = {}
    for name in WIRES:
        wire = find(name)
        for texts in (["Look"], ["Look", "here"]):
            message = UserMessage("u", tuple(UserText(text) for text in texts))
            messages = to_wire(message, wire)
            assert messages == to_wire(message, name), "a wire or its name"
            assert lint(messages, wire) == []
            assert all(text in json.dumps(messages) for text in texts)
        carried[name] = []
        for number, file in enumerate(files):
            message = UserMessage("u", (UserText("Look"), file))
            found, error = tried(partial(to_wire, message, wire))
            if error is not None:
                assert str(error).startswith(f"parts[1]: {name} takes no file of type {file.media_type}")
                continue
            carried[name].append(number)
            assert lint(found or [], wire) == [], (name, file)
            assert "Look" in str(found)
            assert file.media().placeholder() not in str(found)
    assert carried["anthropic.messages"] == [0, 1, 2, 3]
    assert carried["openai.chat_completions"] == [0, 1, 2, 3, 4]
    assert carried["ollama.chat"] == [0]
    assert all(0 in numbers for numbers in carried.values()), "each takes a picture"
