//! Requests of a publisher about scopes: strategies, further parents, implicit rendezvous.

use super::connection::PubSubError;
use super::publisher::{ItemNumber, Publisher};
use super::scope::Scope;
use nw_api::pubsub::{ImplicitRoute, ItemName, Request, Strategy};

impl Publisher {
    /// Publishes a scope until this publisher ends. Items announced below it have its strategy;
    /// `None` is that of the scope above.
    ///
    /// # Errors
    /// If the node refuses it: a scope above, or an item below, has another strategy; or the
    /// connection is lost.
    pub fn publish_scope(
        &mut self,
        scope: &Scope,
        strategy: Option<Strategy>,
    ) -> Result<(), PubSubError> {
        let name = scope.name().to_string();
        self.request(|request| Request::PublishScope { request, strategy, name })
    }

    /// Withdraws a scope, and the parents that this publisher gave it. Items below it stay.
    ///
    /// # Errors
    /// If this publisher has not published it, or the connection is lost.
    pub fn withdraw_scope(&mut self, scope: &Scope) -> Result<(), PubSubError> {
        let name = scope.name().to_string();
        self.request(|request| Request::UnpublishScope { request, name })
    }

    /// Publishes an existing scope, or an item of this publisher, under a further scope.
    /// Subscribers of that scope receive publications once, under the announced name.
    ///
    /// # Errors
    /// If the node refuses it: there is no such scope or item, it would be below itself, or the
    /// strategies differ; or the connection is lost.
    pub fn add_parent(&mut self, name: &ItemName, parent: &Scope) -> Result<(), PubSubError> {
        let (name, parent) = (name.to_string(), parent.name().to_string());
        self.request(|request| Request::AddParent { request, name, parent })
    }

    /// Ends what [`add_parent`](Self::add_parent) did. Other parents stay.
    ///
    /// # Errors
    /// If this publisher did not, or the connection is lost.
    pub fn remove_parent(&mut self, name: &ItemName, parent: &Scope) -> Result<(), PubSubError> {
        let (name, parent) = (name.to_string(), parent.name().to_string());
        self.request(|request| Request::RemoveParent { request, name, parent })
    }

    /// Sets where the publications of an item with [`Strategy::Implicit`] go: no node matches names
    /// for it. Subscribers at the other end need
    /// [`subscribe_here`](super::Subscriber::subscribe_here).
    ///
    /// # Errors
    /// If the item has another strategy, the node has no domain, a rule forbids it, or the
    /// connection is lost.
    pub fn set_route(&mut self, item: ItemNumber, route: ImplicitRoute) -> Result<(), PubSubError> {
        self.request(|request| Request::Route { request, item, route })
    }
}
