//! Settings of a node among Blackadder's nodes: what its Click configuration says there.

use super::authority::Authority;
use nw_api::config::PubSub;
use nw_faces::mac::Mac;
use nw_wire::publication::{Fid, LABEL_LEN, Label};
use std::net::Ipv4Addr;

/// Neighbours at most: identifiers of links are compared one by one.
const LINKS_MAX: usize = 1024;

/// Where a neighbour is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NeighbourPlace {
    /// A station at the interface with this name.
    Ethernet {
        /// The interface.
        interface: String,
        /// The station.
        mac: Mac,
    },
    /// A node at this address, at the UDP port of the configuration.
    Udp(Ipv4Addr),
}

/// A link to a neighbour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Where the neighbour is reached.
    pub place: NeighbourPlace,
    /// The link's identifier (LID). `None`: nothing is sent to the neighbour.
    pub id: Option<Fid>,
}

/// Settings of a node.
#[derive(Debug)]
pub struct Settings {
    /// Label of the node (`NODEID`).
    pub node: Label,
    /// Its internal link identifier (`iLID`).
    pub internal: Fid,
    /// Forwarding identifier of requests to the rendezvous node (`DEFAULTRV`). `None`: the node
    /// only forwards.
    pub rendezvous: Option<Fid>,
    /// The rendezvous and topology functions of the domain, if this node has them.
    pub authority: Option<Authority>,
    /// The links.
    pub links: Vec<LinkSettings>,
}

impl Settings {
    /// Reads the settings of a configuration. `None` if the node is in no such domain.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse(config: &PubSub) -> Result<Option<Self>, String> {
        let Some(label) = &config.blackadder_node else { return Ok(None) };
        if config.domain {
            return Err(
                "pubsub.blackadder_node: a node is in one domain: set pubsub.domain = false"
                    .to_owned(),
            );
        }
        let bytes = <[u8; LABEL_LEN]>::try_from(label.as_bytes());
        let node = bytes.map_err(|_| {
            format!("pubsub.blackadder_node: {label:?} is no label: it has {LABEL_LEN} characters")
        })?;
        let internal = config.blackadder_internal.as_deref();
        let internal = internal.ok_or("pubsub.blackadder_internal: blackadder_node needs one")?;
        let internal = parse_fid("blackadder_internal", internal)?;
        let rendezvous = config.blackadder_rendezvous.as_deref();
        let rendezvous =
            rendezvous.map(|text| parse_fid("blackadder_rendezvous", text)).transpose()?;
        if config.blackadder_links.len() > LINKS_MAX {
            return Err(format!("pubsub.blackadder_links: there can be {LINKS_MAX} links"));
        }
        let texts = config.blackadder_links.iter();
        let links = texts.map(|text| parse_link(text)).collect::<Result<Vec<_>, _>>()?;
        let twice = links
            .iter()
            .enumerate()
            .any(|(at, link)| links[..at].iter().any(|other| other.place == link.place));
        if links.is_empty() || twice {
            let text = "pubsub.blackadder_links: a node needs links, one to each neighbour";
            return Err(text.to_owned());
        }
        let node = Label(node);
        let authority = match config.blackadder_topology.is_empty() {
            true => None,
            false if rendezvous.is_some() => {
                let text = "pubsub.blackadder_topology: the rendezvous node has no \
                            pubsub.blackadder_rendezvous: remove one of them";
                return Err(text.to_owned());
            }
            false => Some(
                Authority::parse(&config.blackadder_topology, node, config.items)
                    .map_err(|text| format!("pubsub.blackadder_topology: {text}"))?,
            ),
        };
        Ok(Some(Settings { node, internal, rendezvous, authority, links }))
    }

    /// Returns the configuration of the sockets for these links.
    pub fn socket_config(&self, config: &PubSub) -> PubSub {
        let interfaces = self.links.iter().filter_map(|link| match &link.place {
            NeighbourPlace::Ethernet { interface, .. } => Some(interface.clone()),
            NeighbourPlace::Udp(_) => None,
        });
        let interfaces: Vec<String> = interfaces.collect();
        let is_udp = |link: &LinkSettings| matches!(link.place, NeighbourPlace::Udp(_));
        PubSub {
            udp: self.links.iter().any(is_udp),
            ethernet: !interfaces.is_empty(),
            xdp: false,
            interfaces,
            ..config.clone()
        }
    }
}

/// Reads an identifier, which has at least one bit.
fn parse_fid(key: &str, text: &str) -> Result<Fid, String> {
    let fid = text.parse::<Fid>().map_err(str::to_owned);
    let fid = fid.and_then(|fid| match fid.is_empty() {
        true => Err("an identifier has at least one bit".to_owned()),
        false => Ok(fid),
    });
    fid.map_err(|fault| format!("pubsub.{key}: {fault}"))
}

/// Reads a link to a neighbour.
fn parse_link(text: &str) -> Result<LinkSettings, String> {
    let fault = || {
        format!(
            "pubsub.blackadder_links: {text:?} is none of \"INTERFACE MAC id=LID\" and \
             \"ADDRESS id=LID\", with an IPv4 address and a LID such as 154"
        )
    };
    let mut words = text.split_whitespace();
    let first = words.next().ok_or_else(fault)?;
    let place = match first.parse() {
        Ok(address) => NeighbourPlace::Udp(address),
        Err(_) => {
            let mac = words.next().and_then(|word| word.parse().ok()).ok_or_else(fault)?;
            NeighbourPlace::Ethernet { interface: first.to_owned(), mac }
        }
    };
    let id = match words.next() {
        Some(word) => {
            let id = word.strip_prefix("id=").ok_or_else(fault)?;
            Some(parse_fid("blackadder_links", id)?)
        }
        None => None,
    };
    match words.next() {
        Some(_) => Err(fault()),
        None => Ok(LinkSettings { place, id }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(links: &[&str]) -> PubSub {
        PubSub {
            domain: false,
            blackadder_node: Some("00000002".into()),
            blackadder_internal: Some("254".into()),
            blackadder_rendezvous: Some("154+255".into()),
            blackadder_links: links.iter().map(|link| (*link).to_owned()).collect(),
            ..PubSub::default()
        }
    }

    #[test]
    fn settings_are_read_from_a_configuration() {
        assert!(Settings::parse(&PubSub::default()).unwrap().is_none());
        let digits = format!("{}1{}", "0".repeat(102), "0".repeat(153));
        let links =
            ["eth0 02:00:00:00:00:01 id=154", &format!("192.0.2.3 id={digits}"), "192.0.2.4"];
        let settings = Settings::parse(&config(&links)).unwrap().unwrap();
        assert_eq!(settings.node, Label(*b"00000002"));
        assert_eq!(settings.rendezvous, Some(Fid::of_bit(154).union(Fid::of_bit(255))));
        let ids: Vec<_> = settings.links.iter().map(|link| link.id).collect();
        assert_eq!(ids, [Some(Fid::of_bit(154)), Some(Fid::of_bit(153)), None]);
        let sockets = settings.socket_config(&PubSub::default());
        assert!(sockets.udp && sockets.ethernet && sockets.interfaces == ["eth0"]);
    }

    #[test]
    fn mistakes_have_a_sentence() {
        let fault = |config: PubSub| Settings::parse(&config).unwrap_err();
        let good = config(&["192.0.2.3 id=153"]);
        assert!(fault(PubSub { domain: true, ..good.clone() }).contains("domain = false"));
        let node = Some("2".to_owned());
        assert!(fault(PubSub { blackadder_node: node, ..good.clone() }).contains("8 characters"));
        let internal = Some("256".to_owned());
        assert!(fault(PubSub { blackadder_internal: internal, ..good }).contains("0 to 255"));
        for links in [&["eth0 id=1"][..], &["192.0.2.3 1"], &["192.0.2.3 id=1 x"], &[""], &[]] {
            assert!(fault(config(links)).contains("blackadder_links"), "{links:?}");
        }
        assert!(fault(config(&["192.0.2.3 id=1", "192.0.2.3 id=2"])).contains("one to each"));
        let none = format!("192.0.2.3 id={}", "0".repeat(64));
        assert!(fault(config(&[&none])).contains("at least one bit"));
    }
}
