//! Groups of options that several commands share.

use clap::Args;
use nw_app::FaceUri;
use nw_name::Name;
use std::path::PathBuf;

/// The router that a command connects to.
#[derive(Debug, Clone, Args)]
pub struct RouterArgs {
    /// Face URI of the router: unix:///path, tcp4://host:port, udp4://host:port
    ///
    /// Default: NDN_CLIENT_TRANSPORT, else client.conf, else the first unix socket that exists.
    #[arg(long = "socket", short = 's', value_name = "URI", global = true)]
    pub socket: Option<FaceUri>,
}

/// Options of a command that only reads from the router.
#[derive(Debug, Clone, Args)]
pub struct QueryArgs {
    #[command(flatten)]
    pub router: RouterArgs,
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// Options of a command that changes the router.
#[derive(Debug, Clone, Args)]
pub struct CommandArgs {
    #[command(flatten)]
    pub query: QueryArgs,
    /// Sign with this key of the key store: an identity, key or certificate, or `default`
    ///
    /// A router on another machine accepts only commands that are signed by a key, subject to its
    /// rules, and only for routes to the face on which they arrive.
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    #[command(flatten)]
    pub store: KeyStoreArgs,
}

/// The key store that a command uses.
#[derive(Debug, Clone, Args)]
pub struct KeyStoreArgs {
    /// Folder of the key store
    ///
    /// Default: NDN_CLIENT_PIB and NDN_CLIENT_TPM, else client.conf, else ~/.ndn.
    #[arg(long, value_name = "FOLDER")]
    pub store: Option<PathBuf>,
}

/// The key that signs a command's Data.
#[derive(Debug, Clone, Args)]
pub struct SigningArgs {
    /// Sign with this key of the key store: an identity, key or certificate, or `default`
    ///
    /// Without it packets carry a plain SHA-256 digest. The key also signs the prefix registration.
    /// With --key-name the value is a file instead: a private key in PEM (PKCS#8: ECDSA P-256, RSA
    /// or Ed25519).
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// Sign with HMAC, using the bytes of this file as the secret
    #[arg(long, value_name = "FILE", requires = "key_name", conflicts_with = "key")]
    pub hmac: Option<PathBuf>,
    /// Name of the key in the file given by --key or --hmac, such as /alice/KEY/1
    #[arg(long, value_name = "NAME")]
    pub key_name: Option<Name>,
    #[command(flatten)]
    pub store: KeyStoreArgs,
}

/// The conditions under which fetched Data is accepted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Verification")]
pub struct VerifyArgs {
    /// Accept only Data whose certificate chain ends at this certificate; may be repeated
    ///
    /// The certificate is binary, base64 or PEM. Without --anchor, --trust, --hmac and --verify,
    /// digests are checked, and so are signatures by keys of the key store; Data signed by other
    /// keys is accepted and reported as not verified.
    #[arg(long, value_name = "FILE")]
    pub anchor: Vec<PathBuf>,
    /// Accept only Data that the rules in this file allow: [[anchor]], [[allow]] and [[issuer]]
    ///
    /// A rule [[allow]] has the options id, anchors, signer and prefix.
    #[arg(long, value_name = "FILE")]
    pub trust: Option<PathBuf>,
    /// Accept only Data signed with HMAC, using the bytes of this file as the secret
    #[arg(long, value_name = "FILE")]
    pub hmac: Option<PathBuf>,
    /// Name of the HMAC key in signatures; any name if not given
    #[arg(long, value_name = "NAME", requires = "hmac")]
    pub key_name: Option<Name>,
    /// Accept only Data signed by a trusted key: one in the key store, or one given by the options
    /// above
    #[arg(long = "verify")]
    pub required: bool,
    #[command(flatten)]
    pub store: KeyStoreArgs,
}

/// The way a name is registered and kept registered.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Origin of the route: app (default), client, static, or a number
    ///
    /// Routing daemons announce routes of some origins only.
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Option<String>,
    /// Let routing daemons (NLSR, ndnd dv) announce the name: the same as --origin client
    #[arg(long, conflicts_with = "origin")]
    pub expose: bool,
    /// Exit when the connection to the router is lost, instead of reconnecting
    #[arg(long)]
    pub no_reconnect: bool,
}
