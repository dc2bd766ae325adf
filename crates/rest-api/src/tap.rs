//! `/v1/tap`: packets as they come and leave, as pcapng.

use crate::State;
use crate::asker::{Asker, Refused};
use crate::extract::Query;
use crate::routes::name;
use crate::stream;
use axum::body::Bytes;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::IntoResponse;
use core::time::Duration;
use nw_api::pcapng;
use nw_api::rest::Problem;
use nw_api::schema::{NameText, PacketKindsText, Pcapng};
use nw_element_api::{FaceId, Kind};
use nw_name::Name;
use nw_router::inside::watch::{Capture, TapFilter};
use nw_router::inside::{Answer, Question};
use serde::Deserialize;
use std::collections::HashMap;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

/// How often the router is asked for what it captured.
const PERIOD: Duration = Duration::from_millis(50);
/// Interfaces of one file.
const INTERFACES_MAX: usize = 65_536;

/// Whether packets come or leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// They come.
    In,
    /// They leave.
    Out,
}

/// Which packets.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Only what comes or leaves by this face.
    #[param(minimum = 1, maximum = 4_294_967_295_u64)]
    face: Option<u64>,
    /// Only names under this.
    #[param(value_type = Option<NameText>, inline)]
    name: Option<String>,
    /// Only these kinds, with commas between them: interest, data, nack.
    #[param(value_type = Option<PacketKindsText>, inline)]
    kind: Option<String>,
    /// Only what comes (in) or leaves (out).
    #[param(inline)]
    direction: Option<Direction>,
    /// End after so many.
    count: Option<u64>,
}

impl Wanted {
    fn filter(&self) -> Result<TapFilter, Refused> {
        let face = match self.face {
            None => None,
            Some(id) => {
                let face = FaceId::from_number(id);
                Some(face.ok_or_else(|| Refused::new(400, format!("no face can have the id {id}")))?)
            }
        };
        let kinds = self.kind.iter().flat_map(|kinds| kinds.split(','));
        let kinds = kinds.map(|kind| match kind.trim() {
            "interest" => Ok(Kind::Interest),
            "data" => Ok(Kind::Data),
            "nack" => Ok(Kind::Nack),
            other => Err(Refused::new(400, format!("{other:?} is no kind: interest, data or nack"))),
        });
        Ok(TapFilter {
            face,
            name: self.name.as_deref().map_or_else(|| Ok(Name::new()), name)?,
            kinds: kinds.collect::<Result<_, _>>()?,
            incoming: self.direction.map(|direction| direction == Direction::In),
        })
    }
}

/// Packets as they come and leave
///
/// A pcapng file that goes on until the reader leaves: Ethernet frames with made up addresses, one interface a face. Packets are whole (what came
/// in pieces was put together), with a link header of those fields that forwarding uses. What is not read in time is lost, and counted in the file.
#[utoipa::path(
    get, path = "/v1/tap", tag = "router", params(Wanted),
    responses(
        (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)), (status = 400, body = Problem),
        (status = 503, body = Problem, description = "There are as many captures as there may be")
    )
)]
pub async fn tap(
    Shared(state): Shared<State>,
    Query(wanted): Query<Wanted>,
) -> Result<impl IntoResponse, Refused> {
    let filter = Box::new(wanted.filter()?);
    let Answer::TapStarted(Some(id)) = state.asker.ask(Question::StartTap(filter)).await? else {
        return Err(Refused::new(503, "there are as many captures as there may be: end one"));
    };
    let (sender, body) = stream::body();
    let mut writer = Writer { interfaces: HashMap::new(), left: wanted.count.unwrap_or(u64::MAX), lost: 0 };
    tokio::spawn(async move {
        let _ = writer.copy(&state.asker, id, &sender).await;
        // If this is refused, the capture ends by itself as nobody asks for it.
        let _ = state.asker.ask(Question::StopTap(id)).await;
    });
    Ok(([(header::CONTENT_TYPE, "application/x-pcapng")], body))
}

struct Writer {
    interfaces: HashMap<FaceId, u32>,
    left: u64,
    lost: u64,
}

/// The reader has gone, or the capture has.
struct Ended;

impl Writer {
    async fn copy(&mut self, asker: &Asker, id: u64, sender: &Sender<Bytes>) -> Result<(), Ended> {
        let mut part = Vec::new();
        pcapng::section(concat!("namewire ", env!("CARGO_PKG_VERSION")), &mut part);
        sender.send(part.into()).await.map_err(|_| Ended)?;
        while self.left > 0 {
            let Ok(Answer::Tap(Some(capture))) = asker.ask(Question::TakeTap(id)).await else {
                return Err(Ended);
            };
            if capture.is_empty() {
                // Waits, but not for a reader that has gone.
                if timeout(PERIOD, sender.closed()).await.is_ok() {
                    return Err(Ended);
                }
                continue;
            }
            let part = self.part(asker, &capture).await;
            sender.send(part.into()).await.map_err(|_| Ended)?;
        }
        Ok(())
    }

    async fn part(&mut self, asker: &Asker, capture: &Capture) -> Vec<u8> {
        let mut part = Vec::new();
        // What was lost came behind these, so it stands before the next.
        let lost = core::mem::replace(&mut self.lost, capture.lost);
        let mut lost = Some(lost);
        for (captured, link_packet) in capture.packets() {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let interface = match self.interfaces.get(&captured.face) {
                Some(interface) => *interface,
                None => self.add_interface(asker, captured.face, &mut part).await,
            };
            let packet = pcapng::Packet {
                interface,
                at_ns: capture.start_unix_ns + captured.at.as_nanos(),
                incoming: captured.incoming,
                lost: lost.take().unwrap_or(0),
                link_packet,
            };
            pcapng::packet(&packet, captured.face.number(), &mut part);
        }
        part
    }

    async fn add_interface(&mut self, asker: &Asker, face: FaceId, part: &mut Vec<u8>) -> u32 {
        if self.interfaces.len() >= INTERFACES_MAX {
            return 0;
        }
        let uri = match asker.ask(Question::Face(face.number())).await {
            Ok(Answer::Face(Some(status))) => status.uri,
            _ => String::new(),
        };
        pcapng::interface(&format!("face {face}"), &uri, part);
        let interface = self.interfaces.len() as u32;
        self.interfaces.insert(face, interface);
        interface
    }
}
