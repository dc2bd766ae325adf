//! The description of a testbed as a diagram and as JSON.

use crate::cluster::Cluster;
use crate::node::Node;
use crate::plan::{Net, PORT};
use serde_json::{Value, json};
use std::fmt::Write;

pub(crate) fn draw(cluster: &Cluster) -> String {
    let mut out = String::new();
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let counts = [
        count(cluster.consumers().len(), "consumer"),
        count(cluster.producers().len(), "producer"),
        count(cluster.members().len(), "member"),
    ];
    let [consumers, producers, members] = counts;
    let address = cluster.addresses().v4;
    let inside = Net::Members.gateway().v4;
    if cluster.balancers().is_empty() {
        let _ = writeln!(
            out,
            "{consumers} ══╗\n{:width$} ╠══ router {address}:{PORT}",
            "",
            width = consumers.chars().count() + 1
        );
        let _ = writeln!(out, "{producers} ══╝");
    } else {
        let width = consumers.chars().count().max(producers.chars().count());
        let balancer = count(cluster.balancers().len(), "balancer");
        let _ = writeln!(out, "{consumers:<width$} ══╗                 {address}:{PORT}");
        let _ = writeln!(out, "{:width$}   ╠══ outside ══ {balancer} ══ inside ══ {members}", "");
        let _ = writeln!(
            out,
            "{producers:<width$} ══╝                                {inside} is their gateway"
        );
    }
    let _ = writeln!(out, "\n{:<6} {:<14} {:<15} ", "", "namespace", "address");
    let mut line = |node: &Node, details: String| {
        let _ = writeln!(
            out,
            "{:<6} {:<14} {:<15} {details}",
            node.name,
            node.netns,
            node.addresses.v4.to_string()
        );
    };
    for consumer in cluster.consumers() {
        line(&consumer.node, format!("sends to {}", consumer.uri));
    }
    for balancer in cluster.balancers() {
        let active = if balancer.is_active().unwrap_or(false) {
            "has the cluster's addresses"
        } else {
            "is on standby"
        };
        line(&balancer.node, format!("{active}; --control {}", balancer.control().display()));
    }
    for member in cluster.members() {
        line(
            &member.node,
            format!("UDP port {}, {}", member.port(), member.router.socket.display()),
        );
    }
    for producer in cluster.producers() {
        line(&producer.node, format!("UDP port {PORT}, {}", producer.router.socket.display()));
    }
    out.push_str("\nUseful commands for another terminal, as root:\n");
    for (what, command) in commands(cluster) {
        let _ = writeln!(out, "  {command}\n      {what}");
    }
    out
}

/// Returns descriptions of useful commands and the commands.
fn commands(cluster: &Cluster) -> Vec<(&'static str, String)> {
    let mut commands = Vec::new();
    if let Some(producer) = cluster.producers().first() {
        commands.push((
            "publishes a file and registers it with the cluster",
            format!(
                "ip netns exec {} nw put --socket {} /lab/file FILE",
                producer.node.netns,
                cluster.uri()
            ),
        ));
    }
    if let Some(consumer) = cluster.consumers().first() {
        commands.push((
            "fetches it",
            format!(
                "ip netns exec {} nw cat --socket {} /lab/file -o COPY",
                consumer.node.netns, consumer.uri
            ),
        ));
    }
    if let Some(balancer) = cluster.balancers().first() {
        let control = balancer.control().display();
        commands.push((
            "shows the members and their traffic",
            format!("nw balancer top --control {control}"),
        ));
        commands.push((
            "which member serves a name",
            format!("nw balancer where /lab/file --control {control}"),
        ));
    }
    if let Some(member) = cluster.members().first() {
        let uri = member.router.uri();
        commands.push(("shows a member's faces and tables", format!("nw status --socket {uri}")));
    }
    commands
}

pub(crate) fn describe(cluster: &Cluster) -> Value {
    let node = |node: &Node| json!({ "name": node.name, "namespace": node.netns, "address": node.addresses.v4, "address6": node.addresses.v6 });
    let extend = |mut value: Value, more: Value| {
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    };
    let consumers = cluster
        .consumers()
        .iter()
        .map(|consumer| extend(node(&consumer.node), json!({ "uri": consumer.uri })));
    let balancers = cluster.balancers().iter().map(|balancer| {
        let more = json!({ "control": balancer.control(), "process": balancer.process().map(|p| p.id()),
            "active": balancer.is_active().unwrap_or(false) });
        extend(node(&balancer.node), more)
    });
    let members = cluster.members().iter().map(|member| {
        let more = json!({ "number": member.number, "port": member.port(), "socket": member.router.socket, "process": member.router.process.id() });
        extend(node(&member.node), more)
    });
    let producers = cluster.producers().iter().map(|producer| {
        extend(node(&producer.node), json!({ "port": PORT, "socket": producer.router.socket }))
    });
    json!({
        "name": cluster.name(),
        "folder": cluster.directory(),
        "cluster": { "uri": cluster.uri(), "address": cluster.addresses().v4, "address6": cluster.addresses().v6, "port": PORT },
        "consumers": consumers.collect::<Vec<_>>(),
        "balancers": balancers.collect::<Vec<_>>(),
        "members": members.collect::<Vec<_>>(),
        "producers": producers.collect::<Vec<_>>(),
    })
}
