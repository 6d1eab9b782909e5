"""Makes the pictures of the pages from a run of the demo: ``python docs/screenshots.py``, with Chromium installed.

The page is opened in a headless Chromium in both themes, and the terminal's view is written as it stands. The demo's
model is on this machine, so nothing but the times differs from one run to the next.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402  # the repository comes first

from demo import Options, run  # noqa: E402
from streamtools.record import Recording  # noqa: E402
from streamtools.view import draw_recordings  # noqa: E402
from streamtools.view.terminal import show  # noqa: E402

PICTURES = ROOT / "docs" / "pictures"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--virtual-time-budget=3000")


def main() -> int:
    """Writes the pictures; returns the exit status."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        print("there is no Chromium: apt install chromium", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "demo.json")
        run(Options(trace=trace), io.StringIO())
        for theme in ("light", "dark"):
            picture = PICTURES / f"demo-page-{theme}.png"
            page = f"{trace.with_suffix('.html').as_uri()}?theme={theme}#c2"
            subprocess.run(
                [chromium, *FLAGS, "--window-size=1280,800", f"--screenshot={picture}", page],
                check=True,
                capture_output=True,
            )
        console = Console(width=100, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
        show(draw_recordings(Recording.read_all(trace.with_suffix(".jsonl")), "the demo"), console)
        console.save_svg(str(PICTURES / "demo-terminal.svg"), title="streamtools view demo.jsonl --terminal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
