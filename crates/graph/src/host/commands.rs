//! Answers the `rib` commands that name routers hold: a face registers prefixes for itself.
//!
//! The commands are those of NFD's management protocol, with its status codes and with the
//! ControlResponse that its clients expect. Rules of `nw-trust` decide; no certificate is fetched.

use super::Host;
use super::events::EventSubject;
use crate::model::{Graph, Node};
use nw_api::management::command::{self, Request, Root};
use nw_api::management::{ControlParameters, ControlResponse, Verb, origin};
use nw_api::service::ServiceEventKind;
use nw_element_api::{FaceId, Packet, PacketFailure, Timestamp, Value};
use nw_elements::NameRouter;
use nw_name::{Component, Name, NameRef};
use nw_trust::{AuthorizationRequest, Clocks, Command, CommandSigner, PeerGroup, Requester};
use nw_wire::{DataBuilder, DigestSha256, Interest, KeyLocator, PACKET_LEN_MAX};
use std::collections::BTreeMap;
use std::time::Duration;

/// Freshness of answers, milliseconds.
const FRESHNESS_MS: u64 = 1000;
/// Answers kept for commands that are sent again: a replay would be refused.
const ANSWERS_MAX: usize = 64;
/// Commands answered per loop iteration.
const COMMANDS_PER_TURN: usize = 64;

/// The last answers, by the name of the command.
#[derive(Debug, Default)]
pub(super) struct Answers(std::collections::VecDeque<(Name, FaceId, Vec<u8>)>);

impl Answers {
    fn find(&self, name: NameRef<'_>, face: FaceId) -> Option<Vec<u8>> {
        let is_same =
            |known: &&(Name, FaceId, Vec<u8>)| known.0.as_ref() == name && known.1 == face;
        self.0.iter().find(is_same).map(|known| known.2.clone())
    }

    fn keep(&mut self, name: NameRef<'_>, face: FaceId, answer: &[u8]) {
        if self.0.len() == ANSWERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((name.to_name(), face, answer.to_vec()));
    }
}

/// Key locators of the commands that registered routes, by element, prefix and face. An entry ends
/// with its route.
#[derive(Debug, Default)]
pub(super) struct Registrants(BTreeMap<(String, Name, FaceId), String>);

impl Registrants {
    /// Returns the key locator of a registered route.
    pub fn find(&self, node: &str, prefix: &Name, face: FaceId) -> Option<&str> {
        self.0.get(&(node.to_owned(), prefix.clone(), face)).map(String::as_str)
    }
}

/// Returns the key that a command names, for a person.
fn signer(interest: &Interest<'_>) -> Option<String> {
    Some(match Command::read(interest).ok()?.signer {
        CommandSigner::Key(KeyLocator::Name(name)) => name.to_name().to_string(),
        CommandSigner::Key(KeyLocator::Digest(digest)) => {
            let digits = digest.iter().map(|byte| format!("{byte:02x}"));
            format!("key {}", digits.collect::<String>())
        }
        CommandSigner::Digest => "no key".to_owned(),
    })
}

/// Returns the name routers of a graph that hold commands for the host.
pub(super) fn command_routers(graph: &Graph) -> Vec<String> {
    let takes_commands = |node: &&Node| {
        let mut parameters = node.parameters.0.iter();
        let is_empty = |value: &Value| matches!(value, Value::List(list) if list.is_empty());
        node.entry.name == "name_router"
            && parameters.any(|(name, value)| name == "commands" && !is_empty(value))
    };
    graph.nodes.iter().filter(takes_commands).map(|node| node.name.clone()).collect()
}

/// A parsed command.
struct RibCommand {
    verb: Verb,
    prefix: Name,
    cost: u32,
    until: Timestamp,
    parameters: ControlParameters,
}

impl Host {
    /// Answers the commands that name routers hold, and reports changes of registered routes.
    pub(super) fn process_commands(&mut self, now: Timestamp) {
        let routers = core::mem::take(&mut self.command_routers);
        for node in &routers {
            for _ in 0..COMMANDS_PER_TURN {
                let taken = self.engine.with::<NameRouter, _>(
                    node,
                    now,
                    &mut self.pool,
                    &mut self.out,
                    |router, _| router.take_command(),
                );
                let Some(Some(command)) = taken else { break };
                self.answer(now, node, command);
            }
        }
        self.command_routers = routers;
        self.report_registrations(now, None);
    }

    fn answer(&mut self, now: Timestamp, node: &str, command: Packet) {
        let wire = self.pool.bytes(&command).to_vec();
        let meta = self.pool.meta(&command);
        let (ingress, is_local) = (meta.ingress, meta.ingress_local);
        let answer = Interest::check(&wire).ok().and_then(|interest| {
            if let Some(known) = self.answers.find(interest.name(), ingress) {
                return Some(known);
            }
            let response = self.carry_out(now, node, &interest, ingress, is_local)?;
            let answer = encode(interest.name(), response)?;
            self.answers.keep(interest.name(), ingress, &answer);
            Some(answer)
        });
        self.engine.with::<NameRouter, _>(
            node,
            now,
            &mut self.pool,
            &mut self.out,
            |router, context| router.reply(now, command, answer.as_deref(), context),
        );
    }

    /// Carries out a command. `None`: it gets no answer.
    fn carry_out(
        &mut self,
        now: Timestamp,
        node: &str,
        interest: &Interest<'_>,
        ingress: FaceId,
        is_local: bool,
    ) -> Option<ControlResponse> {
        let (root, request) = command::parse(interest)?;
        let command = match rib_command(now, root, request, ingress, is_local) {
            Ok(command) => command,
            Err(refusal) => {
                return refusal.map(|(code, text)| ControlResponse::refuse(code, text));
            }
        };
        let request = AuthorizationRequest {
            interest,
            requester: Requester {
                face: ingress.number(),
                local: is_local,
                peer: PeerGroup::Face(ingress.number()),
                prefix: Some(command.prefix.as_ref()),
            },
        };
        let clocks = Clocks { elapsed_ms: now.as_millis(), unix_ms: self.unix_ms(now) };
        let name = interest.name().to_name();
        let registered = (command.verb == Verb::RibRegister)
            .then(|| (node.to_owned(), command.prefix.clone(), ingress));
        let response = self.engine.with::<NameRouter, _>(
            node,
            now,
            &mut self.pool,
            &mut self.out,
            |router, _| {
                let checked = router.authority_mut().check_command_offline(request, "rib", clocks);
                if let Err((refusal, wanted)) = checked {
                    let reason = refusal.as_str();
                    let (at, is_contested) = (now, false);
                    let failure = PacketFailure { name, reason, ingress, at, is_contested };
                    router.record_refusal(failure, wanted);
                    let response = ControlResponse::refuse(403, refusal.to_string());
                    return (!refusal.is_silent()).then_some(response);
                }
                Some(apply(router, ingress, &command))
            },
        )?;
        if let Some(route) = registered
            && response.as_ref().is_some_and(ControlResponse::is_ok)
        {
            match signer(interest) {
                Some(signer) => self.registrants.0.insert(route, signer),
                None => self.registrants.0.remove(&route),
            };
        }
        response
    }

    /// Logs changes of registered routes. `ended` is a face that just ended, and its name.
    pub(super) fn report_registrations(&mut self, now: Timestamp, ended: Option<(FaceId, String)>) {
        let routers = core::mem::take(&mut self.command_routers);
        for node in &routers {
            self.report_registrations_of(now, node, ended.as_ref());
        }
        self.command_routers = routers;
    }

    fn report_registrations_of(
        &mut self,
        now: Timestamp,
        node: &str,
        ended: Option<&(FaceId, String)>,
    ) {
        let events = self.engine.with::<NameRouter, _>(
            node,
            now,
            &mut self.pool,
            &mut self.out,
            |router, _| router.take_registration_events(),
        );
        for event in events.into_iter().flatten() {
            let kind = match event.is_added {
                true => ServiceEventKind::RouteRegistered,
                false => ServiceEventKind::RouteUnregistered,
            };
            if !event.is_added {
                let route = (node.to_owned(), event.prefix.clone(), event.face);
                self.registrants.0.remove(&route);
            }
            let ended = ended.filter(|(face, _)| *face == event.face);
            let link = ended.map(|(_, name)| name.clone()).or_else(|| self.link_name(event.face));
            let subject = EventSubject {
                element: Some(node.to_owned()),
                link,
                name: Some(event.prefix.to_string()),
                detail: Some(format!("face {}", event.face.number())),
            };
            self.log_event(now, kind, subject);
        }
    }
}

/// Code and text of an answer; `None`: the command gets none.
type CommandRefusal = Option<(u64, &'static str)>;

/// Checks a request.
fn rib_command(
    now: Timestamp,
    root: Root,
    request: Request<'_>,
    ingress: FaceId,
    is_local: bool,
) -> Result<RibCommand, CommandRefusal> {
    let refuse = |code, text| Err(Some((code, text)));
    if root == Root::Localhost && !is_local {
        return Err(None);
    }
    let (verb, parameters) = match request {
        Request::Command {
            verb: verb @ (Verb::RibRegister | Verb::RibUnregister),
            parameters,
            ..
        } => (verb, parameters),
        Request::Dataset { .. } | Request::Events { .. } => return Err(None),
        _ => return refuse(501, "a service supports only rib/register and rib/unregister"),
    };
    let Some(prefix) = parameters.name.clone() else {
        return refuse(400, "the parameters have no name: give the prefix to register");
    };
    let mut components = prefix.as_ref().components();
    let first = [components.next(), components.next()];
    let is_reserved =
        |scope: &[u8]| first == [Some(Component::generic(scope)), Some(Component::generic(b"nfd"))];
    if is_reserved(b"localhost") || is_reserved(b"localhop") {
        return refuse(403, "this prefix belongs to management: register another one");
    }
    if parameters.face_id.is_some_and(|id| id != 0 && id != ingress.number()) {
        return refuse(403, "a face can register prefixes only for itself: leave out the face id");
    }
    let until = parameters.expiration_period.map_or(Timestamp::NEVER, |period_ms| {
        // A century is as good as forever, and does not overflow.
        now + Duration::from_millis(period_ms.min(100 * 365 * 86_400_000))
    });
    let cost = u32::try_from(parameters.cost.unwrap_or(0)).unwrap_or(u32::MAX);
    Ok(RibCommand { verb, prefix, cost, until, parameters })
}

/// Changes the routes of a name router as an accepted command says.
fn apply(router: &mut NameRouter, ingress: FaceId, command: &RibCommand) -> ControlResponse {
    let RibCommand { verb, prefix, cost, until, parameters } = command;
    let mut body = ControlParameters {
        name: Some(prefix.clone()),
        face_id: Some(ingress.number()),
        origin: Some(parameters.origin.unwrap_or(origin::APP)),
        ..ControlParameters::default()
    };
    if *verb == Verb::RibUnregister {
        return match router.unregister(prefix, ingress) {
            true => ControlResponse::ok(body),
            false => ControlResponse { body, ..ControlResponse::refuse(404, "no such route") }
                .into_nothing_removed(),
        };
    }
    body.cost = Some(u64::from(*cost));
    body.flags = Some(parameters.flags.unwrap_or(1));
    body.expiration_period = parameters.expiration_period;
    match router.register(prefix, ingress, *cost, *until) {
        Ok(()) => ControlResponse::ok(body),
        Err(error) => ControlResponse::refuse(503, format!("{error}: unregister other prefixes")),
    }
}

/// Encodes an answer as a Data; `None` if it is too long for a packet.
fn encode(name: NameRef<'_>, mut response: ControlResponse) -> Option<Vec<u8>> {
    let data = |response: &ControlResponse| {
        let content = response.encode();
        let Ok(wire) =
            DataBuilder::new(name, &content).freshness_ms(FRESHNESS_MS).encode(&DigestSha256);
        wire
    };
    let mut wire = data(&response);
    if wire.len() > PACKET_LEN_MAX {
        // The answer has the prefix twice: in its own name and in its body.
        response.body = ControlParameters::default();
        wire = data(&response);
    }
    (wire.len() <= PACKET_LEN_MAX).then_some(wire)
}
