//! `nw balancer agent`: connects the router of a member on this machine to a balancer on another
//! one.

use super::BalancerArgs;
use super::client::BalancerClient;
use super::membership::Membership;
use crate::exit::{self, Status};
use crate::logs::Levels;
use crate::observe::http::ControlAddress;
use crate::output::describe;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::Args;
use core::time::Duration;
use nw_agent::{AgentError, ManagerClient, enrol, is_enrolled};
use nw_api::balancer::{AgentOrder, AgentReport, MemberWanted};
use nw_api::config::LogFormat;
use nw_balancer::agent::{Agent, BalancerConnection, ConnectionError, Snapshot};
use nw_balancer::probe;
use nw_balancer::remote_agents::ClusterInfo;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Name of the member at the balancer
    pub member: String,
    /// Address for agents of a balancer on another machine, which is reached by TLS
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["control", "token_file"])]
    pub balancer: Option<String>,
    /// Enrol with this token first; `-` reads it from standard input
    #[arg(long, value_name = "TOKEN", requires = "balancer")]
    pub enrol: Option<String>,
    /// Keep the certificate of an earlier enrolment, if there is one
    #[arg(long, requires = "enrol")]
    pub enrol_once: bool,
    /// Enrol with the token in this file, that of the member's group
    ///
    /// The agent enrols when it has no certificate that the balancer accepts: at first, and again
    /// by itself if the balancer has another authority or the certificate has expired. The file is
    /// read again each time.
    #[arg(long, value_name = "FILE", requires = "balancer", conflicts_with = "enrol")]
    pub enrol_file: Option<PathBuf>,
    /// Folder for the agent's key and certificate; default: /var/lib/namewire/agents/MEMBER
    #[arg(long, value_name = "FOLDER", requires = "balancer")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub local: BalancerArgs,
    /// Unix socket of the member's router on this machine
    #[arg(long, value_name = "PATH", default_value = "/run/nfd/nfd.sock")]
    pub socket: PathBuf,
    /// Join the cluster with this address of the member, and leave it at the end
    ///
    /// One of each address family of the cluster. An older entry of the same name is replaced, and
    /// a balancer that does not run yet is waited for. At the end, the balancer first gives the
    /// member's names to others.
    #[arg(long, value_name = "ADDRESS", requires = "port")]
    pub address: Vec<IpAddr>,
    /// UDP port of the member, with --address
    #[arg(long, requires = "address", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Join without the routes of the control member: the router has its own
    #[arg(long, requires = "address")]
    pub external_routes: bool,
    /// Seconds in which the member leaves at the end, with --address
    #[arg(long, value_name = "S", default_value_t = 20, requires = "address")]
    pub leave_within: u64,
    /// Log level: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// Interval of reports without changes.
const REPORT_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the router's routes are compared again.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum interval of queries for routes.
const QUERY_INTERVAL: Duration = Duration::from_millis(200);
/// Interval at which the end of the program is looked for.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two attempts to reach a balancer that does not run yet.
const RETRY: Duration = Duration::from_millis(200);
/// Folder of the agents' certificates.
const STATE_FOLDER: &str = "/var/lib/namewire/agents";

/// The connection to the balancer.
struct RemoteBalancer {
    client: BalancerClient,
    membership: Option<Membership>,
    queried_at: Option<std::time::Instant>,
    /// The last error that was logged and still holds.
    error: Option<String>,
}

/// Runs `nw balancer agent`.
pub fn agent(args: &AgentArgs) -> Result<ExitCode> {
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    let stop_flag = StopFlag::watch()?;
    let client = args.client()?;
    let membership = args.membership(&client);
    if let Some(membership) = &membership
        && !membership.join(&stop_flag)?
    {
        return Ok(ExitCode::SUCCESS);
    }
    let Some(cluster) = args.find_cluster(&client, &stop_flag)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let router = args.socket.display();
    tracing::info!(member = args.member, %router, balancer = %client, "running");
    let lead =
        RemoteBalancer { client, membership: membership.clone(), queried_at: None, error: None };
    let agent = Agent {
        router_socket: args.socket.clone(),
        probe_prefix: probe::prefix(&cluster.name, &args.member),
        cluster: cluster.addresses,
        report_interval: REPORT_INTERVAL,
        resync_interval: RESYNC_INTERVAL,
        stop: match membership {
            Some(membership) => stop_after_leaving(stop_flag, membership),
            None => stop_flag.flag(),
        },
        balancer: lead,
    };
    agent.run();
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

impl AgentArgs {
    /// Returns the client of the balancer, after enrolling if that is wanted.
    fn client(&self) -> Result<BalancerClient> {
        let Some(balancer) = &self.balancer else {
            let address = self.local.address()?;
            if matches!(address, ControlAddress::Tcp(..)) {
                tracing::warn!(
                    "{address} is reached without TLS, and the token allows every command; on a \
                     machine of its own or in a pod, use --balancer and a token of `nw balancer \
                     host add`"
                );
            }
            return Ok(BalancerClient::control(&self.member, address));
        };
        let folder = self.state.clone();
        let folder = folder.unwrap_or_else(|| PathBuf::from(STATE_FOLDER).join(&self.member));
        if let Some(token_file) = &self.enrol_file {
            let client = ManagerClient::open_in_group(&folder, balancer, &self.member, token_file)?;
            return Ok(BalancerClient::enrolled(&self.member, client));
        }
        let is_kept = self.enrol_once && is_enrolled(&folder);
        if let Some(token) = self.enrol.as_ref().filter(|_| !is_kept) {
            let token = match token.as_str() {
                "-" => std::io::read_to_string(std::io::stdin()).context("can't read the token")?,
                token => token.to_owned(),
            };
            let host = enrol(&folder, balancer, &token)?;
            tracing::info!("enrolled as {host}; the certificate is in {}", folder.display());
        }
        let client = ManagerClient::open(&folder, Some(balancer))?;
        if client.host() != self.member {
            let (found, wanted) = (client.host().to_owned(), self.member.clone());
            return Err(AgentError::OtherHost { found, wanted }.into());
        }
        Ok(BalancerClient::enrolled(&self.member, client))
    }

    /// Returns the cluster, whose balancer knows the member. An enrolled agent waits for a balancer
    /// that does not run yet. `None` if it was stopped.
    fn find_cluster(
        &self,
        client: &BalancerClient,
        stop_flag: &StopFlag,
    ) -> Result<Option<ClusterInfo>> {
        let mut logged = String::new();
        while !stop_flag.is_set() {
            let found = client.cluster().and_then(|cluster| Ok((cluster, client.entry()?)));
            match found {
                Ok((cluster, Some(_))) => return Ok(Some(cluster)),
                Ok((_, None)) => bail!(
                    "there is no member {:?} at {client}: add it there first, with `nw balancer \
                     add` or in the configuration",
                    self.member
                ),
                Err(error)
                    if self.balancer.is_some() && exit::status(&error) == Status::Unreachable =>
                {
                    let text = describe(&error);
                    if logged != text {
                        tracing::warn!("{text}; trying again");
                        logged = text;
                    }
                    std::thread::sleep(RETRY);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    fn membership(&self, client: &BalancerClient) -> Option<Membership> {
        let wanted = MemberWanted {
            name: self.member.clone(),
            addresses: self.address.clone(),
            port: self.port?,
            weight: None,
            control: None,
            external_routes: self.external_routes,
        };
        let leave_within = Duration::from_secs(self.leave_within);
        let is_leaving = Arc::default();
        Some(Membership { balancer: client.clone(), wanted, leave_within, is_leaving })
    }
}

/// Returns a flag that is set when the member has left, which it does when `stop_flag` is set. The
/// agent runs until then, because the balancer asks it for pending Interests.
fn stop_after_leaving(stop_flag: StopFlag, membership: Membership) -> Arc<AtomicBool> {
    let has_left = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_left);
    std::thread::spawn(move || {
        while !stop_flag.is_set() {
            std::thread::sleep(STOP_INTERVAL);
        }
        if let Err(error) = membership.leave() {
            tracing::warn!("{}", describe(&error));
        }
        flag.store(true, Ordering::Relaxed);
    });
    has_left
}

impl RemoteBalancer {
    fn query_replica(&self, known: u64) -> Result<Option<Arc<Snapshot>>> {
        let Some(replica) = self.client.replica(known)? else { return Ok(None) };
        Ok(Some(Arc::new(Snapshot::from_replica(&replica).map_err(anyhow::Error::msg)?)))
    }

    /// Logs an error when it first occurs, and when it is over.
    fn log_errors<T>(&mut self, result: Result<T>) -> Result<T, ConnectionError> {
        match result {
            Ok(value) => {
                if self.error.take().is_some() {
                    tracing::info!("the balancer answers again");
                }
                Ok(value)
            }
            Err(error) => {
                let text = describe(&error);
                if self.error.as_ref() != Some(&text) {
                    tracing::warn!("{text}");
                    self.error = Some(text.clone());
                }
                Err(ConnectionError(text))
            }
        }
    }
}

impl BalancerConnection for RemoteBalancer {
    fn newer_snapshot(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, ConnectionError> {
        if self.queried_at.is_some_and(|at| at.elapsed() < QUERY_INTERVAL) {
            return Ok(None);
        }
        self.queried_at = Some(std::time::Instant::now());
        let result = self.query_replica(known);
        self.log_errors(result)
    }

    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, ConnectionError> {
        if let Some(trouble) = &report.trouble {
            tracing::warn!("{trouble}");
        }
        let result = self.client.report(report);
        // A balancer that was started anew does not know members that joined by themselves.
        if let (Err(error), Some(membership)) = (&result, &self.membership)
            && exit::status(error) == Status::NotFound
            && let Err(error) = membership.rejoin()
        {
            tracing::warn!("{}", describe(&error));
        }
        self.log_errors(result)
    }

    fn keeps_own_routes(&self) -> bool {
        false
    }

    fn router_lost(&mut self) {
        tracing::warn!("lost the connection to the router: reconnecting");
    }
}
