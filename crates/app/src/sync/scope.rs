//! Names of a scope of publish/subscribe that is connected to a sync group.
//!
//! ```text
//! publish/subscribe                       group
//! /SCOPE/ITEM                 ───────▶    member /MEMBER/ITEM    (MEMBER: name of this end)
//! /SCOPE                      ───────▶    member /MEMBER
//! /SCOPE/@group/NAME          ◀───────    member /NAME
//! ```
//!
//! Invariant: an item that has the component `@group` anywhere is not passed to a group. So a
//! publication that came from a group enters no group again, whatever scopes, groups and domains
//! are connected, and in whichever order programs start.

use nw_api::pubsub::{ItemName, NameFault, ScopePattern};
use nw_name::{Component, ComponentType, Name};

/// Component of items whose publications came from a group.
pub(super) const MARK: &str = "@group";

/// A scope that is connected to a group.
#[derive(Clone, Debug)]
pub struct GroupScope {
    scope: ItemName,
    pattern: ScopePattern,
}

impl GroupScope {
    /// Creates the names of a scope.
    ///
    /// # Errors
    /// If the scope is too long for items below it.
    pub fn new(scope: ItemName) -> Result<Self, NameFault> {
        let pattern = format!("{scope}/**").parse()?;
        Ok(GroupScope { scope, pattern })
    }

    /// Returns the pattern of items that are passed to the group.
    pub const fn pattern(&self) -> &ScopePattern {
        &self.pattern
    }

    /// Returns what a publication of an item adds to the member's name. `None` if it came from a
    /// group. An item with another name that was published under the scope, too, has its last
    /// component.
    pub fn suffix_of(&self, item: &str) -> Option<Name> {
        if item.split('/').any(|component| component == MARK) {
            return None;
        }
        let below = match item.strip_prefix(self.scope.as_str()) {
            Some("") => return Some(Name::new()),
            Some(below) if below.starts_with('/') => below,
            _ => &item[item.rfind('/')?..],
        };
        Some(below.split('/').skip(1).fold(Name::new(), Name::with_generic))
    }

    /// Returns the item for publications of another member.
    ///
    /// # Errors
    /// If the member's name is too long for an item.
    pub fn item_of(&self, member: &Name) -> Result<ItemName, NameFault> {
        let mut text = format!("{}/{MARK}", self.scope);
        for component in member.as_ref().components() {
            text.push('/');
            text.push_str(&text_of(component));
        }
        text.parse()
    }
}

/// Returns a component as text: its own, if it is a text without characters that have a meaning in
/// names, else its URI. The two have no text in common.
fn text_of(component: Component<'_>) -> String {
    let is_plain = |text: &str| {
        let has_meaning = |c: char| c.is_control() || matches!(c, '/' | '%' | '=' | '*');
        !text.chars().any(has_meaning) && !text.chars().all(|c| c == '.')
    };
    match core::str::from_utf8(component.value()) {
        Ok(text) if component.typ() == ComponentType::GENERIC && is_plain(text) => text.to_owned(),
        _ => component.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(text: &str) -> GroupScope {
        GroupScope::new(text.parse().unwrap()).unwrap()
    }

    #[test]
    fn item_and_member_have_names_of_each_other() {
        let scope = scope("/chat/room1");
        let suffix = |item: &str| scope.suffix_of(item).map(|name| name.to_string());
        assert_eq!(suffix("/chat/room1/alice/phone").as_deref(), Some("/alice/phone"));
        assert_eq!(suffix("/chat/room1").as_deref(), Some("/"));
        assert_eq!(suffix("/chat/room10/x").as_deref(), Some("/x"), "published under the scope");
        let item = |member: &str| scope.item_of(&member.parse().unwrap()).unwrap().to_string();
        assert_eq!(item("/node1/alice"), "/chat/room1/@group/node1/alice");
    }

    #[test]
    fn publication_that_came_from_a_group_enters_none() {
        for text in ["/chat", "/chat/room1", "/chat/room1/@group/bob", "/other"] {
            assert_eq!(scope(text).suffix_of("/chat/room1/@group/bob"), None, "{text}");
        }
        let own = scope("/chat");
        let back = own.item_of(&"/n/%40group".parse().unwrap()).unwrap();
        assert_eq!(own.suffix_of(back.as_str()), None);
    }

    #[test]
    fn names_of_any_bytes_are_items_and_differ() {
        let scope = scope("/s");
        let values: [&[u8]; 10] =
            [b"", b".", b"...", b"a/b", b"%", b"*", b"**", b"8=0000000000000001", b"\xff", b"a"];
        let names = values.map(|value| Name::new().with(Component::generic(value)));
        let typed = Name::new().with(Component::keyword(b"a"));
        let texts = names.iter().chain([&typed]).map(|name| scope.item_of(name).unwrap());
        let texts: std::collections::BTreeSet<_> = texts.collect();
        assert_eq!(texts.len(), 11, "{texts:?}");
        let long = Name::new().with(Component::generic(&[b'x'; 300]));
        assert!(scope.item_of(&long).is_err());
    }
}
