"""aimock (npm: @copilotkit/aimock), a server that speaks many providers' wires as its fixtures say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from pathlib import Path
from types import TracebackType

__all__ = ["ANSWER", "SAYS", "Aimock", "missing"]

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PROGRAM = REPOSITORY / ".aimock" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
CHUNK = 5  # characters in a delta

SAYS = "Let me look."
ANSWER = "It is 5 degrees in Tokyo, Øslo has 4 degrees."
FIXTURES = {
    "fixtures": [
        {"match": {"hasToolResult": True}, "response": {"content": ANSWER}},
        {
            "match": {"userMessage": "weather"},
            "response": {
                "content": SAYS,
                "toolCalls": [
                    {"name": "get_weather", "arguments": {"city": "Tokyo", "days": 2}},
                    {"name": "get_weather", "arguments": {"city": "Oslo"}},
                ],
            },
        },
    ]
}


def missing() -> str:
    """What has to be installed; empty if nothing."""
    if shutil.which("node") is None:
        return "NODE IS NOT INSTALLED"
    return "" if PROGRAM.exists() else "AIMOCK IS NOT INSTALLED (nox -s integrations does it)"


class Aimock:
    """Serves while the block runs."""

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self._folder = folder

    def __enter__(self) -> Aimock:
        fixtures = self._folder / "fixtures.json"
        fixtures.write_text(json.dumps(FIXTURES), encoding="utf-8")
        command = ["node", str(PROGRAM), "-p", "0", "-f", str(fixtures), "-c", str(CHUNK)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"http://[\d.]+:\d+", line):
                self.url = found.group()
                self._log = threading.Thread(target=self._process.communicate, daemon=True)
                self._log.start()  # a full pipe would stop it
                return self
        raise AssertionError(f"aimock ended with status {self._process.wait(5)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._log.join(5)
