//! Members as processes: `nw run` with a generated configuration, perhaps in a network namespace.

use super::{LaunchError, MemberLauncher, member_name};
use crate::config::{Elastic, MemberItem, Weight};
use nw_api::config::file::{TEXT_MAX, read_text};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A router that has not exited this long after SIGTERM is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

enum Running {
    Child(Child),
    /// Started by an earlier balancer, so not a child of this process.
    Adopted(Pid),
}

/// Starts members' routers as processes.
pub struct ProcessLauncher {
    elastic: Elastic,
    program: PathBuf,
    directory: PathBuf,
    running: BTreeMap<String, Running>,
}

impl ProcessLauncher {
    /// Creates a launcher of `program` (usually this one, `nw`), with files in `directory`.
    pub const fn new(elastic: Elastic, program: PathBuf, directory: PathBuf) -> Self {
        ProcessLauncher { elastic, program, directory, running: BTreeMap::new() }
    }

    fn member(&self, number: u32) -> Result<MemberItem, LaunchError> {
        let address =
            (number as usize).checked_sub(1).and_then(|at| self.elastic.addresses.get(at));
        let address = *address.ok_or_else(|| {
            LaunchError(format!(
                "there is no address for router {number}: add one to elastic.addresses"
            ))
        })?;
        let name = member_name(number);
        Ok(MemberItem {
            addresses: vec![address],
            port: self.elastic.port_first + number - 1,
            weight: Weight::Fixed(100),
            control: Some(self.directory.join(format!("{name}.sock"))),
            external_routes: false,
            name,
        })
    }

    fn configuration(&self, member: &MemberItem) -> Result<String, LaunchError> {
        let additional = match &self.elastic.router_config {
            Some(path) => read_text(path, TEXT_MAX)
                .map_err(|error| LaunchError(format!("elastic.router_config: {error}")))?,
            None => String::new(),
        };
        let socket = member.control.clone().unwrap_or_default();
        let listen = SocketAddr::new(member.addresses[0].0, member.port as u16);
        Ok(format!(
            "# Made by a balancer for its member {}.\n[faces.unix]\npath = {socket:?}\n\
             [faces.udp]\nlisten = [\"{listen}\"]\n[faces.tcp]\nlisten = []\n{additional}",
            member.name
        ))
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.directory.join(format!("{name}.{extension}"))
    }
}

impl MemberLauncher for ProcessLauncher {
    fn start(&mut self, number: u32) -> Result<(MemberItem, Option<u32>), LaunchError> {
        let member = self.member(number)?;
        let failed = |what: &str, path: &Path, error| {
            LaunchError(format!("can't {what} {}: {error}", path.display()))
        };
        fs::create_dir_all(&self.directory)
            .map_err(|error| failed("make", &self.directory, error))?;
        let config = self.path(&member.name, "toml");
        fs::write(&config, self.configuration(&member)?)
            .map_err(|error| failed("write", &config, error))?;
        let log = self.path(&member.name, "log");
        let log_file = fs::File::create(&log).map_err(|error| failed("write", &log, error))?;
        let with_number = |argument: &String| argument.replace("{number}", &number.to_string());
        let mut arguments = self.elastic.prefix.iter().map(with_number).collect::<Vec<_>>();
        arguments.push(self.program.display().to_string());
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).arg("run").arg("-c").arg(&config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_file);
        let child = command.spawn().map_err(|error| {
            LaunchError(format!("can't start {}: {error}", arguments.join(" ")))
        })?;
        let process = child.id();
        self.running.insert(member.name.clone(), Running::Child(child));
        Ok((member, Some(process)))
    }

    fn adopt(&mut self, member: &MemberItem, process: u32) -> bool {
        // The process id may have been reused: the command line shows whether it is the router.
        let config = self.path(&member.name, "toml").display().to_string();
        let command_line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let is_router =
            command_line.split(|byte| *byte == 0).any(|argument| argument == config.as_bytes());
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw).filter(|_| is_router);
        if let Some(pid) = pid {
            self.running.insert(member.name.clone(), Running::Adopted(pid));
        }
        pid.is_some()
    }

    fn stop(&mut self, name: &str) {
        match self.running.remove(name) {
            Some(Running::Child(mut child)) => {
                terminate(pid_of(&child));
                let deadline = Instant::now() + EXIT_TIMEOUT;
                while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // Fails if it has exited already.
                let _ = child.kill();
                let _ = child.wait();
            }
            Some(Running::Adopted(pid)) => terminate(Some(pid)),
            None => {}
        }
        for extension in ["toml", "sock"] {
            let _ = fs::remove_file(self.path(name, extension));
        }
    }

    fn take_exited(&mut self) -> Vec<String> {
        let has_exited = |running: &mut Running| match running {
            Running::Child(child) => !matches!(child.try_wait(), Ok(None)),
            Running::Adopted(pid) => test_kill_process(*pid).is_err(),
        };
        let exited: Vec<String> = self
            .running
            .iter_mut()
            .filter_map(|(name, running)| has_exited(running).then(|| name.clone()))
            .collect();
        exited.iter().for_each(|name| drop(self.running.remove(name)));
        exited
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

fn terminate(pid: Option<Pid>) {
    // Fails if it has exited already.
    let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Ip;
    use std::os::unix::fs::PermissionsExt;

    /// A launcher of a program that writes its arguments to its log and sleeps.
    fn launcher(directory: &Path) -> ProcessLauncher {
        let program = directory.join("program");
        fs::write(&program, "#!/bin/sh\necho \"$@\" >&2\nexec sleep 60\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let elastic = Elastic {
            addresses: vec![Ip([10, 0, 0, 21].into())],
            prefix: vec!["env".to_owned(), "NUMBER={number}".to_owned()],
            ..Elastic::default()
        };
        ProcessLauncher::new(elastic, program, directory.join("files"))
    }

    #[test]
    fn process_is_started_and_stopped_and_only_a_router_is_adopted() {
        let directory = tempfile::tempdir().unwrap();
        // Both are created before anything runs: a program that is being started can't be written.
        let (mut first, mut second) = (launcher(directory.path()), launcher(directory.path()));
        let (member, process) = first.start(1).unwrap();
        assert_eq!((member.name.as_str(), member.port), ("e1", 6500));
        let text = fs::read_to_string(directory.path().join("files/e1.toml")).unwrap();
        assert!(text.contains("listen = [\"10.0.0.21:6500\"]"), "{text}");
        assert!(first.take_exited().is_empty());
        assert!(first.start(2).unwrap_err().to_string().contains("add one to elastic.addresses"));
        // The shell has become `sleep`, with another command line: it is not taken for a router.
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::read_to_string(directory.path().join("files/e1.log")).unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the process did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(50));
        assert!(!second.adopt(&member, process.unwrap()));
        first.stop("e1");
        let pid = Pid::from_raw(process.unwrap() as i32).unwrap();
        assert!(test_kill_process(pid).is_err(), "the process has not exited");
        assert!(!directory.path().join("files/e1.toml").exists());
        first.stop("e1");
    }

    #[test]
    fn process_that_exits_is_reported_once() {
        let directory = tempfile::tempdir().unwrap();
        let mut launcher = launcher(directory.path());
        launcher.program = "/bin/false".into();
        launcher.start(1).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let ended = launcher.take_exited();
            if !ended.is_empty() {
                assert_eq!(ended, ["e1"]);
                break;
            }
            assert!(Instant::now() < deadline, "the exit is not reported in time");
            std::thread::sleep(Duration::from_millis(10));
        }
        launcher.program = "/no/such/program".into();
        launcher.elastic.prefix.clear();
        assert!(
            launcher.start(1).unwrap_err().to_string().starts_with("can't start /no/such/program")
        );
    }
}
