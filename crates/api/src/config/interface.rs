//! Types of options about network interfaces: patterns and Ethernet addresses.

use super::value::{Limits, Value, quote};
use core::fmt;
use std::net::IpAddr;
use toml::de::DeValue;

/// Maximum length of an interface name, bytes.
const NAME_MAX: usize = 15;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next()?;
            let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            *byte = u8::from_str_radix(part, 16).ok().filter(|_| digits)?;
        }
        parts.next().is_none().then_some(MacAddress(bytes))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An Ethernet multicast address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacGroup(pub MacAddress);

impl Value for MacGroup {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        MacAddress::parse(value.as_str()?).filter(|mac| mac.0[0] & 1 == 1).map(MacGroup)
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "an Ethernet group address in quotes: six bytes, the first one odd, such as \
         \"01:00:5e:00:17:aa\""
            .to_owned()
    }
}

/// A pattern that selects network interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InterfacePattern {
    /// The interface's name, with the wildcards `*` and `?`.
    Name(String),
    /// The interface's Ethernet address.
    Mac(MacAddress),
    /// A network, with its prefix length, that contains one of the interface's addresses.
    Subnet(IpAddr, u8),
}

impl InterfacePattern {
    fn parse(text: &str) -> Option<Self> {
        if let Some(mac) = MacAddress::parse(text) {
            return Some(InterfacePattern::Mac(mac));
        }
        if let Some((network, bits)) = text.split_once('/') {
            let network: IpAddr = network.parse().ok()?;
            let bits_max = if network.is_ipv4() { 32 } else { 128 };
            let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
            let bits = bits.parse().ok().filter(|bits| digits && *bits <= bits_max)?;
            return Some(InterfacePattern::Subnet(network, bits));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(InterfacePattern::Subnet(
                address,
                if address.is_ipv4() { 32 } else { 128 },
            ));
        }
        let fits = |b: u8| b.is_ascii_graphic() && b != b':';
        let name = (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(fits);
        name.then(|| InterfacePattern::Name(text.to_owned()))
    }
}

impl Value for InterfacePattern {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        Self::parse(value.as_str()?)
    }

    fn write(&self) -> Option<String> {
        Some(quote(&match self {
            InterfacePattern::Name(name) => name.clone(),
            InterfacePattern::Mac(mac) => mac.to_string(),
            InterfacePattern::Subnet(network, bits) => format!("{network}/{bits}"),
        }))
    }

    fn expected(_: &Limits) -> String {
        "an interface in quotes: a name with * and ?, such as \"eth*\", its Ethernet address, or a \
         network that contains its address, such as \"192.0.2.0/24\""
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_parses_names_addresses_and_networks() {
        let parse = InterfacePattern::parse;
        let subnet = |text: &str, bits| Some(InterfacePattern::Subnet(text.parse().unwrap(), bits));
        for (text, expected) in [
            ("*", Some(InterfacePattern::Name("*".into()))),
            ("wl?s*", Some(InterfacePattern::Name("wl?s*".into()))),
            ("08:00:27:01:02:03", Some(InterfacePattern::Mac(MacAddress([8, 0, 0x27, 1, 2, 3])))),
            ("192.0.2.0/24", subnet("192.0.2.0", 24)),
            ("2001:db8::/32", subnet("2001:db8::", 32)),
            ("192.0.2.1", subnet("192.0.2.1", 32)),
            ("::1", subnet("::1", 128)),
            ("192.0.2.0/33", None),
            ("192.0.2.0/+8", None),
            ("eth0/24", None),
            ("08:00:27:01:02", None),
            ("", None),
            ("eth 0", None),
            ("a-name-that-is-too-long", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn mac_address_parses_six_bytes() {
        assert!(MacAddress::parse("01:00:5E:00:17:aa").is_some());
        for text in
            ["01:00:5e:00:17", "1:0:5e:0:17:aa", "+1:00:5e:00:17:aa", "01:00:5e:00:17:aa:bb"]
        {
            assert_eq!(MacAddress::parse(text), None, "{text}");
        }
    }
}
