"""Two network namespaces joined by a link with limited rate and optional loss, and a router in
each. Needs root."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from waiting import TIMEOUT_S

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
MTU = 1400  # of link packets, so that each is one frame
NEEDED = {"ip": "apt install iproute2", "tc": "apt install iproute2", "nft": "apt install nftables"}


def missing():
    """Returns why the lab can't be built here; None when it can."""
    if not Path(NW).exists():
        return f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool, advice in NEEDED.items():
        if not shutil.which(tool):
            return f"there is no {tool}: {advice}"
    try:
        with Wire(rate_mbit=10, loss_percent=1):
            return None
    except subprocess.CalledProcessError as e:
        return f"this kernel has not all that is needed: {' '.join(e.cmd)}: {e.stderr.strip()}"


def run(*args):
    args = [str(w) for w in args]
    return subprocess.run(
        args, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    ).stdout


class Wire:
    """A veth pair in two namespaces, at `rate_mbit`; each end drops `loss_percent` of the received
    UDP packets."""

    made = 0

    def __init__(self, rate_mbit, loss_percent):
        Wire.made += 1
        self.ends = [f"nw{os.getpid()}-{Wire.made}{end}" for end in "ab"]
        self.addresses = ["10.77.0.1", "10.77.0.2"]
        self.rate_mbit, self.loss_percent = rate_mbit, loss_percent

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for end in self.ends:
            subprocess.run(["ip", "netns", "del", end], capture_output=True)

    def build(self):
        for end in self.ends:
            run("ip", "netns", "add", end)
        run(
            "ip",
            "-n",
            self.ends[0],
            "link",
            "add",
            "wire",
            "type",
            "veth",
            "peer",
            "name",
            "wire",
            "netns",
            self.ends[1],
        )
        for end, address in zip(self.ends, self.addresses):
            run("ip", "-n", end, "address", "add", f"{address}/24", "dev", "wire")
            run("ip", "-n", end, "link", "set", "wire", "up")
            run("ip", "-n", end, "link", "set", "lo", "up")
            in_namespace = ("ip", "netns", "exec", end)
            # Without offloads each datagram is one frame; otherwise the loss would hit runs of
            # datagrams.
            run("ip", "-n", end, "link", "set", "wire", "gso_max_segs", "1")
            run(
                *in_namespace,
                "tc",
                "qdisc",
                "add",
                "dev",
                "wire",
                "root",
                "tbf",
                "rate",
                f"{self.rate_mbit}mbit",
                "burst",
                "16kb",
                "latency",
                "200ms",
            )
            if self.loss_percent:
                run(
                    *in_namespace,
                    "nft",
                    "add table inet lab; add chain inet lab in { type filter hook input priority 0; };"
                    f" add rule inet lab in meta l4proto udp numgen random mod 100 < {self.loss_percent} counter drop",
                )

    def lost(self, end):
        """Returns the packets dropped on the way to an end."""
        if not self.loss_percent:
            return 0
        ruleset = json.loads(
            run("ip", "netns", "exec", self.ends[end], "nft", "-j", "list", "ruleset")
        )
        counters = [
            e["counter"]["packets"]
            for r in ruleset["nftables"]
            if "rule" in r
            for e in r["rule"]["expr"]
            if "counter" in e
        ]
        return sum(counters)


class Net:
    """A link with a router at each end; Interests under /lab at the first are served at the
    second."""

    def __init__(self, wire, reliable):
        self.wire, self.reliable = wire, reliable
        self.folder = Path(tempfile.mkdtemp(prefix="nw-net-"))
        self.sockets = [self.folder / f"{end}.sock" for end in range(2)]
        self.running = []

    def __enter__(self):
        try:
            for end in (1, 0):
                self.start_router(end)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.running):
            process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, end, *args, **options):
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.sockets[end]}"}
        args = ["ip", "netns", "exec", self.wire.ends[end], NW, *map(str, args)]
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, env=environment, **options)
        self.running.append(process)
        return process

    def start_router(self, end):
        on = "true" if self.reliable else "false"
        config = (
            f'[faces.unix]\npath = "{self.sockets[end]}"\n[faces.tcp]\nlisten = []\n'
            f'[faces.udp]\nlisten = ["{self.wire.addresses[end]}:6363"]\nmtu = {MTU}\nreliability = {on}\n'
        )
        if end == 0:
            peer = f"udp4://{self.wire.addresses[1]}:6363"
            config += f'[[face]]\nuri = "{peer}"\npersistency = "permanent"\n[[route]]\nprefix = "/lab"\nface = "{peer}"\n'
        path = self.folder / f"{end}.toml"
        path.write_text(config)
        log = open(self.folder / f"{end}.log", "w+")
        router = self.start(end, "run", "-c", path, stderr=log)
        deadline = time.monotonic() + TIMEOUT_S
        while not is_listening(self.sockets[end]):
            if router.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                raise RuntimeError("the router did not start: " + log.read())
            time.sleep(0.02)

    def put(self, name, content):
        path = self.folder / "source"
        path.write_bytes(content)
        producer = self.start(
            1, "put", "--json", name, path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        ready = json.loads(producer.stdout.readline())
        assert ready["event"] == "ready", ready

    def cat(self, name):
        """Fetches an object. Returns its content and the report."""
        path = self.folder / "target"
        consumer = self.start(
            0, "cat", "--json", name, "-o", path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        _, output = consumer.communicate(timeout=TIMEOUT_S)
        if consumer.returncode != 0:
            raise RuntimeError(f"nw cat: {output[-800:]!r}")
        return path.read_bytes(), json.loads(output.decode().strip().splitlines()[-1])


def is_listening(path):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(str(path)) == 0
