//! ControlParameters and ControlResponse: what commands carry and how they are answered.

use super::number as n;
use super::record::{Scalar, push_nested, record};
use nw_name::tlv::{Error, Fault, Reader};
use nw_name::{Name, NameRef};

/// Flags of routes and faces, as bits.
pub mod flags {
    /// Route: names below use it too.
    pub const CHILD_INHERIT: u64 = 1;
    /// Route: shorter names' routes are not used at this name and below.
    pub const CAPTURE: u64 = 2;

    /// Face: IncomingFaceId and NextHopFaceId are exchanged.
    pub const LOCAL_FIELDS: u64 = 1;
    /// Face: lost link packets are sent again.
    pub const RELIABILITY: u64 = 2;
    /// Face: congestion is marked.
    pub const CONGESTION_MARKING: u64 = 4;

    /// Content store: Data is stored.
    pub const CS_ADMIT: u64 = 1;
    /// Content store: Interests are answered.
    pub const CS_SERVE: u64 = 2;
}

/// Who made a route.
pub mod origin {
    /// An application.
    pub const APP: u64 = 0;
    /// The forwarder, for a peer that came.
    pub const AUTOREG: u64 = 64;
    /// A peer, for itself.
    pub const CLIENT: u64 = 65;
    /// Discovery of the network.
    pub const AUTOCONF: u64 = 66;
    /// A routing protocol.
    pub const NLSR: u64 = 128;
    /// A prefix announcement.
    pub const PREFIX_ANNOUNCEMENT: u64 = 129;
    /// A person or a configuration file.
    pub const STATIC: u64 = 255;

    /// As people write it; `None` for numbers without a word.
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

    /// Returns the word, or the digits of a number without one.
    pub fn describe(origin: u64) -> String {
        word(origin).map_or_else(|| origin.to_string(), str::to_owned)
    }

    /// From the word or number people write.
    pub fn from_word(word: &str) -> Option<u64> {
        let known = [APP, AUTOREG, CLIENT, AUTOCONF, NLSR, PREFIX_ANNOUNCEMENT, STATIC];
        known.into_iter().find(|number| self::word(*number) == Some(word)).or_else(|| word.parse().ok())
    }
}

/// The element Strategy: a Name in a wrapper of its own.
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
    /// What a command is told, and what its answer says back. Field order is NFD's: clients lose fields that come in another.
    #[derive(Default)]
    ControlParameters {
        /// A prefix.
        #[serde(with = "super::uri_option", default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<crate::schema::NameText>)]
        name: Option<Name> = n::NAME,
        /// A face; 0 is the face the command came by.
        #[serde(skip_serializing_if = "Option::is_none")]
        face_id: Option<u64> = n::FACE_ID,
        /// A face's far end.
        #[serde(skip_serializing_if = "Option::is_none")]
        uri: Option<String> = n::URI,
        /// A face's near end.
        #[serde(skip_serializing_if = "Option::is_none")]
        local_uri: Option<String> = n::LOCAL_URI,
        /// Who made a route: see [`origin`].
        #[serde(with = "super::named::origin_option", default, skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<crate::schema::OriginText>)]
        origin: Option<u64> = n::ORIGIN,
        /// Cost of a route.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<u64> = n::COST,
        /// Packets a content store may hold.
        #[serde(skip_serializing_if = "Option::is_none")]
        capacity: Option<u64> = n::CAPACITY,
        /// Packets erased, or to be erased.
        #[serde(skip_serializing_if = "Option::is_none")]
        count: Option<u64> = n::COUNT,
        /// Bits: see [`flags`].
        #[serde(skip_serializing_if = "Option::is_none")]
        flags: Option<u64> = n::FLAGS,
        /// Which bits of `flags` are meant.
        #[serde(skip_serializing_if = "Option::is_none")]
        mask: Option<u64> = n::MASK,
        /// Name of a strategy.
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<Strategy> = n::STRATEGY,
        /// Milliseconds a route lives.
        #[serde(rename = "expiration_period_ms", skip_serializing_if = "Option::is_none")]
        expiration_period: Option<u64> = n::EXPIRATION_PERIOD,
        /// Number of a [`FacePersistency`](super::FacePersistency); any number here, so that a wrong one can be answered.
        #[serde(
            rename = "persistency", alias = "face_persistency", with = "super::named::persistency_option", default,
            skip_serializing_if = "Option::is_none"
        )]
        #[schema(value_type = Option<super::FacePersistency>)]
        face_persistency: Option<u64> = n::FACE_PERSISTENCY,
        /// Nanoseconds between congestion marks at first.
        #[serde(rename = "base_congestion_marking_interval_ns", skip_serializing_if = "Option::is_none")]
        base_congestion_marking_interval: Option<u64> = n::BASE_CONGESTION_MARKING_INTERVAL,
        /// Octets in a face's send queue beyond which it is congested.
        #[serde(skip_serializing_if = "Option::is_none")]
        default_congestion_threshold: Option<u64> = n::DEFAULT_CONGESTION_THRESHOLD,
        /// Octets of the largest link packet.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtu: Option<u64> = n::MTU,
    }
}

impl ControlParameters {
    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.push(n::CONTROL_PARAMETERS, &mut out);
        out
    }

    /// Reads one whole element and nothing behind it.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes, 0);
        let element = reader.next()?.ok_or(Error::new(Fault::Truncated, 0))?;
        if element.typ == n::CONTROL_PARAMETERS && !reader.is_empty() {
            return Err(Error::new(Fault::Trailing, element.end()));
        }
        Self::from_element(&element)
    }

    /// From an element that may have others behind it.
    ///
    /// # Errors
    /// What is wrong and where.
    pub fn from_element(element: &nw_name::tlv::Tlv<'_>) -> Result<Self, Error> {
        if element.typ != n::CONTROL_PARAMETERS {
            return Err(Error::new(Fault::FieldValue, element.start));
        }
        Self::read(element)
    }

    /// For a name.
    pub fn of(name: impl Into<Name>) -> Self {
        ControlParameters { name: Some(name.into()), ..Default::default() }
    }

    /// The strategy's name.
    pub fn strategy_name(&self) -> Option<NameRef<'_>> {
        self.strategy.as_ref().map(|strategy| strategy.0.as_ref())
    }
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
pub struct ControlResponse {
    /// Like HTTP's: 200 is done, 4xx is the asker's fault, 5xx the router's.
    pub code: u64,
    /// The same for people.
    pub text: String,
    /// What was done, or what is in the way. Some routers leave it out of refusals; we never do, as python-ndn needs it.
    pub body: ControlParameters,
}

/// How the text of an answer to a removal begins that found nothing to remove.
const NOTHING_REMOVED: &str = "nothing removed: ";

impl ControlResponse {
    /// Done.
    pub fn ok(body: ControlParameters) -> Self {
        ControlResponse { code: 200, text: "OK".to_owned(), body }
    }

    /// Refused.
    pub fn refuse(code: u64, text: impl Into<String>) -> Self {
        ControlResponse { code, text: text.into(), body: ControlParameters::default() }
    }

    /// A removal that found nothing to remove, as the management protocol answers it: 200, so that removing twice is no error. The text says what
    /// was not there.
    #[must_use]
    pub fn into_nothing_removed(self) -> Self {
        ControlResponse { code: 200, text: format!("{NOTHING_REMOVED}{}", self.text), ..self }
    }

    /// What was not there, if this answers a removal that found nothing to remove.
    pub fn nothing_removed(&self) -> Option<&str> {
        self.text.strip_prefix(NOTHING_REMOVED).filter(|_| self.is_ok())
    }

    /// True when the command was carried out.
    pub const fn is_ok(&self) -> bool {
        self.code == 200
    }

    /// The whole element.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_nested(n::CONTROL_RESPONSE, &mut out, |value| {
            self.code.push(n::STATUS_CODE, value);
            self.text.push(n::STATUS_TEXT, value);
            self.body.push(n::CONTROL_PARAMETERS, value);
        });
        out
    }

    /// Reads one whole element. An absent body reads as an empty one; a body that is no ControlParameters is not looked at.
    ///
    /// # Errors
    /// What is wrong and where.
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
