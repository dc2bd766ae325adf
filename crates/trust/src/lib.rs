//! Keys, signatures, certificates, and the authorization of management commands.
//!
//! Layer 2 (state): does not depend on faces. Time is an argument. The only randomness is that of
//! the cryptographic library (key generation, ECDSA), so signatures are not repeatable.

#![forbid(unsafe_code)]

pub mod authority;
pub mod calendar;
pub mod certificate;
pub mod chain;
pub mod clocks;
pub mod command;
pub mod fetch;
pub mod key;
pub mod ndncert;
pub mod pattern;
pub mod peer_group;
pub mod pem;
pub mod policy;
pub mod publication;
pub mod replay;
pub mod rules;
pub mod safebag;
pub mod verify;

pub use authority::{Authority, AuthorizationRequest, Decision, Requester, Rules};
pub use certificate::Validity;
pub use chain::{Anchor, IssuerRule};
pub use clocks::Clocks;
pub use command::{Command, CommandFormat, CommandSigner, Refusal};
pub use key::{Key, KeyKind, Signer};
pub use pattern::Pattern;
pub use peer_group::PeerGroup;
pub use policy::{AllowFrom, CommandPolicy, CommandRules};
pub use rules::{AllowRule, FaceScope, Privilege, Privileges};
pub use verify::{VerifyKey, verify_data, verify_digest, verify_interest};

/// An error in handling keys, signatures or certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are not a key of a supported kind.
    #[error("not a key: {0}")]
    NotAKey(&'static str),
    /// The cryptographic library failed to make or use a key, independent of the input.
    #[error("the cryptographic library failed while {0}")]
    Library(&'static str),
    /// The signature does not match the bytes and the key.
    #[error("the signature does not match")]
    Mismatch,
    /// The signature's type differs from the one this key makes.
    #[error("the signature type does not match the key type")]
    WrongType,
    /// The packet has no signature.
    #[error("not signed")]
    Unsigned,
    /// An HMAC key was used where a public key is needed.
    #[error("an HMAC key has no public key")]
    NoPublicKey,
    /// The time is outside the certificate's validity period.
    #[error("the certificate is not valid at this time")]
    OutsideValidity,
    /// The passphrase does not decrypt the key.
    #[error("wrong passphrase, or the encrypted key is damaged")]
    WrongPassphrase,
    /// The key's encryption scheme is not supported.
    #[error("unsupported key encryption (PBES2 with PBKDF2 is needed): {0}")]
    Encryption(&'static str),
    /// The private key does not belong to the certificate.
    #[error("the private key does not belong to the certificate given with it")]
    KeyMismatch,
    /// The text is not encoded as expected.
    #[error("not {0}")]
    Text(&'static str),
    /// The bytes are not a valid packet of the expected kind.
    #[error("not a valid packet: {0}")]
    Packet(#[from] nw_wire::Error),
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
