//! A scope: a path below which items and further scopes have their names.

use nw_api::pubsub::{ItemName, NameFault, ScopePattern};

/// A scope, such as `/sensors/room1`.
///
/// ```
/// use nw_app::pubsub::Scope;
///
/// let room: Scope = Scope::new("/sensors")?.scope("room1")?;
/// assert_eq!(room.item("temperature")?.as_str(), "/sensors/room1/temperature");
/// assert_eq!(room.all().as_str(), "/sensors/room1/**");
/// # Ok::<(), nw_api::pubsub::NameFault>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope(ItemName);

impl From<ItemName> for Scope {
    fn from(name: ItemName) -> Self {
        Scope(name)
    }
}

impl Scope {
    /// Returns the scope at a path.
    ///
    /// # Errors
    /// If the path is not a name.
    pub fn new(path: &str) -> Result<Self, NameFault> {
        path.parse().map(Scope)
    }

    /// Returns the scope at a path below this one.
    ///
    /// # Errors
    /// If the whole is not a name.
    pub fn scope(&self, path: &str) -> Result<Self, NameFault> {
        self.item(path).map(Scope)
    }

    /// Returns the scope's name.
    pub const fn name(&self) -> &ItemName {
        &self.0
    }

    /// Returns the name of an item below this scope.
    ///
    /// # Errors
    /// If the whole is not a name.
    pub fn item(&self, path: &str) -> Result<ItemName, NameFault> {
        format!("{}/{path}", self.0).parse()
    }

    /// Returns the pattern of all items below this scope.
    pub fn all(&self) -> ScopePattern {
        let pattern = format!("{}/**", self.0).parse();
        pattern.unwrap_or_else(|_| unreachable!("a name and ** are a pattern"))
    }
}
