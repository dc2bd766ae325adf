"""`nw join` and `nw leave`: a site and a hub in two network namespaces, with a certificate
authority of another project (NDNts) behind the hub. Needs root, iproute2 and, for certificates,
what tests/interop/install installs; prints a reason and skips without them.
"""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import bounds
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
NW = os.environ.get("NW_BIN", str(ROOT / "target/release/nw"))
CACHE = Path(
    subprocess.run(
        [ROOT / "tests/cache", "interop"], capture_output=True, text=True, check=True
    ).stdout.strip()
)
CA = Path(os.environ.get("NW_NDNCERT", CACHE / "node/ndncert.mjs"))
HUB_ADDRESS, SITE_ADDRESS = "10.78.0.1", "10.78.0.2"
# No interface has these addresses: what is sent there is never answered.
SILENT = ("10.78.0.97", "10.78.0.98", "10.78.0.99")
# A search in which all are silent takes 2 to 3 s. One after the other, they took 10 s.
SILENCE_S = 8


def missing():
    if os.geteuid() != 0:
        return "network namespaces need root"
    return None if shutil.which("ip") else "there is no ip: apt install iproute2"


def missing_ca():
    if not (CA.parent / "node_modules/@ndn/ndncert").exists():
        return "NDNts' NDNCERT is not there: tests/interop/install installs it"
    return None


def ip(*args):
    subprocess.run(["ip", *args], check=True, capture_output=True)


@unittest.skipIf(missing(), missing() or "")
class Join(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="nw-join-")))
        self.hub_space, self.site_space = (f"nwj{os.getpid()}{end}" for end in "ab")
        for space in (self.hub_space, self.site_space):
            ip("netns", "add", space)
            self.addCleanup(ip, "netns", "del", space)
        ip("link", "add", "j0", "netns", self.hub_space, "type", "veth", "peer", "j0", "netns", self.site_space)  # fmt: skip
        for space, address in ((self.hub_space, HUB_ADDRESS), (self.site_space, SITE_ADDRESS)):
            ip("-n", space, "addr", "add", f"{address}/24", "dev", "j0")
            for link in ("lo", "j0"):
                ip("-n", space, "link", "set", link, "up")
        accepting = '[management]\ndigest = "anywhere"\nlocalhop = "anywhere"\n'
        self.hub = self.router("hub", accepting)
        self.router("site", "")

    def start(self, space, *args, log, **options):
        out = open(self.folder / log, "w")
        self.addCleanup(out.close)
        process = subprocess.Popen(
            ["ip", "netns", "exec", space, *map(str, args)],
            **{"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT} | options,
        )

        def end():
            process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def router(self, name, extra):
        """Starts a router, or gives the one that runs another configuration."""
        (self.folder / f"{name}.toml").write_text(
            f'[faces.unix]\npath = "{self.folder}/{name}.sock"\n{extra}'
        )
        space = self.hub_space if name.startswith("hub") else self.site_space
        process = self.start(
            space, NW, "run", "-c", self.folder / f"{name}.toml", log=f"{name}.log"
        )
        until(lambda: "running" in (self.folder / f"{name}.log").read_text(), f"{name} runs")
        return process

    def nw(self, name, *args, code=0, **options):
        space = self.hub_space if name.startswith("hub") else self.site_space
        completed = subprocess.run(
            ["ip", "netns", "exec", space, NW, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "HOME": str(self.folder),
                "NDN_CLIENT_TRANSPORT": f"unix://{self.folder}/{name}.sock",
            },
            **options,
        )  # fmt: skip
        self.assertEqual(completed.returncode, code, completed.stdout + completed.stderr)
        return completed.stdout + completed.stderr

    def state(self):
        """Returns the site's faces and routes that joining changes."""
        faces = self.nw("site", "face", "list", "--json").splitlines()
        faces = [json.loads(face)["uri"] for face in faces]
        routes = self.nw("site", "route", "list", "--json").splitlines()
        routes = [json.loads(route)["name"] for route in routes]
        return (
            [uri for uri in faces if HUB_ADDRESS in uri],
            [name for name in routes if name in ("/", "/localhop/nfd")],
        )

    def join(self, *args, **options):
        resolver = self.folder / "resolv.conf"
        if not resolver.exists():
            resolver.write_text("")
        words = ["join", "--state", self.folder / "state", "--resolver", resolver, *args]
        return self.nw("site", *words, **options)

    def timed_join(self, description, *args, seconds_max=None, **options):
        """Joins, prints the seconds, and returns the output."""
        began = time.monotonic()
        output = self.join(*args, **options)
        seconds = time.monotonic() - began
        print(f"nw join, {description}: {seconds:.1f} s", file=sys.stderr)
        if seconds_max is None:
            bounds.check(self, "join.seconds", seconds)
        else:
            self.assertLess(seconds, seconds_max)
        return output

    def leave(self, **options):
        return self.nw("site", "leave", "--state", self.folder / "state", **options)

    def routes_at_hub(self):
        return self.nw("hub", "route", "list", "--json")

    def nothing_is_made(self):
        self.assertEqual(self.state(), ([], []))
        self.assertFalse((self.folder / "state/join.json").exists())

    def test_configured_hub_is_joined_and_left(self):
        output = self.timed_join("named hub", "/home", "--hub", HUB_ADDRESS)
        self.assertIn(f"joined udp4://{HUB_ADDRESS}:6363 (given)", output)
        self.assertIn("/home is registered at the hub", output)
        self.assertEqual(self.state(), ([f"udp4://{HUB_ADDRESS}:6363"], ["/", "/localhop/nfd"]))
        self.assertIn('"/home"', self.routes_at_hub())
        self.assertIn("already joined", self.join("--hub", HUB_ADDRESS, code=1))
        # What the site serves is reached from the hub.
        put = self.start(
            self.site_space, NW, "poke", "/home/page", "-s", f"unix://{self.folder}/site.sock",
            log="page.log", stdin=subprocess.PIPE,
        )  # fmt: skip
        put.stdin.write(b"of the site")
        put.stdin.close()
        put.stdin = None
        until(lambda: "/home/page" in self.nw("site", "route", "list"), "the site serves")
        self.assertIn("of the site", self.nw("hub", "peek", "/home/page"))
        self.assertIn(f"left udp4://{HUB_ADDRESS}:6363", self.leave())
        self.assertNotIn('"/home"', self.routes_at_hub())
        self.nothing_is_made()
        self.assertIn("not joined", self.leave(code=1))

    def test_hub_that_refuses_leaves_nothing_made(self):
        output = self.join("/home", "--hub", "10.78.0.99", code=1)
        self.assertIn("/home can't be registered at the hub udp4://10.78.0.99:6363", output)
        self.nothing_is_made()

    def test_no_hub_is_said_with_option_that_names_one_and_silent_ones_are_asked_at_once(self):
        output = self.timed_join("no hub", code=3)
        self.assertIn("name one with --hub", output)
        for at in range(3):
            pair = (f"d{at}", f"e{at}")
            ip("-n", self.site_space, "link", "add", pair[0], "type", "veth", "peer", pair[1])
            for link in pair:
                ip("-n", self.site_space, "link", "set", link, "up")
        servers = "".join(f"nameserver {address}\n" for address in SILENT)
        (self.folder / "resolv.conf").write_text(f"{servers}search a.example b.example c.example\n")
        words = ["/home", "--home-hub", "--fch", f"http://{SILENT[0]}"]
        silent = "silent name servers and hub finder"
        output = self.timed_join(silent, *words, code=1, seconds_max=SILENCE_S)
        self.assertIn("can't be asked", output)
        self.nothing_is_made()

    def test_hub_named_by_dns_is_joined(self):
        """A name server on the site's loopback knows the service of the second search domain; the
        one before it is silent."""
        (self.folder / "resolv.conf").write_text(
            f"nameserver {SILENT[0]}\nnameserver 127.0.0.1\nsearch other.example campus.example\n"
        )
        server = ROOT / "tests/net/name_server.py"
        self.start(self.site_space, sys.executable, server, HUB_ADDRESS, log="dns.log")
        until(lambda: "ready" in (self.folder / "dns.log").read_text(), "the name server runs")
        output = self.timed_join("DNS with a silent server", seconds_max=SILENCE_S)
        self.assertIn(f"joined udp4://{HUB_ADDRESS}:6363 (DNS)", output)
        self.leave()
        self.nothing_is_made()

    def answer_group(self, *uris):
        script = ROOT / "tests/net/hub_responder.py"
        for uri in uris:
            log = f"responder{uris.index(uri)}.log"
            self.start(self.hub_space, sys.executable, script, HUB_ADDRESS, uri, log=log)
            until(lambda log=log: "ready" in (self.folder / log).read_text(), "a hub answers")

    def test_hub_answering_by_multicast_is_joined_and_of_two_one_by_rule(self):
        self.answer_group(f"tcp4://{HUB_ADDRESS}:6363")
        output = self.timed_join("multicast")
        self.assertIn(f"joined tcp4://{HUB_ADDRESS}:6363 (multicast)", output)
        self.leave()
        self.answer_group(f"tcp4://{HUB_ADDRESS}:6363", f"udp4://{HUB_ADDRESS}:6363")
        output = self.join()
        self.assertIn(f"2 hubs answer: udp4://{HUB_ADDRESS}:6363, tcp4://", output)
        self.assertIn("--hub names another", output)
        self.assertIn(f"joined udp4://{HUB_ADDRESS}:6363 (multicast)", output)
        self.leave()
        self.nothing_is_made()

    def test_hub_finder_is_asked_if_wanted_and_its_nonsense_is_refused(self):
        served = self.folder / "fch"
        served.mkdir()
        (served / "good").write_text(f"{HUB_ADDRESS}:6363,other.example\n")
        (served / "bad").write_text("<html>no hub</html>")
        (served / "none").write_text("")
        words = ["-m", "http.server", "8080", "--directory", served]
        self.start(self.hub_space, sys.executable, *words, log="fch.log")
        url = f"http://{HUB_ADDRESS}:8080"
        reach = ["ip", "netns", "exec", self.site_space, sys.executable, "-c"]
        check = f"import urllib.request; urllib.request.urlopen('{url}/good')"
        probe = [*reach, check]
        until(
            lambda: subprocess.run(probe, check=False, capture_output=True).returncode == 0,
            "the hub finder runs",
        )
        output = self.timed_join("hub finder", "--fch", f"{url}/good")
        self.assertIn(f"joined udp4://{HUB_ADDRESS}:6363 (FCH)", output)
        self.leave()
        for path, problem in (
            ("bad", "answers nonsense"),
            ("none", "knows no hub"),
            ("missing", "answers with status 404"),
        ):
            self.assertIn(problem, self.join("--fch", f"{url}/{path}", code=1))
        self.assertIn("can't be asked", self.join("--fch", f"http://{HUB_ADDRESS}:1", code=1))
        self.nothing_is_made()

    def test_site_prefix_is_propagated_by_hub_and_withdrawn_on_leaving(self):
        """The hub announces what joins below /home to its own gateway."""
        upstream = '[faces.udp]\nlisten = ["127.0.0.1:6364"]\n[faces.tcp]\nlisten = []\n'
        accepting = '[management]\ndigest = "anywhere"\nlocalhop = "anywhere"\n'
        self.router("hub-upstream", upstream + accepting)
        with open(self.folder / "hub.toml", "a") as out:
            out.write('[rib]\npropagate = ["/home"]\n')
        self.hub.send_signal(signal.SIGHUP)
        log = self.folder / "hub.log"
        until(lambda: "configuration applied" in log.read_text(), "the hub propagates")
        self.nw("hub", "route", "add", "/localhop/nfd", "udp4://127.0.0.1:6364")
        self.join("/home/garden", "--hub", HUB_ADDRESS)
        known = lambda: '"/home' in self.nw("hub-upstream", "route", "list", "--json")  # noqa: E731
        until(known, "the gateway knows the prefix")
        self.leave()
        until(lambda: not known(), "the prefix is withdrawn at the gateway")

    def ca(self):
        """Starts NDNts' CA behind the hub; returns its process and the file of its certificate."""
        process = self.start(
            self.hub_space, "node", CA, self.folder / "hub.sock", "/ca", "/home", "t-1,t-2",
            log="ca.err", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        word, text = process.stdout.readline().split()
        self.assertEqual(word, "certificate")
        self.assertEqual(process.stdout.readline(), "ready\n")
        until(lambda: '"/ca/CA"' in self.routes_at_hub(), "the CA is registered")
        file = self.folder / "ca.cert"
        file.write_bytes(base64.b64decode(text))
        # From now on, the hub accepts the owners of names only.
        rules = (
            f'[[anchor]]\nid = "ca"\nfile = "{file}"\n'
            '[[allow]]\nid = "sites"\nfrom = "remote"\nanchors = ["ca"]\nprivileges = ["rib"]\n'
            'signer = "/home/<..>/KEY/<_>"\nprefix = "/home/<..>"\n'
            '[[issuer]]\ncertificate = "/home/<..>/KEY/<_>"\nsigner = "/ca/KEY/<_>"\n'
        )
        with open(self.folder / "hub.toml", "a") as out:
            out.write(rules)
        text = (self.folder / "hub.toml").read_text().replace('digest = "anywhere"\n', "")
        (self.folder / "hub.toml").write_text(text)
        self.hub.send_signal(signal.SIGHUP)
        log = self.folder / "hub.log"
        until(lambda: "configuration applied" in log.read_text(), "the hub has read its rules")
        return process, file

    def join_with_pin(self, process, certificate, change=lambda pin: pin, code=0):
        words = ["join", "/home", "--hub", HUB_ADDRESS, "--ca", "/ca", "--ca-certificate"]
        words += [certificate, "--state", self.folder / "state", "--store", self.folder / "keys"]
        joining = self.start(
            self.site_space, NW, *words, "-s", f"unix://{self.folder}/site.sock", log="join.log",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        word, pin = process.stdout.readline().split()
        self.assertEqual(word, "pin")
        output, _ = joining.communicate(f"{change(pin)}\n", timeout=60)
        self.assertEqual(joining.returncode, code, output)
        return output

    @unittest.skipIf(missing_ca(), missing_ca() or "")
    def test_certificates_by_pin_and_possession(self):
        process, certificate = self.ca()
        output = self.join_with_pin(process, certificate)
        issued = re.search(r"certificate (/home/KEY/\S+)", output)[1]
        keys = ["--store", self.folder / "keys"]
        shown = self.nw("site", "cert", "show", issued, *keys)
        self.assertIn("NDNts-NDNCERT", shown)
        self.nw("site", "cert", "export", issued, "-o", self.folder / "issued.cert", *keys)
        self.assertIn('"/home"', self.routes_at_hub())
        # A second site proves its name by the first one's certificate.
        shutil.copytree(self.folder / "keys", self.folder / "others")
        self.leave()
        self.assertNotIn(issued, self.nw("site", "cert", "list", *keys))
        output = self.join(
            "/home/annex", "--hub", HUB_ADDRESS, "--ca", "/ca", "--ca-certificate", certificate,
            "--challenge", "possession", "--possession", "/home", "--store", self.folder / "others",
        )  # fmt: skip
        self.assertRegex(output, r"certificate /home/annex/KEY/\S+")
        self.nw(
            "site", "leave", "--state", self.folder / "state", "--store", self.folder / "others"
        )
        self.nothing_is_made()

    @unittest.skipIf(missing_ca(), missing_ca() or "")
    def test_wrong_pin_token_and_certificate_leave_nothing_made_and_token_serves_once(self):
        process, certificate = self.ca()
        token = self.folder / "token"
        site = ["/home", "--hub", HUB_ADDRESS, "--ca", "/ca", "--ca-certificate", certificate]
        site += ["--challenge", "token", "--token"]
        self.assertIn("can't read the token", self.join(*site, token, code=1))
        token.write_text("\n")
        self.assertIn("has no token of 1 to 256 bytes", self.join(*site, token, code=1))
        token.write_text("t-9\n")
        output = self.join(*site, token, code=1)
        self.assertIn("no certificate from the CA /ca", output)
        self.nothing_is_made()
        keys = ["--store", self.folder / "keys"]
        times_s = []
        for text, options in (("t-1\n", [token]), ("t-2\n", ["-"])):
            token.write_text(text)
            began = time.monotonic()
            output = self.join(*site, *options, *keys, input=text)
            seconds = time.monotonic() - began
            print(f"nw join with a certificate by token: {seconds:.1f} s", file=sys.stderr)
            bounds.check(self, "join.seconds", seconds)
            times_s.append(seconds)
            self.assertRegex(output, r"certificate /home/KEY/\S+")
            self.assertIn('"/home"', self.routes_at_hub())
            self.leave()
            self.nothing_is_made()
        # A hub that does not notice the certificate in its own cache waits for 4 s.
        self.assertLess(min(times_s), 4)
        self.assertIn("no certificate from the CA /ca", self.join(*site, token, *keys, code=1))
        self.nothing_is_made()
        output = self.join_with_pin(process, certificate, lambda _: "", code=1)
        self.assertIn(
            "standard input has no code for the CA", output + (self.folder / "join.log").read_text()
        )
        self.nothing_is_made()
        other = self.folder / "other.cert"
        self.nw("site", "key", "generate", "/ca", "--store", self.folder / "foreign")
        self.nw("site", "cert", "export", "/ca", "-o", other, "--store", self.folder / "foreign")
        output = self.join(
            "/home", "--hub", HUB_ADDRESS, "--ca", "/ca", "--ca-certificate", other, code=1
        )
        self.assertIn("which is not the given one", output)
        self.nothing_is_made()

    def test_ca_that_answers_nonsense_leaves_nothing_made(self):
        other = self.folder / "other.cert"
        self.nw("site", "key", "generate", "/ca", "--store", self.folder / "foreign")
        self.nw("site", "cert", "export", "/ca", "-o", other, "--store", self.folder / "foreign")
        nonsense = self.start(
            self.hub_space, NW, "poke", "/ca/CA/INFO/32=metadata", "--freshness", "9000",
            "-s", f"unix://{self.folder}/hub.sock", log="nonsense.log", stdin=subprocess.PIPE,
        )  # fmt: skip
        nonsense.stdin.write(os.urandom(200))
        nonsense.stdin.close()
        nonsense.stdin = None
        until(lambda: "/ca/CA" in self.routes_at_hub(), "the false CA is registered")
        output = self.join(
            "/home", "--hub", HUB_ADDRESS, "--ca", "/ca", "--ca-certificate", other, code=1
        )
        self.assertIn("the CA's metadata can't be decoded", output)
        self.nothing_is_made()


if __name__ == "__main__":
    unittest.main()
