"""What `nw config --check` says of a file is what `nw run` does with it, at a start and on SIGHUP."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from test_cli import NW, PATIENCE_S, CommandLine, free_port

FACE = '[[face]]\nuri = "udp4://127.0.0.1:6399"\n'
RULE = '[management]\ndigest = "nowhere"\nunknown_key = "nowhere"\n[[allow]]\nid = "r"\nprivileges = ["rib"]\n'


def routes(count):
    return "".join(f'[[route]]\nprefix = "/{at}"\nface = "udp4://127.0.0.1:6399"\n' for at in range(count))


# What is wrong, and the option that is named for it.
BAD = [
    ('[[face]]\nuri = "udp4://127.0.0.1:99999"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://127.0.0.1:0"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://router.example:0"\n', "face[0].uri"),
    ('[[face]]\nuri = "tcp4://0.0.0.0:6363"\n', "face[0].uri"),
    ('[[face]]\nuri = "tcp4://224.0.0.1:6363"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://255.255.255.255:6363"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://224.0.23.170:56363"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://[::1]:6363"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp6://127.0.0.1:6363"\n', "face[0].uri"),
    ('[[face]]\nuri = "udp4://a b"\n', "face[0].uri"),
    ('[[face]]\nuri = "unix://relative"\n', "face[0].uri"),
    ('[[face]]\nuri = "unix:///%s"\n' % ("x" * 107), "face[0].uri"),
    ('[[face]]\nuri = "dev://eth0"\n', "face[0].uri"),
    ('[[face]]\nuri = "ether://[08:00:27:01:02:03]"\n', "face[0].uri"),
    ('[[face]]\nuri = "ether://08:00:27:01:02:03"\nlocal_uri = "dev://eth0"\n', "face[0].uri"),
    ('[[face]]\nuri = "ws://127.0.0.1:1/path"\n', "face[0].uri"),
    (FACE + 'local_uri = "dev://eth0"\n', "face[0].local_uri"),
    (FACE + 'local_uri = "tcp4://127.0.0.1:1"\n', "face[0].local_uri"),
    (FACE + 'local_uri = "udp4://127.0.0.1:99999"\n', "face[0].local_uri"),
    (FACE + '[[face]]\nuri = "udp://127.0.0.1:6399"\n', "face[1].uri"),
    ('[[face]]\nuri = "tcp4://127.0.0.1:6399"\nmtu = 1400\n', "face[0].mtu"),
    ('[[face]]\nuri = "udp4://224.0.23.170:56363"\nlocal_uri = "dev://eth0"\nreliability = true\n', "face[0].reliability"),
    ('[[route]]\nprefix = "/x"\nface = "udp4://127.0.0.1:99999"\n', "route[0].face"),
    ('[[route]]\nprefix = "/x"\nface = "ether://[08:00:27:01:02:03]"\n', "route[0].face"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "/x"\n', "strategy[0].strategy"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "besst-route"\n', "strategy[0].strategy"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "/localhost/nfd/strategy/best-route/v=99"\n', "strategy[0].strategy"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "best-route/v=5/no-such~1"\n', "strategy[0].strategy"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "hash/v=1/depth~99"\n', "strategy[0].strategy"),
    ('[[anchor]]\nid = "a"\nfile = "/no/such"\n', "anchor[0].file"),
    ('[[anchor]]\nid = "a"\nfile = "/dev/zero"\n', "anchor[0].file"),
    ('[[anchor]]\nid = "a"\nfile = "/tmp"\n', "anchor[0].file"),
    ('[[anchor]]\nid = "a"\nfolder = "/no/such"\n', "anchor[0].folder"),
    ('[[anchor]]\nid = "a"\nbase64 = "AAAA"\n', "anchor[0].base64"),
    ('[management]\ntrusted_keys = ["/no/such"]\n', "management.trusted_keys"),
    ('[management]\ntrusted_keys = ["/etc/passwd"]\n', "management.trusted_keys"),
    ('[rib]\nkey = "/no/key"\ncertificate = "/no/certificate"\n', "rib.certificate"),
    ('[rib]\nkey = "/no/key"\n', "rib.key"),
    ('[rib]\nreadvertise_to = ["udp4://127.0.0.1:99999"]\n', "rib.readvertise_to"),
    ('[control]\ntoken_file = "/no/such"\n', "control.token_file"),
    ('[control]\ntoken_file = "/dev/null"\n', "control.token_file"),
    ('[control]\nlisten = ["0.0.0.0:6399"]\n', "control.listen"),
    ('[control]\npath = "/etc/passwd"\n', "control.path"),
    ('[control]\npath = "FOLDER/c.sock"\n', "control.path"),
    ("[tables]\nroutes = 64\n" + routes(65), "tables.routes"),
    ("[tables]\nfib_prefixes = 64\n" + routes(64), "tables.fib_prefixes"),
    ("[faces]\nmax = 16\n" + "".join(f'[[face]]\nuri = "udp4://127.0.0.1:{7000 + at}"\n' for at in range(16)), "faces.max"),
    ("[forwarder]\ncpus = [4000]\n", "forwarder.cpus"),
    ('[faces.websocket]\nlisten = ["127.0.0.1:6399"]\n[control]\nlisten = ["127.0.0.1:6399"]\n', "faces.websocket.listen"),
    (RULE + 'anchors = ["nosuch"]\n', "allow[0].anchors"),
    ('[log]\nlevel = "routr=debug"\n', "log.level"),
]
# A reload refuses these as well: one for each way in which a file can be wrong.
RELOADED = ["face[0].uri", "route[0].face", "strategy[0].strategy", "anchor[0].file", "management.trusted_keys", "control.token_file"]

GOOD = [
    "",
    FACE,
    '[[face]]\nuri = "udp://localhost:6399"\n',
    '[[route]]\nprefix = "/x"\nface = "udp4://localhost:6399"\n',
    '[[strategy]]\nprefix = "/x"\nstrategy = "multicast"\n[log]\nlevel = "info,router=info"\n',
    '[[strategy]]\nprefix = "/x"\nstrategy = "asf/v=5/max-timeouts~5"\n',
    '[rib]\nreadvertise_to = ["udp://localhost"]\n',
]


class Checks(CommandLine):
    def write(self, text):
        config = Path(self.folder) / "c.toml"
        config.write_text(
            f'[faces.unix]\npath = "{self.folder}/c.sock"\n[faces.udp]\nlisten = ["127.0.0.1:{free_port()}"]\n[faces.tcp]\nlisten = []\n' + text.replace("FOLDER", self.folder)
        )
        return config

    def test_what_check_refuses_a_start_refuses_with_the_same_words(self):
        for text, option in BAD:
            with self.subTest(text=text[:200]):
                config = self.write(text)
                said = self.nw("config", "--check", config, code=1).stderr.decode()
                self.assertRegex(said, re.escape(str(config)) + rf":\d+: {re.escape(option)}: ")
                self.assertEqual(said, self.nw("run", "--check", "-c", config, code=1).stderr.decode())
                self.assertEqual(said, self.nw("run", "-c", config, code=1).stderr.decode())

    def test_what_check_accepts_starts_without_complaint(self):
        for at, text in enumerate(GOOD):
            with self.subTest(text=text):
                config = self.write(text)
                checked = self.nw("config", "--check", config).stdout.decode()
                self.assertIn("is a configuration this router can run with\nnot checked: whether ", checked)
                router = self.router(f"good{at}", text)
                self.until(lambda: " running " in router.said(), "it runs")
                time.sleep(0.2)
                said = [line for line in router.said().splitlines() if " ERROR " in line or " WARN " in line]
                self.assertEqual([line for line in said if "rmem_max" not in line], [])
                self.assertEqual(said, sorted(set(said)), "nothing is said twice")

    def test_a_reload_refuses_what_check_refuses(self):
        router = self.router()
        for option in RELOADED:
            router.write(next(text for text, named in BAD if named == option))
            before = len(router.said())
            router.process.send_signal(signal.SIGHUP)
            self.until(lambda: "stays as it was" in router.said()[before:], option)
            self.assertIn(option, router.said()[before:])

    def test_files_that_are_none_end_with_a_sentence_soon(self):
        fifo, huge = Path(self.folder) / "fifo", Path(self.folder) / "huge"
        os.mkfifo(fifo)
        with open(huge, "wb") as file:
            file.truncate(1 << 40)
        begin = time.monotonic()
        for words in (["config", "--check"], ["run", "-c"], ["balancer", "config", "--check"], ["graph", "test"], ["sim", "run"]):
            for path in ("/dev/zero", self.folder, fifo, huge, "/no/such"):
                with self.subTest(words=words, path=path):
                    self.assertIn(f"can't read {path}: ", self.nw(*words, path, code=1).stderr.decode())
        self.assertLess(time.monotonic() - begin, 90)

    def test_levels_of_the_command_line_are_checked(self):
        config = self.write("")
        said = self.nw("run", "--check", "-c", config, "--log", "loud", code=1).stderr
        self.assertEqual(said, self.nw("run", "-c", config, "--log", "loud", code=1).stderr)

    def test_many_mistakes_are_counted(self):
        config = Path(self.folder) / "many.toml"
        config.write_text("[tables]\n" + "".join(f"k{at} = 1\n" for at in range(40_000)))
        begin = time.monotonic()
        said = self.nw("config", "--check", config, code=1).stderr.decode().splitlines()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual((len(said), said[-1]), (101, "and 39900 more mistakes: correct these first"))

    def test_too_little_address_space_is_a_sentence(self):
        config = self.write("")
        for words in (["config", "--check", config], ["run", "-c", config]):
            limited = ["bash", "-c", 'ulimit -v 600000; exec "$@"', "-", NW, *map(str, words)]
            done = subprocess.run(limited, capture_output=True, text=True, timeout=PATIENCE_S)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"may not have the \d+ MiB of address space .* raise `ulimit -v` .* content_store.mib \(\d+ MiB\)")
            self.assertNotIn("panicked", done.stderr)


class HostNames(CommandLine):
    def test_a_configured_face_finds_its_peer_by_name(self):
        far = self.router("far")
        uri = f"tcp4://localhost:{far.tcp}"
        near = self.router("near", f'[[face]]\nuri = "{uri}"\n[[route]]\nprefix = "/far"\nface = "{uri}"\n')
        self.until(lambda: b"/far" in self.nw("route", "list", router=near).stdout, "the route is there")
        self.put(far, "/far/file", b"by name")
        self.assertEqual(self.nw("cat", "-q", "/far/file", router=near).stdout, b"by name")
        # A name without an address is told and tried again; the router runs.
        near.write('[[face]]\nuri = "udp4://name.invalid:6363"\n')
        near.process.send_signal(signal.SIGHUP)
        self.until(lambda: "name.invalid" in near.said() and "is not connected yet" in near.said(), "the name is told")
        self.assertNotIn(b"/far", self.nw("route", "list", router=near).stdout)

    def test_clients_find_a_router_by_name(self):
        router = self.router()
        home = Path(self.folder) / "home"
        (home / ".ndn").mkdir(parents=True)
        environment = {key: value for key, value in os.environ.items() if key != "NDN_CLIENT_TRANSPORT"}
        for uri in (f"tcp4://localhost:{router.tcp}", f"tcp://localhost:{router.tcp}"):
            self.nw("status", "--socket", uri)
            (home / ".ndn/client.conf").write_text(f"transport={uri}\n")
            for more in ({"HOME": str(home)}, {"NDN_CLIENT_TRANSPORT": uri}):
                done = subprocess.run([NW, "status"], env={**environment, **more}, capture_output=True, timeout=PATIENCE_S)
                self.assertEqual(done.returncode, 0, done.stderr)


@unittest.skipIf(os.geteuid() != 0, "SKIPPED: only root can give up rights")
class Rights(CommandLine):
    def status(self, router):
        lines = Path(f"/proc/{router.process.pid}/status").read_text().splitlines()
        return {key: value.split() for key, value in (line.split(":", 1) for line in lines)}

    def test_a_router_of_root_becomes_a_user_and_keeps_what_its_features_need(self):
        os.chown(self.folder, 65534, 65534)
        # A folder that is made for a socket belongs to the user as well.
        control = Path(self.folder) / "made/r.sock"
        text = f'[control]\npath = "{control}"\n[process]\nuser = "65534:65534"\n[forwarder]\nshards = 1\n'
        router = self.router(more=text + "[faces.ethernet]\nlisten = true\n")
        self.until(lambda: " running " in router.said(), "it runs")
        status = self.status(router)
        self.assertEqual((status["Uid"], status["Gid"], status["Groups"]), (["65534"] * 4, ["65534"] * 4, []))
        net_raw = f"{1 << 13:016x}"
        self.assertEqual({key: status[key] for key in ("CapEff", "CapPrm", "CapBnd")}, {key: [net_raw] for key in ("CapEff", "CapPrm", "CapBnd")})
        self.assertEqual((status["CapInh"], status["CapAmb"], status["NoNewPrivs"]), (["0" * 16], ["0" * 16], ["1"]))
        # Every thread, not only the first.
        for thread in Path(f"/proc/{router.process.pid}/task").iterdir():
            self.assertIn("Uid:\t65534\t65534\t65534\t65534", (thread / "status").read_text())
        # Reading the file again works, and what needs a right that is gone is told.
        self.assertTrue(control.is_socket())
        router.write(text + "[faces.ethernet]\nlisten = true\n" + FACE)
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "configuration applied" in router.said(), "the file is read again")
        self.until(lambda: b"6399" in self.nw("face", "list", router=router).stdout, "its face is there")
        router.write(text + "[tables]\nlock = true\n")
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "needs CAP_IPC_LOCK, dropped at start" in router.said(), "the right is named")

    def test_rights_are_given_up_without_another_user(self):
        router = self.router(more="[process]\ndrop_privileges = true\n[forwarder]\nshards = 1\n")
        status = self.status(router)
        self.assertEqual((status["Uid"][0], status["CapEff"], status["CapBnd"], status["NoNewPrivs"]), ("0", ["0" * 16], ["0" * 16], ["1"]))

    def test_a_user_that_is_none_or_may_not_read_the_file_is_said(self):
        config = Path(self.folder) / "user.toml"
        config.write_text('[process]\nuser = "no-such-user"\n')
        self.assertIn("process.user: there is no user", self.nw("config", "--check", config, code=1).stderr.decode())
        config.write_text(f'[faces.unix]\npath = "{self.folder}/u.sock"\n[process]\nuser = "65534:65534"\n')
        config.chmod(0o600)
        self.assertIn(f"can't read {config}: Permission denied", self.nw("run", "-c", config, code=1).stderr.decode())


@unittest.skipIf(shutil.which("systemd-analyze") is None, "SKIPPED: systemd-analyze is not here, so units are not judged")
class Units(unittest.TestCase):
    def test_units_give_their_processes_no_more_than_they_need(self):
        units = Path(__file__).resolve().parents[2] / "deploy/systemd"
        for unit in ("namewire.service", "namewire-balancer.service"):
            done = subprocess.run(["systemd-analyze", "security", "--offline=true", str(units / unit)], capture_output=True, text=True)
            level = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout).group(1))
            self.assertLessEqual(level, 3.0, f"{unit}: {done.stdout[-300:]}")


class Installing(unittest.TestCase):
    ROOT = Path(__file__).resolve().parents[2]

    def test_what_is_installed_is_taken_away_again_and_needs_no_rust(self):
        folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        prefix = Path(folder) / "local"
        # Root's environment where Rust is another user's.
        plain = {"PATH": "/usr/bin:/bin", "HOME": folder, "NW_BINARY": str(Path(NW).resolve())}
        words = [str(self.ROOT / "tools/install")]

        def run(*more, **environment):
            return subprocess.run([*words, *more, str(prefix)], capture_output=True, text=True, env={**plain, **environment}, timeout=PATIENCE_S)

        done = run()
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in ("bin/nw", "share/man/man1/nw.1", "share/man/man5/nw.toml.5", "lib/systemd/system/namewire.service", "share/bash-completion/completions/nw"):
            self.assertTrue((prefix / path).is_file(), path)
        self.assertIn(f"ExecStart={prefix}/bin/nw run", (prefix / "lib/systemd/system/namewire.service").read_text())
        foreign = prefix / "share/man/man1/other.1"
        foreign.write_text("another program's")
        self.assertEqual(run("--remove").returncode, 0)
        self.assertEqual([path for path in prefix.rglob("*") if path.is_file()], [foreign])
        self.assertIn("nothing is known to be installed", run("--remove").stderr)
        # Below DESTDIR for packages, with the final place in the units.
        self.assertEqual(run(DESTDIR=f"{folder}/package").returncode, 0)
        self.assertTrue(Path(f"{folder}/package{prefix}/bin/nw").is_file())
        self.assertIn("run `make build` first", run(NW_BINARY=f"{folder}/none").stderr)

    def test_make_install_does_not_build_what_is_there(self):
        folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copy(self.ROOT / "Makefile", folder)
        planned = lambda: subprocess.run(["make", "-n", "install", "uninstall"], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S).stdout
        self.assertIn("cargo build", planned())
        (Path(folder) / "target/release").mkdir(parents=True)
        (Path(folder) / "target/release/nw").touch()
        self.assertNotIn("cargo", planned())
        self.assertIn("tools/install --remove", planned())


class FindingARouter(CommandLine):
    def test_a_router_that_is_not_where_all_look_says_how_it_is_found(self):
        router = self.router()
        self.assertIn(f"other programs find this router with: export NDN_CLIENT_TRANSPORT=unix://{router.socket}", router.said())

    def test_a_second_router_by_port_and_socket(self):
        first = self.router()
        second, port, home = Path(self.folder) / "second.sock", free_port(), Path(self.folder) / "home"
        (home / ".ndn").mkdir(parents=True)
        (home / ".ndn/client.conf").write_text("pib=pib-sqlite3\ntransport=unix:///other\n")
        words = [NW, "run", "-c", str(first.config), "--port", str(port), "--socket", str(second), "--write-client-conf"]
        log = open(Path(self.folder) / "second.log", "w+")
        self.addCleanup(log.close)
        process = subprocess.Popen(words, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)})
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.until(lambda: " running " in Path(log.name).read_text(), "the second runs")
        self.assertIn(f"127.0.0.1:{port}", self.nw("face", "channels", "--socket", f"unix://{second}").stdout.decode())
        self.assertTrue(Path(self.folder, "second.control.sock").exists())
        self.assertEqual((home / ".ndn/client.conf").read_text(), f"pib=pib-sqlite3\ntransport=unix://{second}\n")

    def test_a_reload_names_the_options_that_need_a_restart(self):
        router = self.router()
        router.write("[tables]\nlock = true\n[forwarder]\npin = false\n")
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "only after a restart: tables.lock, forwarder.pin" in router.said(), "the options are named")


if __name__ == "__main__":
    unittest.main()
