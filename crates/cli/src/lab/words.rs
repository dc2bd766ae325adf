//! What can be said to a laboratory that runs: one line each, on standard input.

use crate::output::{describe, json_line, row, table};
use anyhow::{Context, Result, bail};
use nw_testbed::Cluster;
use serde_json::{Value, json};

const HELP: &str = "\
status              members: state, share of names, packets
traffic             what passed each machine's link
add                 a member more, while it runs
remove N            member N less: no new names, then gone when nothing is pending
kill N              member N's router ends without a word
revive N            it starts again
rate N MBIT         member N's link
share N SHARE       member N's share of a processor
kill-balancer N     the process of balancer N ends; what is in the kernel goes on
start-balancer N    it starts again
break N             balancer N breaks down: processes and links
picture             what there is, and what can be typed elsewhere
end                 removes all of it";

/// Does what a line says; false when that is the end. Mistakes are said, and nothing happens.
pub fn obey(cluster: &mut Cluster, line: &str, as_json: bool) -> Result<bool> {
    let words: Vec<_> = line.split_whitespace().collect();
    let Some((verb, rest)) = words.split_first() else { return Ok(true) };
    if *verb == "end" {
        return Ok(false);
    }
    match (say(cluster, verb, rest), as_json) {
        (Ok(Said { value, .. }), true) => json_line(&json!({ "done": verb, "value": value }))?,
        (Ok(Said { rows, text, .. }), false) => {
            if !rows.is_empty() {
                table(&rows)?;
            }
            outln!("{text}")?;
        }
        (Err(error), true) => json_line(&json!({ "failed": verb, "error": describe(&error) }))?,
        (Err(error), false) => note!("{}", describe(&error)),
    }
    Ok(true)
}

#[derive(Default)]
struct Said {
    /// For programs.
    value: Value,
    /// For people.
    rows: Vec<Vec<String>>,
    text: String,
}

impl From<String> for Said {
    fn from(text: String) -> Said {
        Said { text, ..Said::default() }
    }
}

fn say(cluster: &mut Cluster, verb: &str, rest: &[&str]) -> Result<Said> {
    match verb {
        "help" => Ok(HELP.to_owned().into()),
        "picture" => Ok(Said { value: cluster.description(), text: cluster.picture(), ..Said::default() }),
        "status" => status(cluster),
        "traffic" => traffic(cluster),
        "add" => {
            let number = cluster.add_member()?;
            let text = format!("m{number} takes names");
            Ok(Said { value: json!({ "number": number }), text, ..Said::default() })
        }
        "remove" => {
            let number = number(rest)?;
            cluster.remove_member(number)?;
            Ok(format!("m{number} is gone").into())
        }
        "kill" => {
            let number = number(rest)?;
            cluster.kill_member(number)?;
            Ok(format!("m{number}'s router is dead").into())
        }
        "revive" => {
            let number = number(rest)?;
            cluster.revive_member(number)?;
            Ok(format!("m{number}'s router runs").into())
        }
        "rate" => {
            cluster.limit_member(number(rest)?, value(rest)?)?;
            Ok("done".to_owned().into())
        }
        "share" => {
            cluster.member(number(rest)?)?.node.set_share(value(rest)?)?;
            Ok("done".to_owned().into())
        }
        "kill-balancer" => {
            let at = balancer(cluster, rest)?;
            cluster.balancer_mut(at).kill();
            Ok("its process is dead; downloads go on".to_owned().into())
        }
        "start-balancer" => {
            let at = balancer(cluster, rest)?;
            cluster.balancer_mut(at).start()?;
            Ok("it runs".to_owned().into())
        }
        "break" => {
            let at = balancer(cluster, rest)?;
            cluster.balancer_mut(at).break_down()?;
            Ok("it is no more".to_owned().into())
        }
        _ => bail!("{verb} is no word here; `help` lists them"),
    }
}

fn status(cluster: &Cluster) -> Result<Said> {
    let running = cluster.balancers().iter().find(|balancer| balancer.is_running());
    let status = running.context("no balancer runs here")?.status()?;
    let mut rows = vec![row([&"member", &"state", &"share", &"Interests in", &"Data out", &"router CPU"])];
    for member in &status.members {
        let router = cluster.members().iter().find(|own| own.node.name == member.name);
        let cpu =
            router.map_or("-".to_owned(), |own| format!("{:.2} s", own.router.process.cpu().as_secs_f64()));
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
    Ok(Said { value: serde_json::to_value(&status)?, rows, text })
}

fn traffic(cluster: &Cluster) -> Result<Said> {
    let traffic = cluster.traffic()?;
    let mut names: Vec<_> = traffic.keys().filter(|name| name.starts_with(['b', 'c', 'm', 'p'])).collect();
    names.sort();
    let mut rows = vec![row([&"link", &"packets in", &"octets in", &"packets out", &"octets out", &"lost"])];
    for name in names {
        let of = &traffic[name];
        rows.push(row([
            name,
            &of.received_packets,
            &of.received_octets,
            &of.sent_packets,
            &of.sent_octets,
            &of.lost_packets,
        ]));
    }
    Ok(Said { value: serde_json::to_value(&traffic)?, rows, text: String::new() })
}

fn number(rest: &[&str]) -> Result<u8> {
    let word = rest.first().context("say the number of a member")?;
    word.trim_start_matches('m').parse().with_context(|| format!("{word:?} is no number of a member"))
}

fn value(rest: &[&str]) -> Result<f64> {
    let word = rest.get(1).context("say a value after the number")?;
    let value: f64 = word.parse().with_context(|| format!("{word:?} is no number"))?;
    if !(value.is_finite() && value > 0.0) {
        bail!("{word} is not above 0");
    }
    Ok(value)
}

/// Which balancer, from 0.
fn balancer(cluster: &Cluster, rest: &[&str]) -> Result<usize> {
    let word = rest.first().copied().unwrap_or("1");
    let number: usize =
        word.trim_start_matches('b').parse().with_context(|| format!("{word:?} is no number"))?;
    if !(1..=cluster.balancers().len()).contains(&number) {
        bail!("there is no balancer {number}");
    }
    Ok(number - 1)
}
