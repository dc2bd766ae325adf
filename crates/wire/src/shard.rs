//! Which shard of a router a packet belongs to, decided from its first bytes.
//!
//! The same algorithm runs in the kernel (`crates/kernel/bpf/ndn.h`) for each datagram before any
//! user code; `tests/vectors/shards.txt` holds both to the same results. It reads no more than the
//! kernel program can: packets are not checked here, and what exceeds the limits below is assigned
//! by a part of it. After decoding, a packet in a wrong shard is forwarded to the right one.
//!
//! | packet | shard |
//! |---|---|
//! | Interest | by the hash of its name, without an implicit digest at the end |
//! | Data, Nack | the first byte of its PIT token, if that is one of ours; else as an Interest |
//! | one of several fragments | by the number that all of them share: Sequence less FragIndex |
//! | with Ack or TxSequence, idle, malformed, not NDN, a link header that is too long | 0 |
//!
//! Bytes after the outermost element are ignored: several datagrams may be received as one block.

use crate::types as t;
use nw_name::HashKey;
use nw_name::hash::shard_of;
use nw_name::tlv::{read_integer, read_number};

/// Most shards.
pub const SHARDS_MAX: u8 = 64;
/// Most name components that are hashed; a longer name is assigned by the first ones.
pub const COMPONENTS_MAX: usize = 16;
/// Most bytes of a name that are read; a longer name is assigned by the components that fit.
pub const NAME_BYTES_MAX: usize = 512;
/// The link header, and type and length of the name, must be within this many bytes.
pub const HEAD_LEN_MAX: usize = 128;
/// Most fields of a link header that are read, including the fragment.
pub const FIELDS_MAX: usize = 16;

/// Bytes needed for a field's type, length and number, which must be available before
/// [`HEAD_LEN_MAX`].
const FIELD_HEAD_LEN_MAX: usize = 16;
/// Bytes needed for a component's type and length, which must be available before
/// [`NAME_BYTES_MAX`].
const COMPONENT_HEAD_LEN_MAX: usize = 8;
const TOKEN_LEN: usize = 6;

/// Why a shard was chosen. The numbers are those of the kernel program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// An Interest, by its name.
    Interest,
    /// A Data without a token of ours, by its name.
    Data,
    /// A Nack without a token of ours, by its Interest's name.
    Nack,
    /// A Data or Nack, by its token.
    Token,
    /// A fragment, to the same shard as the others of its packet.
    Fragment,
    /// By the first components of a name with more than 16 components or more than 512 bytes.
    NameLimit,
    /// Shard 0: the link header does not end, or the name does not begin, within 128 bytes.
    HeaderLimit,
    /// Shard 0: a packet of a reliable link, which one shard must receive completely.
    Reliability,
    /// Shard 0: a link packet without a fragment.
    Idle,
    /// Shard 0: it begins like a packet, but is malformed.
    Malformed,
    /// Shard 0: not an NDN packet.
    NotNdn,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Reason; 11] = [
        Reason::Interest,
        Reason::Data,
        Reason::Nack,
        Reason::Token,
        Reason::Fragment,
        Reason::NameLimit,
        Reason::HeaderLimit,
        Reason::Reliability,
        Reason::Idle,
        Reason::Malformed,
        Reason::NotNdn,
    ];

    /// Returns the counter's name: lower case, words joined by `_`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Interest => "interest",
            Reason::Data => "data",
            Reason::Nack => "nack",
            Reason::Token => "token",
            Reason::Fragment => "fragment",
            Reason::NameLimit => "name_limit",
            Reason::HeaderLimit => "header_limit",
            Reason::Reliability => "reliability",
            Reason::Idle => "idle",
            Reason::Malformed => "malformed",
            Reason::NotNdn => "not_ndn",
        }
    }
}

/// How the shard is chosen.
enum Choice {
    Hash(u64),
    Token(u8),
    First,
}

/// Returns the shard that the kernel chooses for a datagram among `shards` (1 to [`SHARDS_MAX`]),
/// and why.
pub fn shard_of_packet(datagram: &[u8], key: &HashKey, shards: u8) -> (u8, Reason) {
    debug_assert!((1..=SHARDS_MAX).contains(&shards), "1 to 64 shards");
    let (reason, by) = match choose(datagram, key, shards) {
        Ok(chosen) => chosen,
        Err(reason) => (reason, Choice::First),
    };
    let shard = match by {
        Choice::Hash(hash) => shard_of(hash, usize::from(shards)) as u8,
        Choice::Token(shard) => shard,
        Choice::First => 0,
    };
    (shard, reason)
}

/// Returns the hash by which a packet's fragments are assigned. `first_sequence` is the Sequence of
/// its first fragment: any fragment's Sequence less its FragIndex.
pub fn fragments_hash(key: &HashKey, first_sequence: u64) -> u64 {
    key.step(key.root(), &first_sequence.to_le_bytes())
}

/// Chooses by the outermost element and the link header.
fn choose(datagram: &[u8], key: &HashKey, shards: u8) -> Result<(Reason, Choice), Reason> {
    if !matches!(
        datagram.first().map(|typ| u32::from(*typ)),
        Some(t::INTEREST | t::DATA | t::LP_PACKET)
    ) {
        return Err(Reason::NotNdn);
    }
    let outer = element(datagram, 0, datagram.len())?;
    let packet = &datagram[..outer.end];
    if outer.typ != t::LP_PACKET {
        return by_name(packet, &outer, false, key);
    }
    let header = Header::read(packet, outer.value)?;
    if header.frag_count == 0
        || header.frag_count > crate::lp::FRAG_COUNT_MAX
        || header.frag_index >= header.frag_count
    {
        return Err(Reason::Malformed);
    }
    if header.frag_count > 1 {
        let first = header.sequence.ok_or(Reason::Malformed)?.wrapping_sub(header.frag_index);
        return Ok((Reason::Fragment, Choice::Hash(fragments_hash(key, first))));
    }
    within_head(packet, header.fragment)?;
    let inner = element(packet, header.fragment, packet.len())?;
    let answer = match inner.typ {
        t::INTEREST => header.nack,
        t::DATA if !header.nack => true,
        _ => return Err(Reason::Malformed),
    };
    match header.token {
        Some(shard) if answer && shard < shards => Ok((Reason::Token, Choice::Token(shard))),
        _ => by_name(packet, &inner, header.nack, key),
    }
}

/// An element's type, and the offsets of its value's start and end.
struct Element {
    typ: u32,
    value: usize,
    end: usize,
}

/// Reads the element at `at`, which must end by `limit`.
fn element(bytes: &[u8], at: usize, limit: usize) -> Result<Element, Reason> {
    let read = |at| read_number(&bytes[..limit], at).map_err(|_| Reason::Malformed);
    let (typ, after) = read(at)?;
    let (len, value) = read(after)?;
    let end = usize::try_from(len)
        .ok()
        .and_then(|len| value.checked_add(len))
        .ok_or(Reason::Malformed)?;
    match u16::try_from(typ) {
        Ok(typ) if end <= limit => Ok(Element { typ: u32::from(typ), value, end }),
        _ => Err(Reason::Malformed),
    }
}

/// Checks that a field starts within [`HEAD_LEN_MAX`].
fn within_head(packet: &[u8], at: usize) -> Result<(), Reason> {
    if at + FIELD_HEAD_LEN_MAX > HEAD_LEN_MAX && packet.len() > HEAD_LEN_MAX {
        return Err(Reason::HeaderLimit);
    }
    Ok(())
}

/// The fields of a link header that are needed here.
struct Header {
    sequence: Option<u64>,
    frag_index: u64,
    frag_count: u64,
    token: Option<u8>,
    nack: bool,
    fragment: usize,
}

impl Header {
    /// Reads the link header fields from offset `at` on.
    fn read(packet: &[u8], mut at: usize) -> Result<Self, Reason> {
        let mut header = Header {
            sequence: None,
            frag_index: 0,
            frag_count: 1,
            token: None,
            nack: false,
            fragment: 0,
        };
        let mut last = 0;
        for _ in 0..FIELDS_MAX {
            if at >= packet.len() {
                return Err(Reason::Idle);
            }
            within_head(packet, at)?;
            let field = element(packet, at, packet.len())?;
            if field.typ == t::LP_FRAGMENT {
                // "Fragment last".
                if field.value == field.end || field.end != packet.len() {
                    return Err(Reason::Malformed);
                }
                header.fragment = field.value;
                return Ok(header);
            }
            // Ack may repeat, but reading ends at the first one.
            if field.typ <= last {
                return Err(Reason::Malformed);
            }
            last = field.typ;
            let value = &packet[field.value..field.end];
            let integer = || read_integer(value, 0).map_err(|_| Reason::Malformed);
            match field.typ {
                t::LP_SEQUENCE if value.len() == 8 => header.sequence = Some(integer()?),
                t::LP_FRAG_INDEX => header.frag_index = integer()?,
                t::LP_FRAG_COUNT => header.frag_count = integer()?,
                t::LP_PIT_TOKEN if (1..=32).contains(&value.len()) => {
                    header.token = (value.len() == TOKEN_LEN).then(|| value[0]);
                }
                t::LP_NACK => header.nack = true,
                t::LP_ACK | t::LP_TX_SEQUENCE => return Err(Reason::Reliability),
                // "Ignored if in 800..959 with the two lowest bits clear."
                800..=959 if field.typ & 3 == 0 => {}
                _ => return Err(Reason::Malformed),
            }
            at = field.end;
        }
        Err(Reason::HeaderLimit)
    }
}

/// Chooses by the hash of the packet's name.
fn by_name(
    packet: &[u8],
    network: &Element,
    nack: bool,
    key: &HashKey,
) -> Result<(Reason, Choice), Reason> {
    let reason = match network.typ {
        _ if nack => Reason::Nack,
        t::DATA => Reason::Data,
        _ => Reason::Interest,
    };
    if network.value >= network.end {
        return Err(Reason::Malformed);
    }
    within_head(packet, network.value)?;
    let name = element(packet, network.value, network.end)?;
    if name.typ != t::NAME {
        return Err(Reason::Malformed);
    }
    let (hash, whole) = prefix_hashes(&packet[name.value..name.end], key, |_, _, _| ())?;
    Ok((if whole { reason } else { Reason::NameLimit }, Choice::Hash(hash)))
}

/// Returns the hash of a name (its TLV-VALUE) as far as it is read, and whether that is all of it;
/// implicit digests at the end are left out. `visit` is called for each prefix hashed, from one
/// component on: number of components, whether the last one is an implicit digest, hash.
///
/// # Errors
/// [`Reason::Malformed`] when it is not a valid name.
pub fn prefix_hashes(
    name: &[u8],
    key: &HashKey,
    mut visit: impl FnMut(usize, bool, u64),
) -> Result<(u64, bool), Reason> {
    let copied = name.len().min(NAME_BYTES_MAX);
    let (mut at, mut state, mut without_digest) = (0, key.root(), key.root());
    for count in 0.. {
        if at >= name.len() {
            break;
        }
        let (typ, end) = match name[at..copied] {
            [typ @ 3..=252, len @ 0..=252, ..]
                if count < COMPONENTS_MAX && at + 2 + usize::from(len) <= copied =>
            {
                (u32::from(typ), at + 2 + usize::from(len))
            }
            _ if count >= COMPONENTS_MAX => return Ok((without_digest, false)),
            _ if copied < name.len() && at + COMPONENT_HEAD_LEN_MAX > copied => {
                return Ok((without_digest, false));
            }
            _ => {
                let component = element(name, at, name.len())?;
                if component.typ == 0 || component.typ <= 2 && component.end - component.value != 32
                {
                    return Err(Reason::Malformed);
                }
                if component.end > copied {
                    return Ok((without_digest, false));
                }
                (component.typ, component.end)
            }
        };
        state = key.step(state, &name[at..end]);
        visit(count + 1, typ == 1, state);
        if typ != 1 {
            without_digest = state;
        }
        at = end;
    }
    Ok((without_digest, true))
}
