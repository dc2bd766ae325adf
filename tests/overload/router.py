"""A router of its own for a test, and the command."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))


def nw(*arguments, **options):
    """Runs the command and returns its completed process."""
    return subprocess.run(
        [NW, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=options.pop("seconds", 60),
        **options,
    )


def skip(reason):
    raise unittest.SkipTest(reason)


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def free_port(kind):
    with socket.socket(type=kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    """`nw run` with a Unix socket and a UDP port in a directory of its own."""

    def __init__(self, env=None):
        self.folder = tempfile.mkdtemp(prefix="nw-overload-")
        self.uri = f"unix://{self.folder}/nw.sock"
        self.udp = f"udp4://127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        address = self.udp.removeprefix("udp4://")
        config = Path(self.folder, "nw.toml")
        config.write_text(
            f'[faces.unix]\npath = "{self.folder}/nw.sock"\n[faces.tcp]\nlisten = []\n'
            f'[faces.udp]\nlisten = ["{address}"]\n[log]\nlevel = "error"\n'
        )
        self.process = subprocess.Popen(
            [NW, "run", "--config", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        end = time.monotonic() + 20
        while not os.path.exists(f"{self.folder}/nw.sock"):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("nw run did not come up")
            time.sleep(0.05)

    def close(self):
        end_process(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def end_process(process):
    """Ends a process that a test started, and waits for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
