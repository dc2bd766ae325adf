"""Builds packages with tools/package, once for each version and test run."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NW = Path(os.environ.get("NW_BIN", ROOT / "target/release/nw")).resolve()


@functools.cache
def build(package_format, version):
    """Returns the path of a package of the command under test. It is not compressed well."""
    folder = tempfile.mkdtemp(prefix="nw-package-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    completed = subprocess.run(
        [
            str(ROOT / "tools/package"),
            package_format,
            "--binary",
            str(NW),
            "--version",
            version,
            "--output",
            folder,
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PACKAGE_LEVEL": "0"},
    )
    if completed.returncode != 0:
        raise AssertionError(f"tools/package {package_format}: {completed.stderr}")
    return Path(completed.stdout.splitlines()[-1])
