"""nw balancer as a user runs it: valid and wrong arguments, missing privileges, Ctrl-C, kill -9 and
takeover, a hanging router, a full disk."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine

FILE = """
[cluster]
addresses = ["192.0.2.1"]
interfaces = ["out", "in1", "in2"]
attach = "generic"
control_member = "m1"
state_dir = "{folder}/state"
bpffs_dir = "{pin}"
secret = "a secret of this test alone"
{cluster}
[health]
interval_ms = 200
timeout_ms = 400
[routes]
interval_ms = 100
[control]
path = "{folder}/b.sock"
{extra}
"""
MEMBER = """
[[member]]
name = "m{n}"
addresses = ["10.1.{n}.2"]
port = 640{n}
control = "{folder}/m{n}.sock"
"""


class ConfigAndArguments(CommandLine):
    """Tests that need neither root nor XDP."""

    def file(self, text):
        path = Path(self.folder) / "b.toml"
        path.write_text(text)
        return path

    def config_text(self, cluster="", extra=""):
        members = "".join(MEMBER.format(n=n, folder=self.folder) for n in (1, 2))
        return (
            FILE.format(folder=self.folder, pin="/sys/fs/bpf/nw-test", cluster=cluster, extra=extra)
            + members
        )

    def test_wrong_file_lists_all_mistakes(self):
        path = self.file(
            self.config_text("what = 1", "[drain]\nlimit_s = -1")
            .replace("6402", "6401")
            .replace('"m1"', '"m9"', 1)
        )
        for args in (
            ["config", "--check", path],
            ["run", "-c", path],
            ["vrrp", "-c", path, "--priority", "100"],
        ):
            output = self.nw("balancer", *args, code=1).stderr.decode()
            for part in (
                "the unknown option what",
                "limit_s: saw -1",
                "saw 6401, which m1 has already",
                'control_member: saw "m9"',
            ):
                self.assertIn(part, output)
            self.assertTrue(
                all(line.split("b.toml:")[1][0].isdigit() for line in output.splitlines()), output
            )

    def test_valid_file_and_reference_pass_check(self):
        path = self.file(self.config_text())
        self.assertIn(
            "this balancer can run with",
            self.nw("balancer", "config", "--check", path).stdout.decode(),
        )
        text = self.nw("balancer", "config").stdout.decode()
        for section in (
            "[cluster]",
            "# [[member]]",
            "# [[rule]]",
            "[health]",
            "[drain]",
            "[elastic]",
            "[vrrp]",
        ):
            self.assertIn(f"\n{section}\n", text)

    def test_commands_without_balancer_fail(self):
        place = ("--control", f"{self.folder}/none.sock")
        for args in (
            ["status"],
            ["top", "--once"],
            ["add", "m1"],
            ["remove", "m1"],
            ["drain", "m1"],
            ["weight", "m1", "3"],
            ["where", "/a"],
            ["rules"],
            ["stop"],
            ["agent", "m1"],
        ):
            output = self.nw("balancer", *args, *place, code=4).stderr.decode().splitlines()[-1]
            self.assertIn(
                f"can't reach a balancer at {self.folder}/none.sock (is it running?", output
            )

    def test_wrong_arguments_are_refused(self):
        for args, part in (
            (["add", "m4", "--port", "6404"], "--address"),
            (["add", "m4", "--address", "10.0.0.1", "--port", "0"], "not in 1..=65535"),
            (["add", "m4", "--address", "here", "--port", "6404"], "invalid value 'here'"),
            (["where", "no name"], "invalid value"),
            (["vrrp", "-c", "x", "--priority", "255"], "not in 1..=254"),
            (["drain", "m1", "--wait", "--undo"], "cannot be used with"),
            (["run"], "--config"),
            (["remove"], "<NAME>"),
        ):
            self.assertIn(part, self.nw("balancer", *args, code=2).stderr.decode())
        self.assertIn(
            "can't read",
            self.nw("balancer", "run", "-c", f"{self.folder}/none.toml", code=1).stderr.decode(),
        )

    def test_vrrp_prints_keepalived_configuration(self):
        vrrp = '[vrrp]\noutside = "eth0"\noutside_addresses = ["192.0.2.1/24"]\ninside = "eth1"\ninside_addresses = ["10.1.0.1/24"]\n'
        path = self.file(self.config_text(extra=vrrp))
        text = self.nw(
            "balancer", "vrrp", "-c", path, "--priority", "150", "--inside", "ens5"
        ).stdout.decode()
        self.assertIn("interface ens5\n    virtual_router_id 52\n    priority 150\n", text)
        unsafe = self.nw(
            "balancer",
            "vrrp",
            "-c",
            path,
            "--priority",
            "150",
            "--inside",
            "lo\n}\nvrrp_script x {",
            code=1,
        )
        self.assertIn("keepalived's file can't carry that safely", unsafe.stderr.decode())
        output = self.sentence(
            self.nw(
                "balancer", "vrrp", "-c", self.file(self.config_text()), "--priority", "150", code=1
            )
        )
        self.assertIn("vrrp.outside is missing", output)

    @unittest.skipUnless(
        os.geteuid() == 0 and shutil.which("setpriv"), "dropping rights needs root and setpriv"
    )
    def test_run_without_privileges_is_refused(self):
        os.chmod(self.folder, 0o777)
        path = self.file(self.config_text())
        unprivileged = [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]
        binary = Path(self.folder) / "nw"
        shutil.copy(NW, binary)
        os.chmod(binary, 0o755)
        completed = subprocess.run(
            [*unprivileged, binary, "balancer", "run", "-c", path],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
        )
        output = completed.stderr.decode()
        self.assertEqual(completed.returncode, 1, output)
        self.assertIn(
            "this process lacks the rights for a balancer: run it as root, or with `AmbientCapabilities=CAP_BPF",
            output.splitlines()[-1],
        )
        self.assertFalse((Path(self.folder) / "b.sock").exists())


def run(*args):
    completed = subprocess.run(
        [str(word) for word in args], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if completed.returncode != 0:
        raise RuntimeError(f"{args}: {completed.stderr}")
    return completed.stdout


def missing_requirement():
    """Returns why a cluster can't run here; None when it can."""
    if os.geteuid() != 0:
        return "network namespaces and kernel programs need root"
    for tool in ("ip", "nsenter", "mount"):
        if not shutil.which(tool):
            return f"there is no {tool}: apt install iproute2 util-linux"
    name = f"nwb{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
        run("ip", "netns", "del", name)
    except RuntimeError as error:
        return f"no network namespaces here: {error}"
    return None


@unittest.skipIf(missing_requirement(), missing_requirement() or "")
class Cluster(CommandLine):
    """A balancer in front of two routers in network namespaces, with the routers of a consumer and
    a producer outside."""

    def setUp(self):
        super().setUp()
        self.namespaces = {
            netns: f"nwb{os.getpid()}-{netns}" for netns in ("bal", "out", "m1", "m2")
        }
        for netns in self.namespaces.values():
            run("ip", "netns", "add", netns)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", netns], capture_output=True)
        self.pin = Path(self.folder) / "bpf"
        self.pin.mkdir()
        run("mount", "-t", "bpf", "bpf", self.pin)
        self.addCleanup(subprocess.run, ["umount", "-l", self.pin], capture_output=True)
        self.add_link("out", "out", "192.0.2.1/24", "192.0.2.2/24")
        for n in (1, 2):
            self.add_link(f"m{n}", f"in{n}", f"10.1.{n}.1/24", f"10.1.{n}.2/24")
            run(
                "ip",
                "-n",
                self.namespaces[f"m{n}"],
                "route",
                "add",
                "default",
                "via",
                f"10.1.{n}.1",
            )
        self.balancer = None
        # Numbers of the members in the file, and of those without a socket on the balancer's
        # machine.
        self.numbers, self.without_socket = (1, 2), 0

    def add_link(self, netns, name, near, far):
        balancer_netns, peer_netns = self.namespaces["bal"], self.namespaces[netns]
        run(
            "ip",
            "-n",
            balancer_netns,
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            "wire",
            "netns",
            peer_netns,
        )
        for link_netns, link, address in ((balancer_netns, name, near), (peer_netns, "wire", far)):
            run("ip", "-n", link_netns, "address", "add", address, "dev", link)
            run("ip", "-n", link_netns, "link", "set", link, "up")
            run("ip", "-n", link_netns, "link", "set", "lo", "up")

    def start_in(self, netns, *args, **options):
        args = ["nsenter", f"--net=/run/netns/{self.namespaces[netns]}", *map(str, args)]
        process = subprocess.Popen(args, stdin=subprocess.DEVNULL, **options)

        def finish():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()

        self.addCleanup(finish)
        return process

    def route(self, name, netns, listen, extra=""):
        """Starts a router and returns its process."""
        path, sock = Path(self.folder) / f"{name}.toml", Path(self.folder) / f"{name}.sock"
        path.write_text(
            f'[faces.unix]\npath = "{sock}"\n[faces.udp]\nlisten = ["{listen}"]\nreliability = false\n[faces.tcp]\nlisten = []\n{extra}'
        )
        log = open(Path(self.folder) / f"{name}.log", "w")
        self.addCleanup(log.close)
        process = self.start_in(netns, NW, "run", "-c", path, stderr=log)
        self.until(
            lambda: self.is_listening(sock), f"{name} answers: " + Path(log.name).read_text()
        )
        return process

    def is_listening(self, path):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(path)) == 0

    def balance(self, cluster="", extra="", keep=False, folder=None):
        texts = {n: MEMBER.format(n=n, folder=self.folder) for n in self.numbers}
        if self.without_socket:
            texts[self.without_socket] = texts[self.without_socket].split("control =")[0]
        text = FILE.format(
            folder=self.folder, pin=self.pin, cluster=cluster, extra=extra
        ) + "".join(texts.values())
        if folder:
            text = text.replace(f'state_dir = "{self.folder}/state"', f'state_dir = "{folder}"')
        path = Path(self.folder) / "b.toml"
        path.write_text(text)
        self.log = Path(self.folder) / "b.log"
        with open(self.log, "w") as log:
            self.balancer = self.start_in(
                "bal", NW, "balancer", "run", "-c", path, *(["--keep"] if keep else []), stderr=log
            )
        self.until(
            lambda: " running " in self.log.read_text() or self.balancer.poll() is not None,
            "the balancer runs",
        )
        self.assertIsNone(self.balancer.poll(), self.log.read_text())

    def start_all(self, trust="", **options):
        self.members = {
            n: self.route(f"m{n}", f"m{n}", f"10.1.{n}.2:640{n}", trust) for n in (1, 2)
        }
        self.route("producer", "out", "192.0.2.2:7000")
        face = '[[face]]\nuri = "udp4://192.0.2.1:6363"\n[[route]]\nprefix = "/"\nface = "udp4://192.0.2.1:6363"\n'
        self.route("consumer", "out", "192.0.2.2:7001", face)
        self.start_in(
            "out",
            NW,
            "ping-server",
            "/t",
            "-s",
            f"unix://{self.folder}/producer.sock",
            stderr=subprocess.DEVNULL,
        )
        self.balance(**options)
        self.nw(
            "route", "add", "/t", "udp4://192.0.2.2:7000", "-s", f"unix://{self.folder}/m1.sock"
        )
        self.until_active({"m1", "m2"})
        self.until(
            lambda: self.balancer_json("status")["routes"]["routes"] == 1, "the route was seen"
        )
        self.ping(3)

    def balancer_json(self, *args, code=0):
        completed = self.nw(
            "balancer", *args, "--control", f"{self.folder}/b.sock", "--json", code=code
        )
        return json.loads(completed.stdout) if code == 0 else completed.stderr.decode()

    def rules(self):
        """Returns the rules, one line of JSON each."""
        output = self.nw("balancer", "rules", "--control", f"{self.folder}/b.sock", "--json").stdout
        return [json.loads(line) for line in output.splitlines()]

    def states(self):
        return {
            member["name"]: member["state"] for member in self.balancer_json("status")["members"]
        }

    def until_active(self, names):
        active = lambda: {name for name, state in self.states().items() if state == "active"}
        for _ in range(500):
            if active() == names:
                return
            time.sleep(0.02)
        self.fail(
            f"{names} are active: {json.dumps(self.balancer_json('status'), indent=1)}\n{self.log.read_text()}"
        )

    def start_ping(self, count, interval_ms=5):
        args = [
            "ping",
            "/t",
            "-s",
            f"unix://{self.folder}/consumer.sock",
            "-c",
            count,
            "-i",
            interval_ms,
            "--json",
        ]
        return subprocess.Popen(
            [NW, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def answered(self, process):
        output, _ = process.communicate(timeout=3 * TIMEOUT_S)
        end = json.loads(output.splitlines()[-1])
        return end["sent"], end["answered"]

    def ping(self, count):
        """Returns whether all pings were answered. Neighbour resolution may lose the first ones."""
        for _ in range(5):
            sent, answered = self.answered(self.start_ping(count))
            if answered == count:
                return
        self.fail(f"{answered} of {sent}: {json.dumps(self.balancer_json('status'), indent=1)}")

    def end(self, ending=signal.SIGINT):
        self.balancer.send_signal(ending)
        return self.balancer.wait(TIMEOUT_S)

    def attached(self):
        return "xdp" in run("ip", "-n", self.namespaces["bal"], "link", "show", "out")

    def sysctl(self, name):
        return run(
            "nsenter", f"--net=/run/netns/{self.namespaces['bal']}", "cat", f"/proc/sys/net/{name}"
        ).strip()

    def test_commands_under_traffic_lose_nothing(self):
        before = self.sysctl("ipv4/conf/in1/accept_local")
        self.start_all()
        status = self.balancer_json("status")
        self.assertEqual({interface["mode"] for interface in status["interfaces"]}, {"generic"})
        self.assertEqual((status["control_member"], status["warnings"]), ("m1", []))
        start_ping = self.start_ping(600)
        shares = {member["name"]: member["share"] for member in status["members"]}
        self.assertAlmostEqual(shares["m1"], 0.5, delta=0.01)
        self.assertAlmostEqual(self.balancer_json("weight", "m2", "300")["share"], 0.75, delta=0.01)
        self.assertEqual(self.balancer_json("drain", "m2", "--wait")["state"], "drained")
        self.assertEqual(self.balancer_json("where", "/t/ping/1")["member"], "m1")
        self.balancer_json("add", "m2", "--wait")
        self.assertIn(self.balancer_json("where", "/t/ping/1")["member"], ("m1", "m2"))
        self.assertEqual(self.balancer_json("where", "/localhop/nfd/rib/register")["by"], "control")
        self.assertEqual(self.rules(), [{"prefix": "/localhop/nfd", "control": True}])
        self.assertEqual(
            self.answered(start_ping),
            (600, 600),
            json.dumps(self.balancer_json("status")["verdicts"]),
        )
        counters = {
            member["name"]: member["counters"]["in_interests"]
            for member in self.balancer_json("status")["members"]
        }
        self.assertGreater(min(counters.values()), 50, counters)
        self.assertIn(
            "port: saw 6401, which m1 has already",
            self.balancer_json("add", "m3", "--address", "10.1.3.2", "--port", "6401", code=6),
        )
        self.assertIn(
            "is the control member of the configuration", self.balancer_json("remove", "m1", code=6)
        )
        self.assertIn(
            'no member is called "m9"; the members are: m1, m2',
            self.balancer_json("remove", "m9", code=3),
        )
        self.assertIn(
            "a number from 1 to 1000000, or measured",
            self.balancer_json("weight", "m1", "0", code=6),
        )
        self.nw("balancer", "status", "--check", "--control", f"{self.folder}/b.sock")
        top = self.balancer_json("top", "--once", "-i", "100")
        self.assertEqual([member["name"] for member in top["members"]], ["m1", "m2"])
        self.assertEqual(
            self.balancer_json("remove", "m2", "--wait"), {"name": "m2", "state": "gone"}
        )
        self.ping(20)
        second = subprocess.run(
            [NW, "balancer", "run", "-c", f"{self.folder}/b.toml"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
        )
        self.assertIn(b"a balancer is running already", second.stderr)
        self.assertEqual(self.end(), 0, self.log.read_text())
        self.assertFalse(self.attached())
        self.assertEqual(self.sysctl("ipv4/conf/in1/accept_local"), before)
        self.assertFalse((Path(self.folder) / "b.sock").exists())

    def test_killed_balancer_is_taken_over_by_next(self):
        self.start_all()
        start_ping = self.start_ping(800)
        time.sleep(0.5)
        self.end(signal.SIGKILL)
        self.assertTrue(self.attached())
        time.sleep(0.5)
        self.balance()
        status = self.balancer_json("status")
        self.assertTrue(status["adopted"])
        self.assertEqual({member["state"] for member in status["members"]}, {"active"})
        self.assertEqual(
            self.answered(start_ping), (800, 800), self.balancer_json("status")["verdicts"]
        )
        # A balancer ended with --keep, as systemd does at a restart, leaves forwarding in place
        # too.
        self.nw("balancer", "stop", "--keep", "--control", f"{self.folder}/b.sock")
        self.assertEqual(self.balancer.wait(TIMEOUT_S), 0)
        self.assertTrue(self.attached())
        self.assertEqual(self.answered(self.start_ping(20)), (20, 20))
        self.balance(keep=True)
        self.nw("balancer", "stop", "--control", f"{self.folder}/b.sock")
        self.assertEqual(self.balancer.wait(TIMEOUT_S), 0)
        self.assertFalse(self.attached())

    def test_sighup_reloads_file(self):
        self.start_all()
        path = Path(self.folder) / "b.toml"
        text = path.read_text()
        start_ping = self.start_ping(600)
        path.write_text(
            text.replace('name = "m2"', 'name = "m2"\nweight = 300')
            + '[[rule]]\nprefix = "/x"\ndepth = 1\n'
        )
        self.balancer.send_signal(signal.SIGHUP)
        share = lambda: {
            member["name"]: member["share"] for member in self.balancer_json("status")["members"]
        }["m2"]
        self.until(lambda: abs(share() - 0.75) < 0.01, "the new weight is in use")
        self.assertEqual(
            self.rules(),
            [
                {"prefix": "/x", "control": False, "depth": 1},
                {"prefix": "/localhop/nfd", "control": True},
            ],
        )
        # A file with mistakes changes nothing, and the log names them.
        path.write_text(text.replace("port = 6402", "port = 6401"))
        self.balancer.send_signal(signal.SIGHUP)
        self.until(
            lambda: "the configuration stays as it was" in self.log.read_text(),
            "the mistake is logged",
        )
        self.assertIn("6401, which m1 has already", self.log.read_text())
        # An option that a running balancer can't change is named in the log.
        path.write_text(text.replace("interval_ms = 200", "interval_ms = 300"))
        self.balancer.send_signal(signal.SIGHUP)
        self.until(
            lambda: "changes in [health] take effect at the next start" in self.log.read_text(),
            "the option that needs a restart is named",
        )
        self.until(lambda: abs(share() - 0.5) < 0.01, "the old weight is in use")
        # A member removed from the file is drained and then removed.
        path.write_text(text.split('[[member]]\nname = "m2"')[0])
        self.balancer.send_signal(signal.SIGHUP)
        self.until(lambda: set(self.states()) == {"m1"}, "m2 has left")
        self.assertEqual(
            self.answered(start_ping),
            (600, 600),
            json.dumps(self.balancer_json("status")["verdicts"]),
        )
        self.assertEqual(self.end(), 0, self.log.read_text())

    def test_hanging_router_loses_its_slots_until_it_recovers(self):
        self.start_all()
        self.members[2].send_signal(signal.SIGSTOP)
        self.until_active({"m1"})
        self.assertEqual(self.states()["m2"], "failed")
        trouble = {
            member["name"]: member.get("trouble")
            for member in self.balancer_json("status")["members"]
        }["m2"]
        self.assertIn("its probes are not answered", trouble)
        self.assertEqual(self.answered(self.start_ping(50)), (50, 50))
        self.members[2].send_signal(signal.SIGCONT)
        self.until_active({"m1", "m2"})
        self.members[2].kill()
        self.members[2].wait()
        self.until_active({"m1"})
        self.assertEqual(self.answered(self.start_ping(50)), (50, 50))

    def test_disk_full_does_not_stop_forwarding(self):
        small = Path(self.folder) / "small"
        small.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", small)
        self.addCleanup(subprocess.run, ["umount", "-l", small], capture_output=True)
        (small / "filling").write_bytes(b"x" * 4096)
        self.start_all(folder=small)
        self.assertTrue(
            any(
                "can't be written" in warning and "No space left" in warning
                for warning in self.balancer_json("status")["warnings"]
            ),
            self.balancer_json("status")["warnings"],
        )
        self.balancer_json("drain", "m2", "--wait")
        self.ping(20)
        self.assertEqual(self.end(signal.SIGTERM), 0)

    def test_producer_registered_with_cluster_is_reached(self):
        store, anchor = f"{self.folder}/store", Path(self.folder) / "anchor.cert"
        self.nw("key", "generate", "/x", "--store", store)
        anchor.write_bytes(self.nw("cert", "export", "/x", "--store", store).stdout)
        rule = '[[allow]]\nid = "x"\nfrom = "remote"\nanchors = ["site"]\nprivileges = ["rib"]\n'
        self.start_all(
            f'[management]\nlocalhop = "anywhere"\n[[anchor]]\nid = "site"\nfile = "{anchor}"\n{rule}'
        )
        # The producer's socket is connected to the cluster's port, so it receives packets from
        # there only.
        server = self.start_in(
            "out",
            NW,
            "ping-server",
            "/x",
            "-s",
            "udp4://192.0.2.1:6363",
            "--key",
            "/x",
            "--store",
            store,
            stderr=subprocess.PIPE,
        )
        self.assertIn(b"answering", server.stderr.readline())
        self.until(
            lambda: self.balancer_json("status")["routes"]["one_port_peers"] == 1,
            "the balancer lists the producer",
        )
        for n in (1, 2):
            have = lambda: (
                b"/x/ping"
                in self.nw("route", "list", "-s", f"unix://{self.folder}/m{n}.sock").stdout
            )
            self.until(have, f"m{n} has the route")
        args = [
            "ping",
            "/x",
            "-s",
            f"unix://{self.folder}/consumer.sock",
            "-c",
            100,
            "-i",
            5,
            "--json",
        ]
        start_ping = subprocess.Popen(
            [NW, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.assertEqual(
            self.answered(start_ping), (100, 100), self.balancer_json("status")["verdicts"]
        )
        verdicts = self.balancer_json("status")["verdicts"]
        self.assertGreater(verdicts["control"], 0, verdicts)
        self.assertGreater(verdicts["interest_out_one_port"], 0, verdicts)

    def test_agent_on_another_machine_reports_member(self):
        token = Path(self.folder) / "token"
        token.write_text("a token of this test alone\n")
        listen = f'listen = ["10.1.2.1:6380"]\nallow_remote = true\ntoken_file = "{token}"\n'
        self.without_socket = 2
        self.members = {n: self.route(f"m{n}", f"m{n}", f"10.1.{n}.2:640{n}") for n in (1, 2)}
        self.balance(extra=listen)
        self.until_active({"m1"})
        self.nw(
            "route", "add", "/t", "udp4://192.0.2.2:7000", "-s", f"unix://{self.folder}/m1.sock"
        )
        trouble = {
            member["name"]: member.get("trouble")
            for member in self.balancer_json("status")["members"]
        }["m2"]
        self.assertIn("start `nw balancer agent` beside its router", trouble)
        place = ["--control", "http://10.1.2.1:6380"]
        wrong = self.start_in("m2", NW, "balancer", "agent", "m2", *place, stderr=subprocess.PIPE)
        self.assertIn(
            b"the token in control.token_file is required", wrong.communicate(timeout=TIMEOUT_S)[1]
        )
        place += ["--token-file", token]
        wrong = self.start_in("m2", NW, "balancer", "agent", "m9", *place, stderr=subprocess.PIPE)
        self.assertIn(b'there is no member "m9"', wrong.communicate(timeout=TIMEOUT_S)[1])
        agent = self.start_in(
            "m2",
            NW,
            "balancer",
            "agent",
            "m2",
            *place,
            "--socket",
            f"{self.folder}/m2.sock",
            stderr=subprocess.DEVNULL,
        )
        self.until_active({"m1", "m2"})
        # The route was added just before, and the balancer polls the routes of m1 every 100 ms.
        have = lambda: (
            b"/t " in self.nw("route", "list", "-s", f"unix://{self.folder}/m2.sock").stdout
        )
        self.until(have, "m2 has the route of m1")
        agent.send_signal(signal.SIGINT)
        self.assertEqual(agent.wait(TIMEOUT_S), 0)
        self.until_active({"m1"})

    def test_members_scale_with_load(self):
        prefix = json.dumps(["nsenter", f"--net=/run/netns/{self.namespaces['m2']}"])
        elastic = f'[elastic]\nenabled = true\nmembers_min = 2\nmembers_max = 2\naddresses = ["10.1.2.2"]\nprefix = {prefix}\n'
        self.members = {1: self.route("m1", "m1", "10.1.1.2:6401")}
        self.numbers = (1,)
        self.balance(extra=elastic)
        self.until_active({"m1", "e1"})
        self.assertGreater(self.balancer_json("status")["elastic"]["capacity_per_s"], 0)
        pid = json.loads((Path(self.folder) / "state/cluster.json").read_text())["members"][1][
            "process"
        ]
        self.end(signal.SIGKILL)
        self.balance(extra=elastic)
        self.until_active({"m1", "e1"})
        self.assertEqual(self.end(), 0, self.log.read_text())
        self.until(
            lambda: (
                not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text()
            ),
            "the router that was started has ended",
        )

    def test_metrics_are_served(self):
        self.members = {n: self.route(f"m{n}", f"m{n}", f"10.1.{n}.2:640{n}") for n in (1, 2)}
        self.balance()
        self.until_active({"m1", "m2"})
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.folder}/b.sock")
            s.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            text = b"".join(iter(lambda: s.recv(65536), b"")).decode()
        for line in (
            'nw_balancer_member_state{member="m2",state="active"} 1',
            'nw_balancer_packets_total{verdict="no_member"} 0',
            "nw_balancer_warnings 0",
        ):
            self.assertIn(line, text)

    def test_missing_interfaces_are_refused(self):
        path = Path(self.folder) / "b.toml"
        members = "".join(MEMBER.format(n=n, folder=self.folder) for n in (1, 2))
        path.write_text(
            (FILE.format(folder=self.folder, pin=self.pin, cluster="", extra="") + members).replace(
                '"in2"', '"nosuch"'
            )
        )
        process = self.start_in("bal", NW, "balancer", "run", "-c", path, stderr=subprocess.PIPE)
        output = process.communicate(timeout=TIMEOUT_S)[1].decode()
        self.assertEqual(process.returncode, 1, output)
        self.assertIn("there is no network interface nosuch", output.splitlines()[-1])
        self.assertFalse(self.attached(), "what was attached before it failed is off again")


if __name__ == "__main__":
    unittest.main()
