"""NDNd, a forwarder, routing daemon and tools of others, built from its Go module by tests/interop/ndnd/build."""

import functools
import os
import subprocess
from pathlib import Path

BUILD = Path(__file__).resolve().parents[1] / "interop/ndnd/build"


@functools.cache
def find():
    """Returns the program's path and None, or None and the reason why it is not here."""
    if "NDND_BIN" in os.environ:
        return os.environ["NDND_BIN"], None
    done = subprocess.run([BUILD], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return done.stdout.strip(), None
    lines = done.stderr.strip().splitlines()
    return None, "NDNd can't be built: " + (lines[-1] if lines else f"status {done.returncode}")
