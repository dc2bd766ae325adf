//! `nw balancer agent`: speaks for the router of a member to a balancer on another machine.

use super::BalancerPlace;
use crate::inside::http::{self, Method, Place};
use crate::logs::Levels;
use crate::output::describe;
use crate::signals::Ended;
use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use nw_api::balancer::{AgentOrder, AgentReport, BalancerStatus, Replica};
use nw_api::config::LogFormat;
use nw_balancer::agent::{Agent, Lead, LeadError, Snapshot};
use nw_balancer::probe;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// The member, as the balancer calls it
    pub member: String,
    #[command(flatten)]
    pub place: BalancerPlace,
    /// The unix socket of the member's router on this machine
    #[arg(long, value_name = "PATH", default_value = "/run/nfd/nfd.sock")]
    pub socket: PathBuf,
    /// What to log: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log: String,
}

/// Between two reports, unless something changes.
const REPORT: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// Between two questions for routes.
const QUESTION: Duration = Duration::from_millis(200);
/// Octets of all routes.
const REPLICA_MAX: u64 = 4 << 30;

struct Remote {
    place: Place,
    member: String,
    asked: Option<std::time::Instant>,
    said: Option<String>,
}

/// `nw balancer agent`
pub fn agent(args: &AgentArgs) -> Result<ExitCode> {
    let _levels = Levels::start(&args.log, LogFormat::Text)?;
    let ended = Ended::watch()?;
    let place = args.place.place()?;
    let status: BalancerStatus = http::body(&place, Method::Get, "/v1/balancer", None)?;
    let there = status.members.iter().any(|member| member.name == args.member);
    if !there {
        anyhow::bail!(
            "no member is called {:?} at {place}: add it there first, with `nw balancer add` or in the configuration",
            args.member
        );
    }
    tracing::info!(member = args.member, router = %args.socket.display(), balancer = %place, "running");
    let lead = Remote { place, member: args.member.clone(), asked: None, said: None };
    let agent = Agent {
        path: args.socket.clone(),
        probes: probe::prefix(&status.cluster, &args.member),
        cluster: status.addresses,
        interval: REPORT,
        look_again: LOOK_AGAIN,
        stop: ended.flag(),
        lead,
    };
    agent.run();
    tracing::info!("ended");
    Ok(ExitCode::SUCCESS)
}

impl Remote {
    fn question(&self, known: u64) -> Result<Option<Arc<Snapshot>>> {
        let path = format!("/v1/replica?member={}&known={known}", http::escape(&self.member));
        let mut text = Vec::new();
        http::ask(&self.place, Method::Get, &path, None)?.take(REPLICA_MAX).read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(None);
        }
        let replica: Replica =
            serde_json::from_slice(&text).context("the balancer's routes can't be read")?;
        Ok(Some(Arc::new(Snapshot::from_replica(&replica).map_err(anyhow::Error::msg)?)))
    }

    /// Trouble is said when it begins, and when it ends.
    fn heard<T>(&mut self, result: Result<T>) -> Result<T, LeadError> {
        match result {
            Ok(value) => {
                if self.said.take().is_some() {
                    tracing::info!("the balancer answers again");
                }
                Ok(value)
            }
            Err(error) => {
                let text = describe(&error);
                if self.said.as_ref() != Some(&text) {
                    tracing::warn!("{text}");
                    self.said = Some(text.clone());
                }
                Err(LeadError(text))
            }
        }
    }
}

impl Lead for Remote {
    fn newer(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, LeadError> {
        if self.asked.is_some_and(|at| at.elapsed() < QUESTION) {
            return Ok(None);
        }
        self.asked = Some(std::time::Instant::now());
        let result = self.question(known);
        self.heard(result)
    }

    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, LeadError> {
        if let Some(trouble) = &report.trouble {
            tracing::warn!("{trouble}");
        }
        let path = format!("/v1/members/{}/agent", http::escape(&self.member));
        let body = serde_json::to_value(report).map_err(|error| LeadError(error.to_string()))?;
        let result = http::body(&self.place, Method::Put, &path, Some(&body));
        self.heard(result)
    }

    fn is_led(&self) -> bool {
        false
    }

    fn lost(&mut self) {
        tracing::warn!("the router went away; it is connected to again");
    }
}
