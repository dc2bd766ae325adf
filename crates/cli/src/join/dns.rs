//! The search for a hub by DNS: service records `_ndn._udp` in the domains of the search list, and
//! for the name of a site below `_homehub._autoconf.named-data.net`.
//!
//! Invariant: a reply is bounded by its datagram, and each step of the parser moves forward, so
//! hostile replies end it. All name servers are asked for all domains at once, so a search takes
//! the time of one query.

use super::random_number;
use core::time::Duration;
use nw_name::Name;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};

/// Port of name servers.
const PORT: u16 = 53;
/// How long the answer to a query, and to its repetition, is awaited.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(500)];
/// Most name servers and domains that are tried.
const TRIED_MAX: usize = 3;
/// Domain of the records of sites' hubs.
const HOME_HUBS: &str = "_homehub._autoconf.named-data.net";
const TYPE_SRV: u16 = 33;
const CLASS_IN: u16 = 1;
/// Most records of a reply that are read.
const RECORDS_MAX: u16 = 64;
/// Most labels of a name.
const LABELS_MAX: usize = 128;

/// What `resolv.conf` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverConfig {
    servers: Vec<IpAddr>,
    domains: Vec<String>,
}

impl ResolverConfig {
    /// Parses the text of `resolv.conf`. Unknown lines are skipped.
    pub fn parse(text: &str) -> Self {
        let mut config = ResolverConfig::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    config.servers.extend(words.next().and_then(|word| word.parse::<IpAddr>().ok()))
                }
                // The last of both lines counts.
                Some("search" | "domain") => {
                    config.domains = words.map(|word| word.trim_matches('.').to_owned()).collect();
                    config.domains.retain(|domain| !domain.is_empty());
                }
                _ => {}
            }
        }
        config.servers.truncate(TRIED_MAX);
        config.domains.truncate(TRIED_MAX);
        config
    }
}

/// Host and port of a hub.
type Host = (String, u16);

/// Returns host and port of the hub that DNS names in the first of the search domains with one.
pub fn find_hub(config: &ResolverConfig) -> Option<Host> {
    let names = config.domains.iter().map(|domain| format!("_ndn._udp.{domain}"));
    first_in_order(&config.servers, names.collect())
}

/// Returns host and port of the hub that DNS names for a site: the components of `/edu/home` give
/// `_ndn._udp.home.edu._homehub._autoconf.named-data.net`. `None` too if a component is not plain.
pub fn find_home_hub(config: &ResolverConfig, site: &Name) -> Option<Host> {
    first_in_order(&config.servers, vec![home_hub_name(site)?])
}

/// Asks all servers for all names, each in a thread of its own. Returns the answer for the first
/// name with one.
fn first_in_order(servers: &[IpAddr], names: Vec<String>) -> Option<Host> {
    let (sender, answers) = channel();
    let mut awaited = vec![0; names.len()];
    for (at, name) in names.into_iter().enumerate() {
        for server in servers.iter().copied() {
            let (sender, name) = (sender.clone(), name.clone());
            let query = move || drop(sender.send((at, ask(server, &name))));
            if std::thread::Builder::new().name("hub query".into()).spawn(query).is_ok() {
                awaited[at] += 1;
            }
        }
    }
    choose_in_order(&answers, awaited)
}

/// Returns the answer for the name with the lowest index, as soon as no answer for an earlier one
/// is awaited. `awaited`: number of answers to come for each name.
fn choose_in_order(
    answers: &Receiver<(usize, Option<Host>)>,
    mut awaited: Vec<usize>,
) -> Option<Host> {
    let mut found = vec![None; awaited.len()];
    let mut first = 0;
    while first < awaited.len() {
        if found[first].is_some() {
            return found.swap_remove(first);
        }
        if awaited[first] == 0 {
            first += 1;
            continue;
        }
        let (at, host) = answers.recv().ok()?;
        awaited[at] -= 1;
        found[at] = found[at].take().or(host);
    }
    None
}

fn home_hub_name(site: &Name) -> Option<String> {
    let mut labels = Vec::new();
    for component in site.as_ref().components() {
        let label = std::str::from_utf8(component.value()).ok()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if label.is_empty() || !label.chars().all(is_plain) {
            return None;
        }
        labels.push(label);
    }
    labels.reverse();
    Some(format!("_ndn._udp.{}.{HOME_HUBS}", labels.join(".")))
}

/// Asks a name server, and once more if no answer comes in time. `None` if it names no hub.
fn ask(server: IpAddr, name: &str) -> Option<Host> {
    let id = (random_number() as u16).to_ne_bytes();
    let query = encode_query(id, name)?;
    let local: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0u16; 8].into() };
    let socket = UdpSocket::bind(SocketAddr::new(local, 0)).ok()?;
    socket.connect(SocketAddr::new(server, PORT)).ok()?;
    let mut reply = [0; 1500];
    for timeout in TIMEOUTS {
        socket.set_read_timeout(Some(timeout)).ok()?;
        socket.send(&query).ok()?;
        match socket.recv(&mut reply) {
            Ok(len) => return decode_reply(&reply[..len], id),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
    }
    None
}

fn encode_query(id: [u8; 2], name: &str) -> Option<Vec<u8>> {
    // Recursion desired, one question.
    let mut query = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        let len = u8::try_from(label.len()).ok().filter(|len| (1..64).contains(len))?;
        query.push(len);
        query.extend_from_slice(label.as_bytes());
    }
    query.push(0);
    query.extend_from_slice(&TYPE_SRV.to_be_bytes());
    query.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(query)
}

/// Returns target and port of the service record with the lowest priority and the highest weight.
/// `None` if the reply has none, or is malformed.
fn decode_reply(reply: &[u8], id: [u8; 2]) -> Option<(String, u16)> {
    const RESPONSE: u8 = 0x80;
    let is_answer = reply.get(..2)? == id && reply.get(2)? & RESPONSE != 0;
    if !is_answer || reply.get(3)? & 0xF != 0 {
        return None;
    }
    let mut at = 12;
    for _ in 0..number(reply, 4)?.min(RECORDS_MAX) {
        at = name_at(reply, at)?.1 + 4;
    }
    let mut best: Option<(u16, u16, String, u16)> = None;
    for _ in 0..number(reply, 6)?.min(RECORDS_MAX) {
        at = name_at(reply, at)?.1;
        let (typ, class, len) =
            (number(reply, at)?, number(reply, at + 2)?, number(reply, at + 8)?);
        let data = at + 10;
        at = data + usize::from(len);
        if typ != TYPE_SRV || class != CLASS_IN {
            continue;
        }
        let (priority, weight) = (number(reply, data)?, number(reply, data + 2)?);
        let target = name_at(reply, data + 6)?.0;
        let is_better = best
            .as_ref()
            .is_none_or(|(p, w, ..)| (priority, u16::MAX - weight) < (*p, u16::MAX - *w));
        if is_better && !target.is_empty() {
            best = Some((priority, weight, target, number(reply, data + 4)?));
        }
    }
    best.map(|(_, _, target, port)| (target, port))
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the name at an offset, and the offset behind it. Pointers lead backwards only.
fn name_at(bytes: &[u8], start: usize) -> Option<(String, usize)> {
    let (mut at, mut end, mut least) = (start, None, start);
    let mut labels: Vec<String> = Vec::new();
    loop {
        let len = usize::from(*bytes.get(at)?);
        match len {
            0 => return Some((labels.join("."), end.unwrap_or(at + 1))),
            0xC0.. => {
                let target = usize::from(number(bytes, at)? & 0x3FFF);
                end = end.or(Some(at + 2));
                if target >= least {
                    return None;
                }
                (at, least) = (target, target);
            }
            1..64 if labels.len() < LABELS_MAX => {
                let label = std::str::from_utf8(bytes.get(at + 1..at + 1 + len)?).ok()?;
                let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
                if !label.chars().all(is_plain) {
                    return None;
                }
                labels.push(label.to_owned());
                at += 1 + len;
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 2] = [7, 9];

    fn reply(records: &[(u16, u16, u16, &[u8])]) -> Vec<u8> {
        let mut reply = encode_query(ID, "_ndn._udp.example").unwrap();
        reply[2] = 0x81;
        reply[7] = records.len() as u8;
        for (priority, weight, port, target) in records {
            // The name of the question, type, class, time to live.
            reply.extend_from_slice(&[0xC0, 12, 0, 33, 0, 1, 0, 0, 0, 9]);
            reply.extend_from_slice(&(6 + target.len() as u16).to_be_bytes());
            for value in [priority, weight, port] {
                reply.extend_from_slice(&value.to_be_bytes());
            }
            reply.extend_from_slice(target);
        }
        reply
    }

    #[test]
    fn resolver_config_keeps_servers_and_last_search_list() {
        let text = "# x\nnameserver 192.0.2.1\nnameserver nonsense\ndomain a.b\nsearch c.d e.\n";
        let config = ResolverConfig::parse(text);
        assert_eq!(config.servers, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
        assert_eq!(config.domains, ["c.d", "e"]);
    }

    #[test]
    fn home_hub_of_site_has_its_components_in_reverse() {
        let name = |site: &str| home_hub_name(&site.parse().unwrap());
        let expected = "_ndn._udp.cs.ucla.edu.ndn._homehub._autoconf.named-data.net";
        assert_eq!(name("/ndn/edu/ucla/cs").as_deref(), Some(expected));
        for site in ["/a%00b", "/a.b", "/a/%20"] {
            assert_eq!(name(site), None, "{site}");
        }
    }

    #[test]
    fn answers_in_any_order_yield_the_first_domain_with_a_hub_at_the_earliest_time() {
        let hub = |name: &str| Some((name.to_owned(), 6363));
        let choose = |answers: &[(usize, Option<Host>)], awaited: &[usize]| {
            let (sender, receiver) = channel();
            for answer in answers {
                sender.send(answer.clone()).unwrap();
            }
            drop(sender);
            let found = choose_in_order(&receiver, awaited.to_vec());
            (found, receiver.try_iter().count())
        };
        // The second domain answers first; the answers that are not needed are not awaited.
        let both = [(1, hub("b")), (0, None), (0, hub("a")), (1, None)];
        assert_eq!(choose(&both, &[2, 2]), (hub("a"), 1));
        assert_eq!(choose(&[(1, hub("b")), (0, None), (1, None)], &[1, 2]), (hub("b"), 1));
        assert_eq!(choose(&[(0, None), (1, None)], &[1, 1]), (None, 0));
        assert_eq!(choose(&[], &[]), (None, 0));
    }

    #[test]
    fn reply_with_several_records_yields_lowest_priority_and_highest_weight() {
        let records: [(u16, u16, u16, &[u8]); 3] = [
            (9, 9, 1, b"\x01a\x00"),
            (1, 2, 2, b"\x01b\x00"),
            // The domain by a pointer to "example" of the question.
            (1, 5, 6363, b"\x03hub\xC0\x16"),
        ];
        let found = decode_reply(&reply(&records), ID);
        assert_eq!(found, Some(("hub.example".to_owned(), 6363)));
    }

    #[test]
    fn malformed_replies_yield_nothing_and_end() {
        let good = reply(&[(1, 1, 6363, b"\x03hub\xC0\x16")]);
        assert!(decode_reply(&good, ID).is_some());
        for len in 0..good.len() {
            assert_eq!(decode_reply(&good[..len], ID), None, "cut at {len}");
        }
        assert_eq!(decode_reply(&good, [0, 0]), None, "another question's");
        // A pointer to itself, and one forwards.
        for target in [&b"\xC0\x34"[..], b"\xC0\xFF", b"\xFF\xFF", b"\x80a\x00", b"\x02a;\x00"] {
            assert_eq!(decode_reply(&reply(&[(1, 1, 1, target)]), ID), None, "{target:?}");
        }
        for at in 0..good.len() {
            for value in [0, 0x3F, 0xC0, 0xFF] {
                let mut changed = good.clone();
                changed[at] = value;
                let _ = decode_reply(&changed, ID);
            }
        }
    }
}
