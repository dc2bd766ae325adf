//! Translates NFD's authorizations and validator rules. Rules without an equivalent are left out,
//! so that the translation never allows more than the original.

use super::TranslationBuilder;
use super::info::Node;
use nw_api::config::value::quote;

/// Privileges of NFD's management. Routes have separate rules.
const PRIVILEGES: [&str; 4] = ["faces", "fib", "cs", "strategy-choice"];

/// The rules found so far.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// File of the certificate, or `any`; and privileges.
    rules: Vec<(String, Vec<String>)>,
    /// Whether `rib.localhost_security` accepts every signer. `None` without this section.
    routes: Option<bool>,
    localhop: bool,
}

pub(super) fn authorizations(node: &Node, out: &mut TranslationBuilder) {
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

pub(super) fn localhost(node: &Node, out: &mut TranslationBuilder) {
    out.access.routes = Some(accepts_any(node));
    if out.access.routes == Some(false) {
        out.note(
            node,
            "its rules can't be translated, so no application may register a prefix: write \
             [[anchor]] and [[allow]] with privileges = [\"rib\"]",
        );
    }
}

pub(super) fn localhop(node: &Node, out: &mut TranslationBuilder) {
    out.access.localhop = accepts_any(node);
    if !out.access.localhop {
        out.note(
            node,
            "its rules can't be translated, so no other machine may register a prefix: write \
             [[anchor]] and [[allow]] with from = \"remote\", and management.localhop = \
             \"anywhere\"",
        );
    }
}

/// Returns whether the rules have `trust-anchor { type any }`.
fn accepts_any(node: &Node) -> bool {
    let anchors = node.children.iter().filter(|option| option.key == "trust-anchor");
    anchors.into_iter().any(|anchor| super::text(anchor, "type", "") == "any")
}

/// Writes the rules, unless they equal the default.
pub(super) fn finish(out: &mut TranslationBuilder) {
    let Access { rules, routes, localhop } = core::mem::take(&mut out.access);
    let is_open = rules.iter().any(|(certificate, privileges)| {
        certificate == "any"
            && PRIVILEGES.iter().all(|needed| privileges.iter().any(|given| given == needed))
    });
    // In NFD a file without these sections allows no commands. Here the default is kept instead, as
    // such a router could not be managed.
    let is_default = (is_open || rules.is_empty()) && routes != Some(false);
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

fn rule(number: usize, certificate: &str, privileges: &[String], out: &mut TranslationBuilder) {
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
