//! Rules for scopes.

use super::membership::Delta;
use super::{Effect, Rendezvous, ReturnCode, Task, options_of};
use crate::graph::{ClientKey, ROOT, Slot, VertexKind};
use nw_wire::publication::{Id, LABELS_MAX, Label, RequestFlags, SubscriptionScope};
use std::collections::BTreeSet;

impl Task<'_> {
    /// Returns the label of the thing below its parent.
    pub(super) fn label(&self) -> Label {
        self.request.id.last().unwrap_or_default()
    }

    /// Returns the full identifier.
    pub(super) fn full_id(&self) -> Id {
        self.request.prefix.child(self.label())
    }

    /// Returns whether a subscription to something missing is kept: the client repeats numbered
    /// requests only until they are answered.
    pub(super) const fn is_kept(&self) -> bool {
        self.request.number != 0
    }
}

/// Where a scope or item is, or would be.
pub(super) struct Place {
    pub(super) parent: Slot,
    pub(super) existing: Option<Slot>,
}

impl Rendezvous {
    /// Finds the place of a scope, and checks the rules that come first for all of them.
    pub(super) fn scope_place(&self, task: &Task<'_>) -> Result<Place, ReturnCode> {
        let place = self.place(task);
        if let Some(existing) = place.as_ref().and_then(|place| place.existing)
            && self.is_item(existing)
        {
            return Err(ReturnCode::ItemWithSameId);
        }
        let place = place.ok_or(ReturnCode::ParentMissing)?;
        let compared = if place.parent == ROOT { place.existing } else { Some(place.parent) };
        self.check_strategy(task, compared)?;
        Ok(place)
    }

    /// Returns `None` if the parent scope does not exist.
    pub(super) fn place(&self, task: &Task<'_>) -> Option<Place> {
        let parent = task.parent.filter(|parent| !self.is_item(*parent))?;
        Some(Place { parent, existing: self.graph.child(parent, task.label()) })
    }

    pub(super) fn check_strategy(
        &self,
        task: &Task<'_>,
        slot: Option<Slot>,
    ) -> Result<(), ReturnCode> {
        match slot {
            Some(slot) if self.graph.vertex(slot).strategy != task.strategy => {
                Err(ReturnCode::StrategyMismatch)
            }
            _ => Ok(()),
        }
    }

    /// Adds a vertex below a parent.
    pub(super) fn create(
        &mut self,
        task: &Task<'_>,
        parent: Slot,
        kind: VertexKind,
    ) -> Result<Slot, ReturnCode> {
        if task.request.prefix.len() >= LABELS_MAX {
            return Err(ReturnCode::LimitReached);
        }
        let options = options_of(task.request);
        let created = self.graph.insert(parent, task.label(), kind, task.strategy, options);
        created.ok_or(ReturnCode::LimitReached)
    }

    pub(super) fn publish_scope(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let place = self.scope_place(task)?;
        let client = self.client_for_use(task.client)?;
        if let Some(scope) = place.existing {
            return match self.graph.add_publisher(scope, place.parent, client) {
                true => Ok(()),
                false => Err(ReturnCode::Exists),
            };
        }
        let scope = self.create(task, place.parent, VertexKind::Scope)?;
        self.graph.add_publisher(scope, place.parent, client);
        self.emit_scope(true, scope, place.parent);
        Ok(())
    }

    /// Publishes an existing scope below another parent.
    pub(super) fn republish_scope(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        if task.request.prefix.is_empty() {
            return Err(ReturnCode::WrongIds);
        }
        let place = self.place(task);
        if place.as_ref().and_then(|p| p.existing).is_some_and(|slot| self.is_item(slot)) {
            return Err(ReturnCode::ItemWithSameId);
        }
        let place = place.ok_or(ReturnCode::ParentMissing)?;
        let source = self.graph.find(&task.request.id).filter(|slot| !self.is_item(*slot));
        let source = source.ok_or(ReturnCode::ScopeMissing)?;
        self.check_strategy(task, Some(place.parent))?;
        self.check_strategy(task, Some(source))?;
        let client = self.client_for_use(task.client)?;
        if let Some(existing) = place.existing {
            return match self.graph.add_publisher(existing, place.parent, client) {
                true => Ok(()),
                false => Err(ReturnCode::Exists),
            };
        }
        if self.graph.is_ancestor(source, place.parent) {
            return Err(ReturnCode::Cycle);
        }
        if self.graph.has_many_ids(source) || self.graph.has_many_ids(place.parent) {
            return Err(ReturnCode::LimitReached);
        }
        let items = self.published_items_below(source);
        let before: Vec<_> = items.iter().map(|item| self.effective_subscribers(*item)).collect();
        self.graph.add_parent(source, place.parent);
        self.graph.add_publisher(source, place.parent, client);
        self.emit_scope(true, source, place.parent);
        for (item, before) in items.into_iter().zip(before) {
            let delta = Delta { ids_changed: true, ..Delta::default() };
            self.emit_subscribers_since(item, &before, delta);
        }
        Ok(())
    }

    /// Returns the items with publishers anywhere below a scope.
    fn published_items_below(&self, scope: Slot) -> BTreeSet<Slot> {
        let (mut pending, mut seen) = (vec![scope], BTreeSet::new());
        while let Some(slot) = pending.pop() {
            let new: Vec<_> = self.graph.children(slot).filter(|c| seen.insert(*c)).collect();
            pending.extend(new);
        }
        let is_published =
            |slot: &Slot| self.is_item(*slot) && !self.graph.vertex(*slot).publishers.is_empty();
        seen.into_iter().filter(is_published).collect()
    }

    pub(super) fn unpublish_scope(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let (scope, parent, client) = self.member_scope(task)?;
        if !self.graph.vertex(scope).publishers.contains(&(parent, client)) {
            return Err(ReturnCode::NotMember);
        }
        for item in self.graph.children_of_kind(scope, VertexKind::Item) {
            self.withdraw_item_publisher(item, scope, client);
        }
        // The scope stays while it has this publisher.
        self.graph.remove_publisher(scope, parent, client);
        self.collapse_scope(scope, parent);
        Ok(())
    }

    /// Returns the scope of a request that ends something, its parent, and the client.
    fn member_scope(&self, task: &Task<'_>) -> Result<(Slot, Slot, ClientKey), ReturnCode> {
        let place = self.place(task).ok_or(ReturnCode::ScopeMissing)?;
        let scope = place.existing.filter(|slot| !self.is_item(*slot));
        let scope = scope.ok_or(ReturnCode::ScopeMissing)?;
        self.check_strategy(task, Some(scope))?;
        let client = self.graph.clients().find(task.client).ok_or(ReturnCode::NotMember)?;
        Ok((scope, place.parent, client))
    }

    pub(super) fn subscribe_scope(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let place = match self.scope_place(task) {
            Err(ReturnCode::ParentMissing) if task.is_kept() => {
                let (pattern, scope) = children_pattern(&task.full_id());
                return self.subscribe_pattern(task.client, &pattern, scope);
            }
            place => place?,
        };
        let client = self.client_for_use(task.client)?;
        let Some(scope) = place.existing else {
            let scope = self.create(task, place.parent, VertexKind::Scope)?;
            self.graph.add_subscriber(scope, place.parent, client);
            self.watch(task, scope, client);
            self.emit_scope(true, scope, place.parent);
            return Ok(());
        };
        let items = self.graph.children_of_kind(scope, VertexKind::Item);
        let new: Vec<Slot> =
            items.into_iter().filter(|item| !self.is_effective(*item, client)).collect();
        if !self.graph.add_subscriber(scope, place.parent, client) {
            return Err(ReturnCode::Exists);
        }
        self.watch(task, scope, client);
        for child in self.graph.children_of_kind(scope, VertexKind::Scope) {
            self.effects.push(Effect::Scope {
                published: true,
                strategy: self.graph.vertex(child).strategy,
                subscribers: vec![task.client],
                ids: self.graph.ids(child),
            });
        }
        for item in new {
            let delta = Delta { subscribers_joined: vec![client], ..Delta::default() };
            self.emit_change(item, delta);
        }
        Ok(())
    }

    /// Remembers that a subscriber asked for notices about publishers and subscribers.
    pub(super) fn watch(&mut self, task: &Task<'_>, slot: Slot, client: ClientKey) {
        if task.request.flags.has(RequestFlags::LIVELINESS) {
            self.watchers.entry(slot).or_default().insert(client);
        }
    }

    pub(super) fn unwatch(&mut self, slot: Slot, client: ClientKey) {
        if let Some(clients) = self.watchers.get_mut(&slot) {
            clients.remove(&client);
            if clients.is_empty() {
                self.watchers.remove(&slot);
            }
        }
    }

    pub(super) fn unsubscribe_scope(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let ended = self.member_scope(task).and_then(|(scope, parent, client)| {
            self.withdraw_scope_subscriber(scope, parent, client)
        });
        let (pattern, covered) = children_pattern(&task.full_id());
        ended.or_else(|code| self.end_kept_subscription(task, &pattern, covered, code))
    }

    /// Ends a subscription that was kept as a pattern, because its scope did not exist. Fails with
    /// `code` if there is none.
    pub(super) fn end_kept_subscription(
        &mut self,
        task: &Task<'_>,
        pattern: &Id,
        covered: SubscriptionScope,
        code: ReturnCode,
    ) -> Result<(), ReturnCode> {
        let client = self.graph.clients().find(task.client).filter(|_| task.is_kept());
        let client = client.ok_or(code)?;
        self.unsubscribe_pattern(client, pattern, covered).map_err(|_| code)
    }

    pub(super) fn withdraw_scope_subscriber(
        &mut self,
        scope: Slot,
        parent: Slot,
        client: ClientKey,
    ) -> Result<(), ReturnCode> {
        if !self.graph.remove_subscriber(scope, parent, client) {
            return Err(ReturnCode::NotMember);
        }
        self.unwatch(scope, client);
        if !self.graph.vertex(scope).has_subscriber(client) {
            for item in self.graph.children_of_kind(scope, VertexKind::Item) {
                if !self.is_effective(item, client) {
                    let delta = Delta { subscribers_left: vec![client], ..Delta::default() };
                    self.emit_change(item, delta);
                }
            }
        }
        self.collapse_scope(scope, parent);
        Ok(())
    }

    /// Removes a scope from its parent if it is empty and unused there, then the parent itself if
    /// that was its last content.
    pub(super) fn collapse_scope(&mut self, scope: Slot, parent: Slot) {
        let mut pending = vec![(scope, parent)];
        while let Some((scope, parent)) = pending.pop() {
            let is_there =
                self.graph.is_used(scope) && self.graph.vertex(scope).parents.contains(&parent);
            if !is_there
                || self.graph.has_children(scope)
                || self.graph.vertex(scope).is_used_under(parent)
            {
                continue;
            }
            self.emit_scope(false, scope, parent);
            self.graph.remove_parent(scope, parent);
            if !self.graph.is_used(scope) {
                self.watchers.remove(&scope);
            }
            pending.extend(self.unused_ways(parent));
        }
    }

    /// Returns a scope with each of its parents, if it may be removed now.
    pub(super) fn unused_ways(&self, scope: Slot) -> Vec<(Slot, Slot)> {
        let is_candidate = scope != ROOT && !self.graph.has_children(scope);
        let parents = self.graph.vertex(scope).parents.as_slice();
        parents.iter().filter(|_| is_candidate).map(|parent| (scope, *parent)).collect()
    }

    /// Notifies the subscribers of a scope about a scope directly below.
    fn emit_scope(&mut self, published: bool, scope: Slot, parent: Slot) {
        let subscribers = self.graph.vertex(parent).subscriber_clients();
        if subscribers.is_empty() {
            return;
        }
        self.effects.push(Effect::Scope {
            published,
            strategy: self.graph.vertex(scope).strategy,
            subscribers: self.labels(&subscribers),
            ids: self.graph.ids_below(scope, parent),
        });
    }
}

/// Returns the pattern that matches the direct children of a scope.
fn children_pattern(id: &Id) -> (Id, SubscriptionScope) {
    let wildcards = 1_u32.checked_shl(id.len() as u32).unwrap_or(0);
    (id.child(Label::default()), SubscriptionScope { wildcards, subtree: false })
}
