//! The producer end at a running router: registers a prefix and answers Interests below it.

use super::sink::Sink;
use core::time::Duration;
use nw_api::management::client::decode_items;
use nw_api::management::{ControlParameters, Dataset, FaceStatus, Verb};
use nw_app::control::{self, ControlError};
use nw_app::{Client, ClientError, FaceUri};
use nw_element_api::LinkFields;
use nw_name::Name;
use nw_wire::InterestBuilder;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Reason why a prefix is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The router refused a command.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The connection failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The router has no face for the sink's socket.
    #[error(
        "the router at {control} has no face to {own}: name the same router with --socket and --control"
    )]
    NoFace {
        /// The router that was queried.
        control: FaceUri,
        /// Local address of the sink's socket.
        own: FaceUri,
    },
}

/// Registers `prefix` at the router for `client`. Routers take commands only from local sockets, so
/// for a client over UDP a second connection, to `control`, registers the prefix for the client's
/// face.
///
/// # Errors
/// If the router refuses, or has no face for the client.
pub fn register(
    client: &mut Client,
    at: &FaceUri,
    prefix: &Name,
    control: &FaceUri,
) -> Result<(), RegisterError> {
    if !is_datagram(at) {
        return Ok(control::register(client, prefix.clone())?);
    }
    let mut commander = Client::connect(control)?;
    let own = client.local_uri().ok_or(ClientError::Interrupted)?;
    // The router creates the face when the first packet arrives, which may take a moment.
    let hello =
        InterestBuilder::new(prefix.clone().with_generic("hello")).nonce(1).lifetime_ms(1).encode();
    for _ in 0..HELLOS_MAX {
        client.send_with(&hello, LinkFields::default());
        client.poll(Some(Duration::from_millis(20)), |_, _, _| {})?;
        let content = control::dataset(&mut commander, Dataset::FacesList, None)?;
        let faces: Vec<FaceStatus> = decode_items(&content).unwrap_or_default();
        if let Some(face) = faces.iter().find(|face| face.uri == own.to_string()) {
            let route = ControlParameters {
                face_id: Some(face.face_id),
                ..ControlParameters::of(prefix.clone())
            };
            control::command(&mut commander, Verb::RibRegister, &route)?;
            return Ok(());
        }
    }
    Err(RegisterError::NoFace { control: control.clone(), own })
}

/// Maximum number of packets that are sent to make the router create a face.
const HELLOS_MAX: usize = 20;

fn is_datagram(uri: &FaceUri) -> bool {
    uri.to_string().starts_with("udp")
}

/// Counters of a sink, readable from other threads.
#[derive(Clone, Debug, Default)]
pub struct AnswerCounters {
    /// Interests answered.
    pub interests: Arc<AtomicU64>,
    /// Bytes of the answers.
    pub bytes: Arc<AtomicU64>,
}

/// Answers Interests until `stop` is set.
///
/// # Errors
/// If the connection to the router fails.
pub fn serve(
    client: &mut Client,
    sink: &Sink,
    answered: &AnswerCounters,
    stop: &AtomicBool,
) -> Result<(), ClientError> {
    client.run(
        |_, received, out| {
            if !sink.takes(received.kind(), received.name()) {
                return;
            }
            let link = LinkFields { token: received.token(), ..LinkFields::default() };
            out.send_written(link, |out| {
                let before = out.len();
                sink.answer(received.name(), received.can_be_prefix(), out);
                answered.bytes.fetch_add((out.len() - before) as u64, Ordering::Relaxed);
            });
            answered.interests.fetch_add(1, Ordering::Relaxed);
        },
        || stop.load(Ordering::Relaxed),
    )
}
