"""What tests get: the router's sockets, scratch files, and processes that end with the test."""

import asyncio
import hashlib
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path

TESTS: list = []
HERE = Path(__file__).resolve().parent


class Failed(Exception):
    """A client got a wrong result."""


class Skipped(Exception):
    """The test can't run here."""


def test(name, limit=25.0):
    """Register a coroutine function taking the harness. `limit`: seconds."""

    def register(fn):
        TESTS.append((name, limit, fn))
        return fn

    return register


def check(condition, message):
    if not condition:
        raise Failed(message)


def equal(got, expected, what):
    if got != expected:
        raise Failed(f"{what}: got {str(got)[:300]!r}, want {str(expected)[:300]!r}")


class Process:
    """A program started by a test."""

    def __init__(self, proc, command):
        self.proc, self.command, self.lines = proc, command, []
        self._reader = asyncio.create_task(self._read())

    async def _read(self):
        async for line in self.proc.stdout:
            self.lines.append(line.decode(errors="replace").rstrip())

    async def wait_line(self, pattern, within=15.0):
        end = time.monotonic() + within
        while time.monotonic() < end:
            if any(re.search(pattern, x) for x in self.lines):
                return
            if self.proc.returncode is not None:
                break
            await asyncio.sleep(0.02)
        raise Failed(
            f"{self.command} did not print {pattern!r}; it printed: " + " | ".join(self.lines[-6:])
        )

    async def stop(self, how=signal.SIGTERM):
        if self.proc.returncode is None:
            if self.proc.stdin:
                self.proc.stdin.close()
            try:
                self.proc.send_signal(how)
                await asyncio.wait_for(self.proc.wait(), 5)
            except ProcessLookupError:
                pass
            except asyncio.TimeoutError:
                self.proc.kill()
                await self.proc.wait()
        self._reader.cancel()


class Harness:
    """Addresses of the router and helpers; one per run."""

    def __init__(
        self, unix, tcp, udp, ws, scratch: Path, cache: Path | None, nw: str | None, localhop: bool
    ):
        self.uris = {
            "unix": f"unix://{unix}" if unix else None,
            "tcp": f"tcp4://{tcp}" if tcp else None,
            "udp": f"udp4://{udp}" if udp else None,
            "ws": f"ws://{ws}" if ws else None,
        }
        self.scratch, self.cache, self.nw, self.localhop = scratch, cache, nw, localhop
        self.home = scratch / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self._processes: list[Process] = []
        self._count = 0

    def uri(self, transport):
        if not self.uris[transport]:
            raise Skipped(f"no {transport} address")
        return self.uris[transport]

    def prefix(self) -> str:
        """Returns a new name prefix."""
        self._count += 1
        return f"/nwi/{os.getpid():x}/{self._count}"

    def env(self, transport="unix"):
        return {
            **os.environ,
            "HOME": str(self.home),
            "NDN_CLIENT_TRANSPORT": self.uri(transport),
            "PYTHONUNBUFFERED": "1",
        }

    def file(self, name, size, seed=1) -> Path:
        path = self.scratch / name
        path.write_bytes(random.Random(seed).randbytes(size))
        return path

    def script(self, name) -> str:
        """Returns the path of a program in the virtual environment."""
        return str(Path(sys.executable).parent / name)

    def node(self, script, *args):
        if self.cache is None:
            raise Skipped("no node packages")
        return ["node", str(self.cache / "node" / script), *args]

    def java(self, source, *args):
        jars = self.cache / "java" if self.cache else None
        if not jars or not jars.exists() or not shutil.which("java"):
            raise Skipped("no Java or no Maven")
        return ["java", "-cp", f"{jars}/*", str(HERE / "java" / source), *args]

    def nw_command(self, *args):
        if self.nw is None:
            raise Skipped("no nw binary")
        return [self.nw, *args]

    async def start(self, command, transport="unix", stdin=True) -> Process:
        proc = await asyncio.create_subprocess_exec(
            *command,
            env=self.env(transport),
            cwd=self.scratch,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
        )
        p = Process(proc, " ".join(Path(x).name for x in command[:4]))
        self._processes.append(p)
        return p

    async def run(self, command, transport="unix", within=20.0, fails=False) -> str:
        """Runs a command to its end and returns its output; fails unless the status is 0."""
        p = await self.start(command, transport, stdin=False)
        try:
            code = await asyncio.wait_for(p.proc.wait(), within)
        except asyncio.TimeoutError:
            raise Failed(
                f"{p.command} not done within {within:.0f} s: " + " | ".join(p.lines[-6:])
            ) from None
        await asyncio.sleep(0)
        await asyncio.wait_for(p._reader, 2)
        out = "\n".join(p.lines)
        if code != 0 and not fails:
            raise Failed(f"{p.command} ended with {code}: {out[-600:]}")
        return out

    async def stop_processes(self):
        for p in self._processes:
            await p.stop()
        self._processes.clear()


def sha256(path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
