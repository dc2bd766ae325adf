//! The data source of `nw top`: the control socket, or the management protocol if that can't be
//! reached.

use super::Top;
use crate::connect::connect;
use crate::exit::{Failure, status};
use crate::observe::http::{ControlAddress, Method, request_json};
use crate::output::describe;
use anyhow::Result;
use nw_api::counters::split_done;
use nw_api::management::Dataset;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::rest::{Look, RouterStatus};
use nw_app::Client;
use nw_app::control::dataset;

/// The source of a router's counters.
pub enum Source {
    /// REST over the control socket, with the number of name components of a prefix. Has all
    /// counters.
    Rest(ControlAddress, u8),
    /// Management datasets. They lack prefixes and the event loop's load, but other routers have
    /// them, too.
    Management(Box<Client>),
}

impl Source {
    /// Connects to the control socket, or else to the management protocol.
    pub fn connect(args: &Top) -> Result<Self> {
        let address = args.control.address();
        let by_rest = address.and_then(|address| {
            request_json::<Look>(&address, Method::Get, &path(args.depth), None)?;
            Ok(Source::Rest(address, args.depth))
        });
        match by_rest {
            Ok(source) => Ok(source),
            Err(error) if args.control.control.is_some() => Err(error),
            Err(error) => match connect(&args.control.router) {
                Ok(client) => Ok(Source::Management(Box::new(client))),
                Err(connect_error) => {
                    let text =
                        format!("{}; nor by REST: {}", describe(&connect_error), describe(&error));
                    Err(Failure::new(status(&connect_error), text).into())
                }
            },
        }
    }

    /// Fetches the current counters.
    pub fn snapshot(&mut self) -> Result<Look> {
        match self {
            Source::Rest(address, depth) => request_json(address, Method::Get, &path(*depth), None),
            Source::Management(client) => by_management(client),
        }
    }

    /// Returns a note about missing figures; empty if there are none.
    pub fn note(&self) -> &'static str {
        match self {
            Source::Rest(..) => "",
            Source::Management(_) => {
                "no control socket: prefixes and event loop load are not shown"
            }
        }
    }
}

fn path(depth: u8) -> String {
    format!("/v1/look?components={depth}")
}

fn by_management(client: &mut Client) -> Result<Look> {
    let faces: Vec<nw_api::management::FaceStatus> =
        decode_items(&dataset(client, Dataset::FacesList, None)?)?;
    let router = RouterStatus {
        forwarder: decode_status(&dataset(client, Dataset::StatusGeneral, None)?)?,
        content_store: decode_cs_info(&dataset(client, Dataset::CsInfo, None)?)?,
        face_count: faces.len() as u64,
        in_bytes: faces.iter().map(|face| face.in_bytes).sum(),
        out_bytes: faces.iter().map(|face| face.out_bytes).sum(),
        ..RouterStatus::default()
    };
    let drops = match dataset(client, Dataset::StatusDrops, None) {
        Ok(content) => decode_items(&content)?,
        Err(error) if error.is_unknown() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let (drops, done) = split_done(drops);
    Ok(Look { status: router, faces, drops, done, top: None })
}
