//! Runs balancers: `nw balancer run` on a node, with keepalived on each where there are two.

use crate::error::LabError;
use crate::netns;
use crate::node::Node;
use crate::plan::{INSIDE, Net, OUTSIDE, PORT, Plan, Transport};
use crate::process::Running;
use nw_api::balancer::BalancerStatus;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the path of keepalived, which two balancers need.
pub(crate) fn keepalived() -> Result<PathBuf, LabError> {
    netns::find_program("keepalived").ok_or_else(|| {
        LabError::Missing(
            "two balancers need keepalived: install it (apt-get install keepalived)".into(),
        )
    })
}

/// A member as it is passed to a balancer.
#[derive(Clone, Debug)]
pub(crate) struct MemberEntry {
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    pub(crate) port: u16,
    pub(crate) weight: u32,
    pub(crate) socket: PathBuf,
}

/// A node that runs `nw balancer run`.
#[derive(Debug)]
pub struct Balancer {
    process: Option<Running>,
    keepalived: Option<Running>,
    /// The node that the balancer runs on.
    pub node: Node,
    nw: PathBuf,
    control: PathBuf,
    config: PathBuf,
    /// The mount point of the balancer's own bpf file system.
    pins: PathBuf,
}

impl Balancer {
    /// Mounts the bpf file system and writes the configuration, without starting anything.
    pub(crate) fn new(
        node: Node,
        plan: &Plan,
        members: &[MemberEntry],
    ) -> Result<Balancer, LabError> {
        let pins = node.path("bpf");
        fs::create_dir_all(&pins).map_err(LabError::at("make the directory", &pins))?;
        netns::run("mount", &["-t", "bpf", "bpf", &pins.display().to_string()])?;
        let (config, control) = (node.path("balancer.toml"), node.path("balancer.sock"));
        let text = configuration(&node, plan, members, &pins, &control);
        fs::write(&config, text).map_err(LabError::at("write", &config))?;
        Ok(Balancer {
            process: None,
            keepalived: None,
            node,
            nw: plan.nw.clone(),
            control,
            config,
            pins,
        })
    }

    /// Starts `nw balancer run`, or restarts it. The cluster's addresses are assigned by the
    /// caller or by keepalived.
    ///
    /// # Errors
    /// Returns an error if the balancer does not start.
    pub fn start(&mut self) -> Result<(), LabError> {
        self.process = None;
        let mut command = Command::new(&self.nw);
        command.args(["balancer", "run", "--config"]).arg(&self.config).stdout(Stdio::null());
        let mut process = self.node.start("balancer", &mut command)?;
        let control = self.control.clone();
        process.wait_until(START_TIMEOUT, "accepted commands", || {
            std::os::unix::net::UnixStream::connect(&control).is_ok()
        })?;
        self.process = Some(process);
        Ok(())
    }

    /// Starts keepalived, which assigns the cluster's addresses to the running balancer with the
    /// highest priority.
    ///
    /// # Errors
    /// Returns an error if keepalived is not installed or does not start.
    pub fn start_keepalived(&mut self, priority: u8) -> Result<(), LabError> {
        let file = self.node.path("keepalived.conf");
        let keepalived_config = self.command(
            &["vrrp", "--priority", &priority.to_string(), "--config"],
            Some(&self.config),
        )?;
        fs::write(&file, keepalived_config).map_err(LabError::at("write", &file))?;
        let mut command = Command::new(keepalived()?);
        command.args(["--dont-fork", "--log-console", "--vrrp", "--use-file"]).arg(&file);
        command.arg("--pid").arg(self.node.path("keepalived.pid"));
        command.arg("--vrrp_pid").arg(self.node.path("vrrp.pid")).stdout(Stdio::null());
        self.keepalived = Some(self.node.start("keepalived", &mut command)?);
        Ok(())
    }

    /// Simulates a failure of the node: kills both processes and sets the links down.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn fail(&mut self) -> Result<(), LabError> {
        for link in [OUTSIDE, INSIDE] {
            self.node.batch(&format!("link set {link} down\n"))?;
        }
        if let Some(keepalived) = &mut self.keepalived {
            keepalived.kill();
        }
        self.kill();
        Ok(())
    }

    /// Kills `nw balancer run`. The kernel programs continue to run.
    pub fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill();
        }
    }

    /// Returns true while `nw balancer run` runs.
    pub fn is_running(&self) -> bool {
        self.process.as_ref().is_some_and(Running::is_alive)
    }

    pub(crate) fn failure(&self, said: &str) -> LabError {
        let running = self.keepalived.as_ref().or(self.process.as_ref());
        running.expect("something was started").failure(said)
    }

    /// Returns the balancer's process, or `None` if it was never started.
    pub fn process(&self) -> Option<&Running> {
        self.process.as_ref()
    }

    /// Returns true if this balancer has the cluster's addresses.
    ///
    /// # Errors
    /// Returns an error if the addresses can't be read.
    pub fn is_active(&self) -> Result<bool, LabError> {
        let output = netns::run(
            "ip",
            &["-n", &self.node.netns, "-brief", "address", "show", "dev", OUTSIDE],
        )?;
        let own = format!("{}/", Net::Consumers.gateway().v4);
        Ok(output.split_whitespace().any(|word| word.starts_with(&own)))
    }

    /// Returns the status of the balancer and its members.
    ///
    /// # Errors
    /// Returns an error if the balancer does not answer.
    pub fn status(&self) -> Result<BalancerStatus, LabError> {
        let output = self.command(&["status", "--json", "--control"], Some(&self.control))?;
        serde_json::from_str(&output).map_err(|error| LabError::Program {
            what: format!("the balancer on {}", self.node.name),
            said: format!("its status can't be read: {error}"),
        })
    }

    /// Waits until the status fulfils a condition.
    ///
    /// # Errors
    /// Returns an error if the condition is not fulfilled within 30 seconds.
    pub fn wait_until(
        &self,
        what: &str,
        mut holds: impl FnMut(&BalancerStatus) -> bool,
    ) -> Result<BalancerStatus, LabError> {
        let end = Instant::now() + START_TIMEOUT;
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
                        "not within {START_TIMEOUT:?}: {what}; members: {}; warnings: {:?}",
                        members.collect::<Vec<_>>().join(", "),
                        status.warnings
                    ),
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    pub(crate) fn add(&self, member: &MemberEntry) -> Result<(), LabError> {
        let port = member.port.to_string();
        let weight = member.weight.to_string();
        let router = member.socket.display().to_string();
        let mut words =
            vec!["add", &member.name, "--port", &port, "--weight", &weight, "--socket", &router];
        for address in &member.addresses {
            words.extend(["--address", address]);
        }
        words.push("--control");
        self.command(&words, Some(&self.control)).map(drop)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), LabError> {
        self.command(&["remove", name, "--control"], Some(&self.control)).map(drop)
    }

    /// Runs `nw balancer …` and returns its output. The path is the last argument.
    ///
    /// # Errors
    /// Returns the command's error output if it fails.
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

    /// Returns the path of the control socket, for `nw balancer … --control`.
    pub fn control(&self) -> &Path {
        &self.control
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.keepalived = None;
        self.process = None;
        let _ = netns::run("umount", &["--lazy", &self.pins.display().to_string()]);
    }
}

fn configuration(
    node: &Node,
    plan: &Plan,
    members: &[MemberEntry],
    pins: &Path,
    control: &Path,
) -> String {
    let addresses = |net: Net| {
        let gateway = net.gateway();
        let v6 = plan.has_ipv6().then(|| (gateway.v6.to_string(), 64));
        [Some((gateway.v4.to_string(), 24)), v6].into_iter().flatten()
    };
    let cluster_addresses: Vec<_> = addresses(Net::Consumers).map(|(address, _)| address).collect();
    let networks = |nets: &[Net]| -> Vec<String> {
        nets.iter()
            .flat_map(|net| addresses(*net))
            .map(|(address, bits)| format!("{address}/{bits}"))
            .collect()
    };
    let state_dir = node.path("balancer");
    let first = members.first().map(|member| &member.name).expect("a cluster has a member");
    let mut text = format!(
        "[cluster]\nname = \"lab\"\naddresses = {cluster_addresses:?}\nport = {PORT}\ninterfaces = [\"{OUTSIDE}\", \"{INSIDE}\"]\n\
         control_member = {first:?}\nsecret = \"a laboratory has no secrets\"\nstate_dir = {state_dir:?}\nbpffs_dir = {pins:?}\n"
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
