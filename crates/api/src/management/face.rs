//! Records of faces and channels, and face events.

use super::number as n;
use super::record::{Scalar, choice, record};
use nw_name::tlv::{Error, Fault, Reader};

choice! {
    /// The scope of a face: whether its peer is on this machine.
    FaceScope {
        /// The peer is on another machine.
        NonLocal = 0 "non-local",
        /// The peer is on this machine.
        Local = 1 "local",
    }
}

choice! {
    /// When a face is closed.
    FacePersistency {
        /// When its socket fails, or by a command.
        Persistent = 0 "persistent",
        /// Also when idle: faces created by incoming packets or connections.
        OnDemand = 1 "on-demand",
        /// Only by a command; it reconnects.
        Permanent = 2 "permanent",
    }
}

choice! {
    /// The receivers of packets sent on a face.
    LinkType {
        /// One peer.
        PointToPoint = 0 "point-to-point",
        /// All hosts on the link.
        MultiAccess = 1 "multi-access",
        /// All hosts in radio range.
        AdHoc = 2 "ad-hoc",
    }
}

choice! {
    /// The kind of a face event.
    FaceEventKind {
        /// The face was created.
        Created = 1 "created",
        /// The face was closed.
        Destroyed = 2 "destroyed",
        /// Its link is up again.
        Up = 3 "up",
        /// Its link is down.
        Down = 4 "down",
    }
}

record! {
    /// Attributes and counters of a face.
    FaceStatus {
        /// Face id.
        face_id: u64 = n::FACE_ID,
        /// Remote URI.
        uri: String = n::URI,
        /// Local URI.
        local_uri: String = n::LOCAL_URI,
        /// Milliseconds until it is closed if it stays idle; absent for faces without idle timeout.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
        /// Scope.
        scope: FaceScope = n::FACE_SCOPE,
        /// Persistency.
        persistency: FacePersistency = n::FACE_PERSISTENCY,
        /// Link type.
        link_type: LinkType = n::LINK_TYPE,
        /// Base interval of congestion marks, nanoseconds.
        #[serde(
            rename = "base_congestion_marking_interval_ns",
            skip_serializing_if = "Option::is_none"
        )]
        base_congestion_marking_interval: Option<u64> = n::BASE_CONGESTION_MARKING_INTERVAL,
        /// Bytes in the send queue above which packets are marked.
        #[serde(skip_serializing_if = "Option::is_none")]
        default_congestion_threshold: Option<u64> = n::DEFAULT_CONGESTION_THRESHOLD,
        /// MTU: largest link packet, bytes; absent without a limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtu: Option<u64> = n::MTU,
        /// Interests received.
        in_interests: u64 = n::N_IN_INTERESTS,
        /// Data received.
        in_data: u64 = n::N_IN_DATA,
        /// Nacks received.
        in_nacks: u64 = n::N_IN_NACKS,
        /// Interests sent.
        out_interests: u64 = n::N_OUT_INTERESTS,
        /// Data sent.
        out_data: u64 = n::N_OUT_DATA,
        /// Nacks sent.
        out_nacks: u64 = n::N_OUT_NACKS,
        /// Bytes received.
        in_bytes: u64 = n::N_IN_BYTES,
        /// Bytes sent.
        out_bytes: u64 = n::N_OUT_BYTES,
        /// Flag bits, see [`FACE_FLAGS`](super::labels::FACE_FLAGS); words in JSON.
        #[serde(with = "super::labels::face_flags")]
        #[schema(value_type = Vec<crate::schema::FaceFlagText>)]
        flags: u64 = n::FLAGS,
        /// Interests that wait for the link; absent while the link is not short.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_interests: Option<u64> = n::N_HELD_INTERESTS,
        /// Interests refused because they would have waited too long; absent if none was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused_interests: Option<u64> = n::N_REFUSED_INTERESTS,
        /// Data marked because Interests of their flow waited long; absent if none was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shaping_marks: Option<u64> = n::N_SHAPING_MARKS,
        /// Data that may be requested on the link, bytes per second; absent while the link is not
        /// short, 0 while the rate is being learned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shaping_rate_bytes: Option<u64> = n::SHAPING_RATE,
    }
}

impl FaceStatus {
    /// Returns a persistent point-to-point face without traffic, MTU and flags.
    pub fn new(
        face_id: u64,
        uri: impl Into<String>,
        local_uri: impl Into<String>,
        scope: FaceScope,
    ) -> Self {
        FaceStatus {
            face_id,
            uri: uri.into(),
            local_uri: local_uri.into(),
            expiration_period: None,
            scope,
            persistency: FacePersistency::Persistent,
            link_type: LinkType::PointToPoint,
            base_congestion_marking_interval: None,
            default_congestion_threshold: None,
            mtu: None,
            in_interests: 0,
            in_data: 0,
            in_nacks: 0,
            out_interests: 0,
            out_data: 0,
            out_nacks: 0,
            in_bytes: 0,
            out_bytes: 0,
            flags: 0,
            held_interests: None,
            refused_interests: None,
            shaping_marks: None,
            shaping_rate_bytes: None,
        }
    }
}

record! {
    /// A channel: a listener that creates faces.
    ChannelStatus {
        /// Local URI of the listener.
        local_uri: String = n::LOCAL_URI,
    }
}

record! {
    /// A filter of faces. Absent fields match all faces.
    #[derive(Default)]
    FaceQueryFilter {
        /// Face id.
        face_id: Option<u64> = n::FACE_ID,
        /// Scheme of the remote or local URI.
        uri_scheme: Option<String> = n::URI_SCHEME,
        /// Remote URI.
        uri: Option<String> = n::URI,
        /// Local URI.
        local_uri: Option<String> = n::LOCAL_URI,
        /// Scope.
        scope: Option<FaceScope> = n::FACE_SCOPE,
        /// Persistency.
        persistency: Option<FacePersistency> = n::FACE_PERSISTENCY,
        /// Link type.
        link_type: Option<LinkType> = n::LINK_TYPE,
    }
}

impl FaceQueryFilter {
    /// Returns the encoded element, a component of the dataset's name.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::FACE_QUERY_FILTER, &mut out);
        out
    }

    /// Decodes one element, without trailing bytes.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, 0);
        let element = reader.next()?.filter(|element| element.typ == n::FACE_QUERY_FILTER);
        let element = element.ok_or(Error::new(Fault::MissingField, 0))?;
        if !reader.is_empty() {
            return Err(Error::new(Fault::Trailing, element.end()));
        }
        Self::read(&element)
    }

    /// Returns whether a face matches the filter.
    pub fn matches(&self, face: &FaceStatus) -> bool {
        fn matches<T: PartialEq>(filter: &Option<T>, actual: &T) -> bool {
            filter.as_ref().is_none_or(|filter| filter == actual)
        }
        let scheme = |uri: &str| uri.split_once("://").map(|(scheme, _)| scheme.to_owned());
        matches(&self.face_id, &face.face_id)
            && self.uri_scheme.as_ref().is_none_or(|filter| {
                [&face.uri, &face.local_uri]
                    .into_iter()
                    .any(|uri| scheme(uri).as_ref() == Some(filter))
            })
            && matches(&self.uri, &face.uri)
            && matches(&self.local_uri, &face.local_uri)
            && matches(&self.scope, &face.scope)
            && matches(&self.persistency, &face.persistency)
            && matches(&self.link_type, &face.link_type)
    }
}

record! {
    /// A notification about a face event.
    FaceEventNotification {
        /// Kind of the event.
        kind: FaceEventKind = n::FACE_EVENT_KIND,
        /// Face id.
        face_id: u64 = n::FACE_ID,
        /// Remote URI.
        uri: String = n::URI,
        /// Local URI.
        local_uri: String = n::LOCAL_URI,
        /// Scope.
        scope: FaceScope = n::FACE_SCOPE,
        /// Persistency.
        persistency: FacePersistency = n::FACE_PERSISTENCY,
        /// Link type.
        link_type: LinkType = n::LINK_TYPE,
        /// Flag bits, see [`FACE_FLAGS`](super::labels::FACE_FLAGS); words in JSON.
        #[serde(with = "super::labels::face_flags")]
        #[schema(value_type = Vec<crate::schema::FaceFlagText>)]
        flags: u64 = n::FLAGS,
    }
}

impl FaceEventNotification {
    /// Returns a notification about an event of a face.
    pub fn new(kind: FaceEventKind, face: &FaceStatus) -> Self {
        FaceEventNotification {
            kind,
            face_id: face.face_id,
            uri: face.uri.clone(),
            local_uri: face.local_uri.clone(),
            scope: face.scope,
            persistency: face.persistency,
            link_type: face.link_type,
            flags: face.flags,
        }
    }

    /// Returns the encoded element, the content of a notification.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::FACE_EVENT_NOTIFICATION, &mut out);
        out
    }

    /// Decodes one element.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let element = Reader::new(bytes, 0)
            .next()?
            .filter(|element| element.typ == n::FACE_EVENT_NOTIFICATION);
        element.ok_or(Error::new(Fault::MissingField, 0)).and_then(|element| Self::read(&element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::PartialSchema;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    /// Compares the words of a type in the OpenAPI document with those in JSON.
    fn assert_schema_words<T: PartialSchema>(sent: &[&str]) {
        let RefOr::T(Schema::Object(schema)) = T::schema() else { panic!("a schema of its own") };
        let words: Vec<_> = schema
            .enum_values
            .unwrap()
            .iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(words, sent);
    }

    #[test]
    fn schema_words_equal_json_words() {
        macro_rules! check {
            ($($name:ident)+) => {
                $(
                    let words: Vec<_> = $name::ALL.iter().map(|value| value.as_str()).collect();
                    assert_schema_words::<$name>(&words);
                    for value in $name::ALL {
                        assert_eq!(serde_json::to_value(value).unwrap(), value.as_str());
                        let read = serde_json::from_value::<$name>(value.as_str().into());
                        assert_eq!(read.unwrap(), *value);
                    }
                )+
            };
        }
        check!(FaceScope FacePersistency LinkType FaceEventKind);
    }
}
