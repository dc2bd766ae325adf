//! Reaching the router that the command line or the environment names.

use crate::args::Router;
use crate::exit::{Failure, Status};
use anyhow::{Context, Result};
use nw_app::{Client, FaceUri, transport};

/// The router's place.
pub fn uri(router: &Router) -> Result<FaceUri> {
    Ok(match &router.socket {
        Some(uri) => uri.clone(),
        None => transport::default_uri()?,
    })
}

/// A connection to it.
pub fn connect(router: &Router) -> Result<Client> {
    let uri = uri(router)?;
    Client::connect(&uri).with_context(|| {
        let text =
            format!("can't reach a router at {uri} (start one with `nw run`, or name another with --socket)");
        Failure::new(Status::Unreachable, text)
    })
}
