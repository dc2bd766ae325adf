"""Who may do what with a network: users of the Unix socket by their credentials, users of others by
tokens over TLS; and the audit of every change, also of refused ones."""

import http.client
import json
import os
import pwd
import socket
import ssl
import time
import unittest

from network import SCALED, TIMEOUT_S, NetworkTest

ROLES = ("viewer", "operator", "admin")
# The lowest role that may use each operation of the OpenAPI document. An operation that is missing
# here fails the test, so that none is added without a decision.
NEEDED = {
    "viewer": """
        show_network make_plan show_plan show_history show_version show_audit show_graph
        list_countermeasures draw_draft stream_events show_instance show_logs list_scales
        show_scale list_routes list_keys
        show_metrics health
    """,
    "operator": """
        set_network hold resume undo tap_instance set_positions set_scale set_veto
        remove_countermeasures add_route remove_route
    """,
    "admin": """
        stop_network create_page_ticket add_key remove_key add_key_rule remove_key_rule
        list_tokens add_token remove_token
    """,
}
LOWEST = {operation: role for role, text in NEEDED.items() for operation in text.split()}


class Access(NetworkTest):
    def setUp(self):
        super().setUp()
        self.producer()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def up_with_tls(self, extra=SCALED):
        return self.up(self.file(extra=extra), "--tls", f"127.0.0.1:{self.port}")

    def token(self, name, role, *options):
        text = self.nw("token", "add", name, "--role", role, *options).stdout.strip()
        path = self.folder / f"{name}.token"
        path.write_text(text)
        return text, path

    def https(self, method, path, token=None, body=None, headers=None):
        """Returns the status and the start of the response's body, as curl --cacert would."""
        context = ssl.create_default_context(cafile=self.home / "agents/authority.pem")
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=TIMEOUT_S, context=context
        )
        headers = dict(headers or {})
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        text = response.read(200).decode()
        connection.close()
        return response.status, text

    def audit(self):
        lines = self.nw("audit", "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def test_every_operation_is_open_to_its_roles_only(self):
        self.up_with_tls()
        status, document = self.rest("GET", "/openapi.json")
        self.assertEqual(status, 200)
        tokens = {role: self.token(role, role)[0] for role in ROLES}
        operations = [
            (operation["operationId"], method.upper(), path)
            for path, item in document["paths"].items()
            for method, operation in item.items()
        ]
        self.assertEqual(sorted(name for name, _, _ in operations), sorted(LOWEST))
        for name, method, path in operations:
            # Paths and bodies that name nothing: what is tried is the right, not the command.
            path = path.replace("{", "none-").replace("}", "")
            body = "[]" if method in ("PUT", "POST") else None
            if name in ("hold", "resume", "create_page_ticket"):
                body = None
            for role in ROLES:
                with self.subTest(operation=name, role=role):
                    status, text = self.https(method, path, tokens[role], body)
                    if ROLES.index(role) < ROLES.index(LOWEST[name]):
                        self.assertEqual(status, 403, text)
                        self.assertIn(f"is for {LOWEST[name]}", text)
                    else:
                        self.assertNotIn(status, (401, 403), text)
            with self.subTest(operation=name, role="none"):
                self.assertEqual(self.https(method, path, None, body)[0], 401)
                self.assertEqual(self.https(method, path, "nw1-wrong.token", body)[0] // 100, 4)
        # Nothing of that was carried out, but hold and resume.
        self.assertEqual(self.graph()["version"], 1)
        refused = [entry for entry in self.audit() if entry["result"].startswith("refused")]
        authors = {entry["author"] for entry in refused}
        expected = {"token viewer", "token operator", "token admin", "without a valid token"}
        self.assertLessEqual(expected, authors)

    def test_audit_names_authors_of_changes_and_of_refused_ones(self):
        self.up_with_tls()
        user = f"{pwd.getpwuid(os.getuid()).pw_name} (uid {os.getuid()})"
        _, operator = self.token("ci", "operator")
        _, viewer = self.token("guest", "viewer")
        there = ("--manager", f"127.0.0.1:{self.port}", "--token-file")
        self.nw("scale", "br", "2", *there, operator)
        refused = self.nw("scale", "br", "3", *there, viewer, code=6).stderr
        self.assertIn("token guest is viewer, and PUT /v1/scale/br is for operator", refused)
        self.nw("scale", "br", "9", code=6)
        self.assertIn("br~2", self.nw("show", *there, viewer).stdout)
        self.nw("scale", "br", "auto")
        # A change of trust or hosts needs an admin.
        changed = self.file("trust.graph", extra=f'{SCALED}\ntrust {{ allow "/a" by "/b" }}')
        refused = self.nw("apply", changed, *there, operator, code=6).stderr
        self.assertIn("which is for admin", refused)
        self.nw("token", "remove", "ci")
        refused = self.nw("hold", *there, operator, code=6).stderr
        self.assertIn("wrong, expired or removed", refused)
        found = [(e["author"], e["action"], e["result"].split(":")[0]) for e in self.audit()]
        for entry in [
            (user, "token add ci as operator", "accepted"),
            ("token ci", "scale br 2", "accepted"),
            ("token guest", "PUT /v1/scale/br", "refused"),
            (user, "scale br 9", "refused"),
            (user, "scale br auto", "accepted"),
            ("token ci", "PUT /v1/network", "refused"),
            (user, "token remove ci", "accepted"),
            ("without a valid token", "POST /v1/hold", "refused"),
        ]:
            self.assertIn(entry, found)
        history = [json.loads(line) for line in self.nw("history", "--json").stdout.splitlines()]
        self.assertEqual([version["author"] for version in history], [user])

    def test_session_of_the_page_acts_for_the_user_who_opened_it_and_ends_with_the_token(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            page = f"127.0.0.1:{free.getsockname()[1]}"
        tls = ("--tls", f"127.0.0.1:{self.port}")
        self.up(self.file(extra=SCALED), *tls, "--page", page)

        def ask(method, path, body=None, headers=None):
            connection = http.client.HTTPConnection(page, timeout=TIMEOUT_S)
            content = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            text = response.read().decode()
            cookie = (response.headers["Set-Cookie"] or "").split(";")[0]
            connection.close()
            return response.status, text, cookie

        def session(ticket):
            secret = json.loads(ticket)["url"].split("#ticket=")[1]
            status, text, cookie = ask("POST", "/v1/session", {"ticket": secret})
            self.assertEqual(status, 201, text)
            return {"Cookie": cookie, "X-NW-CSRF": json.loads(text)["csrf"]}

        def status(session):
            return ask("GET", "/v1/network", headers=session)[:2]

        def ticket_by(token):
            return self.https("POST", "/v1/page/tickets", token)[1]

        def events(headers):
            connection = http.client.HTTPConnection(page, timeout=TIMEOUT_S)
            self.addCleanup(connection.close)
            connection.request("GET", "/v1/events", headers=headers)
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            return response

        def read_to_the_end(stream):
            deadline = time.monotonic() + TIMEOUT_S
            while stream.read1():
                self.assertLess(time.monotonic(), deadline, "the stream goes on")

        local = session(json.dumps(self.rest("POST", "/v1/page/tickets")[1]))
        removed, _ = self.token("removed", "admin")
        by_removed = session(ticket_by(removed))
        # A session that opens another one passes on what it rests on.
        again = session(ask("POST", "/v1/page/tickets", headers=by_removed)[1])
        _, short = self.rest("POST", "/v1/tokens", {"name": "short", "role": "admin", "valid_s": 3})
        by_short = session(ticket_by(short["token"]))
        for one in (local, by_removed, again):
            self.assertEqual(status(one)[0], 200)
        streams = [events(by_removed), events(local)]
        self.nw("token", "remove", "removed")
        read_to_the_end(streams[0])
        self.assertTrue(streams[1].read1(), "a stream of another session goes on")
        # Another token of the same name is another right.
        self.token("removed", "admin")
        for one in (by_removed, again):
            code, text = status(one)
            self.assertEqual(code, 401, text)
        self.until(lambda: "expired" in status(by_short)[1], "it ends when the token expires")
        self.assertEqual(status(by_short)[0], 401)
        self.assertEqual(status(local)[0], 200)
        code, text, _ = ask("PUT", "/v1/scale/br", {"instances": 2}, local)
        self.assertLess(code, 300, text)
        user = f"{pwd.getpwuid(os.getuid()).pw_name} (uid {os.getuid()})"
        found = [(entry["author"], entry["action"]) for entry in self.audit()]
        self.assertIn((f"{user}, by the page", "scale br 2"), found)

    def test_token_expires_and_foreign_managers_and_pages_are_refused(self):
        self.up_with_tls()
        status, text = self.rest(
            "POST", "/v1/tokens", {"name": "short", "role": "admin", "valid_s": 1}
        )
        self.assertEqual(status, 201, text)
        token = text["token"]
        self.assertEqual(self.https("GET", "/v1/network", token)[0], 200)
        page = {"Origin": f"https://127.0.0.1:{self.port}"}
        self.assertEqual(self.https("GET", "/v1/network", token, headers=page)[0], 403)
        self.until(lambda: self.https("GET", "/v1/network", token)[0] == 401, "it expires")
        # The token of another network names another authority: its secret is not sent here.
        foreign = self.folder / "foreign.token"
        foreign.write_text(token[:30] + "AAAA" + token[34:])
        there = ("--manager", f"127.0.0.1:{self.port}", "--token-file", foreign)
        refused = self.nw("show", *there, code=1).stderr
        self.assertIn("not the manager that made the token", refused)
        foreign.write_text("hello")
        self.assertIn("copy the whole line", self.nw("show", *there, code=4).stderr)
        # Plain HTTP at that port gets nothing.
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as plain:
            plain.sendall(b"GET /v1/network HTTP/1.0\r\n\r\n")
            self.assertNotIn(b"HTTP/1", plain.recv(100))

    def test_other_user_of_an_opened_socket_may_only_look(self):
        if os.getuid() != 0:
            self.skipTest("needs root, to become another user")
        self.up_with_tls()
        for path in (self.folder, self.state, *self.control.parents):
            if self.folder in path.parents or path == self.folder:
                path.chmod(0o711)
        self.control.chmod(0o666)
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            looked = self.rest("GET", "/v1/graph")[0]
            held = self.rest("POST", "/v1/hold")[0]
            os._exit(0 if (looked, held) == (200, 403) else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        entry = self.audit()[0]
        self.assertIn("(uid 65534)", entry["author"])
        self.assertEqual(entry["action"], "POST /v1/hold")


if __name__ == "__main__":
    unittest.main()
