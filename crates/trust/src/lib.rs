//! Keys, signing, verification, certificates, and who may command a router.
//!
//! Layer 2 (state): refuses to know faces. Time is an argument; randomness comes from the cryptographic library alone (key generation,
//! ECDSA), which is why this crate's signatures are not repeatable.

#![forbid(unsafe_code)]

pub mod authority;
pub mod calendar;
pub mod certificate;
pub mod chain;
pub mod clocks;
pub mod command;
pub mod fetch;
pub mod key;
pub mod pattern;
pub mod peer;
pub mod policy;
pub mod replay;
pub mod rules;
pub mod safebag;
pub mod text;
pub mod verify;

pub use authority::{Asker, Asking, Authority, Decision, Rules};
pub use certificate::Validity;
pub use chain::{Anchor, Vouch};
pub use clocks::Clocks;
pub use command::{Command, CommandFormat, CommandSigner, Refusal};
pub use key::{Key, KeyKind, Signer};
pub use pattern::Pattern;
pub use peer::Peer;
pub use policy::{CommandPolicy, CommandRules, Reach};
pub use rules::{Allow, Privilege, Privileges, Side};
pub use verify::{VerifyKey, verify_data, verify_digest, verify_interest};

/// Why something about keys or signatures did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no key of a kind we know.
    #[error("not a key: {0}")]
    NotAKey(&'static str),
    /// The library could not make or use a key; not a matter of the input.
    #[error("the cryptographic library failed while {0}")]
    Library(&'static str),
    /// The signature does not fit the bytes and the key.
    #[error("the signature does not match")]
    Mismatch,
    /// The signature is of a type this key does not make.
    #[error("a signature of another type than the key makes")]
    WrongType,
    /// There is no signature.
    #[error("not signed")]
    Unsigned,
    /// A shared secret was used where a public key is needed.
    #[error("an HMAC key has no public half")]
    NoPublicHalf,
    /// The certificate is valid at another time, or at none.
    #[error("the certificate is not valid at this time")]
    OutOfTime,
    /// An encrypted key does not open with this passphrase.
    #[error("wrong passphrase, or the encrypted key is damaged")]
    WrongPassphrase,
    /// An encrypted key is encrypted in a way we don't know, or don't take.
    #[error("the key is encrypted in another way than PBES2 with PBKDF2: {0}")]
    Encryption(&'static str),
    /// The private key is not the one that the certificate is for.
    #[error("the private key does not belong to the certificate beside it")]
    NotItsKey,
    /// The text is not what was asked for.
    #[error("not {0}")]
    Text(&'static str),
    /// The bytes are no packet of the kind that was asked for.
    #[error("not a valid packet: {0}")]
    Packet(#[from] nw_wire::Error),
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
