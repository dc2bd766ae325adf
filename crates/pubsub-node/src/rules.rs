//! Which applications and nodes may publish and subscribe under a scope.
//!
//! Invariant: the first rule with a matching scope decides; a name without a rule is for all. A
//! subscription is checked for each item that it matches, so a wide pattern gives no rights.

use nw_api::config::PubSubRule;
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_faces::credentials::Credentials;

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

#[derive(Clone, Debug)]
struct Rule {
    scope: ScopePattern,
    publish: Vec<Subject>,
    subscribe: Vec<Subject>,
}

/// All rules, in the file's order.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

impl Rules {
    /// Reads the rules of a configuration.
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
            })
        };
        items.iter().map(rule).collect::<Result<Vec<_>, String>>().map(Rules)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_matching_rule_decides() {
        let rule = |scope: &str, publish: &[&str], subscribe: &[&str]| PubSubRule {
            scope: scope.into(),
            publish: publish.iter().map(ToString::to_string).collect(),
            subscribe: subscribe.iter().map(ToString::to_string).collect(),
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
    }
}
