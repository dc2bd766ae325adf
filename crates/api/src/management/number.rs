//! TLV-TYPE numbers of the NFD management protocol. Different messages use the same numbers.

#![allow(missing_docs)] // the names are those of the protocol

pub const NAME: u32 = 7;

pub const CONTROL_RESPONSE: u32 = 101;
pub const STATUS_CODE: u32 = 102;
pub const STATUS_TEXT: u32 = 103;
pub const CONTROL_PARAMETERS: u32 = 104;
pub const FACE_ID: u32 = 105;
pub const COST: u32 = 106;
pub const STRATEGY: u32 = 107;
pub const FLAGS: u32 = 108;
pub const EXPIRATION_PERIOD: u32 = 109;
pub const ORIGIN: u32 = 111;
pub const MASK: u32 = 112;
pub const URI: u32 = 114;
pub const LOCAL_URI: u32 = 129;
pub const CAPACITY: u32 = 131;
pub const COUNT: u32 = 132;
pub const FACE_PERSISTENCY: u32 = 133;
pub const BASE_CONGESTION_MARKING_INTERVAL: u32 = 135;
pub const DEFAULT_CONGESTION_THRESHOLD: u32 = 136;
pub const MTU: u32 = 137;

/// Items of all datasets except channels.
pub const ITEM: u32 = 128;
/// Repeated parts of items: next hops of a FIB entry, routes of a RIB entry.
pub const PART: u32 = 129;
pub const CHANNEL_STATUS: u32 = 130;

pub const URI_SCHEME: u32 = 131;
pub const FACE_SCOPE: u32 = 132;
pub const LINK_TYPE: u32 = 134;
pub const FACE_QUERY_FILTER: u32 = 150;
pub const FACE_EVENT_NOTIFICATION: u32 = 192;
pub const FACE_EVENT_KIND: u32 = 193;

pub const NFD_VERSION: u32 = 128;
pub const START_TIMESTAMP: u32 = 129;
pub const CURRENT_TIMESTAMP: u32 = 130;
pub const N_NAME_TREE_ENTRIES: u32 = 131;
pub const N_FIB_ENTRIES: u32 = 132;
pub const N_PIT_ENTRIES: u32 = 133;
pub const N_MEASUREMENTS_ENTRIES: u32 = 134;
pub const N_CS_ENTRIES: u32 = 135;

pub const N_IN_INTERESTS: u32 = 144;
pub const N_IN_DATA: u32 = 145;
pub const N_OUT_INTERESTS: u32 = 146;
pub const N_OUT_DATA: u32 = 147;
pub const N_IN_BYTES: u32 = 148;
pub const N_OUT_BYTES: u32 = 149;
pub const N_IN_NACKS: u32 = 151;
pub const N_OUT_NACKS: u32 = 152;
pub const N_SATISFIED_INTERESTS: u32 = 153;
pub const N_UNSATISFIED_INTERESTS: u32 = 154;

pub const N_HITS: u32 = 129;
pub const N_MISSES: u32 = 130;

/// Extensions of Namewire. Even, hence non-critical: other implementations skip them.
pub const DROP_REASON: u32 = 60_000;
pub const SHARD: u32 = 60_002;
pub const SHARD_PACKETS: u32 = 60_004;
pub const SHARD_HANDED_OVER: u32 = 60_006;
pub const SHARD_WAITING_BYTES: u32 = 60_008;
pub const SHARD_BUSY_NS: u32 = 60_010;
pub const SHARD_TURNS: u32 = 60_012;
pub const SHARD_PIT_ENTRIES: u32 = 60_014;
pub const SHARD_CS_ENTRIES: u32 = 60_016;
pub const SHARD_CS_HITS: u32 = 60_018;
pub const SHARD_CS_MISSES: u32 = 60_020;
pub const SHARD_CHOSEN_IN_KERNEL: u32 = 60_022;
pub const SHARD_XDP_FRAMES: u32 = 60_024;
pub const N_HELD_INTERESTS: u32 = 60_026;
pub const N_REFUSED_INTERESTS: u32 = 60_028;
pub const N_SHAPING_MARKS: u32 = 60_030;
pub const SHAPING_RATE: u32 = 60_042;
pub const XDP_INTERFACE: u32 = 60_032;
pub const XDP_MODE: u32 = 60_034;
pub const XDP_MEMORY: u32 = 60_036;
pub const XDP_QUEUES: u32 = 60_038;
pub const XDP_RECEIVED: u32 = 60_040;
pub const XDP_SENT: u32 = 60_042;
pub const XDP_LOST: u32 = 60_044;
pub const XDP_OTHERS: u32 = 60_046;
