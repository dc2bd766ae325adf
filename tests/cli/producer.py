"""A producer that encodes its packets itself, so that it can send invalid ones and no code under
test decides what is valid."""

import hashlib
import os
import socket
import struct
import threading
import time


def number(n):
    if n < 253:
        return bytes([n])
    if n < 1 << 16:
        return b"\xfd" + struct.pack(">H", n)
    return b"\xfe" + struct.pack(">I", n)


def tlv(kind, value=b""):
    return number(kind) + number(len(value)) + value


def integer(n):
    for size, code in ((1, ">B"), (2, ">H"), (4, ">I"), (8, ">Q")):
        if n < 1 << 8 * size:
            return struct.pack(code, n)
    raise ValueError(n)


def read(data):
    """Splits a value into elements: type, value, whole element."""
    found, at = [], 0
    while at < len(data):
        start, numbers = at, []
        for _ in range(2):
            first = data[at]
            size = {253: 2, 254: 4, 255: 8}.get(first, 0)
            numbers.append(int.from_bytes(data[at + 1 : at + 1 + size], "big") if size else first)
            at += 1 + size
        end = at + numbers[1]
        if end > len(data):
            raise IndexError("not whole yet")
        found.append((numbers[0], data[at:end], data[start:end]))
        at = end
    return found


def name(uri):
    parts = []
    for part in uri.strip("/").split("/"):
        kind, _, value = part.partition("=")
        if value and kind.isdigit():
            parts.append(tlv(int(kind), value.encode()))
        elif value and kind in ("seg", "v"):
            parts.append(tlv(50 if kind == "seg" else 54, integer(int(value))))
        else:
            parts.append(tlv(8, part.encode()))
    return b"".join(parts)


def segment(n):
    return tlv(50, integer(n))


def data(components, content=b"", kind=None, fresh=None, last=None, change=False, zeros=False):
    """Returns a Data with a SHA-256 digest as signature. `change`: the content is changed after
    signing. `zeros`: the digest is all zeros."""
    meta = b""
    if kind is not None:
        meta += tlv(24, integer(kind))
    if fresh is not None:
        meta += tlv(25, integer(fresh))
    if last is not None:
        meta += tlv(26, segment(last))

    def signed(content):
        return tlv(7, components) + tlv(20, meta) + tlv(21, content) + tlv(22, tlv(27, b"\0"))

    digest = bytes(32) if zeros else hashlib.sha256(signed(content)).digest()
    if change:
        content = bytes([content[0] ^ 1]) + content[1:]
    return tlv(6, signed(content) + tlv(23, digest))


class ReceivedInterest:
    """An Interest as the producer received it."""

    def __init__(self, wire, token, lp_fields=b""):
        self.wire, self.token = wire, token
        fields = {kind: value for kind, value, _ in read(read(wire)[0][1])}
        self.name = fields[7]
        self.components = [whole for _, _, whole in read(self.name)]
        last = read(self.name)[-1]
        self.segment = int.from_bytes(last[1], "big") if last[0] == 50 else None


class Producer:
    """Serves a prefix over a router's Unix socket. `answer(request)` returns Data, ("nack",
    reason), ("marked", Data) or None."""

    def __init__(self, router, prefix, answer):
        self.answer, self.requests = answer, []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(router.socket))
        self.buffer, self.ended = b"", False
        self._register(prefix)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _register(self, prefix):
        command = name("localhost/nfd/rib/register") + tlv(8, tlv(0x68, tlv(7, name(prefix))))
        info = tlv(
            44, tlv(27, b"\0") + tlv(38, os.urandom(8)) + tlv(40, integer(int(time.time() * 1000)))
        )
        parameters = tlv(36)
        signature = tlv(46, hashlib.sha256(command + parameters + info).digest())
        tail = parameters + info + signature
        digest = tlv(2, hashlib.sha256(tail).digest())
        self.socket.sendall(
            tlv(5, tlv(7, command + digest) + tlv(18) + tlv(10, os.urandom(4)) + tail)
        )
        answer = self._packet()
        assert b"\x66\x01\xc8" in answer, answer

    def _packet(self):
        while True:
            try:
                packet = read(self.buffer[:9000])[0][2] if self.buffer else None
            except IndexError:
                packet = self._first()
            if packet:
                self.buffer = self.buffer[len(packet) :]
                return packet
            received = self.socket.recv(65536)
            if not received:
                raise ConnectionError
            self.buffer += received

    def _first(self):
        """Returns the first packet; the one after it may be incomplete."""
        for end in range(2, min(len(self.buffer), 9000) + 1):
            try:
                return read(self.buffer[:end])[0][2]
            except IndexError:
                pass
        return None

    def _run(self):
        try:
            while True:
                wire, token = self._packet(), b""
                if wire[0] == 0x64:
                    fields = {kind: value for kind, value, _ in read(read(wire)[0][1])}
                    wire, token = fields.get(0x50, b""), fields.get(0x62, b"")
                if wire[:1] != b"\x05":
                    continue
                request = ReceivedInterest(wire, token)
                self.requests.append(request)
                answer = self.answer(request)
                if answer is None:
                    continue
                head = tlv(0x62, token) if token else b""
                if isinstance(answer, tuple) and answer[0] == "nack":
                    head += tlv(0x320, tlv(0x321, integer(answer[1])))
                    answer = wire
                elif isinstance(answer, tuple):
                    head += tlv(0x340, b"\x01")
                    answer = answer[1]
                self.socket.sendall(tlv(0x64, head + tlv(0x50, answer)) if head else answer)
        except OSError:
            pass

    def end(self):
        self.socket.close()
