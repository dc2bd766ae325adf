//! The file that says which signatures of fetched Data are trusted: `nw cat --trust FILE`. Anchors and issuers are written as in the router's file.

use super::check::Check;
use super::problem::{Problems, Source};
use super::read;
use super::section::item;
use super::trust::{ANY, AnchorItem, ONE_KIND, VouchItem, anchor_contradictions, issuer_contradictions};
use nw_trust::Pattern;

item! {
    /// Who may sign what. Data is trusted when one of these rules allows it.
    DataRuleItem = "allow" {
        /// What messages call it.
        id: String, as "\"site\"";
        /// Anchors that the signer's certificates must lead to. "any": any signer, unverified, a plain digest too.
        anchors: Vec<String>, as "[\"site\"]";
        /// What the signer's key is named: `<x>` is one component, `<x..>` any number, the same as in prefix; `<_>` and `<..>` are any.
        signer: Option<Pattern> = None, as "\"/site/<who>/KEY/<_>\"";
        /// Names that it may sign.
        prefix: Pattern = Pattern::any(), as "\"/site/<who>/<..>\"";
    }
}

/// Which signatures of Data are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTrust {
    /// `[[anchor]]`, in the file's order.
    pub anchor: Vec<AnchorItem>,
    /// `[[allow]]`, in the file's order. Without any, every signer is trusted whose certificates lead to an anchor.
    pub allow: Vec<DataRuleItem>,
    /// `[[vouch]]`, in the file's order.
    pub vouch: Vec<VouchItem>,
}

impl DataTrust {
    /// Reads a file's text. `file` is what problems call it.
    ///
    /// # Errors
    /// Every mistake in the text.
    pub fn parse(file: &str, text: &str) -> Result<DataTrust, Problems> {
        let mut source = Source::new(file, text);
        let sections = |file: &mut read::File<'_, '_, '_>| DataTrust {
            anchor: file.items(),
            allow: file.items(),
            vouch: file.items(),
        };
        let trust = match read::read(&mut source, sections) {
            None => DataTrust::default(),
            Some((trust, places)) => {
                contradictions(&trust, &mut Check::new(&places, &mut source));
                trust
            }
        };
        source.finish(trust)
    }
}

fn contradictions(trust: &DataTrust, check: &mut Check<'_, '_>) {
    let ids = anchor_contradictions(&trust.anchor, check);
    issuer_contradictions(&trust.vouch, check);
    for (index, rule) in trust.allow.iter().enumerate() {
        let option = |key: &str| format!("allow[{index}].{key}");
        let unknown = rule.anchors.iter().find(|id| *id != ANY && !ids.contains_key(id.as_str()));
        if rule.anchors.is_empty() {
            check.say(&option("anchors"), "[]", "the id of an [[anchor]], or \"any\"");
        } else if let Some(unknown) = unknown {
            check.say(&option("anchors"), format!("{unknown:?}"), "the id of an [[anchor]], or \"any\"");
        } else if rule.anchors.len() > 1 && rule.anchors.iter().any(|id| id == ANY) {
            check.say(&option("anchors"), "\"any\" beside others", "\"any\" alone, or anchors");
        }
        if rule.signer.as_ref().is_some_and(|signer| !signer.is_tied_well_to(&rule.prefix)) {
            check.say(&option("prefix"), rule.prefix.to_string(), ONE_KIND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_trust_names_every_mistake_with_its_line() {
        let text = "[[anchor]]\nid = \"site\"\nfile = \"site.cert\"\n[[allow]]\nid = \"own\"\nanchors = [\"lab\"]\nsigner = \"/<a>\"\nprefix = \"/<a..>\"\n[log]\n";
        let problems = DataTrust::parse("trust.toml", text).unwrap_err().to_string();
        for expected in
            ["trust.toml:6: allow[0].anchors", "trust.toml:8: allow[0].prefix", "unknown section log"]
        {
            assert!(problems.contains(expected), "{problems}");
        }
        let text = text.replace("lab", "site").replace("a..", "a").replace("[log]\n", "");
        let trust = DataTrust::parse("trust.toml", &text).unwrap();
        assert_eq!((trust.anchor.len(), trust.allow.len(), trust.vouch.len()), (1, 1, 0));
        assert_eq!(DataTrust::parse("empty", ""), Ok(DataTrust::default()));
    }
}
