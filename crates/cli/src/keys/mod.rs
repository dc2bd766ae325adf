//! `nw key` and `nw cert`: identities, keys and certificates in the key store of the user, which
//! other NDN programs use, too.

mod cert;
mod files;
mod key;
mod passphrase;

pub use cert::{cert, read as read_certificate};
pub use key::key;

use crate::args::flags::KeyStoreArgs;
use clap::{Args, Subcommand, ValueEnum};
use nw_name::Name;
use std::path::PathBuf;

/// Options that select the key store and the output format.
#[derive(Debug, Clone, Args)]
pub struct StoreQueryArgs {
    #[command(flatten)]
    pub store: KeyStoreArgs,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options that select where a packet is written, and its encoding.
#[derive(Debug, Clone, Args)]
pub struct PacketOutputArgs {
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write binary instead of base64
    #[arg(long)]
    pub raw: bool,
}

/// Options that select the source of a passphrase.
#[derive(Debug, Clone, Args)]
pub struct PassphraseArgs {
    /// File whose first line is the passphrase; default: ask on the terminal
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyType {
    /// P-256; supported by all NDN programs
    Ecdsa,
    /// 2048 bits, or the number given by --size
    Rsa,
    /// Short and fast, but not supported for signing by ndn-cxx and python-ndn
    Ed25519,
}

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Generate a key for an identity, with a self-signed certificate
    ///
    /// The first identity becomes the default, and so does the first key of each identity.
    Generate {
        /// Name of the identity, such as /alice
        identity: Name,
        /// Type of the key
        #[arg(long = "type", value_enum, default_value_t = KeyType::Ecdsa, value_name = "TYPE")]
        kind: KeyType,
        /// Size in bits: 256 for ECDSA; 2048, 3072 or 4096 for RSA
        #[arg(long, value_name = "BITS")]
        size: Option<u16>,
        /// Make it the default key of its identity, and the identity the default identity
        #[arg(long)]
        default: bool,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// List keys
    List {
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Set the default identity, or the default key of an identity
    Default {
        /// Name of an identity or a key
        name: Name,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Delete a key and its certificates, or an identity with all its keys
    Delete {
        /// Name of an identity or a key
        name: Name,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Export a key with its certificate, encrypted (SafeBag), for `nw key import` or `ndnsec
    /// import`
    Export {
        /// Name of an identity, key or certificate; or `default`
        name: String,
        #[command(flatten)]
        output: PacketOutputArgs,
        #[command(flatten)]
        passphrase: PassphraseArgs,
        #[command(flatten)]
        store: KeyStoreArgs,
    },
    /// Import a key written by `nw key export` or `ndnsec export`
    Import {
        /// File; - is standard input
        file: PathBuf,
        #[command(flatten)]
        passphrase: PassphraseArgs,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum CertCommand {
    /// List certificates
    List {
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Show the contents of a certificate
    Show {
        /// File (- is standard input), or name of a certificate, key or identity in the store; or
        /// `default`
        certificate: String,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Write the self-signed certificate of a key, as a request for an authority to sign
    Request {
        /// Name of an identity or a key; or `default`
        name: String,
        #[command(flatten)]
        output: PacketOutputArgs,
        #[command(flatten)]
        store: KeyStoreArgs,
    },
    /// Sign a request: write a certificate for the key in it
    Sign {
        /// Request written by `nw cert request` or `ndnsec sign-req`; - is standard input
        file: PathBuf,
        /// Signer: name of an identity, key or certificate in the store; or `default`
        #[arg(long, value_name = "NAME")]
        signer: String,
        /// Issuer component of the certificate's name
        #[arg(long, value_name = "WORD", default_value = "NA")]
        issuer: String,
        /// Start of validity: YYYYMMDDThhmmss, YYYY-MM-DD, or now
        #[arg(long, value_name = "TIME", default_value = "now", value_parser = cert::parse_time)]
        not_before: u64,
        /// End of validity: YYYYMMDDThhmmss, YYYY-MM-DD, or days from now, such as +365d
        #[arg(long, value_name = "TIME", default_value = "+365d", value_parser = cert::parse_time)]
        not_after: u64,
        #[command(flatten)]
        output: PacketOutputArgs,
        #[command(flatten)]
        store: KeyStoreArgs,
    },
    /// Install a certificate for a key in the store
    Install {
        /// File; - is standard input
        file: PathBuf,
        /// Do not make it the default certificate of the key
        #[arg(long)]
        no_default: bool,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Export a certificate from the store
    Export {
        /// Name of a certificate, key or identity; or `default`
        name: String,
        #[command(flatten)]
        output: PacketOutputArgs,
        #[command(flatten)]
        store: KeyStoreArgs,
    },
    /// Set the default certificate of a key
    Default {
        /// Name of a certificate
        name: Name,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
    /// Delete a certificate, but not its key
    Delete {
        /// Name of a certificate
        name: Name,
        #[command(flatten)]
        query: StoreQueryArgs,
    },
}
