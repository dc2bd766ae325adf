//! Instances as processes of this host: `nw service run` with a directory for each.
//!
//! Invariant: `instance.json` is written before the process starts and again when its id is known.
//! A process is identified by its id and its start time in `/proc`; if a manager ended between the
//! two writes, by its command line, which has the path of the control socket.

use super::cgroup::Hierarchy;
use super::{
    CONTROL_SOCKET, Engine, EngineError, EngineInstance, GRAPH_FILE, INSTANCES, InstanceSpec,
    InstanceState, Labels, Started, instance_directory, write_file,
};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const RECORD_FILE: &str = "instance.json";
const LOG_FILE: &str = "log";
/// A log longer than this is renamed to `log.1` when the instance starts again, bytes.
const LOG_BYTES_MAX: u64 = 4 << 20;
/// Part of a log that is read for its last lines, bytes.
const LOG_TAIL_BYTES: u64 = 256 << 10;
/// A process that has not exited this long after SIGKILL is reported.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which the end of a process is polled.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// What `instance.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    labels: Labels,
    /// Process id and start time in clock ticks since boot; `None` while it is being started.
    process: Option<(u32, u64)>,
}

/// Starts instances as processes of this host.
pub struct ProcessEngine {
    program: PathBuf,
    hierarchy: Option<Hierarchy>,
    /// Own children by control path: they must be waited for, or they stay as zombies.
    children: Mutex<BTreeMap<PathBuf, Child>>,
    /// Records that were read, by directory: a file that was not replaced is not read again.
    records: Mutex<BTreeMap<PathBuf, (FileIdentity, Record)>>,
}

/// What differs when a file was replaced: inode and time of change, nanoseconds.
type FileIdentity = (u64, i64, i64);

impl ProcessEngine {
    /// Creates an engine that runs `program` (usually this one, `nw`).
    pub fn new(program: PathBuf) -> Self {
        let hierarchy = Hierarchy::find();
        let (children, records) = (Mutex::default(), Mutex::default());
        ProcessEngine { program, hierarchy, children, records }
    }

    fn children(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the process id of an instance that runs, after waiting for an ended child.
    fn running_pid(&self, directory: &Path, record: Option<&Record>) -> Option<u32> {
        let control = directory.join(CONTROL_SOCKET);
        let mut children = self.children();
        if let Some(child) = children.get_mut(&control) {
            match child.try_wait() {
                Ok(None) => return Some(child.id()),
                _ => drop(children.remove(&control)),
            }
        }
        drop(children);
        match record.and_then(|record| record.process) {
            Some((pid, started)) => (start_time(pid) == Some(started)).then_some(pid),
            None => find_by_command_line(&control),
        }
    }

    /// Reads the record of a directory, or returns the one that was read from the same file.
    fn record(&self, directory: &Path) -> Option<Record> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(found) = fs::metadata(directory.join(RECORD_FILE)) else {
            records.remove(directory);
            return None;
        };
        let identity = (found.ino(), found.ctime(), found.ctime_nsec());
        if let Some((known, record)) = records.get(directory)
            && *known == identity
        {
            return Some(record.clone());
        }
        let record = read_record(directory)?;
        records.insert(directory.to_owned(), (identity, record.clone()));
        Some(record)
    }

    /// Describes the instance of a directory. `None` if there is none, or one of another network.
    fn describe(&self, directory: &Path, network: &str) -> Option<EngineInstance> {
        let record = self.record(directory).filter(|record| record.labels.network == network)?;
        let pid = self.running_pid(directory, Some(&record));
        let ended = || InstanceState::Ended(last_line(&directory.join(LOG_FILE)));
        let hierarchy = self.hierarchy.as_ref().filter(|_| pid.is_some());
        Some(EngineInstance {
            state: pid.map_or_else(ended, |_| InstanceState::Running),
            control: directory.join(CONTROL_SOCKET),
            quota: hierarchy.and_then(|found| found.quota(&group_key(&record.labels))),
            pid,
            address: None,
            labels: record.labels,
        })
    }

    fn try_limit(&self, key: &str, pid: u32, quota: Option<f64>) -> Option<String> {
        let Some(hierarchy) = &self.hierarchy else {
            return quota.map(|_| {
                "the quota is not in effect: no control groups limit processor time here; mount \
                 them (mount -t cgroup2 none /sys/fs/cgroup)"
                    .to_owned()
            });
        };
        let error = hierarchy.limit(key, pid, quota).err()?;
        Some(format!(
            "the quota is not in effect: control groups refused it ({error}); run the manager as \
             root, or delegate a control group to it"
        ))
    }

    fn spawn(&self, spec: &InstanceSpec, directory: &Path) -> Result<Child, EngineError> {
        let log_path = directory.join(LOG_FILE);
        if fs::metadata(&log_path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX) {
            // The log continues in the old file if it can't be renamed.
            let _ = fs::rename(&log_path, directory.join("log.1"));
        }
        let log = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path);
        let log = log.map_err(EngineError::failed("open", log_path.display()))?;
        let mut command = Command::new(&self.program);
        command.args(spec.arguments()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // A group of its own: Ctrl-C in the manager's terminal does not reach it.
        command.process_group(0);
        command.spawn().map_err(EngineError::failed("start", self.program.display()))
    }
}

impl Engine for ProcessEngine {
    fn name(&self) -> &'static str {
        "process"
    }

    fn start(&self, spec: &InstanceSpec) -> Result<Started, EngineError> {
        let directory = spec.instance_directory();
        let record = read_record(&directory);
        if self.running_pid(&directory, record.as_ref()).is_some() {
            let same = record.is_some_and(|r| r.labels.graph_hash == spec.labels.graph_hash);
            let reason = "one of this name runs with another graph: stop it first";
            return match same {
                true => Ok(Started::default()),
                false => Err(EngineError::failed("start", &spec.labels.instance)(reason)),
            };
        }
        let make = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        make.map_err(EngineError::failed("make", directory.display()))?;
        write_file(&directory.join(GRAPH_FILE), spec.graph.as_bytes())?;
        let mut record = Record { labels: spec.labels.clone(), process: None };
        write_record(&directory, &record)?;
        let child = self.spawn(spec, &directory)?;
        let pid = child.id();
        record.process = start_time(pid).map(|started| (pid, started));
        self.children().insert(spec.control(), child);
        write_record(&directory, &record)?;
        let note = self.try_limit(&group_key(&spec.labels), pid, spec.quota);
        Ok(Started { notes: note.into_iter().collect() })
    }

    fn stop(&self, directory: &Path, instance: &str, limit: Duration) -> Result<(), EngineError> {
        let directory = instance_directory(directory, instance);
        let record = read_record(&directory);
        let Some(pid) = self.running_pid(&directory, record.as_ref()) else { return Ok(()) };
        let wait = |limit: Duration| {
            let deadline = Instant::now() + limit;
            while self.running_pid(&directory, record.as_ref()).is_some() {
                if Instant::now() >= deadline {
                    return false;
                }
                std::thread::sleep(EXIT_POLL_INTERVAL);
            }
            true
        };
        if !limit.is_zero() {
            signal(pid, Signal::TERM);
            if wait(limit) {
                return Ok(());
            }
        }
        signal(pid, Signal::KILL);
        match wait(KILL_TIMEOUT) {
            true => Ok(()),
            false => Err(EngineError::failed("stop", instance)(format!(
                "process {pid} does not end after SIGKILL: it may wait for a device"
            ))),
        }
    }

    fn remove(&self, directory: &Path, instance: &str) -> Result<(), EngineError> {
        let directory = instance_directory(directory, instance);
        let record = read_record(&directory);
        if self.running_pid(&directory, record.as_ref()).is_some() {
            return Err(EngineError::failed("remove", instance)("it runs: stop it first"));
        }
        if let (Some(hierarchy), Some(record)) = (&self.hierarchy, &record) {
            hierarchy.remove(&group_key(&record.labels));
        }
        self.records.lock().unwrap_or_else(PoisonError::into_inner).remove(&directory);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(EngineError::failed("remove", directory.display())(error))
            }
            _ => Ok(()),
        }
    }

    fn list(&self, directory: &Path, network: &str) -> Result<Vec<EngineInstance>, EngineError> {
        let root = directory.join(INSTANCES);
        let entries = match fs::read_dir(&root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(EngineError::failed("read", root.display())(error)),
        };
        let mut instances = Vec::new();
        for directory in entries.flatten().map(|entry| entry.path()) {
            instances.extend(self.describe(&directory, network));
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
        Ok(self.describe(&instance_directory(directory, instance), network))
    }

    fn logs(&self, directory: &Path, instance: &str, lines: usize) -> Result<String, EngineError> {
        let directory = instance_directory(directory, instance);
        if read_record(&directory).is_none() {
            return Err(EngineError::Unknown(instance.to_owned()));
        }
        let path = directory.join(LOG_FILE);
        let text = tail(&path).map_err(EngineError::failed("read", path.display()))?;
        let first = text.lines().count().saturating_sub(lines);
        Ok(text.lines().skip(first).map(|line| format!("{line}\n")).collect())
    }

    fn set_quota(
        &self,
        directory: &Path,
        instance: &str,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError> {
        let directory = instance_directory(directory, instance);
        let record = read_record(&directory);
        let pid = self.running_pid(&directory, record.as_ref());
        let (Some(record), Some(pid)) = (record, pid) else {
            return Err(EngineError::Unknown(instance.to_owned()));
        };
        Ok(self.try_limit(&group_key(&record.labels), pid, quota))
    }
}

fn group_key(labels: &Labels) -> String {
    format!("{}-{}", labels.network, labels.instance)
}

fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Fails if it has exited already.
    let _ = pid.map(|pid| kill_process(pid, signal));
}

fn read_record(directory: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(directory.join(RECORD_FILE)).ok()?).ok()
}

fn write_record(directory: &Path, record: &Record) -> Result<(), EngineError> {
    let text = serde_json::to_vec_pretty(record).expect("strings and numbers");
    write_file(&directory.join(RECORD_FILE), &text)
}

/// Returns the start time of a process in clock ticks since boot. `None` if it has ended, also if
/// its parent has not yet waited for it.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may have spaces and brackets: the fields follow the last bracket.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ended = matches!(*fields.first()?, "Z" | "X");
    fields.get(19)?.parse().ok().filter(|_| !ended)
}

/// Finds the process with a control path among its arguments.
fn find_by_command_line(control: &Path) -> Option<u32> {
    let control = control.as_os_str().as_encoded_bytes();
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command_line = fs::read(entry.path().join("cmdline")).ok()?;
        let is_own = command_line.split(|byte| *byte == 0).any(|argument| argument == control);
        (is_own && start_time(pid).is_some()).then_some(pid)
    })
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = fs::File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_line(log: &Path) -> String {
    let text = tail(log).unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it ended without a word in its log").to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::graph_hash;
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const LIMIT: Duration = Duration::from_secs(5);

    /// An engine whose program writes its arguments to its log and waits for SIGTERM.
    fn engine(folder: &Path) -> ProcessEngine {
        let program = folder.join("program");
        if !program.exists() {
            let text = "#!/bin/sh\ntrap 'exit 0' TERM\necho \"$@\" >&2\n\
                        while :; do sleep 0.05; done\n";
            fs::write(&program, text).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        ProcessEngine::new(program)
    }

    fn spec(folder: &Path, graph: &str) -> InstanceSpec {
        let labels = Labels {
            network: "n".to_owned(),
            instance: "cs~1".to_owned(),
            generation: 1,
            graph_hash: graph_hash(graph),
        };
        let graph = graph.to_owned();
        InstanceSpec { labels, directory: folder.to_owned(), graph, quota: None, image: None }
    }

    fn wait_for_log(engine: &ProcessEngine, folder: &Path) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let text = engine.logs(folder, "cs~1", 10).unwrap();
            if !text.is_empty() {
                return text;
            }
            assert!(Instant::now() < deadline, "the process did not start");
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    #[test]
    fn instance_is_started_once_listed_adopted_and_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (first, second) = (engine(folder), engine(folder));
        let spec_a = spec(folder, "a");
        assert!(first.list(folder, "n").unwrap().is_empty());
        first.start(&spec_a).unwrap();
        first.start(&spec_a).unwrap();
        assert!(wait_for_log(&first, folder).starts_with("service run --graph "));
        let listed = second.list(folder, "n").unwrap();
        assert_eq!(listed, first.list(folder, "n").unwrap());
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (&listed[0].state, &listed[0].labels),
            (&InstanceState::Running, &spec_a.labels)
        );
        assert!(second.list(folder, "other").unwrap().is_empty());
        let error = second.start(&spec(folder, "b")).unwrap_err().to_string();
        assert_eq!(
            error,
            "can't start cs~1: one of this name runs with another graph: stop it first"
        );
        assert!(second.remove(folder, "cs~1").unwrap_err().to_string().contains("stop it first"));
        // The second engine is no parent of the process: it stops it all the same.
        let stopped = std::thread::scope(|scope| {
            let reaper = scope.spawn(|| first.stop(folder, "cs~1", LIMIT));
            second.stop(folder, "cs~1", LIMIT).and(reaper.join().unwrap())
        });
        stopped.unwrap();
        assert!(matches!(first.list(folder, "n").unwrap()[0].state, InstanceState::Ended(_)));
        first.remove(folder, "cs~1").unwrap();
        first.remove(folder, "cs~1").unwrap();
        assert!(first.list(folder, "n").unwrap().is_empty());
        assert!(matches!(first.logs(folder, "cs~1", 1), Err(EngineError::Unknown(_))));
    }

    #[test]
    fn instance_whose_id_was_not_recorded_is_found_by_its_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (first, second) = (engine(folder), engine(folder));
        let spec = spec(folder, "a");
        first.start(&spec).unwrap();
        wait_for_log(&first, folder);
        let pid = first.list(folder, "n").unwrap()[0].pid;
        // As if the manager had been killed between the start and the second write.
        let record = Record { labels: spec.labels.clone(), process: None };
        write_record(&spec.instance_directory(), &record).unwrap();
        assert_eq!(second.list(folder, "n").unwrap()[0].pid, pid);
        second.start(&spec).unwrap();
        assert_eq!(second.list(folder, "n").unwrap()[0].pid, pid);
        first.stop(folder, "cs~1", Duration::ZERO).unwrap();
        assert!(matches!(second.list(folder, "n").unwrap()[0].state, InstanceState::Ended(_)));
    }

    #[test]
    fn process_id_of_another_process_is_not_taken_for_the_instance() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let spec = spec(folder, "a");
        fs::create_dir_all(spec.instance_directory()).unwrap();
        let own = std::process::id();
        let started = start_time(own).unwrap();
        let record = Record { labels: spec.labels.clone(), process: Some((own, started + 1)) };
        write_record(&spec.instance_directory(), &record).unwrap();
        let engine = engine(folder);
        assert!(matches!(engine.list(folder, "n").unwrap()[0].state, InstanceState::Ended(_)));
        // Nothing is killed.
        engine.stop(folder, "cs~1", Duration::ZERO).unwrap();
        engine.remove(folder, "cs~1").unwrap();
    }

    #[test]
    fn program_that_does_not_exist_is_reported_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let engine = ProcessEngine::new("/no/such/program".into());
        let error = engine.start(&spec(folder.path(), "a")).unwrap_err().to_string();
        assert!(error.starts_with("can't start /no/such/program: "), "{error}");
    }
}
