"""One connection to the router: unix, TCP or UDP, with an inbox of dissected packets."""

import asyncio
import socket

from .packets import Packet, dissect, take_network
from .tlv import FRAG_COUNT, FRAG_INDEX, FRAGMENT, LP_SEQUENCE, Malformed, read_nni, read_num, show

TIMEOUT_S = 3.0  # seconds to wait for an expected packet
QUIET_S = 0.20  # seconds without an unexpected packet


class Fail(Exception):
    """The router violates the requirement of the case."""


class Face:
    """Endpoint of a test. `send` takes whole packets; received ones are added to `inbox`."""

    def __init__(self, transport: str, address):
        self.transport, self.address = transport, address
        self.inbox: list[Packet] = []
        self.faults: list[str] = []
        self.closed = False
        self.seen = asyncio.Event()
        self.id = None  # FaceId at the router, once known
        self._partial: dict[int, dict[int, Packet]] = {}
        self._buf = bytearray()

    async def open(self):
        loop = asyncio.get_running_loop()
        if self.transport == "udp":
            # A large receive buffer, because many cases share one event loop.
            sock = socket.socket(
                socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET, socket.SOCK_DGRAM
            )
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.setblocking(False)
            sock.connect(self.address)
            self._io, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), sock=sock)
        elif self.transport == "unix":
            self._io, _ = await loop.create_unix_connection(lambda: _Stream(self), self.address)
        else:
            self._io, _ = await loop.create_connection(lambda: _Stream(self), *self.address)
            self._io.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    @property
    def stream(self) -> bool:
        return self.transport != "udp"

    @property
    def local_port(self) -> int:
        return self._io.get_extra_info("sockname")[1]

    def send(self, *packets: bytes):
        """Sends packets. Does nothing if the router has closed the connection: the next wait of the
        case fails and reports it."""
        if self.closed:
            return
        if self.transport == "udp":
            for p in packets:
                self._io.sendto(p)
        else:
            self._io.write(b"".join(packets))

    async def drain(self):
        """Waits until the kernel has accepted all bytes, or the router has closed."""
        while not self.closed and self.stream and self._io.get_write_buffer_size() > 0:
            await asyncio.sleep(0.002)

    def pause(self):
        self._io.pause_reading()

    def resume(self):
        self._io.resume_reading()

    def close(self):
        if not self.closed:
            self.closed = True
            self._io.abort() if self.stream else self._io.close()

    # -- receiving

    def _stream_bytes(self, chunk: bytes):
        self._buf += chunk
        while self._buf:
            try:
                _, p = read_num(self._buf, 0)
                length, p = read_num(self._buf, p)
            except IndexError:
                return
            except Malformed as e:
                self.faults.append(f"stream framing: {e}")
                self._buf.clear()
                return
            if len(self._buf) < p + length:
                return
            raw = bytes(self._buf[: p + length])
            del self._buf[: p + length]
            self._packet(raw)

    def _packet(self, raw: bytes):
        try:
            p = dissect(raw)
            if p.kind == "fragment":
                p = self._reassemble(p)
        except (Malformed, IndexError) as e:
            self.faults.append(f"{e} in {raw.hex()[:160]}")
            return
        if p is not None:
            self.inbox.append(p)
            self.seen.set()

    def _reassemble(self, p: Packet) -> Packet | None:
        seq, count = p.lp.get(LP_SEQUENCE, b""), read_nni(p.lp[FRAG_COUNT])
        if len(seq) != 8:
            raise Malformed(f"Sequence of {len(seq)} bytes")
        index = read_nni(p.lp.get(FRAG_INDEX, b"\x00"))
        if index >= count:
            raise Malformed("FragIndex >= FragCount")
        base = (int.from_bytes(seq, "big") - index) % (1 << 64)
        parts = self._partial.setdefault(base, {})
        parts[index] = p
        if len(parts) < count:
            return None
        del self._partial[base]
        reassembled = Packet(b"".join(parts[i].raw for i in range(count)), bare=False, pieces=count)
        reassembled.lp = {
            t: v for t, v in parts[0].lp.items() if t not in (FRAGMENT, FRAG_INDEX, FRAG_COUNT)
        }
        reassembled.sizes = [len(parts[i].raw) for i in range(count)]
        reassembled.parts = [parts[i] for i in range(count)]
        return take_network(reassembled, b"".join(parts[i].lp[FRAGMENT] for i in range(count)))

    async def get(self, kind=None, name=None, *, prefix=None, within=TIMEOUT_S, what="") -> Packet:
        """Removes the first packet of this kind and name (or below this prefix) from the inbox and
        returns it."""
        deadline = asyncio.get_running_loop().time() + within
        while True:
            for i, p in enumerate(self.inbox):
                if _fits(p, kind, name, prefix):
                    return self.inbox.pop(i)
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0 or self.closed:
                expected = show(name if name is not None else prefix or [])
                got = ", ".join(f"{p.kind} {show(p.name)}" for p in self.inbox[:4]) or "nothing"
                raise Fail(
                    f"no {kind or 'packet'} {expected} on {self.transport} face"
                    f"{' (closed by router)' if self.closed else ''}; got {got}. {what}".strip()
                )
            self.seen.clear()
            try:
                await asyncio.wait_for(self.seen.wait(), left)
            except asyncio.TimeoutError:
                pass

    async def interest(self, name=None, **kw) -> Packet:
        return await self.get("interest", name, **kw)

    async def data(self, name=None, **kw) -> Packet:
        return await self.get("data", name, **kw)

    async def nack(self, name=None, **kw) -> Packet:
        return await self.get("nack", name, **kw)

    async def none(self, kind=None, name=None, *, prefix=None, quiet=QUIET_S, what=""):
        """Fails if such a packet is in the inbox or arrives within `quiet` seconds."""
        await asyncio.sleep(quiet)
        for p in self.inbox:
            if _fits(p, kind, name, prefix):
                raise Fail(
                    f"unwanted {p.kind} {show(p.name)} on {self.transport} face. {what}".strip()
                )

    async def wait_closed(self, within=TIMEOUT_S) -> bool:
        end = asyncio.get_running_loop().time() + within
        while not self.closed and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.01)
        return self.closed


def _fits(p: Packet, kind, name, prefix) -> bool:
    return (
        (kind is None or p.kind == kind)
        and (name is None or p.name == name)
        and (prefix is None or p.name[: len(prefix)] == prefix)
    )


class _Stream(asyncio.Protocol):
    def __init__(self, face):
        self.face = face

    def data_received(self, chunk):
        self.face._stream_bytes(chunk)

    def connection_lost(self, exc):
        self.face.closed = True
        self.face.seen.set()


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, face):
        self.face = face

    def datagram_received(self, raw, addr):
        self.face._packet(raw)

    def error_received(self, exc):
        pass
