//! Fetching one Data packet: sent again while the network refuses for a while, verified, with the certificates that takes.

use crate::client::{Client, ClientError, Outgoing, Received};
use crate::fetch::{COPIES_MAX, NO_ROUTE_PATIENCE_DEFAULT};
use crate::object::{fresh_nonce, pause};
use crate::verify::{Finding, Invalid, Signer, Verifier, check_digest};
use core::time::Duration;
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{Data, Interest, InterestBuilder, NackReason};

/// The longest InterestLifetime while an answer is waited for; it doubles from the first one.
const LIFETIME_MAX: Duration = Duration::from_secs(4);
/// The first pause after a refusal; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a certificate may take.
const CERTIFICATE_PATIENCE: Duration = Duration::from_secs(4);

/// How long to try.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// InterestLifetime of the first Interest; those after it wait longer, up to 4 s.
    pub lifetime: Duration,
    /// In all.
    pub total: Duration,
    /// While the network says that it has no route.
    pub no_route: Duration,
    /// False: one Interest, and what it brings is final.
    pub retries: bool,
}

impl Patience {
    /// One Interest is waited for; a refusal for want of a route is final, one for congestion is not.
    pub const fn once(lifetime: Duration) -> Self {
        Patience { lifetime, total: lifetime, no_route: Duration::ZERO, retries: true }
    }

    /// One Interest, and what it brings is final.
    pub const fn single(lifetime: Duration) -> Self {
        Patience { retries: false, ..Patience::once(lifetime) }
    }

    /// Interests of one second first, then longer ones.
    pub const fn of(total: Duration) -> Self {
        let lifetime = Duration::from_secs(1);
        Patience { lifetime, total, no_route: NO_ROUTE_PATIENCE_DEFAULT, retries: true }
    }
}

/// Why a packet was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The router can't be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The network refused.
    #[error("{name} was refused: Nack({})", reason.as_str())]
    Nack {
        /// Which Interest.
        name: Name,
        /// Why.
        reason: NackReason,
    },
    /// Nothing came.
    #[error("no answer to {name} within {} ms", patience.as_millis())]
    Silence {
        /// Which Interest.
        name: Name,
        /// How long it was waited for.
        patience: Duration,
    },
    /// What came did not pass verification.
    #[error("{name} is not accepted ({copies} tried): {why}")]
    Invalid {
        /// The Data's name.
        name: Name,
        /// Number of copies that came.
        copies: u32,
        /// What is wrong with the last one.
        why: Invalid,
    },
}

/// What one Interest brought; Data is not verified.
pub(crate) enum Brought {
    Data(Vec<u8>),
    Nack(NackReason),
    Nothing,
}

/// Sends one Interest and waits for what answers it and is `acceptable`. It is sent again when the connection was lost and made again.
pub(crate) fn bring(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    patience: Duration,
    mut acceptable: impl FnMut(&Data<'_>) -> bool,
    mut serve: impl FnMut(&Received<'_>, &mut Outgoing),
) -> Result<Brought, ClientError> {
    let Ok(interest) = Interest::check(wire) else { return Ok(Brought::Nothing) };
    let deadline = client.now() + patience;
    let mut brought = None;
    let mut connections = client.connections();
    client.send_with(wire, link);
    while brought.is_none() && client.now() < deadline {
        let left = deadline.since(client.now());
        client.turn(Some(left), |_, received, out| match received.kind() {
            Kind::Data if brought.is_none() => {
                let digest = || nw_wire::sha256(&[received.wire]);
                if interest.is_answered_by(received.name(), digest)
                    && Data::check(received.wire).is_ok_and(|data| acceptable(&data))
                {
                    brought = Some(Brought::Data(received.wire.to_vec()));
                }
            }
            Kind::Nack if received.name() == interest.name() => {
                brought = Some(Brought::Nack(received.nack().unwrap_or_default()));
            }
            Kind::Interest => serve(&received, out),
            Kind::Data | Kind::Nack => {}
        })?;
        if client.connections() != connections {
            connections = client.connections();
            client.send_with(wire, link);
        }
    }
    Ok(brought.unwrap_or(Brought::Nothing))
}

/// Fetches one packet that `verifier` accepts; it and what is known of its signer. A packet that is not accepted is asked for again, as another
/// copy may be a good one: a bounded number of times, and fresh, so that caches are passed by.
///
/// # Errors
/// What came instead.
pub fn fetch_packet(
    client: &mut Client,
    interest: InterestBuilder,
    verifier: &mut Verifier,
    patience: Patience,
) -> Result<(Vec<u8>, Signer), PacketError> {
    let started = client.now();
    let deadline = started + patience.total;
    let (mut lifetime, mut wait) = (patience.lifetime, PAUSE_FIRST);
    let (mut connections, mut connected_at) = (client.connections(), started);
    let mut copies = 0;
    loop {
        let left = deadline.since(client.now());
        let mut asked = interest.clone().nonce(fresh_nonce(client)).lifetime_ms(lifetime.as_millis() as u64);
        if copies > 0 {
            asked = asked.must_be_fresh(true);
        }
        let wire = asked.encode();
        let name = || Interest::check(&wire).map(|interest| interest.name().to_name()).unwrap_or_default();
        let brought = bring(client, &wire, LinkFields::default(), lifetime.min(left), |_| true, |_, _| {})?;
        if client.connections() != connections {
            (connections, connected_at) = (client.connections(), client.now());
        }
        let now = client.now();
        match brought {
            Brought::Data(wire) => {
                let data = Data::check(&wire).expect("checked when it came in");
                match verify(client, verifier, &data)? {
                    Ok(signer) => return Ok((wire, signer)),
                    Err(why) => {
                        copies += 1;
                        if !patience.retries || copies >= COPIES_MAX || now >= deadline {
                            return Err(PacketError::Invalid { name: data.name().to_name(), copies, why });
                        }
                    }
                }
            }
            Brought::Nack(reason) => {
                let patient = reason != NackReason::NoRoute || now.since(connected_at) < patience.no_route;
                if !patient || !patience.retries || now + wait >= deadline {
                    return Err(PacketError::Nack { name: name(), reason });
                }
            }
            Brought::Nothing if now >= deadline => {
                return Err(PacketError::Silence { name: name(), patience: patience.total });
            }
            Brought::Nothing => {
                lifetime = (lifetime * 2).min(LIFETIME_MAX.max(patience.lifetime));
                continue;
            }
        }
        pause(client, wait)?;
        wait = (wait * 2).min(PAUSE_MAX);
    }
}

/// Verifies a packet, and fetches the certificates that takes.
fn verify(
    client: &mut Client,
    verifier: &mut Verifier,
    data: &Data<'_>,
) -> Result<Result<Signer, Invalid>, ClientError> {
    loop {
        match verifier.check(data) {
            Ok(Finding::Accepted(signer)) => return Ok(Ok(signer)),
            Err(why) => return Ok(Err(why)),
            Ok(Finding::Needs(name)) => {
                let wire = certificate_interest(client, &name);
                let is_whole = |data: &Data<'_>| check_digest(data).is_ok();
                let brought =
                    bring(client, &wire, LinkFields::default(), CERTIFICATE_PATIENCE, is_whole, |_, _| {})?;
                let certificate = match &brought {
                    Brought::Data(wire) => Some(wire.as_slice()),
                    _ => None,
                };
                verifier.add_certificate(&name, certificate);
            }
        }
    }
}

/// The Interest for a certificate, by its name or that of its key.
pub(crate) fn certificate_interest(client: &Client, name: &Name) -> Vec<u8> {
    InterestBuilder::new(name.clone())
        .can_be_prefix(true)
        .must_be_fresh(true)
        .lifetime_ms(CERTIFICATE_PATIENCE.as_millis() as u64)
        .nonce(fresh_nonce(client))
        .encode()
}
