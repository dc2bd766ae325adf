//! Probes: Interests under a prefix of one member, answered by its agent on the router's far side.
//! So an answer proves that the router forwards.
//!
//! ```text
//! /nw/balancer/<cluster>/probe/<member>/<8 bytes>              answered with these 8 bytes
//! /nw/balancer/<cluster>/probe/<member>/load/<len>/<8 bytes>   answered with len bytes, at most
//! 8000
//! ```

use nw_app::{Outgoing, Received};
use nw_element_api::Kind;
use nw_name::{Name, NameRef};
use nw_wire::{Data, DataBuilder, DigestSha256, Interest, InterestBuilder, LpPacket};

/// Maximum length of a probe's content, bytes.
pub const CONTENT_LEN_MAX: usize = 8000;
static FILLING: [u8; CONTENT_LEN_MAX] = [b'n'; CONTENT_LEN_MAX];

/// Returns the prefix of a member's probes.
pub fn prefix(cluster: &str, member: &str) -> Name {
    all(cluster).with_generic(member)
}

/// Returns the prefix of all probes of a cluster. Routes below it are never replicated.
pub fn all(cluster: &str) -> Name {
    Name::new()
        .with_generic("nw")
        .with_generic("balancer")
        .with_generic(cluster)
        .with_generic("probe")
}

/// Encodes a probe.
pub fn interest(prefix: &Name, number: u64, lifetime_ms: u64) -> Vec<u8> {
    let name = prefix.clone().with_generic(number.to_be_bytes());
    InterestBuilder::new(name).nonce(number as u32).lifetime_ms(lifetime_ms).encode()
}

/// Encodes a probe that is answered with `content_len` bytes.
pub fn load_interest(prefix: &Name, content_len: u32, number: u64) -> Vec<u8> {
    let name = prefix.clone().with_generic("load").with_generic(content_len.to_string());
    let name = name.with_generic(number.to_be_bytes());
    InterestBuilder::new(name).nonce(number as u32).lifetime_ms(1000).encode()
}

/// Answers a probe under `prefix`. Ignores other packets.
pub fn answer(prefix: &Name, received: &Received<'_>, out: &mut Outgoing) {
    if received.kind() != Kind::Interest || !prefix.as_ref().is_prefix_of(received.name()) {
        return;
    }
    let name = received.name();
    let Some(last) = name.component(-1) else { return };
    let content = match load_len(prefix, name) {
        Some(len) => &FILLING[..len.min(CONTENT_LEN_MAX)],
        None => last.value(),
    };
    let Ok(wire) = DataBuilder::new(name, content).encode(&DigestSha256);
    out.answer(received, &wire);
}

fn load_len(prefix: &Name, name: NameRef<'_>) -> Option<usize> {
    let at = prefix.as_ref().len() as isize;
    let is_load = name.component(at)?.value() == b"load";
    let len = core::str::from_utf8(name.component(at + 1)?.value()).ok()?.parse().ok()?;
    (is_load && name.len() == prefix.as_ref().len() + 3).then_some(len)
}

/// An answer to a probe, with the probe's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// Data with the expected content: the probe was forwarded through the member.
    Data(u64),
    /// A Nack: the member's router works, but has no route to the agent.
    Nack(u64),
}

/// Parses an answer to a probe of `prefix`. `None` if the datagram is not one.
pub fn read(prefix: &Name, datagram: &[u8]) -> Option<ProbeAnswer> {
    let packet = LpPacket::check(datagram).ok().filter(|packet| !packet.is_fragmented())?;
    let wire = packet.fragment?;
    if packet.nack.is_some() {
        let interest = Interest::check(wire).ok()?;
        return number_of(prefix, interest.name()).map(ProbeAnswer::Nack);
    }
    let data = Data::check(wire).ok()?;
    let number = number_of(prefix, data.name())?;
    let is_complete = match load_len(prefix, data.name()) {
        Some(len) => data.content().len() == len.min(CONTENT_LEN_MAX),
        None => data.content() == number.to_be_bytes(),
    };
    is_complete.then_some(ProbeAnswer::Data(number))
}

fn number_of(prefix: &Name, name: NameRef<'_>) -> Option<u64> {
    let is_below = prefix.as_ref().is_prefix_of(name) && name.len() > prefix.as_ref().len();
    let last = name.component(-1).filter(|_| is_below)?;
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
    fn read_accepts_expected_content_only() {
        let prefix = prefix("c", "m1");
        let wire = interest(&prefix, 77, 1000);
        let name = Interest::check(&wire).unwrap().name().to_name();
        assert_eq!(name.to_string(), "/nw/balancer/c/probe/m1/%00%00%00%00%00%00%00M");
        assert_eq!(read(&prefix, &data(&name, &77u64.to_be_bytes())), Some(ProbeAnswer::Data(77)));
        assert_eq!(read(&prefix, &data(&name, b"something")), None);
        assert_eq!(
            read(&prefix, &data(&super::prefix("c", "m2").with_generic([0; 8]), &[0; 8])),
            None
        );
        assert_eq!(read(&prefix, &data(&prefix, &[0; 8])), None);
        assert_eq!(read(&prefix, &wire), None, "an Interest is not an answer");
        let load = load_interest(&prefix, 100, 5);
        let name = Interest::check(&load).unwrap().name().to_name();
        assert_eq!(read(&prefix, &data(&name, &[b'n'; 100])), Some(ProbeAnswer::Data(5)));
        assert_eq!(read(&prefix, &data(&name, &[b'n'; 99])), None);
    }

    proptest! {
        #[test]
        fn reading_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&prefix("c", "m"), &bytes);
        }
    }
}
