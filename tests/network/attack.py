"""Producers and consumers of an attack: a film signed by a real producer, fakes of it, a consumer
that checks what it gets, and one that asks for what does harm."""

import random
import secrets
import socket
import subprocess
import threading
import time

from network import NW, TIMEOUT_S, Producer, read_tlv, tlv, with_token

IDENTITY = "/site"
# /site/film/v=1
FILM = tlv(8, b"site") + tlv(8, b"film") + tlv(0x36, b"\1")
SEGMENTS = 100


def segment_name(number):
    return FILM + tlv(0x32, bytes([number]))


def read_packets(stream, data=b""):
    """Yields type and value of the packets of a stream, in link packets or bare."""
    while True:
        part = stream.recv(65536)
        if not part:
            return
        data, at = data + part, 0
        while found := read_tlv(data, at):
            kind, value, at = found
            if kind == 0x64:
                inner = 0
                while field := read_tlv(value, inner):
                    inner = field[2]
                    if field[0] == 0x50:
                        kind, value, _ = read_tlv(field[1], 0)
                        break
            yield kind, value
        data = data[at:]


def write_key(folder):
    """Generates the key of the site and writes its certificate, which is the trust anchor."""
    store = ["--store", str(folder / "keys")]
    for command in (
        ["key", "generate", "--type", "ed25519", IDENTITY, *store],
        ["cert", "export", IDENTITY, "-o", str(folder / "site.cert"), *store],
    ):
        subprocess.run([NW, *command], check=True, capture_output=True, timeout=TIMEOUT_S)


def signed_film(folder, identity=IDENTITY):
    """Returns the Data of the film by name, as `nw put` signs them."""
    path, film = folder / "put.sock", folder / "film"
    film.write_bytes(bytes(number for number in range(SEGMENTS) for _ in range(64)))
    command = [NW, "put", "/site/film/54=%01", str(film), "--segment", "64", "--no-register"]
    command += ["--socket", f"unix://{path}", "--key", identity, "--store", str(folder / "keys")]
    packets = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.settimeout(TIMEOUT_S)
        producer = subprocess.Popen(
            [*command, "--freshness", "3600000"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(TIMEOUT_S)
                for number in range(SEGMENTS):
                    peer.sendall(interest(segment_name(number)))
                for kind, value in read_packets(peer):
                    if kind == 0x06:
                        packets[read_tlv(value, 0)[1]] = tlv(6, value)
                    if len(packets) == SEGMENTS:
                        break
        finally:
            producer.kill()
            producer.wait()
    return packets


def interest(name, lifetime_ms=1000):
    nonce = tlv(0x0A, secrets.token_bytes(4))
    return tlv(5, tlv(7, name) + nonce + tlv(0x0C, lifetime_ms.to_bytes(2, "big")))


def content(data):
    at = 0
    while field := read_tlv(data, at):
        if field[0] == 0x15:
            return field[1]
        at = field[2]
    return b""


class Producers(Producer):
    """A good and a bad producer at one link. The bad one answers names of its own with fakes, and,
    at times and faster than the good one, names of the film."""

    def __init__(self, path, film):
        self.film = film
        self.is_attacking = False
        self.good = self.fakes = self.unknown = 0
        super().__init__(path)

    def reply(self, token, name):
        found = self.film.get(name)
        self.good += found is not None
        self.unknown += found is None
        out = b""
        if self.is_attacking and (found is None or random.random() < 0.3):
            self.fakes += 1
            out = with_token(self.fake(name), token)
        return out + (with_token(found, token) if found else b"")

    def fake(self, name):
        """Returns Data with the key locator and the signature of a good packet."""
        model, at, fields = read_tlv(self.film[segment_name(0)], 0)[1], 0, {}
        while field := read_tlv(model, at):
            fields[field[0]] = tlv(*field[:2])
            at = field[2]
        return tlv(
            6, tlv(7, name) + fields[0x14] + tlv(0x15, b"fake") + fields[0x16] + fields[0x17]
        )


class Client(threading.Thread):
    """Sends Interests at a rate over a connection of its own, and counts what returns."""

    def __init__(self, path, rate, next_name, lifetime_ms=1000):
        super().__init__(daemon=True)
        self.rate, self.next_name, self.lifetime_ms = rate, next_name, lifetime_ms
        self.sent = self.answered = self.good = self.nacks = 0
        self.fakes = []
        self.film = {}
        self.stopping = threading.Event()
        self.stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.stream.connect(str(path))
        threading.Thread(target=self.receive, daemon=True).start()
        self.start()

    def run(self):
        start = time.monotonic()
        while not self.stopping.wait(0.01):
            due = int((time.monotonic() - start) * self.rate) - self.sent
            batch = [interest(self.next_name(), self.lifetime_ms) for _ in range(min(due, 200))]
            start += max(0, due - 200) / self.rate
            try:
                self.stream.sendall(b"".join(batch))
            except OSError:
                return
            self.sent += len(batch)

    def receive(self):
        try:
            for kind, value in read_packets(self.stream):
                self.take(kind, value)
        except OSError:
            return

    def take(self, kind, value):
        if kind != 0x06:
            self.nacks += 1
            return
        self.answered += 1
        wanted = self.film.get(read_tlv(value, 0)[1])
        if wanted is not None and tlv(6, value) == wanted:
            self.good += 1
        elif self.film:
            self.fakes.append(time.time())

    def close(self):
        self.stopping.set()
        self.join(TIMEOUT_S)
        self.stream.close()


def viewer(path, film, rate=150):
    """A good consumer: asks for the film again and again, and checks what it gets."""
    client = Client(path, rate, lambda: segment_name(random.randrange(SEGMENTS)))
    client.film = film
    return client


def attacker(path, rate=300, lifetime_ms=1000, repeated=0.2):
    """A bad consumer: asks for ever new names beside the film, and for a few names repeatedly."""
    prefix = tlv(8, b"site") + tlv(8, b"film")

    def next_name():
        is_repeated = random.random() < repeated
        word = str(random.randrange(5)) if is_repeated else secrets.token_hex(8)
        return prefix + tlv(8, word.encode())

    return Client(path, rate, next_name, lifetime_ms)
