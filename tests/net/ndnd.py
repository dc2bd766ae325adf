"""NDNd, another project's forwarder, routing daemon and tools, built from its Go module by
tests/interop/ndnd/build."""

import functools
import os
import subprocess
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "interop/ndnd/build"


@functools.cache
def find():
    """Returns the program's path and None, or None and the reason for its absence."""
    if "NDND_BIN" in os.environ:
        return os.environ["NDND_BIN"], None
    completed = subprocess.run([BUILD], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if completed.returncode == 0:
        return completed.stdout.strip(), None
    lines = completed.stderr.strip().splitlines()
    return None, "NDNd can't be built: " + (
        lines[-1] if lines else f"status {completed.returncode}"
    )
