"""What the model was trained with is what it is used with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from runpy import run_path

from demo.server import MODEL
from demo.tools import TOOLS

SCRIPTS = Path(__file__).resolve().parents[2] / "demo" / "tiny_llm"


def test_the_model_carries_the_template_that_its_training_used() -> None:
    assert run_path(str(SCRIPTS / "template.py"))["TEMPLATE"].encode() in MODEL.read_bytes()


def test_the_demos_tools_have_the_names_and_parameters_that_the_model_knows() -> None:
    known = run_path(str(SCRIPTS / "tools.py"))["TOOLS"]
    for tool in TOOLS:
        kinds = {name: schema["type"] for name, schema in tool.schema["properties"].items()}
        assert kinds == {name: kind for name, (kind, _) in known[tool.name].params.items()}


def test_the_training_dialogues_can_be_drawn_and_are_the_same_every_time() -> None:
    command = [sys.executable, "-B", str(SCRIPTS / "dialogues.py"), "7"]
    first, second = (subprocess.run(command, capture_output=True, check=True, timeout=30).stdout for _ in range(2))
    assert first == second
    assert first.count(b"<|im_start|>assistant") >= 12
