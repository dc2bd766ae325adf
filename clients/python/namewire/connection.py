"""The socket to a node: frames with descriptors, requests and replies, and the reader page.

The layout of messages is that of crates/api/src/pubsub/message.rs, the page's that of
crates/faces/src/local_pubsub/reader_page.rs.
"""

import array
import ctypes
import fcntl
import mmap
import os
import platform
import select
import socket
import struct
import time

VERSION = 2
FRAME_BYTES_MAX = 1 << 20
REPLY_TIMEOUT_S = 10
#: Reads of the socket per call: a node that sends without end can't keep a call busy.
READS_MAX = 64
BY_MESSAGES = 0xFFFFFFFF

PAGE_LEN = 64 * 1024
SLOTS_MAX = 1023
WAITS_BY_FUTEX, WAITS_BY_MESSAGE = 1, 2

SEAL_SEAL, SEAL_SHRINK, SEAL_GROW, SEAL_FUTURE_WRITE = 1, 2, 4, 16
F_ADD_SEALS, F_GET_SEALS = 1033, 1034
FUTEX_WAIT, FUTEX_WAKE = 0, 1
SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine())

_libc = ctypes.CDLL(None, use_errno=True)


class NodeError(Exception):
    """No node can be reached, or the connection to it is lost."""


class Refused(NodeError):
    """The node refused a request: `code` as in message.rs, and a sentence."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class ReaderPage:
    """A reader's page: where it says that it waits, and how far it has read."""

    def __init__(self, file=None):
        self.file = file
        if file is None:
            self.file = os.memfd_create("nw-shm", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.file, PAGE_LEN)
            fcntl.fcntl(self.file, F_ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL)
        self.memory = mmap.mmap(self.file, PAGE_LEN)
        self._word = ctypes.c_uint32.from_buffer(self.memory)
        self._words = shared_words(self.memory)

    def close(self):
        del self._word
        self._words.release()
        self.memory.close()
        os.close(self.file)

    def mail(self):
        return struct.unpack_from("<I", self.memory, 8)[0]

    def announce_wait(self):
        self._word.value = WAITS_BY_FUTEX

    def end_wait(self):
        self._word.value = 0

    def wait(self, timeout_s):
        """Waits until a publisher or the node wakes this reader."""
        limit = _Timespec(int(timeout_s), int(timeout_s % 1 * 1e9))
        word, wait = ctypes.byref(self._word), ctypes.c_int(FUTEX_WAIT)
        _libc.syscall(
            ctypes.c_long(SYS_FUTEX), word, wait, WAITS_BY_FUTEX, ctypes.byref(limit), None, 0
        )
        self.end_wait()

    def wake(self, slot=None, item=None):
        """Wakes the reader if it waits; with a slot and an item of its ring, only if it waits for
        that item. Returns how it waited: 0 if it was not woken, WAITS_BY_MESSAGE if its node has to
        be told."""
        waits = self._word.value
        if waits == 0:
            return 0
        items = 0 if item is None else self._words[_slot_at(slot) // 8 + 3]
        if items and not items >> item % 64 & 1:
            return 0
        self._word.value = 0
        if waits == WAITS_BY_FUTEX:
            word, wake = ctypes.byref(self._word), ctypes.c_int(FUTEX_WAKE)
            _libc.syscall(ctypes.c_long(SYS_FUTEX), word, wake, 1, None, None, 0)
        return waits

    def set_items(self, slot, items):
        """Says which items of a ring wake this reader: bit n % 64 for each item n; 0: all."""
        self._words[_slot_at(slot) // 8 + 3] = items

    def report(self, slot, cursor, delivered, lost):
        at = _slot_at(slot) // 8
        self._words[at], self._words[at + 1], self._words[at + 2] = cursor, delivered, lost

    def cursor(self, slot):
        return self._words[_slot_at(slot) // 8]


def shared_words(memory):
    """Returns shared memory as words of 8 bytes, each of which is read and written at once.
    `struct` is not for words that the other end sees: it clears them first, or copies bytes."""
    return memoryview(memory).cast("Q")


def _slot_at(slot):
    return (min(slot, SLOTS_MAX - 1) + 1) * 64


def text(string):
    encoded = string.encode()
    return struct.pack("<H", len(encoded)) + encoded


class Connection:
    """A connection to a node. `events` holds received messages: kind, body, descriptor."""

    def __init__(self, path, program, shared_memory=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.connect(str(path))
        except OSError as error:
            self.socket.close()
            raise NodeError(f"no node with publish/subscribe at {path}: {error}") from error
        self.received, self.files, self.events = bytearray(), [], []
        self.page = ReaderPage() if shared_memory and SYS_FUTEX else None
        self.last_mail, self.last_request, self.has_more = 0, 0, False
        self.send(1, struct.pack("<H", VERSION) + text(program), self.page and self.page.file)
        body = self.wait_for(lambda kind, body: body if kind == 1 else None)
        version, _, self.ring_bytes_max, self.items_max = struct.unpack("<HQII", body)
        if version != VERSION:
            raise NodeError(f"the node has version {version} of the protocol, not {VERSION}")

    def close(self):
        self.socket.close()
        page, self.page = self.page, None
        if page:
            page.close()

    def send(self, kind, body=b"", file=None):
        frame = struct.pack("<IBB", len(body) + 2, file is not None, kind) + body
        files = [] if file is None else [file]
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        deadline, left = time.monotonic() + REPLY_TIMEOUT_S, memoryview(frame)
        while left:
            try:
                left = left[self.socket.sendmsg([left], rights, socket.MSG_DONTWAIT) :]
                rights = []
                continue
            except BlockingIOError:
                pass
            except OSError as error:
                raise NodeError(f"connection to the node lost: {error}") from error
            if time.monotonic() > deadline:
                raise NodeError("the node does not read")
            select.select([self.socket], [self.socket], [], 0.1)
            # The node may be waiting for this end to read.
            self.read(0)

    def request(self, kind, body):
        """Sends a request whose number comes first, and waits for the reply."""
        self.last_request += 1
        number = self.last_request
        self.send(kind, struct.pack("<I", number) + body)

        def reply(kind, body):
            is_reply = kind == 2 and struct.unpack_from("<I", body)[0] == number
            return body if is_reply else None

        body = self.wait_for(reply)
        code, length = struct.unpack_from("<HH", body, 4)
        if code:
            raise Refused(code, body[8 : 8 + length].decode())

    def wait_for(self, choose):
        deadline, looked_at = time.monotonic() + REPLY_TIMEOUT_S, 0
        while True:
            for at in range(looked_at, len(self.events)):
                kind, body, _ = self.events[at]
                if (found := choose(kind, body)) is not None:
                    del self.events[at]
                    return found
            looked_at = len(self.events)
            if time.monotonic() > deadline:
                raise NodeError("the node does not reply")
            self.read(0.1)

    def has_mail(self):
        """Returns whether the node has sent messages, without a system call."""
        if self.events or self.has_more or self.page is None:
            return True
        return self.page.mail() != self.last_mail

    def take_events(self):
        if self.page:
            self.last_mail = self.page.mail()
        self.read(0)
        events, self.events = self.events, []
        return events

    def read(self, timeout_s):
        """Reads what the socket has."""
        self.has_more = False
        for _ in range(READS_MAX):
            if not select.select([self.socket], [], [], timeout_s)[0]:
                return
            try:
                data, ancillary, _, _ = self.socket.recvmsg(1 << 16, socket.CMSG_SPACE(64))
            except OSError as error:
                raise NodeError(f"connection to the node lost: {error}") from error
            for level, kind, files in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.files += array.array("i", files[: len(files) // 4 * 4])
            if not data:
                if self.events:
                    return
                raise NodeError("connection to the node lost: it has closed the connection")
            self.received += data
            self._take_frames()
            timeout_s = 0
        self.has_more = True

    def _take_frames(self):
        at = 0
        while len(self.received) - at >= 6:
            length, has_file, kind = struct.unpack_from("<IBB", self.received, at)
            if not 2 <= length <= FRAME_BYTES_MAX:
                raise NodeError("the node sent an invalid frame")
            if len(self.received) - at < 4 + length:
                break
            body = bytes(self.received[at + 6 : at + 4 + length])
            self.events.append((kind, body, self.files.pop(0) if has_file else None))
            at += 4 + length
        del self.received[:at]
