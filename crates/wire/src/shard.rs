//! Which shard of a router a packet goes to, told from its first octets.
//!
//! The twin of `crates/kernel/bpf/ndn.h`, which the kernel runs on each datagram before any of us sees it; both are held to
//! `tests/vectors/shards.txt`. It reads no more than that program can: a packet is not checked here, and what is beyond the limits below
//! goes where a part of it says. Whoever decodes the packet sends on what came to a wrong shard.
//!
//! | packet | shard |
//! |---|---|
//! | Interest | by the hash of its name, an implicit digest at the end left out |
//! | Data, Nack | the first octet of its PIT token, if that is one of ours; else as an Interest |
//! | one of several fragments | by the number that all of them share: Sequence less FragIndex |
//! | with Ack or TxSequence, idle, malformed, not NDN, a link header that is too long | 0 |
//!
//! What follows the outermost element is not looked at: datagrams of one run come in one piece.

use crate::types as t;
use nw_name::HashKey;
use nw_name::hash::shard_of;
use nw_name::tlv::{read_integer, read_number};

/// Most shards there may be.
pub const SHARDS_MAX: u8 = 64;
/// Components of a name that are hashed; one with more goes by so many.
pub const COMPONENTS_MAX: usize = 16;
/// Octets of a name that are looked at; a longer one goes by the components that are whole in them.
pub const NAME_OCTETS_MAX: usize = 512;
/// Octets of a packet within which its link header, and the type and length of its name, have to be.
pub const HEAD_OCTETS: usize = 128;
/// Fields of a link header that are looked at, the fragment included.
pub const FIELDS_MAX: usize = 16;

/// Octets that a field's type, length and number may take, and that must be there before [`HEAD_OCTETS`] end.
const STEP_OCTETS: usize = 16;
/// Octets for a component's type and length, which must be there before [`NAME_OCTETS_MAX`] end.
const COMPONENT_HEAD_OCTETS: usize = 8;
const TOKEN_LEN: usize = 6;

/// Why a shard was chosen. The numbers are the kernel program's.
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
    /// A fragment, with all others of its packet.
    Fragment,
    /// By the first components of a name that has more than 16, or more than 512 octets.
    NameLimit,
    /// Shard 0: the link header does not end, or the name does not begin, within 128 octets.
    HeaderLimit,
    /// Shard 0: the packet is of a link with reliability, which one shard must see whole.
    Reliability,
    /// Shard 0: a link packet without a fragment.
    Idle,
    /// Shard 0: begins like a packet, and is none.
    Malformed,
    /// Shard 0: no packet of NDN.
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

    /// The counter's name: lower case, words joined by `_`.
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

/// What the choice is made by.
enum By {
    Hash(u64),
    Token(u8),
    Nothing,
}

/// The shard that the kernel chooses for a datagram among `shards` (1 to [`SHARDS_MAX`]), and why.
pub fn shard_of_packet(datagram: &[u8], key: &HashKey, shards: u8) -> (u8, Reason) {
    debug_assert!((1..=SHARDS_MAX).contains(&shards), "1 to 64 shards");
    let (reason, by) = match choose(datagram, key, shards) {
        Ok(chosen) => chosen,
        Err(reason) => (reason, By::Nothing),
    };
    let shard = match by {
        By::Hash(hash) => shard_of(hash, usize::from(shards)) as u8,
        By::Token(shard) => shard,
        By::Nothing => 0,
    };
    (shard, reason)
}

/// The hash that a packet's fragments go by. `first_sequence` is the Sequence of the first: any fragment's Sequence less its FragIndex.
pub fn fragments_hash(key: &HashKey, first_sequence: u64) -> u64 {
    key.step(key.root(), &first_sequence.to_le_bytes())
}

fn choose(datagram: &[u8], key: &HashKey, shards: u8) -> Result<(Reason, By), Reason> {
    if !matches!(datagram.first().map(|typ| u32::from(*typ)), Some(t::INTEREST | t::DATA | t::LP_PACKET)) {
        return Err(Reason::NotNdn);
    }
    let outer = head(datagram, 0, datagram.len())?;
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
        return Ok((Reason::Fragment, By::Hash(fragments_hash(key, first))));
    }
    within_head(packet, header.fragment)?;
    let inner = head(packet, header.fragment, packet.len())?;
    let answer = match inner.typ {
        t::INTEREST => header.nack,
        t::DATA if !header.nack => true,
        _ => return Err(Reason::Malformed),
    };
    match header.token {
        Some(shard) if answer && shard < shards => Ok((Reason::Token, By::Token(shard))),
        _ => by_name(packet, &inner, header.nack, key),
    }
}

/// An element's type, and where its value starts and ends.
struct Head {
    typ: u32,
    value: usize,
    end: usize,
}

/// The element at `at`, which has to end by `limit`.
fn head(bytes: &[u8], at: usize, limit: usize) -> Result<Head, Reason> {
    let read = |at| read_number(&bytes[..limit], at).map_err(|_| Reason::Malformed);
    let (typ, after) = read(at)?;
    let (len, value) = read(after)?;
    let end = usize::try_from(len).ok().and_then(|len| value.checked_add(len)).ok_or(Reason::Malformed)?;
    match u16::try_from(typ) {
        Ok(typ) if end <= limit => Ok(Head { typ: u32::from(typ), value, end }),
        _ => Err(Reason::Malformed),
    }
}

fn within_head(packet: &[u8], at: usize) -> Result<(), Reason> {
    if at + STEP_OCTETS > HEAD_OCTETS && packet.len() > HEAD_OCTETS {
        return Err(Reason::HeaderLimit);
    }
    Ok(())
}

/// What of a link header matters here.
struct Header {
    sequence: Option<u64>,
    frag_index: u64,
    frag_count: u64,
    token: Option<u8>,
    nack: bool,
    fragment: usize,
}

impl Header {
    fn read(packet: &[u8], mut at: usize) -> Result<Self, Reason> {
        let mut header =
            Header { sequence: None, frag_index: 0, frag_count: 1, token: None, nack: false, fragment: 0 };
        let mut last = 0;
        for _ in 0..FIELDS_MAX {
            if at >= packet.len() {
                return Err(Reason::Idle);
            }
            within_head(packet, at)?;
            let field = head(packet, at, packet.len())?;
            if field.typ == t::LP_FRAGMENT {
                // "Fragment last".
                if field.value == field.end || field.end != packet.len() {
                    return Err(Reason::Malformed);
                }
                header.fragment = field.value;
                return Ok(header);
            }
            // Ack repeats, but ends the reading.
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

fn by_name(packet: &[u8], network: &Head, nack: bool, key: &HashKey) -> Result<(Reason, By), Reason> {
    let reason = match network.typ {
        _ if nack => Reason::Nack,
        t::DATA => Reason::Data,
        _ => Reason::Interest,
    };
    if network.value >= network.end {
        return Err(Reason::Malformed);
    }
    within_head(packet, network.value)?;
    let name = head(packet, network.value, network.end)?;
    if name.typ != t::NAME {
        return Err(Reason::Malformed);
    }
    let (hash, whole) = prefix_hashes(&packet[name.value..name.end], key, |_, _, _| ())?;
    Ok((if whole { reason } else { Reason::NameLimit }, By::Hash(hash)))
}

/// The hash of what can be hashed of a name (its TLV-VALUE), and whether that is all of it; implicit digests at the end are left out.
/// `each` is told of each prefix that is hashed, from one component on: how many components, whether the last is an implicit digest, its hash.
///
/// # Errors
/// [`Reason::Malformed`] when it is no name.
pub fn prefix_hashes(
    name: &[u8],
    key: &HashKey,
    mut each: impl FnMut(usize, bool, u64),
) -> Result<(u64, bool), Reason> {
    let copied = name.len().min(NAME_OCTETS_MAX);
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
            _ if copied < name.len() && at + COMPONENT_HEAD_OCTETS > copied => {
                return Ok((without_digest, false));
            }
            _ => {
                let component = head(name, at, name.len())?;
                if component.typ == 0 || component.typ <= 2 && component.end - component.value != 32 {
                    return Err(Reason::Malformed);
                }
                if component.end > copied {
                    return Ok((without_digest, false));
                }
                (component.typ, component.end)
            }
        };
        state = key.step(state, &name[at..end]);
        each(count + 1, typ == 1, state);
        if typ != 1 {
            without_digest = state;
        }
        at = end;
    }
    Ok((without_digest, true))
}
