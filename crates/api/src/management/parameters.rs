//! ControlParameters and ControlResponse: the parameters of commands, and their answers.

use super::number as n;
use super::record::{Scalar, push_nested, record};
use nw_name::tlv::{Error, Fault, Reader};
use nw_name::{Name, NameRef};

/// Flags of routes and faces, as bits.
pub mod flags {
    /// Route: longer prefixes use it, too.
    pub const CHILD_INHERIT: u64 = 1;
    /// Route: this and longer prefixes do not use routes of shorter prefixes.
    pub const CAPTURE: u64 = 2;

    /// Face: the fields IncomingFaceId and NextHopFaceId are allowed.
    pub const LOCAL_FIELDS: u64 = 1;
    /// Face: lost link packets are retransmitted.
    pub const RELIABILITY: u64 = 2;
    /// Face: packets are marked when its send queue is long.
    pub const CONGESTION_MARKING: u64 = 4;

    /// Content store: new Data is cached.
    pub const CS_ADMIT: u64 = 1;
    /// Content store: Interests are answered from the cache.
    pub const CS_SERVE: u64 = 2;
}

/// Origins of routes.
pub mod origin {
    /// An application.
    pub const APP: u64 = 0;
    /// Automatic registration by the forwarder for a new peer.
    pub const AUTOREG: u64 = 64;
    /// A client, for itself.
    pub const CLIENT: u64 = 65;
    /// Network discovery.
    pub const AUTOCONF: u64 = 66;
    /// A routing protocol.
    pub const NLSR: u64 = 128;
    /// A prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: u64 = 129;
    /// An operator or a configuration file.
    pub const STATIC: u64 = 255;

    /// Returns the word for an origin. `None` for numbers without a word.
    pub const fn word(origin: u64) -> Option<&'static str> {
        match origin {
            APP => Some("app"),
            AUTOREG => Some("autoreg"),
            CLIENT => Some("client"),
            AUTOCONF => Some("autoconf"),
            NLSR => Some("nlsr"),
            PREFIX_ANNOUNCEMENT => Some("prefixann"),
            STATIC => Some("static"),
            _ => None,
        }
    }

    /// Returns the word for an origin, or its digits.
    pub fn describe(origin: u64) -> String {
        word(origin).map_or_else(|| origin.to_string(), str::to_owned)
    }

    /// Parses a word or number.
    pub fn from_word(word: &str) -> Option<u64> {
        let known = [APP, AUTOREG, CLIENT, AUTOCONF, NLSR, PREFIX_ANNOUNCEMENT, STATIC];
        known
            .into_iter()
            .find(|number| self::word(*number) == Some(word))
            .or_else(|| word.parse().ok())
    }
}

/// The element Strategy, which contains a Name.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[schema(value_type = String)]
pub struct Strategy(#[serde(with = "super::uri")] pub Name);

impl Scalar for Strategy {
    fn read(element: &nw_name::tlv::Tlv<'_>) -> Result<Self, Error> {
        let mut reader = Reader::new(element.value, element.value_start);
        let name = reader.next()?.filter(|part| part.typ == n::NAME);
        name.ok_or(Error::new(Fault::MissingField, element.start))
            .and_then(|name| Name::read(&name))
            .map(Strategy)
    }

    fn push(&self, typ: u32, out: &mut Vec<u8>) {
        push_nested(typ, out, |value| self.0.as_ref().encode(value));
    }
}

record! {
    /// The parameters of a command or of its answer. Fields are in NFD's order, as some clients
    /// ignore fields in another order.
    #[derive(Default)]
    ControlParameters {
        /// Name prefix.
        #[serde(with = "super::uri_option", default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<crate::schema::NameText>)]
        name: Option<Name> = n::NAME,
        /// Face id; 0 stands for the face on which the command arrived.
        #[serde(skip_serializing_if = "Option::is_none")]
        face_id: Option<u64> = n::FACE_ID,
        /// Remote URI of a face.
        #[serde(skip_serializing_if = "Option::is_none")]
        uri: Option<String> = n::URI,
        /// Local URI of a face.
        #[serde(skip_serializing_if = "Option::is_none")]
        local_uri: Option<String> = n::LOCAL_URI,
        /// Origin of a route; see [`origin`].
        #[serde(
            with = "super::labels::origin_option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        #[schema(value_type = Option<crate::schema::OriginText>)]
        origin: Option<u64> = n::ORIGIN,
        /// Cost of a route.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<u64> = n::COST,
        /// Capacity of the content store, packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        capacity: Option<u64> = n::CAPACITY,
        /// Number of packets erased, or to erase.
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u64> = n::COUNT,
        /// Flag bits; see [`flags`].
        #[serde(skip_serializing_if = "Option::is_none")]
        flags: Option<u64> = n::FLAGS,
        /// The bits of `flags` that are changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        mask: Option<u64> = n::MASK,
        /// Name of a strategy.
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<Strategy> = n::STRATEGY,
        /// Lifetime of a route, milliseconds.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
        /// Number of a [`FacePersistency`](super::FacePersistency). Invalid numbers are kept, so
        /// that they can be reported.
        #[serde(
            rename = "persistency", alias = "face_persistency",
            with = "super::labels::persistency_option", default,
            skip_serializing_if = "Option::is_none"
        )]
        #[schema(value_type = Option<super::FacePersistency>)]
        face_persistency: Option<u64> = n::FACE_PERSISTENCY,
        /// Base interval of congestion marks, nanoseconds.
        #[serde(
            rename = "base_congestion_marking_interval_ns",
            skip_serializing_if = "Option::is_none"
        )]
        base_congestion_marking_interval: Option<u64> = n::BASE_CONGESTION_MARKING_INTERVAL,
        /// Bytes in a face's send queue above which packets are marked.
        #[serde(skip_serializing_if = "Option::is_none")]
        default_congestion_threshold: Option<u64> = n::DEFAULT_CONGESTION_THRESHOLD,
        /// MTU: largest link packet, bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtu: Option<u64> = n::MTU,
    }
}

impl ControlParameters {
    /// Returns the encoded element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::CONTROL_PARAMETERS, &mut out);
        out
    }

    /// Decodes one element, without trailing bytes.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, 0);
        let element = reader.next()?.ok_or(Error::new(Fault::Truncated, 0))?;
        if element.typ == n::CONTROL_PARAMETERS && !reader.is_empty() {
            return Err(Error::new(Fault::Trailing, element.end()));
        }
        Self::from_element(&element)
    }

    /// Decodes an element that other elements may follow.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn from_element(element: &nw_name::tlv::Tlv<'_>) -> Result<Self, Error> {
        if element.typ != n::CONTROL_PARAMETERS {
            return Err(Error::new(Fault::FieldValue, element.start));
        }
        Self::read(element)
    }

    /// Returns parameters with only a name.
    pub fn of(name: impl Into<Name>) -> Self {
        ControlParameters { name: Some(name.into()), ..Default::default() }
    }

    /// Returns the name of the strategy.
    pub fn strategy_name(&self) -> Option<NameRef<'_>> {
        self.strategy.as_ref().map(|strategy| strategy.0.as_ref())
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct ControlResponse {
    /// Status code as in HTTP: 200 is success, 4xx an error of the client, 5xx of the router.
    pub code: u64,
    /// Status as text for people.
    pub text: String,
    /// Parameters in effect after the command, or that conflict with it. Always encoded, also in
    /// errors, as python-ndn requires it.
    pub body: ControlParameters,
}

/// Beginning of the text of an answer to a removal that found nothing to remove.
const NOTHING_REMOVED: &str = "nothing removed: ";

impl ControlResponse {
    /// Returns a success.
    pub fn ok(body: ControlParameters) -> Self {
        ControlResponse { code: 200, text: "OK".to_owned(), body }
    }

    /// Returns an error.
    pub fn refuse(code: u64, text: impl Into<String>) -> Self {
        ControlResponse { code, text: text.into(), body: ControlParameters::default() }
    }

    /// Turns an error into the answer to a removal that found nothing to remove: code 200, so that
    /// removing twice is no error, and a text that names what was missing.
    #[must_use]
    pub fn into_nothing_removed(self) -> Self {
        ControlResponse { code: 200, text: format!("{NOTHING_REMOVED}{}", self.text), ..self }
    }

    /// Returns what was missing, if this answers a removal that found nothing to remove.
    pub fn nothing_removed(&self) -> Option<&str> {
        self.text.strip_prefix(NOTHING_REMOVED).filter(|_| self.is_ok())
    }

    /// Returns whether the command succeeded.
    pub const fn is_ok(&self) -> bool {
        self.code == 200
    }

    /// Returns the encoded element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_nested(n::CONTROL_RESPONSE, &mut out, |value| {
            self.code.push(n::STATUS_CODE, value);
            self.text.push(n::STATUS_TEXT, value);
            self.body.push(n::CONTROL_PARAMETERS, value);
        });
        out
    }

    /// Decodes one element. A missing body, or one that is not ControlParameters, is decoded as
    /// empty.
    ///
    /// # Errors
    /// The fault and its byte offset.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut outer = Reader::new(bytes, 0);
        let element = outer.next()?.ok_or(Error::new(Fault::Truncated, 0))?;
        if element.typ != n::CONTROL_RESPONSE {
            return Err(Error::new(Fault::FieldValue, 0));
        }
        let mut reader = element.inner();
        let mut required = |typ| {
            let field = reader.next()?.filter(|field| field.typ == typ);
            field.ok_or(Error::new(Fault::MissingField, element.end()))
        };
        let (code, text) =
            (u64::read(&required(n::STATUS_CODE)?)?, String::read(&required(n::STATUS_TEXT)?)?);
        let body = match reader.next()? {
            Some(field) if field.typ == n::CONTROL_PARAMETERS => ControlParameters::read(&field)?,
            _ => ControlParameters::default(),
        };
        Ok(ControlResponse { code, text, body })
    }
}
