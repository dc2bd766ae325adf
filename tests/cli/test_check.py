"""`nw config --check` accepts and refuses the same files as `nw run` does at start and on
SIGHUP."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine, free_port

FACE = '[[face]]\nuri = "udp4://127.0.0.1:6399"\n'
RULE = '[management]\ndigest = "nowhere"\nunknown_key = "nowhere"\n[[allow]]\nid = "r"\nprivileges = ["rib"]\n'


def routes(count):
    return "".join(
        f'[[route]]\nprefix = "/{at}"\nface = "udp4://127.0.0.1:6399"\n' for at in range(count)
    )


# A wrong configuration and the option that the error names.
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
    (
        '[[face]]\nuri = "udp4://224.0.23.170:56363"\nlocal_uri = "dev://eth0"\nreliability = true\n',
        "face[0].reliability",
    ),
    ('[[route]]\nprefix = "/x"\nface = "udp4://127.0.0.1:99999"\n', "route[0].face"),
    ('[[route]]\nprefix = "/x"\nface = "ether://[08:00:27:01:02:03]"\n', "route[0].face"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "/x"\n', "strategy[0].strategy"),
    ('[[strategy]]\nprefix = "/x"\nstrategy = "besst-route"\n', "strategy[0].strategy"),
    (
        '[[strategy]]\nprefix = "/x"\nstrategy = "/localhost/nfd/strategy/best-route/v=99"\n',
        "strategy[0].strategy",
    ),
    (
        '[[strategy]]\nprefix = "/x"\nstrategy = "best-route/v=5/no-such~1"\n',
        "strategy[0].strategy",
    ),
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
    (
        "[faces]\nmax = 16\n"
        + "".join(f'[[face]]\nuri = "udp4://127.0.0.1:{7000 + at}"\n' for at in range(16)),
        "faces.max",
    ),
    ("[forwarder]\ncpus = [4000]\n", "forwarder.cpus"),
    (
        '[faces.websocket]\nlisten = ["127.0.0.1:6399"]\n[control]\nlisten = ["127.0.0.1:6399"]\n',
        "faces.websocket.listen",
    ),
    (RULE + 'anchors = ["nosuch"]\n', "allow[0].anchors"),
    ('[log]\nlevel = "routr=debug"\n', "log.level"),
]
# A reload refuses these as well: one example for each kind of mistake.
RELOADED = [
    "face[0].uri",
    "route[0].face",
    "strategy[0].strategy",
    "anchor[0].file",
    "management.trusted_keys",
    "control.token_file",
]

GOOD = [
    "",
    FACE,
    '[[face]]\nuri = "udp://localhost:6399"\n',
    '[[route]]\nprefix = "/x"\nface = "udp4://localhost:6399"\n',
    '[[strategy]]\nprefix = "/x"\nstrategy = "multicast"\n[log]\nlevel = "info,router=info"\n',
    '[[strategy]]\nprefix = "/x"\nstrategy = "asf/v=5/max-timeouts~5"\n',
    '[rib]\nreadvertise_to = ["udp://localhost"]\n',
]


class ConfigCheck(CommandLine):
    def write(self, text):
        config = Path(self.folder) / "c.toml"
        config.write_text(
            f'[faces.unix]\npath = "{self.folder}/c.sock"\n[faces.udp]\nlisten = ["127.0.0.1:{free_port()}"]\n[faces.tcp]\nlisten = []\n'
            + text.replace("FOLDER", self.folder)
        )
        return config

    def test_invalid_file_is_refused_alike_by_check_and_run(self):
        for text, option in BAD:
            with self.subTest(text=text[:200]):
                config = self.write(text)
                output = self.nw("config", "--check", config, code=1).stderr.decode()
                self.assertRegex(output, re.escape(str(config)) + rf":\d+: {re.escape(option)}: ")
                self.assertEqual(
                    output, self.nw("run", "--check", "-c", config, code=1).stderr.decode()
                )
                self.assertEqual(output, self.nw("run", "-c", config, code=1).stderr.decode())

    def test_valid_file_starts_without_warnings(self):
        for at, text in enumerate(GOOD):
            with self.subTest(text=text):
                config = self.write(text)
                checked = self.nw("config", "--check", config).stdout.decode()
                self.assertIn(
                    "is a configuration this router can run with\nnot checked: whether ", checked
                )
                router = self.router(f"good{at}", text)
                self.until(lambda: " running " in router.log_text(), "the router runs")
                time.sleep(0.2)
                output = [
                    line
                    for line in router.log_text().splitlines()
                    if " ERROR " in line or " WARN " in line
                ]
                self.assertEqual([line for line in output if "rmem_max" not in line], [])
                self.assertEqual(output, sorted(set(output)), "no line is logged twice")

    def test_invalid_file_is_refused_on_reload(self):
        router = self.router()
        for option in RELOADED:
            router.write(next(text for text, named in BAD if named == option))
            before = len(router.log_text())
            router.process.send_signal(signal.SIGHUP)
            self.until(lambda: "stays as it was" in router.log_text()[before:], option)
            self.assertIn(option, router.log_text()[before:])

    def test_unreadable_files_are_refused_soon(self):
        fifo, huge = Path(self.folder) / "fifo", Path(self.folder) / "huge"
        os.mkfifo(fifo)
        with open(huge, "wb") as file:
            file.truncate(1 << 40)
        begin = time.monotonic()
        for args in (
            ["config", "--check"],
            ["run", "-c"],
            ["balancer", "config", "--check"],
            ["graph", "test"],
            ["sim", "run"],
        ):
            for path in ("/dev/zero", self.folder, fifo, huge, "/no/such"):
                with self.subTest(args=args, path=path):
                    self.assertIn(
                        f"can't read {path}: ", self.nw(*args, path, code=1).stderr.decode()
                    )
        self.assertLess(time.monotonic() - begin, 90)

    def test_log_option_invalid_is_refused_by_check(self):
        config = self.write("")
        output = self.nw("run", "--check", "-c", config, "--log", "loud", code=1).stderr
        self.assertEqual(output, self.nw("run", "-c", config, "--log", "loud", code=1).stderr)

    def test_many_mistakes_are_counted(self):
        config = Path(self.folder) / "many.toml"
        config.write_text("[tables]\n" + "".join(f"k{at} = 1\n" for at in range(40_000)))
        begin = time.monotonic()
        output = self.nw("config", "--check", config, code=1).stderr.decode().splitlines()
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(
            (len(output), output[-1]), (101, "and 39900 more mistakes: correct these first")
        )

    def test_too_little_address_space_is_refused_with_advice(self):
        config = self.write("")
        for args in (["config", "--check", config], ["run", "-c", config]):
            limited = ["bash", "-c", 'ulimit -v 600000; exec "$@"', "-", NW, *map(str, args)]
            completed = subprocess.run(limited, capture_output=True, text=True, timeout=TIMEOUT_S)
            self.assertEqual(completed.returncode, 1)
            self.assertRegex(
                completed.stderr,
                r"may not have the \d+ MiB of address space .* raise `ulimit -v` .* content_store.mib \(\d+ MiB\)",
            )
            self.assertNotIn("panicked", completed.stderr)


class HostNames(CommandLine):
    def test_configured_face_resolves_host_name(self):
        far = self.router("far")
        uri = f"tcp4://localhost:{far.tcp}"
        near = self.router(
            "near", f'[[face]]\nuri = "{uri}"\n[[route]]\nprefix = "/far"\nface = "{uri}"\n'
        )
        self.until(
            lambda: b"/far" in self.nw("route", "list", router=near).stdout, "the route is there"
        )
        self.put(far, "/far/file", b"by name")
        self.assertEqual(self.nw("cat", "-q", "/far/file", router=near).stdout, b"by name")
        # A name that does not resolve is logged and retried; the router keeps running.
        near.write('[[face]]\nuri = "udp4://name.invalid:6363"\n')
        near.process.send_signal(signal.SIGHUP)
        self.until(
            lambda: "name.invalid" in near.log_text() and "is not connected yet" in near.log_text(),
            "the name is logged",
        )
        self.assertNotIn(b"/far", self.nw("route", "list", router=near).stdout)

    def test_client_resolves_host_name(self):
        router = self.router()
        home = Path(self.folder) / "home"
        (home / ".ndn").mkdir(parents=True)
        environment = {
            key: value for key, value in os.environ.items() if key != "NDN_CLIENT_TRANSPORT"
        }
        for uri in (f"tcp4://localhost:{router.tcp}", f"tcp://localhost:{router.tcp}"):
            self.nw("status", "--socket", uri)
            (home / ".ndn/client.conf").write_text(f"transport={uri}\n")
            for extra in ({"HOME": str(home)}, {"NDN_CLIENT_TRANSPORT": uri}):
                completed = subprocess.run(
                    [NW, "status"],
                    env={**environment, **extra},
                    capture_output=True,
                    timeout=TIMEOUT_S,
                )
                self.assertEqual(completed.returncode, 0, completed.stderr)


@unittest.skipIf(os.geteuid() != 0, "only root can give up rights")
class Privileges(CommandLine):
    def status(self, router):
        lines = Path(f"/proc/{router.process.pid}/status").read_text().splitlines()
        return {key: value.split() for key, value in (line.split(":", 1) for line in lines)}

    def test_router_started_by_root_keeps_only_needed_capabilities(self):
        os.chown(self.folder, 65534, 65534)
        # A folder created for a socket belongs to the user as well.
        control = Path(self.folder) / "made/r.sock"
        text = f'[control]\npath = "{control}"\n[process]\nuser = "65534:65534"\n[forwarder]\nshards = 1\n'
        router = self.router(extra=text + "[faces.ethernet]\nlisten = true\n")
        self.until(lambda: " running " in router.log_text(), "the router runs")
        status = self.status(router)
        self.assertEqual(
            (status["Uid"], status["Gid"], status["Groups"]), (["65534"] * 4, ["65534"] * 4, [])
        )
        net_raw = f"{1 << 13:016x}"
        self.assertEqual(
            {key: status[key] for key in ("CapEff", "CapPrm", "CapBnd")},
            {key: [net_raw] for key in ("CapEff", "CapPrm", "CapBnd")},
        )
        self.assertEqual(
            (status["CapInh"], status["CapAmb"], status["NoNewPrivs"]),
            (["0" * 16], ["0" * 16], ["1"]),
        )
        # All threads have the new user, not only the first one.
        for thread in Path(f"/proc/{router.process.pid}/task").iterdir():
            self.assertIn("Uid:\t65534\t65534\t65534\t65534", (thread / "status").read_text())
        # A reload still works, and an option that needs a dropped capability is reported.
        self.assertTrue(control.is_socket())
        router.write(text + "[faces.ethernet]\nlisten = true\n" + FACE)
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "configuration applied" in router.log_text(), "the file is read again")
        self.until(
            lambda: b"6399" in self.nw("face", "list", router=router).stdout, "its face exists"
        )
        router.write(text + "[tables]\nlock = true\n")
        router.process.send_signal(signal.SIGHUP)
        self.until(
            lambda: "needs CAP_IPC_LOCK, dropped at start" in router.log_text(),
            "the right is named",
        )

    def test_drop_privileges_without_user_drops_all_capabilities(self):
        router = self.router(extra="[process]\ndrop_privileges = true\n[forwarder]\nshards = 1\n")
        status = self.status(router)
        self.assertEqual(
            (status["Uid"][0], status["CapEff"], status["CapBnd"], status["NoNewPrivs"]),
            ("0", ["0" * 16], ["0" * 16], ["1"]),
        )

    def test_unknown_user_or_unreadable_file_is_refused(self):
        config = Path(self.folder) / "user.toml"
        config.write_text('[process]\nuser = "no-such-user"\n')
        self.assertIn(
            "process.user: there is no user",
            self.nw("config", "--check", config, code=1).stderr.decode(),
        )
        config.write_text(
            f'[faces.unix]\npath = "{self.folder}/u.sock"\n[process]\nuser = "65534:65534"\n'
        )
        config.chmod(0o600)
        self.assertIn(
            f"can't read {config}: Permission denied",
            self.nw("run", "-c", config, code=1).stderr.decode(),
        )


@unittest.skipIf(
    shutil.which("systemd-analyze") is None,
    "systemd-analyze is not here, so units are not judged",
)
class Units(unittest.TestCase):
    def test_units_exposure_level_is_low(self):
        units = Path(__file__).resolve().parents[2] / "deploy/systemd"
        for unit in ("namewire.service", "namewire-balancer.service"):
            completed = subprocess.run(
                ["systemd-analyze", "security", "--offline=true", str(units / unit)],
                capture_output=True,
                text=True,
            )
            level = float(
                re.search(r"Overall exposure level for \S+: ([\d.]+)", completed.stdout).group(1)
            )
            self.assertLessEqual(level, 3.0, f"{unit}: {completed.stdout[-300:]}")


class Install(unittest.TestCase):
    ROOT = Path(__file__).resolve().parents[2]

    def test_uninstall_removes_installed_files_without_rust(self):
        folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        prefix = Path(folder) / "local"
        # The environment of root on a machine where only another user has Rust.
        plain = {"PATH": "/usr/bin:/bin", "HOME": folder, "NW_BINARY": str(Path(NW).resolve())}
        args = [str(self.ROOT / "tools/install")]

        def run(*extra, **environment):
            return subprocess.run(
                [*args, *extra, str(prefix)],
                capture_output=True,
                text=True,
                env={**plain, **environment},
                timeout=TIMEOUT_S,
            )

        completed = run()
        self.assertEqual(completed.returncode, 0, completed.stderr)
        for path in (
            "bin/nw",
            "share/man/man1/nw.1",
            "share/man/man5/nw.toml.5",
            "lib/systemd/system/namewire.service",
            "share/bash-completion/completions/nw",
        ):
            self.assertTrue((prefix / path).is_file(), path)
        self.assertIn(
            f"ExecStart={prefix}/bin/nw run",
            (prefix / "lib/systemd/system/namewire.service").read_text(),
        )
        foreign = prefix / "share/man/man1/other.1"
        foreign.write_text("another program's")
        self.assertEqual(run("--remove").returncode, 0)
        self.assertEqual([path for path in prefix.rglob("*") if path.is_file()], [foreign])
        self.assertIn("nothing is known to be installed", run("--remove").stderr)
        # With DESTDIR, as packages use it: files go below it, and the units contain the final path.
        self.assertEqual(run(DESTDIR=f"{folder}/package").returncode, 0)
        self.assertTrue(Path(f"{folder}/package{prefix}/bin/nw").is_file())
        self.assertIn("run `make build` first", run(NW_BINARY=f"{folder}/none").stderr)

    def test_make_install_does_not_rebuild_existing_binary(self):
        folder = tempfile.mkdtemp(prefix="nw-cli-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        shutil.copy(self.ROOT / "Makefile", folder)
        # The target folder is that of the project, or the one that the environment names.
        environment = {k: v for k, v in os.environ.items() if k != "CARGO_TARGET_DIR"}

        def planned(goals=("install", "uninstall"), **extra):
            return subprocess.run(
                ["make", "-n", *goals],
                cwd=folder,
                env={**environment, **extra},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            ).stdout

        elsewhere = f"{folder}/elsewhere"
        self.assertIn("cargo build", planned())
        for target, extra in (("target", {}), ("elsewhere", {"CARGO_TARGET_DIR": elsewhere})):
            (Path(folder) / target / "release").mkdir(parents=True)
            (Path(folder) / target / "release/nw").touch()
            self.assertNotIn("cargo", planned(**extra))
            self.assertIn("tools/install --remove", planned(**extra))
        demo = planned(("demo",), CARGO_TARGET_DIR=elsewhere)
        self.assertIn(f"{elsewhere}/demo/nw demo", demo)


class ClientSetup(CommandLine):
    def test_router_at_unusual_socket_logs_client_setting(self):
        router = self.router()
        self.assertIn(
            f"other programs find this router with: export NDN_CLIENT_TRANSPORT=unix://{router.socket}",
            router.log_text(),
        )

    def test_second_router_with_own_port_and_socket_starts(self):
        first = self.router()
        second, port, home = (
            Path(self.folder) / "second.sock",
            free_port(),
            Path(self.folder) / "home",
        )
        (home / ".ndn").mkdir(parents=True)
        (home / ".ndn/client.conf").write_text("pib=pib-sqlite3\ntransport=unix:///other\n")
        args = [
            NW,
            "run",
            "-c",
            str(first.config),
            "--port",
            str(port),
            "--socket",
            str(second),
            "--write-client-conf",
        ]
        log = open(Path(self.folder) / "second.log", "w+")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            args, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)}
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.until(lambda: " running " in Path(log.name).read_text(), "the second runs")
        self.assertIn(
            f"127.0.0.1:{port}",
            self.nw("face", "channels", "--socket", f"unix://{second}").stdout.decode(),
        )
        self.assertTrue(Path(self.folder, "second.control.sock").exists())
        self.assertEqual(
            (home / ".ndn/client.conf").read_text(), f"pib=pib-sqlite3\ntransport=unix://{second}\n"
        )

    def test_reload_names_options_that_need_a_restart(self):
        router = self.router()
        router.write("[tables]\nlock = true\n[forwarder]\npin = false\n")
        router.process.send_signal(signal.SIGHUP)
        self.until(
            lambda: "only after a restart: tables.lock, forwarder.pin" in router.log_text(),
            "the options are named",
        )


if __name__ == "__main__":
    unittest.main()
