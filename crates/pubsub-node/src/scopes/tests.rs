//! Scopes of applications, without the thread of the node.

use super::*;
use crate::relay::tests::{Application, node};
use crate::rules::Rules;
use nw_api::config::{PubSub, PubSubRule};
use nw_api::pubsub::{Event, ImplicitRoute, ItemOptions, Request};

impl Application {
    /// Sends a request and returns the code of its reply, and what else came.
    fn ask(&mut self, node: &mut Node, request: &Request) -> (Reply, Vec<Event>) {
        self.send(node, request, None);
        let mut code = None;
        let mut events = self.events(node);
        events.retain(|event| match event {
            Event::Reply { code: found, .. } => {
                code = Some(Reply::from_code(*found));
                false
            }
            _ => true,
        });
        (code.expect("each request has a reply"), events)
    }

    fn add_parent(&mut self, node: &mut Node, name: &str, parent: &str) -> Reply {
        let (name, parent) = (name.into(), parent.into());
        self.ask(node, &Request::AddParent { request: 7, name, parent }).0
    }

    fn remove_parent(&mut self, node: &mut Node, name: &str, parent: &str) -> Reply {
        let (name, parent) = (name.into(), parent.into());
        self.ask(node, &Request::RemoveParent { request: 8, name, parent }).0
    }

    fn publish_scope(&mut self, node: &mut Node, name: &str, strategy: Option<Strategy>) -> Reply {
        let name = name.into();
        self.ask(node, &Request::PublishScope { request: 9, strategy, name }).0
    }

    fn publish(&mut self, node: &mut Node, item: u32, name: &str, s: Option<Strategy>) -> Reply {
        let options = ItemOptions { strategy: s, ..ItemOptions::default() };
        self.ask(node, &Request::Publish { request: 9, item, options, name: name.into() }).0
    }

    /// Returns the names of items that began and the number of those that ended.
    fn items(&mut self, node: &mut Node) -> (Vec<String>, usize) {
        let (mut begun, mut ended) = (Vec::new(), 0);
        for event in self.events(node) {
            match event {
                Event::Item { name, .. } => begun.push(name),
                Event::ItemEnd { .. } => ended += 1,
                _ => {}
            }
        }
        (begun, ended)
    }
}

#[test]
fn item_under_further_scopes_reaches_their_subscribers_once_until_the_last_is_removed() {
    let mut node = node();
    let (mut publisher, mut subscriber) =
        (Application::new(&mut node), Application::new(&mut node));
    subscriber.subscribe(&mut node, "/b/**");
    assert_eq!(publisher.publish(&mut node, 0, "/a/x", None), Reply::Done);
    assert_eq!(subscriber.items(&mut node), (vec![], 0));
    assert_eq!(publisher.add_parent(&mut node, "/a/x", "/b"), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/a/x", "/b/deep"), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/a/x", "/b"), Reply::Exists);
    assert_eq!(subscriber.items(&mut node), (vec!["/a/x".into()], 0), "one item, one delivery");
    assert_eq!(publisher.remove_parent(&mut node, "/a/x", "/b"), Reply::Done);
    assert_eq!(subscriber.items(&mut node), (vec![], 0), "the other parent stays");
    assert_eq!(publisher.remove_parent(&mut node, "/a/x", "/b"), Reply::Missing);
    assert_eq!(publisher.remove_parent(&mut node, "/a/x", "/b/deep"), Reply::Done);
    assert_eq!(subscriber.items(&mut node), (vec![], 1));
    assert!(node.scope_status().is_empty());
    // The parents of an item end with it.
    assert_eq!(publisher.add_parent(&mut node, "/a/x", "/b"), Reply::Done);
    publisher.ask(&mut node, &Request::Unpublish { request: 3, item: 0 });
    assert_eq!(subscriber.items(&mut node), (vec!["/a/x".into()], 1));
    assert!(node.scope_status().is_empty());
}

#[test]
fn scope_under_a_further_scope_has_its_items_there_until_its_publisher_ends() {
    let mut node = node();
    let (mut publisher, mut subscriber) =
        (Application::new(&mut node), Application::new(&mut node));
    subscriber.subscribe(&mut node, "/tours/hall/*");
    let mut editor = Application::new(&mut node);
    assert_eq!(editor.add_parent(&mut node, "/plant/hall", "/tours"), Reply::Missing);
    assert_eq!(editor.publish_scope(&mut node, "/plant/hall", None), Reply::Done);
    assert_eq!(editor.publish_scope(&mut node, "/plant/hall", None), Reply::Exists);
    assert_eq!(editor.add_parent(&mut node, "/plant/hall", "/tours"), Reply::Done);
    assert_eq!(editor.add_parent(&mut node, "/tours", "/plant/hall"), Reply::Missing);
    assert_eq!(editor.publish_scope(&mut node, "/tours", None), Reply::Done);
    assert_eq!(editor.add_parent(&mut node, "/tours", "/plant/hall"), Reply::Mismatch, "a cycle");
    assert_eq!(publisher.publish(&mut node, 0, "/plant/hall/meter", None), Reply::Done);
    assert_eq!(subscriber.items(&mut node), (vec!["/plant/hall/meter".into()], 0));
    let status = node.scope_status();
    assert_eq!(
        (&status[0].name[..], &status[0].parents[..]),
        ("/plant/hall", &["/tours".into()][..])
    );
    node.fail(editor.id, &"it ended");
    node.flush();
    assert_eq!(subscriber.items(&mut node), (vec![], 1));
    assert!(node.scope_status().is_empty());
}

#[test]
fn strategy_of_a_scope_is_inherited_and_another_one_is_refused() {
    let mut node = node();
    let mut application = Application::new(&mut node);
    let (local, domain) = (Some(Strategy::NodeLocal), Some(Strategy::Domain));
    assert_eq!(application.publish_scope(&mut node, "/s", local), Reply::Done);
    assert_eq!(application.publish_scope(&mut node, "/s/t", domain), Reply::Mismatch);
    assert_eq!(application.publish_scope(&mut node, "/s/t", None), Reply::Done);
    assert_eq!(application.publish(&mut node, 0, "/s/t/i", domain), Reply::Mismatch);
    assert_eq!(application.publish(&mut node, 0, "/s/t/i", None), Reply::Done);
    assert_eq!(application.publish(&mut node, 1, "/other/i", None), Reply::Done);
    let strategies: Vec<_> = node.publishers[&application.id].items.values().collect();
    let strategies: Vec<_> = strategies.iter().map(|item| item.strategy).collect();
    assert_eq!(strategies, [Strategy::NodeLocal, Strategy::Domain]);
    assert_eq!(application.add_parent(&mut node, "/other/i", "/s"), Reply::Mismatch);
    assert_eq!(application.publish(&mut node, 3, "/open/i", domain), Reply::Done);
    assert_eq!(application.publish_scope(&mut node, "/open", local), Reply::Mismatch);
    assert_eq!(application.publish_scope(&mut node, "/other", local), Reply::Done);
    let strategy = node.publishers[&application.id].items[&1].strategy;
    assert_eq!(strategy, Strategy::NodeLocal, "of an item that asked for none");
    let end = Request::UnpublishScope { request: 1, name: "/s".into() };
    assert_eq!(application.ask(&mut node, &end).0, Reply::Done);
    assert_eq!(application.ask(&mut node, &end).0, Reply::Missing);
    assert_eq!(application.publish(&mut node, 2, "/s/t/j", domain), Reply::Done);
    let route = ImplicitRoute::Like("/other/i".parse().unwrap());
    let route = Request::Route { request: 1, item: 2, route };
    assert_eq!(application.ask(&mut node, &route).0, Reply::Mismatch, "not implicit");
}

#[test]
fn further_names_give_no_rights_that_the_rules_of_scopes_refuse() {
    let rule = |scope: &str, publish: &[&str], subscribe: &[&str]| PubSubRule {
        scope: scope.into(),
        publish: publish.iter().map(ToString::to_string).collect(),
        subscribe: subscribe.iter().map(ToString::to_string).collect(),
        signed_by: vec![],
    };
    let rules = Rules::parse(&[
        rule("/staff/**", &["uid:7"], &["any"]),
        rule("/secret/**", &["any"], &["uid:7"]),
    ]);
    let mut node = Node::new(PubSub::default(), rules.unwrap(), None);
    let (mut publisher, mut subscriber) =
        (Application::new(&mut node), Application::new(&mut node));
    subscriber.subscribe(&mut node, "/**");
    assert_eq!(publisher.publish(&mut node, 0, "/secret/x", None), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/secret/x", "/open"), Reply::Done);
    assert_eq!(subscriber.items(&mut node), (vec![], 0), "the rule of the announced name holds");
    assert_eq!(publisher.publish(&mut node, 1, "/open/y", None), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/open/y", "/staff"), Reply::Forbidden);
    assert_eq!(publisher.publish_scope(&mut node, "/staff/t", None), Reply::Forbidden);
    // A scope above may be linked, but only names that the publisher may publish count.
    assert_eq!(publisher.publish(&mut node, 2, "/r/staff/z", None), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/r/staff", "/q"), Reply::Done);
    let item = &node.publishers[&publisher.id].items[&2];
    assert_eq!(item.further, ["/q/staff/z".parse().unwrap()]);
    assert_eq!(publisher.add_parent(&mut node, "/nowhere", "/q"), Reply::Missing);
    assert_eq!(publisher.add_parent(&mut node, "nowhere", "/q"), Reply::InvalidName);
}

/// Random parents and items of two applications: each item has the names that all parents give it,
/// though only those concerned by a change are looked at.
#[test]
fn items_have_the_names_of_all_parents_after_any_changes() {
    let rule = PubSubRule {
        scope: "/c/**".into(),
        publish: vec!["uid:7".into()],
        subscribe: vec!["any".into()],
        signed_by: vec![],
    };
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut linked, mut named) = (0, 0);
    for _ in 0..20 {
        let mut node =
            Node::new(PubSub::default(), Rules::parse(core::slice::from_ref(&rule)).unwrap(), None);
        let mut applications = [Application::new(&mut node), Application::new(&mut node)];
        for step in 0..60 {
            let application = &mut applications[random(2) as usize];
            let mut name = || {
                let labels = (0..=random(2)).map(|_| ["/a", "/b", "/c", "/d"][random(4) as usize]);
                labels.collect::<String>()
            };
            let (one, other) = (name(), name());
            match random(5) {
                0 | 1 => drop(application.publish(&mut node, step, &one, None)),
                2 => drop(application.remove_parent(&mut node, &one, &other)),
                _ => {
                    let reply = application.add_parent(&mut node, &one, &other);
                    linked += u32::from(reply == Reply::Done);
                }
            }
            for (id, publisher) in &node.publishers {
                for item in publisher.items.values() {
                    let expected = node.further_names(*id, &item.name, item.rule);
                    assert_eq!(item.further, expected, "{} after step {step}", item.name);
                    named += expected.len();
                }
            }
        }
        for application in applications {
            application.end(&mut node);
        }
        assert!(node.scopes.links.is_empty() && node.scopes.parents.is_empty());
    }
    assert!(linked > 50 && named > 500, "{linked} parents, {named} names");
}

#[test]
fn item_of_another_domain_has_its_plain_name_and_does_not_return() {
    let mut node = node();
    let patterns = ["/x/**", "/x/y", "/@to/c+b/x/**", "/@to/c+a/x/**", "/@from/*/x/*", "/tours/*"];
    let mut before = patterns.map(|pattern| {
        let mut application = Application::new(&mut node);
        application.subscribe(&mut node, pattern);
        application
    });
    let mut publisher = Application::new(&mut node);
    assert_eq!(publisher.publish(&mut node, 0, "/@from/a/x/y", None), Reply::Done);
    assert_eq!(publisher.publish_scope(&mut node, "/x", None), Reply::Done);
    assert_eq!(publisher.add_parent(&mut node, "/x", "/tours"), Reply::Done);
    let (plain, whole) = (vec!["/x/y".to_owned()], vec!["/@from/a/x/y".to_owned()]);
    let expected = [&plain, &plain, &whole, &vec![], &whole, &vec![]];
    for (application, expected) in before.iter_mut().zip(expected) {
        assert_eq!(application.items(&mut node).0, *expected);
    }
    // Those that come later get the same.
    for (pattern, expected) in patterns.into_iter().zip(expected) {
        let mut application = Application::new(&mut node);
        application.subscribe(&mut node, pattern);
        assert_eq!(application.items(&mut node), (expected.clone(), 0), "{pattern}");
    }
    let mut tourist = Application::new(&mut node);
    tourist.subscribe(&mut node, "/tours/x/**");
    assert_eq!(tourist.items(&mut node), (plain.clone(), 0), "by a further name");
    let mut border = Application::new(&mut node);
    border.subscribe(&mut node, "/@to/a/tours/x/**");
    assert_eq!(border.items(&mut node), (vec![], 0), "the further name has the domains, too");
    publisher.ask(&mut node, &Request::Unpublish { request: 3, item: 0 });
    assert_eq!(before[0].items(&mut node), (vec![], 1));
    let mut late = Application::new(&mut node);
    late.subscribe(&mut node, "/x/**");
    assert_eq!(late.items(&mut node), (vec![], 0));
}

#[test]
fn strategy_and_rules_of_plain_names_hold_for_other_domains() {
    let rule = PubSubRule {
        scope: "/secret/**".into(),
        publish: vec!["any".into()],
        subscribe: vec!["uid:7".into()],
        signed_by: vec![],
    };
    let mut node = Node::new(PubSub::default(), Rules::parse(&[rule]).unwrap(), None);
    let (mut publisher, mut border, mut own) =
        (Application::new(&mut node), Application::new(&mut node), Application::new(&mut node));
    border.subscribe(&mut node, "/@to/b/**");
    own.subscribe(&mut node, "/**");
    for (item, name, strategy) in [
        (0, "/here", Some(Strategy::NodeLocal)),
        (1, "/near", Some(Strategy::LinkLocal)),
        (2, "/@from/a/secret/x", None),
        (3, "/all", None),
    ] {
        assert_eq!(publisher.publish(&mut node, item, name, strategy), Reply::Done);
    }
    assert_eq!(border.items(&mut node).0, ["/all"]);
    assert_eq!(own.items(&mut node).0, ["/here", "/near", "/all"]);
    let mut late = Application::new(&mut node);
    late.subscribe(&mut node, "/@to/b/**");
    assert_eq!(late.items(&mut node).0, ["/all"]);
}
