//! A router and its control server over real sockets: valid requests, malformed ones, and slow
//! clients.

use nw_api::config::{Config, Control, Mode, Udp};
use nw_api::rest::LogLine;
use nw_rest_api::{LogSwitch, Programs, Server, serve};
use nw_router::{Handle, Host};
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

struct Logs(Mutex<String>);

impl LogSwitch for Logs {
    fn lines(&self, _: u64) -> Vec<LogLine> {
        Vec::new()
    }
    fn filter(&self) -> String {
        self.0.lock().unwrap().clone()
    }
    fn set(&self, filter: &str) -> Result<(), String> {
        if filter == "loud" {
            return Err("no such level".into());
        }
        *self.0.lock().unwrap() = filter.to_owned();
        Ok(())
    }
}

struct TestServer {
    path: PathBuf,
    tcp: Option<SocketAddr>,
    handle: Handle,
    router: Option<JoinHandle<()>>,
    server: Option<Server>,
    _folder: tempfile::TempDir,
}

impl TestServer {
    fn start(control: Control) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config { control, ..Config::default() };
        config.unix.path = Some(folder.path().join("nfd.sock"));
        config.tcp.listen.clear();
        config.udp = Udp { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Udp::default() };
        let mut host = Host::new(config.clone()).unwrap();
        let handle = host.handle();
        let path = config.control_path(&nw_router::unix_path(&config)).unwrap();
        let logs = Arc::new(Logs(Mutex::new("info".into())));
        let server = serve(
            &config.control,
            Some(&path),
            None,
            handle.clone(),
            Programs { logs, pubsub: None },
            &config.page,
        )
        .unwrap();
        let tcp = server.addresses().iter().find_map(|address| address.parse().ok());
        let router = std::thread::spawn(move || host.run().unwrap());
        TestServer {
            path,
            tcp,
            handle,
            router: Some(router),
            server: Some(server),
            _folder: folder,
        }
    }

    fn unix() -> Self {
        TestServer::start(Control::default())
    }

    fn raw(&self, request: &str) -> (u16, String) {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The server may close the connection before everything is written.
        let _ = stream.write_all(request.as_bytes());
        read_response(&mut stream)
    }

    fn request(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let (code, text) = self.raw(&format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.handle.stop();
        self.router.take().unwrap().join().unwrap();
        drop(self.server.take());
        assert!(!self.path.exists(), "the socket file is removed with the server");
    }
}

fn read_response(stream: &mut impl Read) -> (u16, String) {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    // A capture is not text, but its head is.
    let text = String::from_utf8_lossy(&bytes);
    let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

#[test]
fn rest_face_route_and_status_operations_return_their_result() {
    let router = TestServer::unix();
    let mode = std::fs::metadata(&router.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the owner may send commands");

    let (code, version) = router.request("GET", "/v1/version", None);
    assert_eq!((code, &version["api"]), (200, &json!(2)));

    let peer = "udp4://127.0.0.1:9";
    let (code, created) =
        router.request("POST", "/v1/faces", Some(json!({ "uri": peer, "mtu": 1400 })));
    assert_eq!(code, 201, "{created}");
    let id = created["face_id"].as_u64().unwrap();
    let (code, again) = router.request("POST", "/v1/faces", Some(json!({ "uri": peer })));
    assert_eq!((code, &again["code"]), (409, &json!(409)));
    let (code, face) = router.request("GET", &format!("/v1/faces/{id}"), None);
    assert_eq!((code, &face["uri"], &face["mtu"]), (200, &json!(peer), &json!(1400)));
    let (_, faces) = router.request("GET", "/v1/faces", None);
    assert!(faces.as_array().unwrap().iter().any(|face| face["face_id"] == id));
    assert_eq!(router.request("GET", "/v1/faces/999999", None).0, 404);

    let route = json!({ "prefix": "/a/b", "face_id": id, "cost": 7 });
    assert_eq!(router.request("PUT", "/v1/routes", Some(route)).0, 200);
    let (_, routes) = router.request("GET", "/v1/routes", None);
    assert_eq!(
        (&routes[0]["name"], &routes[0]["routes"][0]["origin"]),
        (&json!("/a/b"), &json!("static"))
    );
    let (_, fib) = router.request("GET", "/v1/fib?after=/a&limit=1", None);
    assert_eq!((&fib[0]["name"], fib.as_array().unwrap().len()), (&json!("/a/b"), 1));
    let remove = format!("/v1/routes?prefix=/a/b&face_id={id}");
    assert_eq!(router.request("DELETE", &remove, None).0, 204);
    assert_eq!(router.request("DELETE", &remove, None).0, 404, "the route is removed");
    assert_eq!(router.request("GET", "/v1/routes", None).1, json!([]));

    assert_eq!(router.request("DELETE", &format!("/v1/faces/{id}"), None).0, 204);
    assert_eq!(router.request("GET", &format!("/v1/faces/{id}"), None).0, 404);
    let (code, problem) = router.request("DELETE", &format!("/v1/faces/{id}"), None);
    assert_eq!((code, problem.to_string().contains("there is no face")), (404, true), "{problem}");
    assert_eq!(
        router.request("DELETE", "/v1/faces/1", None).0,
        403,
        "the internal face can't be closed"
    );

    let (_, status) = router.request("GET", "/v1/status", None);
    assert!(status["loop_time"]["turns"].as_u64().unwrap() > 0);
    assert!(status["forwarder"]["version"].as_str().unwrap().starts_with("namewire"));
    assert!(router.request("GET", "/v1/drops", None).1.is_array());
    let (_, metrics) = router.request("GET", "/metrics", None);
    assert!(metrics.as_str().unwrap().contains("\nnw_faces 0\n"), "{metrics}");
}

#[test]
fn rest_strategy_store_and_log_operations_return_their_result() {
    let router = TestServer::unix();
    let choice = json!({ "prefix": "/s", "strategy": "multicast" });
    assert_eq!(router.request("PUT", "/v1/strategies", Some(choice)).0, 200);
    let (_, strategies) = router.request("GET", "/v1/strategies?after=/&limit=1", None);
    assert_eq!(strategies[0]["name"], "/s");
    assert_eq!(router.request("DELETE", "/v1/strategies?prefix=/s", None).0, 204);
    assert_eq!(router.request("DELETE", "/v1/strategies?prefix=/s", None).0, 404);
    let unknown = json!({ "prefix": "/s", "strategy": "no-such" });
    assert_eq!(router.request("PUT", "/v1/strategies", Some(unknown)).0, 404);

    let (code, cs) =
        router.request("PATCH", "/v1/cs", Some(json!({ "capacity": 10, "serve": false })));
    assert_eq!((code, &cs["capacity"], &cs["flags"]), (200, &json!(10), &json!(["admit"])));
    assert_eq!(
        router.request("POST", "/v1/cs/erase", Some(json!({ "prefix": "/" }))).1,
        json!({ "count": 0 })
    );

    assert_eq!(
        router.request("PUT", "/v1/log", Some(json!({ "filter": "debug" }))).1,
        json!({ "filter": "debug" })
    );
    assert_eq!(router.request("PUT", "/v1/log", Some(json!({ "filter": "loud" }))).0, 400);
    assert_eq!(router.request("GET", "/v1/log", None).1["filter"], "debug");
}

#[test]
fn face_create_tcp_replies_when_connected_or_failed() {
    let router = TestServer::unix();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("tcp4://{}", listener.local_addr().unwrap());
    let (code, created) = router.request("POST", "/v1/faces", Some(json!({ "uri": uri })));
    assert_eq!((code, &created["uri"]), (201, &json!(uri)));
    let (code, problem) =
        router.request("POST", "/v1/faces", Some(json!({ "uri": "tcp4://127.0.0.1:1" })));
    assert_eq!((code, &problem["code"]), (504, &json!(504)), "{problem}");
}

#[test]
fn malformed_request_returns_code_and_text() {
    let router = TestServer::unix();
    let peer = "udp4://127.0.0.1:9";
    for (method, path, body, expected) in [
        ("GET", "/nothing", None, 404),
        ("POST", "/v1/status", None, 405),
        ("POST", "/v1/faces", Some(json!({ "uri": "http://x" })), 400),
        ("POST", "/v1/faces", Some(json!({ "uri": "udp4://127.0.0.1:9", "colour": 1 })), 422),
        ("POST", "/v1/faces", Some(json!([])), 422),
        ("PUT", "/v1/routes", Some(json!({ "prefix": "a", "face_id": 1 })), 400),
        ("POST", "/v1/faces", Some(json!([peer])), 422),
        ("POST", "/v1/faces", Some(json!({ "uri": peer, "persistency": "Permanent" })), 422),
        ("POST", "/v1/faces", Some(json!({ "uri": peer, "persistency": "on-demand" })), 422),
        ("POST", "/v1/faces", Some(json!({ "uri": peer, "mtu": -1 })), 422),
        ("POST", "/v1/faces", Some(json!({ "uri": peer, "mtu": 1e300 })), 422),
        (
            "POST",
            "/v1/faces",
            Some(json!({ "uri": "udp4://127.0.0.1:9", "local_uri": "udp4://192.0.2.1:7" })),
            409,
        ),
        ("PUT", "/v1/routes", Some(json!({ "prefix": "/a", "face_id": 77777 })), 404),
        ("PUT", "/v1/routes", Some(json!({ "prefix": "/a", "face_id": 0 })), 422),
        ("POST", "/v1/cs/erase", Some(json!({ "prefix": "/", "count": 0 })), 422),
        ("PATCH", "/v1/cs", Some(json!([null, null])), 422),
        ("DELETE", "/v1/strategies?prefix=/", None, 400),
        ("PUT", "/v1/log", Some(json!({ "filter": " , " })), 400),
        ("DELETE", "/v1/faces/999999", None, 404),
        ("DELETE", "/v1/faces/0", None, 400),
        ("GET", "/v1/faces?limit=0", None, 400),
        ("GET", "/v1/faces?limti=1", None, 400),
        ("GET", "/v1/top?components=17", None, 400),
        ("GET", "/v1/trace?name=/a&seconds=3601", None, 400),
        ("GET", "/v1/tap?direction=up", None, 400),
        ("PUT", "/v1/routes", Some(json!({ "prefix": "/localhost/nfd", "face_id": 1 })), 403),
        ("PUT", "/v1/routes", Some(json!({ "prefix": "/a", "face_id": 1, "origin": "me" })), 400),
        ("GET", "/v1/routes?limit=many", None, 400),
        ("GET", "/v1/faces/x", None, 400),
    ] {
        let (code, problem) = router.request(method, path, body);
        assert_eq!(code, expected, "{method} {path}: {problem}");
        let text = problem["text"].as_str().map(str::len);
        assert!(text.is_some_and(|len| len > 10), "{method} {path}: {problem}");
        assert_eq!(problem["code"], code, "{method} {path}: {problem}");
    }
}

#[test]
fn malformed_body_or_head_returns_code_and_text() {
    let router = TestServer::unix();
    let huge = "x".repeat(100_000);
    assert_eq!(router.request("PUT", "/v1/log", Some(json!({ "filter": huge }))).0, 413);
    let raw = |kind: &str, body: &str| {
        let len = body.len();
        let (code, text) = router.raw(&format!(
            "PATCH /v1/cs HTTP/1.0\r\nHost: localhost\r\n{kind}Content-Length: {len}\r\n\r\n{body}"
        ));
        let problem: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{body:.40}: {text}"));
        assert!(code == 200 || problem["code"] == code, "{body:.40}: {problem}");
        code
    };
    let json = "Content-Type: application/json\r\n";
    assert_eq!(raw("", "{}"), 415);
    assert_eq!(raw("Content-Type: text/plain\r\n", "{}"), 415);
    assert_eq!(raw(json, ""), 400);
    assert_eq!(raw(json, "{\"capacity\": 1"), 400);
    assert_eq!(raw(json, &"{\"a\":".repeat(10_000)), 400);
    assert_eq!(raw(json, &"[".repeat(60_000)), 422);
    assert_eq!(
        raw(json, &format!("{{\"capacity\": {}1{}}}", "[".repeat(5000), "]".repeat(5000))),
        400
    );
    assert_eq!(raw(json, &format!("{{\"capacity\": {}}}", "9".repeat(3000))), 400);
    assert_eq!(raw(json, "{\"capacity\": 18446744073709551616}"), 422);
    assert_eq!(raw(json, "{\"capacity\": 1, \"capacity\": 2}"), 422);
    assert_eq!(raw(json, "{\"capacity\": 5.5}"), 422);
    assert_eq!(raw(json, "{\"capacity\": 5.0}"), 200);
    assert_eq!(raw(json, "{\"admit\": \"\u{0}\"}"), 400);
    assert_eq!(router.raw(&format!("GET / HTTP/1.1\r\nX: {huge}\r\n\r\n")).0, 431);
    assert_eq!(router.raw("\u{1}\u{2}\u{3}\r\n\r\n").0, 400);
}

#[test]
fn openapi_document_matches_served_paths() {
    let router = TestServer::unix();
    let (code, document) = router.request("GET", "/openapi.json", None);
    assert_eq!(code, 200);
    assert_eq!(document, serde_json::from_str::<Value>(&nw_rest_api::document()).unwrap());
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            assert!(
                operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
                "{method} {path}"
            );
            // A capture of 0 packets ends at once.
            let target = path
                .replace("{id}", "424242")
                .replace("/v1/tap", "/v1/tap?count=0")
                .replace("/v1/events", "/v1/events?count=1");
            let code = router.request(&method.to_uppercase(), &target, None).0;
            assert!(code != 405 && code != 0, "{method} {path} is not served: {code}");
        }
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for name in ["FaceStatus", "RibEntry", "RouterStatus", "Problem", "CsInfo"] {
        assert!(schemas.contains_key(name), "{name}");
    }
    let mut ids = std::collections::BTreeSet::new();
    for operation in document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|item| item.as_object().unwrap().values())
    {
        assert!(
            ids.insert(operation["operationId"].as_str().unwrap()),
            "{}",
            operation["operationId"]
        );
        for (status, response) in operation["responses"].as_object().unwrap() {
            let text = response["description"].as_str().unwrap_or("");
            assert!(!text.is_empty(), "{} {status}", operation["operationId"]);
        }
    }
    let text = document.to_string();
    assert!(!text.contains("](super::"), "the document contains a link to code");
}

#[test]
fn slow_client_blocks_only_its_connection() {
    let router = TestServer::start(Control { connections: 4, ..Control::default() });
    // The maximum number of clients send half a head and stop.
    let mut slow: Vec<UnixStream> = (0..4)
        .map(|_| {
            let mut stream = UnixStream::connect(&router.path).unwrap();
            stream.write_all(b"GET /v1/status HT").unwrap();
            stream
        })
        .collect();
    let (sender, receiver) = std::sync::mpsc::channel();
    router
        .handle
        .query(nw_router::introspection::Query::Alive, move |_, _| sender.send(()).unwrap())
        .unwrap();
    receiver.recv_timeout(Duration::from_secs(2)).expect("the router replies at once");
    // Another client waits until they are disconnected.
    let started = Instant::now();
    assert_eq!(router.request("GET", "/v1/version", None).0, 200);
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut response = Vec::new();
        let result = stream.read_to_end(&mut response);
        assert!(
            !result.is_err_and(|e| e.kind() == ErrorKind::WouldBlock),
            "a slow client is still connected"
        );
    }
}

#[test]
fn tcp_listener_without_token_serves_monitoring_only() {
    let any_port = || vec!["127.0.0.1:0".parse().unwrap()];
    let listeners = [
        (Control { listen: any_port(), ..Control::default() }, 401),
        (Control { metrics_listen: any_port(), ..Control::default() }, 404),
    ];
    for (control, refusal) in listeners {
        let router = TestServer::start(control);
        let send = |request: &str| {
            let mut stream = TcpStream::connect(router.tcp.unwrap()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            read_response(&mut stream)
        };
        let id = router
            .request("POST", "/v1/faces", Some(json!({ "uri": "udp4://127.0.0.1:9" })))
            .1["face_id"]
            .clone();
        let host = "Host: 127.0.0.1";
        for path in ["/metrics", "/healthz", "/readyz"] {
            let (code, text) = send(&format!("GET {path} HTTP/1.0\r\n{host}\r\n\r\n"));
            assert_eq!(code, 200, "{path}: {text}");
            assert_eq!(send(&format!("POST {path} HTTP/1.0\r\n{host}\r\n\r\n")).0, 405, "{path}");
            assert_eq!(
                send(&format!("GET {path} HTTP/1.0\r\nHost: evil.example\r\n\r\n")).0,
                403,
                "{path}"
            );
            assert_eq!(
                send(&format!("GET {path} HTTP/1.1\r\n{host}\r\n{host}\r\n\r\n")).0,
                400,
                "{path}"
            );
            let absolute = format!("GET http://evil.example{path} HTTP/1.1\r\n{host}\r\n\r\n");
            assert_eq!(send(&absolute).0, 403, "{path}");
        }
        for request in [
            "GET /v1/version",
            "GET /openapi.json",
            &format!("DELETE /v1/faces/{id}"),
            "GET /nothing",
        ] {
            let (code, text) = send(&format!("{request} HTTP/1.0\r\n{host}\r\n\r\n"));
            let problem: Value = serde_json::from_str(&text).unwrap();
            assert_eq!((code, &problem["code"]), (refusal, &json!(refusal)), "{request}");
            assert!(problem["text"].as_str().unwrap().contains("control."), "{problem}");
        }
        assert_eq!(
            router.request("GET", &format!("/v1/faces/{id}"), None).0,
            200,
            "nothing has changed"
        );
    }
}

#[test]
fn tcp_listener_requires_token_and_local_host() {
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, "0123456789abcdef\n").unwrap();
    let control = Control {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        token_file: Some(token_file),
        mode: Mode(0o666),
        ..Control::default()
    };
    let router = TestServer::start(control);
    let send = |headers: &str| {
        let mut stream = TcpStream::connect(router.tcp.unwrap()).unwrap();
        stream.write_all(format!("GET /v1/version HTTP/1.0\r\n{headers}\r\n").as_bytes()).unwrap();
        read_response(&mut stream).0
    };
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    assert_eq!(send(&format!("Host: 127.0.0.1\r\n{token}")), 200);
    assert_eq!(send("Host: 127.0.0.1\r\n"), 401);
    assert_eq!(
        send(&format!("Host: router1.example:6380\r\n{token}")),
        200,
        "a web page does not know the token"
    );
    assert_eq!(send("Host: rebound.example\r\n"), 403);
    assert_eq!(send(&format!("Host: LOCALHOST.:80\r\n{}", token.replace("Bearer", "bEARER"))), 200);
    assert_eq!(send(&format!("Host: a\r\nHost: a\r\n{token}")), 400);
    assert_eq!(send(&format!("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n{token}")), 403);
    assert_eq!(
        router.request("GET", "/v1/version", None).0,
        200,
        "the file's permissions protect the unix socket"
    );
}
