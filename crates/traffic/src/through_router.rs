//! The two ends at a running router: registering below a prefix, answering, and asking.

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

/// Why a sink does not get Interests.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The router did not do it.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The connection.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The router has no face to us.
    #[error("the router at {control} has no face to {own}: name the same router with --socket and --control")]
    NoFace {
        /// Where it was asked.
        control: FaceUri,
        /// This end of the sink's socket.
        own: FaceUri,
    },
}

/// Makes Interests below `prefix` come to `client`. Commands are taken by sockets of this machine only, so for a client over UDP
/// another connection, to `control`, says which face is meant.
///
/// # Errors
/// When the router does not do it.
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
    // The router makes a face to us when it hears from us; it may take a moment.
    let hello = InterestBuilder::new(prefix.clone().with_generic("hello")).nonce(1).lifetime_ms(1).encode();
    for _ in 0..HELLOS {
        client.send_with(&hello, LinkFields::default());
        client.turn(Some(Duration::from_millis(20)), |_, _, _| {})?;
        let content = control::dataset(&mut commander, Dataset::FacesList, None)?;
        let faces: Vec<FaceStatus> = decode_items(&content).unwrap_or_default();
        if let Some(face) = faces.iter().find(|face| face.uri == own.to_string()) {
            let route =
                ControlParameters { face_id: Some(face.face_id), ..ControlParameters::of(prefix.clone()) };
            control::command(&mut commander, Verb::RibRegister, &route)?;
            return Ok(());
        }
    }
    Err(RegisterError::NoFace { control: control.clone(), own })
}

/// How often a sink makes itself known.
const HELLOS: usize = 20;

fn is_datagram(uri: &FaceUri) -> bool {
    uri.to_string().starts_with("udp")
}

/// What a sink did, seen from other threads.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// Interests answered.
    pub interests: Arc<AtomicU64>,
    /// Octets of the answers.
    pub octets: Arc<AtomicU64>,
}

/// Answers until `stop` is set or the router goes away.
///
/// # Errors
/// The connection's.
pub fn serve(
    client: &mut Client,
    sink: &Sink,
    answered: &Answered,
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
                answered.octets.fetch_add((out.len() - before) as u64, Ordering::Relaxed);
            });
            answered.interests.fetch_add(1, Ordering::Relaxed);
        },
        || stop.load(Ordering::Relaxed),
    )
}
