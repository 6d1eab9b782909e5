"""The real server with the real model. Takes a quarter of a second in all."""

from __future__ import annotations

import json
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from demo.errors import DemoError
from demo.server import MODEL, ModelServer, installed

needs_server = pytest.mark.skipif(
    not installed(), reason="THE MODEL SERVER IS NOT INSTALLED: nothing was asked of the real model"
)


@needs_server
def test_it_serves_the_model_on_a_free_port_of_this_machine() -> None:
    with ModelServer() as one, ModelServer() as other:
        assert one.url.startswith("http://127.0.0.1:")
        assert one.url != other.url
        with urllib.request.urlopen(f"{one.url}/v1/models", timeout=10) as response:
            assert json.load(response)["data"][0]["id"] == MODEL.name


@needs_server
def test_it_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with ModelServer():
        pass
    assert capfd.readouterr() == ("", "")


@needs_server
@pytest.mark.thorough
def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DemoError, match=f"^cannot listen on 127.0.0.1 port {port}: "), ModelServer(port=port):
            pass


@needs_server
def test_a_file_that_is_no_model_is_told(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("GGUG", encoding="utf-8")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(MODEL.read_bytes()[:2000])
    for file, problem in [
        (tmp_path / "missing.gguf", "there is no model file .*missing.gguf"),
        (tmp_path, "cannot read the model file .*: .+"),
        (text, ".*text.gguf is no GGUF file"),
        (broken, "the model server did not start with .*broken.gguf; --verbose shows its log"),
    ]:
        with pytest.raises(DemoError, match=f"^{problem}$"), ModelServer(file):
            pass


def test_without_the_server_one_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(DemoError, match=r"pip install -e '\.\[demo\]'$"), ModelServer():
        pass
