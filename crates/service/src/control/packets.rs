//! Hand-over of cached packets: a content store gives its packets in slices, newest first, and
//! takes those of another store.
//!
//! The first slice lists the store in steps, and later ones copy packets by their references; the
//! loop forwards packets between any two steps. One export is under way per service: a new one
//! replaces it. Bounds: [`LISTED_MAX`] packets in a list, [`SLICE_BYTES_MAX`] bytes in a slice.

use super::Shared;
use super::elements::{call, no_store};
use axum::extract::{Json, State};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nw_api::rest::Problem;
use nw_api::service::{CachedPacket, CachedPackets, ImportedPackets, PacketImport};
use nw_elements::ContentStore;
use nw_elements::content_store::Import;
use nw_graph::host::Handle;
use nw_rest_api::{ApiError, Body, Query, Segment};
use nw_tables::cs::{CsRef, Listing};
use serde::Deserialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use utoipa::IntoParams;

/// Most packets in an export: the newest ones.
const LISTED_MAX: usize = 1 << 20;
/// Most bytes of packets in a slice; JSON makes them a third longer.
const SLICE_BYTES_MAX: u64 = 1 << 20;
const SLICE_BYTES_DEFAULT: u64 = 256 << 10;
/// Packets copied or stored per step.
const PACKETS_PER_STEP: usize = 64;
/// Longest time in which a slice is collected.
const SLICE_TIME_MAX: Duration = Duration::from_secs(2);

/// The export under way.
#[derive(Debug)]
pub(super) struct Export {
    /// Number of the export, in the upper half of `after`.
    number: u64,
    element: String,
    /// Newest first.
    packets: Vec<CsRef>,
}

/// The export under way, and the number of the last one.
#[derive(Debug, Default)]
pub(super) struct Exports {
    last_number: u64,
    current: Option<Arc<Export>>,
}

/// Selects a slice.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct SliceQuery {
    /// `next` of the slice before; without it, an export begins.
    after: Option<u64>,
    /// Most bytes of packets in this slice; at least one packet is returned.
    #[param(minimum = 1, maximum = 1_048_576)]
    bytes: Option<u64>,
}

/// Packets of a content store, newest first
///
/// Forwarding goes on meanwhile. Packets that are evicted during the export are left out.
#[utoipa::path(
    get, path = "/v1/elements/{element}/packets", tag = "elements", operation_id = "export_packets",
    params(("element" = String, Path, description = "Name in the graph"), SliceQuery),
    responses(
        (status = 200, body = CachedPackets),
        (status = 404, body = Problem, description = "No such content store, or the export has ended or was replaced")
    )
)]
pub(super) async fn export(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
    Query(query): Query<SliceQuery>,
) -> Result<Json<CachedPackets>, ApiError> {
    let bytes_max = nw_rest_api::within(
        "bytes",
        query.bytes.unwrap_or(SLICE_BYTES_DEFAULT),
        1..=SLICE_BYTES_MAX,
    )?;
    let (export, first) = match query.after {
        None => (begin(&shared, element).await?, 0),
        Some(after) => {
            let exports = shared.exports.lock().unwrap_or_else(PoisonError::into_inner);
            let is_meant =
                |export: &&Arc<Export>| export.number == after >> 32 && export.element == element;
            let current = exports.current.as_ref().filter(is_meant).ok_or_else(|| {
                ApiError::new(404, "this export has ended or was replaced by another one: begin again without `after`")
            })?;
            (Arc::clone(current), (after & u64::from(u32::MAX)) as usize)
        }
    };
    let (packets, end) = slice(&shared, &export, first, bytes_max).await?;
    let is_last = end >= export.packets.len();
    if is_last {
        let mut exports = shared.exports.lock().unwrap_or_else(PoisonError::into_inner);
        exports.current.take_if(|current| current.number == export.number);
    }
    let next = (!is_last).then_some(export.number << 32 | end as u64);
    Ok(Json(CachedPackets { packets, next }))
}

/// Lists the packets of a store, and makes this the export under way.
async fn begin(shared: &Shared, element: String) -> Result<Arc<Export>, ApiError> {
    let mut listing = Listing::default();
    loop {
        let name = element.clone();
        let step = move |handle: &Handle| {
            handle.with_element::<ContentStore, _>(&name, move |store, _, _| {
                let is_complete = store.store().list_part(&mut listing);
                (listing, is_complete)
            })
        };
        let (next, is_complete) =
            call(&shared.handle, step).await?.ok_or_else(|| no_store(&element))?;
        listing = next;
        if is_complete || listing.packets.len() > 2 * LISTED_MAX {
            listing.packets.sort_unstable_by_key(|packet| packet.age);
            listing.packets.truncate(LISTED_MAX);
        }
        if is_complete {
            break;
        }
    }
    let packets = listing.packets.iter().map(|packet| packet.reference).collect();
    let mut exports = shared.exports.lock().unwrap_or_else(PoisonError::into_inner);
    // 21 bits: `after` is exact in JSON numbers of any reader.
    exports.last_number = (exports.last_number + 1) & ((1 << 21) - 1);
    let export = Arc::new(Export { number: exports.last_number, element, packets });
    exports.current = Some(Arc::clone(&export));
    Ok(export)
}

/// Copies packets from a position on, and returns the position after the last one.
async fn slice(
    shared: &Shared,
    export: &Arc<Export>,
    first: usize,
    bytes_max: u64,
) -> Result<(Vec<CachedPacket>, usize), ApiError> {
    let (mut packets, mut bytes, mut at) = (Vec::new(), 0, first);
    let until = Instant::now() + SLICE_TIME_MAX;
    while at < export.packets.len() && bytes < bytes_max && Instant::now() < until {
        let (of_export, start) = (Arc::clone(export), at);
        let step = move |handle: &Handle| {
            let name = of_export.element.clone();
            handle.with_element::<ContentStore, _>(&name, move |store, now, _| {
                let (mut copies, mut copied_bytes, mut end) = (Vec::new(), bytes, start);
                for packet in of_export.packets[start..].iter().take(PACKETS_PER_STEP) {
                    if copied_bytes >= bytes_max {
                        break;
                    }
                    end += 1;
                    if let Some((wire, fresh_ms)) = store.export(now, *packet) {
                        copied_bytes += wire.len() as u64;
                        copies.push((wire, fresh_ms));
                    }
                }
                (copies, copied_bytes, end)
            })
        };
        let (copies, copied_bytes, end) =
            call(&shared.handle, step).await?.ok_or_else(|| no_store(&export.element))?;
        packets.extend(
            copies
                .into_iter()
                .map(|(wire, fresh_ms)| CachedPacket { data: STANDARD.encode(wire), fresh_ms }),
        );
        (bytes, at) = (copied_bytes, end);
    }
    Ok((packets, at))
}

/// Store packets of another content store
///
/// Nothing is evicted for them. Forwarding goes on meanwhile.
#[utoipa::path(
    post, path = "/v1/elements/{element}/packets", tag = "elements", operation_id = "import_packets",
    params(("element" = String, Path, description = "Name in the graph")),
    request_body = PacketImport,
    responses((status = 200, body = ImportedPackets), (status = 404, body = Problem))
)]
pub(super) async fn import(
    State(shared): State<Shared>,
    Segment(element): Segment<String>,
    Body(import): Body<PacketImport>,
) -> Result<Json<ImportedPackets>, ApiError> {
    let mut result = ImportedPackets::default();
    // Oldest first: a policy evicts the packet first that was stored first.
    let mut decoded: Vec<(Vec<u8>, u64)> = Vec::with_capacity(import.packets.len());
    for packet in import.packets.iter().rev() {
        match STANDARD.decode(&packet.data) {
            Ok(wire) => decoded.push((wire, packet.fresh_ms)),
            Err(_) => result.rejected += 1,
        }
    }
    let mut remaining = decoded.into_iter();
    loop {
        let part: Vec<(Vec<u8>, u64)> = remaining.by_ref().take(PACKETS_PER_STEP).collect();
        let is_last = part.len() < PACKETS_PER_STEP;
        let name = element.clone();
        let step = move |handle: &Handle| {
            handle.with_element::<ContentStore, _>(&name, move |store, now, context| {
                let mut import = |(wire, fresh_ms): &(Vec<u8>, u64)| {
                    store.import(now, wire, *fresh_ms, context.pool)
                };
                part.iter().map(&mut import).collect::<Vec<Import>>()
            })
        };
        let imports = call(&shared.handle, step).await?.ok_or_else(|| no_store(&element))?;
        for import in imports {
            *match import {
                Import::Stored => &mut result.stored,
                Import::Known => &mut result.known,
                Import::Rejected => &mut result.rejected,
                Import::Full => &mut result.full,
            } += 1;
        }
        if is_last {
            return Ok(Json(result));
        }
    }
}

/// The export under way, shared by all requests.
pub(super) type SharedExports = Arc<Mutex<Exports>>;
