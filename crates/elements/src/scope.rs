//! Names that must not leave the machine, or not go beyond the next hop.

use nw_element_api::Meta;
use nw_name::{HashKey, Name, NameRef, PrefixHashes};

/// How far packets of a name may be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameScope {
    /// Anywhere.
    Global,
    /// `/localhop`: one hop beyond the machine it comes from.
    Localhop,
    /// `/localhost`: not beyond the machine.
    Localhost,
}

// Encoded components: type 8, length, bytes.
const LOCALHOST: &[u8] = b"\x08\x09localhost";
const LOCALHOP: &[u8] = b"\x08\x08localhop";

impl NameScope {
    /// Returns the scope of a name.
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

/// Finds scopes by the hash of the first component, which nearly always shows that a name has none.
#[derive(Clone, Copy, Debug)]
pub struct Scopes {
    localhost: u64,
    localhop: u64,
}

impl Scopes {
    /// Creates the check for names hashed with `key`.
    pub fn new(key: &HashKey) -> Self {
        let hash = |component: &str| key.name(Name::new().with_generic(component).as_ref());
        Scopes { localhost: hash("localhost"), localhop: hash("localhop") }
    }

    /// Returns the scope of a name. `name` is called only if the hash of the first component
    /// matches.
    #[inline(always)]
    pub fn of<'a>(&self, name: impl FnOnce() -> NameRef<'a>, prefixes: &PrefixHashes) -> NameScope {
        let first = prefixes.hash(1);
        if first == self.localhost || first == self.localhop {
            NameScope::of(name())
        } else {
            NameScope::Global
        }
    }

    /// As [`of`](Self::of), also for packets with a deferred name.
    #[inline(always)]
    pub fn of_packet<'a>(&self, name: impl FnOnce() -> NameRef<'a>, meta: &Meta) -> NameScope {
        if meta.name_deferred { NameScope::of(name()) } else { self.of(name, &meta.prefixes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::Name;

    #[test]
    fn scope_depends_on_first_component_only() {
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
            let prefixes = PrefixHashes::of(&key, name.as_ref());
            assert_eq!(Scopes::new(&key).of(|| name.as_ref(), &prefixes), scope, "{uri}");
        }
    }
}
