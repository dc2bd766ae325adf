//! State vectors of State Vector Sync (SVS), version 3: how many publications each member has made.
//!
//! ```text
//! StateVector 201 { Entry 202 }…
//! Entry 202       Name 7 | { SeqNoEntry 210 }…
//! SeqNoEntry 210  BootstrapTime 212 | SeqNo 214
//! ```
//!
//! A member counts anew after each start, so its numbers are those of a boot time. Invariant: the
//! encoding of a vector has at most [`VECTOR_BYTES_MAX`] bytes, so that it fits a packet; entries
//! are in canonical order.

use nw_name::{Name, NameRef};
use nw_wire::tlv::{Reader, Tlv, push_integer, push_tlv};
use std::collections::BTreeMap;

const STATE_VECTOR: u32 = 201;
const ENTRY: u32 = 202;
const NUMBER_ENTRY: u32 = 210;
const BOOT_TIME: u32 = 212;
const NUMBER: u32 = 214;
const NAME: u32 = 7;

/// Bytes of an encoded vector at most.
pub const VECTOR_BYTES_MAX: usize = 7000;
/// Bytes of the numbers of one boot time at most: three heads, two integers of 8 bytes.
const NUMBER_ENTRY_BYTES: usize = 22;
/// Bytes of the heads of an entry and its name at most.
const ENTRY_HEAD_BYTES: usize = 6;

/// Numbers of the last publications of all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateVector {
    members: BTreeMap<Name, BTreeMap<u64, u64>>,
    /// Upper bound of the encoded bytes.
    bytes: usize,
}

impl StateVector {
    /// Returns the number of a member's last publication since a boot time, 0 if it has none.
    pub fn number(&self, name: &Name, boot_s: u64) -> u64 {
        self.members.get(name).and_then(|boots| boots.get(&boot_s)).copied().unwrap_or(0)
    }

    /// Sets a number that is greater than the known one. Returns false if it is not, or if the
    /// vector is full.
    pub fn raise(&mut self, name: &Name, boot_s: u64, number: u64) -> bool {
        if number <= self.number(name, boot_s) {
            return false;
        }
        let boots = self.members.get(name);
        let is_new_boot = boots.is_none_or(|boots| !boots.contains_key(&boot_s));
        let head = ENTRY_HEAD_BYTES + name.as_ref().as_bytes().len();
        let added =
            usize::from(boots.is_none()) * head + usize::from(is_new_boot) * NUMBER_ENTRY_BYTES;
        if self.bytes + added > VECTOR_BYTES_MAX - ENTRY_HEAD_BYTES {
            return false;
        }
        self.bytes += added;
        self.members.entry(name.clone()).or_default().insert(boot_s, number);
        true
    }

    /// Returns members, boot times and numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64, u64)> {
        let of_member = |(name, boots): (_, &'_ BTreeMap<u64, u64>)| {
            let numbers: Vec<_> = boots.iter().map(|(boot, number)| (*boot, *number)).collect();
            numbers.into_iter().map(move |(boot, number)| (name, boot, number))
        };
        self.members.iter().flat_map(of_member)
    }

    /// Returns the members that have a number greater than in another vector.
    pub fn newer_than<'a>(&'a self, other: &'a StateVector) -> impl Iterator<Item = &'a Name> {
        let newer = self.iter().filter(|(name, boot, number)| *number > other.number(name, *boot));
        newer.map(|(name, _, _)| name)
    }

    /// Returns the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut entries = Vec::new();
        for (name, boots) in &self.members {
            let mut entry = Vec::new();
            name.as_ref().encode(&mut entry);
            for (boot_s, number) in boots {
                let mut numbers = Vec::new();
                push_integer(BOOT_TIME, *boot_s, &mut numbers);
                push_integer(NUMBER, *number, &mut numbers);
                push_tlv(NUMBER_ENTRY, &numbers, &mut entry);
            }
            push_tlv(ENTRY, &entry, &mut entries);
        }
        let mut out = Vec::new();
        push_tlv(STATE_VECTOR, &entries, &mut out);
        out
    }

    /// Reads a vector. Elements after it, unknown elements that are not critical, and members for
    /// which there is no space are ignored. `None` if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut vector = StateVector::default();
        let outer = Reader::new(bytes, 0).next().ok()??;
        if outer.typ != STATE_VECTOR {
            return None;
        }
        let mut entries = outer.inner();
        while let Some(entry) = entries.next().ok()? {
            match entry.typ {
                ENTRY => vector.decode_entry(&entry)?,
                _ if entry.is_critical() => return None,
                _ => {}
            }
        }
        Some(vector)
    }

    fn decode_entry(&mut self, entry: &Tlv<'_>) -> Option<()> {
        let mut fields = entry.inner();
        let name = fields.next().ok()?.filter(|field| field.typ == NAME)?;
        let name = NameRef::check(name.value).ok()?.to_name();
        while let Some(field) = fields.next().ok()? {
            match field.typ {
                NUMBER_ENTRY => {
                    let mut numbers = field.inner();
                    let boot = numbers.next().ok()?.filter(|field| field.typ == BOOT_TIME)?;
                    let number = numbers.next().ok()?.filter(|field| field.typ == NUMBER)?;
                    self.raise(&name, boot.integer().ok()?, number.integer().ok()?);
                }
                _ if field.is_critical() => return None,
                _ => {}
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Bytes that NDNts and NDNd have for this vector.
    const KNOWN: &[u8] = &[
        0xc9, 25, 0xca, 23, 7, 3, 8, 1, b'a', 0xd2, 6, 0xd4, 1, 5, 0xd6, 1, 2, 0xd2, 8, 0xd4, 2, 1,
        0, 0xd6, 2, 1, 1,
    ];

    #[test]
    fn vector_has_the_bytes_of_other_implementations() {
        let mut vector = StateVector::default();
        assert!(vector.raise(&name("/a"), 5, 2) && vector.raise(&name("/a"), 256, 257));
        assert!(!vector.raise(&name("/a"), 5, 2));
        assert_eq!(vector.encode(), KNOWN);
        assert_eq!(StateVector::decode(KNOWN).as_ref(), Some(&vector));
        for end in 0..KNOWN.len() {
            assert_eq!(StateVector::decode(&KNOWN[..end]), None, "{end} bytes");
        }
        let mut other = KNOWN.to_vec();
        other[2] = 0xcb;
        assert_eq!(StateVector::decode(&other), None, "an unknown critical element");
    }

    #[test]
    fn vector_of_many_members_fits_a_packet() {
        let mut vector = StateVector::default();
        for number in 0..10_000_u64 {
            vector.raise(&name(&format!("/member/{number}")), u64::MAX - number, u64::MAX);
        }
        let bytes = vector.encode();
        assert!(bytes.len() <= VECTOR_BYTES_MAX && bytes.len() > VECTOR_BYTES_MAX / 2);
        assert_eq!(StateVector::decode(&bytes), Some(vector.clone()));
        assert!(vector.iter().count() > 100);
    }
}
