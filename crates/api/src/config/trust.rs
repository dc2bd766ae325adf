//! Options of the security of control: anchors, rules, who vouches for whom. And their contradictions.

use super::check::Check;
use super::section::item;
use super::value::words;
use super::{Config, Reach, suggest};
use nw_trust::{Pattern, Privilege, Side};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The word in `anchors` for signers whom nobody vouches for.
pub const ANY: &str = "any";
/// The word in `privileges` for all of them.
const ALL: &str = "all";

words! {
    /// Faces that a rule speaks of.
    Faces {
        /// Those of this machine, which use `/localhost/nfd`.
        Local = "local",
        /// Those to other machines, which use `/localhop/nfd`.
        Remote = "remote",
        /// All.
        Anywhere = "anywhere",
    }
}

impl Faces {
    /// As the trust layer says it.
    pub const fn side(self) -> Side {
        match self {
            Faces::Local => Side::Local,
            Faces::Remote => Side::Remote,
            Faces::Anywhere => Side::Both,
        }
    }
}

words! {
    /// What a rule allows.
    Allowed {
        /// Make, change and end faces.
        Faces = "faces",
        /// Add and remove next hops.
        Fib = "fib",
        /// Add and remove routes.
        Rib = "rib",
        /// Change the content store and erase from it.
        Cs = "cs",
        /// Choose strategies.
        StrategyChoice = "strategy-choice",
        /// What only this router has.
        Nw = "nw",
        /// Sign prefix announcements.
        Announce = "announce",
        /// All of these.
        All = "all",
    }
}

impl Allowed {
    /// As the trust layer says it.
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
    /// A trust anchor: keys that rules believe without anybody vouching for them. One of file, folder and base64 says which.
    AnchorItem = "anchor" {
        /// What rules call it.
        id: String, as "\"site\"";
        /// A certificate: as it is, in base64 (as `ndnsec cert-dump` and `nw cert export` print it), or in PEM.
        file: Option<PathBuf> = None, as "\"/etc/namewire/site.cert\"";
        /// Every certificate in a folder: files that end in .cert, .ndncert or .pem; looked through again on SIGHUP.
        folder: Option<PathBuf> = None, as "\"/etc/namewire/anchors\"";
        /// A certificate, in base64.
        base64: Option<String> = None, as "\"Bv0CPAcu…\"";
    }
}

item! {
    /// Who may do what. A command that `[management]` does not allow already is allowed when one of these rules allows it.
    AllowItem = "allow" {
        /// What logs call it.
        id: String, as "\"operators\"";
        /// From which faces.
        from: Faces = Faces::Local;
        /// Anchors that the signer's certificates must lead to. "any": whoever signs, unverified, a plain digest too.
        anchors: Vec<String>, as "[\"site\"]";
        /// What the signer's key is named: `<x>` is one component, `<x..>` any number, the same as in prefix; `<_>` and `<..>` are any.
        signer: Option<Pattern> = None, as "\"/site/<who>/KEY/<_>\"";
        /// What it may do: faces, fib, rib, cs, strategy-choice, nw, announce, or all.
        privileges: Vec<Allowed>, as "[\"rib\"]";
        /// To which prefixes, where a command is about one.
        prefix: Pattern = Pattern::any(), as "\"/site/<who>/<..>\"";
    }
}

item! {
    /// Who may sign whose certificate between a signer and its anchor. Without any such rule: who is named by a prefix of the other's name.
    VouchItem = "vouch" {
        /// The key that the certificate is for.
        certificate: Pattern, as "\"/site/<_>/KEY/<_>\"";
        /// The key that signs it. Variables are those of `certificate`.
        signer: Pattern, as "\"/site/KEY/<_>\"";
    }
}

/// Sets of anchors there may be.
const ANCHORS_MAX: usize = nw_trust::chain::SETS_MAX;
/// Rules there may be: each is tried for each command.
const RULES_MAX: usize = 256;

pub(super) fn contradictions(config: &Config, check: &mut Check<'_, '_>) {
    let ids = anchor_contradictions(&config.anchor, check);
    if config.allow.len() > RULES_MAX || config.vouch.len() > RULES_MAX {
        check.say("allow[0].id", "too many rules", format!("at most {RULES_MAX} of each kind"));
    }
    for (index, rule) in config.allow.iter().enumerate() {
        rule_contradictions(config, index, rule, &ids, check);
    }
    issuer_contradictions(&config.vouch, check);
}

/// Names mistakes of anchors; returns their ids.
pub(super) fn anchor_contradictions<'c>(
    anchors: &'c [AnchorItem],
    check: &mut Check<'_, '_>,
) -> BTreeMap<&'c str, usize> {
    let mut ids = BTreeMap::new();
    for (index, anchor) in anchors.iter().enumerate() {
        let option = format!("anchor[{index}].id");
        if anchor.id == ANY {
            check.say(&option, "\"any\"", "another word: \"any\" is what rules say for every signer");
        }
        if ids.insert(anchor.id.as_str(), index).is_some() {
            check.say(&option, format!("the anchor {:?} again", anchor.id), "each id once");
        }
        // What the file has, be it wrong: that is said elsewhere.
        let given = ["file", "folder", "base64"].map(|key| check.has(&format!("anchor[{index}].{key}")));
        if given.iter().filter(|given| **given).count() != 1 {
            check.say(&option, "an anchor with none or several of them", "one of file, folder and base64");
        }
    }
    if anchors.len() > ANCHORS_MAX {
        check.say(
            "anchor[0].id",
            format!("{} anchors", anchors.len()),
            format!("at most {ANCHORS_MAX}; a folder holds any number of certificates"),
        );
    }
    ids
}

/// Names mistakes of rules about issuers.
pub(super) fn issuer_contradictions(rules: &[VouchItem], check: &mut Check<'_, '_>) {
    for (index, rule) in rules.iter().enumerate() {
        if !rule.signer.is_tied_well_to(&rule.certificate) {
            check.say(&format!("vouch[{index}].signer"), rule.signer.to_string(), ONE_KIND);
        }
    }
}

pub(super) const ONE_KIND: &str = "a variable to be one component or any number in both patterns";

fn rule_contradictions(
    config: &Config,
    index: usize,
    rule: &AllowItem,
    anchors: &BTreeMap<&str, usize>,
    check: &mut Check<'_, '_>,
) {
    let option = |key: &str| format!("allow[{index}].{key}");
    if rule.anchors.is_empty() {
        check.say(&option("anchors"), "[]", "the id of an [[anchor]], or \"any\"");
    }
    let is_unknown = |id: &&String| *id != ANY && !anchors.contains_key(id.as_str());
    if let Some(unknown) = rule.anchors.iter().find(is_unknown) {
        let hint = suggest::hint(unknown, anchors.keys().copied());
        check.say(&option("anchors"), format!("{unknown:?}{hint}"), "the id of an [[anchor]], or \"any\"");
    }
    if rule.anchors.len() > 1 && rule.anchors.iter().any(|id| id == ANY) {
        check.say(&option("anchors"), "\"any\" beside others", "\"any\" alone, or anchors");
    }
    if rule.privileges.is_empty() {
        check.say(&option("privileges"), "[]", format!("what is allowed, such as [\"rib\"], or [\"{ALL}\"]"));
    }
    if rule.signer.as_ref().is_some_and(|signer| !signer.is_tied_well_to(&rule.prefix)) {
        check.say(&option("prefix"), rule.prefix.to_string(), ONE_KIND);
    }
    let management = &config.management;
    if rule.from != Faces::Remote
        && let Some((key, _)) = [("digest", management.digest), ("unknown_key", management.unknown_key)]
            .into_iter()
            .find(|(_, reach)| *reach != Reach::Nowhere)
    {
        check.say(
            &option("from"),
            format!("a rule for local faces, while management.{key} lets all of them do everything"),
            "digest = \"nowhere\" and unknown_key = \"nowhere\" in [management], or from = \"remote\"",
        );
    }
    if rule.from == Faces::Remote && management.localhop != Reach::Anywhere {
        check.say(
            &option("from"),
            format!(
                "a rule for other machines, while management.localhop is {:?}",
                management.localhop.as_str()
            ),
            "localhop = \"anywhere\" in [management]",
        );
    }
}
