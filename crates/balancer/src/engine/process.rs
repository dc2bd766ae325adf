//! Members as processes: `nw run` with a configuration of its own, perhaps in a network namespace.

use super::{Engine, EngineError, name_of};
use crate::config::{Elastic, MemberItem, Weight};
use nw_api::config::file::{TEXT_MAX, read_text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A router that does not end after a word is killed after this.
const PATIENCE: Duration = Duration::from_secs(3);

enum Running {
    Child(Child),
    /// Of an earlier balancer: no child of ours.
    Adopted(Pid),
}

/// See the module.
pub struct ProcessEngine {
    elastic: Elastic,
    program: PathBuf,
    folder: PathBuf,
    running: BTreeMap<String, Running>,
}

impl ProcessEngine {
    /// Starts `program` (this one, `nw`), with files in `folder`.
    pub const fn new(elastic: Elastic, program: PathBuf, folder: PathBuf) -> Self {
        ProcessEngine { elastic, program, folder, running: BTreeMap::new() }
    }

    fn member(&self, number: u32) -> Result<MemberItem, EngineError> {
        let address = (number as usize).checked_sub(1).and_then(|at| self.elastic.addresses.get(at));
        let address = *address.ok_or_else(|| {
            EngineError(format!("there is no address for router {number}: add one to elastic.addresses"))
        })?;
        let name = name_of(number);
        Ok(MemberItem {
            addresses: vec![address],
            port: self.elastic.port_first + number - 1,
            weight: Weight::Fixed(100),
            control: Some(self.folder.join(format!("{name}.sock"))),
            own_routes: false,
            name,
        })
    }

    fn configuration(&self, member: &MemberItem) -> Result<String, EngineError> {
        let more = match &self.elastic.router_config {
            Some(path) => read_text(path, TEXT_MAX)
                .map_err(|error| EngineError(format!("elastic.router_config: {error}")))?,
            None => String::new(),
        };
        let socket = member.control.clone().unwrap_or_default();
        let listen = SocketAddr::new(member.addresses[0].0, member.port as u16);
        Ok(format!(
            "# Made by a balancer for its member {}.\n[faces.unix]\npath = {socket:?}\n[faces.udp]\nlisten = [\"{listen}\"]\n[faces.tcp]\nlisten = []\n{more}",
            member.name
        ))
    }

    fn path(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }
}

impl Engine for ProcessEngine {
    fn start(&mut self, number: u32) -> Result<(MemberItem, Option<u32>), EngineError> {
        let member = self.member(number)?;
        let failed =
            |what: &str, path: &Path, error| EngineError(format!("can't {what} {}: {error}", path.display()));
        fs::create_dir_all(&self.folder).map_err(|error| failed("make", &self.folder, error))?;
        let config = self.path(&member.name, "toml");
        fs::write(&config, self.configuration(&member)?).map_err(|error| failed("write", &config, error))?;
        let log = self.path(&member.name, "log");
        let log_file = fs::File::create(&log).map_err(|error| failed("write", &log, error))?;
        let with_number = |word: &String| word.replace("{number}", &number.to_string());
        let mut words = self.elastic.prefix.iter().map(with_number).collect::<Vec<_>>();
        words.push(self.program.display().to_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("run").arg("-c").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        let child = command
            .spawn()
            .map_err(|error| EngineError(format!("can't start {}: {error}", words.join(" "))))?;
        let process = child.id();
        self.running.insert(member.name.clone(), Running::Child(child));
        Ok((member, Some(process)))
    }

    fn adopt(&mut self, member: &MemberItem, process: u32) -> bool {
        // The number may be another process' by now.
        let config = self.path(&member.name, "toml").display().to_string();
        let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let is_ours = words.split(|octet| *octet == 0).any(|word| word == config.as_bytes());
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).filter(|_| is_ours);
        if let Some(pid) = pid {
            self.running.insert(member.name.clone(), Running::Adopted(pid));
        }
        pid.is_some()
    }

    fn stop(&mut self, name: &str) {
        match self.running.remove(name) {
            Some(Running::Child(mut child)) => {
                end(pid_of(&child));
                let deadline = Instant::now() + PATIENCE;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // It has ended, or does not: either way there is nothing to be done about an error.
                let _ = child.kill();
                let _ = child.wait();
            }
            Some(Running::Adopted(pid)) => end(Some(pid)),
            None => {}
        }
        for ending in ["toml", "sock"] {
            let _ = fs::remove_file(self.path(name, ending));
        }
    }

    fn ended(&mut self) -> Vec<String> {
        let is_over = |running: &mut Running| match running {
            Running::Child(child) => !matches!(child.try_wait(), Ok(None)),
            Running::Adopted(pid) => test_kill_process(*pid).is_err(),
        };
        let over: Vec<String> =
            self.running.iter_mut().filter_map(|(name, it)| is_over(it).then(|| name.clone())).collect();
        over.iter().for_each(|name| drop(self.running.remove(name)));
        over
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn end(pid: Option<Pid>) {
    // It may have ended by itself.
    let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Ip;
    use std::os::unix::fs::PermissionsExt;

    /// A program that says its words and sleeps.
    fn engine(folder: &Path) -> ProcessEngine {
        let program = folder.join("program");
        fs::write(&program, "#!/bin/sh\necho \"$@\" >&2\nexec sleep 60\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let elastic = Elastic {
            addresses: vec![Ip([10, 0, 0, 21].into())],
            prefix: vec!["env".to_owned(), "NUMBER={number}".to_owned()],
            ..Elastic::default()
        };
        ProcessEngine::new(elastic, program, folder.join("files"))
    }

    #[test]
    fn a_process_is_started_adopted_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        // Both before anything runs: a program that is being started can't be written.
        let (mut first, mut second) = (engine(folder.path()), engine(folder.path()));
        let (member, process) = first.start(1).unwrap();
        assert_eq!((member.name.as_str(), member.port), ("e1", 6500));
        let text = fs::read_to_string(folder.path().join("files/e1.toml")).unwrap();
        assert!(text.contains("listen = [\"10.0.0.21:6500\"]"), "{text}");
        assert!(first.ended().is_empty());
        assert!(first.start(2).unwrap_err().to_string().contains("add one to elastic.addresses"));
        // A shell that was started becomes `sleep`, whose words are others: that is no router of ours.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::read_to_string(folder.path().join("files/e1.log")).unwrap().is_empty() {
            assert!(Instant::now() < deadline, "it never began");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.adopt(&member, process.unwrap()));
        first.stop("e1");
        let pid = Pid::from_raw(process.unwrap() as i32).unwrap();
        assert!(test_kill_process(pid).is_err(), "it has ended");
        assert!(!folder.path().join("files/e1.toml").exists());
        first.stop("e1");
    }

    #[test]
    fn one_that_ends_by_itself_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = engine(folder.path());
        engine.program = "/bin/false".into();
        engine.start(1).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let ended = engine.ended();
            if !ended.is_empty() {
                assert_eq!(ended, ["e1"]);
                break;
            }
            assert!(Instant::now() < deadline, "it is told in time");
            std::thread::sleep(Duration::from_millis(10));
        }
        engine.program = "/no/such/program".into();
        engine.elastic.prefix.clear();
        assert!(engine.start(1).unwrap_err().to_string().starts_with("can't start /no/such/program"));
    }
}
