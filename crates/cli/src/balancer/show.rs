//! Commands that only read: status, where, rules.

use super::{BalancerArgs, BalancerQueryArgs};
use crate::observe::http::{self, Method};
use crate::output::{self, row};
use anyhow::Result;
use nw_api::balancer::{BalancerMember, BalancerStatus, MemberState, NameWhere, RuleText};
use nw_name::Name;
use std::process::ExitCode;

/// Runs `nw balancer status`.
pub fn status(balancer: &BalancerArgs, check: bool, json: bool) -> Result<ExitCode> {
    let status: BalancerStatus =
        http::request_json(&balancer.address()?, Method::Get, "/v1/balancer", None)?;
    if check {
        let is_active = |member: &BalancerMember| member.state == MemberState::Active;
        let has_active = status.members.iter().any(is_active);
        return Ok(if has_active { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    match json {
        true => output::json_line(&status)?,
        false => print(&status)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(status: &BalancerStatus) -> Result<()> {
    let addresses: Vec<_> = status.addresses.iter().map(ToString::to_string).collect();
    let adopted = if status.adopted { ", took over a data path" } else { "" };
    outln!(
        "{}: {} port {}, running for {:.0} s{adopted}",
        status.cluster,
        addresses.join(" and "),
        status.port,
        status.uptime_s
    )?;
    let attached: Vec<_> =
        status.interfaces.iter().map(|it| format!("{} ({})", it.name, it.mode)).collect();
    outln!("  attached to {}", attached.join(", "))?;
    let routes = &status.routes;
    outln!(
        "  routes      {} and {} strategies copied to members; {} can't be copied",
        routes.routes,
        routes.strategies,
        routes.skipped
    )?;
    for setting in &status.system_settings {
        outln!("  changed     {} from {} to {}", setting.name, setting.before, setting.now)?;
    }
    if let Some(elastic) = &status.elastic {
        outln!(
            "  load        {:.0} of {:.0} Interests/s: {}",
            elastic.load_per_s,
            elastic.capacity_per_s,
            elastic.says
        )?;
    }
    for warning in &status.warnings {
        outln!("  warning     {warning}")?;
    }
    outln!()?;
    output::table(&member_rows(&status.members))?;
    for member in &status.members {
        if let Some(trouble) = &member.trouble {
            outln!("{}: {trouble}", member.name)?;
        }
    }
    let mut rows = vec![row([&"packets", &"count"])];
    rows.extend(
        status.verdicts.iter().filter(|(_, count)| **count > 0).map(|(it, count)| row([it, count])),
    );
    if rows.len() > 1 {
        outln!()?;
        output::table(&rows)?;
    }
    Ok(())
}

fn member_rows(members: &[BalancerMember]) -> Vec<Vec<String>> {
    let head = row([
        &"member",
        &"state",
        &"weight",
        &"share",
        &"address",
        &"port",
        &"probe",
        &"Interests",
        &"Data",
        &"Nacks",
    ]);
    let member_row = |member: &BalancerMember| {
        let name = if member.control { format!("{}*", member.name) } else { member.name.clone() };
        let weight = if member.measured {
            format!("{} (measured)", member.weight)
        } else {
            member.weight.to_string()
        };
        let addresses: Vec<_> = member.addresses.iter().map(ToString::to_string).collect();
        let probe = member.probe_us.map_or("-".to_owned(), output::duration_us);
        let counted = &member.counters;
        row([
            &name,
            &member.state,
            &weight,
            &format!("{:.1} %", 100.0 * member.share),
            &addresses.join(" "),
            &member.port,
            &probe,
            &counted.in_interests,
            &counted.out_data,
            &counted.out_nacks,
        ])
    };
    core::iter::once(head).chain(members.iter().map(member_row)).collect()
}

/// Runs `nw balancer where`.
pub fn where_is(name: &Name, query: &BalancerQueryArgs) -> Result<()> {
    let path = format!("/v1/where?name={}", http::escape(&name.to_string()));
    let found: NameWhere =
        http::request_json(&query.balancer.address()?, Method::Get, &path, None)?;
    if query.json {
        return output::json_line(&found);
    }
    let member = found.member.as_deref().unwrap_or("no member");
    let reason = match found.by.as_str() {
        "control" => "a rule assigns it to the control member".to_owned(),
        "depth" => {
            format!("a rule hashes {} only, slot {}", found.hashed, found.slot.unwrap_or_default())
        }
        _ => format!("by its whole name, slot {}", found.slot.unwrap_or_default()),
    };
    outln!("{}: {member} ({reason})", found.name)?;
    Ok(())
}

/// Runs `nw balancer rules`.
pub fn rules(query: &BalancerQueryArgs) -> Result<()> {
    let rules: Vec<RuleText> =
        http::request_json(&query.balancer.address()?, Method::Get, "/v1/rules", None)?;
    if query.json {
        return rules.iter().try_for_each(output::json_line);
    }
    let mut rows = vec![row([&"prefix", &"rule"])];
    rows.extend(rules.iter().map(|rule| {
        let rule_text =
            rule.depth.map_or("to the control member".to_owned(), |depth| match depth {
                1 => "by its first component".to_owned(),
                depth => format!("by its first {depth} components"),
            });
        row([&rule.prefix, &rule_text])
    }));
    output::table(&rows)
}
