//! The client side: encodes command Interests and dataset requests, and reassembles datasets.
//!
//! No sockets and no clock: nonces and times are arguments, packets are returned and passed in.

use super::command::{Dataset, IMPORT, Root, Verb};
use super::face::{ChannelStatus, FaceQueryFilter, FaceStatus};
use super::number as n;
use super::parameters::{ControlParameters, ControlResponse};
use super::record::Scalar;
use super::table::{
    CsInfo, DropCount, FibEntry, ForwarderStatus, RibEntry, ShardStatus, StrategyChoice, XdpStatus,
};
use nw_name::convention::Kind;
use nw_name::tlv::{Error, Fault, Reader, push_integer, push_tlv};
use nw_name::{Name, NameRef};
use nw_wire::{Data, InterestBuilder, Sign, types};

/// InterestLifetime of commands and dataset requests, milliseconds.
pub const LIFETIME_MS: u64 = 4000;

/// InterestLifetime of commands for which the router may have to fetch certificates, milliseconds:
/// enough for two requests that time out one after the other.
pub const FETCHING_LIFETIME_MS: u64 = 10_000;

/// Values that make each command Interest unique. Nonces must come from a secure random source.
#[derive(Clone, Copy, Debug)]
pub struct Uniqueness {
    /// The Interest's nonce.
    pub nonce: u32,
    /// SignatureNonce.
    pub signature_nonce: [u8; 8],
    /// SignatureTime, milliseconds since 1970.
    pub time_ms: u64,
}

/// Returns an encoded command Interest, signed with packet format 0.3.
///
/// # Errors
/// The signer failed.
pub fn command<S: Sign + ?Sized>(
    root: Root,
    verb: Verb,
    parameters: &ControlParameters,
    unique: Uniqueness,
    signer: &S,
) -> Result<Vec<u8>, S::Error> {
    command_named(verb.name(root).with_generic(parameters.encode()), unique, signer)
}

/// Returns a command Interest as [`command`] does, with the lifetime [`FETCHING_LIFETIME_MS`], for
/// a signer whose certificates the router may have to fetch.
///
/// # Errors
/// The signer failed.
pub fn command_fetching<S: Sign + ?Sized>(
    root: Root,
    verb: Verb,
    parameters: &ControlParameters,
    unique: Uniqueness,
    signer: &S,
) -> Result<Vec<u8>, S::Error> {
    let name = verb.name(root).with_generic(parameters.encode());
    interest(name, unique)
        .lifetime_ms(FETCHING_LIFETIME_MS)
        .encode_signed(signer, &signature_fields(unique))
}

/// Returns a command Interest as [`command`] does, for any name up to the signature.
///
/// # Errors
/// The signer failed.
pub fn command_named<S: Sign + ?Sized>(
    name: Name,
    unique: Uniqueness,
    signer: &S,
) -> Result<Vec<u8>, S::Error> {
    interest(name, unique).encode_signed(signer, &signature_fields(unique))
}

/// Returns an encoded `rib/announce` Interest for a prefix announcement, signed with packet format
/// 0.3.
///
/// # Errors
/// The signer failed.
pub fn announce<S: Sign + ?Sized>(
    root: Root,
    announcement: &Data<'_>,
    unique: Uniqueness,
    signer: &S,
) -> Result<Vec<u8>, S::Error> {
    let interest = interest(Verb::RibAnnounce.name(root), unique).parameters(announcement.wire());
    interest.encode_signed(signer, &signature_fields(unique))
}

/// Maximum size of the routes in one [`import`], bytes.
pub const IMPORT_LEN_MAX: usize = 8192;

/// Returns an encoded `rib/import` Interest, signed with packet format 0.3.
///
/// `routes`: concatenated [`ControlParameters`] of `rib/register`, at most [`IMPORT_LEN_MAX`]
/// bytes. The answer's `count` is the number of registered routes; if one is refused, those before
/// it stay.
///
/// # Errors
/// The signer failed.
pub fn import<S: Sign + ?Sized>(
    routes: &[u8],
    lifetime_ms: u64,
    unique: Uniqueness,
    signer: &S,
) -> Result<Vec<u8>, S::Error> {
    let (module, word) = IMPORT;
    let name = Root::Localhost.name().with_generic(module).with_generic(word);
    let interest = interest(name, unique).lifetime_ms(lifetime_ms).parameters(routes);
    interest.encode_signed(signer, &signature_fields(unique))
}

fn interest(name: Name, unique: Uniqueness) -> InterestBuilder {
    // MustBeFresh, so that no cache answers with the response to another command.
    InterestBuilder::new(name).must_be_fresh(true).nonce(unique.nonce).lifetime_ms(LIFETIME_MS)
}

fn signature_fields(unique: Uniqueness) -> Vec<u8> {
    let mut fields = Vec::with_capacity(20);
    push_tlv(types::SIGNATURE_NONCE, &unique.signature_nonce, &mut fields);
    push_integer(types::SIGNATURE_TIME, unique.time_ms, &mut fields);
    fields
}

/// Returns an encoded Interest for the newest version of a dataset. `filter` is for
/// [`Dataset::FacesQuery`].
pub fn dataset(dataset: Dataset, filter: Option<&FaceQueryFilter>, nonce: u32) -> Vec<u8> {
    let name = dataset.name(Root::Localhost);
    let name = match filter {
        Some(filter) => name.with_generic(filter.encode()),
        None => name,
    };
    InterestBuilder::new(name)
        .can_be_prefix(true)
        .must_be_fresh(true)
        .nonce(nonce)
        .lifetime_ms(LIFETIME_MS)
        .encode()
}

/// Returns the error of a router without this dataset: some answer with a control response instead
/// of a segment.
pub fn dataset_refused(data: &Data<'_>) -> Option<ControlResponse> {
    let response = ControlResponse::decode(data.content()).ok()?;
    (split(data.name()).is_none() && !response.is_ok()).then_some(response)
}

/// Reassembles a dataset from its segments, in order.
#[derive(Debug)]
pub struct Reassembly {
    /// Name with version, known after the first answer.
    versioned: Option<Name>,
    content: Vec<u8>,
    next: u64,
    content_len_max: usize,
}

/// The next step after a Data packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Request the Data with exactly this name.
    Request(Name),
    /// The dataset is complete.
    Complete(Vec<u8>),
}

/// Error: a Data packet is not a part of the dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassemblyError {
    /// Its name does not end in a version and a segment.
    #[error("the answer's name does not end in a version and a segment")]
    Name,
    /// Its version differs from that of the first packet.
    #[error("the answer is of another version")]
    Version,
    /// The dataset exceeds the size limit.
    #[error("the dataset is longer than {0} bytes")]
    TooLong(usize),
}

impl Reassembly {
    /// Returns an empty reassembly for a dataset of at most `content_len_max` bytes.
    pub const fn new(content_len_max: usize) -> Self {
        Reassembly { versioned: None, content: Vec::new(), next: 0, content_len_max }
    }

    /// Adds the answer to the first Interest, or to the last one requested.
    ///
    /// # Errors
    /// See [`ReassemblyError`].
    pub fn add(&mut self, data: &Data<'_>) -> Result<Progress, ReassemblyError> {
        let (versioned, segment) = split(data.name()).ok_or(ReassemblyError::Name)?;
        match &self.versioned {
            None => self.versioned = Some(versioned.to_name()),
            Some(first) if first.as_ref() == versioned => {}
            Some(_) => return Err(ReassemblyError::Version),
        }
        // A cache may answer the first Interest with any segment.
        if segment != self.next {
            return Ok(Progress::Request(versioned.to_name().with_segment(self.next)));
        }
        if self.content.len() + data.content().len() > self.content_len_max {
            return Err(ReassemblyError::TooLong(self.content_len_max));
        }
        self.content.extend_from_slice(data.content());
        let last = data.final_block().and_then(|component| Kind::Segment.number(component));
        if last.is_some_and(|last| segment >= last) {
            return Ok(Progress::Complete(core::mem::take(&mut self.content)));
        }
        self.next += 1;
        Ok(Progress::Request(versioned.to_name().with_segment(self.next)))
    }
}

fn split(name: NameRef<'_>) -> Option<(NameRef<'_>, u64)> {
    let segment = Kind::Segment.number(name.component(-1)?)?;
    let versioned = name.parent()?;
    Kind::Version.number(versioned.component(-1)?)?;
    Some((versioned, segment))
}

/// An item of a dataset.
pub trait Item: Scalar {
    /// TLV-TYPE of the item.
    const NUMBER: u32;
}

macro_rules! items {
    ($($typ:ty = $number:expr,)+) => { $(impl Item for $typ { const NUMBER: u32 = $number; })+ };
}

items! {
    FaceStatus = n::ITEM,
    ChannelStatus = n::CHANNEL_STATUS,
    FibEntry = n::ITEM,
    RibEntry = n::ITEM,
    StrategyChoice = n::ITEM,
    CsInfo = n::ITEM,
    DropCount = n::ITEM,
    ShardStatus = n::ITEM,
    XdpStatus = n::ITEM,
}

/// Encodes the content of a dataset.
pub fn encode_items<T: Item>(items: &[T]) -> Vec<u8> {
    let mut out = Vec::new();
    items.iter().for_each(|item| item.push(T::NUMBER, &mut out));
    out
}

/// Decodes the content of a dataset. Elements of other types are skipped unless they are critical.
///
/// # Errors
/// The fault and its byte offset.
pub fn decode_items<T: Item>(content: &[u8]) -> Result<Vec<T>, Error> {
    let mut reader = Reader::new(content, 0);
    let mut items = Vec::new();
    while let Some(element) = reader.next()? {
        if element.typ == T::NUMBER {
            items.push(T::read(&element)?);
        } else if element.is_critical() {
            return Err(Error::new(Fault::UnknownCritical, element.start));
        }
    }
    Ok(items)
}

/// Decodes the content of `cs/info`.
///
/// # Errors
/// The fault and its byte offset.
pub fn decode_cs_info(content: &[u8]) -> Result<CsInfo, Error> {
    decode_items(content)?.pop().ok_or(Error::new(Fault::MissingField, 0))
}

/// Decodes the content of `status/general`.
///
/// # Errors
/// The fault and its byte offset.
pub fn decode_status(content: &[u8]) -> Result<ForwarderStatus, Error> {
    ForwarderStatus::decode_fields(content, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::management::command::{Request, SignatureForm, parse};
    use nw_wire::{DataBuilder, DigestSha256, Interest};

    fn segment(version: u64, segment: u64, last: u64, content: &[u8]) -> Vec<u8> {
        let name =
            Dataset::FibList.name(Root::Localhost).with_version(version).with_segment(segment);
        let last = Name::new().with_segment(last);
        let Ok(wire) = DataBuilder::new(&name, content)
            .final_block(last.as_ref().component(0).unwrap())
            .encode(&DigestSha256);
        wire
    }

    fn add(reassembly: &mut Reassembly, wire: &[u8]) -> Result<Progress, ReassemblyError> {
        reassembly.add(&Data::check(wire).unwrap())
    }

    #[test]
    fn reassembly_requests_segments_in_order() {
        let request = |segment| {
            Ok(Progress::Request(
                Dataset::FibList.name(Root::Localhost).with_version(9).with_segment(segment),
            ))
        };
        let mut reassembly = Reassembly::new(100);
        assert_eq!(
            add(&mut reassembly, &segment(9, 2, 2, b"c")),
            request(0),
            "a cache's answer from the middle"
        );
        assert_eq!(add(&mut reassembly, &segment(9, 0, 2, b"a")), request(1));
        assert_eq!(add(&mut reassembly, &segment(8, 1, 2, b"x")), Err(ReassemblyError::Version));
        assert_eq!(add(&mut reassembly, &segment(9, 1, 2, b"b")), request(2));
        assert_eq!(
            add(&mut reassembly, &segment(9, 2, 2, b"c")),
            Ok(Progress::Complete(b"abc".to_vec()))
        );
    }

    #[test]
    fn dataset_refused_detects_control_response() {
        let name = Dataset::StatusDrops.name(Root::Localhost);
        let response = ControlResponse::refuse(501, "Unknown verb").encode();
        let data = |name: &Name, content: &[u8]| {
            let Ok(wire) = DataBuilder::new(name, content).encode(&DigestSha256);
            dataset_refused(&Data::check(&wire).unwrap())
        };
        assert_eq!(data(&name, &response).map(|response| response.code), Some(501));
        assert_eq!(data(&name, b"something else"), None);
        assert_eq!(
            data(&name.with_version(1).with_segment(0), &response),
            None,
            "content of a segment"
        );
    }

    #[test]
    fn reassembly_refuses_long_datasets_and_wrong_names() {
        let mut reassembly = Reassembly::new(2);
        assert_eq!(
            add(&mut reassembly, &segment(1, 0, 0, b"abc")),
            Err(ReassemblyError::TooLong(2))
        );
        let Ok(wire) =
            DataBuilder::new(&Dataset::FibList.name(Root::Localhost), b"").encode(&DigestSha256);
        assert_eq!(add(&mut reassembly, &wire), Err(ReassemblyError::Name));
    }

    #[test]
    fn command_is_parsed_as_encoded() {
        let unique = Uniqueness { nonce: 1, signature_nonce: [2; 8], time_ms: 3 };
        let parameters = ControlParameters {
            cost: Some(7),
            ..ControlParameters::of("/a".parse::<Name>().unwrap())
        };
        let Ok(wire) =
            command(Root::Localhost, Verb::RibRegister, &parameters, unique, &DigestSha256);
        let interest = Interest::check(&wire).unwrap();
        let info = interest.signature_info().unwrap();
        assert_eq!((info.nonce(), info.time_ms()), (Some(&[2u8; 8][..]), Some(3)));
        let request =
            Request::Command { verb: Verb::RibRegister, parameters, form: SignatureForm::V03 };
        assert_eq!(parse(&interest), Some((Root::Localhost, request)));

        let wire = dataset(Dataset::FacesQuery, Some(&FaceQueryFilter::default()), 5);
        let interest = Interest::check(&wire).unwrap();
        assert!(interest.can_be_prefix() && interest.must_be_fresh());
        assert!(matches!(
            parse(&interest),
            Some((_, Request::Dataset { dataset: Dataset::FacesQuery, .. }))
        ));
    }
}
