//! `nw key` and `nw cert`: the user's identities, keys and certificates, in the store that the ecosystem's programs share.

mod cert;
mod files;
mod key;
mod passphrase;

pub use cert::cert;
pub use key::key;

use crate::args::Store;
use clap::{Args, Subcommand, ValueEnum};
use nw_name::Name;
use std::path::PathBuf;

/// Which key store, and how to print.
#[derive(Debug, Clone, Args)]
pub struct Showing {
    #[command(flatten)]
    pub store: Store,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Where a packet goes.
#[derive(Debug, Clone, Args)]
pub struct Writing {
    /// Write to this file, whole or not at all, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The packet's octets instead of base64
    #[arg(long)]
    pub raw: bool,
}

/// Where a passphrase comes from.
#[derive(Debug, Clone, Args)]
pub struct Passphrase {
    /// The first line of this file is the passphrase; asked for on the terminal when absent
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    /// P-256: what all programs know
    Ecdsa,
    /// 2048 bits, or as --size says
    Rsa,
    /// Short and fast, but ndn-cxx and python-ndn can't sign with it
    Ed25519,
}

#[derive(Debug, Subcommand)]
pub enum KeyVerb {
    /// Make a key for an identity, and a certificate that it signs for itself
    ///
    /// The first identity, and the first key of an identity, is the default.
    Generate {
        /// Whose key: /alice
        identity: Name,
        /// What kind of key
        #[arg(long = "type", value_enum, default_value_t = KeyType::Ecdsa, value_name = "TYPE")]
        kind: KeyType,
        /// Bits: 256 for ECDSA; 2048, 3072 or 4096 for RSA
        #[arg(long, value_name = "BITS")]
        size: Option<u16>,
        /// Make it the default key of its identity, and the identity the default
        #[arg(long)]
        default: bool,
        #[command(flatten)]
        showing: Showing,
    },
    /// List keys
    List {
        #[command(flatten)]
        showing: Showing,
    },
    /// Choose the identity that is meant when none is named, or the key that is meant by its identity
    Default {
        /// Name of an identity or a key
        name: Name,
        #[command(flatten)]
        showing: Showing,
    },
    /// Delete a key and its certificates, or an identity with all its keys
    Delete {
        /// Name of an identity or a key
        name: Name,
        #[command(flatten)]
        showing: Showing,
    },
    /// Write a key with its certificate, encrypted (a SafeBag), for `nw key import` or `ndnsec import`
    Export {
        /// Name of an identity, key or certificate; or `default`
        name: String,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        passphrase: Passphrase,
        #[command(flatten)]
        store: Store,
    },
    /// Add a key that `nw key export` or `ndnsec export` wrote
    Import {
        /// The file; - is standard input
        file: PathBuf,
        #[command(flatten)]
        passphrase: Passphrase,
        #[command(flatten)]
        showing: Showing,
    },
}

#[derive(Debug, Subcommand)]
pub enum CertVerb {
    /// List certificates
    List {
        #[command(flatten)]
        showing: Showing,
    },
    /// Show what a certificate says
    Show {
        /// A file (- is standard input), or the name of a certificate, key or identity of the store; or `default`
        what: String,
        #[command(flatten)]
        showing: Showing,
    },
    /// Write the certificate that a key signed for itself: what somebody else is to sign
    Request {
        /// Name of an identity or a key; or `default`
        name: String,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        store: Store,
    },
    /// Sign somebody's request: write a certificate for the key in it
    Sign {
        /// The request, as `nw cert request` or `ndnsec sign-req` writes it; - is standard input
        file: PathBuf,
        /// Who signs: name of an identity, key or certificate of the store; or `default`
        #[arg(long, value_name = "NAME")]
        signer: String,
        /// What the certificate's name says of who signed
        #[arg(long, value_name = "WORD", default_value = "NA")]
        issuer: String,
        /// From when it is valid: YYYYMMDDThhmmss, YYYY-MM-DD or now
        #[arg(long, value_name = "TIME", default_value = "now", value_parser = cert::moment)]
        not_before: u64,
        /// Until when: YYYYMMDDThhmmss, YYYY-MM-DD, or so many days from now: +365d
        #[arg(long, value_name = "TIME", default_value = "+365d", value_parser = cert::moment)]
        not_after: u64,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        store: Store,
    },
    /// Add a certificate to its key in the store
    Install {
        /// The file; - is standard input
        file: PathBuf,
        /// Do not make it the key's default certificate
        #[arg(long)]
        no_default: bool,
        #[command(flatten)]
        showing: Showing,
    },
    /// Write a certificate of the store
    Export {
        /// Name of a certificate, key or identity; or `default`
        name: String,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        store: Store,
    },
    /// Choose the certificate that is meant by its key
    Default {
        /// Name of a certificate
        name: Name,
        #[command(flatten)]
        showing: Showing,
    },
    /// Delete a certificate; its key stays
    Delete {
        /// Name of a certificate
        name: Name,
        #[command(flatten)]
        showing: Showing,
    },
}
