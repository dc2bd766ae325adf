//! Groups of faces that share a quota: the faces of one network address.

use core::net::IpAddr;

/// The unit that quotas of a shared pool are counted by. A peer can open many faces at no cost (one
/// for each UDP port), so faces of one address count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PeerGroup {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Network([u8; 8]),
    /// A single face: one without an IP address, or a face of this machine.
    Face(u64),
}

impl PeerGroup {
    /// Returns the group of an IP address.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                // ::ffff:0:0/96 maps IPv4; no IPv6 /64 in use starts with these bytes.
                PeerGroup::Network([0, 0, 0xff, 0xff, a, b, c, d])
            }
            IpAddr::V6(v6) => {
                let [a, b, c, d, e, f, g, h, ..] = v6.octets();
                PeerGroup::Network([a, b, c, d, e, f, g, h])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_group() {
        let at = |text: &str| PeerGroup::of_address(text.parse().unwrap());
        assert_eq!(at("192.0.2.1"), at("::ffff:192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_eq!(at("2001:db8:0:1::1"), at("2001:db8:0:1:ffff::2"));
        assert_ne!(at("2001:db8:0:1::1"), at("2001:db8:0:2::1"));
    }
}
