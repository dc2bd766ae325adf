//! Ethernet addresses.

use core::fmt;
use core::str::FromStr;

/// An Ethernet address: six bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// The text is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an Ethernet address: expected six bytes, as in 08:00:27:01:02:03")]
pub struct MacError(String);

impl Mac {
    /// The Ethernet group of NDN routers.
    pub const NDN_GROUP: Mac = Mac([0x01, 0x00, 0x5e, 0x00, 0x17, 0xaa]);

    /// Returns whether this is a group address; the broadcast address is one.
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, MacError> {
        let bad = || MacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            // One or two digits, as some tools write 8:0:27:…; no sign.
            let part =
                parts.next().filter(|p| p.len() <= 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or_else(bad)?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(Mac(bytes)) }
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
    fn mac_accepts_usual_notations_only() {
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
