//! How an agent reaches its balancer: the control socket of this machine, or TLS with the
//! certificate of its enrolment.

use super::commands::member_path;
use crate::exit::{Failure, Status};
use crate::observe::http::{self, ControlAddress, Method};
use crate::output::describe;
use anyhow::{Context, Result, bail};
use core::fmt;
use core::time::Duration;
use nw_agent::{AgentError, ManagerClient};
use nw_api::balancer::{
    AgentOrder, AgentReport, BalancerMember, BalancerStatus, MemberWanted, Replica,
};
use nw_balancer::remote_agents::{AgentReply, AgentRequest, ClusterInfo};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum size of all routes, bytes.
const REPLICA_MAX: u64 = 4 << 30;
/// Maximum time for a request by TLS.
const CALL_TIMEOUT: Duration = Duration::from_secs(35);

/// The balancer, as the agent of one member reaches it.
#[derive(Clone)]
pub struct BalancerClient {
    member: String,
    connection: Connection,
}

#[derive(Clone)]
enum Connection {
    Control(ControlAddress),
    Enrolled { address: String, client: Arc<Mutex<ManagerClient>> },
}

impl BalancerClient {
    /// Returns a client for a control socket.
    pub fn control(member: &str, address: ControlAddress) -> Self {
        BalancerClient { member: member.to_owned(), connection: Connection::Control(address) }
    }

    /// Returns a client for a host that has enrolled.
    pub fn enrolled(member: &str, client: ManagerClient) -> Self {
        let address = client.manager().to_owned();
        let client = Arc::new(Mutex::new(client));
        let connection = Connection::Enrolled { address, client };
        BalancerClient { member: member.to_owned(), connection }
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> Result<ClusterInfo> {
        let Connection::Control(address) = &self.connection else {
            return match self.call(&AgentRequest::Cluster)? {
                AgentReply::Cluster(cluster) => Ok(cluster),
                _ => unexpected(),
            };
        };
        let status: BalancerStatus =
            http::request_json(address, Method::Get, "/v1/balancer", None)?;
        Ok(ClusterInfo { name: status.cluster, addresses: status.addresses })
    }

    /// Returns the member's entry.
    pub fn entry(&self) -> Result<Option<BalancerMember>> {
        let Connection::Control(address) = &self.connection else {
            return match self.call(&AgentRequest::Entry)? {
                AgentReply::Entry(entry) => Ok(entry.map(|entry| *entry)),
                _ => unexpected(),
            };
        };
        let members: Vec<BalancerMember> =
            http::request_json(address, Method::Get, "/v1/members", None)?;
        Ok(members.into_iter().find(|member| member.name == self.member))
    }

    /// Adds the member.
    pub fn join(&self, wanted: &MemberWanted) -> Result<()> {
        let Connection::Control(address) = &self.connection else {
            return self.call(&AgentRequest::Join(wanted.clone())).map(drop);
        };
        let entry = serde_json::to_value(wanted)?;
        http::request_json::<BalancerMember>(address, Method::Post, "/v1/members", Some(&entry))
            .map(drop)
    }

    /// Removes the member; it first gives its names to others.
    pub fn leave(&self) -> Result<()> {
        let Connection::Control(address) = &self.connection else {
            return self.call(&AgentRequest::Leave).map(drop);
        };
        http::request(address, Method::Delete, &member_path(&self.member), None).map(drop)
    }

    /// Returns the routes that the member should have. `None` if `known` is their generation.
    pub fn replica(&self, known: u64) -> Result<Option<Replica>> {
        let Connection::Control(address) = &self.connection else {
            return match self.call(&AgentRequest::Replica(known))? {
                AgentReply::Replica(replica) => Ok(replica),
                _ => unexpected(),
            };
        };
        let path = format!("/v1/replica?member={}&known={known}", http::escape(&self.member));
        let mut text = Vec::new();
        http::request(address, Method::Get, &path, None)?
            .take(REPLICA_MAX)
            .read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(None);
        }
        serde_json::from_slice(&text).context("the balancer's routes can't be read")
    }

    /// Reports the state of the member's router.
    pub fn report(&self, report: &AgentReport) -> Result<AgentOrder> {
        let Connection::Control(address) = &self.connection else {
            return match self.call(&AgentRequest::Report(report.clone()))? {
                AgentReply::Order(order) => Ok(order),
                _ => unexpected(),
            };
        };
        let path = format!("/v1/members/{}/agent", http::escape(&self.member));
        let body = serde_json::to_value(report)?;
        http::request_json(address, Method::Put, &path, Some(&body))
    }

    /// Calls the balancer by TLS. A refusal becomes an error with the balancer's sentence.
    fn call(&self, request: &AgentRequest) -> Result<AgentReply> {
        let Connection::Enrolled { client, .. } = &self.connection else { return unexpected() };
        let request = serde_json::to_vec(request)?;
        let mut client = client.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = client.call(&request, CALL_TIMEOUT).map_err(|error| {
            let status = match &error {
                AgentError::Refused { .. }
                | AgentError::Expired { .. }
                | AgentError::NotTheManager { .. }
                | AgentError::GroupToken
                | AgentError::File { .. } => Status::Refused,
                _ => Status::Unreachable,
            };
            Failure::new(status, describe(&error.into()))
        })?;
        let reply = serde_json::from_slice(&reply);
        match reply.context("the balancer's answer can't be read: is it another version?")? {
            AgentReply::Refused(problem) => {
                let not_found = problem.code == 404;
                let status = if not_found { Status::NotFound } else { Status::Refused };
                let text = format!("the balancer says: {} ({})", problem.text, problem.code);
                Err(Failure::new(status, text).into())
            }
            reply => Ok(reply),
        }
    }
}

fn unexpected<T>() -> Result<T> {
    bail!("the balancer's answer is not one to this request: is it another version?")
}

impl fmt::Display for BalancerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.connection {
            Connection::Control(address) => address.fmt(f),
            Connection::Enrolled { address, .. } => address.fmt(f),
        }
    }
}
