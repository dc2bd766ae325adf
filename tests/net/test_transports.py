"""Two routers in network namespaces of their own, joined by a virtual cable: Ethernet, VLAN, UDP groups, interfaces that come and go.

Needs root and `ip`; skips with a word where they are missing. Usage: python3 tests/net/test_transports.py [unittest's arguments]
The command is target/release/nw, or $NW_BIN."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
GROUP = "ether://[01:00:5e:00:17:aa]"
UDP4, UDP6 = "udp4://224.0.23.170:56363", "udp6://[ff02::1234%"


def can_make_namespaces():
    if not Path(NW).exists():
        return f"{NW} does not exist: cargo build --release -p nw-cli, or set NW_BIN"
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    if not shutil.which("ip"):
        return "needs the command ip"
    name = f"nwprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode != 0:
        return "needs network namespaces, which this kernel or container refuses"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


WHY_NOT = can_make_namespaces()


class Side:
    """A namespace with one end of the cable, and a router in it."""

    def __init__(self, folder, letter):
        self.folder, self.letter = Path(folder), letter
        self.netns, self.card = f"nw{os.getpid()}{letter}", f"v{letter}"
        self.socket = self.folder / f"{letter}.sock"
        self.process = None
        ip("netns", "add", self.netns)
        ip("-n", self.netns, "link", "set", "lo", "up")

    def inside(self, *words, **more):
        return subprocess.Popen(["ip", "netns", "exec", self.netns, *map(str, words)], **more)

    def start(self, config, udp=()):
        """`udp`: addresses to listen at."""
        file = self.folder / f"{self.letter}.toml"
        file.write_text(f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = {json.dumps(udp)}\n{config}')
        self.log = open(self.folder / f"{self.letter}.log", "w+")
        self.process = self.inside(NW, "run", "-c", file, stderr=self.log, stdin=subprocess.DEVNULL)
        until(lambda: self.socket.exists() or self.process.poll() is not None, "the router answers")
        if self.process.poll() is not None:
            raise AssertionError("the router did not start: " + Path(self.log.name).read_text())

    def write(self, config):
        (self.folder / f"{self.letter}.toml").write_text(f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = []\n{config}')
        self.process.send_signal(signal.SIGHUP)

    def nw(self, *words, code=0):
        # The unix socket is a file: the command need not be in the namespace.
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}
        done = subprocess.run([NW, *map(str, words)], capture_output=True, text=True, timeout=PATIENCE_S, env=env, stdin=subprocess.DEVNULL)
        if code is not None and done.returncode not in (code if isinstance(code, tuple) else (code,)):
            raise AssertionError(f"nw {words} on {self.letter}: {done.stdout[-400:]} {done.stderr[-800:]}")
        return done.stdout

    def background(self, *words):
        """Started, and ready as far as its first line, here or there, says so."""
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}
        process = subprocess.Popen([NW, *map(str, words)], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        process.stdout.readline()
        return process

    def faces(self, scheme=None):
        more = ["--scheme", scheme] if scheme else []
        # Ends with 1 when no face is so.
        return [json.loads(line) for line in self.nw("face", "list", "--json", *more, code=(0, 3)).splitlines()]

    def face(self, uri):
        """The face whose far end starts so; None if there is none."""
        found = [face for face in self.faces() if face["uri"].startswith(uri)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def mac(self):
        link = json.loads(subprocess.run(["ip", "-n", self.netns, "-j", "link", "show", self.card], capture_output=True, check=True, text=True).stdout)
        return link[0]["address"]

    def stop(self):
        if self.process and self.process.poll() is None:
            # `ip netns exec` becomes the router: it is one process.
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE_S)
        if self.process:
            self.log.close()

    def end(self):
        self.stop()
        subprocess.run(["ip", "netns", "delete", self.netns], check=False, capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=PATIENCE_S)


@unittest.skipIf(WHY_NOT, WHY_NOT or "")
class Transports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="nw-net-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.a, self.b = (self.side(letter) for letter in "ab")
        self.plug()

    def side(self, letter):
        side = Side(self.folder, letter)
        self.addCleanup(side.end)
        return side

    def plug(self):
        a, b = self.a, self.b
        ip("-n", a.netns, "link", "add", a.card, "type", "veth", "peer", "name", b.card, "netns", b.netns)
        for number, side in enumerate((a, b), 1):
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", side.card)
            ip("-n", side.netns, "link", "set", side.card, "up")

    def exchange(self, face, name="/net/test"):
        """B serves, A asks by this face: pings, then a file of many packets over the MTU."""
        self.a.nw("route", "add", name, face)
        server = self.b.background("ping-server", name, "--size", "4000")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", name, "--count", "5", "--interval", "20", "--json").splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 5, lines)
        content = bytes(at * 7 & 255 for at in range(300_000))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background("put", name + "/file", self.b.folder / "file", "--json", "--quiet")
        self.addCleanup(finish, put)
        got = self.a.folder / "got"
        self.a.nw("cat", name + "/file", "--output", got, "--quiet")
        self.assertEqual(got.read_bytes(), content)

    def check(self, face, local, link_type, persistency):
        seen = (face["local_uri"], face["link_type"], face["persistency"], face["scope"])
        self.assertEqual(seen, (local, link_type, persistency, "non-local"))

    def test_ethernet_group(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.a.face(GROUP)
        self.check(face, "dev://va", "multi-access", "permanent")
        self.assertEqual(face["mtu"], 1500)
        self.exchange(face["face_id"])
        after = self.a.face(GROUP)
        self.assertEqual(after["in_interests"], 0, "what was sent did not come back")
        self.assertGreater(after["in_data"], 5)
        self.assertEqual([f["face_id"] for f in self.a.faces("ether")], [face["face_id"]], "no face for a single peer")

    def test_ethernet_single_peer(self):
        self.a.start("")
        self.b.start("[faces.ethernet]\nlisten = true\nidle_timeout_s = 2\n")
        self.assertIn("dev://vb", self.b.nw("face", "channels"))
        uri = f"ether://[{self.b.mac()}]"
        face = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))["face_id"]
        self.check(self.a.face(uri), "dev://va", "point-to-point", "persistent")
        again = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))
        self.assertEqual(again["face_id"], face, "there already")
        self.assertEqual([f["face_id"] for f in self.a.faces("dev")], [face], "asked for by the local end's scheme")
        listed = self.a.nw("face", "list", "--json", "--local", "dev://va").splitlines()
        self.assertEqual([json.loads(line)["face_id"] for line in listed], [face])
        self.exchange(face)
        back = self.b.face(f"ether://[{self.a.mac()}]")
        self.check(back, "dev://vb", "point-to-point", "on-demand")
        self.assertLessEqual(back["expiration_period_ms"], 2000)
        until(lambda: self.b.face(back["uri"]) is None, "an idle on-demand face ends")

    def test_commands_that_cannot_be(self):
        self.a.start("")
        for words in (
            ["ether://[02:00:00:00:00:09]"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://none"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://lo"],
            [f"ether://[{self.a.mac()}]", "--local", "dev://va"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://va", "--mtu", "1501"],
            ["udp4://224.0.23.170:56363"],
        ):
            self.a.nw("face", "create", *words, code=6)
        self.assertEqual(self.a.faces("ether"), [])

    def test_short_frames_are_padded(self):
        self.a.start("[faces.ethernet]\nlisten = true\n")
        interest = bytes.fromhex("050b 0703 080178 0a04 01020304")
        script = (
            "import socket, sys\n"
            "s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('vb', 0))\n"
            "for ethertype, tail in ((0x8624, b''), (0x8625, b''), (0x8624, bytes(40))):\n"
            f"    s.send(bytes.fromhex({self.a.mac().replace(':', '')!r} + '020000000077') + ethertype.to_bytes(2, 'big') + bytes.fromhex({interest.hex()!r}) + tail)\n"
            f"s.send(bytes.fromhex('0200000000aa' + '020000000077' + '8624') + bytes.fromhex({interest.hex()!r}))\n"
        )
        self.assertEqual(self.b.inside("python3", "-c", script).wait(PATIENCE_S), 0)
        face = until(lambda: self.a.face("ether://[02:00:00:00:00:77]"), "a face for who sent")
        until(lambda: self.a.face(face["uri"])["in_interests"] == 2, "both frames of ours, the padded one too, and no other")
        time.sleep(0.2)
        self.assertEqual(self.a.face(face["uri"])["in_interests"], 2)

    def vlan_pings_answered(self, a, b):
        for side, vlan in ((self.a, a), (self.b, b)):
            side.start(f"[faces.ethernet]\nmulticast = true\nvlan = {vlan}\n")
        self.a.nw("route", "add", "/v", self.a.face(GROUP)["face_id"])
        server = self.b.background("ping-server", "/v")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", "/v", "--count", "3", "--interval", "20", "--timeout", "1000", "--json", code=None).splitlines()
        return json.loads(lines[-1])["answered"]

    def test_vlan_at_both_routers(self):
        self.assertEqual(self.vlan_pings_answered(100, 100), 3)

    def test_vlan_does_not_reach_a_router_without(self):
        self.assertEqual(self.vlan_pings_answered(100, 0), 0)

    def test_vlan_does_not_reach_another(self):
        self.assertEqual(self.vlan_pings_answered(100, 101), 0)

    def test_vlan_is_written_and_read(self):
        if subprocess.run(["ip", "-n", self.b.netns, "link", "add", "link", "vb", "name", "vb.100", "type", "vlan", "id", "100"], capture_output=True).returncode != 0:
            self.skipTest("this kernel has no VLANs")
        ip("-n", self.b.netns, "link", "set", "vb.100", "up")
        self.a.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        # The system's own interface of the VLAN takes the tag off and puts it on.
        self.b.start('[faces.ethernet]\nmulticast = true\nallow = ["vb*"]\ndeny = ["vb"]\n')
        self.check(self.b.face(GROUP), "dev://vb.100", "multi-access", "permanent")
        face = self.a.face(GROUP)["face_id"]
        self.a.nw("route", "add", "/v", face)
        server = self.b.background("ping-server", "/v")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", "/v", "--count", "3", "--interval", "20", "--json").splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 3, lines)

    def udp_group(self, uri):
        for side in (self.a, self.b):
            side.start("[faces.multicast]\nenabled = true\n")
        face = until(lambda: self.a.face(uri), "the interface's address is usable")
        until(lambda: self.b.face(uri), "the other's, too")
        self.assertEqual((face["link_type"], face["persistency"], face["scope"]), ("multi-access", "permanent", "non-local"))
        self.exchange(face["face_id"])
        self.assertEqual(self.a.face(uri)["in_interests"], 0, "what was sent did not come back")
        return face

    def test_udp4_group(self):
        face = self.udp_group(UDP4)
        self.assertEqual(face["local_uri"], "udp4://192.0.2.1:56363")

    def test_udp6_group(self):
        face = self.udp_group(UDP6)
        self.assertTrue(face["local_uri"].startswith("udp6://[fe80::"), face)

    def test_two_interfaces_have_faces_of_their_own(self):
        ip("-n", self.a.netns, "link", "add", "wa", "type", "veth", "peer", "name", "wb", "netns", self.b.netns)
        for number, (side, card) in enumerate(((self.a, "wa"), (self.b, "wb")), 1):
            ip("-n", side.netns, "address", "add", f"198.51.100.{number}/24", "dev", card)
            ip("-n", side.netns, "link", "set", card, "up")
        for side in (self.a, self.b):
            side.start('[faces.multicast]\nenabled = true\ngroups = ["224.0.23.170:56363"]\n')
        by_local = {face["local_uri"]: face for face in self.a.faces("udp4")}
        self.assertEqual(set(by_local), {"udp4://192.0.2.1:56363", "udp4://198.51.100.1:56363"})
        self.exchange(by_local["udp4://198.51.100.1:56363"]["face_id"])
        first = {face["local_uri"]: face for face in self.b.faces("udp4")}
        self.assertEqual(first["udp4://192.0.2.2:56363"]["in_interests"], 0, "only the other cable was used")
        self.assertGreater(first["udp4://198.51.100.2:56363"]["in_interests"], 0)

    def test_interfaces_come_and_go(self):
        config = '[faces.multicast]\nenabled = true\ngroups = ["224.0.23.170:56363"]\n[faces.ethernet]\nmulticast = true\nlisten = true\n'
        for side in (self.a, self.b):
            side.start(config)
        before = {face["face_id"] for face in self.a.faces() if face["uri"] in (GROUP, UDP4)}
        self.assertEqual(len(before), 2)
        self.a.nw("route", "add", "/kept", self.a.face(GROUP)["face_id"])
        ids = lambda: {face["face_id"] for face in self.a.faces() if face["uri"] in (GROUP, UDP4)}
        # Deleted and made again, with another number and another address of its own.
        ip("-n", self.a.netns, "link", "delete", "va")
        self.plug()
        self.exchange(self.a.face(GROUP)["face_id"])
        # Switched off and on, often.
        for _ in range(50):
            ip("-n", self.a.netns, "link", "set", "va", "down")
            ip("-n", self.a.netns, "link", "set", "va", "up")
        # Its address, which the UDP group needs.
        ip("-n", self.a.netns, "address", "delete", "192.0.2.1/24", "dev", "va")
        ip("-n", self.a.netns, "address", "add", "192.0.2.9/24", "dev", "va")
        until(lambda: self.a.face(UDP4)["local_uri"] == "udp4://192.0.2.9:56363", "the group has the other address")
        self.assertEqual(ids(), before)
        self.assertIn("/kept", self.a.nw("route", "list"))
        until(lambda: "LOWER_UP" in subprocess.run(["ip", "-n", self.a.netns, "link", "show", "va"], capture_output=True, text=True).stdout, "the cable is up")
        time.sleep(1.5)  # until then the system throws away what is sent
        self.exchange(self.a.face(UDP4)["face_id"])

    def test_lists_decide_and_are_read_again(self):
        self.a.start('[faces.ethernet]\nmulticast = true\ndeny = ["v*"]\n')
        self.assertIsNone(self.a.face(GROUP))
        self.a.write('[faces.ethernet]\nmulticast = true\nallow = ["192.0.2.0/24"]\nad_hoc = true\n')
        self.check(until(lambda: self.a.face(GROUP), "it is in this network"), "dev://va", "ad-hoc", "permanent")
        self.a.write('[faces.ethernet]\nmulticast = true\nallow = ["198.51.100.0/24"]\n')
        until(lambda: not self.a.face(GROUP), "it is not in this one")

    def cut_by_ip(self, side):
        """Packets that this side's system has cut, of IPv4 and of IPv6."""
        read = lambda file: side.inside("cat", file, stdout=subprocess.PIPE, text=True).communicate(timeout=PATIENCE_S)[0]
        heads, values = (line.split() for line in read("/proc/net/snmp").splitlines() if line.startswith("Ip:"))
        six = dict(line.split() for line in read("/proc/net/snmp6").splitlines())
        return int(values[heads.index("FragOKs")]) + int(six["Ip6FragOKs"])

    def big_answers(self, shards, peer, mtu):
        """B answers with Data of 8 KB to A, who speaks first: in pieces that fit frames, and IP cuts nothing."""
        self.b.start(f"[forwarder]\nshards = {shards}\n", udp=[peer])
        self.a.start("")
        name, face = "/net/big", json.loads(self.a.nw("face", "create", f"udp{4 if '.' in peer else 6}://{peer}", "--json"))["face_id"]
        content = bytes(at * 7 & 255 for at in range(800_000))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background("put", name, self.b.folder / "file", "--segment", 7900, "--json", "--quiet")
        self.addCleanup(finish, put)
        self.addCleanup(finish, self.b.background("ping-server", "/net/short"))
        self.a.nw("route", "add", "/net", face)
        self.a.nw("ping", "/net/short", "--count", "3", "--interval", "20")
        opened = lambda: [face for face in self.b.faces("udp4" if "." in peer else "udp6") if face["persistency"] == "on-demand"]
        self.assertEqual([face["mtu"] for face in opened()], [8800], "what the way takes is asked for when it matters")
        got = self.a.folder / "got"
        self.a.nw("cat", name, "--output", got, "--quiet")
        self.assertEqual(got.read_bytes(), content)
        self.assertEqual(self.cut_by_ip(self.b), 0)
        self.assertEqual([face["mtu"] for face in opened()], [mtu])
        return opened()[0]["face_id"]

    def test_answers_fit_frames(self):
        face = self.big_answers(1, "192.0.2.2:6363", 1500 - 28)
        self.b.nw("face", "update", face, "--mtu", 8800)
        self.b.nw("cs", "erase", "/")
        self.a.nw("cs", "erase", "/")
        self.a.nw("cat", "/net/big", "--output", self.a.folder / "again", "--quiet")
        self.assertGreater(self.cut_by_ip(self.b), 50, "who says an MTU has it")

    def test_answers_of_all_shards_fit_frames(self):
        self.big_answers(2, "192.0.2.2:6363", 1500 - 28)

    def test_answers_by_ipv6_fit_frames(self):
        for number, side in enumerate((self.a, self.b), 1):
            ip("-n", side.netns, "address", "add", f"2001:db8::{number}/64", "dev", side.card, "nodad")
        self.big_answers(1, "[2001:db8::2]:6363", 1500 - 48)

    def test_who_may_not_put_pieces_together_gets_none(self):
        """A client of others: what it is sent is one datagram, which IP cuts."""
        self.b.start("", udp=["192.0.2.2:6363"])
        (self.b.folder / "file").write_bytes(bytes(7900))
        put = self.b.background("put", "/net/big/v=1", self.b.folder / "file", "--segment", 7900, "--json", "--quiet")
        self.addCleanup(finish, put)
        ask = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5);"
               "s.sendto(bytes.fromhex('0518 0710 0803 6e6574 0803 626967 360101 320100 0a04 00000001'), ('192.0.2.2', 6363)); print(len(s.recv(9000)))")
        asked = self.a.inside("python3", "-c", ask, stdout=subprocess.PIPE, text=True)
        said = asked.communicate(timeout=PATIENCE_S)[0]
        self.assertGreater(int(said), 7900)
        self.assertEqual(self.cut_by_ip(self.b), 1)

    def test_without_the_right(self):
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        file = Path(self.folder) / "c.toml"
        file.write_text(f'[faces.unix]\npath = "{self.folder}/c.sock"\n[faces.ethernet]\nmulticast = true\n')
        bare = self.a.inside("setpriv", "--bounding-set=-net_raw", "--inh-caps=-all", NW, "run", "-c", file, stderr=subprocess.PIPE, text=True)
        _, said = bare.communicate(timeout=PATIENCE_S)
        self.assertNotEqual(bare.returncode, 0)
        self.assertIn("setcap cap_net_raw+ep", said)


def finish(process):
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=PATIENCE_S)


if __name__ == "__main__":
    unittest.main()
