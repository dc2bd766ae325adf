"""AF_XDP between two routers in network namespaces of their own: UDP and Ethernet both ways, what else there is on the interface, interfaces and
queues that come and go, rights that are missing.

Needs root and `ip`; skips with a word where they are missing. Usage: python3 tests/net/test_xdp.py [unittest's arguments]
The command is target/release/nw, or $NW_BIN. NW_CARDS puts network cards in the place of the virtual cable: see cards.py."""

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
from pathlib import Path

import cards
from test_transports import GROUP, NW, Side, WHY_NOT, finish, ip
from waiting import PATIENCE_S, until

# Of UDP link packets, so that each is one frame.
MTU = 1400


class XdpSide(Side):
    """With UDP listeners, and AF_XDP on its card unless said otherwise."""

    shards = 1
    listen = ("0.0.0.0:6363", "[::]:6363")

    def text(self, more, xdp, mtu):
        interfaces = json.dumps([self.card] if xdp is True else xdp or [])
        return (f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = {json.dumps(self.listen)}\nmtu = {mtu}\n'
                f'[faces.xdp]\ninterfaces = {interfaces}\n[forwarder]\nshards = {self.shards}\n{more}')

    def start(self, more="", xdp=True, mtu=MTU, around=()):
        file = self.folder / f"{self.letter}.toml"
        file.write_text(self.text(more, xdp, mtu))
        self.log = open(self.folder / f"{self.letter}.log", "w+")
        self.process = self.inside(*around, NW, "run", "-c", file, stderr=self.log, stdin=subprocess.DEVNULL)
        until(lambda: answers(self.socket) or self.process.poll() is not None, "the router answers")
        if self.process.poll() is not None:
            raise AssertionError("the router did not start: " + self.said())

    def write(self, more="", xdp=True, mtu=MTU):
        (self.folder / f"{self.letter}.toml").write_text(self.text(more, xdp, mtu))
        self.process.send_signal(signal.SIGHUP)

    def said(self):
        return Path(self.log.name).read_text()

    def xdp(self):
        """Interfaces that go by AF_XDP, by name."""
        return {status["interface"]: status for status in json.loads(self.nw("status", "--json"))["xdp"]}

    def end(self):
        self.stop()
        if cards.NAMES:
            cards.unplug(self)
        super().end()

    def run(self, *words, **more):
        return subprocess.run(["ip", "netns", "exec", self.netns, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S, **more)


def answers(path):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(str(path)) == 0


class Pair(unittest.TestCase):
    """Two sides with a cable, which exchange packets."""

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
            of_each = () if queues == 1 else ("numrxqueues", str(queues), "numtxqueues", str(queues))
            ip("-n", a.netns, "link", "add", a.card, *of_each, "type", "veth", "peer", "name", b.card, *of_each, "netns", b.netns)
        for number, side in enumerate((a, b), 1):
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", side.card)
            ip("-n", side.netns, "address", "add", f"2001:db8::{number}/64", "dev", side.card, "nodad")
            ip("-n", side.netns, "link", "set", side.card, "up")

    def unplug(self):
        if cards.NAMES:
            return [cards.unplug(side) for side in (self.a, self.b)]
        ip("-n", self.a.netns, "link", "delete", self.a.card)

    def take_drivers_away(self):
        """Cards are bridges from now on, which have no native XDP."""
        for number, side in enumerate((self.a, self.b), 1):
            ip("-n", side.netns, "address", "flush", "dev", side.card)
            ip("-n", side.netns, "link", "add", "bridge", "type", "bridge")
            ip("-n", side.netns, "link", "set", side.card, "master", "bridge")
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", "bridge")
            ip("-n", side.netns, "link", "set", "bridge", "up")
            side.card = "bridge"

    def add_a_queue(self):
        if cards.NAMES:
            # Their driver may refuse while there is a program (virtio does): as the guide says, without it then.
            for side in (self.a, self.b):
                side.write(xdp=False)
                until(lambda: not side.xdp(), "the file says so")
                set_queues(side, 2, 2)
                side.write()
            return
        for side in (self.a, self.b):
            # Those that receive first, on both sides: veth wants as many as the other sends by.
            set_queues(side, 2, 1)
        for side in (self.a, self.b):
            set_queues(side, 2, 2)

    def face_to_b(self, uri="udp4://192.0.2.2:6363"):
        return json.loads(self.a.nw("face", "create", uri, "--json"))["face_id"]

    def exchange(self, face, name="/net/test", size=300_000):
        """B serves, A asks by this face: pings, then a file of many packets."""
        self.a.nw("route", "add", name, face)
        server = self.b.background("ping-server", name, "--size", "500")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", name, "--count", "5", "--interval", "20", "--json").splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 5, lines)
        content = bytes(at * 7 & 255 for at in range(size))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background("put", name + "/file", self.b.folder / "file", "--json", "--quiet")
        self.addCleanup(finish, put)
        got = self.a.folder / "got"
        self.a.nw("cat", name + "/file", "--output", got, "--quiet")
        self.assertEqual(got.read_bytes(), content)

    def went_by_xdp(self, side, both=True, mode="native", queues=1):
        """Hundreds of frames came, and left, this way; none was lost."""
        status = side.xdp()[side.card]
        memory = cards.MEMORY if mode == "native" else "copy"
        self.assertEqual((status["mode"], status["memory"], status["queues"]), (mode, memory, queues), status)
        self.assertGreater(status["received"], 30, status)
        if both:
            self.assertGreater(status["sent"], 30, status)
        self.assertEqual(status["lost"], 0, status)
        return status


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Xdp(Pair):
    def test_udp4(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.went_by_xdp(side)
        self.assertIn("AF_XDP", self.a.nw("status"))
        self.assertIsNotNone(self.b.face("udp4://192.0.2.1:6363"), "the face that the peer's first packet made")

    def test_some_megabytes(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b(), size=5_000_000)
        for side in (self.a, self.b):
            self.went_by_xdp(side)

    def test_udp6(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b("udp6://[2001:db8::2]:6363"))
        for side in (self.a, self.b):
            self.went_by_xdp(side)

    def test_udp6_of_one_link(self):
        for side in (self.a, self.b):
            side.start()
        addresses = json.loads(self.b.run("ip", "-j", "-6", "address", "show", "dev", self.b.card, "scope", "link").stdout)
        local = next(a["local"] for link in addresses for a in link.get("addr_info", []) if "local" in a)
        index = json.loads(self.a.run("ip", "-j", "link", "show", self.a.card).stdout)[0]["ifindex"]
        until(lambda: "tentative" not in self.a.run("ip", "-6", "address", "show", "dev", self.a.card).stdout, "the address is usable")
        until(lambda: "tentative" not in self.b.run("ip", "-6", "address", "show", "dev", self.b.card).stdout, "the address is usable")
        self.exchange(self.face_to_b(f"udp6://[{local}%{index}]:6363"))
        self.went_by_xdp(self.a)

    def test_the_other_end_has_sockets(self):
        """Its system leaves checksums to the 'device', and sends runs of datagrams as one."""
        for with_xdp, without in ((self.a, self.b), (self.b, self.a)):
            with_xdp.start()
            without.start(xdp=False)
            self.exchange(self.face_to_b(), size=1_000_000)
            self.went_by_xdp(with_xdp)
            self.assertEqual(without.xdp(), {})
            for side in (self.a, self.b):
                side.process.terminate()
                side.process.wait(PATIENCE_S)
                side.log.close()

    def test_what_is_longer_than_the_mtu(self):
        for side in (self.a, self.b):
            side.start(mtu=8800)
        self.exchange(self.face_to_b())
        # Both ends are ours: the file's segments came in pieces that fit frames.
        pieces = self.a.xdp()["va"]["received"]
        self.assertGreater(pieces, 200)
        # Where an MTU is said, IP cuts segments, and such frames are the system's.
        back = [face["face_id"] for face in self.b.faces("udp4") if face["persistency"] == "on-demand"]
        self.b.nw("face", "update", back[0], "--mtu", 8800)
        self.a.nw("cs", "erase", "/")
        self.a.nw("cat", "/net/test/file", "--output", self.a.folder / "again", "--quiet")
        status = self.a.xdp()["va"]
        self.assertGreater(status["sent"], 60)
        self.assertLess(status["received"] - pieces, 20, status)

    def test_ethernet_group(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        self.exchange(self.a.face(GROUP)["face_id"])
        for side in (self.a, self.b):
            self.went_by_xdp(side)
        self.assertEqual(self.a.face(GROUP)["in_interests"], 0, "what was sent did not come back")

    def test_vlan_by_xdp_at_both_routers(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        self.exchange(self.a.face(GROUP)["face_id"])
        self.went_by_xdp(self.a)

    def test_vlan_by_xdp_does_not_reach_a_router_without(self):
        self.a.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        self.b.start("[faces.ethernet]\nmulticast = true\n")
        self.a.nw("route", "add", "/v", self.a.face(GROUP)["face_id"])
        self.addCleanup(finish, self.b.background("ping-server", "/v"))
        self.a.nw("ping", "/v", "--count", "3", "--interval", "20", "--timeout", "500", code=(5,))
        self.assertEqual(self.b.face(GROUP)["in_interests"], 0)

    def test_ethernet_single_peer(self):
        self.a.start()
        self.b.start("[faces.ethernet]\nlisten = true\n")
        uri = f"ether://[{self.b.mac()}]"
        face = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))["face_id"]
        self.exchange(face)
        for side in (self.a, self.b):
            self.went_by_xdp(side)
        self.assertEqual(self.b.face("ether://")["uri"], f"ether://[{self.a.mac()}]")

    def test_ethernet_from_a_router_with_sockets(self):
        self.a.start("[faces.ethernet]\nmulticast = true\n")
        self.b.start("[faces.ethernet]\nmulticast = true\n", xdp=False)
        self.exchange(self.a.face(GROUP)["face_id"])
        self.went_by_xdp(self.a)

    def test_all_else_on_the_interface_is_untouched(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        before = {side: side.xdp()[side.card] for side in (self.a, self.b)}
        for address in ("192.0.2.2", "2001:db8::2"):
            if shutil.which("ping"):
                done = self.a.run("ping", "-c", "3", "-i", "0.05", "-s", "1200", address)
                self.assertEqual(done.returncode, 0, done.stdout)
            script = "import socket, sys; s = socket.create_server((sys.argv[1], 7000), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET); print('up', flush=True); c, _ = s.accept()\nwhile (b := c.recv(65536)): c.sendall(b)"
            server = self.b.inside("python3", "-c", script, address, stdout=subprocess.PIPE, text=True)
            self.addCleanup(finish, server)
            server.stdout.readline()
            script = "import socket, sys\ns = socket.create_connection((sys.argv[1], 7000)); s.settimeout(10); n = 0\nfor i in range(200):\n  s.sendall(bytes(5000)); m = 0\n  while m < 5000: m += len(s.recv(65536))\n  n += m\nprint(n)"
            done = self.a.run("python3", "-c", script, address)
            self.assertEqual(done.stdout.strip(), "1000000", done.stderr)
        # A datagram to another port, and one to NDN's that is no NDN: both come to sockets of the system.
        script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 7001)); s.settimeout(10); print('up', flush=True); print(s.recv(100))"
        server = self.b.inside("python3", "-c", script, stdout=subprocess.PIPE, text=True)
        self.addCleanup(finish, server)
        server.stdout.readline()
        script = "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'hello', ('192.0.2.2', 7001)); s.sendto(b'hello', ('192.0.2.2', 6363))"
        self.assertEqual(self.a.run("python3", "-c", script).returncode, 0)
        self.assertIn("hello", server.stdout.readline())
        after = {side: side.xdp()[side.card] for side in (self.a, self.b)}
        self.assertEqual(before, after, "nothing of it came this way")

    def test_what_is_for_others_is_not_taken_in(self):
        """Datagrams to another address, from an address of this machine, from loopback; and with a wrong checksum: no face comes of them."""
        self.a.start()
        until(self.a.xdp, "its program is there: before, the system takes them")
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
        done = self.b.run("python3", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        until(lambda: self.a.face("udp4://192.0.2.9:5000"), "the last one is taken in")
        self.assertEqual(len(self.a.faces("udp4")), 1)
        # Those to another address and to another card went to the system, which knows them not to be for it.
        self.assertEqual(self.a.xdp()["va"]["others"], 4)

    def test_an_interface_that_vanishes_and_comes_again(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.face_to_b()
        self.exchange(face)
        groups = [side.face(GROUP)["face_id"] for side in (self.a, self.b)]
        self.unplug()
        for side in (self.a, self.b):
            until(lambda: not side.xdp(), "it goes by AF_XDP no more")
            self.assertIn("uses ordinary sockets from now on", side.said())
        self.assertEqual(self.a.face("udp4://192.0.2.2:6363")["face_id"], face, "the UDP face lives on")
        self.plug()
        for side in (self.a, self.b):
            until(lambda: side.card in side.xdp(), "it goes by AF_XDP again")
        self.assertEqual([side.face(GROUP)["face_id"] for side in (self.a, self.b)], groups, "Ethernet faces keep their ids")
        self.exchange(face, "/net/again")
        self.exchange(groups[0], "/net/group")
        self.went_by_xdp(self.a)

    def test_an_interface_that_is_down_and_up_again(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.exchange(face)
        ip("-n", self.a.netns, "link", "set", self.a.card, "down")
        until(lambda: not self.a.xdp(), "it goes by AF_XDP no more")
        ip("-n", self.a.netns, "link", "set", self.a.card, "up")
        # Being down took it away.
        ip("-n", self.a.netns, "address", "replace", "2001:db8::1/64", "dev", self.a.card, "nodad")
        until(lambda: self.a.xdp() and self.b.xdp(), "it goes by AF_XDP again")
        self.exchange(face, "/net/again")
        for side in (self.a, self.b):
            self.went_by_xdp(side)

    def test_a_router_that_is_killed_leaves_nothing_and_another_begins(self):
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for _ in range(3):
            self.a.process.kill()
            self.a.stop()
            until(lambda: "xdp" not in json.loads(self.a.run("ip", "-j", "link", "show", self.a.card).stdout)[0], "no program is left on the interface")
            self.a.start()
            until(self.a.xdp, "the queue is free")
            self.exchange(self.face_to_b(), f"/net/{self.a.process.pid}")
            self.went_by_xdp(self.a)
        self.assertNotIn("ordinary sockets", self.b.said())

    def test_switched_off_and_on_and_off_again_in_the_file(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.a.write(xdp=False)
        until(lambda: not self.a.xdp(), "the file says so")
        self.assertNotIn("xdp", self.a.run("ip", "link", "show", "va").stdout)
        self.exchange(face)
        self.a.write()
        until(lambda: self.a.xdp(), "the file says so")
        self.exchange(face, "/net/again")
        self.went_by_xdp(self.a)

    def test_two_queues(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.went_by_xdp(side, queues=2)

    def test_a_queue_count_that_changes(self):
        self.unplug()
        self.plug(queues=2)
        # Root's namespace of sysfs knows nothing of these interfaces, so as ethtool does it.
        for side in (self.a, self.b):
            set_queues(side, 1, 1)
        for side in (self.a, self.b):
            side.start()
            # A queue that was closed a moment ago may not be free at once.
            self.assertEqual(until(lambda: side.xdp().get(side.card), "it goes by AF_XDP")["queues"], 1)
        face = self.face_to_b()
        self.exchange(face)
        self.add_a_queue()
        for side in (self.a, self.b):
            until(lambda: side.xdp().get(side.card, {}).get("queues") == 2, "the new queue is read, too")
        self.exchange(face, "/net/again")
        self.went_by_xdp(self.a, queues=2)

    def test_a_driver_without_native_xdp(self):
        self.take_drivers_away()
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            self.went_by_xdp(side, mode="generic")

    def test_generic_mode_where_the_system_merges_datagrams(self):
        """It does so before the program sees them, for sockets that ask for it. Cards do unless told otherwise."""
        for side in () if cards.NAMES else (self.a, self.b):
            # GRO; a veth has it where the other end does not send runs as one.
            ethtool(side, "ask(array.array('B', struct.pack('=2I', 0x1f, 0))), ask(array.array('B', struct.pack('=2I', 0x2c, 1)))\n")
            # For a millisecond it waits for more to merge.
            side.run("sh", "-c", f"echo 1000000 >/sys/class/net/{side.card}/gro_flush_timeout", check=True)
        self.take_drivers_away()
        for side in (self.a, self.b):
            side.start()
        self.exchange(self.face_to_b(), size=1_000_000)
        for side in (self.a, self.b):
            self.went_by_xdp(side, mode="generic")
            drops = json.loads(side.nw("status", "--json"))["drops"]
            self.assertFalse([drop for drop in drops if drop["reason"].startswith("malformed")], drops)

    def test_frames_that_are_too_long(self):
        for side in (self.a, self.b):
            ip("-n", side.netns, "link", "set", side.card, "mtu", "9000")
            side.start()
            self.assertEqual(side.xdp(), {})
            self.assertIn("its MTU is 9000", side.said())
        self.exchange(self.face_to_b())
        for side in (self.a, self.b):
            ip("-n", side.netns, "link", "set", side.card, "mtu", "1500")
            until(side.xdp, "it fits now")

    def test_another_program_on_the_interface(self):
        self.a.start()
        file = Path(self.folder) / "c.toml"
        file.write_text(self.a.text("", True, MTU).replace("a.sock", "c.sock").replace(":6363", ":6464"))
        log = open(Path(self.folder) / "c.log", "w+")
        second = self.a.inside(NW, "run", "-c", file, stderr=log)
        self.addCleanup(finish, second)
        until(lambda: "another XDP program already" in Path(log.name).read_text(), "it says why not")
        self.assertIsNone(second.poll(), "and runs nevertheless")
        log.close()

    def test_neighbours_and_addresses_that_change(self):
        for side in (self.a, self.b):
            side.start()
        face = self.face_to_b()
        self.exchange(face)
        sent = self.a.xdp()["va"]["sent"]
        # Another card at the other end: the kernel hears of it, and so does the router.
        ip("-n", self.b.netns, "link", "set", "vb", "address", "02:00:00:00:00:99")
        until(lambda: self.b.xdp(), "it is open again with its new address")
        ip("-n", self.a.netns, "neighbour", "flush", "dev", "va")
        self.exchange(face, "/net/again")
        until(lambda: self.a.xdp()["va"]["sent"] > sent + 30, "by AF_XDP again")
        # Stale: asked once, used on.
        neighbour = json.loads(self.a.run("ip", "-j", "neighbour", "show", "192.0.2.2").stdout)[0]
        self.assertEqual(neighbour["lladdr"], "02:00:00:00:00:99")
        ip("-n", self.a.netns, "neighbour", "replace", "192.0.2.2", "lladdr", "02:00:00:00:00:99", "dev", "va", "nud", "stale")
        self.exchange(face, "/net/stale")
        state = json.loads(self.a.run("ip", "-j", "neighbour", "show", "192.0.2.2").stdout)[0]["state"]
        self.assertTrue({"DELAY", "PROBE", "REACHABLE"} & set(state), f"the kernel was made to ask: {state}")

    def test_by_a_gateway(self):
        """Peers beyond the link are sent to by the neighbour that routes to them."""
        for side, other in ((self.a, 2), (self.b, 1)):
            ip("-n", side.netns, "address", "add", f"198.51.{3 - other}.1/32", "dev", "lo")
            ip("-n", side.netns, "route", "add", f"198.51.{other}.1/32", "via", f"192.0.2.{other}", "src", f"198.51.{3 - other}.1")
            side.start()
        self.exchange(self.face_to_b("udp4://198.51.2.1:6363"))
        for side in (self.a, self.b):
            self.went_by_xdp(side)

    def without(self, *right):
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        bounds = ",".join(f"-{name}" for name in right)
        self.b.start()
        self.a.start(around=["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all"])
        self.assertEqual(self.a.xdp(), {})
        self.exchange(self.face_to_b())
        # Another address makes nothing possible that was not.
        ip("-n", self.a.netns, "address", "add", "192.0.2.111/24", "dev", self.a.card)
        self.exchange(self.a.face("udp4://")["face_id"], "/net/again")
        lines = [line for line in self.a.said().splitlines() if "ordinary sockets" in line]
        self.assertEqual(len(lines), 1, self.a.said())
        return lines[0]

    def test_without_the_right_to_kernel_programs(self):
        line = self.without("bpf", "sys_admin", "net_admin")
        self.assertIn("va uses ordinary sockets, which take several times the processor time", line)
        self.assertIn("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep", line)

    def test_without_the_right_to_sockets_of_the_kind(self):
        line = self.without("net_raw")
        self.assertIn("may not open AF_XDP sockets", line)
        self.assertIn("setcap", line)

    def test_without_memory_that_may_be_locked(self):
        if not shutil.which("prlimit"):
            self.skipTest("needs prlimit")
        self.a.start(around=["prlimit", "--memlock=65536", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-all"])
        self.assertEqual(self.a.xdp(), {})
        self.assertIn("LimitMEMLOCK=infinity", self.a.said())

    def test_values_that_cannot_be(self):
        for value, expected in (('["va", 5]', "an interface in quotes"), ('["a-name-that-is-too-long"]', "an interface in quotes"), ('"va"', "a list")):
            file = Path(self.folder) / "c.toml"
            file.write_text(f"[faces.xdp]\ninterfaces = {value}\n")
            done = subprocess.run([NW, "run", "-c", file], capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{file}:2", done.stderr)
            self.assertIn(expected, done.stderr)
        # One that is not there is waited for.
        self.a.start(xdp=["none"])
        self.assertEqual(self.a.xdp(), {})


def ethtool(side, script):
    """What a script prints that asks the kernel about the side's card by `ask(buffer)`, as ethtool does."""
    head = (
        "import array, fcntl, json, socket, struct\n"
        f"def ask(b): fcntl.ioctl(socket.socket(), 0x8946, struct.pack('16sP', b'{side.card}', b.buffer_info()[0]) + bytes(16))\n"
    )
    done = side.run("python3", "-c", head + script)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def set_queues(side, receive, send):
    """As `ethtool -L card rx … tx …`; cards that are given have queues that do both, as many as are to do both."""
    counts = (0, 0, 0, min(receive, send)) if cards.NAMES else (receive, send, 0, 0)
    ethtool(side, f"ask(array.array('B', struct.pack('=9I', 0x3d, 0, 0, 0, 0, *{counts})))\n")


def card_counters(side):
    """As `ethtool -S card`."""
    return json.loads(ethtool(side, (
        "info = array.array('B', struct.pack('=2IQI', 0x37, 0, 1 << 1, 0))\n"
        "ask(info)\n"
        "count = struct.unpack_from('=I', info, 16)[0]\n"
        "names = array.array('B', struct.pack('=3I', 0x1b, 1, count) + bytes(32 * count))\n"
        "values = array.array('B', struct.pack('=2I', 0x1d, count) + bytes(8 * count))\n"
        "ask(names), ask(values)\n"
        "name = lambda at: bytes(names[12 + 32 * at:44 + 32 * at]).split(b'\\0')[0].decode()\n"
        "print(json.dumps({name(at): struct.unpack_from('=Q', values, 8 + 8 * at)[0] for at in range(count)}))\n"
    )))


if __name__ == "__main__":
    unittest.main()
