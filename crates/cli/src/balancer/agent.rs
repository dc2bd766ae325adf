//! `nw balancer agent`: connects the router of a member on this machine to a balancer on another
//! one.

use super::BalancerArgs;
use crate::logs::Levels;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output::describe;
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use nw_api::balancer::{AgentOrder, AgentReport, BalancerStatus, Replica};
use nw_api::config::LogFormat;
use nw_balancer::agent::{Agent, BalancerConnection, ConnectionError, Snapshot};
use nw_balancer::probe;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Name of the member at the balancer
    pub member: String,
    #[command(flatten)]
    pub balancer: BalancerArgs,
    /// Unix socket of the member's router on this machine
    #[arg(long, value_name = "PATH", default_value = "/run/nfd/nfd.sock")]
    pub socket: PathBuf,
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
/// Maximum size of all routes, bytes.
const REPLICA_MAX: u64 = 4 << 30;

/// The connection to the balancer.
struct RemoteBalancer {
    address: ControlAddress,
    member: String,
    queried_at: Option<std::time::Instant>,
    /// The last error that was logged and still holds.
    error: Option<String>,
}

/// Runs `nw balancer agent`.
pub fn agent(args: &AgentArgs) -> Result<ExitCode> {
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    let stop_flag = StopFlag::watch()?;
    let address = args.balancer.address()?;
    let status: BalancerStatus = http::request_json(&address, Method::Get, "/v1/balancer", None)?;
    let exists = status.members.iter().any(|member| member.name == args.member);
    if !exists {
        anyhow::bail!(
            "there is no member {:?} at {address}: add it there first, with `nw balancer add` or in \
             the configuration",
            args.member
        );
    }
    let router = args.socket.display();
    tracing::info!(member = args.member, %router, balancer = %address, "running");
    let lead =
        RemoteBalancer { address, member: args.member.clone(), queried_at: None, error: None };
    let agent = Agent {
        router_socket: args.socket.clone(),
        probe_prefix: probe::prefix(&status.cluster, &args.member),
        cluster: status.addresses,
        report_interval: REPORT_INTERVAL,
        resync_interval: RESYNC_INTERVAL,
        stop: stop_flag.flag(),
        balancer: lead,
    };
    agent.run();
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

impl RemoteBalancer {
    fn query_replica(&self, known: u64) -> Result<Option<Arc<Snapshot>>> {
        let path = format!("/v1/replica?member={}&known={known}", http::escape(&self.member));
        let mut text = Vec::new();
        http::request(&self.address, Method::Get, &path, None)?
            .take(REPLICA_MAX)
            .read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(None);
        }
        let replica: Replica =
            serde_json::from_slice(&text).context("the balancer's routes can't be read")?;
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
        let path = format!("/v1/members/{}/agent", http::escape(&self.member));
        let body =
            serde_json::to_value(report).map_err(|error| ConnectionError(error.to_string()))?;
        let result = http::request_json(&self.address, Method::Put, &path, Some(&body));
        self.log_errors(result)
    }

    fn keeps_own_routes(&self) -> bool {
        false
    }

    fn router_lost(&mut self) {
        tracing::warn!("lost the connection to the router: reconnecting");
    }
}
