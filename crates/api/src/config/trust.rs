//! Options for access control: trust anchors, access rules and issuer rules; and their
//! contradictions.

use super::checker::Check;
use super::section::item;
use super::value::string_enum;
use super::{AllowFrom, Config, suggest};
use nw_trust::{FaceScope, Pattern, Privilege};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The value in `anchors` that accepts all signers without verification.
pub const ANY: &str = "any";
/// The value in `privileges` that stands for all of them.
const ALL: &str = "all";

string_enum! {
    /// The faces to which a rule applies.
    Faces {
        /// Local faces, which use `/localhost/nfd`.
        Local = "local",
        /// Remote faces, which use `/localhop/nfd`.
        Remote = "remote",
        /// All faces.
        Anywhere = "anywhere",
    }
}

impl Faces {
    /// Returns the value for the trust layer.
    pub const fn side(self) -> FaceScope {
        match self {
            Faces::Local => FaceScope::Local,
            Faces::Remote => FaceScope::Remote,
            Faces::Anywhere => FaceScope::Both,
        }
    }
}

string_enum! {
    /// A group of commands that a rule allows.
    Allowed {
        /// Create, update and destroy faces.
        Faces = "faces",
        /// Add and remove next hops.
        Fib = "fib",
        /// Add and remove routes.
        Rib = "rib",
        /// Configure and erase the content store.
        Cs = "cs",
        /// Set and unset strategies.
        StrategyChoice = "strategy-choice",
        /// Commands that only this router has.
        Nw = "nw",
        /// Sign prefix announcements.
        Announce = "announce",
        /// All of these.
        All = "all",
    }
}

impl Allowed {
    /// Returns the privileges for the trust layer.
    pub fn privileges(self) -> Vec<Privilege> {
        match self {
            Allowed::Faces => vec![Privilege::Faces],
            Allowed::Fib => vec![Privilege::Fib],
            Allowed::Rib => vec![Privilege::Rib],
            Allowed::Cs => vec![Privilege::Cs],
            Allowed::StrategyChoice => vec![Privilege::StrategyChoice],
            Allowed::Nw => vec![Privilege::Nw],
            Allowed::Announce => vec![Privilege::Announce],
            Allowed::All => vec![
                Privilege::Faces,
                Privilege::Fib,
                Privilege::Rib,
                Privilege::Cs,
                Privilege::StrategyChoice,
                Privilege::Nw,
                Privilege::Announce,
            ],
        }
    }
}

item! {
    /// A trust anchor: certificates that rules trust without further validation. Exactly one of
    /// file, folder and base64 must be given.
    AnchorItem = "anchor" {
        /// Name of the anchor in rules.
        id: String, as "\"site\"";
        /// File with a certificate: binary, base64 (as `ndnsec cert-dump` and `nw cert export`
        /// print it), or PEM.
        file: Option<PathBuf> = None, as "\"/etc/namewire/site.cert\"";
        /// Folder of certificates: all files that end in .cert, .ndncert or .pem. It is read again
        /// on SIGHUP.
        folder: Option<PathBuf> = None, as "\"/etc/namewire/anchors\"";
        /// A certificate in base64.
        base64: Option<String> = None, as "\"Bv0CPAcu…\"";
    }
}

item! {
    /// An access rule. A command that `[management]` does not allow is allowed if one of these
    /// rules matches.
    AllowItem = "allow" {
        /// Name of the rule in logs.
        id: String, as "\"operators\"";
        /// Faces to which the rule applies.
        from: Faces = Faces::Local;
        /// Anchors at which the signer's certificate chain must end. "any" accepts all signers
        /// without verification, also a plain digest.
        anchors: Vec<String>, as "[\"site\"]";
        /// Pattern of the signer's key name: `<x>` matches one component, `<x..>` any number, and
        /// the same variable must match the same components in `prefix`; `<_>` and `<..>` match
        /// any.
        signer: Option<Pattern> = None, as "\"/site/<who>/KEY/<_>\"";
        /// Allowed command modules: faces, fib, rib, cs, strategy-choice, nw, announce, or all.
        privileges: Vec<Allowed>, as "[\"rib\"]";
        /// Pattern of the prefix in the command, if it has one.
        prefix: Pattern = Pattern::any(), as "\"/site/<who>/<..>\"";
    }
}

item! {
    /// A rule for certificate chains: which keys may sign which certificates between a signer and
    /// its anchor. Without such rules the issuer's identity must be a prefix of the certificate's
    /// name.
    IssuerItem = "issuer", was "vouch" {
        /// Pattern of the key name of the certificate.
        certificate: Pattern, as "\"/site/<_>/KEY/<_>\"";
        /// Pattern of the name of the key that signs it, with variables of `certificate`.
        signer: Pattern, as "\"/site/KEY/<_>\"";
    }
}

/// Maximum number of anchors.
const ANCHORS_MAX: usize = nw_trust::chain::ANCHOR_SETS_MAX;
/// Maximum number of rules of each kind; all are tried for each command.
const RULES_MAX: usize = 256;

/// Reports contradictions between anchors, rules and [management].
pub(super) fn contradictions(config: &Config, check: &mut Check<'_, '_>) {
    let ids = anchor_contradictions(&config.anchor, check);
    if config.allow.len() > RULES_MAX || config.issuer.len() > RULES_MAX {
        check.mismatch(
            "allow[0].id",
            "too many rules",
            format!("at most {RULES_MAX} of each kind"),
        );
    }
    for (index, rule) in config.allow.iter().enumerate() {
        rule_contradictions(config, index, rule, &ids, check);
    }
    issuer_contradictions(&config.issuer, check);
}

/// Reports mistakes of anchors. Returns their ids.
pub(super) fn anchor_contradictions<'c>(
    anchors: &'c [AnchorItem],
    check: &mut Check<'_, '_>,
) -> BTreeMap<&'c str, usize> {
    let mut ids = BTreeMap::new();
    for (index, anchor) in anchors.iter().enumerate() {
        let option = format!("anchor[{index}].id");
        if anchor.id == ANY {
            check.mismatch(
                &option,
                "\"any\"",
                "another word: in rules \"any\" stands for all signers",
            );
        }
        if ids.insert(anchor.id.as_str(), index).is_some() {
            check.mismatch(&option, format!("the anchor {:?} again", anchor.id), "each id once");
        }
        // Options with wrong values count as given; they are reported elsewhere.
        let given =
            ["file", "folder", "base64"].map(|key| check.has(&format!("anchor[{index}].{key}")));
        if given.iter().filter(|given| **given).count() != 1 {
            check.mismatch(
                &option,
                "an anchor with none or several of them",
                "one of file, folder and base64",
            );
        }
    }
    if anchors.len() > ANCHORS_MAX {
        check.mismatch(
            "anchor[0].id",
            format!("{} anchors", anchors.len()),
            format!("at most {ANCHORS_MAX}; a folder holds any number of certificates"),
        );
    }
    ids
}

/// Reports mistakes of issuer rules.
pub(super) fn issuer_contradictions(rules: &[IssuerItem], check: &mut Check<'_, '_>) {
    for (index, rule) in rules.iter().enumerate() {
        if !rule.signer.has_consistent_variables(&rule.certificate) {
            check.mismatch(&format!("issuer[{index}].signer"), rule.signer.to_string(), SAME_KIND);
        }
    }
}

/// Expectation for two patterns that use a variable in different ways.
pub(super) const SAME_KIND: &str = "a variable to be one component or any number in both patterns";

fn rule_contradictions(
    config: &Config,
    index: usize,
    rule: &AllowItem,
    anchors: &BTreeMap<&str, usize>,
    check: &mut Check<'_, '_>,
) {
    let option = |key: &str| format!("allow[{index}].{key}");
    if rule.anchors.is_empty() {
        check.mismatch(&option("anchors"), "[]", "the id of an [[anchor]], or \"any\"");
    }
    let is_unknown = |id: &&String| *id != ANY && !anchors.contains_key(id.as_str());
    if let Some(unknown) = rule.anchors.iter().find(is_unknown) {
        let hint = suggest::hint(unknown, anchors.keys().copied());
        check.mismatch(
            &option("anchors"),
            format!("{unknown:?}{hint}"),
            "the id of an [[anchor]], or \"any\"",
        );
    }
    if rule.anchors.len() > 1 && rule.anchors.iter().any(|id| id == ANY) {
        check.mismatch(&option("anchors"), "\"any\" beside others", "\"any\" alone, or anchors");
    }
    if rule.privileges.is_empty() {
        check.mismatch(
            &option("privileges"),
            "[]",
            format!("what is allowed, such as [\"rib\"], or [\"{ALL}\"]"),
        );
    }
    if rule.signer.as_ref().is_some_and(|signer| !signer.has_consistent_variables(&rule.prefix)) {
        check.mismatch(&option("prefix"), rule.prefix.to_string(), SAME_KIND);
    }
    let management = &config.management;
    if rule.from != Faces::Remote
        && let Some((key, _)) =
            [("digest", management.digest), ("unknown_key", management.unknown_key)]
                .into_iter()
                .find(|(_, reach)| *reach != AllowFrom::Nowhere)
    {
        check.mismatch(
            &option("from"),
            format!(
                "a rule for local faces, while management.{key} lets all of them do everything"
            ),
            "digest = \"nowhere\" and unknown_key = \"nowhere\" in [management], or from = \
             \"remote\"",
        );
    }
    if rule.from == Faces::Remote && management.localhop != AllowFrom::Anywhere {
        check.mismatch(
            &option("from"),
            format!(
                "a rule for other machines, while management.localhop is {:?}",
                management.localhop.as_str()
            ),
            "localhop = \"anywhere\" in [management]",
        );
    }
}
