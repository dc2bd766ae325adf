"""A scratch directory with a router of its own and one shell in it: where the examples of one page
run."""

import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from blocks import missing

TIMEOUT_S = 60
# With NW_EXAMPLES, the folder of compiled examples, no cargo is needed.
EXAMPLE = re.compile(r"^cargo run -q -p nw-app --example (\w+)")
# The address of another machine in the pages; here it is this one.
ELSEWHERE, HERE = "192.0.2.", "127.0.9."


class Failed(Exception):
    pass


def free_port(kind):
    with socket.socket(socket.AF_INET, kind) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Session:
    def __init__(self, root, nw, cache):
        self.root = root
        self.folder = Path(tempfile.mkdtemp(prefix="nw-docs-"))
        self.place = self.folder / "work"
        for folder in ("work", "home", "bin", "config/namewire", "run"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "bin/nw").symlink_to(Path(nw).resolve())
        if (cache / "node/node_modules").exists():
            (self.place / "node_modules").symlink_to(cache / "node/node_modules")
        self.socket = self.folder / "run/nfd.sock"
        (self.folder / "config/namewire/nw.toml").write_text(
            f'[faces.unix]\npath = "{self.socket}"\n'
            f'[faces.udp]\nlisten = ["127.0.0.1:{free_port(socket.SOCK_DGRAM)}"]\n'
            f'[faces.tcp]\nlisten = ["127.0.0.1:{free_port(socket.SOCK_STREAM)}"]\n'
        )
        self.environment = {
            **os.environ,
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            # Rust's own tools keep their home; everything else uses this one.
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
            "HOME": str(self.folder / "home"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}",
            "NODE_OPTIONS": f"--import={cache}/node/shims.mjs",
            "PYTHONUNBUFFERED": "1",
        }
        for name in ("NDN_CLIENT_PIB", "NDN_CLIENT_TPM", "XDG_RUNTIME_DIR"):
            self.environment.pop(name, None)
        self.log = open(self.folder / "router.log", "w")
        self.router = subprocess.Popen(
            [self.folder / "bin/nw", "run"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stderr=self.log,
        )
        self.shell = None
        try:
            self.wait_for_router()
            self.start_shell()
        except BaseException:
            self.end(keep=True)
            raise

    def wait_for_router(self):
        deadline = time.monotonic() + 10
        while True:
            with socket.socket(socket.AF_UNIX) as s:
                if s.connect_ex(str(self.socket)) == 0:
                    return
            if self.router.poll() is not None or time.monotonic() > deadline:
                raise Failed(
                    "the router did not start: " + (self.folder / "router.log").read_text()
                )
            time.sleep(0.02)

    def start_shell(self):
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=self.place,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A process group of its own, so that background commands end with it.
            start_new_session=True,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.collect, daemon=True).start()

    def collect(self):
        for line in self.shell.stdout:
            self.lines.put(line.decode(errors="replace").rstrip("\n"))
        self.lines.put(None)

    def run(self, step):
        """Runs a command as if typed, and checks its output against the shown one."""
        command, expected = (
            text.replace(ELSEWHERE, HERE) for text in (step.command, "\n".join(step.expected))
        )
        expected = expected.splitlines()
        background = command.rstrip().endswith("&")
        if background and not expected:
            raise Failed("a background program needs a shown line, which the runner waits for")
        if "NW_EXAMPLES" in os.environ:
            command = EXAMPLE.sub(os.environ["NW_EXAMPLES"] + r"/\1", command)
        elif command.startswith("cargo "):
            command = f"(cd {self.root} && {command.rstrip('& ')})" + (" &" if background else "")
        mark = f"--{time.monotonic_ns()}--"
        # A command must not read the rest of the page as its input.
        self.shell.stdin.write(
            f"{{ {command}\n}} </dev/null\nprintf '\\n%s %s\\n' '{mark}' \"$?\"\n".encode()
        )
        self.shell.stdin.flush()
        printed, code, deadline = [], None, time.monotonic() + TIMEOUT_S
        while code is None or background and missing(expected, printed) is not None:
            try:
                line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                output = "\n    ".join(printed[-20:])
                raise Failed(
                    f"not done after {TIMEOUT_S} s, or the shell ended; it printed:\n    {output}"
                )
            if line.startswith(mark):
                code = int(line.split()[1])
            else:
                printed.append(line)
        output = "\n    ".join(printed[-40:])
        line = missing(expected, printed)
        if line is not None:
            raise Failed(
                f"this line is shown but was not printed:\n    {line}\n  it printed:\n    {output}"
            )
        refused = any(line.startswith("nw: ") for line in expected)
        if (code != 0) != refused and not background:
            raise Failed(f"ended with {code}; it printed:\n    {output}")

    def end(self, keep=False):
        """Ends all started processes. Returns a fault of the router, or an empty string."""
        if self.shell is not None:
            for signal_number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(self.shell.pid, signal_number)
                    time.sleep(0.2)
                except ProcessLookupError:
                    break
            self.shell.wait()
        faults = ""
        if self.router.poll() is None:
            self.router.terminate()
            try:
                if self.router.wait(10) != 0:
                    faults = f"the router ended with {self.router.returncode}"
            except subprocess.TimeoutExpired:
                self.router.kill()
                self.router.wait()
                faults = "the router did not end on SIGTERM"
        else:
            faults = f"the router had ended with {self.router.returncode}"
        self.log.close()
        if keep or faults:
            print(f"left for inspection: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
        return faults
