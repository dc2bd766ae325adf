"""A name server for one service, `_ndn._udp.campus.example` at an address: name_server.py ADDRESS."""

import socket
import struct
import sys


def main(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 53))
    print("ready", flush=True)
    while True:
        query, peer = s.recvfrom(512)
        known = b"\x04_ndn\x04_udp\x06campus\x07example\0\0\x21" in query
        head = query[:2] + b"\x81\x80" + struct.pack(">HHHH", 1, int(known), 0, 0)
        labels = b"".join(bytes([len(label)]) + label.encode() for label in address.split("."))
        data = struct.pack(">HHH", 1, 1, 6363) + labels + b"\0"
        record = b"\xc0\x0c" + struct.pack(">HHIH", 33, 1, 9, len(data)) + data
        s.sendto(head + query[12:] + (record if known else b""), peer)


if __name__ == "__main__":
    main(*sys.argv[1:])
