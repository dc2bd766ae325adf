"""What the tests of the command share: a router with its own folder, and `nw` run as a user types
it."""

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

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
TIMEOUT_S = 20


def free_port(kind=socket.SOCK_DGRAM):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Router:
    """A router started by this test, with its own folder; ended by its process id."""

    def __init__(self, folder, name="r", extra=""):
        self.folder, self.socket = Path(folder), Path(folder) / f"{name}.sock"
        self.udp, self.tcp = free_port(), free_port(socket.SOCK_STREAM)
        self.config = Path(folder) / f"{name}.toml"
        self.write(extra)
        self.log = open(Path(folder) / f"{name}.log", "w+")
        self.process = subprocess.Popen(
            [NW, "run", "-c", self.config], stderr=self.log, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + TIMEOUT_S
        while not self.is_listening():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the router did not start: " + self.log_text())
            time.sleep(0.02)
        # The control socket is opened after the one for applications. With a log level below info
        # the router prints no line when it is ready, so the wait has a limit.
        soon = time.monotonic() + 1
        while " running " not in self.log_text() and time.monotonic() < soon:
            time.sleep(0.01)

    def write(self, extra):
        self.config.write_text(
            f'[faces.unix]\npath = "{self.socket}"\n'
            f'[faces.udp]\nlisten = ["127.0.0.1:{self.udp}"]\n'
            f'[faces.tcp]\nlisten = ["127.0.0.1:{self.tcp}"]\n{extra}'
        )

    def is_listening(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.socket)) == 0

    def log_text(self):
        self.log.flush()
        return Path(self.log.name).read_text()

    def environment(self):
        return {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}

    def end(self, ending=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(ending)
        code = self.process.wait(TIMEOUT_S)
        self.log.close()
        return code


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def router(self, name="r", extra=""):
        router = Router(self.folder, name, extra)
        self.addCleanup(router.end)
        return router

    def nw(self, *args, router=None, code=0, stdin=b"", timeout=TIMEOUT_S, **options):
        environment = (
            router.environment()
            if router
            else {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.folder}/none.sock"}
        )
        completed = subprocess.run(
            [NW, *map(str, args)],
            input=stdin,
            capture_output=True,
            timeout=timeout,
            env=environment,
            **options,
        )
        self.assertEqual(
            completed.returncode,
            code,
            f"nw {args}: {completed.stdout[-400:]!r} {completed.stderr[-800:]!r}",
        )
        return completed

    def start(self, router, *args):
        process = subprocess.Popen(
            [NW, *map(str, args)],
            env=router.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

        def finish():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(finish)
        return process

    def put(self, router, name, content, *args):
        path = Path(self.folder) / "source"
        path.write_bytes(content)
        process = self.start(router, "put", "--json", *args, name, path)
        ready = json.loads(process.stdout.readline())
        self.assertEqual(ready["event"], "ready")
        return process, ready

    def until(self, condition, description):
        for _ in range(250):
            if condition():
                return
            time.sleep(0.02)
        self.fail(description)

    def sentence(self, completed):
        """Checks that nw printed one line of error text without a panic, and returns it."""
        text = completed.stderr.decode()
        self.assertTrue(text.startswith("nw: "), text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertNotIn("panicked", text)
        return text
