"""``python -m streamtools`` is the command ``streamtools``."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
