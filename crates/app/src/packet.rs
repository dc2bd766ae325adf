//! Fetches one Data packet: retransmits on temporary Nacks, verifies it, and fetches the
//! certificates needed for that.

use crate::client::{Client, ClientError, Outgoing, Received};
use crate::fetch::{COPIES_MAX, NO_ROUTE_TIMEOUT_DEFAULT};
use crate::object::{fresh_nonce, pause};
use crate::verify::{InvalidData, Signer, Verdict, Verifier, check_digest};
use core::time::Duration;
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{Data, Interest, InterestBuilder, NackReason};

/// Longest InterestLifetime of retransmissions; it doubles from the first one.
const LIFETIME_MAX: Duration = Duration::from_secs(4);
/// First pause after a Nack; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// Longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Longest wait for a certificate.
const CERTIFICATE_TIMEOUT: Duration = Duration::from_secs(4);

/// When to retry, and how long.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// InterestLifetime of the first Interest; it doubles up to 4 s.
    pub lifetime: Duration,
    /// Total time.
    pub timeout: Duration,
    /// Time during which NoRoute Nacks are retried.
    pub no_route_timeout: Duration,
    /// False: only one Interest is sent.
    pub retries: bool,
}

impl RetryPolicy {
    /// Waits for the lifetime of one Interest; retries congestion Nacks, but not NoRoute.
    pub const fn once(lifetime: Duration) -> Self {
        RetryPolicy { lifetime, timeout: lifetime, no_route_timeout: Duration::ZERO, retries: true }
    }

    /// Sends one Interest; its result is final.
    pub const fn single_attempt(lifetime: Duration) -> Self {
        RetryPolicy { retries: false, ..RetryPolicy::once(lifetime) }
    }

    /// Retries with lifetimes from one second on, for `timeout` in total.
    pub const fn within(timeout: Duration) -> Self {
        let lifetime = Duration::from_secs(1);
        RetryPolicy { lifetime, timeout, no_route_timeout: NO_ROUTE_TIMEOUT_DEFAULT, retries: true }
    }
}

/// Reasons why a packet was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The connection to the router failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The Interest was answered by a Nack.
    #[error("{name} was refused: Nack({})", reason.as_str())]
    Nack {
        /// Name of the Interest.
        name: Name,
        /// Nack reason.
        reason: NackReason,
    },
    /// No reply in time.
    #[error("no answer to {name} within {} ms", timeout.as_millis())]
    Timeout {
        /// Name of the Interest.
        name: Name,
        /// How long the reply was awaited.
        timeout: Duration,
    },
    /// The Data did not pass verification.
    #[error("{name} is not accepted ({copies} tried): {why}")]
    Invalid {
        /// Name of the Data.
        name: Name,
        /// Number of copies received.
        copies: u32,
        /// Error of the last copy.
        why: InvalidData,
    },
}

/// The reply to an Interest; Data is not verified.
pub(crate) enum RawReply {
    Data(Vec<u8>),
    Nack(NackReason),
    Timeout,
}

/// Sends one Interest and waits for Data that satisfies it and is `is_acceptable`, or a Nack. Sends
/// it again after a reconnect.
pub(crate) fn exchange_raw(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    timeout: Duration,
    mut is_acceptable: impl FnMut(&Data<'_>) -> bool,
    mut serve: impl FnMut(&Received<'_>, &mut Outgoing),
) -> Result<RawReply, ClientError> {
    let Ok(interest) = Interest::check(wire) else { return Ok(RawReply::Timeout) };
    let deadline = client.now() + timeout;
    let mut reply = None;
    let mut connections = client.connections();
    client.send_with(wire, link);
    while reply.is_none() && client.now() < deadline {
        let remaining = deadline.since(client.now());
        client.poll(Some(remaining), |_, received, out| match received.kind() {
            Kind::Data if reply.is_none() => {
                let digest = || nw_wire::sha256(&[received.wire]);
                if interest.is_answered_by(received.name(), digest)
                    && Data::check(received.wire).is_ok_and(|data| is_acceptable(&data))
                {
                    reply = Some(RawReply::Data(received.wire.to_vec()));
                }
            }
            Kind::Nack if received.name() == interest.name() => {
                reply = Some(RawReply::Nack(received.nack().unwrap_or_default()));
            }
            Kind::Interest => serve(&received, out),
            Kind::Data | Kind::Nack | Kind::Publication => {}
        })?;
        if client.connections() != connections {
            connections = client.connections();
            client.send_with(wire, link);
        }
    }
    Ok(reply.unwrap_or(RawReply::Timeout))
}

/// Fetches one packet that `verifier` accepts, and returns it with the verification result. After a
/// rejected packet it tries again with MustBeFresh, to bypass caches, a bounded number of times.
///
/// # Errors
/// If no acceptable Data is received.
pub fn fetch_packet(
    client: &mut Client,
    interest: InterestBuilder,
    verifier: &mut Verifier,
    policy: RetryPolicy,
) -> Result<(Vec<u8>, Signer), PacketError> {
    let started = client.now();
    let deadline = started + policy.timeout;
    let (mut lifetime, mut retry_pause) = (policy.lifetime, PAUSE_FIRST);
    let (mut connections, mut connected_at) = (client.connections(), started);
    let mut copies = 0;
    loop {
        let remaining = deadline.since(client.now());
        let mut request =
            interest.clone().nonce(fresh_nonce(client)).lifetime_ms(lifetime.as_millis() as u64);
        if copies > 0 {
            request = request.must_be_fresh(true);
        }
        let wire = request.encode();
        let name =
            || Interest::check(&wire).map(|interest| interest.name().to_name()).unwrap_or_default();
        let reply = exchange_raw(
            client,
            &wire,
            LinkFields::default(),
            lifetime.min(remaining),
            |_| true,
            |_, _| {},
        )?;
        if client.connections() != connections {
            (connections, connected_at) = (client.connections(), client.now());
        }
        let now = client.now();
        match reply {
            RawReply::Data(wire) => {
                let data = Data::check(&wire).expect("checked on reception");
                match verify(client, verifier, &data)? {
                    Ok(signer) => return Ok((wire, signer)),
                    Err(why) => {
                        copies += 1;
                        if !policy.retries || copies >= COPIES_MAX || now >= deadline {
                            return Err(PacketError::Invalid {
                                name: data.name().to_name(),
                                copies,
                                why,
                            });
                        }
                    }
                }
            }
            RawReply::Nack(reason) => {
                let may_retry = reason != NackReason::NoRoute
                    || now.since(connected_at) < policy.no_route_timeout;
                if !may_retry || !policy.retries || now + retry_pause >= deadline {
                    return Err(PacketError::Nack { name: name(), reason });
                }
            }
            RawReply::Timeout if now >= deadline => {
                return Err(PacketError::Timeout { name: name(), timeout: policy.timeout });
            }
            RawReply::Timeout => {
                lifetime = (lifetime * 2).min(LIFETIME_MAX.max(policy.lifetime));
                continue;
            }
        }
        pause(client, retry_pause)?;
        retry_pause = (retry_pause * 2).min(PAUSE_MAX);
    }
}

/// Verifies a packet, and fetches the certificates needed for that.
pub fn verify(
    client: &mut Client,
    verifier: &mut Verifier,
    data: &Data<'_>,
) -> Result<Result<Signer, InvalidData>, ClientError> {
    loop {
        match verifier.check(data) {
            Ok(Verdict::Accepted(signer)) => return Ok(Ok(signer)),
            Err(why) => return Ok(Err(why)),
            Ok(Verdict::NeedsCertificate(name)) => {
                let wire = certificate_interest(client, &name);
                let has_valid_digest = |data: &Data<'_>| check_digest(data).is_ok();
                let reply = exchange_raw(
                    client,
                    &wire,
                    LinkFields::default(),
                    CERTIFICATE_TIMEOUT,
                    has_valid_digest,
                    |_, _| {},
                )?;
                let certificate = match &reply {
                    RawReply::Data(wire) => Some(wire.as_slice()),
                    _ => None,
                };
                verifier.add_certificate(&name, certificate);
            }
        }
    }
}

/// Returns the Interest for a certificate, by its name or the key's name.
pub(crate) fn certificate_interest(client: &Client, name: &Name) -> Vec<u8> {
    InterestBuilder::new(name.clone())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime_ms(CERTIFICATE_TIMEOUT.as_millis() as u64)
        .nonce(fresh_nonce(client))
        .encode()
}
