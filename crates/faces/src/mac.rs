//! Addresses of network cards, and what matches them.

use core::fmt;
use core::str::FromStr;

/// An Ethernet address: six octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// Text that is no Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no Ethernet address: expected six octets, as in 08:00:27:01:02:03")]
pub struct MacError(String);

impl Mac {
    /// The group that NDN routers join on Ethernet.
    pub const NDN_GROUP: Mac = Mac([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);

    /// True for addresses of groups, the broadcast address among them.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let bad = || MacError(text.to_owned());
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            // One or two digits: 8:0:27:… is written by some tools. A sign is none.
            let part = parts.next().filter(|p| p.len() <= 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *octet = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(bad)?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Mac(octets)) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        for text in ["01:00:5e:00:17:aa", "01-00-5E-00-17-AA", "1:0:5e:0:17:aa"] {
            assert_eq!(text.parse::<Mac>().unwrap(), Mac::NDN_GROUP);
        }
        assert_eq!(Mac::NDN_GROUP.to_string(), "01:00:5e:00:17:aa");
        assert!(Mac::NDN_GROUP.is_group() && !Mac([2, 0, 0, 0, 0, 1]).is_group());
        for text in [
            "",
            "01:00:5e:00:17",
            "01:00:5e:00:17:aa:bb",
            "+1:00:5e:00:17:aa",
            "001:0:0:0:0:0",
            "x:0:0:0:0:0",
        ] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }
}
