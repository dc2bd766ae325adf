//! What programs of Blackadder publish: scopes, items and data.
//!
//! Of several programs that publish an item, the first is told to publish; when it ends, the next
//! one is. A publication without an announced item goes where the item above goes: that is how
//! Blackadder's programs send fragments and items with computed identifiers.

use super::bridge::{Bridge, code_of};
use super::program::{OwnItem, Program};
use crate::matching::Refusal;
use crate::node::Node;
use crate::session::SessionId;
use nw_api::pubsub::{Fragment, ImplicitRoute, ItemName, ItemOptions, Reply};
use nw_pubsub::{ReturnCode, Strategy};
use nw_wire::publication::{EventKind, Id, RequestBody};

/// Items announced by publishing that a program has at once.
const UNANNOUNCED_MAX: usize = 256;
/// Data of one event at most, bytes: it has to fit a datagram.
const DATA_BYTES_MAX: usize = 200 << 10;

impl Program {
    /// Queues a publication. One that no datagram holds is dropped; the node has counted it as
    /// delivered, so a warning says it.
    pub(super) fn deliver(&mut self, item: u32, fragment: &Fragment) {
        let Some(id) = self.received.get(&item).cloned() else { return };
        if fragment.total_bytes > DATA_BYTES_MAX as u64 {
            if fragment.offset == 0 {
                let (session, len) = (self.session, fragment.total_bytes);
                tracing::warn!(session, len, "a publication is too long for Blackadder's programs");
            }
            return;
        }
        self.push(EventKind::PublishedData, &id, &fragment.payload);
    }
}

impl Bridge {
    pub(super) fn publish_scope(
        &mut self,
        node: &mut Node,
        session: SessionId,
        full: &Id,
    ) -> Result<(), ReturnCode> {
        let name = self.names.name_of(full).ok_or(ReturnCode::WrongIds)?;
        match node.publish_scope(session, None, name.as_str()) {
            // It is published already, for something below it.
            Ok(()) | Err((Reply::Exists, _)) => Ok(()),
            Err(refusal) => Err(code_of(refusal)),
        }
    }

    /// Publishes an existing scope under a further one.
    pub(super) fn link_scope(
        &mut self,
        node: &mut Node,
        session: SessionId,
        body: &RequestBody,
        full: &Id,
    ) -> Result<(), ReturnCode> {
        let (name, parent) = self.names_of(&body.id, &body.prefix)?;
        node.add_parent(session, name.as_str(), parent.as_str()).map_err(code_of)?;
        if let Some(program) = self.programs.get_mut(&session) {
            program.links.insert(full.clone(), body.id.clone());
        }
        Ok(())
    }

    fn names_of(&self, id: &Id, parent: &Id) -> Result<(ItemName, ItemName), ReturnCode> {
        let name = self.names.name_of(id).ok_or(ReturnCode::WrongIds)?;
        Ok((name, self.names.name_of(parent).ok_or(ReturnCode::WrongIds)?))
    }

    /// Publishes an item of the program under a further scope.
    pub(super) fn link_item(
        &mut self,
        node: &mut Node,
        session: SessionId,
        body: &RequestBody,
        full: &Id,
    ) -> Result<(), ReturnCode> {
        let number = self.find_item(node, session, &body.id).ok_or(ReturnCode::ItemMissing)?;
        let program = self.programs.get_mut(&session);
        let item = program.and_then(|program| program.items.get_mut(&number));
        let item = item.ok_or(ReturnCode::ItemMissing)?;
        let first = item.ids.first().cloned().unwrap_or_default();
        item.ids.push(full.clone());
        let linked = self.names_of(&first, &body.prefix).and_then(|(name, parent)| {
            node.add_parent(session, name.as_str(), parent.as_str()).map_err(code_of)
        });
        if linked.is_err()
            && let Some(program) = self.programs.get_mut(&session)
            && let Some(item) = program.items.get_mut(&number)
        {
            item.ids.pop();
        }
        linked
    }

    pub(super) fn unpublish_scope(&mut self, node: &mut Node, session: SessionId, full: &Id) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        if let Some(source) = program.links.remove(full) {
            let parent = full.parent().unwrap_or_default();
            if let Ok((name, parent)) = self.names_of(&source, &parent) {
                let _was_there = node.remove_parent(session, name.as_str(), parent.as_str());
            }
            return;
        }
        let ids = program.items.values().flat_map(|item| &item.ids);
        let is_below = |id: &&Id| full.is_prefix_of(id) && id.len() == full.len() + 1;
        let below: Vec<Id> = ids.filter(is_below).cloned().collect();
        below.iter().for_each(|id| self.unpublish_item(node, session, id));
        if let Some(name) = self.names.name_of(full) {
            let _was_there = node.unpublish_scope(session, name.as_str());
        }
    }

    /// Announces an item of a program.
    pub(super) fn publish_item(
        &mut self,
        node: &mut Node,
        session: SessionId,
        full: &Id,
        strategy: Strategy,
    ) -> Result<(), Refusal> {
        if let Some(number) = self.find_item(node, session, full)
            && let Some(program) = self.programs.get_mut(&session)
            && !program.items.contains_key(&number)
        {
            program.unannounced.retain(|(known, _)| *known != number);
            let _was_there = node.unpublish(session, number);
        }
        let options = ItemOptions { strategy: Some(strategy), ..ItemOptions::default() };
        let number = self.announce(node, session, full, options)?;
        let item = OwnItem {
            ids: vec![full.clone()],
            strategy,
            sequence: 0,
            subscribers: 0,
            is_started: false,
        };
        if let Some(program) = self.programs.get_mut(&session) {
            program.items.insert(number, item);
            self.publishers.entry(full.clone()).or_default().insert(session);
        }
        Ok(())
    }

    fn announce(
        &mut self,
        node: &mut Node,
        session: SessionId,
        full: &Id,
        options: ItemOptions,
    ) -> Result<u32, Refusal> {
        let invalid = || (Reply::InvalidName, "the identifier is too long".to_owned());
        let name = self.names.name_of(full).ok_or_else(invalid)?;
        let full_text = || (Reply::Full, "pubsub.items_per_application is reached".to_owned());
        let items_max = node.config.items_per_application;
        let number = match node.publishers.get(&session) {
            Some(publisher) => publisher.free_item(items_max).ok_or_else(full_text)?,
            None => 0,
        };
        node.publish(session, number, options, name.as_str()).map(|()| number)
    }

    /// Ends one identifier of an item; the item with its last one.
    pub(super) fn unpublish_item(&mut self, node: &mut Node, session: SessionId, full: &Id) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let found = program.items.iter_mut().find(|(_, item)| item.ids.contains(full));
        let Some((&number, item)) = found else { return };
        let is_first = item.ids.first() == Some(full);
        item.ids.retain(|id| id != full);
        if item.ids.is_empty() {
            item.ids.push(full.clone());
            return self.withdraw(node, session, number);
        }
        let first = item.ids[0].clone();
        if !is_first {
            let parent = full.parent().unwrap_or_default();
            if let Ok((name, parent)) = self.names_of(&first, &parent) {
                let _was_there = node.remove_parent(session, name.as_str(), parent.as_str());
            }
            return;
        }
        // What is left takes the place of the first identifier.
        let (strategy, others) = (item.strategy, item.ids[1..].to_vec());
        item.ids = vec![full.clone()];
        self.withdraw(node, session, number);
        if self.publish_item(node, session, &first, strategy).is_err() {
            return;
        }
        for other in others {
            let prefix = other.parent().unwrap_or_default();
            let (operation, id) = (nw_wire::publication::Operation::PublishItem, first.clone());
            let body =
                RequestBody { operation, id, prefix, strategy: strategy as u8, option: None };
            let _was_linked = self.link_item(node, session, &body, &other);
        }
    }

    /// Ends an item. Its last value is not kept: Blackadder's programs expect none of a publisher
    /// that has ended.
    pub(super) fn withdraw(&mut self, node: &mut Node, session: SessionId, number: u32) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let Some(item) = program.items.remove(&number) else { return };
        let _was_there = node.unpublish(session, number);
        let Some(first) = item.ids.first() else { return };
        if let Some(name) = self.names.name_of(first) {
            node.last_values.remove(&name);
        }
        let Some(publishers) = self.publishers.get_mut(first) else { return };
        publishers.remove(&session);
        let next = publishers.first().copied();
        if publishers.is_empty() {
            self.publishers.remove(first);
        }
        if item.is_started
            && let Some(next) = next
        {
            self.start(next, first);
        }
    }

    /// Takes the number of an item's subscribers.
    pub(super) fn count_subscribers(&mut self, session: SessionId, number: u32, count: u32) {
        let program = self.programs.get_mut(&session);
        let Some(item) = program.and_then(|program| program.items.get_mut(&number)) else { return };
        item.subscribers = count;
        let id = item.ids.first().cloned().unwrap_or_default();
        if count > 0 {
            return self.start(session, &id);
        }
        if core::mem::take(&mut item.is_started)
            && let Some(program) = self.programs.get_mut(&session)
        {
            program.push(EventKind::StopPublish, &id, &[]);
        }
    }

    /// Tells a program to publish an item, if it has subscribers and no other program was told.
    fn start(&mut self, session: SessionId, id: &Id) {
        let sessions = self.publishers.get(id).into_iter().flatten();
        let is_started = |session: &SessionId| {
            let items = self.programs.get(session).into_iter().flat_map(|p| p.items.values());
            items.into_iter().any(|item| item.is_started && item.ids.first() == Some(id))
        };
        if sessions.copied().any(|session| is_started(&session)) {
            return;
        }
        let Some(program) = self.programs.get_mut(&session) else { return };
        let mut items = program.items.values_mut();
        let item = items.find(|item| item.ids.first() == Some(id) && item.subscribers > 0);
        if let Some(item) = item {
            item.is_started = true;
            program.push(EventKind::StartPublish, id, &[]);
        }
    }

    /// Returns the number of a program's item with an identifier, also one by further parents.
    fn find_item(&self, node: &Node, session: SessionId, id: &Id) -> Option<u32> {
        let name = self.names.name_of(id)?;
        let mut named = node.index.named(&name);
        named.find(|(publisher, _)| *publisher == session).map(|(_, number)| number)
    }

    /// Publishes data of a program.
    pub(super) fn publish_data(
        &mut self,
        node: &mut Node,
        session: SessionId,
        id: &Id,
        strategy: u8,
        data: &[u8],
    ) {
        let number = match self.find_item(node, session, id) {
            Some(number) => Ok(number),
            None => self.announce_unannounced(node, session, id, strategy),
        };
        let sent = number.and_then(|number| {
            let Some(program) = self.programs.get_mut(&session) else { return Ok(()) };
            let of_item = program.items.get_mut(&number).map(|item| &mut item.sequence);
            let mut unannounced = program.unannounced.iter_mut().rev();
            let sequence = match of_item {
                Some(sequence) => Some(sequence),
                None => unannounced.find(|(known, _)| *known == number).map(|(_, last)| last),
            };
            let missing = || (Reply::Missing, "the item is not this program's".to_owned());
            let sequence = sequence.ok_or_else(missing)?;
            *sequence += 1;
            let sequence = *sequence;
            for part in Fragment::parts(sequence, data) {
                node.take_data(session, number, part).map_err(|text| (Reply::Unknown, text))?;
            }
            Ok(())
        });
        if let Err((_, text)) = sent {
            node.counters.refusals += 1;
            tracing::debug!(session, %id, "blackadder: publication dropped: {text}");
        }
    }

    /// Announces an item that a program publishes without a request.
    fn announce_unannounced(
        &mut self,
        node: &mut Node,
        session: SessionId,
        id: &Id,
        strategy: u8,
    ) -> Result<u32, Refusal> {
        let above = id.parent().and_then(|above| self.find_item(node, session, &above));
        let program = self.programs.get(&session);
        let above = above.and_then(|number| program.and_then(|found| found.items.get(&number)));
        let above =
            above.map(|item| (item.strategy, item.ids.first().cloned().unwrap_or_default()));
        let (strategy, like) = match (Strategy::from_number(strategy), above) {
            (Some(Strategy::LinkLocal), _) => (Strategy::LinkLocal, None),
            (Some(Strategy::Broadcast), _) => (Strategy::Broadcast, None),
            // It leaves by the forwarding identifier that the program gave.
            (Some(Strategy::Implicit), _) if node.blackadder.is_some() => {
                (Strategy::NodeLocal, None)
            }
            (Some(_), Some((Strategy::Domain, above))) => (Strategy::Implicit, Some(above)),
            (Some(Strategy::Implicit), _) | (Some(_), Some(_)) => (Strategy::NodeLocal, None),
            _ => {
                let text = "neither the item nor the one above it is published by this program";
                return Err((Reply::Missing, text.into()));
            }
        };
        self.drop_oldest(node, session);
        let options =
            ItemOptions { keeps_last: false, strategy: Some(strategy), ..ItemOptions::default() };
        let number = self.announce(node, session, id, options)?;
        if let Some(name) = like.and_then(|above| self.names.name_of(&above)) {
            // Without a domain there is nowhere to go but to this node's programs.
            let _has_domain = node.set_route(session, number, ImplicitRoute::Like(name));
        }
        if let Some(program) = self.programs.get_mut(&session) {
            program.unannounced.push_back((number, 0));
        }
        Ok(number)
    }

    fn drop_oldest(&mut self, node: &mut Node, session: SessionId) {
        let Some(program) = self.programs.get_mut(&session) else { return };
        let items_max = node.config.items_per_application as usize;
        let items = node.publishers.get(&session).map_or(0, |publisher| publisher.items.len());
        if (program.unannounced.len() >= UNANNOUNCED_MAX || items >= items_max)
            && let Some((oldest, _)) = program.unannounced.pop_front()
        {
            let _was_there = node.unpublish(session, oldest);
        }
    }
}
