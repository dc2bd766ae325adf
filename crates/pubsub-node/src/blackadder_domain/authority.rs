//! Rendezvous node and topology manager of a domain of Blackadder's nodes.
//!
//! The rules are those of `nw_pubsub::Rendezvous`, the trees those of `nw_pubsub::Topology`, and
//! link identifiers those of the configuration, as Blackadder's nodes have theirs from a file. The
//! topology function numbers nodes and links; with at most 256 of them each has a bit of its own in
//! its filters, so that a filter is a list of links. Invariant: a node that the configuration does
//! not name has no effect.

use nw_pubsub::filter::SINGLE_BIT_TABLE;
use nw_pubsub::{
    Effect, Rendezvous, RendezvousLimits, Request, ReturnCode, Timestamp, Topology, TopologyConfig,
};
use nw_wire::publication::{
    Fid, LABEL_LEN, Label, LinkAdvertisement, NeighbourLink, NodeNotice, RequestBody,
};
use std::collections::BTreeMap;

/// Nodes and links together at most.
const LINKS_MAX: usize = 256;
/// Identifiers in one notice at most: their count is one byte.
const IDS_MAX: usize = 255;
/// Nodes neither expire nor renew anything in Blackadder.
const NOW: Timestamp = Timestamp::START;

/// The rendezvous and topology functions of a domain.
#[derive(Debug)]
pub struct Authority {
    rendezvous: Rendezvous,
    topology: Topology,
    /// Identifiers by the numbers of the topology function.
    ids: Vec<Fid>,
    own: Label,
    next_request: u32,
}

impl Authority {
    /// Reads the links of a domain: `FROM TO id=LID`, and `NODE NODE id=iLID`.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse(texts: &[String], own: Label, items_max: u32) -> Result<Self, String> {
        if texts.len() > LINKS_MAX {
            return Err(format!("there can be {LINKS_MAX} nodes and links together"));
        }
        let mut links: BTreeMap<(Label, Label), Fid> = BTreeMap::new();
        for text in texts {
            let (from, to, id) = parse_link(text).ok_or_else(|| {
                format!(
                    "{text:?} is no link: \"FROM TO id=LID\" is expected, with labels of \
                     {LABEL_LEN} characters and a LID such as 155"
                )
            })?;
            if links.insert((from, to), id).is_some() {
                return Err(format!("{text:?}: this link is there twice"));
            }
        }
        for (from, to) in links.keys() {
            let is_complete = links.contains_key(&(*to, *from))
                && links.contains_key(&(*from, *from))
                && links.contains_key(&(*to, *to));
            if !is_complete {
                let (from, to) = (text_of(*from), text_of(*to));
                return Err(format!(
                    "the link from {from} to {to} needs the one back, and both nodes their \
                     internal identifiers, as \"{from} {from} id=iLID\""
                ));
            }
        }
        if !links.contains_key(&(own, own)) {
            return Err(format!("the node itself, {}, is missing", text_of(own)));
        }
        let mut topology = Topology::new(TopologyConfig::default());
        for (node, _) in links.keys().filter(|(from, to)| from == to) {
            let of_node = links.keys().filter(|(from, to)| from == node && to != node);
            let neighbours = of_node.map(|(_, to)| NeighbourLink { neighbour: *to, cost: 1 });
            let links = neighbours.collect();
            topology.advertise(&LinkAdvertisement { node: *node, sequence: 1, links }, NOW);
        }
        let mut ids = vec![Fid::EMPTY; LINKS_MAX];
        let mut set = |number: u32, id: Option<&Fid>| {
            if let (Some(place), Some(id)) = (ids.get_mut(number as usize), id) {
                *place = *id;
            }
        };
        for (node, _) in links.keys().filter(|(from, to)| from == to) {
            let Some(assignment) = topology.assignment(*node) else { continue };
            set(assignment.internal, links.get(&(*node, *node)));
            for link in assignment.links {
                set(link.outgoing, links.get(&(*node, link.neighbour)));
            }
        }
        let limits = RendezvousLimits {
            vertices_max: items_max as usize,
            clients_max: LINKS_MAX,
            name_bytes_max: 0,
            ..RendezvousLimits::default()
        };
        Ok(Authority { rendezvous: Rendezvous::new(limits), topology, ids, own, next_request: 0 })
    }

    /// Executes a request of a node. Returns the notices to nodes.
    pub fn request(&mut self, node: Label, body: &RequestBody) -> Vec<(Label, NodeNotice)> {
        if self.topology.assignment(node).is_none() {
            return Vec::new();
        }
        // A subscription with a number is kept until its scope exists.
        self.next_request = self.next_request.wrapping_add(1).max(1);
        let request = Request { number: self.next_request, ..Request::of_blackadder(node, body) };
        let mut notices = Vec::new();
        for effect in self.rendezvous.handle(&request, NOW) {
            match effect {
                Effect::Reply(reply) => log_refusal(node, body, reply.code),
                Effect::Scope { published, subscribers, ids, .. } => {
                    for ids in ids.chunks(IDS_MAX) {
                        let notice = NodeNotice::Scope { published, ids: ids.to_vec() };
                        notices.extend(subscribers.iter().map(|to| (*to, notice.clone())));
                    }
                }
                Effect::Membership(change) => {
                    for delivery in self.topology.apply(&change) {
                        let is_single = delivery.change.table == SINGLE_BIT_TABLE;
                        let (to, ids) = (delivery.publisher, delivery.change.ids);
                        match delivery.change.subscribers {
                            0 => notices.extend(ids.chunks(IDS_MAX).map(|ids| {
                                let ids = ids.to_vec();
                                (to, NodeNotice::Stop { ids })
                            })),
                            _ if !is_single => {}
                            _ => {
                                // A publication's packet has no more identifiers either.
                                let ids = ids.into_iter().take(IDS_MAX).collect();
                                let fid = self.fid(&delivery.change.fid);
                                notices.push((to, NodeNotice::Start { ids, fid }));
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        notices
    }

    /// Returns the forwarding identifier from this node to another one.
    pub fn fid_to(&mut self, node: Label) -> Option<Fid> {
        let unicast = self.topology.unicast(self.own, node)?;
        (unicast.table == SINGLE_BIT_TABLE).then(|| self.fid(&unicast.fid))
    }

    /// Returns the configured identifiers of the links whose numbers a filter has.
    fn fid(&self, numbers: &Fid) -> Fid {
        let links = self.ids.iter().zip(0..=255_u8);
        let chosen = links.filter(|(_, number)| numbers.contains(&Fid::of_bit(*number)));
        chosen.fold(Fid::EMPTY, |fid, (id, _)| fid.union(*id))
    }
}

fn log_refusal(node: Label, body: &RequestBody, code: u8) {
    if code == ReturnCode::Success as u8 {
        return;
    }
    let sentence = ReturnCode::from_number(code).map_or("", ReturnCode::explanation);
    let (node, operation) = (text_of(node), body.operation.as_str());
    tracing::debug!(node, operation, code, "blackadder: {sentence}");
}

fn text_of(node: Label) -> String {
    node.0.escape_ascii().to_string()
}

fn parse_link(text: &str) -> Option<(Label, Label, Fid)> {
    let mut words = text.split_whitespace();
    let label = |word: &str| word.as_bytes().try_into().ok().map(Label);
    let (from, to) = (label(words.next()?)?, label(words.next()?)?);
    let id: Fid = words.next()?.strip_prefix("id=")?.parse().ok()?;
    (words.next().is_none() && !id.is_empty()).then_some((from, to, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::publication::{Id, Operation};

    const FIRST: Label = Label(*b"00000001");

    fn authority(texts: &[&str]) -> Result<Authority, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Authority::parse(&texts, FIRST, 100)
    }

    fn request(operation: Operation, label: u64, prefix: &[u64]) -> RequestBody {
        let labels = |numbers: &[u64]| numbers.iter().map(|n| Label::from_number(*n)).collect();
        let (id, prefix) = (Id::new(labels(&[label])), Id::new(labels(prefix)));
        RequestBody { operation, id, prefix, strategy: 2, option: None }
    }

    #[test]
    fn identifiers_of_several_bits_are_joined_and_strangers_have_no_effect() {
        let links = [
            "00000001 00000001 id=1+2",
            "00000002 00000002 id=3",
            "00000003 00000003 id=4",
            "00000001 00000002 id=5+6",
            "00000002 00000001 id=7",
            "00000002 00000003 id=6+8",
            "00000003 00000002 id=9",
        ];
        let mut authority = authority(&links).unwrap();
        let last = Label(*b"00000003");
        assert_eq!(authority.fid_to(last), Some("5+6+8+4".parse().unwrap()));
        let stranger = Label(*b"stranger");
        assert_eq!(authority.fid_to(stranger), None);
        let scope = request(Operation::PublishScope, 1, &[]);
        assert_eq!(authority.request(stranger, &scope), []);
        assert_eq!(authority.request(FIRST, &scope), []);
        let ids = vec![Id::new(vec![Label::from_number(1), Label::from_number(2)])];
        let stop = || NodeNotice::Stop { ids: ids.clone() };
        let publish = request(Operation::PublishItem, 2, &[1]);
        assert_eq!(authority.request(FIRST, &publish), [(FIRST, stop())]);
        let subscribe = request(Operation::SubscribeItem, 2, &[1]);
        assert_eq!(authority.request(stranger, &subscribe), []);
        let start = |bits: &str| NodeNotice::Start { ids: ids.clone(), fid: bits.parse().unwrap() };
        assert_eq!(authority.request(last, &subscribe), [(FIRST, start("5+6+8+4"))]);
        // A subscriber at the publisher's own node.
        assert_eq!(authority.request(FIRST, &subscribe), [(FIRST, start("5+6+8+4+1+2"))]);
        let end = request(Operation::UnsubscribeItem, 2, &[1]);
        assert_eq!(authority.request(last, &end), [(FIRST, start("1+2"))]);
        assert_eq!(authority.request(FIRST, &end), [(FIRST, stop())]);
    }

    #[test]
    fn scope_with_more_identifiers_than_a_notice_holds_is_told_whole() {
        let text = "00000001 00000001 id=1".to_owned();
        let mut authority = Authority::parse(&[text], FIRST, 1000).unwrap();
        let id = |labels: &[u64]| Id::new(labels.iter().map(|n| Label::from_number(*n)).collect());
        authority.request(FIRST, &request(Operation::PublishScope, 1, &[]));
        authority.request(FIRST, &request(Operation::PublishScope, 1000, &[1]));
        authority.request(FIRST, &request(Operation::PublishScope, 1001, &[1, 1000]));
        for label in 2..=300 {
            authority.request(FIRST, &request(Operation::PublishScope, label, &[]));
            let body = request(Operation::PublishScope, 0, &[label]);
            authority.request(FIRST, &RequestBody { id: id(&[1, 1000]), ..body });
        }
        let notices = authority.request(FIRST, &request(Operation::SubscribeScope, 1000, &[1]));
        let ids = |(_, notice): &(Label, NodeNotice)| match notice {
            NodeNotice::Scope { published: true, ids } if ids.len() <= IDS_MAX => ids.clone(),
            other => panic!("{other:?}"),
        };
        let told: std::collections::BTreeSet<Id> = notices.iter().flat_map(ids).collect();
        assert_eq!(told.len(), 300);
    }

    #[test]
    fn mistakes_in_a_topology_have_a_sentence() {
        let one = "00000001 00000001 id=1";
        let fault = |texts: &[&str]| authority(texts).unwrap_err();
        assert!(fault(&["00000002 00000002 id=1"]).contains("00000001, is missing"));
        assert!(fault(&[one, one]).contains("twice"));
        assert!(fault(&[one, "00000001 00000002 id=2"]).contains("the one back"));
        for text in ["1 2 id=3", "00000001 00000002 3", "00000001 00000001 id=1 x", ""] {
            assert!(fault(&[text]).contains("no link"), "{text}");
        }
        let many: Vec<String> = (0..257).map(|n| format!("{n:08} {n:08} id=1")).collect();
        assert!(Authority::parse(&many, FIRST, 100).unwrap_err().contains("256"));
    }
}
