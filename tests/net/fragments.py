"""Sends Interests of 4,000 bytes in IPv4 fragments by a raw socket, in the given orders; prints how
many were answered, as JSON.

Usage: fragments.py HOST NAME ORDER... (an order is the numbers of the fragments, such as 2,1,0)
"""

import json
import socket
import struct
import sys

PART = 1480
# How long an answer may take, and how many times an Interest is sent.
ANSWER_S, TRIES = 1.0, 5


def tlv(kind, value):
    head = struct.pack("!B", kind) if kind < 253 else struct.pack("!BH", 253, kind)
    size = (
        struct.pack("!B", len(value)) if len(value) < 253 else struct.pack("!BH", 253, len(value))
    )
    return head + size + value


def interest(name, nonce):
    components = b"".join(tlv(8, part.encode()) for part in name.strip("/").split("/"))
    # An element of an even type above 31 that is unknown to routers is ignored.
    return tlv(
        5,
        tlv(7, components)
        + tlv(0x21, b"")
        + tlv(10, struct.pack("!I", nonce))
        + tlv(0x3F0, bytes(4000)),
    )


def fragments(own, to, payload, number):
    """Returns IP packets. The system writes their checksum; that of UDP may be omitted."""
    datagram = struct.pack("!4H", own[1], to[1], len(payload) + 8, 0) + payload
    parts = [datagram[at : at + PART] for at in range(0, len(datagram), PART)]
    for at, part in enumerate(parts):
        extra = 0x2000 if at + 1 < len(parts) else 0
        head = struct.pack(
            "!BBHHHBBH4s4s",
            0x45,
            0,
            len(part) + 20,
            number,
            extra | at * PART // 8,
            64,
            17,
            0,
            socket.inet_aton(own[0]),
            socket.inet_aton(to[0]),
        )
        yield head + part


def answered(raw, udp, to, name, order, number):
    for again in range(TRIES):
        nonce = number * TRIES + again + 1
        parts = list(fragments(udp.getsockname(), to, interest(name, nonce), 0x4000 + nonce))
        assert len(parts) == len(order), (len(parts), order)
        for at in order:
            raw.sendto(parts[at], to)
        try:
            answer = udp.recv(9000)
            # The Data may be in an LpPacket, but a Nack is not an answer.
            if answer[0] == 6 or (answer[0] == 0x64 and b"\xfd\x03\x20" not in answer[:16]):
                return again + 1
        except TimeoutError:
            pass
    return None


def main():
    to, name = (sys.argv[1], 6363), sys.argv[2]
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect(to)
    udp.settimeout(ANSWER_S)
    tries = {}
    for number, order in enumerate(sys.argv[3:]):
        tries[order] = answered(
            raw, udp, to, f"{name}/{number}", [int(at) for at in order.split(",")], number
        )
    print(json.dumps({"tries": tries}))


if __name__ == "__main__":
    main()
