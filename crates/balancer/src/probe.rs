//! Probes: Interests under a prefix of the member's, which its agent answers at the member's other end. So what comes back has been forwarded.
//!
//! ```text
//! /nw/balancer/<cluster>/probe/<member>/<8 octets>                 answered by the octets
//! /nw/balancer/<cluster>/probe/<member>/load/<len>/<8 octets>      answered by so many octets, at most 8000
//! ```

use nw_app::{Outgoing, Received};
use nw_element_api::Kind;
use nw_name::{Name, NameRef};
use nw_wire::{Data, DataBuilder, DigestSha256, Interest, InterestBuilder, LpPacket};

/// Octets of content that a probe brings back at most.
pub const CONTENT_LEN_MAX: usize = 8000;
static FILLING: [u8; CONTENT_LEN_MAX] = [b'n'; CONTENT_LEN_MAX];

/// The prefix of a member's probes.
pub fn prefix(cluster: &str, member: &str) -> Name {
    all(cluster).with_generic(member)
}

/// The prefix of all probes of a cluster: routes under it are each member's own.
pub fn all(cluster: &str) -> Name {
    Name::new().with_generic("nw").with_generic("balancer").with_generic(cluster).with_generic("probe")
}

/// A probe as it is sent.
pub fn interest(prefix: &Name, number: u64, lifetime_ms: u64) -> Vec<u8> {
    let name = prefix.clone().with_generic(number.to_be_bytes());
    InterestBuilder::new(name).nonce(number as u32).lifetime_ms(lifetime_ms).encode()
}

/// A probe that brings back `content_len` octets.
pub fn load_interest(prefix: &Name, content_len: u32, number: u64) -> Vec<u8> {
    let name = prefix.clone().with_generic("load").with_generic(content_len.to_string());
    let name = name.with_generic(number.to_be_bytes());
    InterestBuilder::new(name).nonce(number as u32).lifetime_ms(1000).encode()
}

/// Answers a probe under `prefix`; anything else is left alone.
pub fn answer(prefix: &Name, asked: &Received<'_>, out: &mut Outgoing) {
    if asked.kind() != Kind::Interest || !prefix.as_ref().is_prefix_of(asked.name()) {
        return;
    }
    let name = asked.name();
    let Some(last) = name.component(-1) else { return };
    let content = match load_len(prefix, name) {
        Some(len) => &FILLING[..len.min(CONTENT_LEN_MAX)],
        None => last.value(),
    };
    let Ok(wire) = DataBuilder::new(name, content).encode(&DigestSha256);
    out.answer(asked, &wire);
}

fn load_len(prefix: &Name, name: NameRef<'_>) -> Option<usize> {
    let at = prefix.as_ref().len() as isize;
    let word = name.component(at)?.value() == b"load";
    let len = core::str::from_utf8(name.component(at + 1)?.value()).ok()?.parse().ok()?;
    (word && name.len() == prefix.as_ref().len() + 3).then_some(len)
}

/// What a datagram says about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// It came back through the member.
    Back(u64),
    /// The member refused it: its router works, and has no route to the agent.
    Refused(u64),
}

/// Reads an answer to a probe of `prefix`; nothing when it is none.
pub fn read(prefix: &Name, datagram: &[u8]) -> Option<Echo> {
    let packet = LpPacket::check(datagram).ok().filter(|packet| !packet.is_fragmented())?;
    let wire = packet.fragment?;
    if packet.nack.is_some() {
        let interest = Interest::check(wire).ok()?;
        return number_of(prefix, interest.name()).map(Echo::Refused);
    }
    let data = Data::check(wire).ok()?;
    let number = number_of(prefix, data.name())?;
    let whole = match load_len(prefix, data.name()) {
        Some(len) => data.content().len() == len.min(CONTENT_LEN_MAX),
        None => data.content() == number.to_be_bytes(),
    };
    whole.then_some(Echo::Back(number))
}

fn number_of(prefix: &Name, name: NameRef<'_>) -> Option<u64> {
    let fits = prefix.as_ref().is_prefix_of(name) && name.len() > prefix.as_ref().len();
    let last = name.component(-1).filter(|_| fits)?;
    last.value().try_into().ok().map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data(name: &Name, content: &[u8]) -> Vec<u8> {
        let Ok(wire) = DataBuilder::new(name, content).encode(&DigestSha256);
        wire
    }

    #[test]
    fn only_the_right_content_counts() {
        let prefix = prefix("c", "m1");
        let wire = interest(&prefix, 77, 1000);
        let name = Interest::check(&wire).unwrap().name().to_name();
        assert_eq!(name.to_string(), "/nw/balancer/c/probe/m1/%00%00%00%00%00%00%00M");
        assert_eq!(read(&prefix, &data(&name, &77u64.to_be_bytes())), Some(Echo::Back(77)));
        assert_eq!(read(&prefix, &data(&name, b"something")), None);
        assert_eq!(read(&prefix, &data(&super::prefix("c", "m2").with_generic([0; 8]), &[0; 8])), None);
        assert_eq!(read(&prefix, &data(&prefix, &[0; 8])), None);
        assert_eq!(read(&prefix, &wire), None, "an Interest is no answer");
        let load = load_interest(&prefix, 100, 5);
        let name = Interest::check(&load).unwrap().name().to_name();
        assert_eq!(read(&prefix, &data(&name, &[b'n'; 100])), Some(Echo::Back(5)));
        assert_eq!(read(&prefix, &data(&name, &[b'n'; 99])), None);
    }

    proptest! {
        #[test]
        fn any_octets(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&prefix("c", "m"), &bytes);
        }
    }
}
