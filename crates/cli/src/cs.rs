//! `nw cs …`: the content store.

use crate::args::cs::CsCommand;
use crate::args::flags::CommandArgs;
use crate::connect::connect;
use crate::management::{CommandResult, print_outcome, send_command};
use crate::output::{count, json_line, row, table};
use crate::render::{self, CS_FLAGS};
use crate::signing::connect_signed;
use anyhow::bail;
use nw_api::management::client::decode_cs_info;
use nw_api::management::{ControlParameters, Dataset, Verb, flags};
use nw_app::control::dataset;
use nw_name::Name;
use std::process::ExitCode;

/// Runs `nw cs …`.
pub fn cs(verb: &CsCommand) -> CommandResult {
    match verb {
        CsCommand::Info { query } => {
            let mut client = connect(&query.router)?;
            let info = decode_cs_info(&dataset(&mut client, Dataset::CsInfo, None)?)?;
            if query.json {
                json_line(&render::cs_info(&info))?;
                return Ok(ExitCode::SUCCESS);
            }
            let on = |bit: u64| if info.flags & bit != 0 { "yes" } else { "no" };
            table(&[
                row([&"packets", &format!("{} of {}", info.entries, info.capacity)]),
                row([&"caching new Data", &on(flags::CS_ADMIT)]),
                row([&"answering from cache", &on(flags::CS_SERVE)]),
                row([&"hits", &info.hits]),
                row([&"misses", &info.misses]),
            ])?;
            Ok(ExitCode::SUCCESS)
        }
        CsCommand::Config { capacity, admit, serve, command } => {
            let bits = [(*admit, flags::CS_ADMIT), (*serve, flags::CS_SERVE)];
            let mask = bits
                .iter()
                .filter(|(value, _)| value.is_some())
                .fold(0, |mask, (_, bit)| mask | bit);
            let set = bits
                .iter()
                .filter(|(value, _)| *value == Some(true))
                .fold(0, |set, (_, bit)| set | bit);
            if capacity.is_none() && mask == 0 {
                bail!("nothing to change: give --capacity, --admit or --serve");
            }
            let parameters = ControlParameters {
                capacity: *capacity,
                flags: (mask != 0).then_some(set),
                mask: (mask != 0).then_some(mask),
                ..ControlParameters::default()
            };
            let requested = *capacity;
            send_command(command, Verb::CsConfig, &parameters, CS_FLAGS, |body| {
                describe_config(requested, body)
            })
        }
        CsCommand::Erase { prefix, count, command } => erase(command, prefix, *count),
    }
}

/// Erases Data under a prefix. The router erases a bounded number per command and reports whether
/// more is left, so the command is repeated.
fn erase(command: &CommandArgs, prefix: &Name, count_max: Option<u64>) -> CommandResult {
    let mut router = connect_signed(command)?;
    let (client, commander) = router.parts();
    let mut erased = 0;
    loop {
        let count_left = count_max.map(|count_max| count_max - erased);
        let parameters =
            ControlParameters { count: count_left, ..ControlParameters::of(prefix.clone()) };
        let body = commander.command(client, Verb::CsErase, &parameters)?;
        let erased_now = body.count.unwrap_or(0);
        erased += erased_now;
        let has_more = body.capacity.is_some()
            && erased_now > 0
            && count_max.is_none_or(|count_max| erased < count_max);
        if !has_more {
            let total = ControlParameters { count: Some(erased), ..body };
            return print_outcome(&command.query, render::answer(&total, CS_FLAGS), || {
                format!("{} erased", count(erased, "packet"))
            });
        }
    }
}

/// Describes the configuration after a change, from the router's answer.
fn describe_config(requested: Option<u64>, body: &ControlParameters) -> String {
    let mut parts = Vec::new();
    if let Some(capacity) = body.capacity {
        let limited = requested.filter(|requested| *requested != capacity).map_or(
            String::new(),
            |requested| {
                format!(" ({requested} exceeds the limit: the capacity when the router started)")
            },
        );
        parts.push(format!("capacity {}{limited}", count(capacity, "packet")));
    }
    if let Some(set) = body.flags {
        let on = |bit: u64| if set & bit != 0 { "yes" } else { "no" };
        parts.push(format!("caching new Data: {}", on(flags::CS_ADMIT)));
        parts.push(format!("answering from cache: {}", on(flags::CS_SERVE)));
    }
    format!("content store: {}", parts.join(", "))
}
