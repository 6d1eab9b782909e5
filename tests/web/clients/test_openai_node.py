"""Runs as OpenAI's client for node reads them, and the types of our own frames as TypeScript checks them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from shown_runs import Visit, fed, random_runs, responses, shown_runs, text_of

from streamtools.events import RefusalDelta
from streamtools.web.chat_completions import ChatCompletions
from streamtools.web.encoding import RunEnd, framed
from streamtools.web.own import OwnEvents, typescript

NODE = Path(__file__).parents[3] / ".node-web"
RUNS = 2_000
UNLIKE = ("crashed, with a gap", "contradicted")  # the deltas are not all of the text
pytestmark = [pytest.mark.thorough, pytest.mark.deadline(600)]
needs_node = pytest.mark.skipif(
    not (NODE / "node_modules" / "openai").exists(), reason="node's packages are not installed: make test-web"
)


def encoder_after(before: Visit) -> ChatCompletions:
    encoder = ChatCompletions("m", include_usage=True)
    for event in before:
        encoder(event)
    return encoder


@needs_node
def test_openai_for_node_reads_every_run_and_has_each_text_and_call_once(tmp_path: Path) -> None:
    cases = list(responses({**shown_runs(), **random_runs(RUNS)}))
    lines, wholes = [], {}
    for name, before, visit in cases:
        body = b"".join(map(framed, fed(encoder_after(before), visit))).decode()
        whole = wholes[name] = encoder_after(before).whole(visit)
        lines.append(
            json.dumps({"name": name, "body": body, "whole": whole, "status": 500 if "error" in whole else 200})
        )
    (tmp_path / "runs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    script = NODE / "openai_client.mjs"  # beside node_modules, where node looks for them
    script.write_bytes(Path(__file__).with_name("openai_client.mjs").read_bytes())
    done = subprocess.run(
        ["node", str(script), str(tmp_path / "runs.jsonl")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
    assert [one["name"] for one in read] == [name for name, _, _ in cases]
    problems = []
    for one, (name, _, visit) in zip(read, cases, strict=True):
        whole, end = wholes[name], visit[-1]
        assert isinstance(end, RunEnd)
        if "error" in whole:
            wanted: Any = {"error": whole["error"]["message"]}
            found = [one["streamed"], {"error": one["whole"]["error"].removeprefix("500 ")}]
        else:
            message = whole["choices"][0]["message"]
            wanted = (
                message["content"] if name in UNLIKE else text_of(visit) or None,
                text_of(visit, RefusalDelta, "") or None,
                message.get("tool_calls", []),
                whole["choices"][0]["finish_reason"],
            )
            found = [_told(one["streamed"]), _told(one["whole"])]
        if found != [wanted, wanted]:
            problems.append((name, wanted, found))
    assert not problems, (len(problems), problems[:3])


def _told(read: dict[str, Any]) -> Any:
    if "error" in read:
        return read
    message = read["message"]["message"]
    calls = [
        {
            "id": call["id"],
            "type": call["type"],
            "function": {key: call["function"][key] for key in ("name", "arguments")},
        }
        for call in message.get("tool_calls") or ()
    ]
    return message.get("content") or None, message.get("refusal") or None, calls, read["message"]["finish_reason"]


@needs_node
def test_typescript_takes_every_frame_of_ours_and_no_other(tmp_path: Path) -> None:
    frames = {json.dumps(data) for visits in shown_runs().values() for visit in visits
              for _, data in fed(OwnEvents(), visit)}  # fmt: skip
    (tmp_path / "events.d.ts").write_text(typescript(), encoding="utf-8")
    head = 'import type { RunEvent } from "./events";\n'
    narrowed = 'export const outcome = (one: RunEvent) => (one.event === "observation" ? one.outcome : one.event);\n'
    good = "\n".join(f"const at{number}: RunEvent = {frame};" for number, frame in enumerate(sorted(frames)))
    assert len(frames) > 300
    (tmp_path / "good.ts").write_text(f"{head}{narrowed}{good}\nexport {{}};\n", encoding="utf-8")
    bad = [
        '{event: "other"}',
        '{event: "step_end", seq: 1, step: 0, outcome: "odd"}',
        '{event: "run_end", outcome: "x"}',
        '{event: "text_delta", seq: 1, step: 0, text: "a", more: 1}',
        '{event: "gap", seq: "1"}',
    ]
    wrong = "\n".join(f"export const at{number}: RunEvent = {frame};" for number, frame in enumerate(bad))
    (tmp_path / "bad.ts").write_text(head + wrong, encoding="utf-8")
    tsc = [str(NODE / "node_modules" / ".bin" / "tsc"), "--noEmit", "--strict", "--skipLibCheck", "false"]
    for name, errors in (("good.ts", 0), ("bad.ts", len(bad))):
        done = subprocess.run([*tsc, str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert done.stdout.count("error TS") == errors, done.stdout[:2000]
        assert (done.returncode == 0) is (errors == 0)
