"""The checks of this project: which there are (steps), how one is run and counted (tasks), in what
order (schedule), and what their outcome means (verdict). tools/check is the command."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
PROFILE = "checks"
# The module `evidence` reads which tests the feature tables name.
sys.path.insert(0, str(ROOT / "tests"))
