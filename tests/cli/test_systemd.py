"""What systemd expects of a router: notifications, the watchdog, socket activation, valid units."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S
from control_socket import ControlSocketTest


ROOT = Path(__file__).resolve().parents[2]


class Systemd(ControlSocketTest):
    def notify_socket(self, abstract=False):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        name = f"\0nw-test-{os.getpid()}-{id(s)}" if abstract else f"{self.folder}/notify"
        s.bind(name)
        s.settimeout(TIMEOUT_S)
        self.addCleanup(s.close)
        return s, name.replace("\0", "@")

    def config(self, extra=""):
        path = Path(self.folder) / "nw.toml"
        path.write_text(
            f'[faces.unix]\npath = "{self.folder}/own.sock"\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n{extra}'
        )
        return path

    def wait_for(self, notify, *expected):
        """Reads notifications as systemd does, until all expected lines came."""
        expected, output = set(expected), []
        while expected:
            lines = notify.recv(4096).decode().split("\n")
            output.extend(lines)
            expected -= set(lines)
        return output

    def run_router(self, config, **environment):
        process = subprocess.Popen(
            [NW, "run", "-c", config], stderr=subprocess.PIPE, env={**os.environ, **environment}
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_notifications_follow_router_state(self):
        for abstract in (False, True):
            notify, name = self.notify_socket(abstract)
            process = self.run_router(self.config(), NOTIFY_SOCKET=name, WATCHDOG_USEC="400000")
            self.wait_for(notify, "READY=1")
            self.assertTrue(Path(f"{self.folder}/own.sock").exists(), "it listens before READY=1")
            began = time.monotonic()
            for _ in range(3):
                output = self.wait_for(notify, "WATCHDOG=1")
            self.assertLess(time.monotonic() - began, 5)
            self.assertTrue(
                any(re.match(r"STATUS=0 faces, \d+ prefixes", line) for line in output), output
            )
            process.send_signal(signal.SIGHUP)
            output = self.wait_for(notify, "RELOADING=1", "READY=1")
            self.assertTrue(any(line.startswith("MONOTONIC_USEC=") for line in output))
            process.send_signal(signal.SIGTERM)
            self.wait_for(notify, "STOPPING=1")
            self.assertEqual(process.wait(TIMEOUT_S), 0)

    def test_watchdog_of_stopped_process_is_silent(self):
        notify, name = self.notify_socket()
        process = self.run_router(self.config(), NOTIFY_SOCKET=name, WATCHDOG_USEC="400000")
        self.wait_for(notify, "READY=1", "WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        notify.setblocking(False)
        try:
            while notify.recv(4096):
                pass
        except BlockingIOError:
            pass
        time.sleep(1)
        self.assertRaises(BlockingIOError, notify.recv, 4096)
        process.send_signal(signal.SIGCONT)
        notify.settimeout(TIMEOUT_S)
        self.wait_for(notify, "WATCHDOG=1")

    def test_socket_activation_uses_inherited_socket(self):
        path = f"{self.folder}/activated.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(16)
        # An application connects before the router starts.
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{path}"}
        early = subprocess.Popen([NW, "status", "--json"], env=environment, stdout=subprocess.PIPE)
        self.addCleanup(early.communicate)

        def start(passed, config):
            def prepare():
                # If the descriptor is already number 3, dup2 makes no copy without the
                # close-on-exec flag.
                os.set_inheritable(passed, True)
                os.dup2(passed, 3)

            args = ["sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" run -c "$1"', NW, str(config)]
            process = subprocess.Popen(
                args, stderr=subprocess.PIPE, preexec_fn=prepare, close_fds=False
            )
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            return process

        process = start(listener.fileno(), self.config())
        out, _ = early.communicate(timeout=TIMEOUT_S)
        self.assertIn(
            f"unix://{path}", [channel["local_uri"] for channel in json.loads(out)["channels"]]
        )
        self.assertFalse(
            Path(f"{self.folder}/own.sock").exists(), "the socket that was passed takes its place"
        )
        self.assertTrue(Path(f"{self.folder}/activated.control.sock").exists())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(TIMEOUT_S), 0)
        self.assertTrue(Path(path).exists(), "the file belongs to systemd")
        with socket.socket(socket.AF_INET) as wrong:
            wrong.bind(("127.0.0.1", 0))
            wrong.listen(1)
            process = start(wrong.fileno(), self.config())
            self.assertEqual(process.wait(TIMEOUT_S), 1)
            self.assertIn(b"passed descriptor 3", process.stderr.read())

    def test_units_pass_systemd_analyze(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not there")
        folder = Path(self.folder) / "units"
        folder.mkdir()
        for unit in ("namewire.service", "namewire.socket"):
            text = (ROOT / "deploy/systemd" / unit).read_text()
            (folder / unit).write_text(text.replace("/usr/local/bin/nw", NW))
        completed = subprocess.run(
            [
                "systemd-analyze",
                "verify",
                "--man=no",
                folder / "namewire.service",
                folder / "namewire.socket",
            ],
            capture_output=True,
            text=True,
        )
        ours = [
            line
            for line in (completed.stdout + completed.stderr).splitlines()
            if "namewire" in line
        ]
        self.assertEqual(ours, [], completed.stderr)


if __name__ == "__main__":
    unittest.main()
