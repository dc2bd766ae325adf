//! Instances as containers of the Docker engine of this host.
//!
//! Invariant: what identifies a container are its labels, and its name follows from the directory
//! and the instance, so a second start finds the first. The network's directory is mounted at its
//! own path: link and control sockets have the same address inside and outside. So are the folders
//! of other sockets that the graph names, as those of applications.
//!
//! A container runs as the manager's user, without capabilities, with a read-only root. It has no
//! network at all if its graph has only faces over Unix sockets and shared memory, and the host's
//! network otherwise: a bridge costs twice the processor time per packet.

mod http;

use self::http::{Answer, escape, request};
use super::cgroup::quota_and_period_us;
use super::{
    CONTROL_SOCKET, Engine, EngineError, EngineInstance, GRAPH_FILE, InstanceSpec, InstanceState,
    Labels, Started, instance_directory, write_file,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Where Docker listens if the environment does not say otherwise.
const SOCKET: &str = "/var/run/docker.sock";
/// Time limit of a call that does not wait for a container.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Period of a limit that names none, microseconds.
const PERIOD_US: f64 = 100_000.0;
const LABEL_NETWORK: &str = "dev.namewire.network";
const LABEL_INSTANCE: &str = "dev.namewire.instance";
const LABEL_GENERATION: &str = "dev.namewire.generation";
const LABEL_GRAPH_HASH: &str = "dev.namewire.graph-hash";
const LABEL_DIRECTORY: &str = "dev.namewire.directory";
/// Schemes of faces that need a network.
const NETWORK_SCHEMES: [&str; 7] = ["tcp:", "tcp4:", "tcp6:", "udp", "ws:", "ether:", "dev:"];

/// Schemes of faces whose addresses are paths of sockets.
const SOCKET_SCHEMES: [&str; 2] = ["unix://", "shm://"];

/// Runs instances as containers.
pub struct DockerEngine {
    socket: PathBuf,
    image: String,
    /// Whether Docker has answered. Until then it may be missing, and has no instances.
    is_known: AtomicBool,
}

impl DockerEngine {
    /// Creates an engine that runs containers of `image`, at the Unix socket that DOCKER_HOST
    /// names, or at Docker's own.
    ///
    /// # Errors
    /// DOCKER_HOST is not a Unix socket.
    pub fn from_environment(image: String) -> Result<Self, EngineError> {
        let host = env::var("DOCKER_HOST").unwrap_or_default();
        let socket = match host.strip_prefix("unix://") {
            Some(path) => path,
            None if host.is_empty() => SOCKET,
            None => {
                return Err(unreachable(format!(
                    "DOCKER_HOST is {host}; only Unix sockets (unix:///path) are used: for another \
                     host run an agent there"
                )));
            }
        };
        Ok(DockerEngine { socket: socket.into(), image, is_known: AtomicBool::new(false) })
    }

    /// Sends a request. Statuses from 400 on are answers too.
    fn call(
        &self,
        method: &str,
        target: &str,
        content: Option<&Value>,
        timeout: Duration,
    ) -> Result<Answer, EngineError> {
        let answer = request(&self.socket, method, target, content, timeout)
            .map_err(|error| unreachable(self.remedy(&error)))?;
        self.is_known.store(true, Relaxed);
        Ok(answer)
    }

    /// Returns whether this process can't have started anything with Docker, as nothing listens at
    /// its socket, or not for this user. A network without containers then needs no Docker.
    fn is_missing(&self) -> bool {
        !self.is_known.load(Relaxed) && UnixStream::connect(&self.socket).is_err()
    }

    fn remedy(&self, error: &io::Error) -> String {
        let socket = self.socket.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => format!(
                "nothing listens at {socket}; start Docker (systemctl start docker), or name its \
                 socket in DOCKER_HOST"
            ),
            io::ErrorKind::PermissionDenied => {
                format!("{socket} may not be opened; run as root, or as a user of the group docker")
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                format!("no answer at {socket} in time; see the log of Docker")
            }
            _ => format!("{socket}: {error}"),
        }
    }

    /// Returns the containers with all of `labels`, running and ended.
    fn containers(&self, labels: &[(&str, &str)]) -> Result<Vec<Value>, EngineError> {
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let filters = escape(&json!({ "label": labels }).to_string());
        let target = format!("/containers/json?all=1&filters={filters}");
        let answer = self.call("GET", &target, None, TIMEOUT)?;
        match answer.json() {
            Value::Array(found) if answer.status == 200 => Ok(found),
            _ => Err(refused("list", "containers", &answer)),
        }
    }

    /// Returns the container of an instance.
    fn container(
        &self,
        directory: &Path,
        instance: &str,
    ) -> Result<Option<Container>, EngineError> {
        let directory = directory.display().to_string();
        let found =
            self.containers(&[(LABEL_DIRECTORY, &directory), (LABEL_INSTANCE, instance)])?;
        let Some(id) = found.first().and_then(|item| item["Id"].as_str()) else { return Ok(None) };
        self.inspect(id)
    }

    /// Returns a container; `None` if it was removed meanwhile.
    fn inspect(&self, id: &str) -> Result<Option<Container>, EngineError> {
        let answer = self.call("GET", &format!("/containers/{id}/json"), None, TIMEOUT)?;
        match answer.status {
            200 => Ok(Some(Container { id: id.to_owned(), document: answer.json() })),
            404 => Ok(None),
            _ => Err(refused("inspect", id, &answer)),
        }
    }

    fn delete(&self, id: &str, instance: &str) -> Result<(), EngineError> {
        let target = format!("/containers/{id}?v=1");
        let answer = self.call("DELETE", &target, None, TIMEOUT)?;
        match answer.status {
            204 | 404 => Ok(()),
            _ => Err(refused("remove", instance, &answer)),
        }
    }

    /// Creates a container and returns its id, and what the engine could not do.
    fn create(&self, spec: &InstanceSpec) -> Result<(String, Vec<String>), EngineError> {
        let instance = &spec.labels.instance;
        let name = container_name(&spec.directory, instance);
        let target = format!("/containers/create?name={name}");
        let content = self.container_document(spec);
        let answer = self.call("POST", &target, Some(&content), TIMEOUT)?;
        let document = answer.json();
        match (answer.status, document["Id"].as_str()) {
            (201, Some(id)) => {
                let warnings = document["Warnings"].as_array().into_iter().flatten();
                let texts = warnings.filter_map(|warning| warning.as_str().map(str::to_owned));
                Ok((id.to_owned(), texts.collect()))
            }
            (404, _) => Err(EngineError::failed("start", instance)(format!(
                "the engine has no image {image}: build one with `nw image build --tag {image}` \
                 and load it with `docker load -i namewire-image.tar` ({reason})",
                image = self.image(spec),
                reason = answer.message(),
            ))),
            _ => Err(refused("start", instance, &answer)),
        }
    }

    /// Returns the image of an instance: that of its host in the document, or the engine's own.
    fn image<'a>(&'a self, spec: &'a InstanceSpec) -> &'a str {
        spec.image.as_deref().unwrap_or(&self.image)
    }

    fn container_document(&self, spec: &InstanceSpec) -> Value {
        let directory = spec.directory.display().to_string();
        let labels = &spec.labels;
        let user = (rustix::process::geteuid(), rustix::process::getegid());
        let quota = spec.quota.map_or(json!({}), quota_document);
        let folders = outside_folders(&spec.graph, &spec.directory);
        let mounts = folders.iter().map(|folder| format!("{folder}:{folder}"));
        let mounts: Vec<_> = mounts.chain([format!("{directory}:{directory}")]).collect();
        let temporary = if folders.contains("/tmp") { json!({}) } else { json!({ "/tmp": "" }) };
        let mut host = json!({
            "Binds": mounts,
            "NetworkMode": if needs_network(&spec.graph) { "host" } else { "none" },
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": true,
            "Tmpfs": temporary,
            // The manager starts it again: it knows whether the instance is still wanted.
            "RestartPolicy": { "Name": "no" },
            "LogConfig": {
                "Type": "json-file",
                "Config": { "max-size": "4m", "max-file": "2" },
            },
        });
        if let (Value::Object(host), Value::Object(quota)) = (&mut host, quota) {
            host.extend(quota);
        }
        json!({
            "Image": self.image(spec),
            "Cmd": spec.arguments(),
            "User": format!("{}:{}", user.0.as_raw(), user.1.as_raw()),
            "Labels": {
                LABEL_NETWORK: labels.network,
                LABEL_INSTANCE: labels.instance,
                LABEL_GENERATION: labels.generation.to_string(),
                LABEL_GRAPH_HASH: labels.graph_hash,
                LABEL_DIRECTORY: directory,
            },
            // The image's check is for a router; the manager asks the control socket.
            "Healthcheck": { "Test": ["NONE"] },
            "HostConfig": host,
        })
    }

    /// Returns the last lines of a container's output.
    fn log_text(&self, id: &str, lines: usize) -> Result<String, EngineError> {
        let target = format!("/containers/{id}/logs?stdout=1&stderr=1&tail={lines}");
        let answer = self.call("GET", &target, None, TIMEOUT)?;
        match answer.status {
            200 => Ok(join_frames(&answer.body)),
            _ => Err(refused("read the log of", id, &answer)),
        }
    }

    fn describe(&self, directory: &Path, container: &Container) -> Option<EngineInstance> {
        let labels = container.labels()?;
        let state = if container.is_running() {
            InstanceState::Running
        } else {
            let log = self.log_text(&container.id, 1).unwrap_or_default();
            InstanceState::Ended(container.ending(log.trim()))
        };
        let pid = container.document["State"]["Pid"].as_u64().and_then(|pid| pid.try_into().ok());
        Some(EngineInstance {
            state,
            control: instance_directory(directory, &labels.instance).join(CONTROL_SOCKET),
            pid: pid.filter(|pid| *pid != 0),
            quota: container.quota(),
            address: None,
            labels,
        })
    }
}

impl Engine for DockerEngine {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn start(&self, spec: &InstanceSpec) -> Result<Started, EngineError> {
        let instance = &spec.labels.instance;
        if let Some(container) = self.container(&spec.directory, instance)? {
            if container.is_running() {
                let same = container
                    .labels()
                    .is_some_and(|labels| labels.graph_hash == spec.labels.graph_hash);
                let reason = "one of this name runs with another graph: stop it first";
                return match same {
                    true => Ok(Started::default()),
                    false => Err(EngineError::failed("start", instance)(reason)),
                };
            }
            self.delete(&container.id, instance)?;
        }
        let directory = spec.instance_directory();
        let make = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        make.map_err(EngineError::failed("make", directory.display()))?;
        write_file(&directory.join(GRAPH_FILE), spec.graph.as_bytes())?;
        let (id, notes) = self.create(spec)?;
        let answer = self.call("POST", &format!("/containers/{id}/start"), None, TIMEOUT)?;
        match answer.status {
            204 | 304 => Ok(Started { notes }),
            _ => {
                // Nothing half made: a container that can't start is of no use.
                let _ = self.delete(&id, instance);
                Err(refused("start", instance, &answer))
            }
        }
    }

    fn stop(&self, directory: &Path, instance: &str, limit: Duration) -> Result<(), EngineError> {
        let Some(container) = self.container(directory, instance)? else { return Ok(()) };
        if !container.is_running() {
            return Ok(());
        }
        let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
        // A limit of 0 kills at once. The engine answers when the container has ended.
        let target = format!("/containers/{}/stop?t={seconds}", container.id);
        let answer = self.call("POST", &target, None, TIMEOUT + limit)?;
        match answer.status {
            204 | 304 | 404 => Ok(()),
            _ => Err(refused("stop", instance, &answer)),
        }
    }

    fn remove(&self, directory: &Path, instance: &str) -> Result<(), EngineError> {
        if let Some(container) = self.container(directory, instance)? {
            if container.is_running() {
                return Err(EngineError::failed("remove", instance)("it runs: stop it first"));
            }
            self.delete(&container.id, instance)?;
        }
        let directory = instance_directory(directory, instance);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(EngineError::failed("remove", directory.display())(error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, directory: &Path, network: &str) -> Result<Vec<EngineInstance>, EngineError> {
        if self.is_missing() {
            return Ok(Vec::new());
        }
        let text = directory.display().to_string();
        let found = self.containers(&[(LABEL_DIRECTORY, &text), (LABEL_NETWORK, network)])?;
        let mut instances = Vec::new();
        for id in found.iter().filter_map(|item| item["Id"].as_str()) {
            let container = self.inspect(id)?;
            instances.extend(container.and_then(|found| self.describe(directory, &found)));
        }
        instances.sort_by(|left, right| left.labels.instance.cmp(&right.labels.instance));
        Ok(instances)
    }

    fn find(
        &self,
        directory: &Path,
        network: &str,
        instance: &str,
    ) -> Result<Option<EngineInstance>, EngineError> {
        if self.is_missing() {
            return Ok(None);
        }
        let container = self.container(directory, instance)?;
        let found = container.and_then(|found| self.describe(directory, &found));
        Ok(found.filter(|found| found.labels.network == network))
    }

    fn logs(&self, directory: &Path, instance: &str, lines: usize) -> Result<String, EngineError> {
        match self.container(directory, instance)? {
            Some(container) => self.log_text(&container.id, lines),
            None => Err(EngineError::Unknown(instance.to_owned())),
        }
    }

    fn set_quota(
        &self,
        directory: &Path,
        instance: &str,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError> {
        let running = self.container(directory, instance)?.filter(Container::is_running);
        let Some(container) = running else {
            return Err(EngineError::Unknown(instance.to_owned()));
        };
        let content = quota.map_or(json!({ "CpuQuota": -1 }), quota_document);
        let target = format!("/containers/{}/update", container.id);
        let answer = self.call("POST", &target, Some(&content), TIMEOUT)?;
        match answer.status {
            200 => Ok(answer.json()["Warnings"][0]
                .as_str()
                .map(|warning| format!("the quota is not in effect: the engine says {warning}"))),
            _ => Err(refused("limit", instance, &answer)),
        }
    }
}

/// A container as the engine describes it.
struct Container {
    id: String,
    document: Value,
}

impl Container {
    fn is_running(&self) -> bool {
        self.document["State"]["Running"] == true
    }

    /// Returns its labels; `None` if they are not those of an instance.
    fn labels(&self) -> Option<Labels> {
        let label = |key: &str| self.document["Config"]["Labels"][key].as_str();
        Some(Labels {
            network: label(LABEL_NETWORK)?.to_owned(),
            instance: label(LABEL_INSTANCE)?.to_owned(),
            generation: label(LABEL_GENERATION)?.parse().ok()?,
            graph_hash: label(LABEL_GRAPH_HASH)?.to_owned(),
        })
    }

    fn quota(&self) -> Option<f64> {
        let number = |key: &str| self.document["HostConfig"][key].as_f64().filter(|n| *n > 0.0);
        Some(number("CpuQuota")? / number("CpuPeriod").unwrap_or(PERIOD_US))
    }

    /// Returns a sentence on how it ended. `log`: the last line of its output.
    fn ending(&self, log: &str) -> String {
        let state = &self.document["State"];
        if state["Status"] == "created" {
            return "it was created and never started".to_owned();
        }
        let memory = if state["OOMKilled"] == true { ", for want of memory" } else { "" };
        let code = state["ExitCode"].as_i64().unwrap_or(-1);
        let error = state["Error"].as_str().filter(|error| !error.is_empty());
        let log = error.unwrap_or(log);
        let log = if log.is_empty() { String::new() } else { format!(": {log}") };
        format!("it ended with exit status {code}{memory}{log}")
    }
}

fn unreachable(reason: String) -> EngineError {
    EngineError::Unreachable { engine: "docker", reason }
}

fn refused(action: &'static str, subject: &str, answer: &Answer) -> EngineError {
    EngineError::failed(action, subject)(format!("Docker refused it: {}", answer.message()))
}

/// Returns the name of an instance's container. Names of instances may have characters that names
/// of containers may not; the digits keep names apart.
fn container_name(directory: &Path, instance: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    let readable: String = instance.chars().take(40).map(plain).collect();
    let digest = Sha256::digest(format!("{}\n{instance}", directory.display()).as_bytes());
    let digits: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("nw-{readable}-{digits}")
}

fn quota_document(quota: f64) -> Value {
    let (quota_us, period_us) = quota_and_period_us(quota);
    json!({ "CpuPeriod": period_us, "CpuQuota": quota_us })
}

/// Returns the lines of a graph that make faces, without comments.
fn face_lines(graph: &str) -> impl Iterator<Item = &str> {
    let lines = graph.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| line.starts_with("face "))
}

/// Returns whether a graph has faces other than Unix sockets and shared memory.
fn needs_network(graph: &str) -> bool {
    face_lines(graph).any(|line| NETWORK_SCHEMES.iter().any(|scheme| line.contains(scheme)))
}

/// Returns the folders of sockets that are not in the network's directory, such as those of
/// applications: they must be visible in the container.
fn outside_folders(graph: &str, directory: &Path) -> BTreeSet<String> {
    let words = face_lines(graph).flat_map(str::split_whitespace);
    let paths = words.filter_map(|word| {
        SOCKET_SCHEMES.iter().find_map(|scheme| word.strip_prefix(scheme)).map(Path::new)
    });
    let folders = paths.filter_map(Path::parent);
    let outside = folders.filter(|folder| {
        folder.is_absolute() && folder.parent().is_some() && !folder.starts_with(directory)
    });
    outside.filter_map(Path::to_str).map(str::to_owned).collect()
}

/// Joins the frames of standard output and error: 4 bytes that tell which, 4 bytes of length.
fn join_frames(mut bytes: &[u8]) -> String {
    let mut text = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<8>() {
        let len = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let (frame, next) = rest.split_at(len.min(rest.len()));
        text.extend_from_slice(frame);
        bytes = next;
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    fn engine(socket: &Path) -> DockerEngine {
        let image = "namewire:none".to_owned();
        DockerEngine { socket: socket.to_owned(), image, is_known: AtomicBool::new(false) }
    }

    #[test]
    fn engine_that_is_not_there_is_named_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let engine = engine(&socket);
        assert!(engine.list(folder.path(), "n").unwrap().is_empty());
        let error = engine.logs(folder.path(), "cs", 1).unwrap_err().to_string();
        assert!(error.starts_with("the engine docker does not answer: nothing listens at /"));
        assert!(error.contains("DOCKER_HOST"), "{error}");
    }

    #[test]
    fn image_of_the_document_comes_before_that_of_the_engine() {
        let engine = engine(Path::new("/none"));
        let mut spec = InstanceSpec {
            labels: Labels {
                network: "n".to_owned(),
                instance: "cs~1@here".to_owned(),
                generation: 1,
                graph_hash: String::new(),
            },
            directory: PathBuf::from("/n"),
            graph: String::new(),
            quota: None,
            image: None,
        };
        assert_eq!(engine.container_document(&spec)["Image"], "namewire:none");
        spec.image = Some("namewire:other".to_owned());
        assert_eq!(engine.container_document(&spec)["Image"], "namewire:other");
    }

    #[test]
    fn answer_of_another_program_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            for answer in ["220 mail.example ESMTP\r\n", "HTTP/1.0 200 OK\r\n\r\n{}"] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 4096];
                let _ = stream.read(&mut bytes).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let error = engine(&socket).logs(folder.path(), "cs", 1).unwrap_err().to_string();
        assert!(error.contains("is no HTTP server"), "{error}");
        let error = engine(&socket).logs(folder.path(), "cs", 1).unwrap_err().to_string();
        assert!(error.contains("Docker refused it"), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn names_of_containers_are_valid_and_distinct() {
        let name = |instance| container_name(Path::new("/run/n"), instance);
        assert!(name("cs~1").starts_with("nw-cs-1-"));
        assert_ne!(name("cs~1"), name("cs-1"));
        assert_ne!(name("cs"), container_name(Path::new("/run/m"), "cs"));
        assert!(name(&"x".repeat(500)).len() < 64);
    }

    #[test]
    fn only_graphs_with_network_faces_need_a_network() {
        assert!(!needs_network("face a listens unix:///x\nface b = shm:///y # tcp4://z\n"));
        assert!(needs_network("cs = content_store\nface b = udp4://192.0.2.1:6363\n"));
        assert!(!needs_network("nr = name_router(routes = [\"/udp up\"])\n"));
    }

    #[test]
    fn folders_of_sockets_outside_are_mounted() {
        let graph = "face a listens unix:///tmp/a.sock local # unix:///no/b\n\
                     face b = unix:///run/nw/n/l/x.sock\nface c = shm:///srv/s/c\n\
                     face d = unix:///e.sock\n";
        let folders = outside_folders(graph, Path::new("/run/nw/n"));
        assert_eq!(folders.into_iter().collect::<Vec<_>>(), ["/srv/s", "/tmp"]);
    }

    #[test]
    fn frames_of_a_log_are_joined() {
        let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 2, b'a', b'\n', 2, 0, 0, 0, 0, 0, 0, 1, b'b'];
        assert_eq!(join_frames(&bytes), "a\nb");
        bytes.extend([1, 0, 0, 0, 255, 255, 255, 255, b'c']);
        assert_eq!(join_frames(&bytes), "a\nbc");
    }

    #[test]
    fn quota_has_the_smallest_value_that_the_kernel_takes() {
        assert_eq!(quota_document(0.67), json!({ "CpuPeriod": 10_000, "CpuQuota": 6_700 }));
        assert_eq!(quota_document(0.02), json!({ "CpuPeriod": 50_000, "CpuQuota": 1_000 }));
    }
}
