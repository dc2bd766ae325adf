//! Named rules: who may do what, where, about which prefixes.

use crate::chain::Sets;
use crate::pattern::Pattern;
use nw_name::NameRef;

/// Faces that a rule speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those of this machine.
    Local,
    /// Those to other machines.
    Remote,
    /// All.
    Both,
}

impl Side {
    /// True for a face that is local, or is not.
    pub const fn includes(self, local: bool) -> bool {
        match self {
            Side::Local => local,
            Side::Remote => !local,
            Side::Both => true,
        }
    }
}

/// Something that may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Privilege {
    /// `faces/…`
    Faces = 1,
    /// `fib/…`
    Fib = 2,
    /// `rib/…`
    Rib = 4,
    /// `cs/…`
    Cs = 8,
    /// `strategy-choice/…`
    StrategyChoice = 16,
    /// What is ours and no other router's.
    Nw = 32,
    /// To sign prefix announcements.
    Announce = 64,
}

impl Privilege {
    /// What commands of a module need.
    pub fn of_module(module: &str) -> Self {
        match module {
            "faces" => Privilege::Faces,
            "fib" => Privilege::Fib,
            "rib" => Privilege::Rib,
            "cs" => Privilege::Cs,
            "strategy-choice" => Privilege::StrategyChoice,
            _ => Privilege::Nw,
        }
    }
}

/// Several privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u8);

impl Privileges {
    /// True when it is among them.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege as u8 != 0
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<T: IntoIterator<Item = Privilege>>(privileges: T) -> Self {
        Privileges(privileges.into_iter().fold(0, |all, privilege| all | privilege as u8))
    }
}

/// A rule. What no rule allows is not allowed.
#[derive(Clone, Debug)]
pub struct Allow {
    /// What logs call it.
    pub id: String,
    /// From where.
    pub side: Side,
    /// Sets of anchors that the signer's chain may lead to; `None`: any signer will do, unverified, a digest too.
    pub anchors: Option<Sets>,
    /// What the signer's key name looks like; `None`: anything.
    pub signer: Option<Pattern>,
    /// What.
    pub privileges: Privileges,
    /// About which prefixes, for commands that are about one. Its variables are those of `signer`.
    pub prefix: Pattern,
}

impl Allow {
    /// True when it is about commands such as this.
    pub fn covers(&self, local: bool, privilege: Privilege) -> bool {
        self.side.includes(local) && self.privileges.contains(privilege)
    }

    /// True when this signer (the key's name; `None` for a digest) may do it to that prefix.
    pub fn fits(&self, signer: Option<NameRef<'_>>, prefix: Option<NameRef<'_>>) -> bool {
        match (&self.signer, signer, prefix) {
            (Some(pattern), Some(signer), Some(prefix)) => pattern.matches_with(signer, &self.prefix, prefix),
            (Some(pattern), Some(signer), None) => pattern.matches(signer),
            (Some(_), None, _) => false,
            (None, _, Some(prefix)) => self.prefix.matches(prefix),
            (None, _, None) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_name::Name;

    #[test]
    fn privileges_are_by_module() {
        let some: Privileges = [Privilege::Rib, Privilege::Nw].into_iter().collect();
        for (module, is) in [
            ("rib", true),
            ("fib", false),
            ("faces", false),
            ("cs", false),
            ("strategy-choice", false),
            ("log", true),
        ] {
            assert_eq!(some.contains(Privilege::of_module(module)), is, "{module}");
        }
        assert!(!some.contains(Privilege::Announce));
    }

    #[test]
    fn sides() {
        assert!(Side::Local.includes(true) && !Side::Local.includes(false));
        assert!(Side::Remote.includes(false) && !Side::Remote.includes(true));
        assert!(Side::Both.includes(false) && Side::Both.includes(true));
    }

    #[test]
    fn a_signer_has_its_own_prefix() {
        let rule = Allow {
            id: "own".into(),
            side: Side::Remote,
            anchors: Some(1),
            signer: Some("/site/<who>/KEY/<_>".parse().unwrap()),
            privileges: [Privilege::Rib].into_iter().collect(),
            prefix: "/site/<who>/<..>".parse().unwrap(),
        };
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        let (alice, own, other) = (name("/site/alice/KEY/1"), name("/site/alice/x"), name("/site/bob/x"));
        assert!(rule.fits(Some(alice.as_ref()), Some(own.as_ref())));
        assert!(!rule.fits(Some(alice.as_ref()), Some(other.as_ref())));
        assert!(rule.fits(Some(alice.as_ref()), None));
        assert!(!rule.fits(None, Some(own.as_ref())), "a digest is nobody");
        assert!(rule.covers(false, Privilege::Rib) && !rule.covers(true, Privilege::Rib));
        assert!(!rule.covers(false, Privilege::Faces));
    }
}
