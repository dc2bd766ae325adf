//! `fib/…`, `rib/…`, `cs/…`, `strategy-choice/…`.

use super::announcement::Announcement;
use super::rib::{ByHand, Route};
use super::{
    Asked, Authorize, COMPONENTS_MAX, Control, Environment, Refusal, Reply, Verdict, is_reserved, statics,
};
use nw_api::management::{ControlParameters, ControlResponse, FaceScope, Root, Strategy, flags, origin};
use nw_name::{Name, NameRef};
use nw_tables::cs::Erasing;
use nw_tables::{FaceId, Instant};
use nw_wire::Interest;

/// Packets erased by one command at most.
const ERASE_MAX: u64 = 256;
/// Cost of a route that a prefix announcement made.
pub(super) const ANNOUNCED_COST: u64 = 2048;

impl Control {
    pub(super) fn register(
        &mut self,
        asked: Asked,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let (name, face, origin, route) = match to_route(asked, parameters, env) {
            Ok(prepared) => prepared,
            Err(refusal) => return refusal.into(),
        };
        match self.put_route(name, face, origin, route, env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(ControlParameters {
                face_id: Some(face.number()),
                origin: Some(origin),
                cost: Some(route.cost),
                flags: Some(route.flags),
                expiration_period: parameters.expiration_period,
                ..ControlParameters::of(name)
            }),
        }
    }

    pub(super) fn unregister(
        &mut self,
        asked: Asked,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let number = match named_face(asked, parameters.face_id) {
            Ok(number) => number,
            Err(refusal) => return refusal.into(),
        };
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        let origin = parameters.origin.unwrap_or(origin::APP);
        let body =
            ControlParameters { face_id: Some(number), origin: Some(origin), ..ControlParameters::of(name) };
        let face = FaceId::from_number(number);
        if face.and_then(|face| self.rib.unregister(name, face, origin)).is_none() {
            let text = format!("there is no route {name} to face {number} of this origin");
            return ControlResponse { code: 404, text, body };
        }
        match self.commit(env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(body),
        }
    }

    /// `rib/announce`: a route to the asker, for a prefix that a signed announcement speaks for.
    pub(super) fn on_announcement(
        &mut self,
        asked: Asked,
        interest: &Interest<'_>,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let announcement = match Announcement::check(wire) {
            Ok(announcement) => announcement,
            Err(why) => {
                return self.answer(interest.name(), asked.token, &ControlResponse::refuse(400, why), env);
            }
        };
        let (now, ingress, prefix) = (asked.now, asked.ingress, announcement.prefix);
        let clocks = asked.clocks(env);
        // The command last: accepted, it counts as seen.
        let verdict = match authority.announcement(clocks, &announcement.data, prefix, ingress, interest) {
            Verdict::Accept => authority.command(clocks, interest, ingress, "rib", "announce", Some(prefix)),
            verdict => verdict,
        };
        match verdict {
            Verdict::Accept => {
                let before = self.rib.asked();
                let response = self.announce(asked, &announcement, env);
                if response.is_ok() {
                    let life_ms = response.body.expiration_period.unwrap_or(0);
                    env.keep_announcement(prefix, wire, now.plus_millis(life_ms));
                }
                if response.is_ok() && (self.rib.asked() > before || self.rib.is_walking(prefix)) {
                    return self.answer_when_in_effect(interest.name(), asked, response, env);
                }
                self.answer(interest.name(), asked.token, &response, env)
            }
            Verdict::Deny(why) => self.deny(asked, interest, &why, env),
            Verdict::Silent => Reply::Silent,
            Verdict::Later => Reply::Later,
        }
    }

    fn announce(
        &mut self,
        asked: Asked,
        announcement: &Announcement<'_>,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let Some(lifetime_ms) = announcement.lifetime_ms(env.unix_ms()) else {
            return ControlResponse::refuse(403, "the announcement is not valid at this time");
        };
        let parameters = ControlParameters {
            origin: Some(origin::PREFIX_ANNOUNCEMENT),
            cost: Some(ANNOUNCED_COST),
            expiration_period: Some(lifetime_ms),
            ..ControlParameters::of(announcement.prefix)
        };
        self.register(asked, &parameters, env)
    }

    pub(super) fn add_next_hop(
        &mut self,
        asked: Asked,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let prepared = prefix(parameters).and_then(|name| Ok((name, face(asked, parameters.face_id, env)?)));
        let (name, face) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return refusal.into(),
        };
        let cost = parameters.cost.unwrap_or(0);
        let by_hand = ByHand::Cost(u32::try_from(cost).unwrap_or(u32::MAX));
        match self.set_by_hand(name, face, Some(by_hand), env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(ControlParameters {
                face_id: Some(face.number()),
                cost: Some(cost),
                ..ControlParameters::of(name)
            }),
        }
    }

    pub(super) fn remove_next_hop(
        &mut self,
        asked: Asked,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let number = match named_face(asked, parameters.face_id) {
            Ok(number) => number,
            Err(refusal) => return refusal.into(),
        };
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        if is_reserved(name) {
            return ControlResponse::refuse(403, "this name is the router's own");
        }
        let body = ControlParameters { face_id: Some(number), ..ControlParameters::of(name) };
        if !FaceId::from_number(number).is_some_and(|face| self.rib.remove_next_hop(name, face)) {
            let text = format!("face {number} is no next hop of {name}");
            return ControlResponse { code: 404, text, body };
        }
        match self.commit(env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(body),
        }
    }

    pub(super) fn set_strategy(
        &mut self,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        if name.len() > COMPONENTS_MAX {
            return too_long().into();
        }
        match self.choose(name, parameters.strategy_name().unwrap_or(NameRef::ROOT), env) {
            Err(refusal) => refusal.into(),
            Ok(listed) => ControlResponse::ok(ControlParameters {
                strategy: Some(Strategy(listed)),
                ..ControlParameters::of(name)
            }),
        }
    }

    pub(super) fn unset_strategy(
        &mut self,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        let body = ControlParameters::of(name);
        if self.rib.unset_strategy(name).is_none() {
            let text = format!("no strategy is chosen for {name} itself");
            return ControlResponse { code: 404, text, body };
        }
        match self.commit(env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(body),
        }
    }

    /// Leaves a prefix to what the router says of it by itself.
    pub(super) fn choose_built_in(&mut self, name: NameRef<'_>, env: &mut dyn Environment) {
        let done = match statics::built_in(name) {
            Some(strategy) => self.choose(name, strategy.as_ref(), env).map(drop),
            None => {
                self.rib.unset_strategy(name);
                self.commit(env)
            }
        };
        super::log_refusal("a strategy no longer configured", done);
    }
}

pub(super) fn cs_config(parameters: &ControlParameters, env: &mut dyn Environment) -> ControlResponse {
    let (bits, mask) = (parameters.flags.unwrap_or(0), parameters.mask.unwrap_or(0));
    let bit = |flag: u64| (mask & flag != 0).then_some(bits & flag != 0);
    env.cs_config(parameters.capacity, bit(flags::CS_ADMIT), bit(flags::CS_SERVE));
    let info = env.cs_info();
    ControlResponse::ok(ControlParameters {
        capacity: Some(info.capacity),
        flags: Some(info.flags),
        ..Default::default()
    })
}

/// A `cs/erase` that is being carried out, in slices.
#[derive(Debug)]
pub(super) struct Erasure {
    prefix: Name,
    /// Fewer were asked for than one command erases.
    limited: bool,
    erasing: Erasing,
}

impl Erasure {
    pub fn new(parameters: &ControlParameters) -> Self {
        let wanted = parameters.count.unwrap_or(u64::MAX);
        Erasure {
            prefix: parameters.name.clone().unwrap_or_default(),
            limited: wanted <= ERASE_MAX,
            erasing: Erasing::new(wanted.min(ERASE_MAX) as usize),
        }
    }

    /// One slice; the answer when it was the last.
    pub fn go_on(&mut self, env: &mut dyn Environment) -> Option<ControlResponse> {
        let prefix = self.prefix.as_ref();
        if !env.cs_erase(prefix, &mut self.erasing) {
            return None;
        }
        Some(ControlResponse::ok(ControlParameters {
            count: Some(self.erasing.erased as u64),
            // "Capacity in the reply: there is more, and one command erases so many."
            capacity: (self.erasing.more && !self.limited).then_some(ERASE_MAX),
            ..ControlParameters::of(prefix)
        }))
    }
}

/// What `rib/register` is to register.
pub(super) fn to_route<'a>(
    asked: Asked,
    parameters: &'a ControlParameters,
    env: &dyn Environment,
) -> Result<(NameRef<'a>, FaceId, u64, Route), Refusal> {
    let route = Route {
        cost: parameters.cost.unwrap_or(0),
        flags: parameters.flags.unwrap_or(flags::CHILD_INHERIT),
        expires: parameters
            .expiration_period
            .map_or(Instant::NEVER, |period_ms| asked.now.plus_millis(period_ms)),
    };
    let name = match parameters.name.as_ref().map(|name| name.as_ref()) {
        // The way to a gateway: this router's own answers still come first.
        Some(name) if is_gateway(name) && asked.ingress.local => name,
        _ => prefix(parameters)?,
    };
    let face = face(asked, parameters.face_id, env)?;
    if is_gateway(name) && env.face_status(face).is_none_or(|status| status.scope == FaceScope::Local) {
        return Err(Refusal::new(403, "a gateway is not on this machine"));
    }
    Ok((name, face, parameters.origin.unwrap_or(origin::APP), route))
}

/// The prefix of a command that adds to the FIB.
fn prefix(parameters: &ControlParameters) -> Result<NameRef<'_>, Refusal> {
    let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
    if name.len() > COMPONENTS_MAX {
        return Err(too_long());
    }
    if is_reserved(name) {
        return Err(Refusal::new(403, "this name is the router's own"));
    }
    Ok(name)
}

fn is_gateway(name: NameRef<'_>) -> bool {
    name.len() == 2 && name == super::named(super::LOCALHOP_NFD).as_ref()
}

fn too_long() -> Refusal {
    Refusal::new(414, "a prefix has at most 32 components")
}

/// The number of the face that a command is about. "FaceId 0: the face of the request."
fn named_face(asked: Asked, face_id: Option<u64>) -> Result<u64, Refusal> {
    let own = asked.ingress.face.number();
    let number = face_id.filter(|number| *number != 0).unwrap_or(own);
    if asked.root == Root::Localhop && !asked.ingress.local && number != own {
        return Err(Refusal::new(403, "a neighbour speaks only for its own face"));
    }
    Ok(number)
}

/// The face that a command adds.
fn face(asked: Asked, face_id: Option<u64>, env: &dyn Environment) -> Result<FaceId, Refusal> {
    let number = named_face(asked, face_id)?;
    let face = FaceId::from_number(number).filter(|face| env.has_face(*face));
    face.ok_or_else(|| Refusal::new(410, format!("there is no face {number}")))
}
