//! Which applications and nodes may publish and subscribe under a scope.
//!
//! Invariant: the first rule with a matching scope decides; a name without a rule is for all. A
//! subscription is checked for each item that it matches, so a wide pattern gives no rights.

use nw_api::config::PubSubRule;
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_faces::credentials::Credentials;
use nw_trust::VerifyKey;
use nw_trust::publication::{PublicationFault, PublicationKeys, read_public_key};

/// One of those a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Any,
    User(u32),
    Group(u32),
    Remote,
}

/// The party that a check is about.
#[derive(Clone, Copy, Debug)]
pub enum Party {
    /// An application of this machine.
    Application(Credentials),
    /// Another node.
    Remote,
}

impl Subject {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "any" => Some(Subject::Any),
            None if text == "remote" => Some(Subject::Remote),
            Some(("uid", id)) => id.parse().ok().map(Subject::User),
            Some(("gid", id)) => id.parse().ok().map(Subject::Group),
            _ => None,
        }
    }

    fn allows(self, party: Party) -> bool {
        match (self, party) {
            (Subject::Any, _) | (Subject::Remote, Party::Remote) => true,
            (Subject::User(uid), Party::Application(found)) => uid == found.uid,
            (Subject::Group(gid), Party::Application(found)) => gid == found.gid,
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Rule {
    scope: ScopePattern,
    publish: Vec<Subject>,
    subscribe: Vec<Subject>,
    /// Keys that publications must be signed with; `None` if they need no signature.
    keys: Option<PublicationKeys>,
}

/// All rules, in the file's order.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads the rules of a configuration, and the files of their keys.
    ///
    /// # Errors
    /// A sentence about the first invalid one.
    pub fn parse(items: &[PubSubRule]) -> Result<Self, String> {
        let subjects = |texts: &[String]| {
            let parse = |text: &String| {
                Subject::parse(text).ok_or_else(|| {
                    format!("pubsub_rule: {text:?} is none of any, remote, uid:N and gid:N")
                })
            };
            texts.iter().map(parse).collect::<Result<Vec<_>, _>>()
        };
        let rule = |item: &PubSubRule| {
            Ok(Rule {
                scope: item
                    .scope
                    .parse()
                    .map_err(|fault| format!("pubsub_rule: scope {:?}: {fault}", item.scope))?,
                publish: subjects(&item.publish)?,
                subscribe: subjects(&item.subscribe)?,
                keys: match item.signed_by.is_empty() {
                    true => None,
                    false => Some(PublicationKeys::new(keys(&item.signed_by)?)),
                },
            })
        };
        items.iter().map(rule).collect::<Result<Vec<_>, String>>().map(Rules)
    }

    /// Checks that a publication has the signature that its rule wants, if it wants one.
    ///
    /// # Errors
    /// If it has none, or one of another key, name or number.
    pub fn check_signature(
        &mut self,
        rule: Option<usize>,
        name: &ItemName,
        sequence: u64,
        publication: &[u8],
    ) -> Result<(), PublicationFault> {
        let rule = rule.and_then(|rule| self.0.get_mut(rule));
        let Some(keys) = rule.and_then(|rule| rule.keys.as_mut()) else { return Ok(()) };
        keys.check(name.plain(), sequence, publication).map(|_| ())
    }

    /// Returns whether a rule wants publications to be signed.
    pub fn wants_signature(&self, rule: Option<usize>) -> bool {
        rule.and_then(|rule| self.0.get(rule)).is_some_and(|rule| rule.keys.is_some())
    }

    /// Returns the number of the rule for a name. `None` if the name is for all.
    pub fn find(&self, name: &ItemName) -> Option<usize> {
        self.0.iter().position(|rule| rule.scope.matches(name))
    }

    /// Returns whether a rule lets a party publish.
    pub fn may_publish(&self, rule: Option<usize>, party: Party) -> bool {
        let rule = rule.and_then(|rule| self.0.get(rule));
        rule.is_none_or(|rule| rule.publish.iter().any(|subject| subject.allows(party)))
    }

    /// Returns whether a rule lets a party subscribe.
    pub fn may_subscribe(&self, rule: Option<usize>, party: Party) -> bool {
        let rule = rule.and_then(|rule| self.0.get(rule));
        rule.is_none_or(|rule| rule.subscribe.iter().any(|subject| subject.allows(party)))
    }
}

/// Reads the keys of files.
fn keys(texts: &[String]) -> Result<Vec<VerifyKey>, String> {
    let key = |text: &String| {
        let (path, is_secret) = match text.strip_prefix("hmac:") {
            Some(path) => (path, true),
            None => (text.as_str(), false),
        };
        let file = std::fs::read(path)
            .map_err(|error| format!("pubsub_rule: signed_by {path}: {error}"))?;
        match is_secret {
            true if file.is_empty() => Err(format!("pubsub_rule: the secret in {path} is empty")),
            true => Ok(VerifyKey::from_secret(&file)),
            false => read_public_key(&file).map_err(|_| {
                format!(
                    "pubsub_rule: {path} is neither a certificate nor a public key; for a shared \
                     secret write hmac:{path}"
                )
            }),
        }
    };
    texts.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_matching_rule_decides() {
        let rule = |scope: &str, publish: &[&str], subscribe: &[&str]| PubSubRule {
            scope: scope.into(),
            publish: publish.iter().map(ToString::to_string).collect(),
            subscribe: subscribe.iter().map(ToString::to_string).collect(),
            signed_by: vec![],
        };
        let rules = Rules::parse(&[
            rule("/plant/secret/**", &["uid:7"], &["gid:8"]),
            rule("/plant/**", &["any"], &["remote"]),
        ])
        .unwrap();
        let user = |uid, gid| Party::Application(Credentials { uid, gid, pid: 1 });
        let secret = rules.find(&"/plant/secret/x".parse().unwrap());
        let plant = rules.find(&"/plant/x".parse().unwrap());
        assert!(rules.may_publish(secret, user(7, 0)) && !rules.may_publish(secret, user(0, 7)));
        assert!(
            rules.may_subscribe(secret, user(0, 8)) && !rules.may_subscribe(secret, user(8, 0))
        );
        assert!(!rules.may_publish(secret, Party::Remote));
        assert!(rules.may_publish(plant, Party::Remote) && !rules.may_subscribe(plant, user(0, 0)));
        let free = rules.find(&"/other".parse().unwrap());
        assert!(free.is_none() && rules.may_subscribe(free, user(1, 1)));
        assert!(Rules::parse(&[rule("/a/**", &["uid:x"], &[])]).is_err());
        assert!(Rules::parse(&[rule("a", &[], &[])]).is_err());
        let signed =
            |file: &str| PubSubRule { signed_by: vec![file.into()], ..rule("/a", &[], &[]) };
        assert!(Rules::parse(&[signed("/nowhere")]).is_err_and(|text| text.contains("/nowhere")));
    }
}
