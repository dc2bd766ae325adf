"""What the tests of networks share: a network in a folder of its own, a producer, and a consumer
that counts what is lost or comes twice."""

import hashlib
import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

NW = os.environ.get("NW_BIN", str(Path(__file__).resolve().parents[2] / "target/release/nw"))
TIMEOUT_S = 30
LIFETIME_S = 4

# The chain of the µNDN paper. Braces of the language are doubled for `format`.
CHAIN = """
host here = process
face consumers listens unix://{folder}/c.sock
face producer = unix://{folder}/p.sock
pd = packet_dispatcher
cs = content_store(mib = 16)
br = backward_router
nr = name_router
consumers -> pd.packet
pd.interest -> cs.interest
cs.miss -> br.interest -> nr.interest -> faces
cs.hit -> faces
producer -> nr.data -> br.data -> cs.data -> faces
producer -> nr.nack -> br.nack -> faces
producer -> nr.interest
pd.data -> br.data
pd.nack -> br.nack
service front {{ pd, cs }}
route / at nr.producer
{extra}
"""
# Bounds that load never reaches: only commands change the number of instances.
SCALED = "scale br 1..3 target=99% low=0% hold=60s cool=60s"


def number(n):
    return bytes([n]) if n < 253 else b"\xfd" + n.to_bytes(2, "big")


def tlv(kind, value=b""):
    return number(kind) + number(len(value)) + value


def read_tlv(data, at):
    """Returns type, value and the position after an element, or None if it is not whole."""
    numbers = []
    for _ in range(2):
        if at >= len(data):
            return None
        size = {253: 2, 254: 4, 255: 8}.get(data[at], 0)
        if at + 1 + size > len(data):
            return None
        numbers.append(int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else data[at])
        at += 1 + size
    end = at + numbers[1]
    return (numbers[0], data[at:end], end) if end <= len(data) else None


# SignatureInfo of a plain digest.
DIGEST_INFO = tlv(0x16, tlv(0x1B, b"\0"))


def read_interest(kind, value):
    """Returns PIT token and name of an Interest, in a link packet or bare; None for others."""
    token, interest = b"", value if kind == 0x05 else None
    if kind == 0x64:
        at = 0
        while found := read_tlv(value, at):
            inner, inside, at = found
            if inner == 0x62:
                token = tlv(0x62, inside)
            elif inner == 0x50:
                fragment = read_tlv(inside, 0)
                interest = fragment[1] if fragment[0] == 0x05 else None
    return None if interest is None else (token, read_tlv(interest, 0)[1])


def with_token(data, token):
    return tlv(0x64, token + tlv(0x50, data)) if token else data


def stream_socket(address):
    """Returns a socket for an address, which is a path, or host and port; and the address."""
    if isinstance(address, tuple):
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM), address
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), str(address)


class Producer(threading.Thread):
    """Answers every Interest on a socket with Data of the same name. Echoes PIT tokens, as a
    service without state in front of it needs them."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.listener, address = stream_socket(address)
        self.listener.bind(address)
        self.listener.listen()
        self.answered = 0
        self.start()

    def run(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        with peer:
            self.answer_all(peer)

    def answer_all(self, peer):
        data = b""
        while True:
            try:
                part = peer.recv(65536)
            except OSError:
                return
            if not part:
                return
            data, out, at = data + part, [], 0
            while found := read_tlv(data, at):
                kind, value, at = found
                out.append(self.answer(kind, value))
            data = data[at:]
            try:
                peer.sendall(b"".join(out))
            except OSError:
                return

    def answer(self, kind, value):
        found = read_interest(kind, value)
        return b"" if found is None else self.reply(*found)

    def reply(self, token, name):
        """Returns the reply to an Interest; `name` is the value of its Name element."""
        signed = tlv(0x07, name) + tlv(0x14) + tlv(0x15, b"x" * 100) + DIGEST_INFO
        data = tlv(0x06, signed + tlv(0x17, hashlib.sha256(signed).digest()))
        self.answered += 1
        return with_token(data, token)

    def close(self):
        self.listener.close()


class Consumer(threading.Thread):
    """Sends Interests for names of its own with a window, until it is stopped; counts answers, Data
    that come twice, and Interests without an answer within their lifetime."""

    def __init__(self, address, window=16, pause_s=0.0005):
        super().__init__(daemon=True)
        self.address, self.window, self.pause_s = address, window, pause_s
        self.prefix = tlv(8, secrets.token_hex(4).encode())
        self.sent = self.answered = self.duplicates = self.nacks = 0
        self.lost = 0
        self.longest_gap_s = 0.0
        self.waiting = {}
        self.stopping = threading.Event()
        self.error = None
        self.start()

    def interest(self, sequence):
        name = tlv(7, self.prefix + tlv(8, str(sequence).encode()))
        lifetime = tlv(0x0C, (LIFETIME_S * 1000).to_bytes(2, "big"))
        return tlv(5, name + tlv(0x0A, secrets.token_bytes(4)) + lifetime)

    def run(self):
        try:
            stream, address = stream_socket(self.address)
            with stream:
                stream.connect(address)
                stream.settimeout(0.02)
                self.exchange(stream)
        except OSError as error:
            self.error = error

    def exchange(self, stream):
        data, last = b"", time.monotonic()
        while not self.stopping.is_set() or self.waiting:
            now = time.monotonic()
            if not self.stopping.is_set():
                batch = []
                while len(self.waiting) < self.window:
                    batch.append(self.interest(self.sent))
                    self.waiting[self.sent] = now
                    self.sent += 1
                if batch:
                    stream.sendall(b"".join(batch))
            try:
                part = stream.recv(65536)
                if not part:
                    raise OSError("the network closed the connection")
                data += part
            except TimeoutError:
                pass
            now, at = time.monotonic(), 0
            while found := read_tlv(data, at):
                kind, value, at = found
                self.longest_gap_s = max(self.longest_gap_s, now - last)
                last = now
                self.take(kind, value)
            data = data[at:]
            for sequence in [s for s, sent in self.waiting.items() if now - sent > LIFETIME_S + 1]:
                del self.waiting[sequence]
                self.lost += 1
            time.sleep(self.pause_s)

    def take(self, kind, value):
        if kind == 0x64:
            self.nacks += 1
            return
        _, name, _ = read_tlv(value, 0)
        _, _, at = read_tlv(name, 0)
        sequence = int(read_tlv(name, at)[1])
        if self.waiting.pop(sequence, None) is None:
            self.duplicates += 1
        else:
            self.answered += 1

    def wait_answered(self, more):
        """Waits until this number of further Interests is answered."""
        wanted, deadline = self.answered + more, time.monotonic() + TIMEOUT_S
        while self.answered < wanted:
            if self.error or time.monotonic() > deadline:
                raise AssertionError(f"no answers any more: {self.error} {self.counts()}")
            time.sleep(0.01)

    def finish(self):
        self.stopping.set()
        self.join(TIMEOUT_S)
        if self.error:
            raise AssertionError(f"the consumer ended: {self.error}")
        return self.counts()

    def counts(self):
        return {
            "sent": self.sent,
            "answered": self.answered,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "nacks": self.nacks,
            "longest_gap_s": round(self.longest_gap_s, 3),
        }


class UnixHttp(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=TIMEOUT_S)
        self.path = str(path)

    def connect(self):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        stream.settimeout(TIMEOUT_S)
        try:
            stream.connect(self.path)
        except OSError:
            stream.close()
            raise
        self.sock = stream


class NetworkTest(unittest.TestCase):
    """A folder for a network, and `nw network` as a user runs it."""

    def setUp(self):
        # A short path: sockets are below it, and their paths are bounded by 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="nwn-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.kill_services)
        self.state = self.folder / "s"
        self.home = self.state / "nw/networks/n"
        self.control = self.home / "manager.sock"
        home = str(self.folder)
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.state), "HOME": home}
        self.environment.pop("NDN_CLIENT_TRANSPORT", None)
        self.logs = 0

    def file(self, name="n.graph", extra="", text=CHAIN):
        path = self.folder / name
        path.write_text(text.format(folder=self.folder, extra=extra))
        return path

    def producer(self, name="p.sock"):
        producer = Producer(self.folder / name)
        self.addCleanup(producer.close)
        return producer

    def consumer(self, **options):
        consumer = Consumer(self.folder / "c.sock", **options)
        self.addCleanup(consumer.stopping.set)
        return consumer

    def nw(self, *args, code=0, timeout=TIMEOUT_S):
        """Runs `nw network`."""
        return self.tool("network", *args, code=code, timeout=timeout)

    def tool(self, *args, code=0, timeout=TIMEOUT_S):
        """Runs `nw`. Without `code`, any exit status is right."""
        completed = subprocess.run(
            [NW, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        text = f"nw {args}: {completed.stdout[-2000:]}\n{completed.stderr[-2000:]}"
        if code is not None:
            self.assertEqual(completed.returncode, code, text)
        self.assertNotIn("panicked", completed.stderr)
        return completed

    def json(self, *args):
        return json.loads(self.nw(*args, "--json").stdout)

    def up(self, *args, wait=True, environment=None):
        """Starts a manager in the foreground. Its output is in self.log(process)."""
        self.logs += 1
        path = self.folder / f"up{self.logs}.log"
        with open(path, "w") as log:
            process = subprocess.Popen(
                [NW, "network", "up", *map(str, args)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**self.environment, **(environment or {})},
            )
        process.log = path

        def finish():
            if process.poll() is None:
                process.kill()
            process.wait()

        self.addCleanup(finish)
        if wait:
            self.wait_converged(process)
        return process

    def log(self, process):
        return process.log.read_text()

    def rest(self, method, path, body=None, headers=None, control=None):
        """Returns the status and the parsed body of a response."""
        connection = UnixHttp(control or self.control)
        content = None if body is None else json.dumps(body)
        if content is not None:
            headers = {"Content-Type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, content, headers or {})
        except BrokenPipeError:
            # A body that is too long is refused before its end is read.
            pass
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        try:
            return response.status, json.loads(text) if text else None
        except ValueError:
            return response.status, text

    def graph(self):
        status, graph = self.rest("GET", "/v1/graph")
        self.assertEqual(status, 200, graph)
        return graph

    def until(self, condition, description, timeout=TIMEOUT_S):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                if condition():
                    return
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        self.fail(f"{description}: {self.diagnosis()}")

    def diagnosis(self):
        logs = sorted(self.folder.glob("up*.log"))
        return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in logs)

    def wait_converged(self, process=None, version=None):
        """Waits until the network is as described, and was seen so."""

        def is_converged():
            if process is not None and process.poll() is not None:
                self.fail(f"the manager ended: {self.log(process)}")
            graph = self.graph()
            return (
                graph["state"] == "converged"
                and graph["plan"] is None
                and (version is None or graph["version"] == version)
                and graph["instances"]
                and all(i["state"] == "running" for i in graph["instances"])
            )

        self.until(is_converged, "the network is as described")

    def instances(self):
        return sorted(instance["name"] for instance in self.graph()["instances"])

    def pids(self):
        return {i["name"]: i["pid"] for i in self.graph()["instances"]}

    def graphs(self):
        """Returns the running graph text of each instance, from its own control socket."""
        texts = {}
        for path in sorted((self.home / "i").glob("*/control.sock")):
            status, body = self.rest("GET", "/v1/graph", control=path)
            self.assertEqual(status, 200)
            texts[path.parent.name] = body["graph"]
        return texts

    def service_processes(self):
        """Returns the ids of processes that serve a control socket of this folder."""
        found, wanted = [], f"{self.folder}/".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().split(b"\0")
                state = (path.parent / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            is_service = arguments[1:3] == [b"service", b"run"]
            if is_service and state != "Z" and any(a.startswith(wanted) for a in arguments):
                found.append(int(path.parent.name))
        return found

    def kill_services(self):
        for pid in self.service_processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def stop(self, process):
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S), 0, self.log(process))

    def check_lossless(self, counts):
        self.assertGreater(counts["answered"], 100, counts)
        lost = (counts["lost"], counts["duplicates"], counts["nacks"])
        self.assertEqual(lost, (0, 0, 0), f"{counts}\n{self.diagnosis()}")
