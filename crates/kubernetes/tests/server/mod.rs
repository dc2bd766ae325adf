//! A real API server with etcd for a test, with no node: on free ports of this machine, in a folder
//! that goes with it.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Version that `tests/kubernetes/cluster build` builds.
const VERSION: &str = "v1.34.4";
const START_LIMIT: Duration = Duration::from_secs(90);
/// Everything that the operator's account asks for.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: [admin]
- level: None
";

const CONFIGURATION: &str = "apiVersion: v1
kind: Config
current-context: c
clusters:
- name: c
  cluster:
    server: ADDRESS
    insecure-skip-tls-verify: true
users:
- name: u
  user:
    token: secretMORE
contexts:
- name: c
  context: {cluster: c, user: u, namespace: site}
";

/// The programs of Kubernetes, if they are built.
fn programs() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let root = cache.join("namewire-tests/kubernetes");
    let versions = [VERSION, &VERSION[1..]].map(|version| root.join(version).join("bin"));
    let has_all = |folder: &PathBuf| {
        ["kube-apiserver", "kubectl"].iter().all(|name| folder.join(name).exists())
    };
    versions.into_iter().find(has_all)
}

/// Why no server can be started here.
pub fn missing() -> Option<&'static str> {
    let runs = |name: &str| Command::new(name).arg("version").output().is_ok();
    match () {
        () if std::env::var_os("NW_KUBERNETES").is_none() => {
            Some("a Kubernetes cluster takes two minutes: NW_KUBERNETES=run runs its tests")
        }
        () if programs().is_none() => {
            Some("Kubernetes is not built here: tests/kubernetes/cluster build")
        }
        () if Command::new("etcd").arg("--version").output().is_err() => {
            Some("etcd is not installed: apt-get install etcd-server")
        }
        () if !runs("openssl") => Some("openssl is not installed"),
        () => None,
    }
}

pub struct Server {
    pub folder: tempfile::TempDir,
    programs: PathBuf,
    children: Vec<Child>,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server { folder, programs: programs().unwrap(), children: Vec::new() };
        let [client, peer, port] = [free_port(), free_port(), free_port()];
        let root = server.folder.path().to_owned();
        let file = |name: &str| root.join(name).display().to_string();
        let etcd = format!("http://127.0.0.1:{client}");
        let peer = format!("http://127.0.0.1:{peer}");
        server.spawn(
            Path::new("etcd"),
            &[
                format!("--data-dir={}", file("etcd")),
                format!("--listen-client-urls={etcd}"),
                format!("--advertise-client-urls={etcd}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=default={peer}"),
                "--unsafe-no-fsync".to_owned(),
            ],
        );
        let key = file("accounts.key");
        let made = Command::new("openssl").args(["genrsa", "-out", &key, "2048"]).output();
        assert!(made.unwrap().status.success());
        fs::write(root.join("tokens.csv"), "secret,admin,1,system:masters\n").unwrap();
        fs::write(root.join("audit.yaml"), AUDIT).unwrap();
        server.spawn(
            &server.programs.join("kube-apiserver"),
            &[
                format!("--etcd-servers={etcd}"),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                format!("--secure-port={port}"),
                format!("--cert-dir={}", file("certificates")),
                format!("--token-auth-file={}", file("tokens.csv")),
                format!("--service-account-key-file={key}"),
                format!("--service-account-signing-key-file={key}"),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
                "--authorization-mode=RBAC".to_owned(),
                // No controllers run here that make the account.
                "--disable-admission-plugins=ServiceAccount".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                "--feature-gates=WatchList=false".to_owned(),
                format!("--audit-policy-file={}", file("audit.yaml")),
                format!("--audit-log-path={}", file("audit.log")),
            ],
        );
        let account = "\n    as: system:serviceaccount:namewire:namewire-operator";
        let balancer = "\n    as: system:serviceaccount:site:balancer";
        for (name, more) in [("admin", ""), ("operator", account), ("balancer", balancer)] {
            let address = format!("https://127.0.0.1:{port}");
            let text = CONFIGURATION.replace("ADDRESS", &address).replace("MORE", more);
            fs::write(root.join(name), text).unwrap();
        }
        let deadline = Instant::now() + START_LIMIT;
        while !server.kubectl(&["get", "--raw=/readyz"], "").0 {
            assert!(Instant::now() < deadline, "the API server did not start: {}", server.log());
            std::thread::sleep(Duration::from_millis(300));
        }
        server
    }

    fn spawn(&mut self, program: &Path, arguments: &[String]) {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .unwrap();
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children.push(child);
    }

    fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.chars().skip(text.chars().count().saturating_sub(3000)).collect()
    }

    /// Path of the configuration of `admin`, `operator` or `balancer`.
    pub fn configuration(&self, user: &str) -> PathBuf {
        self.folder.path().join(user)
    }

    /// Runs kubectl as administrator. Returns whether it succeeded, and what it printed.
    pub fn kubectl(&self, arguments: &[&str], input: &str) -> (bool, String) {
        let mut child = Command::new(self.programs.join("kubectl"))
            .args(arguments)
            .env("KUBECONFIG", self.configuration("admin"))
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Runs kubectl, which has to succeed.
    pub fn run(&self, arguments: &[&str], input: &str) -> String {
        let (is_done, text) = self.kubectl(arguments, input);
        assert!(is_done, "kubectl {arguments:?}: {text}");
        text
    }

    /// Returns an object.
    pub fn get(&self, arguments: &[&str]) -> Value {
        let all = [&["get", "-n", "site", "-o", "json"], arguments].concat();
        serde_json::from_str(&self.run(&all, "")).unwrap()
    }

    /// Returns what the operator's account asked for: group, resource with subresource, verb.
    pub fn asked(&self) -> Vec<(String, String, String)> {
        let text = fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // The policy sees the administrator who acts as the account.
        let account = "system:serviceaccount:namewire:namewire-operator";
        let is_operator = |event: &Value| {
            event.pointer("/impersonatedUser/username").and_then(Value::as_str) == Some(account)
        };
        let mut asked: Vec<_> = events
            .filter(is_operator)
            .map(|event| {
                let word = |path: &str| event.pointer(path).and_then(Value::as_str);
                let mut resource = word("/objectRef/resource").unwrap_or_default().to_owned();
                if let Some(part) = word("/objectRef/subresource") {
                    resource = format!("{resource}/{part}");
                }
                let group = word("/objectRef/apiGroup").unwrap_or_default().to_owned();
                (group, resource, word("/verb").unwrap_or_default().to_owned())
            })
            .collect();
        asked.sort();
        asked.dedup();
        asked
    }
}
