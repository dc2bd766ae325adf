//! Signed command Interests, in both formats that clients use.
//!
//! * Format 0.3: a signed Interest, `/<prefix>/<module>/<verb>/<parameters>/params-sha256=…`, with
//!   the signature in InterestSignatureInfo.
//! * Format 0.2: everything in the name,
//!   `/<prefix>/<module>/<verb>/<parameters>/<timestamp>/<nonce>/<SignatureInfo>/<SignatureValue>`.
//!   The last two are whole elements within generic components; the signature covers all components
//!   before the last.
//!
//! This module only reads commands. [`crate::policy`] and [`crate::authority`] verify them.

use crate::clocks::describe_span;
use nw_name::{ComponentType, NameRef};
use nw_wire::{Interest, KeyLocator, Reader, SignatureInfo, SignatureType, types as t};

/// Number of name components that format 0.2 adds.
const LEGACY_COMPONENTS: usize = 4;

/// The format of a command's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandFormat {
    /// Format 0.2: in the name.
    V02,
    /// Format 0.3: in the Interest's signature elements.
    V03,
}

/// The signer that a command names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSigner<'a> {
    /// No key: the signature is a plain SHA-256 digest, which anybody can make.
    Digest,
    /// The holder of this key.
    Key(KeyLocator<'a>),
}

impl<'a> CommandSigner<'a> {
    /// Returns the signer named by a SignatureInfo.
    ///
    /// # Errors
    /// [`Refusal::Unsigned`], [`Refusal::UnknownType`], or [`Refusal::Malformed`] if the signature
    /// needs a KeyLocator and has none.
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

/// A signed command, parsed but not verified.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The signature's format.
    pub format: CommandFormat,
    /// The name without the components added by signing.
    pub name: NameRef<'a>,
    /// The signer it names.
    pub signer: CommandSigner<'a>,
    /// The signature's type.
    pub typ: SignatureType,
    /// The signature's time, milliseconds since 1970, if present.
    pub time_ms: Option<u64>,
    /// The signature's nonce, if present.
    pub nonce: Option<&'a [u8]>,
    /// The signed bytes, in up to three pieces.
    pub signed: [&'a [u8]; 3],
    /// The TLV-VALUE of SignatureValue.
    pub signature: &'a [u8],
}

/// The reason why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The Interest has no signature.
    Unsigned,
    /// The signature can't be parsed, or lacks a required KeyLocator.
    Malformed,
    /// The signature type is not supported.
    UnknownType,
    /// The signature does not match.
    BadSignature,
    /// A digest signature is not accepted from this face.
    DigestNotEnough,
    /// The key is unknown, and only known keys are accepted from this face.
    UnknownKey,
    /// The key is known, but not accepted from this face.
    KeyNotAllowed,
    /// No rule allows the signer to do this.
    NotAllowed,
    /// A certificate of the signer's chain could not be fetched.
    CertificateMissing,
    /// A certificate of the chain, or its anchor, is outside its validity period.
    CertificateOutsideValidity,
    /// A certificate of the chain is malformed, or its signature does not match.
    BadCertificate,
    /// The issuer of a certificate in the chain may not issue for its key.
    IssuerNotAllowed,
    /// The chain contains a loop and no anchor.
    ChainLoop,
    /// The chain has more than [`DEPTH_MAX`](crate::chain::DEPTH_MAX) certificates.
    ChainTooDeep,
    /// Too many commands wait for certificates.
    TooManyWaiting,
    /// The signature has no time.
    NoTime,
    /// The signature's time is too far from the router's clock.
    Stale {
        /// The difference, milliseconds.
        off_ms: u64,
        /// The maximum difference, milliseconds.
        limit_ms: u64,
    },
    /// The command was seen before, or is older than the replay history of its key.
    Replayed,
    /// Too many different keys are in use.
    TooManyKeys,
}

impl Refusal {
    /// Returns whether the sender gets no answer (as in NFD, for malformed signatures). All other
    /// refusals are answered with status 403.
    pub const fn is_silent(self) -> bool {
        matches!(self, Refusal::Malformed)
    }

    /// Returns a short message. [`Display`](std::fmt::Display) adds the details.
    pub const fn as_str(self) -> &'static str {
        match self {
            Refusal::Unsigned => "the command is not signed",
            Refusal::Malformed => "the command's signature can't be read",
            Refusal::UnknownType => "the command's signature type is not supported",
            Refusal::BadSignature => "the command's signature does not match",
            Refusal::DigestNotEnough => "a command from here must be signed by a key",
            Refusal::UnknownKey => "the command's key is not known to this router",
            Refusal::KeyNotAllowed => "the command's key is not allowed to command from this face",
            Refusal::NotAllowed => "no rule allows the command's signer to do this",
            Refusal::CertificateMissing => {
                "a certificate between the command's key and a trust anchor could not be fetched"
            }
            Refusal::CertificateOutsideValidity => {
                "a certificate between the command's key and a trust anchor is not valid at this time"
            }
            Refusal::BadCertificate => {
                "a certificate between the command's key and a trust anchor is malformed or has a wrong signature"
            }
            Refusal::IssuerNotAllowed => {
                "no rule allows the issuer of a certificate to certify its key"
            }
            Refusal::ChainLoop => {
                "the certificates of the command's key form a loop without a trust anchor"
            }
            Refusal::ChainTooDeep => {
                "too many certificates between the command's key and a trust anchor"
            }
            Refusal::TooManyWaiting => "too many commands wait for certificates; try again",
            Refusal::NoTime => "the command's signature has no timestamp",
            Refusal::Stale { .. } => "the command's timestamp is too far from the router's clock",
            Refusal::Replayed => {
                "the command was seen before, or is older than recent commands of its key"
            }
            Refusal::TooManyKeys => {
                "too many different keys sign commands; try again in a few minutes"
            }
        }
    }
}

impl Refusal {
    /// Returns the message for something other than a command, such as "the prefix announcement".
    pub fn message_for(self, subject: &str) -> String {
        self.to_string()
            .replace("the command", subject)
            .replace("a command from", &format!("{subject} from"))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Refusal::Stale { off_ms, limit_ms } => write!(
                f,
                "the command's timestamp differs from the router's clock by {} (limit {} s). \
                 Check the time on both machines.",
                describe_span(off_ms),
                limit_ms / 1000
            ),
            _ => f.write_str(self.as_str()),
        }
    }
}

impl std::error::Error for Refusal {}

impl<'a> Command<'a> {
    /// Parses a command in either format, without verifying it.
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
        // A checked Interest has exactly one parameters digest; in a command it is the last
        // component.
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
            |value: &[u8], typ: u32| value.first().is_some_and(|byte| u32::from(*byte) == typ);
        let generic =
            [info, value].iter().all(|component| component.typ() == ComponentType::GENERIC);
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

/// Returns the value of the single element of type `typ` that must fill `bytes`.
fn only_element(bytes: &[u8], typ: u32) -> Result<&[u8], Refusal> {
    let mut reader = Reader::new(bytes, 0);
    match reader.next() {
        Ok(Some(element)) if element.typ == typ && reader.is_empty() => Ok(element.value),
        _ => Err(Refusal::Malformed),
    }
}
