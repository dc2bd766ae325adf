//! Filters of network interfaces: by name, Ethernet address or network address.

use super::Interface;
use nw_link::Mac;
use std::net::IpAddr;

/// A condition on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Name of the interface; `*` matches any characters, `?` one.
    Name(Box<str>),
    /// Ethernet address of the interface.
    Mac(Mac),
    /// One of its addresses is in this network; the number is the prefix length in bits.
    Subnet(IpAddr, u8),
}

impl Pattern {
    /// Returns whether the interface matches.
    pub fn matches(&self, interface: &Interface) -> bool {
        match self {
            Pattern::Name(glob) => glob_matches(glob.as_bytes(), interface.name.as_bytes()),
            Pattern::Mac(mac) => interface.mac == Some(*mac),
            Pattern::Subnet(network, bits) => {
                interface.addresses.iter().any(|address| in_subnet(*address, *network, *bits))
            }
        }
    }
}

/// A filter: accepts an interface that matches a pattern of `allow` and none of `deny`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Patterns of accepted interfaces.
    pub allow: Vec<Pattern>,
    /// Patterns of excluded interfaces.
    pub deny: Vec<Pattern>,
}

impl Default for Filter {
    fn default() -> Self {
        Filter { allow: vec![Pattern::Name("*".into())], deny: Vec::new() }
    }
}

impl Filter {
    /// Returns whether the filter accepts the interface.
    pub fn accepts(&self, interface: &Interface) -> bool {
        let matches_any =
            |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(interface));
        matches_any(&self.allow) && !matches_any(&self.deny)
    }
}

fn in_subnet(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let common = |a: u128, b: u128, width: u32| {
        let cut = width.saturating_sub(u32::from(bits));
        a.checked_shr(cut).unwrap_or(0) == b.checked_shr(cut).unwrap_or(0)
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => common(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => common(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Returns whether `text` matches `glob`. Time at most proportional to the product of the lengths:
/// the last `*` takes one more character whenever the remainder does not match.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(b'?') => (at, position) = (at + 1, position + 1),
            Some(byte) if *byte == text[position] => (at, position) = (at + 1, position + 1),
            _ => match star {
                Some((start, taken)) => {
                    star = Some((start, taken + 1));
                    (at, position) = (start + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn eth0() -> Interface {
        Interface {
            name: "eth0".into(),
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            addresses: ["192.0.2.5", "2001:db8::5"].map(|a| a.parse().unwrap()).into(),
            ..Interface::default()
        }
    }

    fn name(glob: &str) -> Pattern {
        Pattern::Name(glob.into())
    }

    #[test]
    fn glob_matches_names() {
        for (glob, text, expected) in [
            ("*", "eth0", true),
            ("*", "", true),
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth?", "eth0", true),
            ("eth?", "eth", false),
            ("e*0", "eth0", true),
            ("*th*", "eth0", true),
            ("wlp*s*f*", "wlp0s20f3", true),
            ("wl*", "eth0", false),
            ("**", "x", true),
            ("a*b*c", "aXbXbXc", true),
            ("", "x", false),
        ] {
            assert_eq!(glob_matches(glob.as_bytes(), text.as_bytes()), expected, "{glob} {text}");
        }
    }

    #[test]
    fn pattern_matches_name_mac_or_subnet() {
        let subnet = |text: &str, bits| Pattern::Subnet(text.parse().unwrap(), bits);
        for (pattern, expected) in [
            (Pattern::Mac(Mac([2, 0, 0, 0, 0, 1])), true),
            (Pattern::Mac(Mac([2, 0, 0, 0, 0, 2])), false),
            (subnet("192.0.2.0", 24), true),
            (subnet("192.0.2.5", 32), true),
            (subnet("192.0.3.0", 24), false),
            (subnet("0.0.0.0", 0), true),
            (subnet("2001:db8::", 32), true),
            (subnet("2001:db9::", 32), false),
            (subnet("::", 0), true),
        ] {
            assert_eq!(pattern.matches(&eth0()), expected, "{pattern:?}");
        }
    }

    #[test]
    fn the_blacklist_wins() {
        let filter = |white: &[Pattern], black: &[Pattern]| Filter {
            allow: white.into(),
            deny: black.into(),
        };
        assert!(Filter::default().accepts(&eth0()));
        assert!(!filter(&[], &[]).accepts(&eth0()));
        assert!(!filter(&[name("*")], &[name("eth*")]).accepts(&eth0()));
        assert!(filter(&[name("eth0")], &[name("docker*")]).accepts(&eth0()));
    }

    /// The reference: tries every match.
    fn naive(glob: &[u8], text: &[u8]) -> bool {
        match (glob.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                naive(rest, text) || text.split_first().is_some_and(|(_, t)| naive(glob, t))
            }
            (Some((b'?', rest)), Some((_, t))) => naive(rest, t),
            (Some((g, rest)), Some((c, t))) => g == c && naive(rest, t),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn glob_equals_naive_matching(glob in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(glob_matches(glob.as_bytes(), text.as_bytes()), naive(glob.as_bytes(), text.as_bytes()));
        }
    }
}
