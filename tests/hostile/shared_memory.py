"""Hostile neighbours on shared-memory links: a service ends their link, and other links lose
nothing.

The service has two listeners, one of shared memory and one of Unix. Meanwhile a consumer on the
Unix side pings a producer behind the service; it must get every answer.
"""

import array
import fcntl
import json
import mmap
import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import time

from hostile import hostile_lengths, mutated, random_bytes, unsatisfiable
from rig import BINARY, Router

SECONDS = float(os.environ.get("SECONDS_PER_ATTACK", "1"))
MAGIC = b"nw-shm\0\x01"
RING_LEN = 64 << 10
HEAD_LEN = 4096
# Offsets of the words of the ring that the connecting end writes.
WRITTEN, READ, READER_WAITS, WRITER_WAITS = 0, 128, 256, 384
GROWTH_MAX_KIB = 64 << 10
PINGS_PER_S = 200


class Link:
    """The connecting end of a link, which may break every rule."""

    def __init__(self, path, ring_len=RING_LEN, hello=None, files=1, seal=True):
        self.ring_len = ring_len
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(2)
        self.socket.connect(path)
        self.files = [
            os.memfd_create("ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING) for _ in range(files)
        ]
        for file in self.files:
            os.ftruncate(file, HEAD_LEN + 2 * RING_LEN)
            if seal:
                # F_ADD_SEALS: shrink, grow, seal.
                fcntl.fcntl(file, 1033, 0x2 | 0x4 | 0x1)
        self.memory = mmap.mmap(self.files[0], HEAD_LEN + 2 * RING_LEN) if files else None
        hello = MAGIC + struct.pack("<Q", ring_len) if hello is None else hello
        rights = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", self.files))] if files else []
        )
        self.socket.sendmsg([hello], rights)
        self.written = 0

    def is_up(self):
        try:
            return self.socket.recv(64) == MAGIC
        except OSError:
            return False

    def word(self, at, value):
        self.memory[at : at + 8] = struct.pack("<Q", value & (1 << 64) - 1)

    def send(self, data):
        """Writes into the ring, overwriting unread bytes, and wakes the other end."""
        start = self.written % self.ring_len
        first = data[: self.ring_len - start]
        self.memory[HEAD_LEN + start : HEAD_LEN + start + len(first)] = first
        self.memory[HEAD_LEN : HEAD_LEN + len(data) - len(first)] = data[len(first) :]
        self.written += len(data)
        self.word(WRITTEN, self.written)
        self.wake()

    def wake(self, message=b"\x01"):
        self.socket.send(message, socket.MSG_DONTWAIT)

    def close(self):
        self.socket.close()
        if self.memory:
            self.memory.close()
        for file in self.files:
            os.close(file)


def packets(make):
    def attack(path, rng):
        link = Link(path)
        link.is_up()
        for _ in range(50):
            link.send(b"".join(make(rng) for _ in range(20))[: RING_LEN // 2])
        return link

    return attack


def positions(path, rng):
    """False positions: far ahead, behind, random."""
    link = Link(path)
    link.is_up()
    for _ in range(20):
        link.word(
            rng.choice([WRITTEN, READ, READER_WAITS, WRITER_WAITS, 512, 640, 768, 896]),
            rng.getrandbits(64),
        )
        link.wake()
    return link


def wake_ups(path, rng):
    """Unexpected messages of all lengths."""
    link = Link(path)
    link.is_up()
    for _ in range(100):
        link.wake(rng.randbytes(rng.randrange(1, 40)))
    return link


def hellos(path, rng):
    """First messages with wrong magic, versions, sizes, and numbers of files."""
    size = rng.choice([0, 1, 4096, RING_LEN - 1, RING_LEN, 1 << 20, 1 << 40, 2**64 - 1])
    hello = rng.choice([MAGIC, MAGIC[:7] + b"\x09", rng.randbytes(8)]) + struct.pack("<Q", size)
    return Link(
        path, hello=hello[: rng.choice([0, 1, 8, 16, 16])] or b"\0", files=rng.choice([0, 1, 1, 3])
    )


def shrinking(path, rng):
    """Memory that is not sealed against shrinking, and shrinks."""
    link = Link(path, seal=False)
    link.is_up()
    os.ftruncate(link.files[0], 0)
    try:
        link.wake()
    except OSError:
        pass
    return link


def silent(path, rng):
    """A peer that connects and sends nothing."""
    link = Link.__new__(Link)
    link.files, link.memory = [], None
    link.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.socket.settimeout(2)
    link.socket.connect(path)
    return link


ATTACKS = [
    ("random bytes", packets(random_bytes)),
    ("mutated packets", packets(mutated)),
    ("hostile lengths", packets(hostile_lengths)),
    ("Interests for an hour", packets(unsatisfiable)),
    ("false positions", positions),
    ("unexpected wake-ups", wake_ups),
    ("false first messages", hellos),
    ("memory that shrinks", shrinking),
    ("peers that send nothing", silent),
]


def rss_kib(process):
    with open(f"/proc/{process.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


class Service:
    """A service between a consumer and a router with a producer."""

    def __init__(self):
        self.router = Router(BINARY)
        self.folder = self.router.scratch
        self.near, self.shared = f"{self.folder}/near.sock", f"{self.folder}/shared.sock"
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.router.unix}"}
        quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
        self.producer = subprocess.Popen(
            [BINARY, "ping-server", "/svc", "--json"], env=environment, **quiet
        )
        self.log = open(f"{self.folder}/service.log", "w")
        self.process = subprocess.Popen(
            [
                BINARY,
                "service",
                "run",
                "backward_router",
                "--listen",
                f"unix://{self.near}",
                "--listen",
                f"shm://{self.shared}",
                "--to",
                f"next=unix://{self.router.unix}",
                "--control",
                f"{self.folder}/service.control.sock",
            ],
            stderr=self.log,
            **quiet,
        )
        deadline = time.monotonic() + 10
        while not (os.path.exists(self.near) and os.path.exists(self.shared)):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"the service did not start; see {self.folder}/service.log")
            time.sleep(0.05)
        time.sleep(0.5)

    def ping(self, seconds):
        count = str(int(PINGS_PER_S * seconds))
        command = [
            BINARY,
            "ping",
            "/svc",
            "-s",
            f"unix://{self.near}",
            "-c",
            count,
            "-i",
            str(1000 // PINGS_PER_S),
            "--json",
        ]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )

    def stop(self):
        for process in (self.producer, self.process):
            process.terminate()
            process.wait(10)
        self.log.close()
        return [self.process.returncode, self.router.stop()]


def attack(service, make, rng, seconds):
    """Repeats an attack for some seconds. Returns the number of repetitions."""
    deadline, made, held = time.monotonic() + seconds, 0, []
    while time.monotonic() < deadline:
        try:
            held.append(make(service.shared, rng))
        except OSError:
            # The service closed the link or refused a new one, as expected.
            time.sleep(0.005)
        made += 1
        if len(held) > 20:
            held.pop(0).close()
    for link in held:
        link.close()
    return made


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(1 << 32)
    rng, service, failures, tried = random.Random(seed), Service(), [], 0
    try:
        pinging = service.ping(1)
        before = json.loads(pinging.communicate(timeout=30)[0].splitlines()[-1])
        if before["answered"] != before["sent"]:
            failures.append(
                f"without an attack {before['answered']} of {before['sent']} pings are answered"
            )
        memory = rss_kib(service.process)
        for title, make in ATTACKS:
            tried += 1
            pinging = service.ping(SECONDS)
            made = attack(service, make, rng, SECONDS)
            seen = json.loads(pinging.communicate(timeout=60)[0].splitlines()[-1])
            fine = seen["answered"] == seen["sent"] and service.process.poll() is None and made > 0
            print(
                f"{'ok    ' if fine else 'FAILED'} {title} over shm: {seen['answered']} of {seen['sent']} pings "
                f"answered, {made} links",
                flush=True,
            )
            if not fine:
                failures.append(title)
        # A correct neighbour is still served.
        tried += 1
        link = Link(service.shared)
        if not link.is_up():
            failures.append("an honest neighbour is not served afterwards")
        link.close()
        growth = rss_kib(service.process) - memory
        if growth > GROWTH_MAX_KIB:
            failures.append(f"the service grew by {growth} KiB")
    finally:
        codes = service.stop()
    failures += [f"a process ended with {code}" for code in codes if code != 0]
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{tried - min(tried, len(failures))} passed, {len(failures)} failed, 0 skipped")
    if failures:
        print(
            f"repeat with: tests/hostile/shared_memory.py {seed}; logs: {service.folder}",
            file=sys.stderr,
        )
        raise SystemExit(1)
    shutil.rmtree(service.folder)


if __name__ == "__main__":
    main()
