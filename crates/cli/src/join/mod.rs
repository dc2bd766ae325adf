//! `nw join` and `nw leave`: connects the router to a hub of an NDN network, and undoes it.
//!
//! Invariant: the state file names all that was made, from the first change on, so an interrupted
//! `nw join` is undone by `nw leave`; one that fails undoes itself.

mod certificate;
mod dns;
mod fch;
mod hub;
mod multicast;
mod session;
mod state;

use crate::args::flags::{KeyStoreArgs, QueryArgs};
use crate::connect::{connect, uri};
use crate::output::json_line;
use anyhow::{Context, Result, bail};
use certificate::CaArgs;
use clap::Args;
use nw_app::control::Commander;
use nw_name::Name;
use serde_json::json;
use session::Session;
use state::{Joined, StateFile};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Join {
    /// Name prefix of this site, registered at the hub; the identity of the certificate
    site: Option<Name>,
    /// Face URI of the hub; without it, a hub is looked for
    ///
    /// By multicast on each interface (/localhop/ndn-autoconf/hub) and, at the same time, by DNS:
    /// service _ndn._udp in the domains of the search list. Multicast goes before. If neither finds
    /// one, as --fch and --home-hub say. Of several hubs that answer, one by UDP is taken, and of
    /// these the first by order.
    #[arg(long, value_name = "URI")]
    hub: Option<String>,
    /// Resolver configuration for the search by DNS
    #[arg(long, value_name = "FILE", default_value = "/etc/resolv.conf")]
    resolver: PathBuf,
    /// Ask a hub finder (NDN-FCH) if neither multicast nor DNS finds a hub
    ///
    /// It sees this machine's address. It is asked by HTTP without TLS.
    #[arg(long, value_name = "URL", conflicts_with = "hub")]
    fch: Option<String>,
    /// Ask DNS for the hub of the site's name at last, below _homehub._autoconf.named-data.net
    #[arg(long, requires = "site", conflicts_with = "hub")]
    home_hub: bool,
    #[command(flatten)]
    ca: CaArgs,
    #[command(flatten)]
    store: KeyStoreArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    query: QueryArgs,
}

#[derive(Debug, Args)]
pub struct Leave {
    #[command(flatten)]
    store: KeyStoreArgs,
    #[command(flatten)]
    state: StateArgs,
    #[command(flatten)]
    query: QueryArgs,
}

/// Where the state of `nw join` is kept.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Folder of the state file join.json; default: $XDG_STATE_HOME/nw, /var/lib/nw for root,
    /// ~/.local/state/nw for others
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

/// Returns a number that other programs can't predict.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Runs `nw join`.
pub fn join(args: &Join) -> Result<ExitCode> {
    let file = StateFile::at(args.state.state.as_deref())?;
    if let Some(joined) = file.read()? {
        bail!("already joined to {}: `nw leave` undoes that", joined.hub);
    }
    if args.ca.is_given() && args.site.is_none() {
        bail!("name the site that the certificate is for: nw join /SITE --ca {}", args.ca.prefix());
    }
    args.ca.check()?;
    let mut client = connect(&args.query.router)?;
    let hub = match &args.hub {
        Some(uri) => hub::Hub::configured(uri)?,
        None => hub::find(&hub::Search {
            resolver: &args.resolver,
            fch: args.fch.as_deref(),
            home_hub_of: args.site.as_ref().filter(|_| args.home_hub),
        })?,
    };
    let router = uri(&args.query.router)?;
    let commander = Commander::at(&router, None);
    let state = Joined { hub: hub.uri.clone(), source: hub.source.to_owned(), ..Joined::default() };
    let mut session = Session::new(&mut client, commander, &file, state);
    if let Err(error) = make(args, &mut session) {
        session.undo(&args.store).context("can't undo what was made; `nw leave` tries again")?;
        return Err(error);
    }
    let state = session.finish();
    if args.query.json {
        json_line(&serde_json::to_value(&state)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    outln!("joined {} ({})", state.hub, state.source)?;
    if let Some(name) = &state.certificate {
        outln!("certificate {name}")?;
    }
    if let Some(site) = &state.site {
        outln!("{site} is registered at the hub")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes all that a member of the network needs, in an order in which each step needs the earlier
/// ones.
fn make(args: &Join, session: &mut Session<'_>) -> Result<()> {
    session.make_face()?;
    session.add_route("/")?;
    session.add_route("/localhop/nfd")?;
    if args.ca.is_given() {
        let site = args.site.as_ref().context("a certificate needs the name of the site")?;
        session.enrol(&args.ca, site, &args.store)?;
    }
    match &args.site {
        Some(site) => session.register_site(site, &args.store),
        None => Ok(()),
    }
}

/// Runs `nw leave`.
pub fn leave(args: &Leave) -> Result<ExitCode> {
    let file = StateFile::at(args.state.state.as_deref())?;
    let Some(joined) = file.read()? else {
        bail!("not joined: {} does not exist", file.path().display());
    };
    let hub = joined.hub.clone();
    let mut client = connect(&args.query.router)?;
    let commander = Commander::at(&uri(&args.query.router)?, None);
    Session::new(&mut client, commander, &file, joined).undo(&args.store)?;
    match args.query.json {
        true => json_line(&json!({ "left": hub }))?,
        false => outln!("left {hub}")?,
    }
    Ok(ExitCode::SUCCESS)
}
