//! What happens to faces: created, up, down, ended. Elements, routes and the event log follow.

use super::Host;
use nw_api::service::ServiceEventKind;
use nw_element_api::capture::FaceLabel;
use nw_element_api::{FaceId, Timestamp};
use nw_faces::{FaceEvent, FaceStatus};

impl Host {
    /// Notifies the elements of new faces. Faces that ended wait for
    /// [`process_ended_faces`](Self::process_ended_faces): what they received before is processed
    /// first.
    pub(super) fn process_face_events(&mut self, now: Timestamp) {
        let mut must_apply_routes = false;
        for event in self.faces.events() {
            match event {
                FaceEvent::Created(status) => {
                    must_apply_routes |= self.on_face_created(now, &status);
                }
                FaceEvent::Destroyed(status, reason) => {
                    let name = self.name_of(&status).unwrap_or_default();
                    let label = || FaceLabel { name, uri: status.uri.to_string() };
                    self.engine.taps().face_ended(status.id, label);
                    self.ended_faces.push((status, reason));
                }
                FaceEvent::Up(id) => must_apply_routes |= self.on_face_up(now, id),
                FaceEvent::Down(id) => self.on_face_down(now, id),
            }
        }
        self.faces.take_last_packets(&mut self.batch);
        if must_apply_routes {
            self.apply(now);
        }
    }

    /// Adds a new face to the elements. Returns whether routes must be applied again.
    fn on_face_created(&mut self, now: Timestamp, status: &FaceStatus) -> bool {
        let Some((at, is_accepted)) = self.endpoint_of(status) else {
            // Its listener belongs to a graph that was replaced.
            self.faces.close(status.id, &mut self.pool);
            return false;
        };
        self.engine.add_face(status.id, status.info(), at, is_accepted);
        self.engine.set_peer(status.id, status.peer());
        self.endpoints[at].is_connecting = !is_accepted && !status.up;
        let name = self.endpoints[at].name.clone();
        tracing::debug!(face = name, id = status.id.number(), uri = %status.uri, "face");
        // Until the new face of a name is up, Interests leave by the old one.
        if let Some(old) = self.closing.predecessor(&name, is_accepted, status.up) {
            self.engine.set_peer_face(at, old);
        }
        let is_link = !is_accepted || self.engine.graph().faces[at].is_single_peer;
        if is_link && status.up {
            self.log_link_event(now, ServiceEventKind::LinkUp, &name);
        }
        is_link
    }

    /// Returns whether routes must be applied again.
    fn on_face_up(&mut self, now: Timestamp, id: FaceId) -> bool {
        let at = self.endpoints.iter().position(|endpoint| endpoint.face == Some(id));
        let Some(at) = at else { return false };
        self.endpoints[at].mark_up();
        let name = self.endpoints[at].name.clone();
        self.log_link_event(now, ServiceEventKind::LinkUp, &name);
        self.engine.set_peer_face(at, id);
        self.closing.has_name(&name)
    }

    fn on_face_down(&mut self, now: Timestamp, id: FaceId) {
        let endpoint = self.endpoints.iter_mut().find(|endpoint| endpoint.face == Some(id));
        let Some(endpoint) = endpoint else { return };
        endpoint.mark_down();
        let name = endpoint.name.clone();
        self.log_link_event(now, ServiceEventKind::LinkDown, &name);
    }

    /// Notifies the elements of faces that ended.
    pub(super) fn process_ended_faces(&mut self, now: Timestamp) {
        let mut must_apply_routes = false;
        for (status, reason) in core::mem::take(&mut self.ended_faces) {
            tracing::debug!(id = status.id.number(), uri = %status.uri, %reason, "face ended");
            let name = self.name_of(&status);
            let is_link = self.endpoint_of(&status).is_some_and(|(at, is_accepted)| {
                !is_accepted || self.engine.graph().faces[at].is_single_peer
            });
            if let Some(name) = name.as_ref().filter(|_| is_link && status.up) {
                self.log_link_event(now, ServiceEventKind::LinkDown, name);
            }
            self.engine.remove_face(now, status.id);
            self.report_registrations(now, name.map(|name| (status.id, name)));
            must_apply_routes |= self.engine.graph().faces.iter().any(|face| face.is_single_peer);
            if let Some(endpoint) =
                self.endpoints.iter_mut().find(|endpoint| endpoint.face == Some(status.id))
            {
                let retry_at = endpoint.mark_closed(now, &reason);
                self.retry_at =
                    Some(self.retry_at.map_or(retry_at, |earlier| earlier.min(retry_at)));
            }
        }
        if must_apply_routes {
            self.apply(now);
        }
    }
}
