//! Commands of the modules `fib`, `rib`, `cs` and `strategy-choice`.

use super::announcement::Announcement;
use super::rib::{DirectNextHop, Route};
use super::{
    Authorize, COMPONENTS_MAX, CommandContext, Control, Environment, Refusal, Reply, Verdict,
    config_sync, is_reserved,
};
use nw_api::management::{
    ControlParameters, ControlResponse, FaceScope, Root, Strategy, flags, origin,
};
use nw_name::{Name, NameRef};
use nw_tables::cs::EraseCursor;
use nw_tables::{FaceId, Timestamp};
use nw_wire::Interest;

/// Packets that one `cs/erase` command erases at most.
const ERASE_MAX: u64 = 256;
/// Cost of a route created from a prefix announcement.
pub(super) const ANNOUNCED_COST: u64 = 2048;

impl Control {
    pub(super) fn register(
        &mut self,
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let (name, face, origin, route) = match to_route(ctx, parameters, env) {
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
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let number = match face_number(ctx, parameters.face_id) {
            Ok(number) => number,
            Err(refusal) => return refusal.into(),
        };
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        let origin = parameters.origin.unwrap_or(origin::APP);
        let body = ControlParameters {
            face_id: Some(number),
            origin: Some(origin),
            ..ControlParameters::of(name)
        };
        let face = FaceId::from_number(number);
        if face.and_then(|face| self.rib.unregister(name, face, origin)).is_none() {
            let text = format!("there is no route {name} to face {number} with this origin");
            return ControlResponse { code: 404, text, body };
        }
        match self.commit(env) {
            Err(refusal) => refusal.into(),
            Ok(()) => ControlResponse::ok(body),
        }
    }

    /// Command `rib/announce`: registers a route to the ingress face for the prefix of a signed
    /// announcement.
    pub(super) fn on_announcement(
        &mut self,
        ctx: CommandContext,
        interest: &Interest<'_>,
        wire: &[u8],
        authority: &mut dyn Authorize,
        env: &mut dyn Environment,
    ) -> Reply {
        let announcement = match Announcement::check(wire) {
            Ok(announcement) => announcement,
            Err(reason) => {
                return self.send_response(
                    interest.name(),
                    ctx.token,
                    &ControlResponse::refuse(400, reason),
                    env,
                );
            }
        };
        let (now, ingress, prefix) = (ctx.now, ctx.ingress, announcement.prefix);
        let clocks = ctx.clocks(env);
        // The command is checked last: accepting it records it against replay.
        let verdict =
            match authority.announcement(clocks, &announcement.data, prefix, ingress, interest) {
                Verdict::Accept => {
                    authority.command(clocks, interest, ingress, "rib", "announce", Some(prefix))
                }
                verdict => verdict,
            };
        match verdict {
            Verdict::Accept => {
                let seq_before = self.rib.issued_seq();
                let response = self.announce(ctx, &announcement, env);
                if response.is_ok() {
                    let lifetime_ms = response.body.expiration_period.unwrap_or(0);
                    env.store_announcement(prefix, wire, now.plus_millis(lifetime_ms));
                }
                if response.is_ok()
                    && (self.rib.issued_seq() > seq_before || self.rib.is_walking(prefix))
                {
                    return self.reply_when_applied(interest.name(), ctx, response, env);
                }
                self.send_response(interest.name(), ctx.token, &response, env)
            }
            Verdict::Deny(reason) => self.deny(ctx, interest, &reason, env),
            Verdict::Ignore => Reply::Ignored,
            Verdict::Defer => Reply::Deferred,
        }
    }

    fn announce(
        &mut self,
        ctx: CommandContext,
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
        self.register(ctx, &parameters, env)
    }

    pub(super) fn add_next_hop(
        &mut self,
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let prepared = fib_prefix(parameters)
            .and_then(|name| Ok((name, existing_face(ctx, parameters.face_id, env)?)));
        let (name, face) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => return refusal.into(),
        };
        let cost = parameters.cost.unwrap_or(0);
        let direct = DirectNextHop::Cost(u32::try_from(cost).unwrap_or(u32::MAX));
        match self.set_direct(name, face, Some(direct), env) {
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
        ctx: CommandContext,
        parameters: &ControlParameters,
        env: &mut dyn Environment,
    ) -> ControlResponse {
        let number = match face_number(ctx, parameters.face_id) {
            Ok(number) => number,
            Err(refusal) => return refusal.into(),
        };
        let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
        if is_reserved(name) {
            return ControlResponse::refuse(403, "this prefix belongs to the router itself");
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
            return name_too_long().into();
        }
        match self.choose_strategy(name, parameters.strategy_name().unwrap_or(NameRef::ROOT), env) {
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

    /// Sets the built-in strategy of a prefix, or removes its choice if there is none.
    pub(super) fn choose_default_strategy(&mut self, name: NameRef<'_>, env: &mut dyn Environment) {
        let result = match config_sync::default_strategy(name) {
            Some(strategy) => self.choose_strategy(name, strategy.as_ref(), env).map(drop),
            None => {
                self.rib.unset_strategy(name);
                self.commit(env)
            }
        };
        super::log_refusal("removal of a strategy choice", result);
    }
}

pub(super) fn cs_config(
    parameters: &ControlParameters,
    env: &mut dyn Environment,
) -> ControlResponse {
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

/// A `cs/erase` command in progress.
#[derive(Debug)]
pub(super) struct Erasure {
    prefix: Name,
    /// The command asks for at most [`ERASE_MAX`] packets.
    has_limit: bool,
    progress: EraseCursor,
}

impl Erasure {
    pub fn new(parameters: &ControlParameters) -> Self {
        let limit = parameters.count.unwrap_or(u64::MAX);
        Erasure {
            prefix: parameters.name.clone().unwrap_or_default(),
            has_limit: limit <= ERASE_MAX,
            progress: EraseCursor::new(limit.min(ERASE_MAX) as usize),
        }
    }

    /// Erases for a bounded time. Returns the reply when the erasure is complete.
    pub fn step(&mut self, env: &mut dyn Environment) -> Option<ControlResponse> {
        let prefix = self.prefix.as_ref();
        if !env.cs_erase(prefix, &mut self.progress) {
            return None;
        }
        Some(ControlResponse::ok(ControlParameters {
            count: Some(self.progress.erased as u64),
            // "Capacity in the reply: there is more, and one command erases a limited number."
            capacity: (self.progress.has_more && !self.has_limit).then_some(ERASE_MAX),
            ..ControlParameters::of(prefix)
        }))
    }
}

/// Returns prefix, face, origin and route of a `rib/register` command.
pub(super) fn to_route<'a>(
    ctx: CommandContext,
    parameters: &'a ControlParameters,
    env: &dyn Environment,
) -> Result<(NameRef<'a>, FaceId, u64, Route), Refusal> {
    let route = Route {
        cost: parameters.cost.unwrap_or(0),
        flags: parameters.flags.unwrap_or(flags::CHILD_INHERIT),
        expires: parameters
            .expiration_period
            .map_or(Timestamp::NEVER, |period_ms| ctx.now.plus_millis(period_ms)),
    };
    let name = match parameters.name.as_ref().map(|name| name.as_ref()) {
        // The route to a gateway. This router's own replies under the prefix still come first.
        Some(name) if is_gateway(name) && ctx.ingress.local => name,
        _ => fib_prefix(parameters)?,
    };
    let face = existing_face(ctx, parameters.face_id, env)?;
    if is_gateway(name)
        && env.face_status(face).is_none_or(|status| status.scope == FaceScope::Local)
    {
        return Err(Refusal::new(403, "the face of a gateway must lead to another machine"));
    }
    Ok((name, face, parameters.origin.unwrap_or(origin::APP), route))
}

/// Returns the prefix of a command that adds to the FIB.
fn fib_prefix(parameters: &ControlParameters) -> Result<NameRef<'_>, Refusal> {
    let name = parameters.name.as_ref().map_or(NameRef::ROOT, |name| name.as_ref());
    if name.len() > COMPONENTS_MAX {
        return Err(name_too_long());
    }
    if is_reserved(name) {
        return Err(Refusal::new(403, "this prefix belongs to the router itself"));
    }
    Ok(name)
}

fn is_gateway(name: NameRef<'_>) -> bool {
    name.len() == 2 && name == super::constant_name(super::LOCALHOP_NFD).as_ref()
}

fn name_too_long() -> Refusal {
    Refusal::new(414, "a prefix has at most 32 components")
}

/// Returns the number of the face that a command changes. "FaceId 0: the face of the request."
fn face_number(ctx: CommandContext, face_id: Option<u64>) -> Result<u64, Refusal> {
    let ingress_number = ctx.ingress.face.number();
    let number = face_id.filter(|number| *number != 0).unwrap_or(ingress_number);
    if ctx.root == Root::Localhop && !ctx.ingress.local && number != ingress_number {
        return Err(Refusal::new(403, "a neighbour may only change routes of its own face"));
    }
    Ok(number)
}

/// Returns the face that a command adds as a next hop.
fn existing_face(
    ctx: CommandContext,
    face_id: Option<u64>,
    env: &dyn Environment,
) -> Result<FaceId, Refusal> {
    let number = face_number(ctx, face_id)?;
    let face = FaceId::from_number(number).filter(|face| env.has_face(*face));
    face.ok_or_else(|| Refusal::new(410, format!("there is no face {number}")))
}
