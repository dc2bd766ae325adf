//! Rules for items, and subscriptions to patterns.

use super::membership::Delta;
use super::patterns::matching_items;
use super::scopes::Place;
use super::{Rendezvous, ReturnCode, Task, options_of};
use crate::graph::{ClientKey, Slot, VertexKind};
use nw_wire::publication::{Id, Label, SubscriptionScope};

impl Rendezvous {
    /// Finds the place of an item, and checks the rules that come first for all of them.
    fn item_place(&self, task: &Task<'_>) -> Result<Place, ReturnCode> {
        if task.request.prefix.is_empty() {
            return Err(ReturnCode::WrongIds);
        }
        let place = self.place(task).ok_or(ReturnCode::ParentMissing)?;
        if place.existing.is_some_and(|slot| !self.is_item(slot)) {
            return Err(ReturnCode::ScopeWithSameId);
        }
        self.check_strategy(task, Some(place.parent))?;
        Ok(place)
    }

    pub(super) fn publish_item(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let place = self.item_place(task)?;
        let client = self.client_for_use(task.client)?;
        let item = match place.existing {
            Some(item) => item,
            None => self.create(task, place.parent, VertexKind::Item)?,
        };
        self.add_item_publisher(task, item, place.parent, client)
    }

    fn add_item_publisher(
        &mut self,
        task: &Task<'_>,
        item: Slot,
        parent: Slot,
        client: ClientKey,
    ) -> Result<(), ReturnCode> {
        let vertex = self.graph.vertex_mut(item);
        if vertex.publishers.is_empty() {
            // A subscription may have created it: the first publisher sets the options.
            vertex.options = options_of(task.request);
        }
        let was_publisher = vertex.has_publisher(client);
        if !self.graph.add_publisher(item, parent, client) {
            return Err(ReturnCode::Exists);
        }
        if task.request.strength > 0 {
            self.strengths.insert((item, client), task.request.strength);
        }
        let joined = if was_publisher { vec![] } else { vec![client] };
        self.emit_change(item, Delta { publishers_joined: joined, ..Delta::default() });
        Ok(())
    }

    /// Publishes an existing item under another scope.
    pub(super) fn republish_item(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        if task.request.prefix.is_empty() {
            return Err(ReturnCode::WrongIds);
        }
        let place = self.place(task);
        if place.as_ref().and_then(|p| p.existing).is_some_and(|slot| !self.is_item(slot)) {
            return Err(ReturnCode::ScopeWithSameId);
        }
        let place = place.ok_or(ReturnCode::ParentMissing)?;
        let source = self.graph.find(&task.request.id).filter(|slot| self.is_item(*slot));
        let source = source.ok_or(ReturnCode::ItemMissing)?;
        self.check_strategy(task, Some(place.parent))?;
        self.check_strategy(task, Some(source))?;
        let client = self.client_for_use(task.client)?;
        if let Some(existing) = place.existing {
            return self.add_item_publisher(task, existing, place.parent, client);
        }
        if self.graph.has_many_ids(source) || self.graph.has_many_ids(place.parent) {
            return Err(ReturnCode::LimitReached);
        }
        let before = self.effective_subscribers(source);
        let was_publisher = self.graph.vertex(source).has_publisher(client);
        self.graph.add_parent(source, place.parent);
        self.graph.add_publisher(source, place.parent, client);
        let joined = if was_publisher { vec![] } else { vec![client] };
        let delta = Delta { publishers_joined: joined, ids_changed: true, ..Delta::default() };
        self.emit_subscribers_since(source, &before, delta);
        Ok(())
    }

    /// Completes a change by the subscribers that came and went, and emits it.
    pub(super) fn emit_subscribers_since(
        &mut self,
        item: Slot,
        before: &[ClientKey],
        mut delta: Delta,
    ) {
        let after = self.effective_subscribers(item);
        let is_new = |client: &&ClientKey| before.binary_search(client).is_err();
        delta.subscribers_joined.extend(after.iter().filter(is_new));
        let has_left = |client: &&ClientKey| after.binary_search(client).is_err();
        delta.subscribers_left.extend(before.iter().filter(has_left));
        self.emit_change(item, delta);
    }

    pub(super) fn unpublish_item(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let (item, parent, client) = self.member_item(task)?;
        match self.withdraw_item_publisher(item, parent, client) {
            true => Ok(()),
            false => Err(ReturnCode::NotMember),
        }
    }

    /// Returns the item of a request that ends something, its parent, and the client.
    fn member_item(&self, task: &Task<'_>) -> Result<(Slot, Slot, ClientKey), ReturnCode> {
        let place = self.place(task).ok_or(ReturnCode::ItemMissing)?;
        let item = place.existing.filter(|slot| self.is_item(*slot));
        let item = item.ok_or(ReturnCode::ItemMissing)?;
        self.check_strategy(task, Some(place.parent))?;
        let client = self.graph.clients().find(task.client).ok_or(ReturnCode::NotMember)?;
        Ok((item, place.parent, client))
    }

    /// Returns `false` if the client is no publisher under this parent.
    pub(super) fn withdraw_item_publisher(
        &mut self,
        item: Slot,
        parent: Slot,
        client: ClientKey,
    ) -> bool {
        if !self.graph.remove_publisher(item, parent, client) {
            return false;
        }
        let mut delta = Delta::default();
        let has_left = !self.graph.vertex(item).has_publisher(client);
        if has_left {
            delta.publishers_left.push(client);
        }
        self.settle_item(item, parent, delta);
        // After the change, which compares it with the strengths of the others.
        if has_left {
            self.strengths.remove(&(item, client));
        }
        true
    }

    fn withdraw_item_subscriber(&mut self, item: Slot, parent: Slot, client: ClientKey) -> bool {
        if !self.graph.remove_subscriber(item, parent, client) {
            return false;
        }
        self.unwatch(item, client);
        let mut delta = Delta::default();
        if !self.is_effective(item, client) {
            delta.subscribers_left.push(client);
        }
        self.settle_item(item, parent, delta);
        true
    }

    /// Emits a change of an item, and removes it from a parent under which it is not used any more.
    fn settle_item(&mut self, item: Slot, parent: Slot, delta: Delta) {
        if self.graph.vertex(item).is_used_under(parent) {
            return self.emit_change(item, delta);
        }
        if self.graph.vertex(item).parents.len() > 1 {
            let before = self.effective_subscribers(item);
            self.graph.remove_parent(item, parent);
            let delta = Delta { ids_changed: true, ..delta };
            self.emit_subscribers_since(item, &before, delta);
        } else {
            self.emit_change(item, delta);
            self.graph.remove_parent(item, parent);
            self.watchers.remove(&item);
        }
        for (scope, above) in self.unused_ways(parent) {
            self.collapse_scope(scope, above);
        }
    }

    pub(super) fn subscribe_item(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let place = match self.item_place(task) {
            Err(ReturnCode::ParentMissing) if task.is_kept() => {
                let id = task.full_id();
                return self.subscribe_pattern(task.client, &id, SubscriptionScope::default());
            }
            place => place?,
        };
        let client = self.client_for_use(task.client)?;
        let item = match place.existing {
            Some(item) => item,
            None => self.create(task, place.parent, VertexKind::Item)?,
        };
        let was_effective = self.is_effective(item, client);
        if !self.graph.add_subscriber(item, place.parent, client) {
            return Err(ReturnCode::Exists);
        }
        self.watch(task, item, client);
        let joined = if was_effective { vec![] } else { vec![client] };
        self.emit_change(item, Delta { subscribers_joined: joined, ..Delta::default() });
        Ok(())
    }

    pub(super) fn unsubscribe_item(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let ended = self.member_item(task).and_then(|(item, parent, client)| {
            match self.withdraw_item_subscriber(item, parent, client) {
                true => Ok(()),
                false => Err(ReturnCode::NotMember),
            }
        });
        let exact = SubscriptionScope::default();
        ended.or_else(|code| self.end_kept_subscription(task, &task.full_id(), exact, code))
    }

    pub(super) fn subscribe_pattern(
        &mut self,
        label: Label,
        pattern: &Id,
        covered: SubscriptionScope,
    ) -> Result<(), ReturnCode> {
        let client = self.client_for_use(label)?;
        if self.patterns.is_full() {
            return Err(ReturnCode::LimitReached);
        }
        let items = matching_items(&self.graph, pattern, covered);
        let new: Vec<Slot> =
            items.into_iter().filter(|item| !self.is_effective(*item, client)).collect();
        if !self.patterns.insert(client, pattern, covered) {
            return Err(ReturnCode::Exists);
        }
        for item in new {
            let delta = Delta { subscribers_joined: vec![client], ..Delta::default() };
            self.emit_change(item, delta);
        }
        Ok(())
    }

    pub(super) fn unsubscribe_pattern(
        &mut self,
        client: ClientKey,
        pattern: &Id,
        covered: SubscriptionScope,
    ) -> Result<(), ReturnCode> {
        if !self.patterns.remove(client, pattern, covered) {
            return Err(ReturnCode::NotMember);
        }
        for item in matching_items(&self.graph, pattern, covered) {
            if !self.is_effective(item, client) {
                let delta = Delta { subscribers_left: vec![client], ..Delta::default() };
                self.emit_change(item, delta);
            }
        }
        Ok(())
    }

    /// Ends everything that a client does with a scope or item.
    pub(super) fn withdraw(&mut self, slot: Slot, client: ClientKey) {
        let parents = match self.graph.is_used(slot) {
            true => self.graph.vertex(slot).parents.as_slice().to_vec(),
            false => Vec::new(),
        };
        for parent in parents {
            if self.is_item(slot) {
                self.withdraw_item_publisher(slot, parent, client);
                if self.graph.is_used(slot) {
                    self.withdraw_item_subscriber(slot, parent, client);
                }
                continue;
            }
            let _was_subscriber = self.withdraw_scope_subscriber(slot, parent, client);
            if self.graph.is_used(slot) && self.graph.remove_publisher(slot, parent, client) {
                self.collapse_scope(slot, parent);
            }
        }
    }
}
