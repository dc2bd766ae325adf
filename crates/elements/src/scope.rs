//! Names that may not leave the machine, or the next hop.

use nw_name::NameRef;

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
            assert_eq!(NameScope::of(uri.parse::<Name>().unwrap().as_ref()), scope, "{uri}");
        }
    }
}
