//! Identifiers of Blackadder as names of items, and back.
//!
//! Invariant: all nodes with the same list of names agree. A label whose text is in the list is
//! that text; any other one is `8=` and 16 hexadecimal digits. The label of a text is the one that
//! programs of Blackadder compute: FNV-1a, 64 bits.

use core::fmt::Write;
use nw_api::pubsub::name::COMPONENTS_MAX;
use nw_api::pubsub::{ItemName, NameFault, ScopePattern};
use nw_pubsub::names::fnv_label;
use nw_wire::publication::{Id, Label};
use std::collections::BTreeMap;

/// The texts of labels.
#[derive(Debug, Default)]
pub struct Names {
    texts: BTreeMap<Label, Box<str>>,
}

impl Names {
    /// Reads the names whose components are texts of labels.
    ///
    /// # Errors
    /// A sentence about the first one that is not a name, or has the label of another text.
    pub fn parse(names: &[String]) -> Result<Self, String> {
        let mut texts = BTreeMap::new();
        for text in names {
            let name: ItemName =
                text.parse().map_err(|fault: NameFault| format!("{text:?}: {fault}"))?;
            for component in name.as_str()[1..].split('/').filter(|text| raw(text).is_none()) {
                let known: &mut Box<str> =
                    texts.entry(fnv_label(component)).or_insert_with(|| component.into());
                if **known != *component {
                    return Err(format!("{component:?} and {known:?} have the same label"));
                }
            }
        }
        Ok(Names { texts })
    }

    fn text(&self, labels: impl Iterator<Item = Label>) -> String {
        let mut text = String::new();
        for label in labels {
            // Writing to a string does not fail.
            let _ = match self.texts.get(&label) {
                Some(component) => write!(text, "/{component}"),
                None => write!(text, "/8={label}"),
            };
        }
        text
    }

    /// Returns the name of an identifier. `None` if it has no label, or too many for a name.
    pub fn name_of(&self, id: &Id) -> Option<ItemName> {
        self.name_of_labels(id.labels().iter().copied())
    }

    /// Returns what [`name_of`](Self::name_of) does for the labels of an identifier in a packet.
    pub fn name_of_labels(&self, labels: impl ExactSizeIterator<Item = Label>) -> Option<ItemName> {
        let is_short = labels.len() <= COMPONENTS_MAX;
        is_short.then(|| self.text(labels).parse().ok())?
    }

    /// Returns the pattern of all that is directly below a scope. `None` if names can't be as long.
    pub fn below(&self, scope: &Id) -> Option<ScopePattern> {
        format!("{}/*", self.text(scope.labels().iter().copied())).parse().ok()
    }

    /// Returns the pattern of all that is anywhere below a scope. `None` as for
    /// [`name_of`](Self::name_of), or if no pattern is as long.
    pub fn all_below(&self, scope: &Id) -> Option<ScopePattern> {
        format!("{}/**", self.name_of(scope)?).parse().ok()
    }

    /// Returns the identifier of a name.
    pub fn id_of(&self, name: &str) -> Id {
        let components = name.split('/').filter(|component| !component.is_empty());
        Id::new(components.map(|text| raw(text).unwrap_or_else(|| fnv_label(text))).collect())
    }
}

/// Returns the label that a component stands for by its digits.
fn raw(component: &str) -> Option<Label> {
    let digits = component.strip_prefix("8=")?;
    let is_label = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_label.then(|| u64::from_str_radix(digits, 16).ok().map(Label::from_number))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifier_returns_from_its_name() {
        let names = Names::parse(&["/sensors/room1".into(), "/sensors/room2".into()]).unwrap();
        let sensors = fnv_label("sensors");
        let id = Id::new(vec![sensors, Label::from_number(0x2222)]);
        let name = names.name_of(&id).unwrap();
        assert_eq!(name.as_str(), "/sensors/8=0000000000002222");
        assert_eq!(names.id_of(name.as_str()), id);
        assert_eq!(names.id_of("/sensors/unlisted").labels()[1], fnv_label("unlisted"));
        assert_eq!(names.below(&id).unwrap().as_str(), "/sensors/8=0000000000002222/*");
        assert_eq!(names.name_of(&Id::default()), None);
        let deep = Id::new(vec![sensors; 32]);
        assert!(names.name_of(&deep).is_some() && names.below(&deep).is_none());
        assert!(names.name_of(&Id::new(vec![sensors; 33])).is_none());
        assert!(Names::parse(&["sensors".into()]).is_err());
    }
}
