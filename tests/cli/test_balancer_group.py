"""Members of a group, such as pods: they enrol with the group's token, again and again."""

import json
import shutil
import signal
import socket
from pathlib import Path

from balancer_cluster import BalancerCluster
from command_line import NW, TIMEOUT_S

BALANCER = ("--balancer", "10.1.2.1:6383")
CONTROL = """
agents_listen = "10.1.2.1:6383"
group = "pod"
group_token_file = "{token}"
group_members_max = 2
"""


class Group(BalancerCluster):
    def setUp(self):
        super().setUp()
        self.token = Path(self.folder) / "group-token"
        self.token.write_text("a-token-of-this-test-alone-0123456789\n")
        self.numbers = (1,)
        self.started = 0

    def enrol_options(self, token, state):
        return [*BALANCER, "--enrol-file", token, "--state", self.state(state)]

    def state(self, member):
        return Path(self.folder) / "agents" / member

    def start_agent(self, number):
        """Starts the agent of a member; returns it and its log."""
        self.started += 1
        log, member = Path(self.folder) / f"agent{self.started}.log", f"pod-{number}"
        with open(log, "w") as file:
            router = ["--socket", f"{self.folder}/p{number}.sock"]
            place = ["--address", "10.1.2.2", "--port", f"641{number}", "--external-routes"]
            words = [member, *self.enrol_options(self.token, member), *router, *place]
            agent = self.start_in("m2", NW, "balancer", "agent", *words, stderr=file)
        return agent, log

    def metrics(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(f"{self.folder}/b.sock")
            s.sendall(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def test_members_enrol_by_the_token_of_their_group_and_successors_replace_them(self):
        self.route("m1", "m1", "10.1.1.2:6401")
        for number in (0, 1):
            self.route(f"p{number}", "m2", f"10.1.2.2:641{number}")
        # The agents run before their balancer, and wait for it.
        agents = {number: self.start_agent(number) for number in (0, 1)}
        extra = CONTROL.format(token=self.token)
        self.balance(extra=extra)
        self.until_active({"m1", "pod-0", "pod-1"})
        config = ["-c", Path(self.folder) / "b.toml"]
        listed = self.nw("balancer", "host", "list", *config, "--json").stdout.splitlines()
        self.assertEqual(
            [json.loads(line) for line in listed],
            [{"name": name, "enrolled": True} for name in ("pod-0", "pod-1")],
        )

        # Each bound has its sentence.
        agent = lambda member, token: self.agent(member, *self.enrol_options(token, "refused"))
        error = agent("pod-2", self.token)
        self.assertIn("group pod has 2 hosts, as many as it may have", error)
        self.assertIn('no group has a host "other-0"', agent("other-0", self.token))
        wrong = Path(self.folder) / "wrong-token"
        wrong.write_text("another-token-of-this-test-0123456789\n")
        self.assertIn("the token is not that of group pod", agent("pod-0", wrong))
        wrong.write_text("short")
        self.assertIn("this is not a token of a group", agent("pod-0", wrong))
        self.assertFalse(self.state("refused").exists())
        metrics = self.metrics()
        for outcome, count in (
            ("enrolled", 2),
            ("group-full", 1),
            ("wrong-name", 1),
            ("wrong-token", 1),
        ):
            self.assertIn(f'nw_balancer_enrolments_total{{outcome="{outcome}"}} {count}', metrics)
        self.assertIn("the token is not that of group pod", self.log.read_text())

        # A pod is lost with its folder, and another one has its name: the earlier certificate ends.
        process, _ = agents[0]
        process.kill()
        process.wait(TIMEOUT_S)
        lost = Path(self.folder) / "lost"
        shutil.move(self.state("pod-0"), lost)
        agents[0] = self.start_agent(0)
        self.until(lambda: "enrolled as pod-0" in agents[0][1].read_text(), "its successor")
        error = self.agent("pod-0", *BALANCER, "--state", lost)
        self.assertIn("its certificate is not one of a host", error)
        # The certificate is for agents only, and the token, too.
        error = self.agent("pod-0", "--control", "http://10.1.2.1:6383", "--token-file", self.token)
        self.assertIn("this address is for agents, which use TLS", error)

        # The balancer is replaced with all that it had: agents enrol at the next one by themselves.
        self.end(signal.SIGTERM)
        shutil.rmtree(Path(self.folder) / "state")
        self.balance(extra=extra)
        self.until_active({"m1", "pod-0", "pod-1"})
        for _, log in agents.values():
            self.assertIn("enrolling again, with the group's token", log.read_text())

        for process, _ in agents.values():
            process.send_signal(signal.SIGTERM)
        for process, log in agents.values():
            self.assertEqual(process.wait(TIMEOUT_S), 0, log.read_text())
        self.assertEqual(self.states(), {"m1": "active"})
