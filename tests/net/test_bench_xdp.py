"""`nw bench` by AF_XDP between two network namespaces: both ends over one link, each of them with a
router at the other end, refusals and their messages, and that no program stays attached.

Needs root and `ip`; prints a reason and skips without them.

Usage: python3 tests/net/test_bench_xdp.py [unittest's arguments]

The command is target/release/nw, or $NW_BIN. NW_CARDS replaces the veth pair by network cards: see
cards.py.
"""

import json
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import cards
import test_xdp
from test_transports import NW, SKIP_REASON, finish, ip
from waiting import TIMEOUT_S, until
from test_xdp import set_queues

TO_B = "udp4://192.0.2.2:6363"


@unittest.skipIf(SKIP_REASON, SKIP_REASON or "")
class BenchXdp(test_xdp.Pair):
    def sink(self, side=None, *args):
        """Starts the answering end by AF_XDP and waits until it is ready."""
        side = side or self.b
        sink = side.start_process(
            NW,
            "bench",
            "answer",
            "--xdp",
            side.card,
            "--json",
            *args,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(close, sink)
        line = sink.stdout.readline()
        if not line:
            raise AssertionError(
                "the sink did not start: " + sink.communicate(timeout=TIMEOUT_S)[1]
            )
        self.assertEqual(json.loads(line)["event"], "ready")
        return sink

    def stop_sink(self, sink):
        sink.send_signal(signal.SIGINT)
        end = json.loads(sink.stdout.readline())
        self.assertEqual((end["event"], sink.wait(TIMEOUT_S)), ("end", 0))
        return end

    def generate(self, to=TO_B, *args, code=0, around=(), card="va"):
        completed = self.a.run(
            *around, NW, "bench", "generate", "--xdp", card, "--socket", to, "--json", *args
        )
        self.assertEqual(completed.returncode, code, completed.stdout[-400:] + completed.stderr)
        return json.loads(completed.stdout) if completed.stdout else None, completed.stderr

    def refusal(self, *args, to=TO_B, around=(), card="va"):
        """Runs the generator, which must refuse. Returns its one line of error text."""
        result, output = self.generate(to, *args, code=1, around=around, card=card)
        self.assertIsNone(result)
        self.assertRegex(output, r"\Anw: [^\n]+\n\Z")
        return output

    def check_all_answered(self, result, packets, mode="native", late_max=0):
        """Checks that all requests were answered. `late_max`: Data that may still be under way at
        the last answer."""
        self.assertEqual(
            (result["asked"], result["answered"], result["complete"]),
            (packets, packets, True),
            result,
        )
        xdp = result["xdp"]
        memory = cards.MEMORY if mode == "native" else "copy"
        self.assertEqual(
            (xdp["mode"], xdp["memory"], xdp["lost"], xdp["no_room"], xdp["pieces"]),
            (mode, memory, 0, 0, 0),
            xdp,
        )
        self.assertEqual(xdp["sent"], result["interests"], xdp)
        self.assertIn(result["interests"] - xdp["received"], range(late_max + 1), xdp)
        self.assertGreater(result["latency_us"]["p50"], 0)

    def nothing_attached(self, side):
        def is_clean():
            link = json.loads(side.run("ip", "-j", "link", "show", side.card).stdout)[0]
            return "xdp" not in link

        until(is_clean, f"no program is on {side.card}")

    def test_both_ends_over_one_link_answer_all(self):
        sink = self.sink()
        result, _ = self.generate(
            TO_B, "--packets", 20000, "--payload", "10-1250", "--lifetime", 4000
        )
        self.check_all_answered(result, 20000)
        self.assertEqual(result["over"], f"{TO_B} by AF_XDP on va")
        self.assertEqual(
            (result["reordered"], result["unexpected"]), (0, 0), "a wire keeps the order"
        )
        longer, _ = self.generate(
            TO_B, "--packets", 5000, "--can-be-prefix", 0.5, "--names", 50, "--lifetime", 4000
        )
        # One Data answers both the Interest for its name and the one with CanBePrefix; the second
        # Data may arrive when neither is pending.
        self.check_all_answered(longer, 5000, late_max=50)
        interests = result["interests"] + longer["interests"]
        end = self.stop_sink(sink)
        self.assertEqual(end["answered"], interests)
        self.assertEqual(
            (end["xdp"]["mode"], end["xdp"]["sent"], end["xdp"]["others"]), ("native", interests, 0)
        )
        for side in (self.a, self.b):
            self.nothing_attached(side)

    def test_open_loop_keeps_its_rate(self):
        self.sink()
        result, _ = self.generate(TO_B, "--rate", 2000, "--seconds", 1, "--lifetime", 4000)
        self.check_all_answered(result, 2000)
        self.assertAlmostEqual(result["seconds"], 1, delta=0.7)
        self.assertGreater(result["lateness_us"]["p50"], 0)

    def test_ipv6_global_and_link_local_answer_all(self):
        self.sink()
        result, _ = self.generate(
            "udp6://[2001:db8::2]:6363", "--packets", 2000, "--lifetime", 4000
        )
        self.check_all_answered(result, 2000)
        for side in (self.a, self.b):
            # The address was tentative when the sink started; it must notice the change.
            until(
                lambda: (
                    "tentative"
                    not in side.run("ip", "-6", "address", "show", "dev", side.card).stdout
                ),
                "the address is usable",
            )
        addresses = json.loads(
            self.b.run(
                "ip", "-j", "-6", "address", "show", "dev", self.b.card, "scope", "link"
            ).stdout
        )
        local = next(
            a["local"] for link in addresses for a in link.get("addr_info", []) if "local" in a
        )
        time.sleep(0.5)
        result, _ = self.generate(
            f"udp6://[{local}%va]:6363", "--packets", 2000, "--lifetime", 4000
        )
        self.check_all_answered(result, 2000)

    def test_ethernet_without_ip_answers_all(self):
        sink = self.sink()
        result, _ = self.generate(
            f"ether://[{self.b.mac()}]", "--packets", 2000, "--payload", 1250, "--lifetime", 4000
        )
        self.check_all_answered(result, 2000)
        self.assertEqual(self.stop_sink(sink)["answered"], result["interests"])

    def test_other_port_and_two_queues_answer_all(self):
        self.unplug()
        self.plug(queues=2)
        for side in (self.a, self.b):
            set_queues(side, 2, 2)
        self.sink(self.b, "--port", "7000")
        result, _ = self.generate("udp4://192.0.2.2:7000", "--packets", 2000, "--lifetime", 4000)
        self.check_all_answered(result, 2000)
        self.assertEqual(result["xdp"]["queues"], 2)

    def test_driver_without_native_xdp_uses_generic_mode(self):
        self.attach_bridges()
        self.sink()
        result, _ = self.generate(TO_B, "--packets", 2000, "--lifetime", 4000, card="bridge")
        self.check_all_answered(result, 2000, mode="generic")

    def test_router_with_sockets_between_ends_answers_all(self):
        """The peer's system leaves checksums to the device and sends runs of datagrams as one. Its
        content store answers some before others, so answers are reordered."""
        self.b.start(xdp=False)
        sink = self.b.background("bench", "answer", "--json")
        self.addCleanup(finish, sink)
        result, _ = self.generate(
            TO_B,
            "--packets",
            5000,
            "--names",
            300,
            "--hit-ratio",
            0.5,
            "--seconds",
            20,
            "--lifetime",
            4000,
        )
        self.assertEqual(
            (result["asked"], result["answered"], result["lost"]), (5000, 5000, 0), result
        )
        self.assertGreater(result["reordered"], 0, "cached Data overtakes earlier requests")
        self.assertGreater(result["reordered_by_max"], 0)
        self.assertGreater(self.b.face("udp4://192.0.2.1:")["in_interests"], 2000)

    def test_sink_behind_router_answers_all(self):
        self.b.start(xdp=False)
        self.sink(self.a)
        face = json.loads(self.b.nw("face", "create", "udp4://192.0.2.1:6363", "--json"))["face_id"]
        self.b.nw("route", "add", "/bench", face)
        result = json.loads(
            self.b.nw("bench", "generate", "--packets", 2000, "--lifetime", 4000, "--json")
        )
        self.assertEqual((result["answered"], result["lost"], result["xdp"]), (2000, 0, None))

    def test_nacks_are_counted(self):
        self.b.start(xdp=False)
        result, output = self.generate(TO_B, "--packets", 50, code=1)
        self.assertEqual(result["refused"], {"NoRoute": 50})
        self.assertIn("no Interest under /bench was answered", output)

    def test_losses_are_counted(self):
        self.sink(self.b, "--seconds", "3")
        result, _ = self.generate(TO_B, "--rate", 1000, "--seconds", 5, "--lifetime", 200)
        self.assertEqual(result["asked"], 5000)
        self.assertEqual(result["answered"] + result["lost"], 5000, result)
        self.assertGreater(result["answered"], 100)
        self.assertGreater(result["lost"], 1000)

    def test_fragments_are_counted_and_reported(self):
        self.b.start(xdp=False, mtu=600)
        sink = self.b.background("bench", "answer", "--json")
        self.addCleanup(finish, sink)
        result, _ = self.generate(TO_B, "--packets", 20, "--lifetime", 300, code=1)
        self.assertEqual((result["answered"], result["lost"]), (0, 20))
        self.assertEqual(result["xdp"]["pieces"], 2 * result["interests"])

    def test_table_and_page_name_xdp_mode(self):
        self.sink()
        page = Path(self.folder) / "report.html"
        completed = self.a.run(
            NW,
            "bench",
            "generate",
            "--xdp",
            "va",
            "--socket",
            TO_B,
            "--packets",
            500,
            "--html",
            page,
        )
        self.assertEqual(completed.returncode, 0, completed.stderr)
        self.assertRegex(
            completed.stdout,
            r"\nAF_XDP +native +va: native, "
            + cards.MEMORY
            + r", 1 queue, \d+ frames in, \d+ out, 0 lost\n",
        )
        for text in (f"over {TO_B} by AF_XDP on va", f"va: native, {cards.MEMORY}, 1 queue"):
            self.assertIn(text, page.read_text())

    def test_ctrl_c_leaves_no_program_attached(self):
        sink = self.sink()
        args = [
            "bench",
            "generate",
            "--xdp",
            "va",
            "--socket",
            TO_B,
            "--rate",
            500,
            "--seconds",
            600,
            "--json",
        ]
        generator = self.a.start_process(
            NW, *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(close, generator)
        shows = lambda: self.a.run("ip", "-j", "link", "show", "va").stdout
        until(lambda: "xdp" in json.loads(shows())[0], "the program is on the interface")
        time.sleep(1)
        generator.send_signal(signal.SIGINT)
        result = json.loads(generator.communicate(timeout=TIMEOUT_S)[0])
        self.assertEqual((generator.returncode, result["complete"]), (0, False))
        self.assertGreater(result["answered"], 100)
        self.nothing_attached(self.a)
        self.stop_sink(sink)
        self.nothing_attached(self.b)
        # A killed process leaves none either.
        killed = self.sink()
        killed.kill()
        killed.wait(TIMEOUT_S)
        self.nothing_attached(self.b)
        # Ctrl-C also ends the process during neighbour resolution.
        waiting = self.a.start_process(
            NW,
            "bench",
            "generate",
            "--xdp",
            "va",
            "--socket",
            "udp4://192.0.2.77:6363",
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(close, waiting)
        time.sleep(0.5)
        waiting.send_signal(signal.SIGINT)
        self.assertIn(
            "interrupted before anything was sent", waiting.communicate(timeout=TIMEOUT_S)[1]
        )

    def test_interface_removed_ends_run(self):
        sink = self.sink()
        generator = self.a.start_process(
            NW,
            "bench",
            "generate",
            "--xdp",
            "va",
            "--socket",
            TO_B,
            "--rate",
            500,
            "--seconds",
            600,
            "--json",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(close, generator)
        until(
            lambda: "xdp" in json.loads(self.a.run("ip", "-j", "link", "show", "va").stdout)[0],
            "the program is on the interface",
        )
        time.sleep(0.5)
        self.unplug()
        out, output = generator.communicate(timeout=TIMEOUT_S)
        self.assertEqual(generator.returncode, 1, output)
        self.assertGreater(json.loads(out)["answered"], 10)
        self.assertRegex(output, "va was removed or set down")
        out, output = sink.communicate(timeout=TIMEOUT_S)
        self.assertEqual((sink.returncode, json.loads(out)["event"]), (1, "end"))
        self.assertIn("vb was removed or set down", output)

    def test_missing_interface_or_transport_is_refused(self):
        self.assertIn("there is no network interface none", self.refusal(card="none"))
        self.assertIn(
            "198.51.100.1 can't be reached over a wire", self.refusal(to="udp4://198.51.100.1:6363")
        )
        self.assertIn("it is an address of this machine", self.refusal(to="udp4://192.0.2.1:6363"))
        self.assertIn(
            "the route to 192.0.2.2 uses va, not lo: give --xdp va", self.refusal(card="lo")
        )
        self.assertIn("no answer for 192.0.2.9 on va", self.refusal(to="udp4://192.0.2.9:6363"))
        self.assertIn("frames can't be sent to unix:///nowhere", self.refusal(to="unix:///nowhere"))
        self.assertIn(
            "`no-such-host.invalid` has no address", self.refusal(to="udp://no-such-host.invalid")
        )
        self.assertIn("is a group address", self.refusal(to="ether://[01:00:5e:00:17:aa]"))
        ip("-n", self.a.netns, "link", "set", "va", "down")
        self.assertIn("ip link set dev va up", self.refusal())
        self.nothing_attached(self.a)

    def test_taken_port_or_interface_is_refused(self):
        with_socket = self.b.start_process(
            "python3",
            "-c",
            "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('0.0.0.0', 6363)); print(flush=True); time.sleep(60)",
            stdout=subprocess.PIPE,
        )
        self.addCleanup(close, with_socket)
        with_socket.stdout.readline()
        refused = lambda *args: self.b.run(NW, "bench", "answer", "--xdp", "vb", *args)
        output = refused().stderr
        self.assertRegex(output, r"\Anw: UDP port 6363 is in use on this machine: [^\n]+--port\n\Z")
        self.nothing_attached(self.b)
        self.sink(self.b, "--port", "7000")
        self.assertIn("has another XDP program already", refused("--port", "7001").stderr)
        self.assertEqual(refused("--socket", "unix:///x").returncode, 2)
        self.assertEqual(self.b.run(NW, "bench", "answer", "--port", "7000").returncode, 2)

    def test_data_longer_than_mtu_is_refused(self):
        self.assertRegex(
            self.refusal("--payload", 1400),
            r"Data of up to \d+ bytes does not fit a frame of va, whose MTU of 1500 leaves \d+: give --payload 1283 or less",
        )
        sink = self.sink(self.b, "--payload", "1283")
        result, _ = self.generate(TO_B, "--payload", 1283, "--packets", 200, "--lifetime", 4000)
        self.check_all_answered(result, 200)
        completed = self.b.run(
            NW, "bench", "answer", "--xdp", "vb", "--port", "7000", "--payload", "8000"
        )
        self.assertRegex(
            completed.stderr, r"\Anw: Data of up to \d+ bytes does not fit a frame of vb"
        )
        # A veth can't have such an MTU while an XDP program is at its other end.
        self.stop_sink(sink)
        ip("-n", self.a.netns, "link", "set", "va", "mtu", "9000")
        self.assertIn("its MTU is 9000", self.refusal())

    def test_missing_privileges_are_named(self):
        if not shutil.which("setpriv"):
            self.skipTest("needs setpriv")
        for rights, refusal in (
            (("bpf", "sys_admin", "net_admin"), "may not use kernel programs"),
            (("net_raw",), "may not open AF_XDP sockets"),
        ):
            around = [
                "setpriv",
                "--bounding-set=" + ",".join(f"-{name}" for name in rights),
                "--inh-caps=-all",
            ]
            output = self.refusal(around=around)
            self.assertIn(refusal, output)
            self.assertIn("setcap cap_bpf,cap_net_admin,cap_net_raw,cap_ipc_lock+ep", output)
            self.nothing_attached(self.a)


def close(process):
    """Ends the process if it runs, and closes its output."""
    if process.poll() is None:
        process.kill()
    process.wait(TIMEOUT_S)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


if __name__ == "__main__":
    unittest.main()
