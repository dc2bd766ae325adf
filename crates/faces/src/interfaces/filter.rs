//! Which interfaces are wanted: by name, Ethernet address or network address.

use super::Interface;
use crate::mac::Mac;
use std::net::IpAddr;

/// What an interface may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Its name; `*` stands for any characters, `?` for one.
    Name(Box<str>),
    /// Its Ethernet address.
    Mac(Mac),
    /// One of its addresses is in this network: so many leading bits are equal.
    Subnet(IpAddr, u8),
}

impl Pattern {
    /// True when the interface matches.
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

/// Interfaces that match one of the first and none of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Those that are wanted.
    pub whitelist: Vec<Pattern>,
    /// Those that are not, even so.
    pub blacklist: Vec<Pattern>,
}

impl Default for Filter {
    fn default() -> Self {
        Filter { whitelist: vec![Pattern::Name("*".into())], blacklist: Vec::new() }
    }
}

impl Filter {
    /// True when the interface is wanted.
    pub fn accepts(&self, interface: &Interface) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(interface));
        any(&self.whitelist) && !any(&self.blacklist)
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

/// In time proportional to the product of the lengths at most: the last `*` takes one more character whenever the rest does not fit.
fn glob_matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(b'?') => (at, seen) = (at + 1, seen + 1),
            Some(byte) if *byte == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => match star {
                Some((start, taken)) => {
                    star = Some((start, taken + 1));
                    (at, seen) = (start + 1, taken + 1);
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
    fn globs() {
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
    fn patterns() {
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
            whitelist: white.into(),
            blacklist: black.into(),
        };
        assert!(Filter::default().accepts(&eth0()));
        assert!(!filter(&[], &[]).accepts(&eth0()));
        assert!(!filter(&[name("*")], &[name("eth*")]).accepts(&eth0()));
        assert!(filter(&[name("eth0")], &[name("docker*")]).accepts(&eth0()));
    }

    /// By trying every way.
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
        fn as_trying_every_way(glob in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            prop_assert_eq!(glob_matches(glob.as_bytes(), text.as_bytes()), naive(glob.as_bytes(), text.as_bytes()));
        }
    }
}
