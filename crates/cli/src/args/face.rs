//! Options of `nw face …`.

use super::flags::{CommandArgs, QueryArgs};
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum FaceCommand {
    /// List faces
    List {
        #[command(flatten)]
        query: QueryArgs,
        /// Only faces with this URI scheme, such as udp4
        #[arg(long, value_name = "SCHEME")]
        scheme: Option<String>,
        /// Only faces with this remote URI
        #[arg(long, visible_alias = "uri", value_name = "URI")]
        remote: Option<String>,
        /// Only faces with this local URI, such as dev://eth0
        #[arg(long, value_name = "URI")]
        local: Option<String>,
    },
    /// List the addresses on which the router listens
    Channels {
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Show all attributes and counters of one face
    Show {
        /// Face id, or remote URI
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        query: QueryArgs,
    },
    /// Create a face, or update an existing one to the given options
    ///
    /// The persistency of an existing face is only raised; `nw face update` can also lower it.
    Create {
        /// Remote URI: udp4://192.0.2.1:6363, tcp4://…, ws://…, ether://[08:00:27:01:02:03]
        uri: String,
        /// Local URI; for Ethernet and multicast the interface, as in dev://eth0
        #[arg(long, value_name = "URI")]
        local: Option<String>,
        #[command(flatten)]
        options: FaceOptions,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Change options of a face
    Update {
        /// Face id, or remote URI
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        options: FaceOptions,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Destroy a face
    Destroy {
        /// Face id, or remote URI
        #[arg(value_name = "ID|URI")]
        face: String,
        #[command(flatten)]
        command: CommandArgs,
    },
    /// Print face events (created, up, down, destroyed) as they happen, until Ctrl-C
    Events {
        #[command(flatten)]
        query: QueryArgs,
    },
}

#[derive(Debug, Clone, Args)]
pub struct FaceOptions {
    /// When the face is closed
    #[arg(long, value_enum)]
    pub persistency: Option<Persistency>,
    /// MTU: largest link packet, bytes (datagram faces)
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u64>,
    /// Allow the fields IncomingFaceId and NextHopFaceId
    #[arg(long, value_name = "BOOL")]
    pub local_fields: Option<bool>,
    /// Acknowledge link packets and retransmit lost ones (NDNLPv2); the peer must do so, too
    #[arg(long, value_name = "BOOL")]
    pub reliability: Option<bool>,
    /// Mark packets when the send queue is long
    #[arg(long, value_name = "BOOL")]
    pub congestion_marking: Option<bool>,
    /// Bytes in the send queue above which packets are marked
    #[arg(long, value_name = "BYTES")]
    pub congestion_threshold: Option<u64>,
    /// Base interval of congestion marks, milliseconds
    #[arg(long, value_name = "MS")]
    pub marking_interval: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Persistency {
    /// Closed when idle or when its socket fails
    OnDemand,
    /// Closed when its socket fails
    Persistent,
    /// Never closed; reconnects
    Permanent,
}
