//! Option types that only the balancer has.

use nw_api::config::value::{DeValue, Limits, Value, quote};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Maximum weight. Only the ratio of weights matters.
pub const WEIGHT_MAX: u32 = 1_000_000;

/// A unicast IP address without a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ip(pub IpAddr);

impl Value for Ip {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let address: IpAddr = value.as_str()?.parse().ok()?;
        let usable = !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
        usable.then_some(Ip(address))
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "an IP address of one machine in quotes, without a port, such as \"192.0.2.1\" or \"2001:db8::1\""
            .to_owned()
    }
}

/// An IP address with its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub bits: u8,
}

impl core::fmt::Display for Cidr {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Value for Cidr {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        let (address, bits) = value.as_str()?.split_once('/')?;
        let (address, bits): (IpAddr, u8) = (address.parse().ok()?, bits.parse().ok()?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        (1..=most).contains(&bits).then_some(Cidr { address, bits })
    }

    fn write(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }

    fn expected(_: &Limits) -> String {
        "an address and the bits of its network in quotes, such as \"192.0.2.1/24\"".to_owned()
    }
}

/// A member's share of names in relation to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// A configured number.
    Fixed(u32),
    /// Measured when the member joins.
    Measured,
}

impl core::fmt::Display for Weight {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Weight::Fixed(weight) => weight.fmt(f),
            Weight::Measured => f.write_str("measured"),
        }
    }
}

impl core::str::FromStr for Weight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "invalid weight {text:?}: expected a number from 1 to {WEIGHT_MAX}, or measured"
            )
        };
        match text {
            "measured" => Ok(Weight::Measured),
            number => match number.parse() {
                Ok(weight @ 1..=WEIGHT_MAX) => Ok(Weight::Fixed(weight)),
                _ => Err(wrong()),
            },
        }
    }
}

impl Value for Weight {
    fn read(value: &DeValue<'_>, _: &Limits) -> Option<Self> {
        if value.as_str() == Some("measured") {
            return Some(Weight::Measured);
        }
        u32::read(value, &Some(1..=u64::from(WEIGHT_MAX))).map(Weight::Fixed)
    }

    fn write(&self) -> Option<String> {
        match self {
            Weight::Fixed(weight) => weight.write(),
            Weight::Measured => Some(quote("measured")),
        }
    }

    fn expected(_: &Limits) -> String {
        format!("an integer from 1 to {WEIGHT_MAX}, or \"measured\"")
    }
}
