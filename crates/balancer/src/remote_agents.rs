//! Agents of members on other machines: enrolled hosts that call the balancer over mutual TLS.
//!
//! A host is enrolled under its member's name, by a token of its own or that of a group of members
//! (`[control] group`), and may ask and change what concerns this member
//! only. Routes of the cluster are the same for all members.

use crate::config::Config;
use crate::control::check_member;
use crate::run::{Balancer, CommandError, Handle};
use core::time::Duration;
use nw_agent::{AgentError, CallHandler, EnrolmentCounts, GroupFile, Hub, HubOptions};
use nw_api::balancer::{AgentOrder, AgentReport, BalancerMember, MemberWanted, Replica};
use nw_api::rest::Problem;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Time for the event loop to run a request.
const LOOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Command that makes a token.
const TOKEN_COMMAND: &str = "nw balancer host add";

/// A request of an agent. It is about the agent's own member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentRequest {
    /// The cluster that the agent is in.
    Cluster,
    /// The routes that the member should have, unless the agent has this generation.
    Replica(u64),
    /// The state of the member's router.
    Report(AgentReport),
    /// The member's entry.
    Entry,
    /// Adds the member.
    Join(MemberWanted),
    /// Removes the member.
    Leave,
}

/// The balancer's reply to an [`AgentRequest`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentReply {
    /// The cluster.
    Cluster(ClusterInfo),
    /// Routes; `None` if the agent has them.
    Replica(Option<Replica>),
    /// The response to a report.
    Order(AgentOrder),
    /// The member's entry; `None` if there is no such member.
    Entry(Option<Box<BalancerMember>>),
    /// The request was refused.
    Refused(Problem),
}

/// What an agent has to know of its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterInfo {
    /// Name of the cluster.
    pub name: String,
    /// Addresses of the cluster.
    pub addresses: Vec<IpAddr>,
}

/// Returns the folder with the balancer's authority and its list of enrolled hosts.
pub fn authority_folder(config: &Config) -> PathBuf {
    config.cluster.state_dir.join(format!("{}.hosts", config.cluster.name))
}

/// Listens for agents at `[control] agents_listen`, until the result is dropped. `None` if there is
/// no such address. Attempts to enrol in groups are counted in `enrolment_counts`.
///
/// # Errors
/// The address or the folder of the authority can't be used.
pub fn listen(
    config: &Config,
    handle: Handle,
    enrolment_counts: Arc<EnrolmentCounts>,
) -> Result<Option<Hub>, AgentError> {
    let control = &config.control;
    let Some(listen) = control.agents_listen else { return Ok(None) };
    let group = control.group.clone().zip(control.group_token_file.clone());
    let group = group.map(|(name, token_file)| GroupFile {
        name,
        token_file,
        hosts_max: control.group_members_max as usize,
    });
    let call_handler: Option<Arc<dyn CallHandler>> = Some(Arc::new(RequestHandler { handle }));
    let options = HubOptions {
        call_handler,
        token_command: TOKEN_COMMAND,
        group,
        enrolment_counts,
        ..HubOptions::new(authority_folder(config), listen)
    };
    Hub::start(options).map(Some)
}

struct RequestHandler {
    handle: Handle,
}

impl CallHandler for RequestHandler {
    fn call(&self, host: &str, request: &[u8]) -> Vec<u8> {
        let reply = match serde_json::from_slice(request) {
            Ok(request) => self.answer(host, request),
            Err(_) => Err(problem(
                400,
                "the balancer does not know this request; install the same \
                                        version of nw on both machines",
            )),
        };
        let reply = reply.unwrap_or_else(AgentReply::Refused);
        serde_json::to_vec(&reply).expect("texts and numbers")
    }
}

fn problem(code: u64, text: impl Into<String>) -> Problem {
    Problem { code, text: text.into() }
}

impl RequestHandler {
    fn answer(&self, host: &str, request: AgentRequest) -> Result<AgentReply, Problem> {
        let name = host.to_owned();
        match request {
            AgentRequest::Cluster => {
                self.run(|balancer| Ok(AgentReply::Cluster(balancer.cluster_info())))
            }
            AgentRequest::Replica(known) => self.run(move |balancer| {
                let replica = balancer.replica_for(&name, known);
                replica.map(AgentReply::Replica).map_err(CommandError::from)
            }),
            AgentRequest::Report(report) => self.run(move |balancer| {
                let order = balancer.on_remote_report(&name, &report);
                order.map(AgentReply::Order).map_err(CommandError::from)
            }),
            AgentRequest::Entry => self.run(move |balancer| {
                Ok(AgentReply::Entry(balancer.show(&name).ok().map(Box::new)))
            }),
            AgentRequest::Join(wanted) => {
                if wanted.name != name || wanted.control.is_some() {
                    let text = format!("this host is enrolled as {name}, and may add only {name}");
                    return Err(problem(403, text));
                }
                check_member(&wanted).map_err(|text| problem(422, text))?;
                self.run(move |balancer| {
                    balancer.add(wanted).map(|member| AgentReply::Entry(Some(Box::new(member))))
                })
            }
            AgentRequest::Leave => self.run(move |balancer| {
                balancer.remove(&name).map(|member| AgentReply::Entry(member.map(Box::new)))
            }),
        }
    }

    /// Runs a function in the event loop, and returns its result.
    fn run(
        &self,
        function: impl FnOnce(&mut Balancer) -> Result<AgentReply, CommandError> + Send + 'static,
    ) -> Result<AgentReply, Problem> {
        let (sender, receiver) = sync_channel(1);
        // The connection may have ended meanwhile.
        self.handle.with(move |balancer| drop(sender.try_send(function(balancer))));
        let result = receiver.recv_timeout(LOOP_TIMEOUT);
        result
            .map_err(|_| problem(503, "the balancer is shutting down, or busy"))?
            .map_err(Problem::from)
    }
}
