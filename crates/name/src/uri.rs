//! Names as URIs: parsing and formatting.
//!
//! `/a/b` with percent escapes, `<type>=…` for other component types, `sha256digest=` and
//! `params-sha256=` in hexadecimal, `seg=` `v=` `t=` `off=` `seq=` for numbers. A component of
//! periods only is written with three more, so that `.`, `..` and the empty component can be
//! written.

use crate::component::{Component, ComponentType};
use crate::convention::Kind;
use crate::name::{Name, NameRef};
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::str::FromStr;

/// Why a URI is not a valid name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UriError {
    /// The rule that is violated, such as "a name starts with /".
    pub reason: &'static str,
    /// Bytes from the start of the URI.
    pub offset: usize,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a name: {} (at character {})", self.reason, self.offset + 1)
    }
}

impl core::error::Error for UriError {}

const DIGEST_ALIASES: [(&str, ComponentType); 2] = [
    ("sha256digest", ComponentType::IMPLICIT_DIGEST),
    ("params-sha256", ComponentType::PARAMETERS_DIGEST),
];

impl FromStr for Name {
    type Err = UriError;

    fn from_str(uri: &str) -> Result<Self, UriError> {
        let body = uri.strip_prefix("ndn:").unwrap_or(uri);
        // The authority (`ndn://host/a`) is ignored.
        let path = match body.strip_prefix("//") {
            Some(authority) => authority.find('/').map_or("/", |slash| &authority[slash..]),
            None => body,
        };
        let mut offset = uri.len() - path.len();
        let path =
            path.strip_prefix('/').ok_or(UriError { reason: "a name starts with /", offset })?;
        offset += 1;
        let mut name = Name::new();
        // One slash at the end is allowed and adds no component.
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(name);
        }
        for part in path.split('/') {
            parse_component(part, offset, &mut name)?;
            offset += part.len() + 1;
        }
        Ok(name)
    }
}

fn parse_component(part: &str, offset: usize, name: &mut Name) -> Result<(), UriError> {
    let error = |reason| UriError { reason, offset };
    let Some((key, value)) = part.split_once('=') else {
        name.push(Component::generic(&unescape(part, offset)?));
        return Ok(());
    };
    if let Some((_, typ)) = DIGEST_ALIASES.iter().find(|(alias, _)| *alias == key) {
        let digest = unhex(value).ok_or(error("a digest is 64 hexadecimal digits"))?;
        let component = Component::new(*typ, &digest)
            .map_err(|_| error("a digest is 64 hexadecimal digits"))?;
        name.push(component);
        return Ok(());
    }
    if let Some(kind) = Kind::ALL.iter().find(|kind| kind.alias() == key) {
        let number = value
            .parse()
            .map_err(|_| error("a number from 0 to 2^64-1 follows seg=, v=, t=, off= and seq="))?;
        *name = core::mem::take(name).with_number(kind.typ(), number);
        return Ok(());
    }
    if !key.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(error(
            "before = only a type number, seg, v, t, off, seq, sha256digest or params-sha256 is \
             allowed; write a literal = as %3D",
        ));
    }
    let typ = key
        .parse::<u16>()
        .ok()
        .filter(|_| !key.starts_with('0'))
        .and_then(ComponentType::new)
        .ok_or(error("a component's type is a number from 1 to 65535 without leading zeros"))?;
    let value = unescape(value, offset + key.len() + 1)?;
    name.push(Component::new(typ, &value).map_err(|_| error("a digest is 32 bytes"))?);
    Ok(())
}

fn unescape(part: &str, offset: usize) -> Result<Vec<u8>, UriError> {
    let mut value = Vec::with_capacity(part.len());
    let mut bytes = part.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte == b'%' {
            let digits = part.as_bytes().get(at + 1..at + 3).and_then(hex_byte);
            value.push(digits.ok_or(UriError {
                reason: "two hexadecimal digits follow %",
                offset: offset + at,
            })?);
            bytes.nth(1);
        } else {
            value.push(byte);
        }
    }
    if part.bytes().all(|b| b == b'.') {
        if part.len() < 3 {
            return Err(UriError {
                reason: "an empty component, . and .. are written with three more periods",
                offset,
            });
        }
        value.truncate(part.len() - 3);
    }
    Ok(value)
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |d: u8| (d as char).to_digit(16);
    Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    (digits.len().is_multiple_of(2)).then(|| digits.chunks(2).map(hex_byte).collect())?
}

impl fmt::Display for NameRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_char('/');
        }
        self.components().try_for_each(|component| write!(f, "/{component}"))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Display for Component<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((alias, _)) = DIGEST_ALIASES.iter().find(|(_, typ)| *typ == self.typ()) {
            write!(f, "{alias}=")?;
            return self.value().iter().try_for_each(|byte| write!(f, "{byte:02x}"));
        }
        let kind = Kind::ALL.iter().find(|kind| kind.typ() == self.typ());
        if let (Some(kind), Some(number)) = (kind, self.integer()) {
            // The alias is for the shortest encoding only; other encodings are written as bytes.
            if crate::tlv::Integer::new(number).as_bytes() == self.value() {
                return write!(f, "{}={number}", kind.alias());
            }
        }
        if self.typ() != ComponentType::GENERIC {
            write!(f, "{}=", self.typ().number())?;
        }
        if self.value().iter().all(|byte| *byte == b'.') {
            f.write_str("...")?;
        }
        for &byte in self.value() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    f.write_char(byte as char)?
                }
                _ => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn uri_formatted_parses_back() {
        for uri in [
            "/",
            "/a/b",
            "/...",
            "/....",
            "/a%20b/%00",
            "/32=metadata",
            "/seg=0/v=18446744073709551615",
            "/65535=x",
            "/50=abc",
        ] {
            assert_eq!(uri.parse::<Name>().unwrap().to_string(), uri);
        }
        assert_eq!("/8=a".parse::<Name>().unwrap().to_string(), "/a");
        assert_eq!("ndn:/a/".parse::<Name>().unwrap().to_string(), "/a");
        assert_eq!("ndn://host/a".parse::<Name>().unwrap().to_string(), "/a");
        let digest =
            "/sha256digest=00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff";
        assert_eq!(digest.parse::<Name>().unwrap().to_string(), digest);
    }

    #[test]
    fn uri_invalid_returns_offset() {
        for (uri, offset) in [
            ("", 0),
            ("a", 0),
            ("/a//b", 3),
            ("/a/.", 3),
            ("/%4", 1),
            ("/0=a", 1),
            ("/65536=a", 1),
            ("/a/x=b", 3),
            ("/seg=-1", 1),
            ("/sha256digest=00", 1),
            ("/1=a", 1),
        ] {
            assert_eq!(uri.parse::<Name>().unwrap_err().offset, offset, "{uri}");
        }
    }

    #[test]
    fn name_order_is_canonical() {
        let mut names: Vec<Name> = ["/b", "/a/a", "/a", "/aa", "/", "/9=a", "/7=aa"]
            .iter()
            .map(|u| u.parse().unwrap())
            .collect();
        names.sort();
        let sorted: Vec<_> = names.iter().map(|n| n.to_string()).collect();
        assert_eq!(sorted, ["/", "/7=aa", "/a", "/a/a", "/b", "/aa", "/9=a"]);
    }

    proptest! {
        #[test]
        fn uri_any_name_round_trips(
            parts in proptest::collection::vec(
                (3u16..=65535, proptest::collection::vec(any::<u8>(), 0..12)),
                0..8,
            ),
        ) {
            let name: Name = parts
                .iter()
                .map(|(t, v)| Component::new(ComponentType::new(*t).unwrap(), v).unwrap())
                .collect();
            prop_assert_eq!(name.to_string().parse::<Name>().unwrap(), name);
        }

        #[test]
        fn name_byte_order_equals_component_order(
            a in proptest::collection::vec((1u16..600, 0usize..300), 0..4),
            b in proptest::collection::vec((1u16..600, 0usize..300), 0..4),
        ) {
            let fill = vec![0u8; 32];
            let make = |parts: &[(u16, usize)]| -> Name {
                parts
                    .iter()
                    .map(|(t, n)| {
                        let typ = ComponentType::new(*t).unwrap();
                        let value = if typ.is_digest() { fill.clone() } else { vec![1u8; *n] };
                        Name::new().with(Component::new(typ, &value).unwrap())
                    })
                    .fold(Name::new(), |n, c| n.with_name(c.as_ref()))
            };
            let (a, b) = (make(&a), make(&b));
            prop_assert_eq!(a.cmp(&b), a.as_ref().components().cmp(b.as_ref().components()));
        }

        #[test]
        fn uri_any_text_does_not_panic(uri in "\\PC{0,40}") {
            let _ = uri.parse::<Name>();
        }
    }
}
