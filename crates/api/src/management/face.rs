//! Faces and channels as management shows them.

use super::number as n;
use super::record::{Scalar, choice, record};
use nw_name::tlv::{Error, Fault, Reader};

choice! {
    /// Whether the other end is on this machine.
    FaceScope {
        /// It is not.
        NonLocal = 0 "non-local",
        /// It is.
        Local = 1 "local",
    }
}

choice! {
    /// When a face goes away.
    FacePersistency {
        /// When its socket fails, or when told to.
        Persistent = 0 "persistent",
        /// Also when idle: faces of peers that came by themselves.
        OnDemand = 1 "on-demand",
        /// Only when told to; it reconnects.
        Permanent = 2 "permanent",
    }
}

choice! {
    /// Who hears what is sent.
    LinkType {
        /// One peer.
        PointToPoint = 0 "point-to-point",
        /// All on the link.
        MultiAccess = 1 "multi-access",
        /// All in radio range.
        AdHoc = 2 "ad-hoc",
    }
}

choice! {
    /// What happened to a face.
    FaceEventKind {
        /// It was made.
        Created = 1 "created",
        /// It is gone.
        Destroyed = 2 "destroyed",
        /// Its link works again.
        Up = 3 "up",
        /// Its link does not work.
        Down = 4 "down",
    }
}

record! {
    /// One face, with its counters.
    FaceStatus {
        /// Its id.
        face_id: u64 = n::FACE_ID,
        /// Its far end.
        uri: String = n::URI,
        /// Its near end.
        local_uri: String = n::LOCAL_URI,
        /// Milliseconds until it goes away when nothing happens; absent for faces that stay.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
        /// Whether the other end is on this machine.
        scope: FaceScope = n::FACE_SCOPE,
        /// When it goes away.
        persistency: FacePersistency = n::FACE_PERSISTENCY,
        /// Who hears what is sent.
        link_type: LinkType = n::LINK_TYPE,
        /// Nanoseconds between congestion marks at first.
        #[serde(rename = "base_congestion_marking_interval_ns", skip_serializing_if = "Option::is_none")]
        base_congestion_marking_interval: Option<u64> = n::BASE_CONGESTION_MARKING_INTERVAL,
        /// Octets in the send queue beyond which it is congested.
        #[serde(skip_serializing_if = "Option::is_none")]
        default_congestion_threshold: Option<u64> = n::DEFAULT_CONGESTION_THRESHOLD,
        /// Octets of the largest link packet; absent when there is no limit.
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
        /// Octets received.
        in_bytes: u64 = n::N_IN_BYTES,
        /// Octets sent.
        out_bytes: u64 = n::N_OUT_BYTES,
        /// Bits: see [`FACE_FLAGS`](super::named::FACE_FLAGS); words in JSON.
        #[serde(with = "super::named::face_flags")]
        #[schema(value_type = Vec<crate::schema::FaceFlagText>)]
        flags: u64 = n::FLAGS,
    }
}

impl FaceStatus {
    /// A face without traffic, of one peer, persistent, without limit or flags.
    pub fn new(face_id: u64, uri: impl Into<String>, local_uri: impl Into<String>, scope: FaceScope) -> Self {
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
        }
    }
}

record! {
    /// A listener, or something else that makes faces.
    ChannelStatus {
        /// Where it listens.
        local_uri: String = n::LOCAL_URI,
    }
}

record! {
    /// Which faces are asked for; absent fields match all.
    #[derive(Default)]
    FaceQueryFilter {
        /// The face of this id.
        face_id: Option<u64> = n::FACE_ID,
        /// Faces whose far or near end has this scheme.
        uri_scheme: Option<String> = n::URI_SCHEME,
        /// Faces with this far end.
        uri: Option<String> = n::URI,
        /// Faces with this near end.
        local_uri: Option<String> = n::LOCAL_URI,
        /// Faces of this scope.
        scope: Option<FaceScope> = n::FACE_SCOPE,
        /// Faces of this persistency.
        persistency: Option<FacePersistency> = n::FACE_PERSISTENCY,
        /// Faces of this kind of link.
        link_type: Option<LinkType> = n::LINK_TYPE,
    }
}

impl FaceQueryFilter {
    /// The whole element, as it stands in the name of the dataset.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::FACE_QUERY_FILTER, &mut out);
        out
    }

    /// Reads one whole element and nothing behind it.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, 0);
        let element = reader.next()?.filter(|element| element.typ == n::FACE_QUERY_FILTER);
        let element = element.ok_or(Error::new(Fault::MissingField, 0))?;
        if !reader.is_empty() {
            return Err(Error::new(Fault::Trailing, element.end()));
        }
        Self::read(&element)
    }

    /// True when the face is asked for.
    pub fn matches(&self, face: &FaceStatus) -> bool {
        fn is<T: PartialEq>(wanted: &Option<T>, actual: &T) -> bool {
            wanted.as_ref().is_none_or(|wanted| wanted == actual)
        }
        let scheme = |uri: &str| uri.split_once("://").map(|(scheme, _)| scheme.to_owned());
        is(&self.face_id, &face.face_id)
            && self.uri_scheme.as_ref().is_none_or(|wanted| {
                [&face.uri, &face.local_uri].into_iter().any(|uri| scheme(uri).as_ref() == Some(wanted))
            })
            && is(&self.uri, &face.uri)
            && is(&self.local_uri, &face.local_uri)
            && is(&self.scope, &face.scope)
            && is(&self.persistency, &face.persistency)
            && is(&self.link_type, &face.link_type)
    }
}

record! {
    /// What happened to a face.
    FaceEventNotification {
        /// What.
        kind: FaceEventKind = n::FACE_EVENT_KIND,
        /// Its id.
        face_id: u64 = n::FACE_ID,
        /// Its far end.
        uri: String = n::URI,
        /// Its near end.
        local_uri: String = n::LOCAL_URI,
        /// Whether the other end is on this machine.
        scope: FaceScope = n::FACE_SCOPE,
        /// When it goes away.
        persistency: FacePersistency = n::FACE_PERSISTENCY,
        /// Who hears what is sent.
        link_type: LinkType = n::LINK_TYPE,
        /// Bits: see [`FACE_FLAGS`](super::named::FACE_FLAGS); words in JSON.
        #[serde(with = "super::named::face_flags")]
        #[schema(value_type = Vec<crate::schema::FaceFlagText>)]
        flags: u64 = n::FLAGS,
    }
}

impl FaceEventNotification {
    /// That this happened to this face.
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

    /// The whole element, as it stands in Content.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::FACE_EVENT_NOTIFICATION, &mut out);
        out
    }

    /// Reads one whole element.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let element =
            Reader::new(bytes, 0).next()?.filter(|element| element.typ == n::FACE_EVENT_NOTIFICATION);
        element.ok_or(Error::new(Fault::MissingField, 0)).and_then(|element| Self::read(&element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::PartialSchema;
    use utoipa::openapi::RefOr;
    use utoipa::openapi::schema::Schema;

    /// The words of a type in the OpenAPI document, and those that are sent.
    fn words<T: PartialSchema>(sent: &[&str]) {
        let RefOr::T(Schema::Object(schema)) = T::schema() else { panic!("a schema of its own") };
        let words: Vec<_> =
            schema.enum_values.unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        assert_eq!(words, sent);
    }

    #[test]
    fn documented_words_are_those_that_are_sent() {
        macro_rules! check {
            ($($name:ident)+) => {
                $(
                    words::<$name>(&$name::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>());
                    for it in $name::ALL {
                        assert_eq!(serde_json::to_value(it).unwrap(), it.as_str());
                        assert_eq!(serde_json::from_value::<$name>(it.as_str().into()).unwrap(), *it);
                    }
                )+
            };
        }
        check!(FaceScope FacePersistency LinkType FaceEventKind);
    }
}
