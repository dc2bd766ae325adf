//! The file of `nw cat --trust FILE`: rules for trusted signatures of Data. Anchors and issuer
//! rules have the same form as in the router's file.

use super::checker::Check;
use super::diagnostics::{Diagnostics, Renamed, Source};
use super::read;
use super::section::item;
use super::trust::{
    ANY, AnchorItem, IssuerItem, SAME_KIND, anchor_contradictions, issuer_contradictions,
};
use nw_trust::Pattern;

item! {
    /// A rule for Data. Data is trusted if one of these rules matches.
    DataRuleItem = "allow" {
        /// Name of the rule in messages.
        id: String, as "\"site\"";
        /// Anchors at which the signer's certificate chain must end. "any" accepts all signers
        /// without verification, also a plain digest.
        anchors: Vec<String>, as "[\"site\"]";
        /// Pattern of the signer's key name: `<x>` matches one component, `<x..>` any number, and
        /// the same variable must match the same components in `prefix`; `<_>` and `<..>` match
        /// any.
        signer: Option<Pattern> = None, as "\"/site/<who>/KEY/<_>\"";
        /// Pattern of the names that it may sign.
        prefix: Pattern = Pattern::any(), as "\"/site/<who>/<..>\"";
    }
}

/// Rules for trusted signatures of Data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataTrust {
    /// `[[anchor]]`, in the file's order.
    pub anchor: Vec<AnchorItem>,
    /// `[[allow]]`, in the file's order. Without such rules every signer with a certificate chain
    /// to an anchor is trusted.
    pub allow: Vec<DataRuleItem>,
    /// `[[issuer]]`, in the file's order.
    pub issuer: Vec<IssuerItem>,
    /// Sections that the file calls by an old name, each once.
    pub renamed: Vec<Renamed>,
}

impl DataTrust {
    /// Parses the text of a file. `file`: its name in messages.
    ///
    /// # Errors
    /// All mistakes in the text.
    pub fn parse(file: &str, text: &str) -> Result<DataTrust, Diagnostics> {
        let mut source = Source::new(file, text);
        let sections = |file: &mut read::File<'_, '_, '_>| DataTrust {
            anchor: file.items(),
            allow: file.items(),
            issuer: file.items(),
            renamed: Vec::new(),
        };
        let trust = match read::read(&mut source, sections) {
            None => DataTrust::default(),
            Some((mut trust, places)) => {
                trust.renamed = places.renamed().to_vec();
                contradictions(&trust, &mut Check::new(&places, &mut source));
                trust
            }
        };
        source.finish(trust)
    }
}

fn contradictions(trust: &DataTrust, check: &mut Check<'_, '_>) {
    let ids = anchor_contradictions(&trust.anchor, check);
    issuer_contradictions(&trust.issuer, check);
    for (index, rule) in trust.allow.iter().enumerate() {
        let option = |key: &str| format!("allow[{index}].{key}");
        let unknown = rule.anchors.iter().find(|id| *id != ANY && !ids.contains_key(id.as_str()));
        if rule.anchors.is_empty() {
            check.mismatch(&option("anchors"), "[]", "the id of an [[anchor]], or \"any\"");
        } else if let Some(unknown) = unknown {
            check.mismatch(
                &option("anchors"),
                format!("{unknown:?}"),
                "the id of an [[anchor]], or \"any\"",
            );
        } else if rule.anchors.len() > 1 && rule.anchors.iter().any(|id| id == ANY) {
            check.mismatch(
                &option("anchors"),
                "\"any\" beside others",
                "\"any\" alone, or anchors",
            );
        }
        if rule.signer.as_ref().is_some_and(|signer| !signer.has_consistent_variables(&rule.prefix))
        {
            check.mismatch(&option("prefix"), rule.prefix.to_string(), SAME_KIND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_reports_every_mistake_with_its_line() {
        let text = "[[anchor]]\nid = \"site\"\nfile = \"site.cert\"\n[[allow]]\nid = \"own\"\n\
                    anchors = [\"lab\"]\nsigner = \"/<a>\"\nprefix = \"/<a..>\"\n[log]\n";
        let problems = DataTrust::parse("trust.toml", text).unwrap_err().to_string();
        for expected in [
            "trust.toml:6: allow[0].anchors",
            "trust.toml:8: allow[0].prefix",
            "unknown section log",
        ] {
            assert!(problems.contains(expected), "{problems}");
        }
        let text = text.replace("lab", "site").replace("a..", "a").replace("[log]\n", "");
        let trust = DataTrust::parse("trust.toml", &text).unwrap();
        assert_eq!((trust.anchor.len(), trust.allow.len(), trust.issuer.len()), (1, 1, 0));
        assert_eq!(DataTrust::parse("empty", ""), Ok(DataTrust::default()));
    }
}
