"""Answers the search for hubs on NDN's multicast group: hub_responder.py ADDRESS URI."""

import hashlib
import socket
import struct
import sys

GROUP, PORT = "224.0.23.170", 56363


def tlv(typ, value):
    return bytes([typ, len(value)]) + value


def main(address, uri):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        s.setsockopt(socket.SOL_SOCKET, option, 1)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    s.bind((GROUP, PORT))
    member = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton(address))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    components = [b"localhop", b"ndn-autoconf", b"hub", uri.encode()]
    name = tlv(7, b"".join(tlv(8, component) for component in components))
    content = tlv(0x15, tlv(0x72, uri.encode()))
    info = tlv(0x16, tlv(0x1B, b"\0"))
    signed = name + content + info
    data = tlv(6, signed + tlv(0x17, hashlib.sha256(signed).digest()))
    print("ready", flush=True)
    while True:
        packet = s.recv(9000)
        if b"ndn-autoconf" in packet and b"udp4" not in packet and b"tcp4" not in packet:
            s.sendto(data, (GROUP, PORT))


if __name__ == "__main__":
    main(*sys.argv[1:])
