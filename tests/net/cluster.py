"""A cluster as `nw lab cluster --json` builds it, for tests: it is told words, and what it says is read."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
COUNTED_S = 0.6


def why_not():
    """Why no cluster can be built here; None when one can."""
    if not Path(NW).exists():
        return f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
    try:
        with Cluster("--members", 1):
            return None
    except Failed as e:
        said = str(e)
        # What is missing on this machine; anything else is a failure of the tests.
        if "root" in said or "refused" in said or "can't be run" in said or "CAP_" in said:
            return said
        raise


class Failed(Exception):
    """What the laboratory said."""


class Cluster:
    def __init__(self, *words):
        self.words = [str(word) for word in words]

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([NW, "lab", "cluster", "--json", *self.words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, text=True)
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
                self.process.wait(PATIENCE_S)
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
            self.process.wait(PATIENCE_S)
            self.log.seek(0)
            raise Failed(self.log.read().strip())
        return json.loads(line)

    def take(self, description):
        self.about = description
        self.name, self.folder, self.uri = description["name"], Path(description["folder"]), description["cluster"]["uri"]
        for role in ("consumers", "balancers", "members", "producers"):
            setattr(self, role, description[role])

    def say(self, *words):
        """Says a word and returns what comes of it."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.read()
        if "failed" in answer:
            raise Failed(answer["error"])
        return answer["value"]

    def status(self):
        return self.say("status")

    def look(self):
        """Reads anew who is there."""
        self.take(self.say("picture"))

    def states(self):
        return {member["name"]: member["state"] for member in self.status()["members"]}

    def interests(self):
        """By member, so far. The balancer reads the kernel's counters now and then, so until they stand still."""
        read = lambda: {member["name"]: member["counters"]["in_interests"] for member in self.status()["members"]}
        before = read()
        while True:
            time.sleep(COUNTED_S)
            now = read()
            # Probes are Interests, too.
            if sum(now.values()) - sum(before.values()) < 10 * len(now):
                return now
            before = now

    def start(self, node, *words, transport=None, **more):
        environment = {**os.environ, "HOME": str(self.files), "NDN_CLIENT_TRANSPORT": transport or self.uri}
        words = ["ip", "netns", "exec", node["namespace"], *map(str, words)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, env=environment, text=True, **more)
        self.running.append(process)
        return process

    def run(self, node, *words, code=0, **more):
        process = self.start(node, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        out, err = process.communicate(timeout=PATIENCE_S)
        if code is not None and process.returncode != code:
            raise Failed(f"{words}: {process.returncode}: {out[-400:]} {err[-800:]}")
        return out, err

    def publish(self, name, size, segment=1000, producer=0, over=None, face=None, local=None, known_by=None):
        """Serves made-up content, and waits until the members know the way there: `known_by`, or all. It is registered at the producer's own
        router, which one member is told of as `face`; or `over` another way to the cluster, by which it tells itself."""
        content = bytes(at * 7 & 255 for at in range(size))
        file = self.files / name.replace("/", "_")
        file.write_bytes(content)
        node = self.producers[producer]
        process = self.start(node, NW, "put", "--json", "--quiet", "--segment", segment, "--freshness", 60000, name, file,
                             transport=over or f"unix://{node['socket']}", stdout=subprocess.PIPE)
        ready = json.loads(process.stdout.readline())
        assert ready["event"] == "ready", ready
        process.versioned = ready["versioned"]
        if over is None:
            self.route(name, face or f"udp4://{node['address']}:{node['port']}", known_by, local)
        else:
            self.known(name, known_by)
        return content, process

    def route(self, name, face, known_by=None, local=None):
        """Tells one member, and waits until others know it."""
        control = self.status()["control_member"]
        socket = next(f"unix://{member['socket']}" for member in self.members if member["name"] == control)
        if local:
            face = json.loads(nw("face", "create", "--json", "--socket", socket, face, "--local", local))["face_id"]
        nw("route", "add", "--socket", socket, name, face)
        self.known(name, known_by)

    def known(self, name, known_by=None):
        for member in self.members:
            if known_by is None or member["name"] in known_by:
                until(lambda: f'"{name}"' in nw("route", "list", "--json", "--socket", f"unix://{member['socket']}"),
                      f"{member['name']} knows the way to {name}")

    def fetch(self, name, *more, consumer=0, retries=15):
        """Starts a download."""
        node = self.consumers[consumer]
        target = self.files / f"target{len(self.running)}"
        process = self.start(node, NW, "cat", "--json", "--quiet", "--retries", retries, *more, name, "-o", target, transport=node["uri"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        process.target = target
        return process

    def fetched(self, process):
        """Waits for a download; what came, and the report."""
        _, said = process.communicate(timeout=3 * PATIENCE_S)
        if process.returncode != 0:
            raise Failed(said[-800:])
        return process.target.read_bytes(), json.loads(said.strip().splitlines()[-1])

    def balancer(self, *words):
        """What `nw balancer …` of the first one says, as JSON."""
        done = subprocess.run([NW, "balancer", *map(str, words), "--json", "--control", self.balancers[0]["control"]],
                              capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Failed(done.stderr)
        return json.loads(done.stdout)


def nw(*words):
    done = subprocess.run([NW, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    # A list with nothing in it ends with 1.
    if done.returncode != 0 and done.stderr:
        raise Failed(f"nw {words}: {done.stderr}")
    return done.stdout

