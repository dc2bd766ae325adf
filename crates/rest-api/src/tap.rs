//! `/v1/tap`: captures packets as pcapng.

use crate::State;
use crate::api_error::ApiError;
use crate::extract::Query;
use crate::router_client::RouterClient;
use crate::routes::parse_name;
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
use nw_router::introspection::observer::{Capture, TapFilter};
use nw_router::introspection::{Query as RouterQuery, QueryReply};
use serde::Deserialize;
use std::collections::HashMap;
use tokio::sync::mpsc::Sender;
use tokio::time::timeout;
use utoipa::{IntoParams, ToSchema};

/// Interval of fetching captured packets.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Interfaces in one file.
const INTERFACES_MAX: usize = 65_536;

/// Direction of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Received packets.
    In,
    /// Sent packets.
    Out,
}

/// Selects packets.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TapQuery {
    /// Only packets received or sent on this face.
    #[param(minimum = 1, maximum = 4_294_967_295_u64)]
    face: Option<u64>,
    /// Only names under this prefix.
    #[param(value_type = Option<NameText>, inline)]
    name: Option<String>,
    /// Only these kinds, separated by commas: interest, data, nack.
    #[param(value_type = Option<PacketKindsText>, inline)]
    kind: Option<String>,
    /// Only received (in) or sent (out) packets.
    #[param(inline)]
    direction: Option<Direction>,
    /// Stop after this number of packets.
    count: Option<u64>,
}

impl TapQuery {
    fn filter(&self) -> Result<TapFilter, ApiError> {
        let face = match self.face {
            None => None,
            Some(id) => {
                let face = FaceId::from_number(id);
                Some(
                    face.ok_or_else(|| ApiError::new(400, format!("{id} is not a valid face id")))?,
                )
            }
        };
        let kinds = self.kind.iter().flat_map(|kinds| kinds.split(','));
        let kinds = kinds.map(|kind| match kind.trim() {
            "interest" => Ok(Kind::Interest),
            "data" => Ok(Kind::Data),
            "nack" => Ok(Kind::Nack),
            unknown => Err(ApiError::new(
                400,
                format!("{unknown:?} is not a kind of packet: use interest, data or nack"),
            )),
        });
        Ok(TapFilter {
            face,
            name: self.name.as_deref().map_or_else(|| Ok(Name::new()), parse_name)?,
            kinds: kinds.collect::<Result<_, _>>()?,
            incoming: self.direction.map(|direction| direction == Direction::In),
        })
    }
}

/// Capture packets
///
/// A pcapng stream until the client disconnects: Ethernet frames with invented addresses, one
/// interface per face. Fragments are reassembled; a link header has the fields that forwarding
/// uses. Packets that are not read in time are lost, and counted in the stream.
#[utoipa::path(
    get, path = "/v1/tap", tag = "router", params(TapQuery),
    responses(
        (status = 200, content_type = "application/x-pcapng", body = inline(Pcapng)), (status = 400, body = Problem),
        (status = 503, body = Problem, description = "Too many captures are running")
    )
)]
pub async fn tap(
    Shared(state): Shared<State>,
    Query(query): Query<TapQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let filter = Box::new(query.filter()?);
    let QueryReply::TapStarted(Some(id)) =
        state.router.query(RouterQuery::StartTap(filter)).await?
    else {
        return Err(ApiError::new(503, "too many captures are running: stop one of them"));
    };
    let (sender, body) = stream::body();
    let mut writer =
        Writer { interfaces: HashMap::new(), remaining: query.count.unwrap_or(u64::MAX), lost: 0 };
    tokio::spawn(async move {
        let _ = writer.stream(&state.router, id, &sender).await;
        // If this fails, the capture ends by itself when it is no longer fetched.
        let _ = state.router.query(RouterQuery::StopTap(id)).await;
    });
    Ok(([(header::CONTENT_TYPE, "application/x-pcapng")], body))
}

struct Writer {
    interfaces: HashMap<FaceId, u32>,
    remaining: u64,
    lost: u64,
}

/// The client has disconnected, or the capture has ended.
struct Ended;

impl Writer {
    async fn stream(
        &mut self,
        router: &RouterClient,
        id: u64,
        sender: &Sender<Bytes>,
    ) -> Result<(), Ended> {
        let mut part = Vec::new();
        pcapng::section(concat!("namewire ", env!("CARGO_PKG_VERSION")), &mut part);
        sender.send(part.into()).await.map_err(|_| Ended)?;
        while self.remaining > 0 {
            let Ok(QueryReply::Tap(Some(capture))) = router.query(RouterQuery::TakeTap(id)).await
            else {
                return Err(Ended);
            };
            if capture.is_empty() {
                // Wait, unless the client disconnects.
                if timeout(POLL_INTERVAL, sender.closed()).await.is_ok() {
                    return Err(Ended);
                }
                continue;
            }
            let part = self.encode(router, &capture).await;
            sender.send(part.into()).await.map_err(|_| Ended)?;
        }
        Ok(())
    }

    async fn encode(&mut self, router: &RouterClient, capture: &Capture) -> Vec<u8> {
        let mut part = Vec::new();
        // Packets were lost after those of this capture, so the count belongs to the next packet.
        let lost = core::mem::replace(&mut self.lost, capture.lost);
        let mut lost = Some(lost);
        for (captured, link_packet) in capture.packets() {
            if self.remaining == 0 {
                break;
            }
            self.remaining -= 1;
            let interface = match self.interfaces.get(&captured.face) {
                Some(interface) => *interface,
                None => self.add_interface(router, captured.face, &mut part).await,
            };
            let packet = pcapng::Packet {
                interface,
                at_ns: capture.start_unix_ns + captured.time.as_nanos(),
                incoming: captured.incoming,
                lost: lost.take().unwrap_or(0),
                link_packet,
            };
            pcapng::packet(&packet, captured.face.number(), &mut part);
        }
        part
    }

    async fn add_interface(
        &mut self,
        router: &RouterClient,
        face: FaceId,
        part: &mut Vec<u8>,
    ) -> u32 {
        if self.interfaces.len() >= INTERFACES_MAX {
            return 0;
        }
        let uri = match router.query(RouterQuery::Face(face.number())).await {
            Ok(QueryReply::Face(Some(status))) => status.uri,
            _ => String::new(),
        };
        pcapng::interface(&format!("face {face}"), &uri, part);
        let interface = self.interfaces.len() as u32;
        self.interfaces.insert(face, interface);
        interface
    }
}
