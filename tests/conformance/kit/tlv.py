"""TLV numbers, elements and names of the NDN Packet Format specification 0.3.

Builders refuse nothing: a test must be able to send wrong packets. The reader is strict: packets
from a router must be correct to the last byte.
"""

import hashlib

INTEREST, DATA, NAME = 5, 6, 7
IMPLICIT_DIGEST, PARAMS_DIGEST, GENERIC, KEYWORD = 1, 2, 8, 32
SEGMENT, VERSION, SEQUENCE_NUM = 50, 54, 58
CAN_BE_PREFIX, MUST_BE_FRESH, FORWARDING_HINT = 33, 18, 30
NONCE, LIFETIME, HOP_LIMIT = 10, 12, 34
APP_PARAMS, ISIG_INFO, ISIG_VALUE = 36, 44, 46
META_INFO, CONTENT, SIG_INFO, SIG_VALUE = 20, 21, 22, 23
CONTENT_TYPE, FRESHNESS, FINAL_BLOCK = 24, 25, 26
SIG_TYPE, KEY_LOCATOR = 27, 28
SIG_NONCE, SIG_TIME = 38, 40

LP, FRAGMENT, LP_SEQUENCE, FRAG_INDEX, FRAG_COUNT, PIT_TOKEN = 100, 80, 81, 82, 83, 98
NACK, NACK_REASON = 800, 801
INCOMING_FACE, NEXT_HOP_FACE, CACHE_POLICY, CACHE_POLICY_TYPE = 812, 816, 820, 821
CONGESTION_MARK, ACK, TX_SEQUENCE = 832, 836, 840
NON_DISCOVERY, PREFIX_ANNOUNCEMENT = 844, 848

REASON_CONGESTION, REASON_DUPLICATE, REASON_NO_ROUTE = 50, 100, 150
MAX_PACKET = 8800


class Malformed(Exception):
    """The router sent bytes that the specification does not allow."""


def num(n: int) -> bytes:
    """A TLV-TYPE or TLV-LENGTH in its shortest form."""
    if n < 253:
        return bytes([n])
    if n < 0x10000:
        return b"\xfd" + n.to_bytes(2, "big")
    if n < 0x100000000:
        return b"\xfe" + n.to_bytes(4, "big")
    return b"\xff" + n.to_bytes(8, "big")


def num_wide(n: int, size: int) -> bytes:
    """A number in 3, 5 or 9 bytes whether that is the shortest form or not."""
    return {3: b"\xfd", 5: b"\xfe", 9: b"\xff"}[size] + n.to_bytes(size - 1, "big")


def tlv(typ: int, value: bytes = b"") -> bytes:
    return num(typ) + num(len(value)) + value


def nni(n: int) -> bytes:
    """A NonNegativeInteger value in 1, 2, 4 or 8 bytes."""
    for size in (1, 2, 4):
        if n < 1 << (8 * size):
            return n.to_bytes(size, "big")
    return n.to_bytes(8, "big")


def tlv_nni(typ: int, n: int) -> bytes:
    return tlv(typ, nni(n))


def read_num(buf: bytes, at: int) -> tuple[int, int]:
    """Returns the number at `at` and the offset after it. IndexError if cut short, Malformed if not
    shortest."""
    first = buf[at]
    if first < 253:
        return first, at + 1
    size = {253: 2, 254: 4, 255: 8}[first]
    end = at + 1 + size
    if end > len(buf):
        raise IndexError(end)
    n = int.from_bytes(buf[at + 1 : end], "big")
    if n < {253: 253, 254: 0x10000, 255: 0x100000000}[first]:
        raise Malformed(f"number {n} in {size + 1} bytes")
    return n, end


def read_tlv(buf: bytes, at: int = 0) -> tuple[int, bytes, int]:
    """Returns (type, value, offset after it). IndexError if cut short."""
    typ, p = read_num(buf, at)
    length, p = read_num(buf, p)
    if p + length > len(buf):
        raise IndexError(p + length)
    return typ, bytes(buf[p : p + length]), p + length


def read_all(buf: bytes) -> list[tuple[int, bytes]]:
    """All elements of a value, in order."""
    out, at = [], 0
    while at < len(buf):
        try:
            typ, value, at = read_tlv(buf, at)
        except IndexError:
            raise Malformed(f"element cut short at offset {at} of {buf.hex()[:80]}") from None
        out.append((typ, value))
    return out


def read_nni(value: bytes) -> int:
    if len(value) not in (1, 2, 4, 8):
        raise Malformed(f"NonNegativeInteger of {len(value)} bytes")
    return int.from_bytes(value, "big")


# Names are lists of whole component elements.


def comp(value: bytes | str, typ: int = GENERIC) -> bytes:
    return tlv(typ, value.encode() if isinstance(value, str) else value)


def name(uri: str) -> list[bytes]:
    """`/a/b` with plain generic components, and `32=word` for a keyword; enough for a test."""
    out = []
    for part in uri.strip("/").split("/"):
        if part.startswith("32="):
            out.append(comp(part[3:], KEYWORD))
        elif part:
            out.append(comp(part))
    return out


def name_tlv(components: list[bytes]) -> bytes:
    return tlv(NAME, b"".join(components))


def read_name(value: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(value):
        start = at
        try:
            _, _, at = read_tlv(value, at)
        except IndexError:
            raise Malformed("name component cut short") from None
        out.append(bytes(value[start:at]))
    return out


def show(components: list[bytes]) -> str:
    """A name for messages."""
    out = ""
    for c in components:
        typ, value, _ = read_tlv(c)
        text = "".join(chr(b) if 33 <= b < 127 and b not in b"%/=" else f"%{b:02X}" for b in value)
        out += "/" + (text if typ == GENERIC else f"{typ}={text}")
    return out if len(out) < 120 else out[:117] + "..."


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
