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
from unittest import mock

from balancer_cluster import FILE, MEMBER, BalancerCluster, run
from command_line import NW, TIMEOUT_S, CommandLine


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

    def test_members_as_pods_need_a_program_with_kubernetes(self):
        pods = '[elastic]\nenabled = true\nengine = "kubernetes"\nstateful_set = "site/m"\n'
        path = self.file(self.config_text(extra=pods))
        command = [NW, "network", "kubernetes", "crd"]
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            can_run, refused = "this balancer can run with", "no cluster is configured"
        else:
            can_run, refused = "`kubernetes`, which this one lacks", "--features kubernetes"
        checked = self.nw("balancer", "config", "--check", path).stdout.decode()
        self.assertIn(can_run, checked)
        with mock.patch.dict(os.environ, {"KUBECONFIG": f"{self.folder}/none"}):
            self.assertIn(refused, self.nw("balancer", "run", "-c", path, code=1).stderr.decode())

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
            (["agent", "m1", "--enrol", "nw1-x"], "--balancer"),
            (["agent", "m1", "--balancer", "x:1", "--control", "y"], "cannot be used with"),
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


class Cluster(BalancerCluster):
    """Members, balancers and agents that come and go."""

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

    def test_agent_on_another_machine_enrols_reports_and_connects_again(self):
        token_file = Path(self.folder) / "token"
        token_file.write_text("a token of this test alone\n")
        extra = (
            f'listen = ["10.1.2.1:6380"]\nallow_remote = true\ntoken_file = "{token_file}"\n'
            'agents_listen = "10.1.2.1:6383"\n'
        )
        self.without_socket = 2
        self.members = {n: self.route(f"m{n}", f"m{n}", f"10.1.{n}.2:640{n}") for n in (1, 2)}
        self.balance(extra=extra)
        self.until_active({"m1"})
        sockets = {n: f"unix://{self.folder}/m{n}.sock" for n in (1, 2)}
        add = lambda prefix: self.nw(
            "route", "add", prefix, "udp4://192.0.2.2:7000", "-s", sockets[1]
        )
        has = lambda prefix: (
            f"{prefix} ".encode() in self.nw("route", "list", "-s", sockets[2]).stdout
        )
        add("/t")
        trouble = {
            member["name"]: member.get("trouble")
            for member in self.balancer_json("status")["members"]
        }["m2"]
        self.assertIn("start `nw balancer agent` beside its router", trouble)

        # Without a right: each mistake has its sentence.
        plain = ["--control", "http://10.1.2.1:6380"]
        self.assertIn("the token in control.token_file is required", self.agent("m2", *plain))
        plain = ["--control", "http://10.1.2.1:6383"]
        self.assertIn("this address is for agents, which use TLS", self.agent("m2", *plain))
        state = ["--state", f"{self.folder}/agent"]
        place = ["--balancer", "10.1.2.1:6383", *state]
        self.assertIn("this host is not enrolled", self.agent("m2", *place))
        config = ["-c", Path(self.folder) / "b.toml"]
        host = lambda *words: self.nw("balancer", "host", *words, *config).stdout.decode().strip()
        token = host("add", "m2")
        self.assertIn("m2                   has a token", host("list"))
        no_tls = ["--balancer", "10.1.2.1:6380", *state, "--enrol", token]
        self.assertIn("it does not speak TLS", self.agent("m2", *no_tls))

        log = Path(self.folder) / "agent.log"
        with open(log, "w") as file:
            router = ["--socket", f"{self.folder}/m2.sock"]
            words = ["m2", *place, *router, "--enrol", token]
            agent = self.start_in("m2", NW, "balancer", "agent", *words, stderr=file)
        self.until_active({"m1", "m2"})
        # The route was added just before, and the balancer polls the routes of m1 every 100 ms.
        self.until(lambda: has("/t"), "m2 has the route of m1")
        self.assertEqual(json.loads(host("list", "--json")), {"name": "m2", "enrolled": True})
        self.assertIn('this agent is enrolled as "m2"', self.agent("m9", *place))
        again = ["--balancer", "10.1.2.1:6383", "--state", f"{self.folder}/other"]
        error = self.agent("m2", *again, "--enrol", token)
        self.assertIn("was used already, and serves once; make a new one", error)

        # The balancer is away: the member keeps its routes, and the agent finds the next one.
        self.end(signal.SIGKILL)
        self.until(lambda: "no connection to 10.1.2.1:6383" in log.read_text(), "the agent sees it")
        self.assertTrue(has("/t"))
        self.balance(extra=extra)
        add("/u")
        self.until(lambda: has("/u"), "m2 has the route that was added meanwhile")

        # Its rights end, without a restart of either side.
        host("remove", "m2")
        self.nw("balancer", "host", "remove", "m2", *config, code=3)
        self.until(lambda: "the host was removed: enrol again" in log.read_text(), "the end")
        self.assertTrue(has("/u"))
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
