//! Where `nw top` looks: the control socket, or, where that can't be reached, what the management protocol shows to everyone.

use super::Top;
use crate::connect::connect;
use crate::exit::{Failure, status};
use crate::inside::http::{Method, Place, body};
use crate::output::describe;
use anyhow::Result;
use nw_api::counters::split_done;
use nw_api::management::Dataset;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::rest::{Look, RouterStatus};
use nw_app::Client;
use nw_app::control::dataset;

/// A router that is looked at.
pub enum Source {
    /// By REST: everything.
    Rest(Place, u8),
    /// By management datasets: all but prefixes and the loop's time. Also of routers that are not ours.
    Management(Box<Client>),
}

impl Source {
    /// The one that can be reached.
    pub fn connect(args: &Top) -> Result<Self> {
        let place = args.control.place();
        let rest = place.and_then(|place| {
            body::<Look>(&place, Method::Get, &path(args.depth), None)?;
            Ok(Source::Rest(place, args.depth))
        });
        match rest {
            Ok(source) => Ok(source),
            Err(error) if args.control.control.is_some() => Err(error),
            Err(error) => match connect(&args.control.router) {
                Ok(client) => Ok(Source::Management(Box::new(client))),
                Err(other) => {
                    let text = format!("{}; nor by REST: {}", describe(&other), describe(&error));
                    Err(Failure::new(status(&other), text).into())
                }
            },
        }
    }

    /// All there is to see now.
    pub fn look(&mut self) -> Result<Look> {
        match self {
            Source::Rest(place, depth) => body(place, Method::Get, &path(*depth), None),
            Source::Management(client) => by_management(client),
        }
    }

    /// What is missing, for people.
    pub fn note(&self) -> &'static str {
        match self {
            Source::Rest(..) => "",
            Source::Management(_) => "no control socket: prefixes and loop time are not shown",
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
