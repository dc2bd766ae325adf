//! Requests and events of Blackadder's programs as those of the node.
//!
//! The graph of Blackadder's rules (`nw_pubsub::Rendezvous`) decides on each request and tells the
//! programs of this node about scopes. What it accepts the node does: each program is a connection
//! of the node with the program's own user, so that rules, limits and counters hold for it, and its
//! items are items like all others.
//!
//! Invariants: a request that the node refuses leaves no trace in the graph; all that a program did
//! ends with it.

use super::names::Names;
use super::program::{Program, SubscriptionKey};
use crate::matching::Refusal;
use crate::node::Node;
use crate::session::SessionId;
use nw_api::pubsub::{Event, Reply, Request as NodeRequest, VERSION};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::FrameSocket;
use nw_faces::local_pubsub::frame_socket::Frame;
use nw_pubsub::{Effect, Rendezvous, RendezvousLimits, Request, ReturnCode, Strategy, Timestamp};
use nw_wire::publication::{ApplicationMessage, Id, Label, Operation, RequestBody};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

/// Earlier publications that a new subscriber gets.
const HISTORY: u32 = 1;
/// Name of the programs, as the node's status has it.
pub const PROGRAM: &str = "blackadder";
/// Scopes whose publishers a program watches at most.
const WATCHED_MAX: usize = 64;
/// Time does not matter to the graph: clients end with their processes.
const NOW: Timestamp = Timestamp::START;

/// The programs and the graph of their scopes and items.
#[derive(Debug)]
pub struct Bridge {
    pub(super) names: Names,
    pub(super) programs: BTreeMap<SessionId, Program>,
    /// Programs that published an item, by its identifier.
    pub(super) publishers: BTreeMap<Id, BTreeSet<SessionId>>,
    rendezvous: Rendezvous,
    next_request: u32,
}

impl Bridge {
    /// Creates a bridge without programs, with the limits of a node.
    pub fn new(node: &Node, names: Names) -> Self {
        let limits = RendezvousLimits {
            vertices_max: node.config.items as usize,
            uses_per_client_max: 2 * node.config.items_per_application as usize,
            clients_max: node.config.applications as usize,
            name_bytes_max: 0,
            ..RendezvousLimits::default()
        };
        Bridge {
            names,
            programs: BTreeMap::new(),
            publishers: BTreeMap::new(),
            rendezvous: Rendezvous::new(limits),
            next_request: 0,
        }
    }

    /// Returns whether there are no programs, and nothing in the graph.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        let size = self.rendezvous.size();
        let graph = size.scopes + size.items + size.clients + self.rendezvous.pattern_count();
        self.programs.is_empty() && self.publishers.is_empty() && graph == 0
    }

    /// Adds a program as a connection of the node. `None` if the node has too many applications, or
    /// the system refuses a socket.
    pub fn open(&mut self, node: &mut Node, credentials: Credentials) -> Option<SessionId> {
        let (own, other) = UnixStream::pair().ok()?;
        let session = node.open(OwnedFd::from(other), credentials)?;
        let hello = NodeRequest::Hello { version: VERSION, program: PROGRAM.into() };
        let frame = Frame { kind: hello.kind(), body: hello.encode(), file: None };
        node.handle(session, frame).ok()?;
        let connection = FrameSocket::new(OwnedFd::from(own));
        self.programs.insert(session, Program::new(session, connection));
        Some(session)
    }

    /// Ends a program and all that it did.
    pub fn end(&mut self, node: &mut Node, session: SessionId) {
        let Some(program) = self.programs.get(&session) else { return };
        let items: Vec<u32> = program.items.keys().copied().collect();
        items.into_iter().for_each(|number| self.withdraw(node, session, number));
        self.programs.remove(&session);
        let effects = self.rendezvous.remove_client(Label::from_number(session));
        self.tell_scopes(effects);
        node.with_blackadder(|domain, node| domain.end_program(node, session));
    }

    /// Handles a message of a program. Returns whether the program goes on.
    pub fn handle(
        &mut self,
        node: &mut Node,
        session: SessionId,
        message: ApplicationMessage<'_>,
    ) -> bool {
        match message {
            ApplicationMessage::Request(body) => {
                let code = self.request(node, session, &body);
                if code == ReturnCode::Success {
                    node.with_blackadder(|domain, node| domain.take_request(node, session, &body));
                }
                if code != ReturnCode::Success {
                    node.counters.refusals += 1;
                    let (operation, sentence) = (body.operation.as_str(), code.explanation());
                    tracing::debug!(
                        session,
                        operation,
                        code = code as u8,
                        "blackadder: {sentence}"
                    );
                }
                true
            }
            ApplicationMessage::PublishData { id, strategy, fid, data } => {
                self.publish_data(node, session, &id, strategy, data);
                if strategy == Strategy::Broadcast as u8 || fid.is_some() {
                    node.with_blackadder(|domain, _| domain.send_to(fid, &id, data));
                }
                true
            }
            ApplicationMessage::Disconnect => false,
        }
    }

    /// Executes a request. Returns its code, which Blackadder does not send.
    pub fn request(
        &mut self,
        node: &mut Node,
        session: SessionId,
        body: &RequestBody,
    ) -> ReturnCode {
        let Some(strategy) = Strategy::from_number(body.strategy) else {
            return ReturnCode::StrategyMismatch;
        };
        let new_label = body.id.last().unwrap_or_default();
        let full = body.prefix.child(new_label);
        if body.id.is_empty() || self.names.below(&full).is_none() {
            return ReturnCode::WrongIds;
        }
        let effects = match strategy.has_rendezvous() {
            true => self.ask_graph(session, body, strategy),
            false => Ok(Vec::new()),
        };
        let outcome = effects.and_then(|effects| match self.apply(node, session, body, &full) {
            Ok(()) => Ok(effects),
            Err(code) => {
                self.undo(session, body, &full);
                Err(code)
            }
        });
        match outcome {
            Ok(effects) => {
                self.tell_scopes(effects);
                ReturnCode::Success
            }
            Err(code) => code,
        }
    }

    /// Asks the graph. Scopes of the domain that no program of this node published may exist on
    /// other nodes, so they are published for this program first.
    fn ask_graph(
        &mut self,
        session: SessionId,
        body: &RequestBody,
        strategy: Strategy,
    ) -> Result<Vec<Effect>, ReturnCode> {
        let first = self.ask_once(session, body);
        let is_publish = matches!(body.operation, Operation::PublishScope | Operation::PublishItem);
        let may_be_elsewhere = is_publish && strategy == Strategy::Domain;
        if first != Err(ReturnCode::ParentMissing) || !may_be_elsewhere {
            return first;
        }
        let labels = body.prefix.labels();
        for (depth, label) in labels.iter().enumerate() {
            let above = RequestBody {
                operation: Operation::PublishScope,
                id: Id::new(vec![*label]),
                prefix: Id::from(&labels[..depth]),
                strategy: body.strategy,
                option: None,
            };
            if let Ok(effects) = self.ask_once(session, &above) {
                self.tell_scopes(effects);
            }
        }
        self.ask_once(session, body)
    }

    fn ask_once(
        &mut self,
        session: SessionId,
        body: &RequestBody,
    ) -> Result<Vec<Effect>, ReturnCode> {
        // A subscription with a number is kept until its scope exists.
        self.next_request = self.next_request.wrapping_add(1).max(1);
        let request = Request::of_blackadder(Label::from_number(session), body);
        let request = Request { number: self.next_request, ..request };
        let effects = self.rendezvous.handle(&request, NOW);
        match effects.first() {
            Some(Effect::Reply(reply)) if reply.code == ReturnCode::Success as u8 => Ok(effects),
            Some(Effect::Reply(reply)) => {
                Err(ReturnCode::from_number(reply.code).unwrap_or(ReturnCode::UnknownRequest))
            }
            _ => Err(ReturnCode::UnknownRequest),
        }
    }

    /// Takes a request back that the node refused, before any program is told of it.
    fn undo(&mut self, session: SessionId, body: &RequestBody, full: &Id) {
        let operation = match body.operation {
            Operation::PublishScope => Operation::UnpublishScope,
            Operation::PublishItem => Operation::UnpublishItem,
            Operation::SubscribeScope => Operation::UnsubscribeScope,
            Operation::SubscribeItem => Operation::UnsubscribeItem,
            _ => return,
        };
        let id = Id::new(full.last().into_iter().collect());
        let inverse = RequestBody { operation, id, prefix: body.prefix.clone(), ..body.clone() };
        let _was_done = self.ask_once(session, &inverse);
    }

    /// Does at the node what the graph accepted.
    fn apply(
        &mut self,
        node: &mut Node,
        session: SessionId,
        body: &RequestBody,
        full: &Id,
    ) -> Result<(), ReturnCode> {
        let strategy = Strategy::from_number(body.strategy).unwrap_or_default();
        if !self.programs.contains_key(&session) {
            return Err(ReturnCode::NotMember);
        }
        let is_new = body.id.len() == 1;
        match body.operation {
            // Without rendezvous, publish requests have no effect.
            _ if !strategy.has_rendezvous() && (body.operation as u8) < 4 => Ok(()),
            Operation::PublishScope if is_new => self.publish_scope(node, session, full),
            Operation::PublishScope => self.link_scope(node, session, body, full),
            Operation::PublishItem if is_new => {
                self.publish_item(node, session, full, strategy).map_err(code_of)
            }
            Operation::PublishItem => self.link_item(node, session, body, full),
            Operation::UnpublishScope => {
                self.unpublish_scope(node, session, full);
                Ok(())
            }
            Operation::UnpublishItem => {
                self.unpublish_item(node, session, full);
                Ok(())
            }
            Operation::SubscribeScope | Operation::SubscribeItem if !is_new => {
                Err(ReturnCode::WrongIds)
            }
            Operation::SubscribeScope => self.subscribe(node, session, full, true, strategy),
            Operation::SubscribeItem => self.subscribe(node, session, full, false, strategy),
            Operation::UnsubscribeScope => {
                self.unsubscribe(node, session, (full.clone(), true, body.strategy))
            }
            Operation::UnsubscribeItem => {
                self.unsubscribe(node, session, (full.clone(), false, body.strategy))
            }
        }
    }

    fn subscribe(
        &mut self,
        node: &mut Node,
        session: SessionId,
        full: &Id,
        is_scope: bool,
        strategy: Strategy,
    ) -> Result<(), ReturnCode> {
        let Some(program) = self.programs.get_mut(&session) else { return Ok(()) };
        let key = (full.clone(), is_scope, strategy as u8);
        if program.subscriptions.contains_key(&key) {
            return Err(ReturnCode::Exists);
        }
        let pattern = match is_scope {
            true => self.names.below(full).map(|pattern| pattern.to_string()),
            false => self.names.name_of(full).map(|name| name.to_string()),
        };
        let pattern = pattern.ok_or(ReturnCode::WrongIds)?;
        let number = program.next_subscription;
        // Only with these do other nodes have to know who subscribes.
        let is_here = !matches!(strategy, Strategy::Domain | Strategy::LinkLocal);
        let history = if strategy.has_rendezvous() { HISTORY } else { 0 };
        let pattern = node
            .add_subscription(session, number, (history, is_here), &pattern)
            .map_err(code_of)?;
        program.next_subscription = number.wrapping_add(1);
        program.subscriptions.insert(key, number);
        node.match_subscription(session, &pattern, history);
        if is_scope {
            let scopes = node.blackadder.as_ref().map(|domain| domain.scopes_below(full));
            for scope in scopes.unwrap_or_default() {
                program.set_remote_scope(&scope, true);
            }
            program.tell_below(full);
            self.watch(node, session, full);
        }
        Ok(())
    }

    /// Watches the publishers below a scope, for scopes that exist on other nodes or by others.
    fn watch(&mut self, node: &mut Node, session: SessionId, scope: &Id) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let is_watched = program.watched.iter().any(|above| above.is_prefix_of(scope));
        if is_watched || program.watched.len() >= WATCHED_MAX {
            return;
        }
        if let Some(pattern) = self.names.all_below(scope) {
            program.watched.insert(scope.clone());
            node.watch(session, pattern);
        }
    }

    fn unsubscribe(
        &mut self,
        node: &mut Node,
        session: SessionId,
        key: SubscriptionKey,
    ) -> Result<(), ReturnCode> {
        let Some(program) = self.programs.get_mut(&session) else { return Ok(()) };
        let number = program.subscriptions.remove(&key).ok_or(ReturnCode::NotMember)?;
        let (scope, is_scope, _) = key;
        if is_scope && !program.subscribes_to_scope(&scope) {
            program.forget_below(&scope);
            self.end_watch(node, session, &scope);
        }
        node.unsubscribe(session, number).map_err(code_of)
    }

    /// Ends watching the publishers below a scope that a program does not subscribe to any more,
    /// and watches them below the scopes in it that it still does.
    fn end_watch(&mut self, node: &mut Node, session: SessionId, scope: &Id) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        if !program.watched.contains(scope) {
            return;
        }
        let watched = program.watched.extract_if(scope.clone().., |id| scope.is_prefix_of(id));
        for id in watched.collect::<Vec<_>>() {
            if let Some(pattern) = self.names.all_below(&id) {
                node.end_watch(session, &pattern);
            }
        }
        program.forget_foreign(|name| scope.is_prefix_of(&self.names.id_of(name)));
        let subscriptions = program.subscriptions.keys();
        let scopes = subscriptions.filter(|(id, is_scope, _)| *is_scope && scope.is_prefix_of(id));
        let scopes: BTreeSet<Id> = scopes.map(|(id, _, _)| id.clone()).collect();
        scopes.iter().for_each(|id| self.watch(node, session, id));
    }

    /// Tells programs of this node about scopes.
    fn tell_scopes(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let Effect::Scope { published, subscribers, ids, .. } = effect else { continue };
            for subscriber in subscribers {
                let Some(program) = self.programs.get_mut(&subscriber.number()) else { continue };
                for id in &ids {
                    let above = id.parent().unwrap_or_default();
                    if program.subscribes_to_scope(&above) || !published {
                        program.set_local_scope(id, published);
                    }
                }
            }
        }
    }

    /// Tells programs of scopes that other nodes of a Blackadder domain published or withdrew.
    pub(super) fn tell_remote_scopes(&mut self, notices: &[(bool, Id)]) {
        for (is_published, id) in notices {
            let above = id.parent().unwrap_or_default();
            for program in self.programs.values_mut() {
                if !is_published || program.subscribes_to_scope(&above) {
                    program.set_remote_scope(id, *is_published);
                }
            }
        }
    }

    /// Handles an event of the node for a program.
    pub(super) fn handle_event(&mut self, node: &Node, session: SessionId, event: Event) {
        let own_sessions = &self.programs;
        match event {
            Event::Subscribers { item, count } => self.count_subscribers(session, item, count),
            Event::Item { item, name, .. } => {
                let id = self.known_id(node, session, &name);
                if let Some(program) = self.programs.get_mut(&session) {
                    program.received.insert(item, id);
                }
            }
            Event::ItemEnd { item, .. } => {
                if let Some(program) = self.programs.get_mut(&session) {
                    program.received.remove(&item);
                }
            }
            Event::Data { item, fragment, .. } => {
                if let Some(program) = self.programs.get_mut(&session) {
                    program.deliver(item, &fragment);
                }
            }
            Event::Presence { is_publisher: true, is_here, node, session: other, name, .. } => {
                let is_program = node == 0 && own_sessions.contains_key(&other);
                let id = self.names.id_of(&name);
                if !is_program && let Some(program) = self.programs.get_mut(&session) {
                    program.set_foreign(&id, &(node, other, name), is_here);
                }
            }
            _ => {}
        }
    }

    /// Returns the identifier by which a program subscribed to an item.
    fn known_id(&self, node: &Node, session: SessionId, name: &str) -> Id {
        let id = self.names.id_of(name);
        let Some(program) = self.programs.get(&session) else { return id };
        if program.wants(&id) {
            return id;
        }
        let parsed = name.parse();
        let named = parsed.iter().flat_map(|name| node.index.named(name));
        let items = named.filter_map(|(publisher, number)| {
            node.publishers.get(&publisher).and_then(|found| found.items.get(&number))
        });
        let names = items.flat_map(|item| item.names());
        let mut ids = names.map(|name| self.names.id_of(name.as_str()));
        ids.find(|id| program.wants(id)).unwrap_or(id)
    }
}

/// Returns Blackadder's code for what the node refused.
pub(super) fn code_of((reply, text): Refusal) -> ReturnCode {
    tracing::debug!("blackadder: {text}");
    match reply {
        Reply::Done => ReturnCode::Success,
        Reply::InvalidName => ReturnCode::WrongIds,
        Reply::Exists => ReturnCode::Exists,
        Reply::Missing => ReturnCode::NotMember,
        Reply::Forbidden => ReturnCode::NotAllowed,
        Reply::Mismatch => ReturnCode::StrategyMismatch,
        Reply::Full | Reply::Unknown => ReturnCode::LimitReached,
    }
}
