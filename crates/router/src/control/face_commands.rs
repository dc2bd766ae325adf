//! `faces/create`, `faces/update`, `faces/destroy`.

use super::shares::face_that_gives_way;
use super::{Asked, CONNECTING_MAX, Control, Created, Environment, FaceChange, FaceRequest, Outcome};
use nw_api::management::{ControlParameters, ControlResponse, FacePersistency, FaceStatus};
use nw_element_api::SharedPool;
use nw_tables::FaceId;

impl Control {
    pub(super) fn create_face(
        &mut self,
        asked: Asked,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        let change = change(parameters);
        let persistency = change.persistency.unwrap_or(FacePersistency::Persistent);
        if persistency == FacePersistency::OnDemand {
            return ControlResponse::refuse(406, "a face that is made by command can't be on-demand").into();
        }
        if !self.has_place_for_connecting(asked.ingress.face, env) {
            return ControlResponse::refuse(503, "too many faces are being connected: try again later")
                .into();
        }
        let ticket = self.next_ticket();
        let request = FaceRequest {
            uri: parameters.uri.as_deref().unwrap_or(""),
            local_uri: parameters.local_uri.as_deref(),
            persistency,
            options: FaceChange { persistency: None, ..change },
        };
        match env.create_face(ticket, &request) {
            Created::Later => Outcome::Connecting(ticket),
            done => created(&done, env).into(),
        }
    }

    /// True when one more face can be connected for `face`; the oldest that is being connected for a face with more is given up if need be.
    fn has_place_for_connecting(&mut self, face: FaceId, env: &mut dyn Environment) -> bool {
        if self.connecting.len() < CONNECTING_MAX {
            return true;
        }
        self.shortages.record(SharedPool::Commands);
        let faces = self.connecting.values().map(|connecting| connecting.face);
        let Some(most) = face_that_gives_way(face, faces) else { return false };
        let oldest = self.connecting.iter().find(|(_, connecting)| connecting.face == most);
        if let Some(ticket) = oldest.map(|(ticket, _)| *ticket)
            && let Some(given_up) = self.connecting.remove(&ticket)
        {
            env.abandon_face(ticket);
            let refusal = ControlResponse::refuse(503, "given up: too many faces are being connected");
            self.answer_asker(given_up.asker, refusal, env);
        }
        true
    }

    pub(super) fn destroy_face(
        &mut self,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let number = parameters.face_id.unwrap_or(0);
        let body = ControlParameters { face_id: Some(number), ..Default::default() };
        if number == 0 {
            return ControlResponse::refuse(400, "FaceId 0 is no face");
        }
        if number < u64::from(FaceId::FIRST) {
            return ControlResponse {
                code: 403,
                text: "the router's own faces can't be destroyed".to_owned(),
                body,
            };
        }
        let Some(face) = FaceId::from_number(number).filter(|face| env.has_face(*face)) else {
            return ControlResponse { code: 404, text: format!("there is no face {number}"), body };
        };
        self.statics.face_unwanted(face);
        env.destroy_face(face);
        ControlResponse::ok(body)
    }
}

pub(super) fn update(
    asked: Asked,
    parameters: &ControlParameters,
    env: &mut dyn Environment,
) -> ControlResponse {
    let number = match parameters.face_id {
        None | Some(0) => asked.ingress.face.number(),
        Some(number) => number,
    };
    let body = ControlParameters { face_id: Some(number), ..Default::default() };
    let Some(face) = FaceId::from_number(number).filter(|face| env.has_face(*face)) else {
        return ControlResponse { code: 404, text: "there is no such face".to_owned(), body };
    };
    if number < u64::from(FaceId::FIRST) {
        return ControlResponse {
            code: 403,
            text: "the router's own faces can't be changed".to_owned(),
            body,
        };
    }
    if let Err(refusal) = env.update_face(face, &change(parameters)) {
        // "409, with the fields that can't be."
        let body = ControlParameters {
            face_persistency: parameters.face_persistency.filter(|_| refusal.persistency),
            flags: parameters.flags.map(|flags| flags & refusal.flags).filter(|_| refusal.flags != 0),
            mask: (refusal.flags != 0).then_some(refusal.flags),
            mtu: parameters.mtu.filter(|_| refusal.mtu),
            ..Default::default()
        };
        return ControlResponse { code: 409, text: refusal.text, body };
    }
    match env.face_status(face) {
        Some(status) => {
            ControlResponse::ok(ControlParameters { uri: None, local_uri: None, ..properties(&status) })
        }
        None => ControlResponse { code: 404, text: "there is no such face".to_owned(), body },
    }
}

/// The answer to `faces/create`.
pub(super) fn created(created: &Created, env: &mut dyn Environment) -> ControlResponse {
    match created {
        Created::Now(face) => match env.face_status(*face) {
            Some(status) => ControlResponse::ok(properties(&status)),
            None => ControlResponse::refuse(504, "the face went away as soon as it was there"),
        },
        // "409 for an existing face with its full properties": nfdc and NDNts depend on them.
        Created::Exists(face) => match env.face_status(*face) {
            Some(status) => ControlResponse {
                code: 409,
                text: "there is a face with this URI already".to_owned(),
                body: properties(&status),
            },
            None => ControlResponse::refuse(503, "a face with this URI is about to go away: try again"),
        },
        Created::Refused(refusal) => refusal.clone().into(),
        Created::Later => ControlResponse::refuse(500, "the face is being connected"),
    }
}

/// All of a face's properties, as NFD answers: in its order too, which python-ndn's models do not read (decision 0045).
fn properties(face: &FaceStatus) -> ControlParameters {
    ControlParameters {
        face_id: Some(face.face_id),
        uri: Some(face.uri.clone()),
        local_uri: Some(face.local_uri.clone()),
        flags: Some(face.flags),
        face_persistency: Some(face.persistency.number()),
        base_congestion_marking_interval: face.base_congestion_marking_interval,
        default_congestion_threshold: face.default_congestion_threshold,
        mtu: face.mtu,
        ..Default::default()
    }
}

fn change(parameters: &ControlParameters) -> FaceChange {
    FaceChange {
        persistency: parameters.face_persistency.and_then(FacePersistency::from_number),
        flags: parameters.flags.unwrap_or(0),
        mask: parameters.mask.unwrap_or(0),
        mtu: parameters.mtu,
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval,
        default_congestion_threshold: parameters.default_congestion_threshold,
    }
}
