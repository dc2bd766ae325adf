//! Commands that change a network: apply, undo, scale, hold.

use super::Network;
use super::locate::DocumentFile;
use super::show::scale_table;
use super::up::wait_converged;
use crate::exit::Status;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output;
use anyhow::Result;
use clap::Args;
use nw_api::network::{
    NetworkChange, NetworkGraph, NetworkPlan, NetworkState, NetworkStatus, ScaleChange,
    ServiceScale, UndoRequest, Veto,
};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Apply {
    #[command(flatten)]
    network: Network,
    /// Graph file
    file: PathBuf,
    /// Only if the plan still has this id, as `nw network plan` has shown it
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
    /// Only if this version of the document is in effect
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Return at once; the manager goes on
    #[arg(long)]
    no_wait: bool,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A number of instances; `None` lets load decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(Option<u32>);

/// Parses a number of instances, or `auto`.
pub fn parse_count(text: &str) -> Result<Count, String> {
    match text {
        "auto" => Ok(Count(None)),
        text => match text.parse() {
            Ok(count) if count > 0 => Ok(Count(Some(count))),
            _ => Err("give a number of at least 1, or `auto`".to_owned()),
        },
    }
}

/// Runs `nw network apply`.
pub fn apply(args: &Apply) -> Result<ExitCode> {
    let file = DocumentFile::read(&args.file)?;
    let address = args.network.address()?;
    let before = newest_event(&address)?;
    let change = NetworkChange {
        text: file.text,
        version: args.version,
        plan: args.plan.clone(),
        folder: Some(file.folder),
        reason: args.reason.clone(),
    };
    let change = serde_json::to_value(change)?;
    let plan: NetworkPlan =
        http::request_json(&address, Method::Put, "/v1/network", Some(&change))?;
    if args.no_wait {
        return if args.json { output::json_line(&plan) } else { print_version(&plan) }
            .map(|()| ExitCode::SUCCESS);
    }
    if plan.steps.is_empty() {
        outln!("nothing needs to be done")?;
    }
    wait(&address, args.json, &before)
}

fn print_version(plan: &NetworkPlan) -> Result<()> {
    let version = plan.version.unwrap_or_default();
    Ok(outln!("version {version} is in effect; {} steps", plan.steps.len())?)
}

fn newest_event(address: &ControlAddress) -> Result<String> {
    let graph: NetworkGraph = http::request_json(address, Method::Get, "/v1/graph", None)?;
    Ok(graph.event)
}

fn wait(address: &ControlAddress, is_json: bool, after: &str) -> Result<ExitCode> {
    let state = wait_converged(address, is_json, Some(after))?;
    Ok(match state {
        NetworkState::Converged => Status::Done,
        _ => Status::Failed,
    }
    .into())
}

/// Runs `nw network undo`.
pub fn undo(address: &ControlAddress, version: Option<u64>) -> Result<()> {
    let before = newest_event(address)?;
    let request = serde_json::to_value(UndoRequest { version })?;
    let status: NetworkStatus =
        http::request_json(address, Method::Post, "/v1/undo", Some(&request))?;
    outln!("version {} is in effect", status.version)?;
    wait_converged(address, false, Some(&before)).map(drop)
}

/// Runs `nw network scale SERVICE COUNT`.
pub fn scale(address: &ControlAddress, service: &str, count: Count, is_json: bool) -> Result<()> {
    let before = newest_event(address)?;
    let change = serde_json::to_value(ScaleChange { instances: count.0 })?;
    let path = format!("/v1/scale/{}", http::escape(service));
    let scale: ServiceScale = http::request_json(address, Method::Put, &path, Some(&change))?;
    if is_json {
        return output::json_line(&scale);
    }
    wait_converged(address, false, Some(&before))?;
    let scale: ServiceScale = http::request_json(address, Method::Get, &path, None)?;
    scale_table(&[scale])
}

/// Sends a command without a body.
pub fn post(address: &ControlAddress, path: &str) -> Result<()> {
    http::request(address, Method::Post, path, None).map(drop)
}

/// Removes the countermeasures for an element.
pub fn remove_countermeasures(address: &ControlAddress, element: &str) -> Result<()> {
    let path = format!("/v1/countermeasures/{}", http::escape(element));
    http::request(address, Method::Delete, &path, None).map(drop)
}

/// Forbids or allows countermeasures at an element.
pub fn veto(address: &ControlAddress, element: &str, forbidden: bool) -> Result<()> {
    let path = format!("/v1/countermeasures/{}/veto", http::escape(element));
    let veto = serde_json::to_value(Veto { forbidden })?;
    http::request(address, Method::Put, &path, Some(&veto)).map(drop)
}
