"""deploy/wireshark/ndn.lua, run by tshark: captures of `nw tap`, and frames, datagrams and streams
of all kinds."""

import json
import re
import shutil
import struct
import subprocess
import sys
import unittest
from pathlib import Path

from command_line import CommandLine

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/wireshark/ndn.lua"
TSHARK = shutil.which("tshark")
if not TSHARK:
    print("NOT RUN: test_wireshark needs tshark: tools/setup test installs it", file=sys.stderr)


def tlv(kind, value=b""):
    number = lambda n: bytes([n]) if n < 253 else b"\xfd" + struct.pack(">H", n)
    return number(kind) + number(len(value)) + value


def name(*components):
    return tlv(7, b"".join(tlv(8, c.encode()) if isinstance(c, str) else c for c in components))


def interest(*components):
    return tlv(5, name(*components) + tlv(0x0A, b"\x01\x02\x03\x04"))


def data(content, *components):
    return tlv(
        6,
        name(*components)
        + tlv(0x14, tlv(0x19, b"\x0a"))
        + tlv(0x15, content)
        + tlv(0x16, tlv(0x1B, b"\0"))
        + tlv(0x17, bytes(32)),
    )


def ipv4(protocol, payload):
    return (
        struct.pack(
            ">BBHHHBBH4s4s",
            0x45,
            0,
            20 + len(payload),
            1,
            0,
            64,
            protocol,
            0,
            b"\x0a\0\0\1",
            b"\x0a\0\0\2",
        )
        + payload
    )


def udp(payload, port=6363):
    return (
        b"\x02" * 12
        + b"\x08\x00"
        + ipv4(17, struct.pack(">HHHH", 50000, port, 8 + len(payload), 0) + payload)
    )


def tcp(payload, sequence, port=6363):
    head = struct.pack(">HHIIBBHHH", 50000, port, sequence, 1, 5 << 4, 0x18, 65535, 0, 0)
    return b"\x02" * 12 + b"\x08\x00" + ipv4(6, head + payload)


def ethernet(payload):
    return b"\x02" * 12 + b"\x86\x24" + payload.ljust(46, b"\0")


@unittest.skipUnless(TSHARK, "no tshark: tools/setup test installs it")
class Dissector(CommandLine):
    def read(self, path, *fields):
        args = [
            TSHARK,
            "-X",
            f"lua_script:{SCRIPT}",
            "-r",
            path,
            "-T",
            "json",
            "-e",
            "_ws.col.Protocol",
            "-e",
            "_ws.col.Info",
        ]
        for field in fields:
            args += ["-e", field]
        completed = subprocess.run(args, capture_output=True, timeout=120)
        self.assertEqual(completed.returncode, 0, completed.stderr)
        self.assertNotIn(
            b"Lua", completed.stderr.replace(b"Lua plugins", b""), "the script has no error"
        )
        # Older versions write bytes without colons.
        plain = lambda values: [
            value.replace(":", "") if re.fullmatch("[0-9a-f]{2}(:[0-9a-f]{2})+", value) else value
            for value in values
        ]
        return [
            {field: plain(values) for field, values in packet["_source"]["layers"].items()}
            for packet in json.loads(completed.stdout)
        ]

    def frames(self, frames, *fields):
        path = Path(self.folder) / "frames.pcap"
        record = lambda frame: struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame
        path.write_bytes(
            struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
            + b"".join(map(record, frames))
        )
        return self.read(path, *fields)

    def test_tap_capture_is_dissected(self):
        router = self.router()
        self.put(router, "/film/one", b"x" * 5000)
        path = Path(self.folder) / "tap.pcapng"
        tap = self.start(router, "tap", "--name", "/film", "--count", "12", "--write", path)
        self.until(path.exists, "the capture begins")
        for _ in range(3):
            self.nw("cat", "/film/one", router=router)
        self.assertIn(b"12 packets", tap.communicate(timeout=20)[1])
        seen = self.read(path, "ndn.name", "ndn.type")
        self.assertEqual(len(seen), 12)
        for packet in seen:
            self.assertEqual(packet["_ws.col.Protocol"], ["NDN"])
            self.assertTrue(packet["ndn.name"][0].startswith("/film/one/"), packet)
        self.assertEqual({packet["ndn.type"][0] for packet in seen}, {"5", "6"})

    def test_packets_over_each_transport_are_dissected(self):
        asked, answered = interest("a", tlv(0x32, b"\x07")), data(b"hello", "a", "b")
        for frame in (ethernet(asked), udp(asked), udp(asked, 56363), tcp(asked, 1)):
            (seen,) = self.frames([frame], "ndn.name", "ndn.nonce")
            self.assertEqual(
                (seen["_ws.col.Info"], seen["ndn.name"], seen["ndn.nonce"]),
                (["Interest /a/seg=7"], ["/a/seg=7"], ["01020304"]),
            )
        (seen,) = self.frames([udp(answered)], "ndn.content", "ndn.freshness", "ndn.signature_type")
        self.assertEqual(
            [seen["ndn.content"], seen["ndn.freshness"], seen["ndn.signature_type"]],
            [["68656c6c6f"], ["10"], ["0"]],
        )

    def test_stream_segments_are_reassembled(self):
        stream = data(b"x" * 3000, "long") + interest("short") + data(b"y" * 2000, "next")
        parts = [stream[:1000], stream[1000:1001], stream[1001:3200], stream[3200:]]
        frames, sequence = [], 1
        for part in parts:
            frames.append(tcp(part, sequence))
            sequence += len(part)
        names = [
            n for packet in self.frames(frames, "ndn.name") for n in packet.get("ndn.name", [])
        ]
        self.assertEqual(names, ["/long", "/short", "/next"])

    def test_link_fields_nacks_and_fragments_are_dissected(self):
        link = lambda *fields, fragment=b"": tlv(
            0x64, b"".join(fields) + (tlv(0x50, fragment) if fragment else b"")
        )
        nack = link(
            tlv(0x62, b"\xaa\xbb"),
            tlv(0x320, tlv(0x321, b"\x96")),
            tlv(0x340, b"\x01"),
            fragment=interest("a"),
        )
        (seen,) = self.frames(
            [udp(nack)], "ndn.lp.pit_token", "ndn.nack_reason", "ndn.lp.congestion_mark"
        )
        self.assertEqual(seen["_ws.col.Info"], ["Nack(NoRoute) /a"])
        self.assertEqual(
            [seen[f] for f in ("ndn.lp.pit_token", "ndn.nack_reason", "ndn.lp.congestion_mark")],
            [["aabb"], ["150"], ["1"]],
        )
        piece = link(
            tlv(0x51, bytes(7) + b"\x09"),
            tlv(0x52, b"\x01"),
            tlv(0x53, b"\x03"),
            fragment=b"part of something",
        )
        (seen,) = self.frames([udp(piece)], "ndn.lp.sequence", "ndn.lp.frag_count")
        self.assertEqual(
            (seen["_ws.col.Info"], seen["ndn.lp.sequence"], seen["ndn.lp.frag_count"]),
            (["Fragment 2 of 3"], ["9"], ["3"]),
        )
        (seen,) = self.frames([udp(link(tlv(0x344, bytes(7) + b"\x05")))], "ndn.lp.ack")
        self.assertEqual((seen["_ws.col.Info"], seen["ndn.lp.ack"]), (["Ack"], ["5"]))

    def test_invalid_packets_are_harmless(self):
        packet = interest("a", "b")
        bad = [packet[:n] for n in range(1, len(packet))]
        bad += [
            tlv(5, b"\xfd"),
            tlv(5, b"\x07\xff"),
            tlv(6, tlv(7, b"\x08\x09a")),
            b"\xff" * 20,
            b"GET / HTTP/1.1\r\n\r\n",
            bytes(30),
        ]
        bad += [
            b"\x05\xff" + b"\xff" * 8,
            b"\x64\xfe\xff\xff\xff\xff",
            tlv(0x64, tlv(0x50, tlv(0x64, tlv(0x50, packet)))),
        ]
        for wrap in (udp, lambda payload: tcp(payload, 1), ethernet):
            self.assertEqual(len(self.frames([wrap(payload) for payload in bad])), len(bad))


if __name__ == "__main__":
    unittest.main()
