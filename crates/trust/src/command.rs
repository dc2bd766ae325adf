//! Command Interests, in both forms that clients use.
//!
//! * Format 0.3: a signed Interest, `/<prefix>/<module>/<verb>/<parameters>/params-sha256=…`, signature in InterestSignatureInfo.
//! * Format 0.2: everything in the name, `/<prefix>/<module>/<verb>/<parameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>`,
//!   the last two being whole elements within generic components. The signature covers the components before the last.

use crate::clocks::describe_span;
use nw_name::{ComponentType, NameRef};
use nw_wire::{Interest, KeyLocator, Reader, SignatureInfo, SignatureType, types as t};

/// Components that format 0.2 adds to a name.
const LEGACY_COMPONENTS: usize = 4;

/// How a command is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFormat {
    /// In the name.
    V02,
    /// In the Interest's own fields.
    V03,
}

/// Who signed a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSigner<'a> {
    /// Anybody: a plain digest.
    Digest,
    /// Who has this key.
    Key(KeyLocator<'a>),
}

impl<'a> CommandSigner<'a> {
    /// Who signed, by what SignatureInfo says.
    ///
    /// # Errors
    /// [`Refusal::Unsigned`], [`Refusal::UnknownType`], or [`Refusal::Malformed`] when a key's signature names no key.
    pub fn of(info: &SignatureInfo<'a>) -> Result<Self, Refusal> {
        match (info.typ(), info.key_locator()) {
            (SignatureType::Null, _) => Err(Refusal::Unsigned),
            (SignatureType::DigestSha256, _) => Ok(CommandSigner::Digest),
            (SignatureType::Other(_), _) => Err(Refusal::UnknownType),
            (_, Some(locator)) => Ok(CommandSigner::Key(locator)),
            (_, None) => Err(Refusal::Malformed),
        }
    }
}

/// A signed command, read but not verified.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// How it is signed.
    pub format: CommandFormat,
    /// What is commanded: the name without what signing added to it.
    pub name: NameRef<'a>,
    /// Who signed it.
    pub signer: CommandSigner<'a>,
    /// How the signature is made.
    pub typ: SignatureType,
    /// When it was signed, milliseconds since 1970, if it says so.
    pub time_ms: Option<u64>,
    /// What makes it unlike others of the same time, if it says so.
    pub nonce: Option<&'a [u8]>,
    /// What the signature covers, in pieces.
    pub signed: [&'a [u8]; 3],
    /// SignatureValue's TLV-VALUE.
    pub signature: &'a [u8],
}

/// Why a command is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing signs it.
    Unsigned,
    /// Its signature can't be read, or names no key where it must.
    Malformed,
    /// Its signature is of a type we can't verify.
    UnknownType,
    /// Its signature does not match.
    BadSignature,
    /// A plain digest does not do here.
    DigestNotEnough,
    /// Its key is not one we know, and must be here.
    UnknownKey,
    /// Its key is known, but may not command from here.
    KeyNotAllowed,
    /// No rule lets its signer do that.
    NotAllowed,
    /// A certificate of its signer's chain could not be had.
    CertificateMissing,
    /// A certificate of the chain, or its anchor, is not valid at this time.
    CertificateOutOfTime,
    /// What stands for a certificate of the chain is none, or its signature does not match.
    BadCertificate,
    /// A certificate of the chain is signed by somebody who may not vouch for its key.
    NotVouched,
    /// The chain comes back to itself without an anchor.
    ChainLoop,
    /// The chain has too many certificates.
    ChainTooDeep,
    /// Too many commands wait for certificates.
    TooManyWaiting,
    /// It does not say when it was signed.
    NoTime,
    /// Its timestamp is too far from the verifier's clock.
    Stale {
        /// How far, milliseconds.
        off_ms: u64,
        /// How far it may be, milliseconds.
        limit_ms: u64,
    },
    /// It was seen before, or is older than what can be told from seen ones.
    Replayed,
    /// Too many different keys at once.
    TooManyKeys,
}

impl Refusal {
    /// True when the sender gets no answer, as NFD does it: it would not understand one. All others get a 403.
    pub const fn is_silent(self) -> bool {
        matches!(self, Refusal::Malformed)
    }

    /// Returns the refusal in a few words. [`Display`](std::fmt::Display) says more where there is more to say.
    pub const fn as_str(self) -> &'static str {
        match self {
            Refusal::Unsigned => "the command is not signed",
            Refusal::Malformed => "the command's signature can't be read",
            Refusal::UnknownType => "the command's signature type is not supported",
            Refusal::BadSignature => "the command's signature does not match",
            Refusal::DigestNotEnough => "a command from here must be signed by a key",
            Refusal::UnknownKey => "the command's key is not known here",
            Refusal::KeyNotAllowed => "the command's key may not command from here",
            Refusal::NotAllowed => "no rule lets the command's signer do this",
            Refusal::CertificateMissing => {
                "a certificate between the command's key and a trust anchor could not be fetched"
            }
            Refusal::CertificateOutOfTime => {
                "a certificate between the command's key and a trust anchor is not valid at this time"
            }
            Refusal::BadCertificate => "a certificate between the command's key and a trust anchor is wrong",
            Refusal::NotVouched => "a certificate's issuer may not vouch for its key",
            Refusal::ChainLoop => {
                "the certificates of the command's key lead to no trust anchor but back to themselves"
            }
            Refusal::ChainTooDeep => "too many certificates between the command's key and a trust anchor",
            Refusal::TooManyWaiting => "too many commands wait for certificates; try again",
            Refusal::NoTime => "the command does not say when it was signed",
            Refusal::Stale { .. } => "the command's timestamp is too far from the router's clock",
            Refusal::Replayed => "the command was seen before or is older than the key's later ones",
            Refusal::TooManyKeys => "too many keys sign commands at this time",
        }
    }
}

impl Refusal {
    /// Returns the refusal of something else than a command, such as "the prefix announcement".
    pub fn of(self, subject: &str) -> String {
        self.to_string().replace("the command", subject).replace("a command from", &format!("{subject} from"))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Refusal::Stale { off_ms, limit_ms } => write!(
                f,
                "the command's timestamp differs from the router's clock by {} (limit {} s). Check the time on both machines.",
                describe_span(off_ms),
                limit_ms / 1000
            ),
            _ => f.write_str(self.as_str()),
        }
    }
}

impl std::error::Error for Refusal {}

impl<'a> Command<'a> {
    /// Reads a command in either form. Nothing is verified.
    ///
    /// # Errors
    /// [`Refusal::Unsigned`] or [`Refusal::Malformed`].
    pub fn read(interest: &Interest<'a>) -> Result<Self, Refusal> {
        match (interest.signature_info(), interest.signed_portion(), interest.signature_value()) {
            (Some(info), Some(signed), Some(signature)) => {
                Self::read_v03(interest.name(), info, signed, signature)
            }
            _ => Self::read_v02(interest.name()),
        }
    }

    fn read_v03(
        name: NameRef<'a>,
        info: SignatureInfo<'a>,
        signed: [&'a [u8]; 3],
        signature: &'a [u8],
    ) -> Result<Self, Refusal> {
        // The checked Interest has one parameters digest; in a command it stands last.
        let last = name.component(-1).ok_or(Refusal::Malformed)?;
        if last.typ() != ComponentType::PARAMETERS_DIGEST {
            return Err(Refusal::Malformed);
        }
        Ok(Command {
            format: CommandFormat::V03,
            name: name.parent().ok_or(Refusal::Malformed)?,
            signer: CommandSigner::of(&info)?,
            typ: info.typ(),
            time_ms: info.time_ms(),
            nonce: info.nonce(),
            signed,
            signature,
        })
    }

    fn read_v02(name: NameRef<'a>) -> Result<Self, Refusal> {
        let count = name.len().checked_sub(LEGACY_COMPONENTS).ok_or(Refusal::Unsigned)?;
        let mut added = name.components().skip(count);
        let mut next = || added.next().ok_or(Refusal::Unsigned);
        let (time, nonce, info, value) = (next()?, next()?, next()?, next()?);
        let starts_with =
            |value: &[u8], typ: u32| value.first().is_some_and(|octet| u32::from(*octet) == typ);
        let generic = [info, value].iter().all(|component| component.typ() == ComponentType::GENERIC);
        if !generic
            || !starts_with(info.value(), t::SIGNATURE_INFO)
            || !starts_with(value.value(), t::SIGNATURE_VALUE)
        {
            return Err(Refusal::Unsigned);
        }
        let info = only_element(info.value(), t::SIGNATURE_INFO)?;
        let info = SignatureInfo::check(info, 0).map_err(|_| Refusal::Malformed)?;
        Ok(Command {
            format: CommandFormat::V02,
            name: name.prefix(count),
            signer: CommandSigner::of(&info)?,
            typ: info.typ(),
            time_ms: Some(time.integer().ok_or(Refusal::Malformed)?),
            nonce: Some(nonce.value()),
            signed: [name.prefix(count + LEGACY_COMPONENTS - 1).as_bytes(), &[], &[]],
            signature: only_element(value.value(), t::SIGNATURE_VALUE)?,
        })
    }
}

/// The value of the one element that `bytes` must be.
fn only_element(bytes: &[u8], typ: u32) -> Result<&[u8], Refusal> {
    let mut reader = Reader::new(bytes, 0);
    match reader.next() {
        Ok(Some(element)) if element.typ == typ && reader.is_empty() => Ok(element.value),
        _ => Err(Refusal::Malformed),
    }
}
