//! Publish/subscribe packets: each layout of Blackadder 0.4, and the envelope of this project.
//! Replayed by `crates/wire/tests/all/publication_corpus.rs`.

use nw_wire::Error;
use nw_wire::publication::{
    ApplicationMessage, Envelope, EnvelopeBuilder, Event, LinkNotification, LinkStateReport,
    MatchMessage, Message, NetlinkHeader, NetworkPacket, NetworkPacketBuilder, NodeNotice,
    ScopeChange,
};

/// Accepted, or refused for the named fault.
pub type Outcome = Result<(), &'static str>;

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]) -> Outcome);

/// Every target.
pub const ALL: [Target; 6] = [
    ("pubsub_network", network),
    ("pubsub_application", application),
    ("pubsub_control", control),
    ("pubsub_link_state", link_state),
    ("pubsub_envelope", envelope),
    ("pubsub_message", message),
];

fn refuse(bytes: &[u8], error: Error) -> &'static str {
    assert!(error.offset <= bytes.len(), "a fault outside of the input: {error}");
    error.fault.as_str()
}

/// Checks a packet between Blackadder nodes.
pub fn network(bytes: &[u8]) -> Outcome {
    let packet = NetworkPacket::check(bytes).map_err(|error| refuse(bytes, error))?;
    let ids = packet.ids().to_ids();
    assert_eq!(ids.len(), packet.ids().count());
    let mut encoded = Vec::new();
    NetworkPacketBuilder { fid: packet.fid(), ids: &ids, payload: packet.payload() }
        .encode(&mut encoded)
        .expect("it was read");
    assert_eq!(encoded, bytes);
    Ok(())
}

/// Parses a datagram between an application and a Blackadder node: a message of the application, or
/// else an event.
pub fn application(bytes: &[u8]) -> Outcome {
    let (header, body) = NetlinkHeader::parse(bytes).map_err(|error| refuse(bytes, error))?;
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    assert_eq!(encoded.len() + body.len(), bytes.len());
    let mut encoded = Vec::new();
    if let Ok(event) = Event::parse(body) {
        event.encode(&mut encoded);
    } else {
        let message = ApplicationMessage::parse(body).map_err(|error| refuse(body, error))?;
        message.encode(&mut encoded);
    }
    assert_eq!(encoded, body);
    Ok(())
}

/// Parses a message of Blackadder's rendezvous or topology function.
pub fn control(bytes: &[u8]) -> Outcome {
    let mut encoded = Vec::new();
    if let Ok(message) = MatchMessage::parse(bytes) {
        message.encode(&mut encoded).expect("it was read");
        assert_eq!(encoded, bytes);
    } else if let Ok(change) = ScopeChange::parse(bytes) {
        change.encode(&mut encoded).expect("it was read");
        assert_eq!(encoded, bytes);
    } else {
        let notice = NodeNotice::parse(bytes).map_err(|error| refuse(bytes, error))?;
        notice.encode(&mut encoded).expect("it was read");
        // Bytes after a notice about a scope are ignored.
        assert!(bytes.starts_with(&encoded));
    }
    Ok(())
}

/// Parses link state of Blackadder: a report, or else a notification.
pub fn link_state(bytes: &[u8]) -> Outcome {
    let mut encoded = Vec::new();
    if let Ok(report) = LinkStateReport::parse(bytes) {
        report.encode(&mut encoded).expect("it was read");
        assert_eq!(encoded, bytes);
        return Ok(());
    }
    let notification = LinkNotification::parse(bytes).map_err(|error| refuse(bytes, error))?;
    notification.encode(&mut encoded);
    assert!(bytes.ends_with(&encoded));
    Ok(())
}

/// Checks an envelope.
pub fn envelope(bytes: &[u8]) -> Outcome {
    let checked = Envelope::check(bytes).map_err(|error| refuse(bytes, error))?;
    let fields = Envelope::forwarding_fields(bytes).expect("it was checked");
    assert_eq!((fields.fid, fields.hop_limit), (checked.fid(), checked.hop_limit()));
    assert_eq!(bytes[fields.offset], checked.hop_limit());
    assert_eq!(Envelope::forwarding_stages(bytes).ok(), checked.staged());
    let ids = checked.ids().to_ids();
    let mut encoded = Vec::new();
    EnvelopeBuilder {
        kind: checked.kind(),
        hop_limit: checked.hop_limit(),
        class: checked.class(),
        table: checked.table(),
        fid: checked.fid(),
        staged: checked.staged(),
        stream: checked.stream(),
        fragment: checked.fragment(),
        ids: &ids,
        payload: checked.payload(),
    }
    .encode(&mut encoded)
    .expect("it was read");
    assert_eq!(encoded, bytes);
    Ok(())
}

/// Parses a control message.
pub fn message(bytes: &[u8]) -> Outcome {
    let message = Message::parse(bytes).map_err(|error| refuse(bytes, error))?;
    let mut encoded = Vec::new();
    message.encode(&mut encoded).expect("it was read");
    assert_eq!(encoded, bytes);
    Ok(())
}
