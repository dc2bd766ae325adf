"""Commands that control a router: faces, routes, strategies, the content store; their output and
exit status."""

import json
import os
import signal
import socket
import time
import unittest

from command_line import TIMEOUT_S, CommandLine, free_port


class Control(CommandLine):
    def test_query_commands_with_json_print_json_lines(self):
        router = self.router()
        for args in (
            ["status"],
            ["status", "--shards"],
            ["status", "--hardware"],
            ["log", "show"],
            ["sim", "measures"],
            ["sim", "topology"],
            ["strategy", "show", "/"],
            ["doctor", "-c", router.config],
            ["face", "list"],
            ["face", "channels"],
            ["route", "list", "--fib"],
            ["strategy", "list"],
            ["cs", "info"],
        ):
            completed = self.nw(*args, "--json", router=router)
            for line in completed.stdout.splitlines():
                json.loads(line)
            self.assertTrue(completed.stdout, args)
            self.assertTrue(self.nw(*args, router=router).stdout, args)

    def test_faces_routes_strategies_are_created_listed_removed(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        face = json.loads(self.nw("face", "create", peer, "--json", router=router).stdout)[
            "face_id"
        ]
        self.assertIn(b"there already", self.nw("face", "create", peer, router=router).stdout)
        self.nw("face", "update", face, "--mtu", 1400, router=router)
        shown = json.loads(self.nw("face", "show", face, "--json", router=router).stdout)
        self.assertEqual((shown["uri"], shown["mtu"]), (peer, 1400))
        self.nw("route", "add", "/r", peer, "--cost", 7, "--expires", 60000, router=router)
        route = json.loads(self.nw("route", "list", "--json", router=router).stdout)
        self.assertEqual((route["name"], route["routes"][0]["cost"]), ("/r", 7))
        self.nw("route", "remove", "/r", peer, router=router)
        self.assertEqual(self.nw("route", "list", "--json", router=router).stdout, b"")
        self.nw("route", "add", "/r", face, router=router)
        self.nw("face", "destroy", face, router=router)
        self.assertEqual(
            self.nw("route", "list", "--json", router=router).stdout,
            b"",
            "routes vanish with their face",
        )
        self.nw("strategy", "set", "/s", "multicast", router=router)
        self.assertIn(b"/s ", self.nw("strategy", "list", router=router).stdout)
        for strategy in (
            "best-route multicast asf self-learning random access weighted hash round-robin fail-over "
            "asf/v=5/probing-interval~30000/max-timeouts~5 weighted/v=1/weights~3-1"
        ).split():
            self.assertIn(
                strategy.encode(), self.nw("strategy", "set", "/s", strategy, router=router).stdout
            )
            self.assertIn(
                strategy.split("/")[0].encode(), self.nw("strategy", "set", "--help").stdout
            )
        self.assertIn(
            "weights~5-3-1",
            self.sentence(
                self.nw("strategy", "set", "/s", "weighted/v=1/weights~x", router=router, code=6)
            ),
        )
        self.nw("strategy", "unset", "/s", router=router)
        self.assertIn(
            "404", self.sentence(self.nw("strategy", "set", "/s", "no-such", router=router, code=3))
        )
        self.assertIn(
            "refused",
            self.sentence(self.nw("face", "create", "tcp4://127.0.0.1:1", router=router, code=6)),
        )

    def test_face_create_existing_applies_options(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        show = lambda face: json.loads(
            self.nw("face", "show", face, "--json", router=router).stdout
        )
        # The route creates the face first, as scripts written for NFD do.
        self.nw("route", "add", "/t", peer, router=router)
        output = self.nw(
            "face",
            "create",
            peer,
            "--persistency",
            "permanent",
            "--mtu",
            1400,
            "--reliability",
            "true",
            router=router,
        ).stdout
        for text in (
            b"was there already",
            b"persistent \xe2\x86\x92 permanent",
            b"\xe2\x86\x92 1400",
            b"reliability off \xe2\x86\x92 on",
        ):
            self.assertIn(text, output)
        face = show(peer)
        self.assertEqual((face["persistency"], face["mtu"]), ("permanent", 1400))
        self.assertIn("reliability", face["flags"])
        unchanged = json.loads(
            self.nw(
                "face", "create", peer, "--persistency", "persistent", "--json", router=router
            ).stdout
        )
        self.assertEqual(
            (unchanged["changed"], unchanged["persistency"]),
            ([], "permanent"),
            "persistency only rises",
        )
        marking = json.loads(
            self.nw(
                "face", "create", peer, "--congestion-marking", "false", "--json", router=router
            ).stdout
        )
        self.assertEqual(marking["changed"], ["congestion-marking"])
        self.assertIn(
            "mtu",
            self.sentence(
                self.nw("face", "create", peer, "--mtu", 10, router=router, code=6)
            ).lower(),
        )

    def test_missing_object_ends_with_one_sentence_and_status_3(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        face = json.loads(self.nw("face", "create", peer, "--json", router=router).stdout)[
            "face_id"
        ]
        for args in (
            ("face", "show", 999999),
            ("face", "show", 999999, "--json"),
            ("face", "destroy", 999999),
            ("face", "update", 999999, "--mtu", 1400),
            ("face", "show", "udp4://192.0.2.9"),
            ("face", "destroy", "udp4://192.0.2.9"),
            ("face", "list", "--remote", "udp4://192.0.2.9"),
            ("face", "list", "--scheme", "ether"),
            ("route", "remove", "/no", face),
            ("route", "remove", "/no", "udp4://192.0.2.9"),
            ("route", "add", "/no", 999999),
            ("route", "list", "--nexthop", face),
            ("route", "list", "--origin", "nlsr"),
            ("route", "show", "/no"),
            ("strategy", "unset", "/no"),
            ("strategy", "set", "/no", "no-such"),
            ("tap", "-f", 999999),
            ("key", "delete", "/no/such", "--store", self.folder),
            ("cert", "show", "/no/such", "--store", self.folder),
        ):
            with self.subTest(args):
                self.assertEqual(self.nw(*args, router=router, code=3).stdout, b"")
                self.sentence(self.nw(*args, router=router, code=3))
        self.assertIn("empty", self.sentence(self.nw("dissect", code=1)))

    def test_exit_status_differs_by_failure(self):
        router = self.router()
        self.nw("face", "list", code=4)
        self.nw("top", "--once", code=4)
        self.nw("peek", "/no/route", router=router, code=7)
        self.nw("cat", "/no/route", "--retries", 0, "--lifetime", 300, router=router, code=7)
        self.nw("ping", "-c", 1, "/no/route", router=router, code=7)
        quiet = f"udp4://127.0.0.1:{free_port()}"
        self.nw("route", "add", "/quiet", quiet, router=router)
        self.nw("peek", "/quiet", "--lifetime", 200, router=router, code=5)
        self.nw("ping", "-c", 1, "/quiet", "--timeout", 200, router=router, code=5)
        self.assertIn(
            "own machine",
            self.sentence(
                self.nw(
                    "status", "--socket", f"udp4://127.0.0.1:{router.udp}", router=router, code=5
                )
            ),
        )
        self.nw("face", "nothing", router=router, code=2)
        self.assertIn(b"EXIT STATUS", self.nw("man").stdout)

    def test_faces_and_routes_filtered_by_uri_and_origin(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        self.nw("route", "add", "/a", peer, "--origin", "nlsr", router=router)
        self.nw("route", "add", "/b", f"udp4://127.0.0.1:{free_port()}", router=router)
        routes = lambda *args: [
            json.loads(line)["name"]
            for line in self.nw("route", "list", "--json", *args, router=router).stdout.splitlines()
        ]
        self.assertEqual(routes("--nexthop", peer), ["/a"])
        self.assertEqual(routes("--origin", "static"), ["/b"])
        self.assertIn(b"nlsr", self.nw("route", "show", "/a/b/c", router=router).stdout)
        self.assertIn(b"chosen for /", self.nw("strategy", "show", "/a/b", router=router).stdout)
        shown = self.nw("face", "show", peer, router=router).stdout.decode()
        for text in (
            "local fields",
            "reliability",
            "congestion marking",
            "on above",
            "scope",
            "non-local",
            "link type",
            "point-to-point",
            "expires",
            "never",
        ):
            self.assertIn(text, shown)
        self.assertIn(
            b"congestion-marking", self.nw("face", "list", "--remote", peer, router=router).stdout
        )
        self.nw("face", "destroy", peer, router=router)
        self.nw("face", "show", peer, router=router, code=3)

    def test_control_characters_of_peers_are_escaped(self):
        router = self.router()
        path = f"{self.folder}/e\x1b[31m\nx"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            self.nw("face", "create", f"unix://{path}", router=router)
            for args in (
                ("face", "list"),
                ("face", "show", f"unix://{path}"),
                ("top", "--once"),
                ("status",),
                ("route", "list"),
            ):
                shown = self.nw(*args, router=router).stdout
                self.assertNotIn(b"\x1b", shown)
            shown, rows = (
                self.nw("face", "list", router=router).stdout,
                self.nw("face", "list", "--json", router=router).stdout,
            )
            self.assertEqual(len(shown.splitlines()), 1 + len(rows.splitlines()))

    def test_cache_hits_are_not_counted_as_drops(self):
        router = self.router()
        self.put(router, "/t/file", b"x" * 5000)
        for _ in range(2):
            self.nw("cat", "/t/file", router=router)
        drops = [
            json.loads(line)
            for line in self.nw("status", "--drops", "--json", router=router).stdout.splitlines()
        ]
        hits = [drop for drop in drops if drop["reason"] == "cache_hit"]
        self.assertEqual([(drop["is_loss"], drop["count"] > 0) for drop in hits], [(False, True)])
        text = self.nw("status", "--drops", router=router).stdout.decode()
        self.assertGreater(text.index("cache_hit"), text.index("\ndone"))
        top = json.loads(
            self.nw("top", "--once", "--json", "--interval", 200, router=router).stdout
        )
        self.assertNotIn("cache_hit", [drop["reason"] for drop in top["drops"]])

    def test_reliability_is_switched_and_permanent_face_reconnects(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        created = json.loads(
            self.nw(
                "face",
                "create",
                peer,
                "--reliability",
                "true",
                "--mtu",
                1400,
                "--json",
                router=router,
            ).stdout
        )
        self.assertIn("reliability", created["flags"])
        self.assertEqual(created["mtu"], 1400)
        face = created["face_id"]
        updated = json.loads(
            self.nw(
                "face", "update", face, "--reliability", "false", "--json", router=router
            ).stdout
        )
        self.assertNotIn("reliability", updated["flags"])
        self.assertNotIn(
            "reliability",
            json.loads(self.nw("face", "show", face, "--json", router=router).stdout)["flags"],
        )

        events = self.start(router, "face", "events", "--json")
        port = free_port(socket.SOCK_STREAM)

        def listener():
            s = socket.socket()
            self.addCleanup(s.close)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            s.listen()
            return s

        def next_event(kind):
            while True:
                event = json.loads(events.stdout.readline())
                if event["uri"] == uri and event["kind"] == kind:
                    return event["face_id"]

        uri, first_listener = f"tcp4://127.0.0.1:{port}", listener()
        time.sleep(0.5)  # until the command subscribes to events
        face = json.loads(
            self.nw(
                "face", "create", uri, "--persistency", "permanent", "--json", router=router
            ).stdout
        )["face_id"]
        self.nw("route", "add", "/back", face, router=router)
        peer, _ = first_listener.accept()
        first_listener.close()
        peer.close()
        self.assertEqual(next_event("down"), face)
        second_listener = listener()
        self.assertEqual(next_event("up"), face)
        second_listener.accept()[0].close()
        routes = [
            json.loads(line)
            for line in self.nw("route", "list", "--json", router=router).stdout.splitlines()
        ]
        self.assertEqual(
            [(r["name"], r["routes"][0]["face_id"]) for r in routes], [("/back", face)]
        )

    def test_routes_exported_as_text_are_imported_again(self):
        router = self.router()
        peer = f"udp4://127.0.0.1:{free_port()}"
        text = "# routes\n" + "".join(f"/in/{n} {peer} {n % 9}\n" for n in range(3000))
        text += f"/in/more {peer} 4 origin=nlsr expires=600000 no-inherit capture\n"
        completed = json.loads(
            self.nw("route", "import", "-", "--json", router=router, stdin=text.encode()).stdout
        )
        self.assertEqual(completed["routes"], 3001)
        lines = self.nw("route", "export", router=router).stdout.decode().splitlines()
        self.assertEqual(len(lines), 3001)
        self.assertIn(f"/in/17 {peer} 8", lines)
        extra = next(line for line in lines if line.startswith("/in/more"))
        self.assertTrue(
            extra.startswith(f"/in/more {peer} 4 origin=nlsr expires=")
            and extra.endswith(" no-inherit capture"),
            extra,
        )
        self.assertEqual(
            len(self.nw("route", "export", "--origin", "nlsr", router=router).stdout.splitlines()),
            1,
        )
        # Routes exported by one router are imported by another.
        importer = self.router("other")
        self.nw("route", "import", "-", router=importer, stdin="\n".join(lines).encode())
        exported = (
            self.nw("route", "export", "--origin", "static", router=importer)
            .stdout.decode()
            .splitlines()
        )
        self.assertEqual(exported, [line for line in lines if "nlsr" not in line])
        for wrong, output in (
            ("/a", "line 1"),
            (f"/a {peer} x", "line 1"),
            ("/a 99999", "line 1"),
            ("/a 300 1 color=red", "color"),
        ):
            self.assertIn(
                output,
                self.sentence(
                    self.nw("route", "import", "-", router=router, code=1, stdin=wrong.encode())
                ),
            )

    def test_prefixes_propagated_to_gateway_are_withdrawn(self):
        far = self.router("far", '[management]\ndigest = "anywhere"\nlocalhop = "anywhere"\n')
        hub = f"udp4://127.0.0.1:{far.udp}"
        near = self.router(
            "near",
            f'[rib]\npropagate = ["/site"]\n[[route]]\nprefix = "/localhop/nfd"\nface = "{hub}"\n',
        )
        content = os.urandom(20_000)
        process, _ = self.put(near, "/site/file", content)

        def told():
            lines = (
                self.nw("route", "export", "--origin", "client", router=far)
                .stdout.decode()
                .splitlines()
            )
            return [line.split()[0] for line in lines]

        def until(expected):
            deadline = time.monotonic() + TIMEOUT_S
            while told() != expected and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(told(), expected)

        until(["/site"])
        self.assertEqual(self.nw("cat", "-q", "/site/file", router=far).stdout, content)
        process.send_signal(signal.SIGINT)
        process.wait(TIMEOUT_S)
        until([])

    def test_cs_erase_prefix_removes_its_entries(self):
        router = self.router()
        self.put(router, "/c/file", os.urandom(100_000))
        self.nw("cat", "-q", "/c/file", router=router)
        self.assertGreater(
            json.loads(self.nw("cs", "info", "--json", router=router).stdout)["entries"], 10
        )
        erased = json.loads(self.nw("cs", "erase", "/c", "--json", router=router).stdout)["count"]
        self.assertGreater(erased, 10)
        self.assertEqual(
            json.loads(self.nw("cs", "erase", "/c", "--json", router=router).stdout)["count"], 0
        )

    def test_ping_server_answers_all(self):
        router = self.router()
        server = self.start(router, "ping-server", "/p")
        self.assertIn(b"answering", server.stderr.readline())
        lines = self.nw(
            "ping", "/p", "-c", 3, "-i", 10, "--json", router=router
        ).stdout.splitlines()
        self.assertEqual(json.loads(lines[-1])["answered"], 3)
        self.nw("ping", "/none", "-c", 1, router=router, code=7)


if __name__ == "__main__":
    unittest.main()
