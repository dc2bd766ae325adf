//! Balancers: `nw balancer run` on a node of their own; where there are two, keepalived on each.

use crate::error::LabError;
use crate::node::Node;
use crate::plan::{INSIDE, Net, OUTSIDE, PORT, Plan, Transport};
use crate::process::Running;
use crate::space;
use nw_api::balancer::BalancerStatus;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

/// The program that two balancers need.
pub(crate) fn keepalived() -> Result<PathBuf, LabError> {
    space::find("keepalived").ok_or_else(|| {
        LabError::Missing("two balancers need keepalived: install it (apt-get install keepalived)".into())
    })
}

/// A member as a balancer is told of it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) port: u16,
    pub(crate) weight: u32,
    pub(crate) socket: PathBuf,
}

/// A machine with `nw balancer run`.
#[derive(Debug)]
pub struct Balancer {
    process: Option<Running>,
    keepalived: Option<Running>,
    /// Its machine.
    pub node: Node,
    nw: PathBuf,
    control: PathBuf,
    config: PathBuf,
    /// The folder of a file system of its own for what is in the kernel.
    pins: PathBuf,
}

impl Balancer {
    /// Writes the configuration; nothing runs yet.
    pub(crate) fn new(node: Node, plan: &Plan, members: &[Entry]) -> Result<Balancer, LabError> {
        let pins = node.path("bpf");
        fs::create_dir_all(&pins).map_err(LabError::at("make the folder", &pins))?;
        space::ask("mount", &["-t", "bpf", "bpf", &pins.display().to_string()])?;
        let (config, control) = (node.path("balancer.toml"), node.path("balancer.sock"));
        let text = configuration(&node, plan, members, &pins, &control);
        fs::write(&config, text).map_err(LabError::at("write", &config))?;
        Ok(Balancer { process: None, keepalived: None, node, nw: plan.nw.clone(), control, config, pins })
    }

    /// Starts `nw balancer run`, anew if it ended. The addresses that others know are the caller's business, or keepalived's.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&mut self) -> Result<(), LabError> {
        self.process = None;
        let mut command = Command::new(&self.nw);
        command.args(["balancer", "run", "--config"]).arg(&self.config).stdout(Stdio::null());
        let mut process = self.node.start("balancer", &mut command)?;
        let control = self.control.clone();
        process.wait_until(PATIENCE, "takes commands", || {
            std::os::unix::net::UnixStream::connect(&control).is_ok()
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Starts keepalived, which gives the addresses that others know to the balancer with the highest priority that works.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start_keepalived(&mut self, priority: u8) -> Result<(), LabError> {
        let file = self.node.path("keepalived.conf");
        let made =
            self.command(&["vrrp", "--priority", &priority.to_string(), "--config"], Some(&self.config))?;
        fs::write(&file, made).map_err(LabError::at("write", &file))?;
        let mut command = Command::new(keepalived()?);
        command.args(["--dont-fork", "--log-console", "--vrrp", "--use-file"]).arg(&file);
        command.arg("--pid").arg(self.node.path("keepalived.pid"));
        command.arg("--vrrp_pid").arg(self.node.path("vrrp.pid")).stdout(Stdio::null());
        self.keepalived = Some(self.node.start("keepalived", &mut command)?);
        Ok(())
    }

    /// Kills keepalived and the process, and cuts its links: the machine has broken down.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn break_down(&mut self) -> Result<(), LabError> {
        for link in [OUTSIDE, INSIDE] {
            self.node.batch(&format!("link set {link} down\n"))?;
        }
        if let Some(keepalived) = &mut self.keepalived {
            keepalived.kill();
        }
        self.kill();
        Ok(())
    }

    /// Kills `nw balancer run` without a word. What is in the kernel goes on.
    pub fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill();
        }
    }

    /// True while `nw balancer run` runs.
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Running::is_alive)
    }

    pub(crate) fn complaint(&self, said: &str) -> LabError {
        let running = self.keepalived.as_ref().or(self.process.as_ref());
        running.expect("something was started").complaint(said)
    }

    /// Its process, unless it was never started.
    pub fn process(&self) -> Option<&Running> {
        self.process.as_ref()
    }

    /// True when it has the addresses that others know.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn is_active(&self) -> Result<bool, LabError> {
        let shown = space::ask("ip", &["-n", &self.node.space, "-brief", "address", "show", "dev", OUTSIDE])?;
        let own = format!("{}/", Net::Consumers.gateway().v4);
        Ok(shown.split_whitespace().any(|word| word.starts_with(&own)))
    }

    /// How it and its members are.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> Result<BalancerStatus, LabError> {
        let said = self.command(&["status", "--json", "--control"], Some(&self.control))?;
        serde_json::from_str(&said).map_err(|error| LabError::Program {
            what: format!("the balancer on {}", self.node.name),
            said: format!("its status can't be read: {error}"),
        })
    }

    /// Waits until it says so.
    ///
    /// # Errors
    /// When it does not within 30 s.
    pub fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&BalancerStatus) -> bool,
    ) -> Result<BalancerStatus, LabError> {
        let end = Instant::now() + PATIENCE;
        loop {
            let status = self.status()?;
            if holds(&status) {
                return Ok(status);
            }
            if Instant::now() > end {
                let members = status.members.iter().map(|member| {
                    format!(
                        "{} {}{}",
                        member.name,
                        member.state,
                        member.trouble.as_deref().map(|t| format!(" ({t})")).unwrap_or_default()
                    )
                });
                return Err(LabError::Program {
                    what: format!("the balancer on {}", self.node.name),
                    said: format!(
                        "not within {PATIENCE:?}: {what}; members: {}; warnings: {:?}",
                        members.collect::<Vec<_>>().join(", "),
                        status.warnings
                    ),
                });
            }
            std::thread::sleep(STEP);
        }
    }

    pub(crate) fn add(&self, member: &Entry) -> Result<(), LabError> {
        let port = member.port.to_string();
        let weight = member.weight.to_string();
        let router = member.socket.display().to_string();
        let mut words = vec!["add", &member.name, "--port", &port, "--weight", &weight, "--socket", &router];
        for address in &member.addresses {
            words.extend(["--address", address]);
        }
        words.push("--control");
        self.command(&words, Some(&self.control)).map(drop)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), LabError> {
        self.command(&["remove", name, "--control"], Some(&self.control)).map(drop)
    }

    /// What `nw balancer …` says; the path goes last.
    ///
    /// # Errors
    /// When it fails: its last words.
    pub fn command(&self, words: &[&str], path: Option<&Path>) -> Result<String, LabError> {
        let mut command = Command::new(&self.nw);
        command.arg("balancer").args(words).stdin(Stdio::null());
        command.args(path);
        let what = format!("nw balancer {}", words.first().unwrap_or(&""));
        let output = command
            .output()
            .map_err(|source| LabError::Io { what: format!("can't start {what}"), source })?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(LabError::Program {
                what,
                said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            }),
        }
    }

    /// The control socket, for `nw balancer … --control`.
    pub fn control(&self) -> &Path {
        &self.control
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.keepalived = None;
        self.process = None;
        let _ = space::ask("umount", &["--lazy", &self.pins.display().to_string()]);
    }
}

fn configuration(node: &Node, plan: &Plan, members: &[Entry], pins: &Path, control: &Path) -> String {
    let both = |net: Net| {
        let gateway = net.gateway();
        let v6 = plan.has_v6().then(|| (gateway.v6.to_string(), 64));
        [Some((gateway.v4.to_string(), 24)), v6].into_iter().flatten()
    };
    let bare: Vec<_> = both(Net::Consumers).map(|(address, _)| address).collect();
    let networks = |nets: &[Net]| -> Vec<String> {
        nets.iter().flat_map(|net| both(*net)).map(|(address, bits)| format!("{address}/{bits}")).collect()
    };
    let folder = node.path("balancer");
    let first = members.first().map(|member| &member.name).expect("a cluster has a member");
    let mut text = format!(
        "[cluster]\nname = \"lab\"\naddresses = {bare:?}\nport = {PORT}\ninterfaces = [\"{OUTSIDE}\", \"{INSIDE}\"]\n\
         control_member = {first:?}\nsecret = \"a laboratory has no secrets\"\nfolder = {folder:?}\npin = {pins:?}\n"
    );
    if plan.transport == Transport::Ethernet {
        let _ = writeln!(text, "ethernet_outside = \"{OUTSIDE}\"\nethernet_inside = \"{INSIDE}\"");
    }
    let _ = writeln!(text, "[control]\npath = {control:?}");
    let _ = writeln!(
        text,
        "[vrrp]\noutside = \"{OUTSIDE}\"\noutside_addresses = {:?}\ninside = \"{INSIDE}\"\ninside_addresses = {:?}\nadvertise_ms = 250",
        networks(&[Net::Consumers, Net::Producers]),
        networks(&[Net::Members])
    );
    for member in members {
        let _ = writeln!(
            text,
            "[[member]]\nname = {:?}\naddresses = {:?}\nport = {}\nweight = {}\ncontrol = {:?}",
            member.name, member.addresses, member.port, member.weight, member.socket
        );
    }
    for (prefix, depth) in &plan.depth_rules {
        let _ = writeln!(text, "[[rule]]\nprefix = \"{prefix}\"\ndepth = {depth}");
    }
    text + &plan.balancer_config
}
