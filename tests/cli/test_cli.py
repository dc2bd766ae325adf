"""nw run, and the commands that need no router: signals, threads, configuration errors,
completions, doctor, dissect."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from command_line import NW, TIMEOUT_S, CommandLine, Router, free_port


class RunningRouter(CommandLine):
    def test_sighup_reloads_and_sigterm_ends(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        router.write(f'[[route]]\nprefix = "/hup"\nface = "{peer}"\n')
        router.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if b"/hup" in self.nw("route", "list", router=router).stdout:
                break
            time.sleep(0.02)
        else:
            self.fail("SIGHUP did not add the route")
        router.write("[[route]]\nprefix = 7\n")
        router.process.send_signal(signal.SIGHUP)
        for _ in range(100):
            if "stays as it was" in router.log_text():
                break
            time.sleep(0.02)
        else:
            self.fail("a wrong file was not reported")
        self.assertIn(b"/hup", self.nw("route", "list", router=router).stdout)
        self.assertEqual(router.end(signal.SIGTERM), 0)

    def test_several_threads_share_load_and_report_by_shard(self):
        router = self.router(extra="[forwarder]\nshards = 2\n")
        content = os.urandom(500_000)
        self.put(router, "/threads", content)
        target = Path(self.folder) / "got"
        self.nw("cat", "/threads", "-o", target, router=router)
        self.assertEqual(target.read_bytes(), content)
        status = json.loads(self.nw("status", "--json", router=router).stdout)
        shards = status["shards"]
        self.assertEqual([shard["shard"] for shard in shards], [0, 1])
        # Each segment is an Interest and a Data of the thread that its name is assigned to.
        self.assertTrue(all(shard["packets"] > 30 for shard in shards), shards)
        self.assertGreater(shards[0]["handed_over"], 30)
        self.assertEqual(
            status["content_store"]["entries"], sum(shard["cs_entries"] for shard in shards)
        )
        self.assertIn("2; the busiest has", self.nw("status", router=router).stdout.decode())
        table = self.nw("status", "--shards", router=router).stdout.decode().splitlines()
        self.assertEqual((len(table), table[0].split()[0]), (3, "shard"))
        for wrong in ("0", "65", "many"):
            self.assertIn("--shards", self.nw("run", "--shards", wrong, code=2).stderr.decode())
        hardware = self.nw("status", "--hardware").stdout.decode()
        self.assertIn("processors", hardware)
        self.assertIn("placement rule: ", hardware)
        # A file without thread options changes nothing when it is reloaded.
        router.process.send_signal(signal.SIGHUP)
        self.until(lambda: "configuration applied" in router.log_text(), "the file is read again")
        self.assertNotIn("after a restart", router.log_text())
        self.assertEqual(router.end(signal.SIGTERM), 0)

    def test_route_memory_of_nine_threads_is_that_of_three(self):
        def grown_kib(threads):
            def anonymous_kib(routes):
                router = self.router(
                    f"t{threads}",
                    f"[forwarder]\nshards = {threads}\n"
                    + "".join(
                        f'[[route]]\nprefix = "/some/longer/name/{at}"\nface = "udp4://127.0.0.1:{free}"\n'
                        for at in range(routes)
                    ),
                )
                status = Path(f"/proc/{router.process.pid}/status").read_text()
                self.assertEqual(router.end(), 0)
                return next(
                    int(line.split()[1])
                    for line in status.splitlines()
                    if line.startswith("RssAnon")
                )

            free = free_port()
            return anonymous_kib(20_000) - anonymous_kib(1)

        # The FIB of the first thread and two copies for all others; a copy for each thread would
        # add some 14 MiB.
        self.assertLess(grown_kib(9), 1.25 * grown_kib(3))

    @unittest.skipUnless(
        os.geteuid() == 0 and shutil.which("setpriv"), "only root can give up rights with setpriv"
    )
    def test_threads_without_cap_bpf_run_and_log_once(self):
        config = Path(self.folder) / "plain.toml"
        socket_path = Path(self.folder) / "plain.sock"
        config.write_text(
            f'[faces.unix]\npath = "{socket_path}"\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = ["127.0.0.1:{free_port()}"]\n'
        )
        args = [
            "setpriv",
            "--bounding-set=-bpf,-sys_admin,-perfmon",
            "--inh-caps=-bpf,-sys_admin,-perfmon",
            NW,
            "run",
            "-c",
            str(config),
            "--shards",
            "2",
        ]
        process = subprocess.Popen(
            args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def is_listening():
            with socket.socket(socket.AF_UNIX) as s:
                return s.connect_ex(str(socket_path)) == 0

        self.until(is_listening, "the router listens")
        environment = {**os.environ, "NDN_CLIENT_TRANSPORT": f"unix://{socket_path}"}
        completed = subprocess.run(
            [NW, "status", "--json"], capture_output=True, env=environment, timeout=TIMEOUT_S
        )
        self.assertEqual(len(json.loads(completed.stdout)["shards"]), 2)
        process.send_signal(signal.SIGTERM)
        output = process.stdout.read().decode()
        lost = [
            line
            for line in output.splitlines()
            if "packets are not brought to their shards in the kernel" in line
        ]
        self.assertEqual(len(lost), 1, output)
        self.assertIn("setcap cap_bpf", lost[0])

    def test_tables_lock_locks_memory_or_names_the_limit(self):
        tables = "pit_entries = 1024\nfib_prefixes = 1024\nroutes = 1024\ndead_nonces = 1024\n"
        extra = f"[content_store]\nmib = 1\n[tables]\nlock = true\n{tables}"
        try:
            router = self.router("locked", extra)
        except RuntimeError as refused:
            # Without the privilege the error names the limit to raise.
            self.assertIn("LimitMEMLOCK", str(refused))
            return
        status = Path(f"/proc/{router.process.pid}/status").read_text()
        locked_kib = next(
            int(line.split()[1]) for line in status.splitlines() if line.startswith("VmLck")
        )
        self.assertGreater(locked_kib, 4096)

    def test_router_killed_starts_again(self):
        first = Router(self.folder)
        self.assertEqual(first.end(signal.SIGKILL), -signal.SIGKILL)
        self.assertTrue(first.socket.exists(), "kill -9 leaves the socket's file")
        self.router()

    def test_run_with_taken_socket_or_port_is_refused(self):
        router = self.router()
        text = self.sentence(self.nw("run", "-c", router.config, code=1))
        self.assertIn("in use", text)
        other_config = Path(self.folder) / "other.toml"
        for section, port in (("udp", router.udp), ("tcp", router.tcp)):
            off = "tcp" if section == "udp" else "udp"
            other_config.write_text(
                f'[faces.unix]\nenabled = false\n[faces.{off}]\nlisten = []\n[faces.{section}]\nlisten = ["127.0.0.1:{port}"]\n'
            )
            text = self.sentence(self.nw("run", "-c", other_config, code=1))
            self.assertIn(str(port), text)
            self.assertIn("another", text)
        file = Path(self.folder) / "file"
        file.write_text("")
        other_config.write_text(f'[faces.unix]\npath = "{file}"\n')
        self.assertIn("not a socket", self.sentence(self.nw("run", "-c", other_config, code=1)))
        self.assertTrue(file.exists(), "a file other than a socket is not removed")

    def test_configuration_errors_are_all_listed_with_file_and_line(self):
        config = Path(self.folder) / "wrong.toml"
        config.write_text(
            '[faces.udp]\nlisten = ["nonsense"]\n[tables]\npit_entries = "many"\nno_such = 1\n'
        )
        text = self.nw("run", "--check", "-c", config, code=1).stderr.decode()
        for line in (2, 4, 5):
            self.assertRegex(text, re.escape(str(config)) + rf":{line}\b")
        self.assertIn("many", text)
        self.nw("run", "-c", Path(self.folder) / "none.toml", code=1)
        reference = Path(self.folder) / "reference.toml"
        reference.write_bytes(self.nw("config").stdout)
        self.nw("run", "--check", "-c", reference)

    def test_status_without_router_advises_nw_run(self):
        self.assertIn("nw run", self.sentence(self.nw("status", code=4)))

    def test_wrong_arguments_end_with_status_2(self):
        for args in (
            ["no-such"],
            ["cat"],
            ["cat", "no-slash"],
            ["put", "--segment", "9000", "/a"],
            ["route", "add", "/a"],
        ):
            completed = self.nw(*args, code=2)
            self.assertIn(b"error:", completed.stderr, args)
        self.assertIn(b"starts with /", self.nw("cat", "no-slash", code=2).stderr)


class LocalCommands(CommandLine):
    def test_completions_and_man_pages_cover_commands(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertIn(b"ping-server", self.nw("completions", shell).stdout)
        pages = Path(self.folder) / "man"
        self.nw("man", pages)
        self.assertIn("nw-route-add.1", os.listdir(pages))

    def test_bash_completion_offers_faces_prefixes_and_files(self):
        router = self.router()
        face = json.loads(
            self.nw(
                "face", "create", f"udp4://127.0.0.1:{free_port()}", "--json", router=router
            ).stdout
        )["face_id"]
        self.nw("route", "add", "/film", face, router=router)
        (Path(self.folder) / "net.graph").write_text("")
        script = Path(self.folder) / "nw.bash"
        script.write_bytes(self.nw("completions", "bash").stdout)

        def offered(*args):
            """Returns the completions that bash offers for the last word."""
            program = f"""source {script}; COMP_WORDS=({" ".join(repr(str(word)) for word in (NW, *args))}); COMP_CWORD={len(args)}
                _nw_values {NW} "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"; printf '%s\\n' "${{COMPREPLY[@]}}"; complete -p nw"""
            completed = subprocess.run(
                ["bash", "-c", program],
                env=router.environment(),
                cwd=self.folder,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
            return completed.stdout.decode().splitlines()

        self.assertIn(str(face), offered("face", "show", ""))
        self.assertIn("/film", offered("route", "remove", "/f"))
        self.assertIn("/film", offered("trace", ""))
        self.assertIn("show", offered("face", "s"))
        self.assertIn("--json", offered("face", "list", "--"))
        files = offered("graph", "check", "")
        self.assertEqual(
            len([line for line in files if line.strip()]),
            1,
            f"no values before the shell's own file names: {files}",
        )
        self.assertIn("-o default", files[-1])

    def test_doctor_names_fault_and_remedy(self):
        checks = lambda completed: {
            check["check"]: check for check in map(json.loads, completed.stdout.splitlines())
        }
        alone = checks(self.nw("doctor", "--json", code=1))
        self.assertEqual(
            (alone["socket"]["result"], alone["socket"]["remedy"]), ("fail", "nw run &")
        )
        router = self.router()
        well = checks(self.nw("doctor", "--json", "-c", router.config, router=router))
        for check in ("transport", "socket", "router", "clock", "control", "pools", "config"):
            self.assertEqual(well[check]["result"], "ok", well[check])
        self.assertEqual(well["routes"]["result"], "warn", "no route leads to another router")
        text = self.nw("doctor", "-c", router.config, router=router).stdout.decode()
        self.assertIn("→ nw route add", text)
        # A leftover socket, a file with mistakes, a port used by another program.
        left = Path(self.folder) / "left.sock"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(left))
        bad = Path(self.folder) / "bad.toml"
        bad.write_text("[forwarder]\nnothing = 1\n")
        wrong = checks(self.nw("doctor", "--json", "--socket", f"unix://{left}", "-c", bad, code=1))
        self.assertIn("left over", wrong["socket"]["found"])
        self.assertEqual(
            (wrong["config"]["result"], wrong["config"]["remedy"]),
            ("fail", f"nw config --check {bad}"),
        )
        taken = checks(
            self.nw("doctor", "--json", "--socket", f"unix://{left}", "-c", router.config, code=1)
        )
        self.assertIn("is in use by another program", taken["ports"]["found"])

    def test_dissect_prints_packet_and_refuses_noise(self):
        packet = bytes.fromhex("0508 0703 080161 0a01 00".replace(" ", ""))
        completed = self.nw("dissect", stdin=packet, code=1)
        self.assertIn(b"Interest", completed.stdout)
        good = bytes.fromhex("050b0703080161 0a0401020304".replace(" ", ""))
        text = self.nw("dissect", "--hex", stdin=good.hex().encode()).stdout
        self.assertIn(b"/a", text)
        for line in self.nw("dissect", "--json", stdin=good).stdout.splitlines():
            json.loads(line)
        self.nw("dissect", stdin=os.urandom(1000), code=1)


if __name__ == "__main__":
    unittest.main()
