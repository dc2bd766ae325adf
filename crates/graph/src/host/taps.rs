//! Captures of a running graph's packets, for `GET /v1/tap`: as they come from faces and as they go
//! to them, or as they leave elements.

use super::{Handle, Host, HostError};
use crate::engine::{PortSelection, StartedTap, TapError};
use nw_element_api::capture::{Capture, FaceLabel, TapFilter};
use nw_element_api::{FaceId, Timestamp};

impl Handle {
    /// Starts a capture at faces, or at output ports of an element.
    ///
    /// # Errors
    /// If the graph has ended; within, why the capture can't start.
    pub fn start_tap(
        &self,
        filter: TapFilter,
        selection: Option<PortSelection>,
    ) -> Result<Result<StartedTap, TapError>, HostError> {
        self.call(move |host, now| host.engine.start_tap(now, filter, selection.as_ref()))
    }

    /// Returns the output ports whose packets are captured, as `ELEMENT.PORT`.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn tapped_ports(&self) -> Result<Vec<String>, HostError> {
        self.call(|host, _| host.engine.tapped_ports())
    }

    /// Fetches the packets captured since the last fetch. `None` if the capture has ended.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn take_tap(&self, id: u64) -> Result<Option<Capture>, HostError> {
        self.call(move |host, now| host.take_tap(now, id))
    }

    /// Stops a capture.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn stop_tap(&self, id: u64) -> Result<(), HostError> {
        self.call(move |host, _| host.engine.stop_tap(id))
    }

    /// Returns the name in the graph and the URI of a face. `None` if the face has ended before the
    /// first capture of those that are running.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn face_label(&self, face: FaceId) -> Result<Option<FaceLabel>, HostError> {
        self.call(move |host, _| match host.faces.status(face) {
            Some(status) => {
                let name = host.link_name(face).unwrap_or_default();
                Some(FaceLabel { name, uri: status.uri.to_string() })
            }
            None => host.engine.taps().ended_face(face).cloned(),
        })
    }
}

impl Host {
    fn take_tap(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        let mut capture = self.engine.take_tap(now, id)?;
        capture.start_unix_ns = self.start_unix_ms().saturating_mul(1_000_000);
        Some(capture)
    }
}
