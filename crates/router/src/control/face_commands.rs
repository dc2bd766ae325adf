//! `faces/create`, `faces/update`, `faces/destroy`.

use super::{Asked, CONNECTING_MAX, Control, Created, Environment, FaceChange, FaceRequest, Outcome};
use nw_api::management::{ControlParameters, ControlResponse, FacePersistency, FaceStatus};
use nw_tables::FaceId;

impl Control {
    pub(super) fn create_face(
        &mut self,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        let change = change(parameters);
        let persistency = change.persistency.unwrap_or(FacePersistency::Persistent);
        if persistency == FacePersistency::OnDemand {
            return ControlResponse::refuse(406, "a face that is made by command can't be on-demand").into();
        }
        if self.connecting.len() >= CONNECTING_MAX {
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
            done => created(&done, speaks_of_link(parameters), env).into(),
        }
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
        // "destroy: always 200", also when it is not there.
        if let Some(face) = FaceId::from_number(number) {
            self.statics.face_unwanted(face);
            env.destroy_face(face);
        }
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
            let body = said(properties(&status), speaks_of_link(parameters));
            ControlResponse::ok(ControlParameters { uri: None, local_uri: None, ..body })
        }
        None => ControlResponse { code: 404, text: "there is no such face".to_owned(), body },
    }
}

/// The answer to `faces/create`; `link`: the command spoke of congestion or MTU.
pub(super) fn created(created: &Created, link: bool, env: &mut dyn Environment) -> ControlResponse {
    match created {
        Created::Now(face) => match env.face_status(*face) {
            Some(status) => ControlResponse::ok(said(properties(&status), link)),
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

/// True when a command says something about congestion or MTU.
pub(super) const fn speaks_of_link(parameters: &ControlParameters) -> bool {
    parameters.base_congestion_marking_interval.is_some()
        || parameters.default_congestion_threshold.is_some()
        || parameters.mtu.is_some()
}

/// Congestion and MTU are said only to those who spoke of them: python-ndn can't read them in NFD's order, others do without.
fn said(properties: ControlParameters, link: bool) -> ControlParameters {
    if link {
        return properties;
    }
    ControlParameters {
        base_congestion_marking_interval: None,
        default_congestion_threshold: None,
        mtu: None,
        ..properties
    }
}

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
