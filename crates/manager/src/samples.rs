//! Counters of the document's elements, over all their instances, as defences look at them.

use crate::world::{Seen, SeenInstance};
use nw_api::service::ServiceElement;
use nw_manage::Document;
use nw_manage::defence::{ElementSample, is_certificate_missing};

/// Returns a sample for each element of the document that runs. `before` is the sample before: only
/// failures since then are reported.
pub fn element_samples(document: &Document, before: &Seen, seen: &Seen) -> Vec<ElementSample> {
    let elapsed_ms = seen.at_ms.saturating_sub(before.at_ms);
    let graph = &document.file.graph;
    let listeners: Vec<&str> =
        graph.faces.iter().filter(|face| face.is_listener).map(|face| face.name.as_str()).collect();
    let samples = graph.nodes.iter().map(|node| {
        let mut sample = ElementSample { element: node.name.clone(), ..ElementSample::default() };
        for instance in seen.instances.values() {
            if let Some(element) = instance.elements.iter().find(|e| e.name == node.name) {
                add_element(&mut sample, element, instance, &listeners);
            }
            let verifier = format!("defence-verify-{}", node.name);
            let verifiers = instance.elements.iter().filter(|element| {
                element.name == verifier
                    || element.name == node.name && element.element == "signature_verifier"
            });
            verifiers.for_each(|element| add_verifier(&mut sample, element, elapsed_ms));
        }
        sample
    });
    samples.collect()
}

/// Adds the Interests of an element: those of a content store by its own counters, those of others
/// by the faces to consumers of the instance.
fn add_element(
    sample: &mut ElementSample,
    element: &ServiceElement,
    instance: &SeenInstance,
    listeners: &[&str],
) {
    let value = |name: &str| element.values.get(name).copied().unwrap_or(0);
    if element.element == "content_store" {
        sample.interests += value("hits") + value("misses");
        sample.answered += value("hits");
        return;
    }
    for link in instance.links.iter() {
        let Some(face) = listeners.iter().find(|face| is_face(&link.name, face)) else { continue };
        let (interests, answered) = (link.received[0], link.sent[1]);
        sample.interests += interests;
        sample.answered += answered;
        let unsatisfied = interests.saturating_sub(answered);
        match sample.unsatisfied.iter_mut().find(|(known, _)| known == face) {
            Some((_, sum)) => *sum += unsatisfied,
            None => sample.unsatisfied.push(((*face).to_owned(), unsatisfied)),
        }
    }
}

fn add_verifier(sample: &mut ElementSample, element: &ServiceElement, elapsed_ms: u64) {
    let value = |name: &str| element.values.get(name).copied().unwrap_or(0);
    sample.verified += value("valid") + value("invalid");
    let new = element.failures.iter().filter(|failure| failure.age_ms < elapsed_ms);
    for failure in new {
        // Without its certificate nothing is known of it: that is no proof of an attack.
        match is_certificate_missing(&failure.reason) {
            true => sample.unverifiable += 1,
            false => sample.failures.push(failure.name.clone()),
        }
    }
    let contested = element.failures.iter().filter(|failure| failure.contested);
    sample.contested.extend(contested.map(|failure| failure.name.clone()));
}

/// Returns whether a face of an instance is one of the document: its name is followed by a digest
/// of its address.
fn is_face(name: &str, face: &str) -> bool {
    name == face || name.rsplit_once('_').is_some_and(|(stem, _)| stem == face)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{EngineInstance, InstanceState, Labels};
    use crate::world::instance_id;
    use nw_api::service::{ServiceLink, VerificationFailure};
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const TEXT: &str = "face c listens unix:///tmp/c.sock\nface p = unix:///tmp/p.sock\n\
        cs = content_store\nfib = router(routes = [\"/ p\"])\ndiscard = sink\n\
        sorter = packet_dispatcher\nfaces -> sorter.packet\n\
        sorter.interest -> cs.interest\ncs.hit -> faces\ncs.miss -> fib.interest -> faces\n\
        sorter.data -> fib.data -> cs.data -> faces\nsorter.nack -> fib.nack -> faces\n\
        fib.route_event -> discard\n";

    fn element(name: &str, kind: &str, values: &[(&str, u64)]) -> ServiceElement {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), *value));
        ServiceElement {
            name: name.to_owned(),
            element: kind.to_owned(),
            idle: true,
            values: values.collect::<BTreeMap<_, _>>(),
            failures: Vec::new(),
            wanted_certificates: Vec::new(),
        }
    }

    fn failure(name: &str, age_ms: u64) -> VerificationFailure {
        let (name, reason) = (name.to_owned(), "wrong".to_owned());
        VerificationFailure { name, reason, face: 1, link: None, age_ms, contested: age_ms > 1_000 }
    }

    #[test]
    fn instances_are_added_and_only_new_failures_are_reported() {
        let document = Document::read("n", "n.graph", TEXT).unwrap();
        let mut verifier =
            element("defence-verify-cs", "signature_verifier", &[("valid", 3), ("invalid", 2)]);
        verifier.failures = vec![failure("/old", 5_000), failure("/new", 200)];
        let mut missing = failure("/unknown", 100);
        missing.reason = "a certificate is missing".to_owned();
        verifier.failures.push(missing);
        let store = element("cs", "content_store", &[("hits", 10), ("misses", 5)]);
        let link = ServiceLink {
            name: "c_0123456789".to_owned(),
            id: None,
            uri: String::new(),
            local: String::new(),
            up: true,
            closing: false,
            received: [20, 0, 0],
            sent: [0, 15, 0],
        };
        let instance = |name: &str, elements: Vec<ServiceElement>| {
            let labels = Labels {
                network: "n".to_owned(),
                instance: name.to_owned(),
                generation: 1,
                graph_hash: String::new(),
            };
            let engine = EngineInstance {
                labels,
                state: InstanceState::Running,
                control: Default::default(),
                pid: None,
                quota: None,
                address: None,
            };
            let (links, elements) = (Arc::new(vec![link.clone()]), Arc::new(elements));
            (instance_id(name), SeenInstance { engine, status: None, links, elements, graph: None })
        };
        let sorter = element("sorter", "packet_dispatcher", &[]);
        let instances = [
            instance("all~1@here", vec![store.clone(), verifier]),
            instance("all~2@here", vec![store, sorter]),
        ];
        let seen = Seen { at_ms: 2_000, instances: instances.into(), ..Seen::default() };
        let before = Seen { at_ms: 1_000, ..Seen::default() };
        let samples = element_samples(&document, &before, &seen);
        let find = |name: &str| samples.iter().find(|sample| sample.element == name).unwrap();
        let cs = find("cs");
        assert_eq!((cs.interests, cs.answered, cs.verified), (30, 20, 5));
        assert_eq!(cs.failures, ["/new"]);
        assert_eq!((cs.contested.as_slice(), cs.unverifiable), (&["/old".to_owned()][..], 1));
        let sorter = find("sorter");
        assert_eq!((sorter.interests, sorter.answered), (20, 15));
        assert_eq!(sorter.unsatisfied, [("c".to_owned(), 5)]);
    }
}
