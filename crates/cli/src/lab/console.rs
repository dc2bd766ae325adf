//! The console of a running testbed: commands on standard input, one per line.

use crate::output::{describe, json_line, row, table};
use anyhow::{Context, Result, bail};
use nw_testbed::Cluster;
use serde_json::{Value, json};

const HELP: &str = "\
status              state, share of names and packets of each member
traffic             packets and bytes on each link
add                 add a member
remove N            remove member N when nothing is pending there
kill N              kill the router of member N
revive N            start the router of member N again
rate N MBIT         limit the link of member N, Mbit/s
share N SHARE       limit the CPU share of member N, as a fraction of one processor
kill-balancer N     kill the process of balancer N; its kernel program keeps running
start-balancer N    start the process of balancer N again
fail-balancer N     take down balancer N completely: processes and links
picture             print the diagram and example commands
end                 remove everything";

/// Executes a line and prints its output. Returns false for `end`. A mistake is reported and
/// changes nothing.
pub fn execute(cluster: &mut Cluster, line: &str, as_json: bool) -> Result<bool> {
    let words: Vec<_> = line.split_whitespace().collect();
    let Some((command, arguments)) = words.split_first() else { return Ok(true) };
    let command = current_name(command);
    if command == "end" {
        return Ok(false);
    }
    match (run_command(cluster, command, arguments), as_json) {
        (Ok(CommandOutput { value, .. }), true) => {
            json_line(&json!({ "done": command, "value": value }))?
        }
        (Ok(CommandOutput { rows, text, .. }), false) => {
            if !rows.is_empty() {
                table(&rows)?;
            }
            outln!("{text}")?;
        }
        (Err(error), true) => json_line(&json!({ "failed": command, "error": describe(&error) }))?,
        (Err(error), false) => note!("{}", describe(&error)),
    }
    Ok(true)
}

/// Returns the current name of a command that was renamed; the next version will not accept old
/// names.
fn current_name(command: &str) -> &str {
    match command {
        "break" => "fail-balancer",
        current => current,
    }
}

#[derive(Default)]
struct CommandOutput {
    /// Output with `--json`.
    value: Value,
    /// Output as text: a table, then a line.
    rows: Vec<Vec<String>>,
    text: String,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> CommandOutput {
        CommandOutput { text, ..CommandOutput::default() }
    }
}

fn run_command(cluster: &mut Cluster, command: &str, arguments: &[&str]) -> Result<CommandOutput> {
    match command {
        "help" => Ok(HELP.to_owned().into()),
        "picture" => Ok(CommandOutput {
            value: cluster.description(),
            text: cluster.diagram(),
            ..CommandOutput::default()
        }),
        "status" => status(cluster),
        "traffic" => traffic(cluster),
        "add" => {
            let number = cluster.add_member()?;
            let text = format!("m{number} is active");
            Ok(CommandOutput {
                value: json!({ "number": number }),
                text,
                ..CommandOutput::default()
            })
        }
        "remove" => {
            let number = member_number(arguments)?;
            cluster.remove_member(number)?;
            Ok(format!("m{number} is removed").into())
        }
        "kill" => {
            let number = member_number(arguments)?;
            cluster.kill_member(number)?;
            Ok(format!("the router of m{number} is killed").into())
        }
        "revive" => {
            let number = member_number(arguments)?;
            cluster.restart_member(number)?;
            Ok(format!("the router of m{number} is running").into())
        }
        "rate" => {
            cluster.limit_member(member_number(arguments)?, positive_value(arguments)?)?;
            Ok("done".to_owned().into())
        }
        "share" => {
            cluster
                .member(member_number(arguments)?)?
                .node
                .set_share(positive_value(arguments)?)?;
            Ok("done".to_owned().into())
        }
        "kill-balancer" => {
            let index = balancer_index(cluster, arguments)?;
            cluster.balancer_mut(index).kill();
            Ok("its process is killed; downloads continue".to_owned().into())
        }
        "start-balancer" => {
            let index = balancer_index(cluster, arguments)?;
            cluster.balancer_mut(index).start()?;
            Ok("it is running".to_owned().into())
        }
        "fail-balancer" => {
            let index = balancer_index(cluster, arguments)?;
            cluster.balancer_mut(index).fail()?;
            Ok("its processes and links are removed".to_owned().into())
        }
        _ => bail!("there is no command {command}; `help` lists all"),
    }
}

fn status(cluster: &Cluster) -> Result<CommandOutput> {
    let running = cluster.balancers().iter().find(|balancer| balancer.is_running());
    let status = running.context("no balancer runs here")?.status()?;
    let mut rows =
        vec![row([&"member", &"state", &"share", &"Interests in", &"Data out", &"router CPU"])];
    for member in &status.members {
        let router = cluster.members().iter().find(|candidate| candidate.node.name == member.name);
        let cpu = router.map_or("-".to_owned(), |member| {
            format!("{:.2} s", member.router.process.cpu().as_secs_f64())
        });
        rows.push(row([
            &member.name,
            &member.state,
            &format!("{:.1} %", member.share * 100.0),
            &member.counters.in_interests,
            &member.counters.out_data,
            &cpu,
        ]));
    }
    let text = status.warnings.join("\n");
    Ok(CommandOutput { value: serde_json::to_value(&status)?, rows, text })
}

fn traffic(cluster: &Cluster) -> Result<CommandOutput> {
    let traffic = cluster.traffic()?;
    let mut names: Vec<_> =
        traffic.keys().filter(|name| name.starts_with(['b', 'c', 'm', 'p'])).collect();
    names.sort();
    let mut rows =
        vec![row([&"link", &"packets in", &"bytes in", &"packets out", &"bytes out", &"lost"])];
    for name in names {
        let link = &traffic[name];
        rows.push(row([
            name,
            &link.received_packets,
            &link.received_bytes,
            &link.sent_packets,
            &link.sent_bytes,
            &link.lost_packets,
        ]));
    }
    Ok(CommandOutput { value: serde_json::to_value(&traffic)?, rows, text: String::new() })
}

fn member_number(arguments: &[&str]) -> Result<u8> {
    let word = arguments.first().context("the number of a member is missing")?;
    word.trim_start_matches('m')
        .parse()
        .with_context(|| format!("{word:?} is not the number of a member"))
}

fn positive_value(arguments: &[&str]) -> Result<f64> {
    let word = arguments.get(1).context("a value is missing after the number")?;
    let value: f64 = word.parse().with_context(|| format!("{word:?} is not a number"))?;
    if !(value.is_finite() && value > 0.0) {
        bail!("{word} must be greater than 0");
    }
    Ok(value)
}

/// Returns the index of the balancer, from 0. The default is the first.
fn balancer_index(cluster: &Cluster, arguments: &[&str]) -> Result<usize> {
    let word = arguments.first().copied().unwrap_or("1");
    let number: usize = word
        .trim_start_matches('b')
        .parse()
        .with_context(|| format!("{word:?} is not a number"))?;
    if !(1..=cluster.balancers().len()).contains(&number) {
        bail!("there is no balancer {number}");
    }
    Ok(number - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn break_is_accepted_as_old_name_of_fail_balancer() {
        assert_eq!(current_name("break"), "fail-balancer");
        assert_eq!(current_name("status"), "status");
        assert!(HELP.contains("fail-balancer") && !HELP.contains("break"));
    }
}
