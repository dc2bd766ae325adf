//! Named authorization rules: which signers have which privileges for which prefixes.

use crate::chain::AnchorSet;
use crate::pattern::Pattern;
use nw_name::NameRef;

/// The faces that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaceScope {
    /// Faces to applications on this machine.
    Local,
    /// Faces to other machines.
    Remote,
    /// All faces.
    Both,
}

impl FaceScope {
    /// Returns whether the rule applies to a face that is local or not.
    pub const fn includes(self, local: bool) -> bool {
        match self {
            FaceScope::Local => local,
            FaceScope::Remote => !local,
            FaceScope::Both => true,
        }
    }
}

/// A privilege that rules grant.
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
    /// All modules that only this router has.
    Nw = 32,
    /// Signing prefix announcements.
    Announce = 64,
}

impl Privilege {
    /// Returns the privilege needed for commands of a management module.
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

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u8);

impl Privileges {
    /// Returns whether the set contains the privilege.
    pub const fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege as u8 != 0
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<T: IntoIterator<Item = Privilege>>(privileges: T) -> Self {
        Privileges(privileges.into_iter().fold(0, |all, privilege| all | privilege as u8))
    }
}

/// A rule that allows something. Whatever no rule allows is refused.
#[derive(Clone, Debug)]
pub struct AllowRule {
    /// The rule's name in logs.
    pub id: String,
    /// The faces it applies to.
    pub scope: FaceScope,
    /// The anchor sets that the signer's chain must lead to. `None`: any signer is accepted without
    /// verification, including a digest.
    pub anchors: Option<AnchorSet>,
    /// The pattern for the signer's key name. `None`: any name.
    pub signer: Option<Pattern>,
    /// The privileges granted.
    pub privileges: Privileges,
    /// The pattern for the prefix, for commands about one. It may use the variables of `signer`.
    pub prefix: Pattern,
}

impl AllowRule {
    /// Returns whether the rule applies to commands from such a face that need the privilege.
    pub fn covers(&self, local: bool, privilege: Privilege) -> bool {
        self.scope.includes(local) && self.privileges.contains(privilege)
    }

    /// Returns whether the signer (key name; `None` for a digest) may act on the prefix.
    pub fn fits(&self, signer: Option<NameRef<'_>>, prefix: Option<NameRef<'_>>) -> bool {
        match (&self.signer, signer, prefix) {
            (Some(pattern), Some(signer), Some(prefix)) => {
                pattern.matches_with(signer, &self.prefix, prefix)
            }
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
    fn privilege_follows_from_module() {
        let granted: Privileges = [Privilege::Rib, Privilege::Nw].into_iter().collect();
        for (module, is) in [
            ("rib", true),
            ("fib", false),
            ("faces", false),
            ("cs", false),
            ("strategy-choice", false),
            ("log", true),
        ] {
            assert_eq!(granted.contains(Privilege::of_module(module)), is, "{module}");
        }
        assert!(!granted.contains(Privilege::Announce));
    }

    #[test]
    fn face_scope_includes_local_and_remote_faces() {
        assert!(FaceScope::Local.includes(true) && !FaceScope::Local.includes(false));
        assert!(FaceScope::Remote.includes(false) && !FaceScope::Remote.includes(true));
        assert!(FaceScope::Both.includes(false) && FaceScope::Both.includes(true));
    }

    #[test]
    fn rule_variable_ties_signer_to_its_prefix() {
        let rule = AllowRule {
            id: "own".into(),
            scope: FaceScope::Remote,
            anchors: Some(1),
            signer: Some("/site/<user>/KEY/<_>".parse().unwrap()),
            privileges: [Privilege::Rib].into_iter().collect(),
            prefix: "/site/<user>/<..>".parse().unwrap(),
        };
        let name = |uri: &str| uri.parse::<Name>().unwrap();
        let alice = name("/site/alice/KEY/1");
        let (own, foreign) = (name("/site/alice/x"), name("/site/bob/x"));
        assert!(rule.fits(Some(alice.as_ref()), Some(own.as_ref())));
        assert!(!rule.fits(Some(alice.as_ref()), Some(foreign.as_ref())));
        assert!(rule.fits(Some(alice.as_ref()), None));
        assert!(!rule.fits(None, Some(own.as_ref())), "a digest names no signer");
        assert!(rule.covers(false, Privilege::Rib) && !rule.covers(true, Privilege::Rib));
        assert!(!rule.covers(false, Privilege::Faces));
    }
}
