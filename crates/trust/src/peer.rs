//! For which peer a share of a pool is counted.

use core::net::IpAddr;

/// A peer, for the shares of a pool that many use. A peer can have many faces: a UDP port costs it nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Network([u8; 8]),
    /// A face without an address of its own, or a face of this machine.
    Face(u64),
}

impl Peer {
    /// Returns the peer at an address.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                // No IPv6 network of the internet begins so.
                Peer::Network([0, 0, 0xff, 0xff, a, b, c, d])
            }
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                Peer::Network([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let at = |text: &str| Peer::at(text.parse().unwrap());
        assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
    }
}
