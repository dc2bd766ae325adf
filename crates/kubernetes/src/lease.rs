//! One operator at a time, by a Lease, as client-go does it: 15 s, renewed each 2 s, given up after
//! 10 s without a renewal.
//!
//! Invariant: the fence is open only within 10 s after the begin of the last renewal that the API
//! server confirmed, and another operator takes over 15 s after it saw that renewal at the
//! earliest. So the two are never open at one time, also if this process was paused; clocks of
//! different machines are not compared.

use crate::cluster::{Cluster, ClusterError, limited};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How long a lease holds after the last renewal that others have seen.
const DURATION: Duration = Duration::from_secs(15);
/// How long the holder trusts its last renewal.
const TRUST: Duration = Duration::from_secs(10);
/// Interval of renewals, and of looks at a lease that another one holds.
const INTERVAL: Duration = Duration::from_secs(2);

/// Which lease, and who asks for it.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Identity, different for each operator: the name of its pod.
    pub identity: String,
}

/// What a look at the lease leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// This operator may take it, or holds it: it writes its name and time.
    Take,
    /// Another one holds it.
    Wait,
}

/// The lease as it was seen last: others' clocks are not trusted, only that it changed.
#[derive(Debug, Default)]
struct Watched {
    record: Option<(String, String)>,
    changed: Option<Instant>,
}

impl Watched {
    /// Decides about a lease that was read at `now`.
    fn decide(&mut self, lease: &LeaseSpec, identity: &str, now: Instant) -> LeaseState {
        let holder = lease.holder_identity.clone().unwrap_or_default();
        let renewed = lease.renew_time.as_ref().map(|time| time.0.to_string());
        let record = (holder, renewed.unwrap_or_default());
        if self.record.as_ref() != Some(&record) {
            (self.record, self.changed) = (Some(record.clone()), Some(now));
        }
        let seconds = lease.lease_duration_seconds.unwrap_or(DURATION.as_secs() as i32);
        let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).max(DURATION);
        let has_expired = self.changed.is_some_and(|at| now >= at + duration);
        match record.0.is_empty() || record.0 == identity || has_expired {
            true => LeaseState::Take,
            false => LeaseState::Wait,
        }
    }
}

/// Returns the record that takes or renews a lease.
fn taken(before: &LeaseSpec, identity: &str, now: Timestamp) -> LeaseSpec {
    let is_own = before.holder_identity.as_deref() == Some(identity);
    let transitions = before.lease_transitions.unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(DURATION.as_secs() as i32),
        acquire_time: before.acquire_time.clone().filter(|_| is_own).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if is_own { transitions } else { transitions + 1 }),
        ..LeaseSpec::default()
    }
}

/// Holds a lease, and opens and closes the fence of a cluster with it.
pub(crate) struct Holder {
    api: Api<Lease>,
    options: LeaseOptions,
    watched: Watched,
}

impl Holder {
    pub fn new(cluster: &Cluster, options: LeaseOptions) -> Result<Self, ClusterError> {
        let api = Api::namespaced(cluster.lease_client()?, &options.namespace);
        Ok(Holder { api, options, watched: Watched::default() })
    }

    /// Tries once to take or renew the lease. Returns whether this operator holds it now.
    async fn attempt(&mut self) -> Result<bool, ClusterError> {
        let (name, identity) = (self.options.name.clone(), self.options.identity.clone());
        let found = limited(self.api.get_opt(&name)).await?;
        let parameters = PostParams::default();
        let written = match found {
            None => {
                let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
                let spec = Some(taken(&LeaseSpec::default(), &identity, Timestamp::now()));
                limited(self.api.create(&parameters, &Lease { metadata, spec })).await
            }
            Some(mut lease) => {
                let spec = lease.spec.clone().unwrap_or_default();
                if self.watched.decide(&spec, &identity, Instant::now()) == LeaseState::Wait {
                    return Ok(false);
                }
                lease.spec = Some(taken(&spec, &identity, Timestamp::now()));
                // Its resource version goes along: of two that try at once, one is refused.
                limited(self.api.replace(&name, &parameters, &lease)).await
            }
        };
        match written {
            Ok(_) => Ok(true),
            Err(ClusterError::Refused(reason)) => {
                tracing::info!(reason, "another operator was faster");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until this operator holds the lease. Returns false if `stop` was set before.
    ///
    /// # Errors
    /// There is no right to the lease.
    pub fn acquire(&mut self, cluster: &Cluster, stop: &AtomicBool) -> Result<bool, ClusterError> {
        let mut is_told = false;
        while !stop.load(Relaxed) {
            let begun = Instant::now();
            match cluster.handle().block_on(self.attempt()) {
                Ok(true) => {
                    cluster.fence().extend(begun, TRUST);
                    return Ok(true);
                }
                Ok(false) if !is_told => {
                    is_told = true;
                    let holder = self.watched.record.as_ref().map(|(holder, _)| holder.as_str());
                    tracing::info!(holder, "another operator leads; waiting for its lease");
                }
                Ok(false) => {}
                Err(error @ ClusterError::Forbidden(_)) => return Err(error),
                Err(error) => tracing::warn!(%error, "the lease can't be read"),
            }
            let until = begun + INTERVAL;
            while Instant::now() < until && !stop.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(false)
    }

    /// Renews the lease until it is lost, and then closes the fence.
    pub async fn keep(mut self, fence: crate::fence::Fence) {
        while fence.is_open() {
            tokio::time::sleep(INTERVAL).await;
            let begun = Instant::now();
            // An answer after the trust has ended comes too late.
            match tokio::time::timeout(TRUST, self.attempt()).await {
                Ok(Ok(true)) if begun.elapsed() < TRUST && fence.is_open() => {
                    fence.extend(begun, TRUST);
                }
                Ok(Ok(false)) => break,
                Ok(Err(error)) => tracing::warn!(%error, "the lease was not renewed"),
                Ok(Ok(true)) | Err(_) => tracing::warn!("the lease was renewed too late"),
            }
        }
        fence.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str, second: i64) -> LeaseSpec {
        taken(&LeaseSpec::default(), holder, Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn lease_of_another_is_taken_only_when_it_was_not_renewed_in_sight() {
        let (mut watched, start) = (Watched::default(), Instant::now());
        // However old its own time says it is.
        assert_eq!(watched.decide(&lease("b", 1), "a", start), LeaseState::Wait);
        let later = start + DURATION - Duration::from_secs(1);
        assert_eq!(watched.decide(&lease("b", 2), "a", later), LeaseState::Wait);
        let later = later + DURATION - Duration::from_secs(1);
        assert_eq!(watched.decide(&lease("b", 2), "a", later), LeaseState::Wait);
        let later = later + Duration::from_secs(1);
        assert_eq!(watched.decide(&lease("b", 2), "a", later), LeaseState::Take);
        assert_eq!(watched.decide(&lease("a", 3), "a", later), LeaseState::Take);
        assert_eq!(watched.decide(&LeaseSpec::default(), "a", later), LeaseState::Take);
    }

    #[test]
    fn lease_with_a_short_or_negative_duration_is_not_taken_early() {
        let (mut watched, start) = (Watched::default(), Instant::now());
        let hostile = LeaseSpec { lease_duration_seconds: Some(-5), ..lease("b", 1) };
        assert_eq!(watched.decide(&hostile, "a", start), LeaseState::Wait);
        let later = start + Duration::from_secs(1);
        assert_eq!(watched.decide(&hostile, "a", later), LeaseState::Wait);
    }

    #[test]
    fn transitions_count_changes_of_the_holder() {
        let first = lease("a", 1);
        assert_eq!(first.lease_transitions, Some(1));
        let renewed = taken(&first, "a", Timestamp::from_second(3).unwrap());
        assert_eq!(renewed.lease_transitions, Some(1));
        assert_eq!(renewed.acquire_time, first.acquire_time);
        let other = taken(&renewed, "b", Timestamp::from_second(60).unwrap());
        assert_eq!(other.lease_transitions, Some(2));
        assert_ne!(other.acquire_time, first.acquire_time);
    }

    #[test]
    fn holder_gives_up_before_another_may_take_over() {
        assert!(TRUST + INTERVAL < DURATION);
    }
}
