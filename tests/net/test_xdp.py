"""AF_XDP between two routers in network namespaces: UDP and Ethernet both ways, other traffic on
the interface, interfaces and queues that are removed and added, missing privileges.

Needs root and `ip`; prints a reason and skips without them.

Usage: python3 tests/net/test_xdp.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN. NW_CARDS replaces the veth pair by network cards: see
cards.py.
"""

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import cards
from test_transports import GROUP, NW, Side, SKIP_REASON, finish, ip
from waiting import TIMEOUT_S, until

# MTU of UDP link packets, so that each is one frame.
MTU = 1400


class XdpSide(Side):
    """A side with UDP listeners, and AF_XDP on its card unless `xdp` is given."""

    shards = 1
    listen = ("0.0.0.0:6363", "[::]:6363")

    def text(self, extra, xdp, mtu):
        interfaces = json.dumps([self.card] if xdp is True else xdp or [])
        return (
            f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = {json.dumps(self.listen)}\nmtu = {mtu}\n'
            f"[faces.xdp]\ninterfaces = {interfaces}\n[forwarder]\nshards = {self.shards}\n{extra}"
        )

    def start(self, extra="", xdp=True, mtu=MTU, around=()):
        file = self.folder / f"{self.letter}.toml"
        file.write_text(self.text(extra, xdp, mtu))
        self.log = open(self.folder / f"{self.letter}.log", "w+")
        self.process = self.start_process(
            *around, NW, "run", "-c", file, stderr=self.log, stdin=subprocess.DEVNULL
        )
        until(
            lambda: is_listening(self.socket) or self.process.poll() is not None,
            "the router answers",
        )
        if self.process.poll() is not None:
            raise AssertionError("the router did not start: " + self.log_text())

    def write(self, extra="", xdp=True, mtu=MTU):
        (self.folder / f"{self.letter}.toml").write_text(self.text(extra, xdp, mtu))
        self.process.send_signal(signal.SIGHUP)

    def log_text(self):
        return Path(self.log.name).read_text()

    def xdp(self):
        """Returns the interfaces that use AF_XDP, by name."""
        return {
            status["interface"]: status for status in json.loads(self.nw("status", "--json"))["xdp"]
        }

    def end(self):
        self.stop()
        if cards.NAMES:
            cards.unplug(self)
        super().end()

    def run(self, *args, **options):
        return subprocess.run(
            ["ip", "netns", "exec", self.netns, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            **options,
        )


def is_listening(path):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(str(path)) == 0


class Pair(unittest.TestCase):
    """Two sides joined by a link, which exchange packets."""

    SHARDS = 1

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nw-net-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.a, self.b = (XdpSide(self.folder, letter) for letter in "ab")
        for side in (self.a, self.b):
            side.shards = self.SHARDS
            self.addCleanup(side.end)
        self.plug()

    def plug(self, queues=1):
        a, b = self.a, self.b
        if cards.NAMES:
            cards.plug((a, b), queues)
        else:
            queue_args = (
                () if queues == 1 else ("numrxqueues", str(queues), "numtxqueues", str(queues))
            )
            ip(
                "-n",
                a.netns,
                "link",
                "add",
                a.card,
                *queue_args,
                "type",
                "veth",
                "peer",
                "name",
                b.card,
                *queue_args,
                "netns",
                b.netns,
            )
        for number, side in enumerate((a, b), 1):
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", side.card)
            ip(
                "-n",
                side.netns,
                "address",
                "add",
                f"2001:db8::{number}/64",
                "dev",
                side.card,
                "nodad",
            )
            ip("-n", side.netns, "link", "set", side.card, "up")

    def unplug(self):
        if cards.NAMES:
            return [cards.unplug(side) for side in (self.a, self.b)]
        ip("-n", self.a.netns, "link", "delete", self.a.card)

    def attach_bridges(self):
        """Replaces the cards by bridges, whose driver has no native XDP."""
        for number, side in enumerate((self.a, self.b), 1):
            ip("-n", side.netns, "address", "flush", "dev", side.card)
            ip("-n", side.netns, "link", "add", "bridge", "type", "bridge")
            ip("-n", side.netns, "link", "set", side.card, "master", "bridge")
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", "bridge")
            ip("-n", side.netns, "link", "set", "bridge", "up")
            side.card = "bridge"

    def add_a_queue(self):
        if cards.NAMES:
            # The driver may refuse while a program is attached (virtio does): as the guide says,
            # AF_XDP is switched off meanwhile.
            for side in (self.a, self.b):
                side.write(xdp=False)
                until(lambda: not side.xdp(), "the reload is applied")
                set_queues(side, 2, 2)
                side.write()
            return
        for side in (self.a, self.b):
            # Receive queues first, on both sides: veth requires as many as the other side's send
            # queues.
            set_queues(side, 2, 1)
        for side in (self.a, self.b):
            set_queues(side, 2, 2)

    def face_to_b(self, uri="udp4://192.0.2.2:6363"):
        return json.loads(self.a.nw("face", "create", uri, "--json"))["face_id"]

    def exchange(self, face, name="/net/test", size=300_000):
        """B serves, A requests over this face: pings, then a file of many packets."""
        self.a.nw("route", "add", name, face)
        server = self.b.background("ping-server", name, "--size", "500")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", name, "--count", "5", "--interval", "20", "--json").splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 5, lines)
        content = bytes(at * 7 & 255 for at in range(size))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background("put", name + "/file", self.b.folder / "file", "--json", "--quiet")
        self.addCleanup(finish, put)
        received = self.a.folder / "got"
        self.a.nw("cat", name + "/file", "--output", received, "--quiet")
        self.assertEqual(received.read_bytes(), content)

    def check_xdp_used(self, side, both=True, mode="native", queues=1):
        """Checks that hundreds of frames were received and sent by AF_XDP, and none was lost."""
        status = side.xdp()[side.card]
        memory = cards.MEMORY if mode == "native" else "copy"
        self.assertEqual(
            (status["mode"], status["memory"], status["queues"]), (mode, memory, queues), status
        )
        self.assertGreater(status["received"], 30, status)
        if both:
            self.assertGreater(status["sent"], 30, status)
        self.assertEqual(status["lost"], 0, status)
        return status


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class Xdp(Pair):
    def test_udp4_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.check_xdp_used(side)
        self.assertIn("AF_XDP", self.a.nw("status"))
        self.assertIsNotNone(
            self.b.face("udp4://192.0.2.1:6363"), "the face that the peer's first packet made"
        )

    def test_large_file_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b(), size=5_000_000)
        for side in (self.a, self.b):
            self.check_xdp_used(side)

    def test_udp6_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b("udp6://[2001:db8::2]:6363"))
        for side in (self.a, self.b):
            self.check_xdp_used(side)

    def test_udp6_link_local_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start()
        addresses = json.loads(
            self.b.run(
                "ip", "-j", "-6", "address", "show", "dev", self.b.card, "scope", "link"
            ).stdout
        )
        local = next(
            a["local"] for link in addresses for a in link.get("addr_info", []) if "local" in a
        )
        index = json.loads(self.a.run("ip", "-j", "link", "show", self.a.card).stdout)[0]["ifindex"]
        until(
            lambda: (
                "tentative"
                not in self.a.run("ip", "-6", "address", "show", "dev", self.a.card).stdout
            ),
            "the address is usable",
        )
        until(
            lambda: (
                "tentative"
                not in self.b.run("ip", "-6", "address", "show", "dev", self.b.card).stdout
            ),
            "the address is usable",
        )
        self.exchange(self.face_to_b(f"udp6://[{local}%{index}]:6363"))
        self.check_xdp_used(self.a)

    def test_peer_with_sockets_is_served(self):
        """The peer's system leaves checksums to the device and sends runs of datagrams as one."""
        for with_xdp, without in ((self.a, self.b), (self.b, self.a)):
            with_xdp.start()
            without.start(xdp=False)
            self.exchange(self.face_to_b(), size=1_000_000)
            self.check_xdp_used(with_xdp)
            self.assertEqual(without.xdp(), {})
            for side in (self.a, self.b):
                side.process.terminate()
                side.process.wait(TIMEOUT_S)
                side.log.close()

    def test_packets_longer_than_mtu_are_fragmented(self):
        for side in (self.a, self.b):
            side.start(mtu=8800)
        self.exchange(self.face_to_b())
        # Both ends run nw: the file's segments came in link fragments that fit frames.
        pieces = self.a.xdp()["va"]["received"]
        self.assertGreater(pieces, 200)
        # With an explicit MTU, IP fragments segments, and such frames go to the system.
        back = [
            face["face_id"] for face in self.b.faces("udp4") if face["persistency"] == "on-demand"
        ]
        self.b.nw("face", "update", back[0], "--mtu", 8800)
        self.a.nw("cs", "erase", "/")
        self.a.nw("cat", "/net/test/file", "--output", self.a.folder / "again", "--quiet")
        status = self.a.xdp()["va"]
        self.assertGreater(status["sent"], 60)
        self.assertLess(status["received"] - pieces, 20, status)

    def test_ethernet_group_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        self.exchange(self.a.face(GROUP)["face_id"])
        for side in (self.a, self.b):
            self.check_xdp_used(side)
        self.assertEqual(self.a.face(GROUP)["in_interests"], 0, "what was sent did not come back")

    def test_vlan_at_both_routers_goes_by_xdp(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        self.exchange(self.a.face(GROUP)["face_id"])
        self.check_xdp_used(self.a)

    def test_vlan_does_not_reach_a_router_without(self):
        self.a.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        self.b.start("[faces.ethernet]\nmulticast = true\n")
        self.a.nw("route", "add", "/v", self.a.face(GROUP)["face_id"])
        self.addCleanup(finish, self.b.background("ping-server", "/v"))
        self.a.nw("ping", "/v", "--count", "3", "--interval", "20", "--timeout", "500", code=(5,))
        self.assertEqual(self.b.face(GROUP)["in_interests"], 0)

    def test_ethernet_unicast_goes_by_xdp(self):
        self.a.start()
        self.b.start("[faces.ethernet]\nlisten = true\n")
        uri = f"ether://[{self.b.mac()}]"
        face = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))[
            "face_id"
        ]
        self.exchange(face)
        for side in (self.a, self.b):
            self.check_xdp_used(side)
        self.assertEqual(self.b.face("ether://")["uri"], f"ether://[{self.a.mac()}]")

    def test_ethernet_peer_with_sockets_is_served(self):
        self.a.start("[faces.ethernet]\nmulticast = true\n")
        self.b.start("[faces.ethernet]\nmulticast = true\n", xdp=False)
        self.exchange(self.a.face(GROUP)["face_id"])
        self.check_xdp_used(self.a)

    def test_other_traffic_on_interface_is_untouched(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        before = {side: side.xdp()[side.card] for side in (self.a, self.b)}
        for address in ("192.0.2.2", "2001:db8::2"):
            if shutil.which("ping"):
                completed = self.a.run("ping", "-c", "3", "-i", "0.05", "-s", "1200", address)
                self.assertEqual(completed.returncode, 0, completed.stdout)
            script = "import socket, sys; s = socket.create_server((sys.argv[1], 7000), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); print('up', flush=True); c, _ = s.accept()\nwhile (b := c.recv(65536)): c.sendall(b)"
            server = self.b.start_process(
                "python3", "-c", script, address, stdout=subprocess.PIPE, text=True
            )
            self.addCleanup(finish, server)
            server.stdout.readline()
            script = "import socket, sys\ns = socket.create_connection((sys.argv[1], 7000)); s.settimeout(10); n = 0\nfor i in range(200):\n  s.sendall(bytes(5000)); m = 0\n  while m < 5000: m += len(s.recv(65536))\n  n += m\nprint(n)"
            completed = self.a.run("python3", "-c", script, address)
            self.assertEqual(completed.stdout.strip(), "1000000", completed.stderr)
        # A datagram to another port, and one to NDN's port that is not NDN: both reach sockets of
        # the system.
        script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7001)); s.settimeout(10); print('up', flush=True); print(s.recv(100))"
        server = self.b.start_process("python3", "-c", script, stdout=subprocess.PIPE, text=True)
        self.addCleanup(finish, server)
        server.stdout.readline()
        script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'hello', ('192.0.2.2', 7001)); s.sendto(b'hello', ('192.0.2.2', 6363))"
        self.assertEqual(self.a.run("python3", "-c", script).returncode, 0)
        self.assertIn("hello", server.stdout.readline())
        after = {side: side.xdp()[side.card] for side in (self.a, self.b)}
        self.assertEqual(before, after, "no packet of it went by AF_XDP")

    def test_datagrams_for_others_are_not_received(self):
        """Datagrams to another address, from an address of this machine, from loopback, or with a
        wrong checksum create no face."""
        self.a.start()
        until(self.a.xdp, "the program is attached: before that the system receives the datagrams")
        script = (
            "import socket, struct\n"
            "def total(b):\n"
            "    b += bytes(len(b) % 2); n = sum(struct.unpack(f'!{len(b) // 2}H', b))\n"
            "    while n >> 16: n = (n & 0xffff) + (n >> 16)\n"
            "    return n\n"
            "def datagram(mac, source, destination, damage=0):\n"
            f"    packet = bytes.fromhex('050b0703080178 0a0401020304'.replace(' ', ''))\n"
            "    a = socket.inet_aton(source) + socket.inet_aton(destination)\n"
            "    udp = struct.pack('!HHHH', 5000, 6363, 8 + len(packet), 0)\n"
            "    check = ~total(a + struct.pack('!HH', 17, len(udp + packet)) + udp + packet) & 0xffff\n"
            "    udp = udp[:6] + struct.pack('!H', check ^ damage) + packet\n"
            "    ip = struct.pack('!BBHHHBBH', 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0) + a\n"
            "    ip = ip[:10] + struct.pack('!H', ~total(ip) & 0xffff) + ip[12:]\n"
            f"    return mac + bytes.fromhex('020000000077') + b'\\x08\\x00' + ip + udp\n"
            "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('vb', 0))\n"
            f"own, other = bytes.fromhex('{self.a.mac().replace(':', '')}'), bytes.fromhex('020000000055')\n"
            "for frame in (datagram(own, '192.0.2.9', '198.51.100.1'), datagram(own, '192.0.2.1', '192.0.2.1'), datagram(own, '127.0.0.1', '192.0.2.1'),\n"
            "              datagram(other, '192.0.2.9', '192.0.2.1'), datagram(own, '192.0.2.9', '192.0.2.1', 0x100), datagram(own, '0.0.0.0', '192.0.2.1')):\n"
            "    s.send(frame)\n"
            "s.send(datagram(own, '192.0.2.9', '192.0.2.1'))\n"
        )
        completed = self.b.run("python3", "-c", script)
        self.assertEqual(completed.returncode, 0, completed.stderr)
        until(lambda: self.a.face("udp4://192.0.2.9:5000"), "the last datagram creates a face")
        self.assertEqual(len(self.a.faces("udp4")), 1)
        # Those to another address and to another card went to the system, which drops them.
        self.assertEqual(self.a.xdp()["va"]["others"], 4)

    def test_interface_removed_and_added_goes_by_xdp_again(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.face_to_b()
        self.exchange(face)
        groups = [side.face(GROUP)["face_id"] for side in (self.a, self.b)]
        self.unplug()
        for side in (self.a, self.b):
            until(lambda: not side.xdp(), "it no longer uses AF_XDP")
            self.assertIn("uses ordinary sockets from now on", side.log_text())
        self.assertEqual(
            self.a.face("udp4://192.0.2.2:6363")["face_id"], face, "the UDP face lives on"
        )
        self.plug()
        for side in (self.a, self.b):
            until(lambda: side.card in side.xdp(), "it uses AF_XDP again")
        self.assertEqual(
            [side.face(GROUP)["face_id"] for side in (self.a, self.b)],
            groups,
            "Ethernet faces keep their ids",
        )
        self.exchange(face, "/net/again")
        self.exchange(groups[0], "/net/group")
        self.check_xdp_used(self.a)

    def test_interface_down_and_up_goes_by_xdp_again(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.exchange(face)
        ip("-n", self.a.netns, "link", "set", self.a.card, "down")
        until(lambda: not self.a.xdp(), "it no longer uses AF_XDP")
        ip("-n", self.a.netns, "link", "set", self.a.card, "up")
        # The address was removed when the interface went down.
        ip("-n", self.a.netns, "address", "replace", "2001:db8::1/64", "dev", self.a.card, "nodad")
        until(lambda: self.a.xdp() and self.b.xdp(), "it uses AF_XDP again")
        self.exchange(face, "/net/again")
        for side in (self.a, self.b):
            self.check_xdp_used(side)

    def test_router_killed_leaves_no_program_attached(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for _ in range(3):
            self.a.process.kill()
            self.a.stop()
            until(
                lambda: (
                    "xdp"
                    not in json.loads(self.a.run("ip", "-j", "link", "show", self.a.card).stdout)[0]
                ),
                "no program is left on the interface",
            )
            self.a.start()
            until(self.a.xdp, "the queue is free")
            self.exchange(self.face_to_b(), f"/net/{self.a.process.pid}")
            self.check_xdp_used(self.a)
        self.assertNotIn("ordinary sockets", self.b.log_text())

    def test_xdp_switched_by_reload_is_applied(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.a.write(xdp=False)
        until(lambda: not self.a.xdp(), "the reload is applied")
        self.assertNotIn("xdp", self.a.run("ip", "link", "show", "va").stdout)
        self.exchange(face)
        self.a.write()
        until(lambda: self.a.xdp(), "the reload is applied")
        self.exchange(face, "/net/again")
        self.check_xdp_used(self.a)

    def test_two_queues_are_used(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.check_xdp_used(side, queues=2)

    def test_queue_count_changed_is_followed(self):
        self.unplug()
        self.plug(queues=2)
        # The root namespace's sysfs does not show these interfaces, so the count is read as ethtool
        # does.
        for side in (self.a, self.b):
            set_queues(side, 1, 1)
        for side in (self.a, self.b):
            side.start()
            # A queue closed a moment ago may still be busy.
            self.assertEqual(
                until(lambda: side.xdp().get(side.card), "it goes by AF_XDP")["queues"], 1
            )
        face = self.face_to_b()
        self.exchange(face)
        self.add_a_queue()
        for side in (self.a, self.b):
            until(
                lambda: side.xdp().get(side.card, {}).get("queues") == 2,
                "the new queue is read, too",
            )
        self.exchange(face, "/net/again")
        self.check_xdp_used(self.a, queues=2)

    def test_driver_without_native_xdp_uses_generic_mode(self):
        self.attach_bridges()
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.check_xdp_used(side, mode="generic")

    def test_generic_mode_with_gro_delivers_all(self):
        """GRO merges datagrams before the program receives them, for sockets that enable it. Cards
        do so by default."""
        for side in () if cards.NAMES else (self.a, self.b):
            # GRO; veth uses it if the other end sends datagrams one by one.
            ethtool(
                side,
                "ask(array.array('B', struct.pack('=2I', 0x1f, 0))), ask(array.array('B', struct.pack('=2I', 0x2c, 1)))\n",
            )
            # GRO waits a millisecond for more datagrams to merge.
            side.run(
                "sh",
                "-c",
                f"echo 1000000 >/sys/class/net/{side.card}/gro_flush_timeout",
                check=True,
            )
        self.attach_bridges()
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b(), size=1_000_000)
        for side in (self.a, self.b):
            self.check_xdp_used(side, mode="generic")
            drops = json.loads(side.nw("status", "--json"))["drops"]
            self.assertFalse(
                [drop for drop in drops if drop["reason"].startswith("malformed")], drops
            )

    def test_frames_too_long_are_reported(self):
        for side in (self.a, self.b):
            ip("-n", side.netns, "link", "set", side.card, "mtu", "9000")
            side.start()
            self.assertEqual(side.xdp(), {})
            self.assertIn("its MTU is 9000", side.log_text())
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            ip("-n", side.netns, "link", "set", side.card, "mtu", "1500")
            until(side.xdp, "packets fit frames now")

    def test_interface_with_foreign_program_uses_sockets(self):
        self.a.start()
        file = Path(self.folder) / "c.toml"
        file.write_text(
            self.a.text("", True, MTU).replace("a.sock", "c.sock").replace(":6363", ":6464")
        )
        log = open(Path(self.folder) / "c.log", "w+")
        second = self.a.start_process(NW, "run", "-c", file, stderr=log)
        self.addCleanup(finish, second)
        until(
            lambda: "another XDP program already" in Path(log.name).read_text(),
            "the reason is logged",
        )
        self.assertIsNone(second.poll(), "and runs nevertheless")
        log.close()

    def test_changed_neighbours_and_addresses_are_followed(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.exchange(face)
        sent = self.a.xdp()["va"]["sent"]
        # Another card at the other end: the router is notified of the new address by the kernel.
        ip("-n", self.b.netns, "link", "set", "vb", "address", "02:00:00:00:00:99")
        until(lambda: self.b.xdp(), "it is open again with its new address")
        ip("-n", self.a.netns, "neighbour", "flush", "dev", "va")
        self.exchange(face, "/net/again")
        until(lambda: self.a.xdp()["va"]["sent"] > sent + 30, "by AF_XDP again")
        # A stale entry is resolved again and used meanwhile.
        neighbour = json.loads(self.a.run("ip", "-j", "neighbour", "show", "192.0.2.2").stdout)[0]
        self.assertEqual(neighbour["lladdr"], "02:00:00:00:00:99")
        ip(
            "-n",
            self.a.netns,
            "neighbour",
            "replace",
            "192.0.2.2",
            "lladdr",
            "02:00:00:00:00:99",
            "dev",
            "va",
            "nud",
            "stale",
        )
        self.exchange(face, "/net/stale")
        state = json.loads(self.a.run("ip", "-j", "neighbour", "show", "192.0.2.2").stdout)[0][
            "state"
        ]
        self.assertTrue(
            {"DELAY", "PROBE", "REACHABLE"} & set(state), f"the kernel was made to ask: {state}"
        )

    def test_peer_behind_gateway_is_reached(self):
        """Peers beyond the link are reached through the gateway's address."""
        for side, other in ((self.a, 2), (self.b, 1)):
            ip("-n", side.netns, "address", "add", f"198.51.{3 - other}.1/32", "dev", "lo")
            ip(
                "-n",
                side.netns,
                "route",
                "add",
                f"198.51.{other}.1/32",
                "via",
                f"192.0.2.{other}",
                "src",
                f"198.51.{3 - other}.1",
            )
            side.start()
        self.exchange(self.face_to_b("udp4://198.51.2.1:6363"))
        for side in (self.a, self.b):
            self.check_xdp_used(side)

    def without(self, *right):
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        bounds = ",".join(f"-{name}" for name in right)
        self.b.start()
        self.a.start(around=["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all"])
        self.assertEqual(self.a.xdp(), {})
        self.exchange(self.face_to_b())
        # A new address does not change the refusal.
        ip("-n", self.a.netns, "address", "add", "192.0.2.111/24", "dev", self.a.card)
        self.exchange(self.a.face("udp4://")["face_id"], "/net/again")
        lines = [line for line in self.a.log_text().splitlines() if "ordinary sockets" in line]
        self.assertEqual(len(lines), 1, self.a.log_text())
        return lines[0]

    def test_without_cap_bpf_sockets_are_used(self):
        line = self.without("bpf", "sys_admin", "net_admin")
        self.assertIn("va uses ordinary sockets, which take several times the processor time", line)
        self.assertIn("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep", line)

    def test_without_cap_net_raw_sockets_are_used(self):
        line = self.without("net_raw")
        self.assertIn("may not open AF_XDP sockets", line)
        self.assertIn("setcap", line)

    def test_without_lockable_memory_sockets_are_used(self):
        if not shutil.which("prlimit"):
            self.skipTest("needs prlimit")
        self.a.start(
            around=[
                "prlimit",
                "--memlock=65536",
                "setpriv",
                "--bounding-set=-ipc_lock",
                "--inh-caps=-all",
            ]
        )
        self.assertEqual(self.a.xdp(), {})
        self.assertIn("LimitMEMLOCK=infinity", self.a.log_text())

    def test_invalid_options_are_refused(self):
        for value, expected in (
            ('["va", 5]', "an interface in quotes"),
            ('["a-name-that-is-too-long"]', "an interface in quotes"),
            ('"va"', "a list"),
        ):
            file = Path(self.folder) / "c.toml"
            file.write_text(f"[faces.xdp]\ninterfaces = {value}\n")
            completed = subprocess.run(
                [NW, "run", "-c", file], capture_output=True, text=True, timeout=TIMEOUT_S
            )
            self.assertNotEqual(completed.returncode, 0)
            self.assertIn(f"{file}:2", completed.stderr)
            self.assertIn(expected, completed.stderr)
        # A missing interface is not an error: the router waits for it.
        self.a.start(xdp=["none"])
        self.assertEqual(self.a.xdp(), {})


def ethtool(side, script):
    """Runs a script that queries the kernel about the side's card by `ask(buffer)`, as ethtool
    does. Returns its output."""
    head = (
        "import array, fcntl, json, socket, struct\n"
        f"def ask(b): fcntl.ioctl(socket.socket(), 0x8946, struct.pack('16sP', b'{side.card}', b.buffer_info()[0]) + bytes(16))\n"
    )
    completed = side.run("python3", "-c", head + script)
    if completed.returncode != 0:
        raise AssertionError(completed.stderr)
    return completed.stdout


def set_queues(side, receive, send):
    """Sets queue counts as `ethtool -L card rx … tx …` does. Network cards have combined queues, so
    they get the smaller count."""
    counts = (0, 0, 0, min(receive, send)) if cards.NAMES else (receive, send, 0, 0)
    ethtool(side, f"ask(array.array('B', struct.pack('=9I', 0x3d, 0, 0, 0, 0, *{counts})))\n")


def card_counters(side):
    """Returns the card's counters, as `ethtool -S card` prints them."""
    return json.loads(
        ethtool(
            side,
            (
                "info = array.array('B', struct.pack('=2IQI', 0x37, 0, 1 << 1, 0))\n"
                "ask(info)\n"
                "count = struct.unpack_from('=I', info, 16)[0]\n"
                "names = array.array('B', struct.pack('=3I', 0x1b, 1, count) + bytes(32 * count))\n"
                "values = array.array('B', struct.pack('=2I', 0x1d, count) + bytes(8 * count))\n"
                "ask(names), ask(values)\n"
                "name = lambda at: bytes(names[12 + 32 * at:44 + 32 * at]).split(b'\\0')[0].decode()\n"
                "print(json.dumps({name(at): struct.unpack_from('=Q', values, 8 + 8 * at)[0] for at in range(count)}))\n"
            ),
        )
    )


if __name__ == "__main__":
    unittest.main()
