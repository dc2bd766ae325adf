//! Names that may not leave the machine, or the next hop.

use nw_element_api::Meta;
use nw_name::{HashKey, Name, NameRef, Prefixes};

/// How far packets of a name may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameScope {
    /// Anywhere.
    Global,
    /// `/localhop`: one hop beyond the machine of its origin.
    Localhop,
    /// `/localhost`: nowhere beyond the machine.
    Localhost,
}

// Components as they are encoded: type 8, length, octets.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
const LOCALHOP: &[u8] = b"\x08\x08localhop";

impl NameScope {
    /// Of a name.
    #[inline]
    pub fn of(name: NameRef<'_>) -> Self {
        let bytes = name.as_bytes();
        if bytes.starts_with(LOCALHOST) {
            NameScope::Localhost
        } else if bytes.starts_with(LOCALHOP) {
            NameScope::Localhop
        } else {
            NameScope::Global
        }
    }
}

/// Finds scopes by the hash of the first component, which nearly always tells that a name has none.
#[derive(Clone, Copy, Debug)]
pub struct Scopes {
    localhost: u64,
    localhop: u64,
}

impl Scopes {
    /// For names hashed with `key`.
    pub fn new(key: &HashKey) -> Self {
        let hash = |component: &str| key.name(Name::new().with_generic(component).as_ref());
        Scopes { localhost: hash("localhost"), localhop: hash("localhop") }
    }

    /// The scope of a name, which is asked for where its hash does not tell.
    #[inline(always)]
    pub fn of<'a>(&self, name: impl FnOnce() -> NameRef<'a>, prefixes: &Prefixes) -> NameScope {
        let first = prefixes.hash(1);
        if first == self.localhost || first == self.localhop {
            NameScope::of(name())
        } else {
            NameScope::Global
        }
    }

    /// As [`of`](Self::of), also of a name that was not read yet.
    #[inline(always)]
    pub fn of_any<'a>(&self, name: impl FnOnce() -> NameRef<'a>, meta: &Meta) -> NameScope {
        if meta.name_unread { NameScope::of(name()) } else { self.of(name, &meta.prefixes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::Name;

    #[test]
    fn by_the_first_component_alone() {
        for (uri, scope) in [
            ("/localhost", NameScope::Localhost),
            ("/localhost/a", NameScope::Localhost),
            ("/localhop/a", NameScope::Localhop),
            ("/localhosts", NameScope::Global),
            ("/a/localhost", NameScope::Global),
            ("/32=localhost", NameScope::Global),
            ("/", NameScope::Global),
        ] {
            let (name, key) = (uri.parse::<Name>().unwrap(), HashKey::new([1, 2, 3, 4]));
            assert_eq!(NameScope::of(name.as_ref()), scope, "{uri}");
            let prefixes = Prefixes::of(&key, name.as_ref());
            assert_eq!(Scopes::new(&key).of(|| name.as_ref(), &prefixes), scope, "{uri}");
        }
    }
}
