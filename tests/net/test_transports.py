"""Two routers in network namespaces joined by a veth pair: Ethernet, VLAN, UDP groups, interfaces
that are removed and added.

Needs root and `ip`; prints a reason and skips without them.

Usage: python3 tests/net/test_transports.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from waiting import TIMEOUT_S, until

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


SKIP_REASON = can_make_namespaces()


class Side:
    """A namespace with one end of the link, and a router in it."""

    def __init__(self, folder, letter):
        self.folder, self.letter = Path(folder), letter
        self.netns, self.card = f"nw{os.getpid()}{letter}", f"v{letter}"
        self.socket = self.folder / f"{letter}.sock"
        self.process = None
        ip("netns", "add", self.netns)
        ip("-n", self.netns, "link", "set", "lo", "up")

    def start_process(self, *args, **options):
        return subprocess.Popen(["ip", "netns", "exec", self.netns, *map(str, args)], **options)

    def start(self, config, udp=()):
        """Starts the router. `udp`: addresses to listen at."""
        file = self.folder / f"{self.letter}.toml"
        file.write_text(
            f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = {json.dumps(udp)}\n{config}'
        )
        self.log = open(self.folder / f"{self.letter}.log", "w+")
        self.process = self.start_process(
            NW, "run", "-c", file, stderr=self.log, stdin=subprocess.DEVNULL
        )
        until(lambda: self.socket.exists() or self.process.poll() is not None, "the router answers")
        if self.process.poll() is not None:
            raise AssertionError("the router did not start: " + Path(self.log.name).read_text())

    def write(self, config):
        (self.folder / f"{self.letter}.toml").write_text(
            f'[faces.unix]\npath = "{self.socket}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = []\n{config}'
        )
        self.process.send_signal(signal.SIGHUP)

    def nw(self, *args, code=0):
        # The unix socket is a file: the command need not be in the namespace.
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}
        completed = subprocess.run(
            [NW, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=env,
            stdin=subprocess.DEVNULL,
        )
        if code is not None and completed.returncode not in (
            code if isinstance(code, tuple) else (code,)
        ):
            raise AssertionError(
                f"nw {args} on {self.letter}: {completed.stdout[-400:]} {completed.stderr[-800:]}"
            )
        return completed.stdout

    def background(self, *args):
        """Starts a command of nw and waits for its first line of output."""
        env = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{self.socket}"}
        process = subprocess.Popen(
            [NW, *map(str, args)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        process.stdout.readline()
        return process

    def faces(self, scheme=None):
        extra = ["--scheme", scheme] if scheme else []
        # Status 3: no face matches.
        return [
            json.loads(line)
            for line in self.nw("face", "list", "--json", *extra, code=(0, 3)).splitlines()
        ]

    def face(self, uri):
        """Returns the face whose remote URI starts with `uri`; None if there is none."""
        found = [face for face in self.faces() if face["uri"].startswith(uri)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def mac(self):
        link = json.loads(
            subprocess.run(
                ["ip", "-n", self.netns, "-j", "link", "show", self.card],
                capture_output=True,
                check=True,
                text=True,
            ).stdout
        )
        return link[0]["address"]

    def stop(self):
        if self.process and self.process.poll() is None:
            # `ip netns exec` replaces itself by the router: it is one process.
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(TIMEOUT_S)
        if self.process:
            self.log.close()

    def end(self):
        self.stop()
        subprocess.run(["ip", "netns", "delete", self.netns], check=False, capture_output=True)


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
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
        ip(
            "-n",
            a.netns,
            "link",
            "add",
            a.card,
            "type",
            "veth",
            "peer",
            "name",
            b.card,
            "netns",
            b.netns,
        )
        for number, side in enumerate((a, b), 1):
            ip("-n", side.netns, "address", "add", f"192.0.2.{number}/24", "dev", side.card)
            ip("-n", side.netns, "link", "set", side.card, "up")

    def exchange(self, face, name="/net/test"):
        """B serves, A requests over this face: pings, then a file of many packets longer than the
        MTU."""
        self.a.nw("route", "add", name, face)
        server = self.b.background("ping-server", name, "--size", "4000")
        self.addCleanup(finish, server)
        lines = self.a.nw("ping", name, "--count", "5", "--interval", "20", "--json").splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 5, lines)
        content = bytes(at * 7 & 255 for at in range(300_000))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background("put", name + "/file", self.b.folder / "file", "--json", "--quiet")
        self.addCleanup(finish, put)
        received = self.a.folder / "got"
        self.a.nw("cat", name + "/file", "--output", received, "--quiet")
        self.assertEqual(received.read_bytes(), content)

    def check(self, face, local, link_type, persistency):
        seen = (face["local_uri"], face["link_type"], face["persistency"], face["scope"])
        self.assertEqual(seen, (local, link_type, persistency, "non-local"))

    def test_ethernet_group_face_carries_packets(self):
        for side in (self.a, self.b):
            side.start("[faces.ethernet]\nmulticast = true\n")
        face = self.a.face(GROUP)
        self.check(face, "dev://va", "multi-access", "permanent")
        self.assertEqual(face["mtu"], 1500)
        self.exchange(face["face_id"])
        after = self.a.face(GROUP)
        self.assertEqual(after["in_interests"], 0, "what was sent did not come back")
        self.assertGreater(after["in_data"], 5)
        self.assertEqual(
            [f["face_id"] for f in self.a.faces("ether")],
            [face["face_id"]],
            "no face for a single peer",
        )

    def test_ethernet_unicast_face_carries_packets(self):
        self.a.start("")
        self.b.start("[faces.ethernet]\nlisten = true\nidle_timeout_s = 2\n")
        self.assertIn("dev://vb", self.b.nw("face", "channels"))
        uri = f"ether://[{self.b.mac()}]"
        face = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))[
            "face_id"
        ]
        self.check(self.a.face(uri), "dev://va", "point-to-point", "persistent")
        existing = json.loads(self.a.nw("face", "create", uri, "--local", "dev://va", "--json"))
        self.assertEqual(existing["face_id"], face, "there already")
        self.assertEqual(
            [f["face_id"] for f in self.a.faces("dev")],
            [face],
            "filtered by the scheme of the local URI",
        )
        listed = self.a.nw("face", "list", "--json", "--local", "dev://va").splitlines()
        self.assertEqual([json.loads(line)["face_id"] for line in listed], [face])
        self.exchange(face)
        back = self.b.face(f"ether://[{self.a.mac()}]")
        self.check(back, "dev://vb", "point-to-point", "on-demand")
        self.assertLessEqual(back["expiration_period_ms"], 2000)
        until(lambda: self.b.face(back["uri"]) is None, "an idle on-demand face ends")

    def test_invalid_face_commands_are_refused(self):
        self.a.start("")
        for args in (
            ["ether://[02:00:00:00:00:09]"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://none"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://lo"],
            [f"ether://[{self.a.mac()}]", "--local", "dev://va"],
            ["ether://[02:00:00:00:00:09]", "--local", "dev://va", "--mtu", "1501"],
            ["udp4://224.0.23.170:56363"],
        ):
            self.a.nw("face", "create", *args, code=6)
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
        self.assertEqual(self.b.start_process("python3", "-c", script).wait(TIMEOUT_S), 0)
        face = until(lambda: self.a.face("ether://[02:00:00:00:00:77]"), "a face for the sender")
        until(
            lambda: self.a.face(face["uri"])["in_interests"] == 2,
            "both own frames, also the padded one, and no other",
        )
        time.sleep(0.2)
        self.assertEqual(self.a.face(face["uri"])["in_interests"], 2)

    def vlan_pings_answered(self, a, b):
        for side, vlan in ((self.a, a), (self.b, b)):
            side.start(f"[faces.ethernet]\nmulticast = true\nvlan = {vlan}\n")
        self.a.nw("route", "add", "/v", self.a.face(GROUP)["face_id"])
        server = self.b.background("ping-server", "/v")
        self.addCleanup(finish, server)
        lines = self.a.nw(
            "ping",
            "/v",
            "--count",
            "3",
            "--interval",
            "20",
            "--timeout",
            "1000",
            "--json",
            code=None,
        ).splitlines()
        return json.loads(lines[-1])["answered"]

    def test_vlan_at_both_routers_carries_packets(self):
        self.assertEqual(self.vlan_pings_answered(100, 100), 3)

    def test_vlan_does_not_reach_a_router_without(self):
        self.assertEqual(self.vlan_pings_answered(100, 0), 0)

    def test_vlan_does_not_reach_other_vlan(self):
        self.assertEqual(self.vlan_pings_answered(100, 101), 0)

    def test_vlan_tag_is_written_and_read(self):
        if (
            subprocess.run(
                [
                    "ip",
                    "-n",
                    self.b.netns,
                    "link",
                    "add",
                    "link",
                    "vb",
                    "name",
                    "vb.100",
                    "type",
                    "vlan",
                    "id",
                    "100",
                ],
                capture_output=True,
            ).returncode
            != 0
        ):
            self.skipTest("this kernel has no VLANs (802.1Q): run by tests/vm/vlan")
        ip("-n", self.b.netns, "link", "set", "vb.100", "up")
        self.a.start("[faces.ethernet]\nmulticast = true\nvlan = 100\n")
        # The system's VLAN interface removes and adds the tag.
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
        until(lambda: self.b.face(uri), "the address of the other interface is usable")
        self.assertEqual(
            (face["link_type"], face["persistency"], face["scope"]),
            ("multi-access", "permanent", "non-local"),
        )
        self.exchange(face["face_id"])
        self.assertEqual(self.a.face(uri)["in_interests"], 0, "what was sent did not come back")
        return face

    def test_udp4_group_face_carries_packets(self):
        face = self.udp_group(UDP4)
        self.assertEqual(face["local_uri"], "udp4://192.0.2.1:56363")

    def test_udp6_group_face_carries_packets(self):
        face = self.udp_group(UDP6)
        self.assertTrue(face["local_uri"].startswith("udp6://[fe80::"), face)

    def test_two_interfaces_have_separate_faces(self):
        ip(
            "-n",
            self.a.netns,
            "link",
            "add",
            "wa",
            "type",
            "veth",
            "peer",
            "name",
            "wb",
            "netns",
            self.b.netns,
        )
        for number, (side, card) in enumerate(((self.a, "wa"), (self.b, "wb")), 1):
            ip("-n", side.netns, "address", "add", f"198.51.100.{number}/24", "dev", card)
            ip("-n", side.netns, "link", "set", card, "up")
        for side in (self.a, self.b):
            side.start('[faces.multicast]\nenabled = true\ngroups = ["224.0.23.170:56363"]\n')
        by_local = {face["local_uri"]: face for face in self.a.faces("udp4")}
        self.assertEqual(set(by_local), {"udp4://192.0.2.1:56363", "udp4://198.51.100.1:56363"})
        self.exchange(by_local["udp4://198.51.100.1:56363"]["face_id"])
        first = {face["local_uri"]: face for face in self.b.faces("udp4")}
        self.assertEqual(
            first["udp4://192.0.2.2:56363"]["in_interests"], 0, "only the other cable was used"
        )
        self.assertGreater(first["udp4://198.51.100.2:56363"]["in_interests"], 0)

    def test_interfaces_removed_and_added_update_faces(self):
        config = '[faces.multicast]\nenabled = true\ngroups = ["224.0.23.170:56363"]\n[faces.ethernet]\nmulticast = true\nlisten = true\n'
        for side in (self.a, self.b):
            side.start(config)
        before = {face["face_id"] for face in self.a.faces() if face["uri"] in (GROUP, UDP4)}
        self.assertEqual(len(before), 2)
        self.a.nw("route", "add", "/kept", self.a.face(GROUP)["face_id"])
        ids = lambda: {face["face_id"] for face in self.a.faces() if face["uri"] in (GROUP, UDP4)}
        # The interface is deleted and created again, with another index and another address.
        ip("-n", self.a.netns, "link", "delete", "va")
        self.plug()
        self.exchange(self.a.face(GROUP)["face_id"])
        # The interface goes down and up several times.
        for _ in range(50):
            ip("-n", self.a.netns, "link", "set", "va", "down")
            ip("-n", self.a.netns, "link", "set", "va", "up")
        # The UDP group needs an address.
        ip("-n", self.a.netns, "address", "delete", "192.0.2.1/24", "dev", "va")
        ip("-n", self.a.netns, "address", "add", "192.0.2.9/24", "dev", "va")
        until(
            lambda: self.a.face(UDP4)["local_uri"] == "udp4://192.0.2.9:56363",
            "the group has the other address",
        )
        self.assertEqual(ids(), before)
        self.assertIn("/kept", self.a.nw("route", "list"))
        until(
            lambda: (
                "LOWER_UP"
                in subprocess.run(
                    ["ip", "-n", self.a.netns, "link", "show", "va"], capture_output=True, text=True
                ).stdout
            ),
            "the cable is up",
        )
        time.sleep(1.5)  # until then the system drops what is sent
        self.exchange(self.a.face(UDP4)["face_id"])

    def test_interface_lists_are_applied_and_reloaded(self):
        self.a.start('[faces.ethernet]\nmulticast = true\ndeny = ["v*"]\n')
        self.assertIsNone(self.a.face(GROUP))
        self.a.write(
            '[faces.ethernet]\nmulticast = true\nallow = ["192.0.2.0/24"]\nad_hoc = true\n'
        )
        self.check(
            until(lambda: self.a.face(GROUP), "it is in this network"),
            "dev://va",
            "ad-hoc",
            "permanent",
        )
        self.a.write('[faces.ethernet]\nmulticast = true\nallow = ["198.51.100.0/24"]\n')
        until(lambda: not self.a.face(GROUP), "the face is not in this list")

    def cut_by_ip(self, side):
        """Returns the packets that this side's system has fragmented, IPv4 and IPv6."""
        read = lambda file: side.start_process(
            "cat", file, stdout=subprocess.PIPE, text=True
        ).communicate(timeout=TIMEOUT_S)[0]
        heads, values = (
            line.split() for line in read("/proc/net/snmp").splitlines() if line.startswith("Ip:")
        )
        six = dict(line.split() for line in read("/proc/net/snmp6").splitlines())
        return int(values[heads.index("FragOKs")]) + int(six["Ip6FragOKs"])

    def big_answers(self, shards, peer, mtu):
        """B answers with Data of 8 KB to A, which sends first: link fragments fit frames, and IP
        fragments nothing."""
        self.b.start(f"[forwarder]\nshards = {shards}\n", udp=[peer])
        self.a.start("")
        name, face = (
            "/net/big",
            json.loads(
                self.a.nw("face", "create", f"udp{4 if '.' in peer else 6}://{peer}", "--json")
            )["face_id"],
        )
        content = bytes(at * 7 & 255 for at in range(800_000))
        (self.b.folder / "file").write_bytes(content)
        put = self.b.background(
            "put", name, self.b.folder / "file", "--segment", 7900, "--json", "--quiet"
        )
        self.addCleanup(finish, put)
        self.addCleanup(finish, self.b.background("ping-server", "/net/short"))
        self.a.nw("route", "add", "/net", face)
        self.a.nw("ping", "/net/short", "--count", "3", "--interval", "20")
        opened = lambda: [
            face
            for face in self.b.faces("udp4" if "." in peer else "udp6")
            if face["persistency"] == "on-demand"
        ]
        self.assertEqual(
            [face["mtu"] for face in opened()],
            [8800],
            "the path MTU is read only when a packet is too long",
        )
        received = self.a.folder / "got"
        self.a.nw("cat", name, "--output", received, "--quiet")
        self.assertEqual(received.read_bytes(), content)
        self.assertEqual(self.cut_by_ip(self.b), 0)
        self.assertEqual([face["mtu"] for face in opened()], [mtu])
        return opened()[0]["face_id"]

    def test_answers_fit_frames(self):
        face = self.big_answers(1, "192.0.2.2:6363", 1500 - 28)
        self.b.nw("face", "update", face, "--mtu", 8800)
        self.b.nw("cs", "erase", "/")
        self.a.nw("cs", "erase", "/")
        self.a.nw("cat", "/net/big", "--output", self.a.folder / "again", "--quiet")
        self.assertGreater(self.cut_by_ip(self.b), 50, "an explicit MTU is used")

    def test_answers_of_all_shards_fit_frames(self):
        self.big_answers(2, "192.0.2.2:6363", 1500 - 28)

    def test_answers_by_ipv6_fit_frames(self):
        for number, side in enumerate((self.a, self.b), 1):
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
        self.big_answers(1, "[2001:db8::2]:6363", 1500 - 48)

    def test_peer_without_reassembly_gets_whole_datagrams(self):
        """A client without link reassembly gets each packet as one datagram, which IP fragments."""
        self.b.start("", udp=["192.0.2.2:6363"])
        (self.b.folder / "file").write_bytes(bytes(7900))
        put = self.b.background(
            "put", "/net/big/v=1", self.b.folder / "file", "--segment", 7900, "--json", "--quiet"
        )
        self.addCleanup(finish, put)
        request_all = (
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5);"
            "s.sendto(bytes.fromhex('0518 0710 0803 6e6574 0803 626967 360101 320100 0a04 00000001'), ('192.0.2.2', 6363)); print(len(s.recv(9000)))"
        )
        asked = self.a.start_process(
            "python3", "-c", request_all, stdout=subprocess.PIPE, text=True
        )
        output = asked.communicate(timeout=TIMEOUT_S)[0]
        self.assertGreater(int(output), 7900)
        self.assertEqual(self.cut_by_ip(self.b), 1)

    def test_ethernet_without_cap_net_raw_is_reported(self):
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        file = Path(self.folder) / "c.toml"
        file.write_text(
            f'[faces.unix]\npath = "{self.folder}/c.sock"\n[faces.ethernet]\nmulticast = true\n'
        )
        bare = self.a.start_process(
            "setpriv",
            "--bounding-set=-net_raw",
            "--inh-caps=-all",
            NW,
            "run",
            "-c",
            file,
            stderr=subprocess.PIPE,
            text=True,
        )
        _, output = bare.communicate(timeout=TIMEOUT_S)
        self.assertNotEqual(bare.returncode, 0)
        self.assertIn("setcap cap_net_raw+ep", output)


def finish(process):
    if process.poll() is None:
        process.terminate()
    process.communicate(timeout=TIMEOUT_S)


if __name__ == "__main__":
    unittest.main()
