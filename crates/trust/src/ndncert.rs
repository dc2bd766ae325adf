//! The client side of NDNCERT 0.3: messages to a certificate authority (CA) and its replies.
//!
//! Invariant: nothing of a reply is used before its signature by the CA's key is verified. The
//! caller sends the Interests and passes the replies; time is an argument.
//!
//! ```text
//! CaProfile::check ─▶ Enrolment::begin ─▶ NEW ─▶ on_new_reply ─▶ challenge ─▶ on_challenge_reply ┐
//!                                                      ▲                                       │
//!                                                      └────────────── Pending ────────────────┘
//! ```

use crate::{Error, Key, Validity, VerifyKey, certificate, key::freshness_fields, verify_data};
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use nw_name::{Name, NameRef};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, InterestBuilder, Reader, Tlv, tlv};

/// TLV numbers of NDNCERT 0.3.
mod t {
    pub const CA_PREFIX: u32 = 0x81;
    pub const CA_INFO: u32 = 0x83;
    pub const PARAMETER_KEY: u32 = 0x85;
    pub const PARAMETER_VALUE: u32 = 0x87;
    pub const CA_CERTIFICATE: u32 = 0x89;
    pub const VALIDITY_MAX: u32 = 0x8B;
    pub const ECDH_PUBLIC: u32 = 0x91;
    pub const CERTIFICATE_REQUEST: u32 = 0x93;
    pub const SALT: u32 = 0x95;
    pub const REQUEST_ID: u32 = 0x97;
    pub const CHALLENGE: u32 = 0x99;
    pub const STATUS: u32 = 0x9B;
    pub const INITIALIZATION_VECTOR: u32 = 0x9D;
    pub const ENCRYPTED_PAYLOAD: u32 = 0x9F;
    pub const SELECTED_CHALLENGE: u32 = 0xA1;
    pub const CHALLENGE_STATUS: u32 = 0xA3;
    pub const REMAINING_TRIES: u32 = 0xA5;
    pub const ISSUED_NAME: u32 = 0xA9;
    pub const ERROR_CODE: u32 = 0xAB;
    pub const ERROR_INFO: u32 = 0xAD;
    pub const AUTHENTICATION_TAG: u32 = 0xAF;
    pub const FORWARDING_HINT: u32 = 0x1E;
}

/// Longest text of a CA that is kept, bytes.
const TEXT_LEN_MAX: usize = 512;
/// Most challenges and parameters that a reply may have.
const ITEMS_MAX: usize = 32;
const SALT_LEN: usize = 32;
const REQUEST_ID_LEN: usize = 8;
const TAG_LEN: usize = 16;
const KEY_LEN: usize = 16;
/// Bytes that one step of the IV counter stands for.
const BLOCK_LEN: usize = 16;
/// InterestLifetime of requests: a CA signs and may look things up.
const LIFETIME_MS: u64 = 4_000;

/// Reasons why a CA's reply is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaError {
    /// The reply can't be decoded.
    #[error("the CA's {0} can't be decoded: {1}")]
    Malformed(&'static str, &'static str),
    /// The reply is not signed by the CA's key.
    #[error("the CA's {0} is not signed by the key of its certificate")]
    Signature(&'static str),
    /// The profile has another certificate than the expected one.
    #[error("the CA presents the certificate {0}, which is not the given one")]
    OtherCertificate(Name),
    /// The CA refused the request.
    #[error("the CA refused the request ({code}): {text}")]
    Refused {
        /// NDNCERT's error code.
        code: u64,
        /// The CA's text.
        text: String,
    },
    /// The challenge failed for good.
    #[error("the challenge failed: the CA issues no certificate")]
    ChallengeFailed,
    /// The CA's certificate or its longest validity leaves no time.
    #[error("the CA's certificate is not valid at this time")]
    NotValid,
    /// A key could not be made or used.
    #[error(transparent)]
    Key(#[from] Error),
}

/// What a CA says about itself, verified with its certificate.
#[derive(Debug)]
pub struct CaProfile {
    /// Name prefix of the CA, without the component `CA`.
    pub prefix: Name,
    /// Description.
    pub info: String,
    validity_max_s: u64,
    ca_validity: Validity,
    key: VerifyKey,
}

impl CaProfile {
    /// Returns the profile in a Data packet, which must present the certificate `anchor` and be
    /// signed by its key.
    ///
    /// # Errors
    /// If it is malformed, or of another CA.
    pub fn check(data: &Data<'_>, anchor: &[u8]) -> Result<Self, CaError> {
        const WHAT: &str = "profile";
        let fields = fields(WHAT, data.content())?;
        let wire = required(WHAT, &fields, t::CA_CERTIFICATE)?;
        let presented = Certificate::check(wire)
            .map_err(|_| CaError::Malformed(WHAT, "its certificate is none"))?;
        if wire != anchor {
            return Err(CaError::OtherCertificate(presented.data().name().to_name()));
        }
        let key = VerifyKey::from_spki(presented.public_key())?;
        verify_data(data, &key).map_err(|_| CaError::Signature(WHAT))?;
        let prefix = inner_name(WHAT, required(WHAT, &fields, t::CA_PREFIX)?)?;
        if !prefix.as_ref().is_prefix_of(data.name()) {
            return Err(CaError::Malformed(WHAT, "its prefix is not that of its name"));
        }
        Ok(CaProfile {
            prefix,
            info: text(required(WHAT, &fields, t::CA_INFO)?),
            validity_max_s: integer(WHAT, &fields, t::VALIDITY_MAX)?,
            ca_validity: Validity::from_certificate(&presented).ok_or(CaError::NotValid)?,
            key,
        })
    }

    /// Returns the longest validity period that the CA can give from `now_s` on.
    fn validity(&self, now_s: u64) -> Result<Validity, CaError> {
        let validity = Validity {
            not_before_s: now_s.max(self.ca_validity.not_before_s),
            not_after_s: now_s
                .saturating_add(self.validity_max_s)
                .min(self.ca_validity.not_after_s),
        };
        if validity.contains(now_s) { Ok(validity) } else { Err(CaError::NotValid) }
    }

    fn verify(&self, what: &'static str, data: &Data<'_>) -> Result<(), CaError> {
        verify_data(data, &self.key).map_err(|_| CaError::Signature(what))?;
        let fields = fields(what, data.content())?;
        match fields.iter().find(|field| field.typ == t::ERROR_CODE) {
            None => Ok(()),
            Some(code) => Err(CaError::Refused {
                code: code.integer().unwrap_or(0),
                text: required(what, &fields, t::ERROR_INFO).map(text).unwrap_or_default(),
            }),
        }
    }
}

/// State of a challenge after a reply of the CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChallengeState {
    /// The CA expects another message.
    Pending {
        /// What it expects, in NDNCERT's words, such as `need-code`.
        status: String,
        /// How many wrong answers are allowed.
        tries: u64,
        /// Parameters by name.
        parameters: Vec<(String, Vec<u8>)>,
    },
    /// The certificate is issued.
    Issued {
        /// Full name of the certificate, with its digest.
        name: Name,
        /// Forwarding hint for fetching it.
        forwarding_hint: Option<Name>,
    },
}

/// One request for a certificate.
#[derive(Debug)]
pub struct Enrolment<'a> {
    profile: &'a CaProfile,
    key: &'a Key,
    secret: PrivateKey,
    session: Option<Session>,
}

impl<'a> Enrolment<'a> {
    /// Starts a request for `key`, whose name tells the identity. Returns it with the Interest to
    /// send. `now_ms`: milliseconds since 1970.
    ///
    /// # Errors
    /// If the CA's certificate is not valid now, or signing fails.
    pub fn begin(
        profile: &'a CaProfile,
        key: &'a Key,
        now_ms: u64,
    ) -> Result<(Self, Vec<u8>), CaError> {
        let secret = PrivateKey::generate(&ECDH_P256).map_err(|_| library("making a key"))?;
        let public = secret.compute_public_key().map_err(|_| library("making a key"))?;
        let request = certificate::self_signed(key, now_ms, profile.validity(now_ms / 1000)?)?;
        let mut parameters = Vec::new();
        tlv::push_tlv(t::ECDH_PUBLIC, public.as_ref(), &mut parameters);
        tlv::push_tlv(t::CERTIFICATE_REQUEST, &request, &mut parameters);
        let name = profile.prefix.clone().with_generic("CA").with_generic("NEW");
        let interest = signed(name, parameters, key, now_ms)?;
        Ok((Enrolment { profile, key, secret, session: None }, interest))
    }

    /// Takes the reply to the first Interest. Returns the names of the challenges that the CA
    /// offers.
    ///
    /// # Errors
    /// If the reply is malformed or a refusal.
    pub fn on_new_reply(&mut self, data: &Data<'_>) -> Result<Vec<String>, CaError> {
        const WHAT: &str = "reply to NEW";
        self.profile.verify(WHAT, data)?;
        let fields = fields(WHAT, data.content())?;
        let salt = sized(WHAT, &fields, t::SALT, SALT_LEN)?;
        let id = sized(WHAT, &fields, t::REQUEST_ID, REQUEST_ID_LEN)?;
        let public = required(WHAT, &fields, t::ECDH_PUBLIC)?;
        self.session = Some(Session::new(&self.secret, public, salt, id)?);
        let offered = fields.iter().filter(|field| field.typ == t::CHALLENGE);
        Ok(offered.map(|field| text(field.value)).collect())
    }

    /// Returns the Interest that selects a challenge, or continues it, with parameters.
    ///
    /// # Errors
    /// If no reply to the first Interest was taken, or signing fails.
    pub fn challenge(
        &mut self,
        challenge: &str,
        parameters: &[(&str, &[u8])],
        now_ms: u64,
    ) -> Result<Vec<u8>, CaError> {
        let session = self.session.as_mut().ok_or_else(|| library("using no session"))?;
        let mut plain = Vec::new();
        tlv::push_tlv(t::SELECTED_CHALLENGE, challenge.as_bytes(), &mut plain);
        for (name, value) in parameters {
            tlv::push_tlv(t::PARAMETER_KEY, name.as_bytes(), &mut plain);
            tlv::push_tlv(t::PARAMETER_VALUE, value, &mut plain);
        }
        let name = self.profile.prefix.clone().with_generic("CA").with_generic("CHALLENGE");
        let name = name.with_generic(session.request_id);
        let sealed = session.seal(plain)?;
        signed(name, sealed, self.key, now_ms)
    }

    /// Takes the reply to an Interest of [`challenge`](Self::challenge).
    ///
    /// # Errors
    /// If the reply is malformed or a refusal, or the challenge has failed.
    pub fn on_challenge_reply(&mut self, data: &Data<'_>) -> Result<ChallengeState, CaError> {
        const WHAT: &str = "reply to CHALLENGE";
        const SUCCESS: u64 = 3;
        const FAILURE: u64 = 4;
        self.profile.verify(WHAT, data)?;
        let session = self.session.as_mut().ok_or_else(|| library("using no session"))?;
        let plain = session.open(WHAT, data.content())?;
        let fields = fields(WHAT, &plain)?;
        match integer(WHAT, &fields, t::STATUS)? {
            0..SUCCESS => Ok(ChallengeState::Pending {
                status: text(required(WHAT, &fields, t::CHALLENGE_STATUS)?),
                tries: integer(WHAT, &fields, t::REMAINING_TRIES)?,
                parameters: pairs(WHAT, &fields)?,
            }),
            SUCCESS => {
                let hint = fields.iter().find(|field| field.typ == t::FORWARDING_HINT);
                Ok(ChallengeState::Issued {
                    name: inner_name(WHAT, required(WHAT, &fields, t::ISSUED_NAME)?)?,
                    forwarding_hint: hint.and_then(|hint| inner_name(WHAT, hint.value).ok()),
                })
            }
            FAILURE => Err(CaError::ChallengeFailed),
            _ => Err(CaError::Malformed(WHAT, "its status is none")),
        }
    }

    /// Checks an issued certificate: that it is for this key, valid at `now_s`, and signed by the
    /// CA.
    ///
    /// # Errors
    /// If it is not.
    pub fn check_issued(&self, wire: &[u8], now_s: u64) -> Result<(), CaError> {
        const WHAT: &str = "certificate";
        let issued = Certificate::check(wire)
            .map_err(|_| CaError::Malformed(WHAT, "it is no certificate"))?;
        if issued.key_name() != self.key.name() || issued.public_key() != self.key.public_key()? {
            return Err(CaError::Malformed(WHAT, "it is for another key"));
        }
        certificate::verify(&issued, &self.profile.key, now_s)?;
        Ok(())
    }
}

/// Keys and counters of the encrypted part of a request.
struct Session {
    request_id: [u8; REQUEST_ID_LEN],
    key: LessSafeKey,
    iv_random: [u8; 8],
    iv_counter: u32,
    /// The random part of the CA's IVs, and the lowest counter that the next one may have.
    peer_iv: Option<([u8; 8], u64)>,
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Session").field("request_id", &self.request_id).finish_non_exhaustive()
    }
}

impl Session {
    fn new(secret: &PrivateKey, public: &[u8], salt: &[u8], id: &[u8]) -> Result<Self, CaError> {
        struct KeyLen;
        impl KeyType for KeyLen {
            fn len(&self) -> usize {
                KEY_LEN
            }
        }
        let public = UnparsedPublicKey::new(&ECDH_P256, public);
        let bad_key = CaError::Malformed("reply to NEW", "its ECDH key is not on P-256");
        let bytes = agree(secret, public, bad_key, |shared| {
            let mut bytes = [0; KEY_LEN];
            let derived = Salt::new(HKDF_SHA256, salt).extract(shared);
            derived
                .expand(&[id], KeyLen)
                .and_then(|okm| okm.fill(&mut bytes))
                .map_err(|_| library("deriving a key"))?;
            Ok(bytes)
        })?;
        let key = UnboundKey::new(&AES_128_GCM, &bytes).map_err(|_| library("making a key"))?;
        let mut iv_random = [0; 8];
        aws_lc_rs::rand::fill(&mut iv_random).map_err(|_| library("making random bytes"))?;
        Ok(Session {
            request_id: id.try_into().expect("checked by the caller"),
            key: LessSafeKey::new(key),
            iv_random,
            iv_counter: 0,
            peer_iv: None,
        })
    }

    fn seal(&mut self, mut plain: Vec<u8>) -> Result<Vec<u8>, CaError> {
        let mut iv = [0; 12];
        iv[..8].copy_from_slice(&self.iv_random);
        iv[8..].copy_from_slice(&self.iv_counter.to_be_bytes());
        self.iv_counter += plain.len().div_ceil(BLOCK_LEN) as u32;
        let tag = self
            .key
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(iv),
                Aad::from(self.request_id),
                &mut plain,
            )
            .map_err(|_| library("encrypting"))?;
        let mut sealed = Vec::new();
        tlv::push_tlv(t::INITIALIZATION_VECTOR, &iv, &mut sealed);
        tlv::push_tlv(t::AUTHENTICATION_TAG, tag.as_ref(), &mut sealed);
        tlv::push_tlv(t::ENCRYPTED_PAYLOAD, &plain, &mut sealed);
        Ok(sealed)
    }

    fn open(&mut self, what: &'static str, sealed: &[u8]) -> Result<Vec<u8>, CaError> {
        let fields = fields(what, sealed)?;
        let iv = sized(what, &fields, t::INITIALIZATION_VECTOR, 12)?;
        let tag = sized(what, &fields, t::AUTHENTICATION_TAG, TAG_LEN)?;
        let payload = required(what, &fields, t::ENCRYPTED_PAYLOAD)?;
        let iv: [u8; 12] = iv.try_into().expect("its size was checked");
        let random: [u8; 8] = iv[..8].try_into().expect("8 bytes");
        let counter = u64::from(u32::from_be_bytes(iv[8..].try_into().expect("4 bytes")));
        if self.peer_iv.is_some_and(|(known, least)| random != known || counter < least) {
            return Err(CaError::Malformed(what, "its IV was used before"));
        }
        let mut buffer = [payload, tag].concat();
        let plain = self
            .key
            .open_in_place(
                Nonce::assume_unique_for_key(iv),
                Aad::from(self.request_id),
                &mut buffer,
            )
            .map_err(|_| CaError::Malformed(what, "its encryption does not fit the session"))?;
        self.peer_iv = Some((random, counter + plain.len().div_ceil(BLOCK_LEN) as u64));
        Ok(plain.to_vec())
    }
}

fn library(what: &'static str) -> CaError {
    CaError::Key(Error::Library(what))
}

fn signed(name: Name, parameters: Vec<u8>, key: &Key, now_ms: u64) -> Result<Vec<u8>, CaError> {
    let interest = InterestBuilder::new(name)
        .must_be_fresh(true)
        .lifetime_ms(LIFETIME_MS)
        .nonce(now_ms as u32)
        .parameters(parameters);
    Ok(interest.encode_signed(key, &freshness_fields(now_ms)?)?)
}

fn fields<'a>(what: &'static str, bytes: &'a [u8]) -> Result<Vec<Tlv<'a>>, CaError> {
    let mut reader = Reader::new(bytes, 0);
    let mut fields = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(_)) if fields.len() == ITEMS_MAX => {
                return Err(CaError::Malformed(what, "it has too many fields"));
            }
            Ok(Some(field)) => fields.push(field),
            Ok(None) => return Ok(fields),
            Err(_) => return Err(CaError::Malformed(what, "it is not made of TLVs")),
        }
    }
}

fn required<'a>(what: &'static str, fields: &[Tlv<'a>], typ: u32) -> Result<&'a [u8], CaError> {
    let field = fields.iter().find(|field| field.typ == typ);
    field.map(|field| field.value).ok_or(CaError::Malformed(what, "a field is missing"))
}

fn sized<'a>(
    what: &'static str,
    fields: &[Tlv<'a>],
    typ: u32,
    len: usize,
) -> Result<&'a [u8], CaError> {
    let value = required(what, fields, typ)?;
    if value.len() == len { Ok(value) } else { Err(CaError::Malformed(what, "a length is wrong")) }
}

fn integer(what: &'static str, fields: &[Tlv<'_>], typ: u32) -> Result<u64, CaError> {
    let field = fields.iter().find(|field| field.typ == typ);
    let field = field.ok_or(CaError::Malformed(what, "a field is missing"))?;
    field.integer().map_err(|_| CaError::Malformed(what, "a number is none"))
}

fn pairs(what: &'static str, fields: &[Tlv<'_>]) -> Result<Vec<(String, Vec<u8>)>, CaError> {
    let mut pairs = Vec::new();
    let mut parameters =
        fields.iter().filter(|field| matches!(field.typ, t::PARAMETER_KEY | t::PARAMETER_VALUE));
    while let Some(name) = parameters.next() {
        match parameters.next() {
            Some(value) if name.typ == t::PARAMETER_KEY && value.typ == t::PARAMETER_VALUE => {
                pairs.push((text(name.value), value.value.to_vec()));
            }
            _ => return Err(CaError::Malformed(what, "a parameter has no value")),
        }
    }
    Ok(pairs)
}

/// Returns the name that a field contains as a TLV.
fn inner_name(what: &'static str, value: &[u8]) -> Result<Name, CaError> {
    const NAME: u32 = 7;
    let malformed = || CaError::Malformed(what, "a name is none");
    let inner = fields(what, value)?.into_iter().next().filter(|field| field.typ == NAME);
    let inner = inner.ok_or_else(malformed)?;
    NameRef::check(inner.value).map(NameRef::to_name).map_err(|_| malformed())
}

fn text(value: &[u8]) -> String {
    let bytes = &value[..value.len().min(TEXT_LEN_MAX)];
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).collect()
}
