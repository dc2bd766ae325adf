//! `nw network route`, `key` and `token`: what persons set beside the document, and who may do so.

use super::{Network, show};
use crate::observe::http::{self, Method};
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use nw_api::config::file::{KEY_MAX, read_bytes};
use nw_api::network_access::{
    KeyAddition, KeyRuleText, KeyUse, NetworkTrust, NewToken, PersonRoute, Role, TokenRequest,
    UserToken,
};
use nw_trust::pem::encode_base64;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Routes {
    #[command(subcommand)]
    action: Option<RouteCommand>,
    #[command(flatten)]
    network: Network,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
pub enum RouteCommand {
    /// List the routes of all name routers, and who set them
    List {
        #[command(flatten)]
        network: Network,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Let a face of an element lead to a prefix; all other name routers get routes to it
    Add(Route),
    /// Remove such a route
    Remove(Route),
}

#[derive(Debug, Args)]
pub struct Route {
    #[command(flatten)]
    network: Network,
    /// Prefix
    prefix: String,
    /// Element that routes by name, and its face, as in the graph file: ELEMENT.FACE
    #[arg(value_name = "ELEMENT.FACE", value_parser = parse_place)]
    place: (String, String),
    /// Cost beyond the face
    #[arg(long, default_value_t = 0)]
    cost: u32,
}

/// Parses `ELEMENT.FACE`.
pub fn parse_place(text: &str) -> Result<(String, String), String> {
    let (element, face) = text.split_once('.').ok_or("write ELEMENT.FACE, such as nr.uplink")?;
    Ok((element.to_owned(), face.to_owned()))
}

/// Runs `nw network route …`; without a verb, as `list`, which was its only meaning before.
pub fn route(args: &Routes) -> Result<()> {
    let (route, path) = match &args.action {
        None => return show::routes(&args.network.address()?, args.json),
        Some(RouteCommand::List { network, json }) => {
            return show::routes(&network.address()?, *json);
        }
        Some(RouteCommand::Add(route)) => (route, "/v1/routes"),
        Some(RouteCommand::Remove(route)) => (route, "/v1/routes/remove"),
    };
    let (element, face) = route.place.clone();
    let (prefix, cost) = (route.prefix.clone(), u64::from(route.cost));
    let body = serde_json::to_value(PersonRoute { prefix, element, face, cost })?;
    http::request(&route.network.address()?, Method::Post, path, Some(&body)).map(drop)
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// List anchors, certificates, and the rules which keys may sign and register which names
    List {
        #[command(flatten)]
        network: Network,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Give a certificate to all verifiers and registration ports
    Add {
        #[command(flatten)]
        network: Network,
        /// File with the certificate, as `nw cert export` writes it
        file: PathBuf,
        /// Only for chains that lead to an anchor; without it, the certificate is an anchor
        #[arg(long)]
        chain: bool,
    },
    /// Take a certificate back
    Remove {
        #[command(flatten)]
        network: Network,
        /// Name of the certificate
        certificate: String,
    },
    /// Let keys sign and register names
    Allow(Rule),
    /// Remove such a rule
    Forbid(Rule),
}

#[derive(Debug, Args)]
pub struct Rule {
    #[command(flatten)]
    network: Network,
    /// Pattern of the names, such as `/site/<who>/<..>`
    names: String,
    /// Pattern of the names of the keys, such as `/site/<who>/KEY/<_>`
    keys: String,
}

/// Runs `nw network key …`.
pub fn key(action: &KeyCommand) -> Result<()> {
    match action {
        KeyCommand::List { network, json } => list_keys(network, *json),
        KeyCommand::Add { network, file, chain } => {
            let bytes = read_bytes(file, KEY_MAX)?;
            let wire = nw_trust::certificate::read_file(&bytes)
                .with_context(|| format!("{} has no certificate", file.display()))?;
            let r#use = if *chain { KeyUse::Certificate } else { KeyUse::Anchor };
            let certificate = encode_base64(&wire);
            let body = serde_json::to_value(KeyAddition { r#use, certificate })?;
            http::request(&network.address()?, Method::Post, "/v1/keys", Some(&body)).map(drop)
        }
        KeyCommand::Remove { network, certificate } => {
            let path = format!("/v1/keys/certificate?name={}", http::escape(certificate));
            http::request(&network.address()?, Method::Delete, &path, None).map(drop)
        }
        KeyCommand::Allow(rule) => send_rule(rule, "/v1/key-rules"),
        KeyCommand::Forbid(rule) => send_rule(rule, "/v1/key-rules/remove"),
    }
}

fn send_rule(rule: &Rule, path: &str) -> Result<()> {
    let (names, keys) = (rule.names.clone(), rule.keys.clone());
    let body = serde_json::to_value(KeyRuleText { names, keys })?;
    http::request(&rule.network.address()?, Method::Post, path, Some(&body)).map(drop)
}

fn list_keys(network: &Network, is_json: bool) -> Result<()> {
    let trust: NetworkTrust =
        http::request_json(&network.address()?, Method::Get, "/v1/keys", None)?;
    if is_json {
        return output::json_line(&trust);
    }
    let author = |is_document: bool, author: &str| match is_document {
        true => "the document".to_owned(),
        false => author.to_owned(),
    };
    let mut rows = vec![output::row([&"use", &"certificate", &"added by"])];
    rows.extend(trust.keys.iter().map(|key| {
        let key_use = match key.r#use {
            KeyUse::Anchor => "anchor",
            KeyUse::Certificate => "chain",
        };
        output::row([&key_use, &key.name, &author(key.document, &key.author)])
    }));
    output::table(&rows)?;
    let mut rows = vec![output::row([&"names", &"keys", &"added by"])];
    rows.extend(
        trust.rules.iter().map(|rule| {
            output::row([&rule.names, &rule.keys, &author(rule.document, &rule.author)])
        }),
    );
    output::table(&rows)
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it; it can't be shown again
    Add {
        #[command(flatten)]
        network: Network,
        /// Name, which the audit shows as the author of changes
        token: String,
        /// What it may do: viewer (look), operator (documents, scale, routes), admin (all)
        #[arg(long, value_parser = parse_role, default_value = "viewer")]
        role: Role,
        /// Days until it expires
        #[arg(long, value_name = "DAYS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3650))]
        days: u64,
    },
    /// List tokens, their roles and when they expire
    List {
        #[command(flatten)]
        network: Network,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// End the rights of a token at once
    Remove {
        #[command(flatten)]
        network: Network,
        /// Name
        token: String,
    },
}

fn parse_role(text: &str) -> Result<Role, String> {
    let found = Role::NAMES.into_iter().find(|(name, _)| *name == text);
    found.map(|(_, role)| role).ok_or_else(|| "write viewer, operator or admin".to_owned())
}

/// Runs `nw network token …`.
pub fn token(action: &TokenCommand) -> Result<()> {
    match action {
        TokenCommand::Add { network, token, role, days } => {
            let (name, valid_s) = (token.clone(), days * 86_400);
            let body = serde_json::to_value(TokenRequest { name, role: *role, valid_s })?;
            let made: NewToken =
                http::request_json(&network.address()?, Method::Post, "/v1/tokens", Some(&body))?;
            Ok(outln!("{}", made.token)?)
        }
        TokenCommand::List { network, json } => {
            let tokens: Vec<UserToken> =
                http::request_json(&network.address()?, Method::Get, "/v1/tokens", None)?;
            if *json {
                return tokens.iter().try_for_each(output::json_line);
            }
            let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            let mut rows = vec![output::row([&"token", &"role", &"expires in", &"made by"])];
            rows.extend(tokens.iter().map(|token| {
                let left_s = (token.expires_ms / 1000).saturating_sub(now_s);
                let left = match left_s {
                    0 => "expired".to_owned(),
                    s if s < 86_400 => format!("{} h", s / 3600),
                    s => format!("{} days", s / 86_400),
                };
                output::row([&token.name, &token.role.as_str(), &left, &token.author])
            }));
            output::table(&rows)
        }
        TokenCommand::Remove { network, token } => {
            let path = format!("/v1/tokens/{}", http::escape(token));
            http::request(&network.address()?, Method::Delete, &path, None).map(drop)
        }
    }
}
