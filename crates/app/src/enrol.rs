//! Obtains certificates from a certificate authority (CA) by NDNCERT 0.3: sends what
//! [`nw_trust::ndncert`] makes, and passes it the replies.

use crate::client::{Client, ClientError};
use crate::object::{Reply, exchange, exchange_with, version_in_metadata};
use core::time::Duration;
use nw_element_api::LinkFields;
use nw_name::{Name, NameRef};
use nw_trust::Key;
use nw_trust::ndncert::{CaError, CaProfile, ChallengeState, Enrolment};
use nw_wire::{Data, Error, InterestBuilder, NackReason};
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest wait for one reply of a CA.
const REPLY_TIMEOUT: Duration = Duration::from_secs(4);
/// Attempts to fetch what needs no new signature.
const FETCH_ATTEMPTS: u32 = 3;
/// Lifetime of such an attempt.
const FETCH_LIFETIME: Duration = Duration::from_millis(1_300);
/// Most messages of one challenge.
const ROUNDS_MAX: u32 = 8;

/// Reasons why no certificate was obtained.
#[derive(Debug, thiserror::Error)]
pub enum EnrolError {
    /// The connection to the router failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The CA did not answer in time.
    #[error("the CA did not answer {0} in time: is it running, and is there a route to it?")]
    Timeout(Name),
    /// The Interest was answered by a Nack.
    #[error("the CA can't be reached: {name} was refused with Nack({})", reason.as_str())]
    Nack {
        /// Name of the Interest.
        name: Name,
        /// The reason.
        reason: NackReason,
    },
    /// The reply is not a packet of NDNCERT.
    #[error("what answers {0} is no NDNCERT CA: {1}")]
    NotACa(Name, Error),
    /// The reply is not accepted.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// None of the CA's challenges is known or chosen.
    #[error("the CA offers the challenges {offered}, not {wanted}")]
    NoChallenge {
        /// What the CA offers.
        offered: String,
        /// What was to be used.
        wanted: String,
    },
    /// The challenge did not come to an end.
    #[error("the CA asks on and on for the challenge {0}")]
    Endless(String),
    /// The caller had no answer for the CA.
    #[error("{0}")]
    NoAnswer(String),
}

/// An answer to a challenge: parameters by name.
pub type Answer = Vec<(&'static str, Vec<u8>)>;

/// What proves to a CA that a name may be used.
pub trait Challenge {
    /// Returns NDNCERT's name of the challenge.
    fn name(&self) -> &'static str;

    /// Returns the parameters of the first message.
    fn start(&mut self) -> Answer;

    /// Returns the parameters that answer the CA's status. `tries`: how many wrong answers it
    /// allows.
    ///
    /// # Errors
    /// A sentence that says why there is no answer.
    fn proceed(
        &mut self,
        status: &str,
        tries: u64,
        parameters: &[(String, Vec<u8>)],
    ) -> Result<Answer, String>;
}

/// Fetches the profile of the CA at `prefix`, which must present the certificate `anchor`.
///
/// # Errors
/// If it can't be fetched, or is of another CA.
pub fn fetch_profile(
    client: &mut Client,
    prefix: NameRef<'_>,
    anchor: &[u8],
) -> Result<CaProfile, EnrolError> {
    let info = prefix.to_name().with_generic("CA").with_generic("INFO");
    let metadata_name = info.clone().with(nw_name::convention::METADATA);
    let request = InterestBuilder::new(metadata_name.clone()).can_be_prefix(true);
    let metadata = fetch(client, &metadata_name, request.must_be_fresh(true))?;
    let not_a_ca = |error| EnrolError::NotACa(metadata_name.clone(), error);
    let data = Data::check(&metadata).map_err(not_a_ca)?;
    let versioned = version_in_metadata(info.as_ref(), data.content())
        .ok_or(CaError::Malformed("metadata", "it names no version of the profile"))?;
    let name = versioned.with_segment(0);
    let packet = fetch(client, &name, InterestBuilder::new(name.clone()))?;
    let data = Data::check(&packet).map_err(|error| EnrolError::NotACa(name.clone(), error))?;
    Ok(CaProfile::check(&data, anchor)?)
}

/// Obtains a certificate for `key` from a CA by a challenge. Returns the certificate.
///
/// # Errors
/// If the CA does not answer, refuses, or answers what is not NDNCERT.
pub fn obtain_certificate(
    client: &mut Client,
    profile: &CaProfile,
    key: &Key,
    challenge: &mut dyn Challenge,
) -> Result<Vec<u8>, EnrolError> {
    let (mut enrolment, interest) = Enrolment::begin(profile, key, now_ms())?;
    let reply = request(client, profile, "NEW", &interest)?;
    let offered = enrolment.on_new_reply(&check(profile, &reply)?)?;
    let wanted = challenge.name();
    if !offered.iter().any(|name| name == wanted) {
        let offered = if offered.is_empty() { "none".to_owned() } else { offered.join(", ") };
        return Err(EnrolError::NoChallenge { offered, wanted: wanted.to_owned() });
    }
    let mut answer = challenge.start();
    for _ in 0..ROUNDS_MAX {
        let parameters: Vec<_> =
            answer.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let interest = enrolment.challenge(wanted, &parameters, now_ms())?;
        let reply = request(client, profile, "CHALLENGE", &interest)?;
        match enrolment.on_challenge_reply(&check(profile, &reply)?)? {
            ChallengeState::Pending { status, tries, parameters } => {
                answer =
                    challenge.proceed(&status, tries, &parameters).map_err(EnrolError::NoAnswer)?;
            }
            ChallengeState::Issued { name, forwarding_hint } => {
                let mut interest = InterestBuilder::new(name.clone());
                if let Some(hint) = forwarding_hint {
                    interest = interest.forwarding_hint(hint);
                }
                let wire = fetch(client, &name, interest)?;
                enrolment.check_issued(&wire, now_ms() / 1000)?;
                return Ok(wire);
            }
        }
    }
    Err(EnrolError::Endless(wanted.to_owned()))
}

fn check<'a>(profile: &CaProfile, reply: &'a [u8]) -> Result<Data<'a>, EnrolError> {
    Data::check(reply).map_err(|error| EnrolError::NotACa(profile.prefix.clone(), error))
}

/// Sends a signed request once: a CA may have acted on it even if its reply is lost.
fn request(
    client: &mut Client,
    profile: &CaProfile,
    verb: &str,
    interest: &[u8],
) -> Result<Vec<u8>, EnrolError> {
    let name = profile.prefix.clone().with_generic("CA").with_generic(verb);
    match exchange_with(client, interest, LinkFields::default(), REPLY_TIMEOUT)? {
        Reply::Data(wire) => Ok(wire),
        Reply::Nack(reason) => Err(EnrolError::Nack { name, reason }),
        Reply::Timeout => Err(EnrolError::Timeout(name)),
    }
}

fn fetch(
    client: &mut Client,
    name: &Name,
    interest: InterestBuilder,
) -> Result<Vec<u8>, EnrolError> {
    let interest = interest.lifetime_ms(FETCH_LIFETIME.as_millis() as u64);
    for _ in 0..FETCH_ATTEMPTS {
        match exchange(client, interest.clone(), FETCH_LIFETIME)? {
            Reply::Data(wire) => return Ok(wire),
            Reply::Nack(reason) => return Err(EnrolError::Nack { name: name.clone(), reason }),
            Reply::Timeout => {}
        }
    }
    Err(EnrolError::Timeout(name.clone()))
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
