//! `/v1/tap`: captures packets as pcapng. A [`CaptureSource`] makes the same of other programs.

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
use nw_element_api::capture::{Capture, CapturePoint, FaceLabel, TapFilter};
use nw_element_api::{FaceId, Kind};
use nw_name::Name;
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

/// Selects packets of a capture.
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
    pub count: Option<u64>,
}

impl TapQuery {
    /// Returns the filter.
    ///
    /// # Errors
    /// 400 if a value is not valid.
    pub fn filter(&self) -> Result<TapFilter, ApiError> {
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
            packets_per_s_max: None,
        })
    }
}

/// Selects packets of a capture in a service.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ServiceTapQuery {
    /// Packets that leave this element by an output port, instead of those at faces. Not together
    /// with `face` and `direction`.
    element: Option<String>,
    /// Only this output port of the element.
    port: Option<String>,
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
    pub count: Option<u64>,
}

/// Output ports of an element whose packets are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementOutputs {
    /// Name of the element in the graph.
    pub element: String,
    /// Name of the port; `None` means all.
    pub port: Option<String>,
}

impl ServiceTapQuery {
    /// Returns the filter, and the outputs whose packets are wanted instead of those at faces.
    ///
    /// # Errors
    /// 400 if a value is not valid, or if values exclude each other.
    pub fn selection(self) -> Result<(TapFilter, Option<ElementOutputs>), ApiError> {
        let ServiceTapQuery { element, port, face, name, kind, direction, count } = self;
        if port.is_some() && element.is_none() {
            return Err(ApiError::new(400, "name the element that has this port"));
        }
        if element.is_some() && (face.is_some() || direction.is_some()) {
            let text = "packets at an element have no face and no direction: leave these out";
            return Err(ApiError::new(400, text));
        }
        let filter = TapQuery { face, name, kind, direction, count }.filter()?;
        Ok((filter, element.map(|element| ElementOutputs { element, port })))
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
        return Err(too_many_captures());
    };
    Ok(capture_response(RouterTap { router: state.router, id }, query.count))
}

/// Returns the error of a program that runs as many captures as it may.
pub fn too_many_captures() -> ApiError {
    ApiError::new(503, "too many captures are running: stop one of them")
}

/// A capture that is running in a program.
pub trait CaptureSource: Send + 'static {
    /// Fetches the packets since the last fetch. `None` if the capture has ended.
    fn take(&mut self) -> impl Future<Output = Option<Capture>> + Send;
    /// Returns the label of a face or port; texts are empty for what is not known.
    fn label(&mut self, point: CapturePoint) -> impl Future<Output = FaceLabel> + Send;
    /// Stops the capture.
    fn stop(self) -> impl Future<Output = ()> + Send;
}

/// Returns a response that sends a capture as pcapng until the client disconnects, or until it has
/// `count` packets.
pub fn capture_response<S: CaptureSource>(mut source: S, count: Option<u64>) -> impl IntoResponse {
    let (sender, body) = stream::body();
    let mut writer = Writer {
        interfaces: HashMap::new(),
        remaining: count.unwrap_or(u64::MAX),
        lost: 0,
        lost_total: 0,
        last_at_ns: 0,
    };
    tokio::spawn(async move {
        let _ = writer.stream(&mut source, &sender).await;
        source.stop().await;
    });
    ([(header::CONTENT_TYPE, "application/x-pcapng")], body)
}

struct RouterTap {
    router: RouterClient,
    id: u64,
}

impl CaptureSource for RouterTap {
    async fn take(&mut self) -> Option<Capture> {
        match self.router.query(RouterQuery::TakeTap(self.id)).await {
            Ok(QueryReply::Tap(Some(capture))) => Some(*capture),
            _ => None,
        }
    }

    async fn label(&mut self, point: CapturePoint) -> FaceLabel {
        let CapturePoint::Face(face) = point else { return FaceLabel::default() };
        match self.router.query(RouterQuery::FaceLabel(face)).await {
            Ok(QueryReply::FaceLabel(label)) => label.unwrap_or_default(),
            _ => FaceLabel::default(),
        }
    }

    async fn stop(self) {
        // If this fails, the capture ends by itself when it is no longer fetched.
        let _ = self.router.query(RouterQuery::StopTap(self.id)).await;
    }
}

struct Writer {
    interfaces: HashMap<CapturePoint, u32>,
    remaining: u64,
    /// Packets lost since the last one that was written; not written yet.
    lost: u64,
    lost_total: u64,
    /// Time of the last packet.
    last_at_ns: u64,
}

/// The client has disconnected, or the capture has ended.
struct Ended;

impl Writer {
    async fn stream<S: CaptureSource>(
        &mut self,
        source: &mut S,
        sender: &Sender<Bytes>,
    ) -> Result<(), Ended> {
        let mut part = Vec::new();
        pcapng::section(concat!("namewire ", env!("CARGO_PKG_VERSION")), &mut part);
        sender.send(part.into()).await.map_err(|_| Ended)?;
        while self.remaining > 0 {
            let capture = source.take().await.ok_or(Ended)?;
            let part = self.encode(source, &capture).await;
            if !part.is_empty() {
                sender.send(part.into()).await.map_err(|_| Ended)?;
            }
            if capture.packets().next().is_none() {
                // Wait, unless the client disconnects.
                if timeout(POLL_INTERVAL, sender.closed()).await.is_ok() {
                    return Err(Ended);
                }
            }
        }
        Ok(())
    }

    async fn encode<S: CaptureSource>(&mut self, source: &mut S, capture: &Capture) -> Vec<u8> {
        let mut part = Vec::new();
        for (captured, link_packet) in capture.packets() {
            if self.remaining == 0 {
                break;
            }
            self.remaining -= 1;
            let interface = match self.interfaces.get(&captured.point) {
                Some(interface) => *interface,
                None => self.add_interface(source, captured.point, &mut part).await,
            };
            let packet = pcapng::Packet {
                interface,
                at_ns: capture.start_unix_ns + captured.time.as_nanos(),
                incoming: captured.incoming,
                lost: core::mem::take(&mut self.lost),
                link_packet,
            };
            self.last_at_ns = packet.at_ns;
            pcapng::packet(&packet, captured.point.number(), &mut part);
        }
        // Packets were lost after those of this capture: they belong to the next packet, or to a
        // block of their own if none follows.
        self.lost += capture.lost;
        self.lost_total += capture.lost;
        let is_quiet = capture.packets().next().is_none();
        if is_quiet && self.lost > 0 && !self.interfaces.is_empty() {
            self.lost = 0;
            pcapng::statistics(0, self.last_at_ns, self.lost_total, &mut part);
        }
        part
    }

    async fn add_interface<S: CaptureSource>(
        &mut self,
        source: &mut S,
        point: CapturePoint,
        part: &mut Vec<u8>,
    ) -> u32 {
        if self.interfaces.len() >= INTERFACES_MAX {
            return 0;
        }
        let FaceLabel { name, uri } = source.label(point).await;
        let name = match point {
            CapturePoint::Face(face) if name.is_empty() => format!("face {face}"),
            _ => name,
        };
        pcapng::interface(&name, &uri, part);
        let interface = self.interfaces.len() as u32;
        self.interfaces.insert(point, interface);
        interface
    }
}
