"""A Docker engine of the tests: started by hand, in a folder and a network namespace of its own, so
that it meets neither another engine nor the firewall of the machine."""

import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
START_TIMEOUT_S = 30
TIMEOUT_S = 60


def missing():
    """Returns why no engine can be started here, or None."""
    if os.geteuid() != 0:
        return "a Docker engine needs root"
    programs = ("dockerd", "docker", "containerd", "ctr", "unshare")
    absent = [program for program in programs if not shutil.which(program)]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install docker.io"
    return None


class ContainerEngine:
    """A Docker engine with the containerd that it starts. `close` leaves nothing behind."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="nw-docker-"))
        self.socket = self.folder / "docker.sock"
        self.group = f"nw-docker-{os.getpid()}"
        (self.folder / "daemon.json").write_text("{}")
        options = [
            f"--config-file={self.folder}/daemon.json",
            f"--host=unix://{self.socket}",
            f"--data-root={self.folder}/data",
            f"--exec-root={self.folder}/exec",
            f"--pidfile={self.folder}/pid",
            f"--cgroup-parent=/{self.group}",
        ]
        self.log = (self.folder / "log").open("w+")
        self.process = subprocess.Popen(
            [
                "unshare",
                "--net",
                "sh",
                "-c",
                'ip link set lo up; exec dockerd "$@"',
                "sh",
                *options,
            ],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.run("docker", "version", check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                reason = self.log.read().strip().splitlines()[-1:]
                self.close()
                raise unittest.SkipTest(f"the Docker engine does not start here: {reason}")
            time.sleep(0.1)

    @property
    def environment(self):
        # The client keeps no state and reads no configuration of the user.
        return {
            **os.environ,
            "DOCKER_HOST": f"unix://{self.socket}",
            "DOCKER_CONFIG": str(self.folder),
            "HOME": str(self.folder),
        }

    def run(self, *command, check=True, **more):
        done = subprocess.run(
            command,
            check=False,
            env=self.environment | more.pop("env", {}),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            **more,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
        return done

    def docker(self, *arguments, **more):
        return self.run("docker", *arguments, **more).stdout.strip()

    def ctr(self, *arguments):
        socket = self.folder / "exec/containerd/containerd.sock"
        return self.run("ctr", "-a", socket, "-n", "nw-test", *arguments).stdout

    def close(self):
        if self.process.poll() is None:
            found = self.run("docker", "ps", "-aq", check=False).stdout.split()
            if found:
                self.run("docker", "rm", "-f", *found, check=False)
            self.process.terminate()
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        below = [
            line.split()[1] for line in mounts if line.split()[1].startswith(f"{self.folder}/")
        ]
        for mount in reversed(below):
            subprocess.run(["umount", "-l", mount], check=False)
        for group in Path("/sys/fs/cgroup").glob(f"**/{self.group}"):
            for path in [*sorted(group.glob("**/"), reverse=True)]:
                if path.is_dir():
                    path.rmdir()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(condition, what, timeout_s=TIMEOUT_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.1)


class EngineTest(unittest.TestCase):
    """Tests that share one engine with one loaded image."""

    IMAGE = "namewire:test"

    @classmethod
    def setUpClass(cls):
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)
        cls.engine = ContainerEngine()
        cls.addClassCleanup(cls.engine.close)
        cls.archive = cls.engine.folder / "image.tar"
        command = [NW, "image", "build", "--tag", cls.IMAGE, "--output", cls.archive]
        cls.built = cls.engine.run(*command).stdout
        cls.engine.docker("load", "-i", cls.archive)
