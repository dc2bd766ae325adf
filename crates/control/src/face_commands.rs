//! Commands `faces/create`, `faces/update` and `faces/destroy`.

use super::shares::face_to_evict;
use super::{
    CONNECTING_MAX, CommandContext, Control, Environment, FaceChange, FaceCreation, FaceRequest,
    Outcome,
};
use nw_api::management::{ControlParameters, ControlResponse, FacePersistency, FaceStatus};
use nw_element_api::SharedPool;
use nw_tables::FaceId;

impl Control {
    pub(super) fn create_face(
        &mut self,
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> Outcome {
        let change = requested_change(parameters);
        let persistency = change.persistency.unwrap_or(FacePersistency::Persistent);
        if persistency == FacePersistency::OnDemand {
            return ControlResponse::refuse(406, "a face created by command can't be on-demand")
                .into();
        }
        if !self.has_connect_capacity(ctx.ingress.face, env) {
            return ControlResponse::refuse(503, "too many faces are connecting: try again later")
                .into();
        }
        let operation = self.next_operation();
        let request = FaceRequest {
            uri: parameters.uri.as_deref().unwrap_or(""),
            local_uri: parameters.local_uri.as_deref(),
            persistency,
            options: FaceChange { persistency: None, ..change },
        };
        match env.create_face(operation, &request) {
            FaceCreation::Connecting => Outcome::Connecting(operation),
            creation => creation_response(&creation, env).into(),
        }
    }

    /// Returns whether one more face may be connecting for `face`. If the pool is full, the oldest
    /// one of the face with the most is cancelled.
    fn has_connect_capacity(&mut self, face: FaceId, env: &mut dyn Environment) -> bool {
        if self.pending_connects.len() < CONNECTING_MAX {
            return true;
        }
        self.shortages.record(SharedPool::Commands);
        let faces = self.pending_connects.values().map(|pending| pending.face);
        let Some(heaviest) = face_to_evict(face, faces) else { return false };
        let oldest = self.pending_connects.iter().find(|(_, pending)| pending.face == heaviest);
        if let Some(operation) = oldest.map(|(operation, _)| *operation)
            && let Some(cancelled) = self.pending_connects.remove(&operation)
        {
            env.cancel_face(operation);
            let refusal = ControlResponse::refuse(
                503,
                "cancelled: too many faces are connecting; try again later",
            );
            self.send_reply(cancelled.reply_to, refusal, env);
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
            return ControlResponse::refuse(400, "there is no face 0");
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
        self.config_sync.on_face_destroyed(face);
        env.destroy_face(face);
        ControlResponse::ok(body)
    }
}

pub(super) fn update(
    ctx: CommandContext,
    parameters: &ControlParameters,
    env: &mut dyn Environment,
) -> ControlResponse {
    let number = match parameters.face_id {
        None | Some(0) => ctx.ingress.face.number(),
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
    if let Err(refusal) = env.update_face(face, &requested_change(parameters)) {
        // "409, with the fields that can't be."
        let body = ControlParameters {
            face_persistency: parameters.face_persistency.filter(|_| refusal.persistency),
            flags: parameters
                .flags
                .map(|flags| flags & refusal.flags)
                .filter(|_| refusal.flags != 0),
            mask: (refusal.flags != 0).then_some(refusal.flags),
            mtu: parameters.mtu.filter(|_| refusal.mtu),
            ..Default::default()
        };
        return ControlResponse { code: 409, text: refusal.text, body };
    }
    match env.face_status(face) {
        Some(status) => ControlResponse::ok(ControlParameters {
            uri: None,
            local_uri: None,
            ..properties(&status)
        }),
        None => ControlResponse { code: 404, text: "there is no such face".to_owned(), body },
    }
}

/// Returns the reply to `faces/create`.
pub(super) fn creation_response(
    creation: &FaceCreation,
    env: &mut dyn Environment,
) -> ControlResponse {
    match creation {
        FaceCreation::Created(face) => match env.face_status(*face) {
            Some(status) => ControlResponse::ok(properties(&status)),
            None => ControlResponse::refuse(504, "the face was closed right after it was created"),
        },
        // "409 for an existing face with its full properties": nfdc and NDNts depend on them.
        FaceCreation::Exists(face) => match env.face_status(*face) {
            Some(status) => ControlResponse {
                code: 409,
                text: "there is a face with this URI already".to_owned(),
                body: properties(&status),
            },
            None => ControlResponse::refuse(503, "a face with this URI is being closed: try again"),
        },
        FaceCreation::Refused(refusal) => refusal.clone().into(),
        FaceCreation::Connecting => ControlResponse::refuse(500, "the face is being connected"),
    }
}

/// Returns all properties of a face, as NFD does. The order of the fields is NFD's too, although
/// python-ndn's models can't read it (decision 0045).
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

fn requested_change(parameters: &ControlParameters) -> FaceChange {
    FaceChange {
        persistency: parameters.face_persistency.and_then(FacePersistency::from_number),
        flags: parameters.flags.unwrap_or(0),
        mask: parameters.mask.unwrap_or(0),
        mtu: parameters.mtu,
        base_congestion_marking_interval_ns: parameters.base_congestion_marking_interval,
        default_congestion_threshold: parameters.default_congestion_threshold,
    }
}
