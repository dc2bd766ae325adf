"""A program that speaks Blackadder's protocol, driven by lines of hexadecimal digits on standard
input: each is sent with this process in its header. What arrives is printed the same way.

Arguments: `unix`, the node's path and a prefix for the own one; or `netlink`."""

import os
import selectors
import socket
import sys

NETLINK_GENERIC, PORT = 16, 9999


def open_socket(transport, *paths):
    if transport == "netlink":
        s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        s.bind((os.getpid(), 0))
        return s, (PORT, 0)
    node, prefix = paths
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(f"{prefix}.{os.getpid():05}")
    return s, node


def main():
    s, node = open_socket(*sys.argv[1:])
    print(os.getpid(), flush=True)
    selector = selectors.DefaultSelector()
    selector.register(s, selectors.EVENT_READ)
    selector.register(0, selectors.EVENT_READ)
    pending = b""
    while True:
        for key, _ in selector.select():
            if key.fileobj is s:
                print(s.recv(1 << 20).hex(), flush=True)
                continue
            read = os.read(0, 1 << 16)
            if not read:
                return
            *lines, pending = (pending + read).split(b"\n")
            for line in lines:
                datagram = bytearray.fromhex(line.decode())
                datagram[12:16] = os.getpid().to_bytes(4, sys.byteorder)
                s.sendto(datagram, node)


if __name__ == "__main__":
    main()
