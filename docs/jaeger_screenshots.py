"""Makes the pictures of a Jaeger from a run of the demo: ``python docs/jaeger_screenshots.py``, where Chromium is.

``STREAMTOOLS_JAEGER_URL`` is Jaeger's interface (``http://localhost:16686``), ``OTEL_EXPORTER_OTLP_ENDPOINT`` where it
takes spans (``http://localhost:4318``), as for `nox -s backends`.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from demo import Options, run  # noqa: E402  # the repository comes first

PICTURES = ROOT / "docs" / "pictures"
NEEDED = ("STREAMTOOLS_JAEGER_URL", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars",
         "--virtual-time-budget=8000")  # fmt: skip
PATIENCE_S = 30.0


def main() -> int:
    """Writes the pictures; returns the exit status."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    missing = [*(name for name in NEEDED if not os.environ.get(name)), *(() if chromium else ("Chromium",))]
    if chromium is None or missing:
        print(f"missing: {', '.join(missing)}", file=sys.stderr)
        return 1
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"  # Jaeger shows arguments and results
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "demo.json")
        run(Options(trace=file), io.StringIO())
        (resource, *_) = json.loads(file.read_bytes())["resourceSpans"]
        trace_id = resource["scopeSpans"][0]["spans"][0]["traceId"]
    jaeger = os.environ[NEEDED[0]].rstrip("/")
    address = f"{jaeger}/trace/{trace_id}"
    wait_for(f"{jaeger}/api/v3/traces/{trace_id}")
    for name, query, height in (("trace", "", 532), ("chat", "?uiFind=get_weather", 828)):
        picture = PICTURES / f"jaeger-{name}.png"
        command = [chromium, *FLAGS, f"--window-size=1280,{height}", f"--screenshot={picture}", address + query]
        subprocess.run(command, check=True, capture_output=True)
    return 0


def wait_for(address: str) -> None:
    """Returns once Jaeger has the trace.

    Raises:
        OSError: it does not have it in time.
    """
    ends = time.monotonic() + PATIENCE_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE_S).close()
            return
        except OSError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
