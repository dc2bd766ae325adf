//! Names and kinds of TLV types, by enclosing element.

use crate::types::{self as t, content_type};
use nw_name::{NameRef, convention};

/// One type within one enclosing element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) typ: u32,
    pub(super) name: &'static str,
    pub(super) shape: Shape,
}

/// How an element's value is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Unknown,
    Empty,
    Name,
    Component,
    Number(&'static str),
    Words(&'static [(u64, &'static str)]),
    Flags(&'static [(u64, &'static str)]),
    Text,
    Bytes,
    Inside(&'static [Row]),
    /// As `Inside`; it is also checked as a packet.
    Packet(&'static [Row]),
    /// Fragment of an LpPacket.
    Fragment,
    /// Content of a Data.
    Content,
    /// A publication, whose fields are not elements.
    Publication,
}

use Shape::{Bytes, Component, Empty, Flags, Inside, Name, Number, Text, Words};

const fn row(typ: u32, name: &'static str, shape: Shape) -> Row {
    Row { typ, name, shape }
}

pub(super) const CONTROL_PARAMETERS_TYPE: u32 = 104;

/// Outermost elements.
pub(super) static PACKETS: &[Row] = &[
    row(t::INTEREST, "Interest", Shape::Packet(INTEREST)),
    row(t::DATA, "Data", Shape::Packet(DATA)),
    row(t::LP_PACKET, "LpPacket", Shape::Packet(LP_PACKET)),
    row(t::PUBLICATION, "Publication", Shape::Publication),
    row(t::NAME, "Name", Name),
    row(101, "ControlResponse", Inside(CONTROL_RESPONSE)),
    row(CONTROL_PARAMETERS_TYPE, "ControlParameters", Inside(CONTROL_PARAMETERS)),
    row(128, "SafeBag", Inside(SAFE_BAG)),
    row(192, "FaceEventNotification", Inside(FACE_STATUS)),
];

static INTEREST: &[Row] = &[
    row(t::NAME, "Name", Name),
    row(t::CAN_BE_PREFIX, "CanBePrefix", Empty),
    row(t::MUST_BE_FRESH, "MustBeFresh", Empty),
    row(t::FORWARDING_HINT, "ForwardingHint", Inside(HINT)),
    row(t::NONCE, "Nonce", Bytes),
    row(t::INTEREST_LIFETIME, "InterestLifetime", Number("ms")),
    row(t::HOP_LIMIT, "HopLimit", Number("")),
    row(t::APPLICATION_PARAMETERS, "ApplicationParameters", Text),
    row(t::INTEREST_SIGNATURE_INFO, "InterestSignatureInfo", Inside(SIGNATURE_INFO)),
    row(t::INTEREST_SIGNATURE_VALUE, "InterestSignatureValue", Bytes),
];

static HINT: &[Row] =
    &[row(t::NAME, "Name", Name), row(t::DELEGATION, "Delegation", Inside(DELEGATION))];

static DELEGATION: &[Row] = &[row(t::NAME, "Name", Name), row(30, "Preference", Number(""))];

static DATA: &[Row] = &[
    row(t::NAME, "Name", Name),
    row(t::META_INFO, "MetaInfo", Inside(META_INFO)),
    row(t::CONTENT, "Content", Shape::Content),
    row(t::SIGNATURE_INFO, "SignatureInfo", Inside(SIGNATURE_INFO)),
    row(t::SIGNATURE_VALUE, "SignatureValue", Bytes),
];

static META_INFO: &[Row] = &[
    row(t::CONTENT_TYPE, "ContentType", Words(CONTENT_TYPES)),
    row(t::FRESHNESS_PERIOD, "FreshnessPeriod", Number("ms")),
    row(t::FINAL_BLOCK_ID, "FinalBlockId", Component),
];

static CONTENT_TYPES: &[(u64, &str)] = &[
    (content_type::BLOB, "Blob"),
    (content_type::LINK, "Link"),
    (content_type::KEY, "Key"),
    (content_type::NACK, "Nack"),
    (content_type::MANIFEST, "Manifest"),
    (content_type::PREFIX_ANNOUNCEMENT, "PrefixAnnouncement"),
    (1024, "FLIC"),
];

static SIGNATURE_INFO: &[Row] = &[
    row(t::SIGNATURE_TYPE, "SignatureType", Words(SIGNATURE_TYPES)),
    row(t::KEY_LOCATOR, "KeyLocator", Inside(KEY_LOCATOR)),
    row(t::SIGNATURE_NONCE, "SignatureNonce", Bytes),
    row(t::SIGNATURE_TIME, "SignatureTime", Number("ms since 1970")),
    row(t::SIGNATURE_SEQ_NUM, "SignatureSeqNum", Number("")),
    row(t::VALIDITY_PERIOD, "ValidityPeriod", Inside(VALIDITY_PERIOD)),
    row(258, "AdditionalDescription", Inside(DESCRIPTION)),
];

static SIGNATURE_TYPES: &[(u64, &str)] = &[
    (0, "DigestSha256"),
    (1, "SignatureSha256WithRsa"),
    (3, "SignatureSha256WithEcdsa"),
    (4, "SignatureHmacWithSha256"),
    (5, "SignatureEd25519"),
    (200, "Null"),
];

static KEY_LOCATOR: &[Row] = &[row(t::NAME, "Name", Name), row(t::KEY_DIGEST, "KeyDigest", Bytes)];

static VALIDITY_PERIOD: &[Row] =
    &[row(t::NOT_BEFORE, "NotBefore", Text), row(t::NOT_AFTER, "NotAfter", Text)];

static DESCRIPTION: &[Row] = &[row(512, "DescriptionEntry", Inside(DESCRIPTION_ENTRY))];

static DESCRIPTION_ENTRY: &[Row] =
    &[row(513, "DescriptionKey", Text), row(514, "DescriptionValue", Text)];

static SAFE_BAG: &[Row] =
    &[row(t::DATA, "Data", Shape::Packet(DATA)), row(129, "EncryptedKey", Bytes)];

static LP_PACKET: &[Row] = &[
    row(t::LP_FRAGMENT, "Fragment", Shape::Fragment),
    row(t::LP_SEQUENCE, "Sequence", Number("")),
    row(t::LP_FRAG_INDEX, "FragIndex", Number("")),
    row(t::LP_FRAG_COUNT, "FragCount", Number("")),
    row(t::LP_PIT_TOKEN, "PitToken", Bytes),
    row(t::LP_NACK, "Nack", Inside(NACK)),
    row(t::LP_INCOMING_FACE_ID, "IncomingFaceId", Number("")),
    row(t::LP_NEXT_HOP_FACE_ID, "NextHopFaceId", Number("")),
    row(t::LP_CACHE_POLICY, "CachePolicy", Inside(CACHE_POLICY)),
    row(t::LP_CONGESTION_MARK, "CongestionMark", Number("")),
    row(t::LP_ACK, "Ack", Number("")),
    row(t::LP_TX_SEQUENCE, "TxSequence", Number("")),
    row(t::LP_NON_DISCOVERY, "NonDiscovery", Empty),
    row(
        t::LP_PREFIX_ANNOUNCEMENT,
        "PrefixAnnouncement",
        Inside(&[row(t::DATA, "Data", Shape::Packet(DATA))]),
    ),
    row(t::LP_RECEIVE_WINDOW, "ReceiveRoom", Number("KiB")),
];

static NACK: &[Row] = &[row(t::LP_NACK_REASON, "NackReason", Words(NACK_REASONS))];

static NACK_REASONS: &[(u64, &str)] =
    &[(0, "None"), (50, "Congestion"), (100, "Duplicate"), (150, "NoRoute")];

static CACHE_POLICY: &[Row] =
    &[row(t::LP_CACHE_POLICY_TYPE, "CachePolicyType", Words(&[(1, "NoCache")]))];

// NFD management protocol. Its numbers are reused from place to place.

/// Elements in a component of a command's name.
pub(super) static CONTROL: &[Row] =
    &[row(CONTROL_PARAMETERS_TYPE, "ControlParameters", Inside(CONTROL_PARAMETERS))];

static CONTROL_PARAMETERS: &[Row] = &[
    row(t::NAME, "Name", Name),
    row(105, "FaceId", Number("")),
    row(114, "Uri", Text),
    row(129, "LocalUri", Text),
    row(111, "Origin", Words(ORIGINS)),
    row(106, "Cost", Number("")),
    row(131, "Capacity", Number("")),
    row(132, "Count", Number("")),
    row(108, "Flags", Flags(&[])),
    row(112, "Mask", Flags(&[])),
    row(107, "Strategy", Inside(STRATEGY)),
    row(109, "ExpirationPeriod", Number("ms")),
    row(133, "FacePersistency", Words(PERSISTENCIES)),
    row(135, "BaseCongestionMarkingInterval", Number("ns")),
    row(136, "DefaultCongestionThreshold", Number("bytes")),
    row(137, "Mtu", Number("bytes")),
];

static STRATEGY: &[Row] = &[row(t::NAME, "Name", Name)];

static ORIGINS: &[(u64, &str)] = &[
    (0, "app"),
    (64, "autoreg"),
    (65, "client"),
    (66, "autoconf"),
    (128, "nlsr"),
    (129, "prefixann"),
    (255, "static"),
];

static PERSISTENCIES: &[(u64, &str)] = &[(0, "persistent"), (1, "on-demand"), (2, "permanent")];

static CONTROL_RESPONSE: &[Row] = &[
    row(102, "StatusCode", Number("")),
    row(103, "StatusText", Text),
    row(CONTROL_PARAMETERS_TYPE, "ControlParameters", Inside(CONTROL_PARAMETERS)),
];

static RESPONSES: &[Row] = &[row(101, "ControlResponse", Inside(CONTROL_RESPONSE))];

static FORWARDER_STATUS: &[Row] = &[
    row(128, "NfdVersion", Text),
    row(129, "StartTimestamp", Number("ms since 1970")),
    row(130, "CurrentTimestamp", Number("ms since 1970")),
    row(131, "NNameTreeEntries", Number("")),
    row(132, "NFibEntries", Number("")),
    row(133, "NPitEntries", Number("")),
    row(134, "NMeasurementsEntries", Number("")),
    row(135, "NCsEntries", Number("")),
    row(144, "NInInterests", Number("")),
    row(145, "NInData", Number("")),
    row(151, "NInNacks", Number("")),
    row(146, "NOutInterests", Number("")),
    row(147, "NOutData", Number("")),
    row(152, "NOutNacks", Number("")),
    row(153, "NSatisfiedInterests", Number("")),
    row(154, "NUnsatisfiedInterests", Number("")),
];

/// Status of a face, in datasets and notifications.
static FACE_STATUS: &[Row] = &[
    row(193, "FaceEventKind", Words(&[(1, "created"), (2, "destroyed"), (3, "up"), (4, "down")])),
    row(105, "FaceId", Number("")),
    row(114, "Uri", Text),
    row(129, "LocalUri", Text),
    row(109, "ExpirationPeriod", Number("ms")),
    row(132, "FaceScope", Words(&[(0, "non-local"), (1, "local")])),
    row(133, "FacePersistency", Words(PERSISTENCIES)),
    row(134, "LinkType", Words(&[(0, "point-to-point"), (1, "multi-access"), (2, "ad-hoc")])),
    row(135, "BaseCongestionMarkingInterval", Number("ns")),
    row(136, "DefaultCongestionThreshold", Number("bytes")),
    row(137, "Mtu", Number("bytes")),
    row(144, "NInInterests", Number("")),
    row(145, "NInData", Number("")),
    row(151, "NInNacks", Number("")),
    row(146, "NOutInterests", Number("")),
    row(147, "NOutData", Number("")),
    row(152, "NOutNacks", Number("")),
    row(148, "NInBytes", Number("bytes")),
    row(149, "NOutBytes", Number("bytes")),
    row(108, "Flags", Flags(&[(1, "local-fields"), (2, "reliability"), (4, "congestion-marking")])),
];

static FACES: &[Row] = &[row(128, "FaceStatus", Inside(FACE_STATUS))];

static CHANNELS: &[Row] = &[row(130, "ChannelStatus", Inside(&[row(129, "LocalUri", Text)]))];

static EVENTS: &[Row] = &[row(192, "FaceEventNotification", Inside(FACE_STATUS))];

static FIB: &[Row] = &[row(128, "FibEntry", Inside(FIB_ENTRY))];

static FIB_ENTRY: &[Row] = &[row(t::NAME, "Name", Name), row(129, "NextHopRecord", Inside(ROUTE))];

static RIB: &[Row] = &[row(128, "RibEntry", Inside(RIB_ENTRY))];

static RIB_ENTRY: &[Row] = &[row(t::NAME, "Name", Name), row(129, "Route", Inside(ROUTE))];

static ROUTE: &[Row] = &[
    row(105, "FaceId", Number("")),
    row(111, "Origin", Words(ORIGINS)),
    row(106, "Cost", Number("")),
    row(108, "Flags", Flags(&[(1, "child-inherit"), (2, "capture")])),
    row(109, "ExpirationPeriod", Number("ms")),
];

static CS: &[Row] = &[row(128, "CsInfo", Inside(CS_INFO))];

static CS_INFO: &[Row] = &[
    row(131, "Capacity", Number("")),
    row(108, "Flags", Flags(&[(1, "admit"), (2, "serve")])),
    row(135, "NCsEntries", Number("")),
    row(129, "NHits", Number("")),
    row(130, "NMisses", Number("")),
];

static STRATEGY_CHOICES: &[Row] = &[row(128, "StrategyChoice", Inside(STRATEGY_CHOICE))];

static STRATEGY_CHOICE: &[Row] =
    &[row(t::NAME, "Name", Name), row(107, "Strategy", Inside(STRATEGY))];

static LINK: &[Row] = &[row(t::NAME, "Name", Name)];

static METADATA: &[Row] =
    &[row(t::NAME, "Name", Name), row(t::FINAL_BLOCK_ID, "FinalBlockId", Component)];

static ANNOUNCEMENT: &[Row] = &[
    row(109, "ExpirationPeriod", Number("ms")),
    row(t::VALIDITY_PERIOD, "ValidityPeriod", Inside(VALIDITY_PERIOD)),
];

/// Returns whether the name is below `/localhost/nfd` or `/localhop/nfd`.
pub(super) fn is_management(name: NameRef<'_>) -> bool {
    let mut components = name.components().map(|component| component.value());
    matches!(components.next(), Some(b"localhost" | b"localhop"))
        && components.next() == Some(b"nfd")
}

/// Returns the table for the elements in a Data's content. `None` if it holds no known elements.
pub(super) fn content(
    name: NameRef<'_>,
    content_type: u64,
    content: &[u8],
) -> Option<&'static [Row]> {
    match content_type {
        content_type::LINK => return Some(LINK),
        content_type::PREFIX_ANNOUNCEMENT => return Some(ANNOUNCEMENT),
        content_type::BLOB => {}
        _ => return None,
    }
    if name.components().any(|component| component == convention::METADATA) {
        return Some(METADATA);
    }
    if !is_management(name) {
        return None;
    }
    let part = |index| name.component(index).map_or(&[][..], |component| component.value());
    match (part(2), part(3)) {
        _ if content.first() == Some(&101) => Some(RESPONSES),
        (b"status", b"general") => Some(FORWARDER_STATUS),
        (b"faces", b"list" | b"query") => Some(FACES),
        (b"faces", b"channels") => Some(CHANNELS),
        (b"faces", b"events") => Some(EVENTS),
        (b"fib", b"list") => Some(FIB),
        (b"rib", b"list") => Some(RIB),
        (b"cs", b"info") => Some(CS),
        (b"strategy-choice", b"list") => Some(STRATEGY_CHOICES),
        _ => None,
    }
}
