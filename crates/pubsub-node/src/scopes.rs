//! Scopes: their strategies and further parents.
//!
//! A scope is a path that items are below; nothing has to be published for it. An application may
//! publish a scope to give it a strategy, which items below it inherit, and may publish scopes and
//! its items under further scopes. Strategies and further parents are in this node's link-state
//! record, so that all nodes treat items below a scope alike and find the same names; parents of
//! what stays on this node are not. Invariants: all that an application did ends with its
//! connection, but an item keeps the strategy that a scope gave it; of two strategies that nodes
//! gave a scope at the same time, that of the lowest node counts everywhere; a further name of an
//! item counts only where its publisher may publish it and no signature is wanted that is not
//! wanted for the announced name.

use crate::domain::NodeId;
use crate::matching::Refusal;
use crate::node::Node;
use crate::publisher::{Item, Origin};
use crate::rules::Party;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::status::ScopeStatus;
use nw_api::pubsub::{ItemName, Reply, Strategy};
use nw_pubsub::parents::{ParentError, Parents, is_below};
use std::collections::{BTreeMap, BTreeSet};

/// Published scopes at most.
const SCOPES_MAX: usize = 4096;

#[derive(Debug)]
struct Scope {
    strategy: Option<Strategy>,
    sessions: BTreeSet<SessionId>,
}

/// The scopes that applications of this node published, and all further parents.
#[derive(Debug, Default)]
pub struct Scopes {
    published: BTreeMap<ItemName, Scope>,
    /// Strategies of scopes, of this node and of the others.
    strategies: BTreeMap<ItemName, Strategy>,
    /// Child and parent, and the connections that put the one under the other.
    links: BTreeMap<(ItemName, ItemName), BTreeSet<SessionId>>,
    /// Further parents of this node and of the others.
    parents: Parents,
}

impl Scopes {
    /// Returns the strategy of a scope: its own, or that of the nearest scope above that has one.
    fn strategy(&self, scope: &ItemName) -> Option<Strategy> {
        let own = self.strategies.get(scope).copied();
        own.or_else(|| self.inherited(scope))
    }

    /// Returns the strategy that something below its scopes inherits.
    fn inherited(&self, name: &ItemName) -> Option<Strategy> {
        if self.strategies.is_empty() {
            return None;
        }
        let plain: Option<ItemName> = name.path().and_then(|_| name.plain().parse().ok());
        let mut scopes = plain.as_ref().unwrap_or(name).scopes();
        scopes.find_map(|scope| self.strategies.get(&scope).copied())
    }
}

fn refuse<T>(reply: Reply, text: impl Into<String>) -> Result<T, Refusal> {
    Err((reply, text.into()))
}

fn parse(text: &str) -> Result<ItemName, Refusal> {
    text.parse().map_err(|fault| (Reply::InvalidName, format!("{fault}")))
}

/// Returns a refusal if a strategy differs from the one that a scope above has.
fn check(wanted: Strategy, above: Option<Strategy>, name: &ItemName) -> Result<(), Refusal> {
    match above {
        Some(above) if above != wanted => refuse(
            Reply::Mismatch,
            format!("{name} is in a scope with the strategy {above}, not {wanted}"),
        ),
        _ => Ok(()),
    }
}

impl Node {
    /// Returns the strategy of a new item: the one it asks for, or that of its scope.
    pub(crate) fn item_strategy(
        &self,
        name: &ItemName,
        wanted: Option<Strategy>,
    ) -> Result<Strategy, Refusal> {
        let above = self.scopes.inherited(name);
        if let Some(wanted) = wanted {
            check(wanted, above, name)?;
        }
        Ok(wanted.or(above).unwrap_or_default())
    }

    /// Publishes a scope.
    pub(crate) fn publish_scope(
        &mut self,
        id: SessionId,
        strategy: Option<Strategy>,
        name: &str,
    ) -> Result<(), Refusal> {
        let name = parse(name)?;
        self.check_may_publish(id, &name)?;
        let above = self.scopes.inherited(&name);
        if let Some(strategy) = strategy {
            check(strategy, above, &name)?;
            let own = self.publishers.values().filter(|p| p.origin == Origin::Application);
            let asking = own.flat_map(|p| p.items.values()).filter(|item| item.has_own_strategy);
            let mut below = asking.filter(|item| is_below(item.name.as_str(), name.as_str()));
            if let Some(other) = below.find(|item| item.strategy != strategy) {
                let text = format!("{} below it has another: publish the scope first", other.name);
                return refuse(Reply::Mismatch, text);
            }
        }
        let own = self.scopes.published.values().filter(|scope| scope.sessions.contains(&id));
        let is_full = own.count() >= self.config.items_per_application as usize;
        if is_full || self.scopes.published.len() >= SCOPES_MAX {
            return refuse(Reply::Full, "too many scopes are published: withdraw some");
        }
        let given = self.scopes.strategies.get(&name).copied();
        if given.is_some() && strategy.is_some() && given != strategy {
            return refuse(Reply::Mismatch, format!("{name} is published with another strategy"));
        }
        let new = || Scope { strategy, sessions: BTreeSet::new() };
        let scope = self.scopes.published.entry(name.clone()).or_insert_with(new);
        if strategy.is_some() && scope.strategy != strategy {
            return refuse(Reply::Mismatch, format!("{name} is published with another strategy"));
        }
        match scope.sessions.insert(id) {
            true => {
                self.tell_strategies();
                Ok(())
            }
            false => refuse(Reply::Exists, format!("this application publishes {name} already")),
        }
    }

    /// Ends an application's publication of a scope, with the parents that it gave it.
    pub(crate) fn unpublish_scope(&mut self, id: SessionId, name: &str) -> Result<(), Refusal> {
        let name = parse(name)?;
        let Some(scope) = self.scopes.published.get_mut(&name) else {
            return refuse(Reply::Missing, format!("the scope {name} is not published"));
        };
        if !scope.sessions.remove(&id) {
            return refuse(Reply::Missing, format!("this application does not publish {name}"));
        }
        if scope.sessions.is_empty() {
            self.scopes.published.remove(&name);
            self.tell_strategies();
        }
        self.end_links(id, |(child, _)| *child == name);
        Ok(())
    }

    /// Publishes a scope, or an item of the application, under a further scope.
    pub(crate) fn add_parent(
        &mut self,
        id: SessionId,
        name: &str,
        parent: &str,
    ) -> Result<(), Refusal> {
        let (name, parent) = (parse(name)?, parse(parent)?);
        let new = name.under(&parent).map_err(|fault| (Reply::InvalidName, fault.to_string()))?;
        self.check_may_publish(id, &new)?;
        let own = self.own_item(id, &name).map(|item| item.strategy);
        let strategy = match own {
            Some(strategy) => strategy,
            None if self.is_scope(&name) => self.scopes.strategy(&name).unwrap_or_default(),
            None => {
                let text = format!("neither a scope nor an item of this application is {name}");
                return refuse(Reply::Missing, text);
            }
        };
        check(strategy, self.scopes.strategy(&parent), &new)?;
        let is_new = match self.scopes.parents.insert(name.as_str(), parent.as_str()) {
            Ok(is_new) => is_new,
            Err(error @ ParentError::Cycle) => return refuse(Reply::Mismatch, error.to_string()),
            Err(error @ ParentError::Full) => return refuse(Reply::Full, error.to_string()),
        };
        if !self.scopes.links.entry((name.clone(), parent)).or_default().insert(id) {
            return refuse(Reply::Exists, "this application did so already");
        }
        self.tell_links();
        if is_new {
            self.rename_items(&BTreeSet::from([name.as_str()]), None);
        }
        Ok(())
    }

    /// Ends what `add_parent` did.
    pub(crate) fn remove_parent(
        &mut self,
        id: SessionId,
        name: &str,
        parent: &str,
    ) -> Result<(), Refusal> {
        let link = (parse(name)?, parse(parent)?);
        let sessions = self.scopes.links.get(&link);
        if !sessions.is_some_and(|sessions| sessions.contains(&id)) {
            let text = format!("this application did not publish {} under {}", link.0, link.1);
            return refuse(Reply::Missing, text);
        }
        self.end_links(id, |other| *other == link);
        Ok(())
    }

    /// Ends the scopes and further parents of a connection that has ended.
    pub(crate) fn end_scopes(&mut self, id: SessionId) {
        self.scopes.published.retain(|_, scope| {
            scope.sessions.remove(&id);
            !scope.sessions.is_empty()
        });
        self.tell_strategies();
        self.end_links(id, |_| true);
    }

    /// Ends a connection's further parents of an item that has ended.
    pub(crate) fn end_item_links(&mut self, id: SessionId, name: &ItemName) {
        if !self.scopes.links.is_empty() {
            self.end_links(id, |(child, _)| child == name);
        }
    }

    fn end_links(&mut self, id: SessionId, is_ended: impl Fn(&(ItemName, ItemName)) -> bool) {
        let before = self.scopes.links.len();
        self.scopes.links.retain(|link, sessions| {
            if is_ended(link) {
                sessions.remove(&id);
            }
            !sessions.is_empty()
        });
        if self.scopes.links.len() != before {
            self.tell_links();
            self.update_parents();
        }
    }

    fn check_may_publish(&self, id: SessionId, name: &ItemName) -> Result<(), Refusal> {
        let party = self.sessions.get(&id).map_or(Party::Remote, |session| session.party());
        match self.rules.may_publish(self.rules.find(name), party) {
            true => Ok(()),
            false => refuse(Reply::Forbidden, format!("a pubsub_rule forbids publishing {name}")),
        }
    }

    fn own_item(&self, id: PublisherId, name: &ItemName) -> Option<&Item> {
        let number = self.announced(id, name)?;
        self.publishers.get(&id)?.items.get(&number)
    }

    fn is_scope(&self, name: &ItemName) -> bool {
        self.scopes.published.contains_key(name) || self.index.has_below(name)
    }

    /// Tells the domain the parents that applications of this node gave, but for what stays here.
    fn tell_links(&mut self) {
        if self.domain.is_none() {
            return;
        }
        let is_told = |(child, _): &&(ItemName, ItemName)| {
            let mut items = self.index.named(child).filter_map(|(id, number)| {
                self.publishers.get(&id).and_then(|publisher| publisher.items.get(&number))
            });
            let item = items.find(|item| item.name == *child).map(|item| item.strategy);
            item.or_else(|| self.scopes.strategy(child)) != Some(Strategy::NodeLocal)
        };
        let links: Vec<_> = self.scopes.links.keys().filter(is_told).cloned().collect();
        if let Some(domain) = &mut self.domain {
            domain.set_links(links);
        }
    }

    /// Tells the domain the strategies that applications of this node gave.
    fn tell_strategies(&mut self) {
        let published = self.scopes.published.iter();
        let own = published.filter_map(|(name, scope)| Some((name.clone(), scope.strategy?)));
        let own: Vec<(ItemName, Strategy)> = own.collect();
        if let Some(domain) = &mut self.domain {
            domain.set_strategies(own);
        }
        self.update_strategies();
    }

    /// Joins the strategies of all nodes, and gives them to the items that asked for none.
    pub(crate) fn update_strategies(&mut self) {
        let own_node = self.domain.as_ref().map(|domain| domain.node());
        let mut given: BTreeMap<ItemName, (Option<NodeId>, Strategy)> = BTreeMap::new();
        for (name, scope) in &self.scopes.published {
            if let Some(strategy) = scope.strategy {
                given.insert(name.clone(), (own_node, strategy));
            }
        }
        for (node, (name, strategy)) in self.domain.iter().flat_map(|domain| domain.strategies()) {
            let may = self.rules.may_publish(self.rules.find(name), Party::Remote);
            let is_lower = given.get(name).is_none_or(|(other, _)| Some(node) < *other);
            if may && is_lower && (given.len() < SCOPES_MAX || given.contains_key(name)) {
                given.insert(name.clone(), (Some(node), *strategy));
            }
        }
        let strategies = given.into_iter().map(|(name, (_, strategy))| (name, strategy)).collect();
        if self.scopes.strategies == strategies {
            return;
        }
        self.scopes.strategies = strategies;
        self.change_strategies();
    }

    /// Gives items that asked for no strategy the one of their scope, if it has one.
    fn change_strategies(&mut self) {
        let mut changed = Vec::new();
        for (id, publisher) in &mut self.publishers {
            let own = publisher.origin == Origin::Application;
            for (number, item) in publisher.items.iter_mut().filter(|_| own) {
                let inherited = self.scopes.inherited(&item.name);
                if let Some(strategy) = inherited
                    && !item.has_own_strategy
                    && item.strategy != strategy
                {
                    item.strategy = strategy;
                    changed.push((*id, *number));
                }
            }
        }
        if changed.is_empty() {
            return;
        }
        for (id, number) in changed {
            let item = self.publishers.get(&id).and_then(|found| found.items.get(&number));
            match item.filter(|item| item.choice.is_some()).map(|item| item.name.clone()) {
                Some(name) => self.update_item_serving(&name),
                None => self.update_nodes(id, number),
            }
        }
        self.tell_links();
    }

    /// Joins the further parents of all nodes, and gives items their names again if they changed.
    pub(crate) fn update_parents(&mut self) {
        let mut parents = Parents::default();
        for (child, parent) in self.scopes.links.keys() {
            parents.insert_unchecked(child.as_str(), parent.as_str());
        }
        for (child, parent) in self.domain.iter().flat_map(|domain| domain.links()) {
            let new = child.under(parent);
            let may = |new: &ItemName| self.rules.may_publish(self.rules.find(new), Party::Remote);
            if new.is_ok_and(|new| may(&new)) {
                parents.insert_unchecked(child.as_str(), parent.as_str());
            }
        }
        if parents != self.scopes.parents {
            let before = core::mem::replace(&mut self.scopes.parents, parents);
            let after = self.scopes.parents.clone();
            self.rename_items(&after.changed_children(&before), Some(&before));
        }
    }

    /// Returns the further names of an item.
    pub(crate) fn further_names(
        &self,
        id: PublisherId,
        name: &ItemName,
        rule: Option<usize>,
    ) -> Vec<ItemName> {
        if self.scopes.parents.is_empty() {
            return Vec::new();
        }
        let party = self.sessions.get(&id).map_or(Party::Remote, |session| session.party());
        let names = self.scopes.parents.names(name.plain()).into_iter().skip(1);
        let names = names.filter_map(|plain| name.beside(&plain).ok());
        names
            .filter(|name| {
                let other = self.rules.find(name);
                let is_as_safe = other == rule || !self.rules.wants_signature(other);
                is_as_safe && self.rules.may_publish(other, party)
            })
            .collect()
    }

    /// Gives items their further names after the parents of `changed` scopes and items changed,
    /// and attaches and detaches subscribers accordingly. `before`: the parents, if some are gone.
    fn rename_items(&mut self, changed: &BTreeSet<&str>, before: Option<&Parents>) {
        if let Some(domain) = &mut self.domain {
            domain.set_parents(self.scopes.parents.clone());
        }
        let tables = || core::iter::once(&self.scopes.parents).chain(before);
        let concerns_others = |scope: &str| tables().any(|parents| parents.lead_to(scope));
        let concerned: BTreeSet<(PublisherId, u32)> =
            match changed.iter().any(|scope| concerns_others(scope)) {
                true => self
                    .publishers
                    .iter()
                    .flat_map(|(id, publisher)| publisher.items.keys().map(|number| (*id, *number)))
                    .collect(),
                false => changed.iter().flat_map(|scope| self.items_below(scope)).collect(),
            };
        for (id, number) in concerned {
            let item = self.publishers.get(&id).and_then(|found| found.items.get(&number));
            let Some(item) = item else { continue };
            let further = self.further_names(id, &item.name, item.rule);
            if further != item.further {
                self.rename_item(id, number, further);
            }
        }
    }

    /// Returns the items with this name, or below it.
    fn items_below(&self, scope: &str) -> Vec<(PublisherId, u32)> {
        match format!("{scope}/**").parse() {
            Ok(pattern) => self.index.matching(&pattern),
            // A name with as many components as there can be.
            Err(_) => {
                let name = scope.parse::<ItemName>();
                name.iter().flat_map(|name| self.index.named(name)).collect()
            }
        }
    }

    fn rename_item(&mut self, id: PublisherId, number: u32, further: Vec<ItemName>) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(item) = publisher.items.get_mut(&number) else { return };
        let before = core::mem::replace(&mut item.further, further.clone());
        before.iter().for_each(|name| self.index.remove_alias(name, id, number));
        further.iter().for_each(|name| self.index.insert_alias(name.clone(), id, number));
        let attached: Vec<SessionId> = item.subscribers.keys().copied().collect();
        for session in attached {
            if self.wanted_history(session, id, number).is_none() {
                self.detach(id, number, session);
            }
        }
        let wanting: BTreeSet<SessionId> =
            further.iter().flat_map(|name| self.index.subscribers(name)).collect();
        for session in wanting {
            let history = self.wanted_history(session, id, number).unwrap_or(0);
            if session != id {
                self.attach(id, number, session, history);
            }
        }
        self.update_nodes(id, number);
    }

    /// Returns how many earlier publications of an item a connection wants; `None` if it does not
    /// subscribe to any of its names.
    pub(crate) fn wanted_history(
        &self,
        session: SessionId,
        id: PublisherId,
        number: u32,
    ) -> Option<u32> {
        let item = self.publishers.get(&id)?.items.get(&number)?;
        self.sessions.get(&session)?.matches_item(item)
    }

    /// Returns the scopes for the status.
    pub(crate) fn scope_status(&self) -> Vec<ScopeStatus> {
        let mut all: BTreeMap<&str, ScopeStatus> = BTreeMap::new();
        for name in self.scopes.published.keys() {
            all.entry(name.as_str()).or_default();
        }
        for (name, strategy) in &self.scopes.strategies {
            all.entry(name.as_str()).or_default().strategy = strategy.to_string();
        }
        for (child, parent) in self.scopes.parents.iter() {
            all.entry(child).or_default().parents.push(parent.to_owned());
        }
        let named =
            |(name, status): (&str, ScopeStatus)| ScopeStatus { name: name.into(), ..status };
        all.into_iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests;
