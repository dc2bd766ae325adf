"""Starts a cluster by `nw lab cluster --json` and drives it: commands in, JSON out."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from waiting import TIMEOUT_S, until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
COUNTED_S = 0.6


def missing_requirement():
    """Returns why no cluster can be built here; None when one can."""
    if not Path(NW).exists():
        return f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
    try:
        with Cluster("--members", 1):
            return None
    except Failed as e:
        output = str(e)
        # Only what this machine lacks is a reason to skip; anything else is a test failure.
        if "root" in output or "refused" in output or "can't be run" in output or "CAP_" in output:
            return output
        raise


class Failed(Exception):
    """An error reported by `nw lab`."""


class Cluster:
    def __init__(self, *args):
        self.args = [str(word) for word in args]

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [NW, "lab", "cluster", "--json", *self.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.running = []
        try:
            self.take(self.read())
        except BaseException:
            self.__exit__()
            raise
        self.files = Path(tempfile.mkdtemp(prefix="nw-net-"))
        return self

    def __exit__(self, *_):
        for process in self.running:
            process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                subprocess.run([NW, "lab", "clean"], capture_output=True, check=False)
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()
        if hasattr(self, "files"):
            shutil.rmtree(self.files, ignore_errors=True)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait(TIMEOUT_S)
            self.log.seek(0)
            raise Failed(self.log.read().strip())
        return json.loads(line)

    def take(self, description):
        self.description = description
        self.name, self.folder, self.uri = (
            description["name"],
            Path(description["folder"]),
            description["cluster"]["uri"],
        )
        for role in ("consumers", "balancers", "members", "producers"):
            setattr(self, role, description[role])

    def execute(self, *args):
        """Executes a console command and returns its result."""
        self.process.stdin.write(" ".join(map(str, args)) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "failed" in answer:
            raise Failed(answer["error"])
        return answer["value"]

    def status(self):
        return self.execute("status")

    def refresh(self):
        """Reads the current nodes again."""
        self.take(self.execute("picture"))

    def states(self):
        return {member["name"]: member["state"] for member in self.status()["members"]}

    def interests(self):
        """Returns Interests received by each member. The balancer polls the kernel's counters, so
        this waits until they are stable."""
        read = lambda: {
            member["name"]: member["counters"]["in_interests"]
            for member in self.status()["members"]
        }
        before = read()
        while True:
            time.sleep(COUNTED_S)
            now = read()
            # Probes are counted as Interests too.
            if sum(now.values()) - sum(before.values()) < 10 * len(now):
                return now
            before = now

    def start(self, node, *args, transport=None, **options):
        environment = {
            **os.environ,
            "HOME": str(self.files),
            "NDN_CLIENT_TRANSPORT": transport or self.uri,
        }
        args = ["ip", "netns", "exec", node["namespace"], *map(str, args)]
        process = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, env=environment, text=True, **options
        )
        self.running.append(process)
        return process

    def run(self, node, *args, code=0, **options):
        process = self.start(node, *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        out, err = process.communicate(timeout=TIMEOUT_S)
        if code is not None and process.returncode != code:
            raise Failed(f"{args}: {process.returncode}: {out[-400:]} {err[-800:]}")
        return out, err

    def publish(
        self, name, size, segment=1000, producer=0, over=None, face=None, local=None, members=None
    ):
        """Serves generated content, and waits until the members in `members` (default all) have a
        route to it. The content is registered at the producer's own router, and the control member
        gets a route to `face`; or `over` another transport to the cluster, where the producer
        registers itself."""
        content = bytes(at * 7 & 255 for at in range(size))
        file = self.files / name.replace("/", "_")
        file.write_bytes(content)
        node = self.producers[producer]
        process = self.start(
            node,
            NW,
            "put",
            "--json",
            "--quiet",
            "--segment",
            segment,
            "--freshness",
            60000,
            name,
            file,
            transport=over or f"unix://{node['socket']}",
            stdout=subprocess.PIPE,
        )
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready", ready
        process.versioned = ready["versioned"]
        if over is None:
            self.route(name, face or f"udp4://{node['address']}:{node['port']}", members, local)
        else:
            self.wait_until_known(name, members)
        return content, process

    def route(self, name, face, members=None, local=None):
        """Adds a route at the control member, and waits until the others have it."""
        control = self.status()["control_member"]
        socket = next(
            f"unix://{member['socket']}" for member in self.members if member["name"] == control
        )
        if local:
            face = json.loads(
                nw("face", "create", "--json", "--socket", socket, face, "--local", local)
            )["face_id"]
        nw("route", "add", "--socket", socket, name, face)
        self.wait_until_known(name, members)

    def wait_until_known(self, name, members=None):
        for member in self.members:
            if members is None or member["name"] in members:
                until(
                    lambda: (
                        f'"{name}"'
                        in nw("route", "list", "--json", "--socket", f"unix://{member['socket']}")
                    ),
                    f"{member['name']} has a route to {name}",
                )

    def fetch(self, name, *args, consumer=0, retries=15):
        """Starts a download and returns its process."""
        node = self.consumers[consumer]
        target = self.files / f"target{len(self.running)}"
        process = self.start(
            node,
            NW,
            "cat",
            "--json",
            "--quiet",
            "--retries",
            retries,
            *args,
            name,
            "-o",
            target,
            transport=node["uri"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        process.target = target
        return process

    def fetched(self, process):
        """Waits for a download. Returns its content and its report."""
        _, output = process.communicate(timeout=3 * TIMEOUT_S)
        if process.returncode != 0:
            raise Failed(output[-800:])
        return process.target.read_bytes(), json.loads(output.strip().splitlines()[-1])

    def balancer(self, *args):
        """Returns the JSON output of `nw balancer …` for the first balancer."""
        completed = subprocess.run(
            [NW, "balancer", *map(str, args), "--json", "--control", self.balancers[0]["control"]],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if completed.returncode != 0:
            raise Failed(completed.stderr)
        return json.loads(completed.stdout)


def nw(*args):
    completed = subprocess.run(
        [NW, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )
    # An empty list ends with a status other than 0 and no error text.
    if completed.returncode != 0 and completed.stderr:
        raise Failed(f"nw {args}: {completed.stderr}")
    return completed.stdout
