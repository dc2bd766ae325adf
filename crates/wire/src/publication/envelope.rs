//! The envelope of this project: a publication or a control message on a link between nodes.
//!
//! ```text
//! TLV-TYPE 176 | TLV-LENGTH
//! version 1 (= 1) | kind 1 | flags 1 | hop limit 1 | class 1 | table 1 | ids 1 | more 1
//! FID 32 + 4·more
//! source 8 | sequence 8                    if flags has 1
//! index 4 | count 4 | total length 8       if flags has 2
//! { length 1 | labels 8·length }·ids
//! payload: the bytes that are left
//! ```
//!
//! The number 176 is in the range that the NDN packet format leaves to applications, and even, so
//! that other NDN nodes drop the packet. As it is a TLV it has a length of its own, also in padded
//! frames, and travels on every face, in link packets too. Numbers have the most significant byte
//! first. Unknown versions, kinds and flags are refused.
//!
//! `more` is 0, and the FID a set of 256 bits, unless flags has 4: then the table is 9, and the FID
//! is a [`StagedFilter`] with zeros behind it, as few as possible. So nodes that do not know it
//! refuse the packet by its flags, and forwarders that look at no flags have no such table.

use super::cursor::Cursor;
use super::fid::{FID_LEN, Fid};
use super::id::{Id, IdList, Label};
use super::stages::{STAGES_TABLE, StagedFilter};
use crate::types::PUBLICATION;
use crate::{Error, Fault, PACKET_LEN_MAX, tlv};

const VERSION: u8 = 1;
const HEAD_LEN: usize = 8;
const HAS_STREAM: u8 = 1;
const HAS_FRAGMENT: u8 = 2;
const HAS_STAGES: u8 = 4;
/// Bytes that one of `more` stands for.
const MORE_LEN: usize = 4;

/// Highest traffic class.
const CLASS_MAX: u8 = 7;

/// Most bytes before the identifiers: type, length, head, FID, stream, fragment. A longer FID, in
/// stages, comes on top.
pub const ENVELOPE_HEAD_LEN_MAX: usize = 4 + HEAD_LEN + FID_LEN + 16 + 16;

/// What an envelope carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum EnvelopeKind {
    /// A publication, or a fragment of one.
    #[default]
    Publication = 0,
    /// A control message: see [`Message`](super::Message).
    Control = 1,
}

/// Position of a publication among those of its source for the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPosition {
    /// The publishing node or application.
    pub source: Label,
    /// Number of the publication: one more each time.
    pub sequence: u64,
}

/// Place of a fragment in its publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentInfo {
    /// Number of the fragment, from 0.
    pub index: u32,
    /// Number of fragments, at least 1.
    pub count: u32,
    /// Bytes of the whole publication.
    pub total_len: u64,
}

/// A checked envelope.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    kind: EnvelopeKind,
    hop_limit: u8,
    class: u8,
    table: u8,
    fid: Fid,
    staged: Option<StagedFilter<'a>>,
    stream: Option<StreamPosition>,
    fragment: Option<FragmentInfo>,
    ids: IdList<'a>,
    payload: &'a [u8],
}

/// Fields that a forwarder reads, and the place of the hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopLimitField {
    /// Offset of the hop limit's byte.
    pub offset: usize,
    /// Hops that the packet may still make.
    pub hop_limit: u8,
    /// Number of the table that its link identifiers are from.
    pub table: u8,
    /// The forwarding identifier; in table 9 the first bytes of one in stages.
    pub fid: Fid,
}

/// Returns the bytes of the TLV-VALUE with their offset.
fn value(bytes: &[u8]) -> Result<(&[u8], usize), Error> {
    let (typ, at) = tlv::read_number(bytes, 0)?;
    if typ != u64::from(PUBLICATION) {
        return Err(Error::new(Fault::UnknownPacket, 0));
    }
    let (len, start) = tlv::read_number(bytes, at)?;
    if bytes.len() > PACKET_LEN_MAX || len > PACKET_LEN_MAX as u64 {
        return Err(Error::new(Fault::TooLong, 0));
    }
    match (bytes.len() - start).cmp(&(len as usize)) {
        core::cmp::Ordering::Less => Err(Error::new(Fault::Truncated, bytes.len())),
        core::cmp::Ordering::Greater => Err(Error::new(Fault::Trailing, start + len as usize)),
        core::cmp::Ordering::Equal => Ok((&bytes[start..], start)),
    }
}

/// Returns the bytes of the FID's field for a staged identifier.
const fn staged_field_len(len: usize) -> usize {
    if len <= FID_LEN { FID_LEN } else { len.next_multiple_of(MORE_LEN) }
}

/// Reads the identifier in stages that follows the head.
#[cold]
fn staged_filter(value: &[u8]) -> Result<StagedFilter<'_>, Error> {
    let Some((head, field)) = value.split_first_chunk::<HEAD_LEN>() else {
        return Err(Error::new(Fault::Truncated, value.len()));
    };
    let len = FID_LEN + MORE_LEN * usize::from(head[7]);
    let Some(field) = field.get(..len) else {
        return Err(Error::new(Fault::Truncated, value.len()));
    };
    if head[2] & HAS_STAGES == 0 || head[5] != STAGES_TABLE {
        return Err(Error::new(Fault::FieldValue, 5));
    }
    let filter = StagedFilter::check_start(field)
        .map_err(|error| Error::new(error.fault, HEAD_LEN + error.offset))?;
    let (used, zeros) = field.split_at(filter.as_bytes().len());
    if staged_field_len(used.len()) != len || zeros.iter().any(|byte| *byte != 0) {
        return Err(Error::new(Fault::FieldValue, HEAD_LEN + used.len()));
    }
    Ok(filter)
}

impl<'a> Envelope<'a> {
    /// Checks an envelope.
    ///
    /// # Errors
    /// When a length is wrong, a field out of range, or the version, kind or a flag unknown.
    pub fn check(bytes: &'a [u8]) -> Result<Self, Error> {
        let (value, start) = value(bytes)?;
        Self::check_value(value).map_err(|error| Error::new(error.fault, start + error.offset))
    }

    fn check_value(value: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(value);
        let head = cursor.take(HEAD_LEN)?;
        let (flags, class) = (head[2], head[4]);
        let kind = match head[1] {
            0 => EnvelopeKind::Publication,
            1 => EnvelopeKind::Control,
            _ => return Err(Error::new(Fault::FieldValue, 1)),
        };
        let mut staged = None;
        for (at, valid) in [
            (0, head[0] == VERSION),
            (4, class <= CLASS_MAX),
            (2, flags & !(HAS_STREAM | HAS_FRAGMENT) == 0),
            (7, head[7] == 0),
        ] {
            if !valid {
                let other_flags = flags & !(HAS_STREAM | HAS_FRAGMENT);
                if at != 2 || other_flags != HAS_STAGES {
                    return Err(Error::new(Fault::FieldValue, at));
                }
                staged = Some(staged_filter(value)?);
                break;
            }
        }
        let fid = cursor.fid()?;
        cursor.take(MORE_LEN * usize::from(head[7]))?;
        let mut stream = None;
        if flags & HAS_STREAM != 0 {
            stream = Some(StreamPosition { source: cursor.label()?, sequence: cursor.u64()? });
        }
        let mut fragment = None;
        if flags & HAS_FRAGMENT != 0 {
            let at = cursor.offset();
            let info = FragmentInfo {
                index: cursor.u32()?,
                count: cursor.u32()?,
                total_len: cursor.u64()?,
            };
            if info.index >= info.count || u64::from(info.count) > info.total_len {
                return Err(Error::new(Fault::FragmentIndex, at));
            }
            fragment = Some(info);
        }
        let at = cursor.offset();
        let (ids, len) = IdList::check(&value[at..], head[6], at)?;
        cursor.take(len)?;
        let payload = cursor.rest();
        let (hop_limit, table) = (head[3], head[5]);
        Ok(Envelope { kind, hop_limit, class, table, fid, staged, stream, fragment, ids, payload })
    }

    /// Reads what a forwarder needs, without checking identifiers.
    ///
    /// # Errors
    /// When the packet is no envelope of this version, or cut.
    #[inline]
    pub fn forwarding_fields(bytes: &[u8]) -> Result<HopLimitField, Error> {
        let (value, start) = value(bytes)?;
        let Some((head, after)) = value.split_first_chunk::<HEAD_LEN>() else {
            return Err(Error::new(Fault::Truncated, bytes.len()));
        };
        let Some((fid, _)) = after.split_first_chunk::<FID_LEN>() else {
            return Err(Error::new(Fault::Truncated, bytes.len()));
        };
        if head[0] != VERSION {
            return Err(Error::new(Fault::FieldValue, start));
        }
        Ok(HopLimitField {
            offset: start + 3,
            hop_limit: head[3],
            table: head[5],
            fid: Fid::from_bytes(fid),
        })
    }

    /// Reads the identifier in stages of a packet with table 9.
    ///
    /// # Errors
    /// When the packet is no envelope, or its identifier not in stages or malformed.
    pub fn forwarding_stages(bytes: &'a [u8]) -> Result<StagedFilter<'a>, Error> {
        let (value, start) = value(bytes)?;
        staged_filter(value).map_err(|error| Error::new(error.fault, start + error.offset))
    }

    /// Returns what the envelope carries.
    pub const fn kind(&self) -> EnvelopeKind {
        self.kind
    }

    /// Returns the number of hops that the packet may still make.
    pub const fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// Returns the traffic class, 0 (lowest) to 7.
    pub const fn class(&self) -> u8 {
        self.class
    }

    /// Returns the number of the table that the link identifiers in the FID are from.
    pub const fn table(&self) -> u8 {
        self.table
    }

    /// Returns the forwarding identifier; the first bytes of one in stages.
    pub const fn fid(&self) -> Fid {
        self.fid
    }

    /// Returns the forwarding identifier if it is in stages.
    pub const fn staged(&self) -> Option<StagedFilter<'a>> {
        self.staged
    }

    /// Returns source and sequence number. `None` if the publication is not numbered.
    pub const fn stream(&self) -> Option<StreamPosition> {
        self.stream
    }

    /// Returns the fragment's place. `None` if the publication is whole.
    pub const fn fragment(&self) -> Option<FragmentInfo> {
        self.fragment
    }

    /// Returns the full identifiers of the item.
    pub const fn ids(&self) -> IdList<'a> {
        self.ids
    }

    /// Returns the payload.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Writes an envelope.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvelopeBuilder<'a> {
    /// What the envelope carries.
    pub kind: EnvelopeKind,
    /// Hops that the packet may make.
    pub hop_limit: u8,
    /// Traffic class, 0 (lowest) to 7.
    pub class: u8,
    /// Number of the table that the link identifiers are from.
    pub table: u8,
    /// The forwarding identifier.
    pub fid: Fid,
    /// The forwarding identifier in stages, instead of `table` and `fid`.
    pub staged: Option<StagedFilter<'a>>,
    /// Source and sequence number, if numbered.
    pub stream: Option<StreamPosition>,
    /// Place of the fragment, if it is one.
    pub fragment: Option<FragmentInfo>,
    /// Full identifiers of the item, at most 255.
    pub ids: &'a [Id],
    /// The payload.
    pub payload: &'a [u8],
}

impl EnvelopeBuilder<'_> {
    /// Returns the bytes of the envelope without its payload, at most.
    pub fn overhead(&self) -> usize {
        let ids: usize = self.ids.iter().map(|id| 1 + id.len() * super::LABEL_LEN).sum();
        let staged =
            self.staged.map_or(FID_LEN, |filter| staged_field_len(filter.as_bytes().len()));
        ENVELOPE_HEAD_LEN_MAX + staged - FID_LEN + ids
    }

    /// Appends the envelope.
    ///
    /// # Errors
    /// When it would be longer than [`PACKET_LEN_MAX`], has more than 255 identifiers, or a field
    /// that is out of range.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let count =
            u8::try_from(self.ids.len()).map_err(|_| Error::new(Fault::TooLong, out.len()))?;
        if self.class > CLASS_MAX {
            return Err(Error::new(Fault::FieldValue, 4));
        }
        let ids: usize = self.ids.iter().map(|id| 1 + id.len() * super::LABEL_LEN).sum();
        let optional =
            16 * (usize::from(self.stream.is_some()) + usize::from(self.fragment.is_some()));
        let staged_len = self.staged.map(|filter| staged_field_len(filter.as_bytes().len()));
        let fid_len = staged_len.unwrap_or(FID_LEN);
        let len = HEAD_LEN + fid_len + optional + ids + self.payload.len();
        if 1 + tlv::number_len(len as u64) + len > PACKET_LEN_MAX {
            return Err(Error::new(Fault::TooLong, 0));
        }
        tlv::push_number(u64::from(PUBLICATION), out);
        tlv::push_number(len as u64, out);
        let flags = if self.stream.is_some() { HAS_STREAM } else { 0 }
            | if self.fragment.is_some() { HAS_FRAGMENT } else { 0 }
            | if self.staged.is_some() { HAS_STAGES } else { 0 };
        let kind = self.kind as u8;
        let table = if self.staged.is_some() { STAGES_TABLE } else { self.table };
        // At most 120, as staged identifiers have at most 512 bytes.
        let more = ((fid_len - FID_LEN) / MORE_LEN) as u8;
        let head = [VERSION, kind, flags, self.hop_limit, self.class, table, count, more];
        out.extend_from_slice(&head);
        match self.staged {
            None => out.extend_from_slice(&self.fid.to_bytes()),
            Some(filter) => {
                let end = out.len() + fid_len;
                out.extend_from_slice(filter.as_bytes());
                out.resize(end, 0);
            }
        }
        if let Some(stream) = self.stream {
            out.extend_from_slice(&stream.source.0);
            out.extend_from_slice(&stream.sequence.to_be_bytes());
        }
        if let Some(fragment) = self.fragment {
            out.extend_from_slice(&fragment.index.to_be_bytes());
            out.extend_from_slice(&fragment.count.to_be_bytes());
            out.extend_from_slice(&fragment.total_len.to_be_bytes());
        }
        self.ids.iter().for_each(|id| id.encode(out));
        out.extend_from_slice(self.payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(payload: &[u8]) -> Vec<u8> {
        let ids = [Id::new(vec![Label::from_number(1), Label::from_number(2)])];
        let mut out = Vec::new();
        EnvelopeBuilder {
            hop_limit: 9,
            class: 3,
            table: 2,
            fid: Fid::of_bit(200),
            stream: Some(StreamPosition { source: Label([b'1'; 8]), sequence: 77 }),
            fragment: Some(FragmentInfo { index: 1, count: 3, total_len: 3000 }),
            ids: &ids,
            payload,
            ..EnvelopeBuilder::default()
        }
        .encode(&mut out)
        .expect("in range");
        out
    }

    #[test]
    fn fields_are_read_as_written() {
        for payload in [&b""[..], &[7; 40], &[7; 300], &[7; 8000]] {
            let bytes = envelope(payload);
            let checked = Envelope::check(&bytes).expect("an envelope");
            assert_eq!((checked.hop_limit(), checked.class(), checked.table()), (9, 3, 2));
            assert_eq!((checked.fid(), checked.payload()), (Fid::of_bit(200), payload));
            assert_eq!(checked.stream().map(|stream| stream.sequence), Some(77));
            assert_eq!(checked.fragment().map(|fragment| fragment.total_len), Some(3000));
            assert_eq!((checked.kind(), checked.ids().count()), (EnvelopeKind::Publication, 1));
            let fields = Envelope::forwarding_fields(&bytes).expect("an envelope");
            assert_eq!((fields.hop_limit, fields.table, fields.fid), (9, 2, Fid::of_bit(200)));
            assert_eq!(bytes[fields.offset], 9);
        }
    }

    #[test]
    fn every_cut_and_every_unknown_head_is_refused() {
        let bytes = envelope(&[1; 20]);
        assert!((0..bytes.len()).all(|cut| Envelope::check(&bytes[..cut]).is_err()));
        let start = bytes.len() - Envelope::forwarding_fields(&bytes).expect("one").offset;
        let head = bytes.len() - start - 3;
        for (at, value) in [(0, 2), (1, 2), (2, 8), (4, 8), (7, 1)] {
            let mut wrong = bytes.clone();
            wrong[head + at] = value;
            let error = Envelope::check(&wrong).expect_err("out of range");
            assert_eq!((error.fault, error.offset), (Fault::FieldValue, head + at));
        }
        let mut padded = bytes.clone();
        padded.push(0);
        assert_eq!(Envelope::check(&padded).map_err(|e| e.fault).err(), Some(Fault::Trailing));
    }

    fn staged_envelope(filter: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        EnvelopeBuilder {
            hop_limit: 2,
            staged: Some(StagedFilter::check(filter).expect("a filter")),
            stream: Some(StreamPosition { source: Label([b'1'; 8]), sequence: 77 }),
            payload,
            ..EnvelopeBuilder::default()
        }
        .encode(&mut out)
        .expect("in range");
        out
    }

    /// Filters of 7, 32, 33 and 512 bytes.
    fn filters() -> [Vec<u8>; 4] {
        let stage = |len: u8| [vec![len, 0x21], vec![0x10; usize::from(len)]].concat();
        [
            [vec![2], stage(1), stage(1)].concat(),
            [vec![2], stage(20), stage(7)].concat(),
            [vec![2], stage(20), stage(8)].concat(),
            [vec![3], stage(255), stage(200), stage(50)].concat(),
        ]
    }

    #[test]
    fn identifiers_in_stages_are_read_as_written() {
        for filter in filters() {
            for payload in [&b""[..], &[7; 300]] {
                let bytes = staged_envelope(&filter, payload);
                let checked = Envelope::check(&bytes).expect("an envelope");
                assert_eq!((checked.table(), checked.payload()), (STAGES_TABLE, payload));
                assert_eq!(checked.staged().map(|staged| staged.as_bytes()), Some(&filter[..]));
                assert_eq!(Envelope::forwarding_stages(&bytes).ok(), checked.staged());
                assert_eq!(checked.stream().map(|stream| stream.sequence), Some(77));
                let fields = Envelope::forwarding_fields(&bytes).expect("an envelope");
                assert_eq!((fields.table, fields.hop_limit), (STAGES_TABLE, 2));
                assert!((0..bytes.len()).all(|cut| Envelope::check(&bytes[..cut]).is_err()));
            }
        }
        assert_eq!(filters().map(|filter| filter.len()), [7, 32, 33, 512]);
        assert!(Envelope::forwarding_stages(&envelope(b"")).is_err(), "of 256 bits");
    }

    #[test]
    fn stages_whose_lengths_or_head_lie_are_refused() {
        for filter in filters() {
            let bytes = staged_envelope(&filter, b"");
            let head = Envelope::forwarding_fields(&bytes).expect("one").offset - 3;
            let fid = head + HEAD_LEN;
            // Flags without stages, another table, more or less room, another count or length,
            // and a byte in the padding.
            let changes = [(2, 1), (2, 9), (5, 8), (7, 121), (7, bytes[head + 7] ^ 1), (8, 0)];
            for (at, value) in changes.into_iter().chain([(8, 129), (9, 0)]) {
                let mut wrong = bytes.clone();
                wrong[head + at] = value;
                let checked = Envelope::check(&wrong).ok().and_then(|wrong| wrong.staged());
                assert_eq!(checked, None, "{} {at} {value}", filter.len());
                assert!(Envelope::forwarding_stages(&wrong).is_err(), "{at} {value}");
            }
            for at in filter.len()..staged_field_len(filter.len()) {
                let mut wrong = bytes.clone();
                wrong[fid + at] = 1;
                let error = Envelope::check(&wrong).expect_err("padding");
                assert_eq!((error.fault, error.offset), (Fault::FieldValue, fid + filter.len()));
            }
        }
    }

    #[test]
    fn payload_beyond_the_longest_packet_is_refused() {
        let builder = EnvelopeBuilder { payload: &[0; PACKET_LEN_MAX], ..Default::default() };
        assert_eq!(builder.encode(&mut Vec::new()).map_err(|e| e.fault), Err(Fault::TooLong));
        assert!(builder.overhead() <= ENVELOPE_HEAD_LEN_MAX);
        let payload = vec![0; PACKET_LEN_MAX - ENVELOPE_HEAD_LEN_MAX];
        let builder = EnvelopeBuilder { payload: &payload, ..Default::default() };
        assert_eq!(builder.encode(&mut Vec::new()), Ok(()));
    }
}
