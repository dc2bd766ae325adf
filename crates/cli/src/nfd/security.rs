//! Who may command: NFD's authorizations and validator rules. What has no equal here is left out, so that nothing is allowed that was not.

use super::Out;
use super::info::Node;
use nw_api::config::value::quote;

/// Privileges of NFD's management, but for routes, which have rules of their own.
const PRIVILEGES: [&str; 4] = ["faces", "fib", "cs", "strategy-choice"];

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// Certificate's file, `any`; and privileges.
    rules: Vec<(String, Vec<String>)>,
    /// `rib.localhost_security` accepts every signer; `None` where there is none.
    routes: Option<bool>,
    localhop: bool,
}

pub(super) fn authorizations(node: &Node, out: &mut Out) {
    for rule in &node.children {
        if rule.key != "authorize" {
            out.unknown(rule);
            continue;
        }
        let certificate = super::text(rule, "certfile", "any").to_owned();
        let mut privileges = Vec::new();
        for list in rule.children.iter().filter(|option| option.key == "privileges") {
            for privilege in &list.children {
                match PRIVILEGES.contains(&privilege.key.as_str()) {
                    true => privileges.push(privilege.key.clone()),
                    false => out.unknown(privilege),
                }
            }
        }
        out.access.rules.push((certificate, privileges));
    }
}

pub(super) fn localhost(node: &Node, out: &mut Out) {
    out.access.routes = Some(accepts_any(node));
    if out.access.routes == Some(false) {
        out.note(node, "its rules can't be translated, so no application may register a prefix: write [[anchor]] and [[allow]] with privileges = [\"rib\"]");
    }
}

pub(super) fn localhop(node: &Node, out: &mut Out) {
    out.access.localhop = accepts_any(node);
    if !out.access.localhop {
        out.note(node, "its rules can't be translated, so no other machine may register a prefix: write [[anchor]] and [[allow]] with from = \"remote\", and management.localhop = \"anywhere\"");
    }
}

/// `trust-anchor { type any }`
fn accepts_any(node: &Node) -> bool {
    let anchors = node.children.iter().filter(|option| option.key == "trust-anchor");
    anchors.into_iter().any(|anchor| super::text(anchor, "type", "") == "any")
}

/// Writes the rules: none where the default says the same.
pub(super) fn finish(out: &mut Out) {
    let Access { rules, routes, localhop } = core::mem::take(&mut out.access);
    let open = rules.iter().any(|(certificate, privileges)| {
        certificate == "any" && PRIVILEGES.iter().all(|needed| privileges.iter().any(|given| given == needed))
    });
    // A file without these sections allows nothing in NFD; here that would be a router that cannot be commanded, which is said and left to its owner.
    let is_default = (open || rules.is_empty()) && routes != Some(false);
    if !is_default {
        out.set("management", "digest", quote("nowhere"));
        out.set("management", "unknown_key", quote("nowhere"));
        for (number, (certificate, privileges)) in rules.iter().enumerate() {
            rule(number + 1, certificate, privileges, out);
        }
        if routes == Some(true) {
            out.items.push(allow("routes", "local", "any", &["rib".to_owned()]));
        }
    }
    if localhop {
        out.set("management", "localhop", quote("anywhere"));
        out.items.push(allow("routes of neighbours", "remote", "any", &["rib".to_owned()]));
    }
}

fn rule(number: usize, certificate: &str, privileges: &[String], out: &mut Out) {
    if privileges.is_empty() {
        return;
    }
    let anchor = match certificate {
        "any" => "any".to_owned(),
        file => {
            let id = format!("certificate {number}");
            out.items.push(format!("[[anchor]]\nid = {}\nfile = {}", quote(&id), quote(file)));
            id
        }
    };
    out.items.push(allow(&format!("authorize {number}"), "local", &anchor, privileges));
}

fn allow(id: &str, from: &str, anchor: &str, privileges: &[String]) -> String {
    let privileges: Vec<String> = privileges.iter().map(|privilege| quote(privilege)).collect();
    format!(
        "[[allow]]\nid = {}\nfrom = {}\nanchors = [{}]\nprivileges = [{}]",
        quote(id),
        quote(from),
        quote(anchor),
        privileges.join(", ")
    )
}
