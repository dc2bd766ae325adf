//! Who may command this router: the configuration's rules over the trust layer.

use crate::StartError;
use crate::control::{Authorize, Ingress, Verdict};
use nw_api::config;
use nw_element::Instant;
use nw_name::NameRef;
use nw_trust::{CommandPolicy, CommandRules, Key, Reach, Signer, VerifyKey, certificate};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, Interest};
use std::fs;
use std::path::Path;

/// The rules, and the wall clock that signatures are held to.
#[derive(Debug)]
pub struct Authority {
    policy: CommandPolicy,
    start_unix_ms: u64,
}

impl Authority {
    /// As `[management]` says; `start_unix_ms` is milliseconds since 1970 at [`Instant::START`].
    ///
    /// # Errors
    /// When a file of `trusted_keys` can't be read.
    pub fn new(management: &config::Management, start_unix_ms: u64) -> Result<Self, StartError> {
        let rules = CommandRules {
            digest: reach(management.digest),
            unknown_key: reach(management.unknown_key),
            known_key: reach(management.known_key),
            grace_ms: u64::from(management.grace_s) * 1000,
        };
        let mut policy = CommandPolicy::new(rules);
        for path in &management.trusted_keys {
            let (name, key) = read_key(path)?;
            policy.add_key(name, key);
        }
        Ok(Authority { policy, start_unix_ms })
    }

    fn unix_ms(&self, now: Instant) -> u64 {
        self.start_unix_ms + now.as_millis()
    }
}

impl Authorize for Authority {
    fn command(
        &mut self,
        now: Instant,
        interest: &Interest<'_>,
        ingress: Ingress,
        _: &str,
        _: &str,
        _: Option<NameRef<'_>>,
    ) -> Verdict {
        let now_ms = self.unix_ms(now);
        match self.policy.check(interest, ingress.local, now_ms) {
            Ok(_) => Verdict::Accept,
            // "Malformed signature or KeyLocator: silence."
            Err(refusal) if refusal.is_silent() => Verdict::Silent,
            // Control logs it.
            Err(refusal) => Verdict::Deny(refusal.as_str()),
        }
    }

    fn announcement(
        &mut self,
        _: Instant,
        announcement: &Data<'_>,
        _: NameRef<'_>,
        ingress: Ingress,
        _: &Interest<'_>,
    ) -> Verdict {
        match self.policy.check_data(announcement, ingress.local) {
            Ok(()) => Verdict::Accept,
            // Control logs it.
            Err(refusal) => Verdict::Deny(refusal.as_str()),
        }
    }

    fn learned(
        &mut self,
        _: Instant,
        announcement: &Data<'_>,
        prefix: NameRef<'_>,
        ingress: Ingress,
    ) -> Verdict {
        // Who may make a route may have it learnt.
        match self.policy.check_data(announcement, ingress.local) {
            Ok(()) => Verdict::Accept,
            Err(refusal) => {
                tracing::debug!(face = %ingress.face, %prefix, %refusal, "announcement not learnt");
                Verdict::Deny(refusal.as_str())
            }
        }
    }
}

const fn reach(reach: config::Reach) -> Reach {
    match reach {
        config::Reach::Nowhere => Reach::Nowhere,
        config::Reach::Local => Reach::Local,
        config::Reach::Anywhere => Reach::Anywhere,
    }
}

/// What signs commands to others: `[rib]` names key and certificate, or a digest does.
///
/// # Errors
/// When a file can't be read, or the two don't belong together.
pub fn advertiser_signer(config: &config::Config) -> Result<Signer, StartError> {
    let (Some(key), Some(certificate)) = (&config.rib.key, &config.rib.certificate) else {
        return Ok(Signer::Digest);
    };
    let error = |path: &Path| {
        let path = path.to_owned();
        move |why: String| StartError::SigningKey { path, why }
    };
    let bytes = fs::read(certificate).map_err(|e| error(certificate)(e.to_string()))?;
    let wire = certificate::read_file(&bytes).map_err(|e| error(certificate)(e.to_string()))?;
    let checked = Certificate::check(&wire).map_err(|e| error(certificate)(e.to_string()))?;
    let pem = fs::read_to_string(key).map_err(|e| error(key)(e.to_string()))?;
    let private = Key::from_pem(checked.key_name(), &pem).map_err(|e| error(key)(e.to_string()))?;
    let public = private.public_key().map_err(|e| error(key)(e.to_string()))?;
    if public != checked.public_key() {
        return Err(error(key)("it is not the key of rib.certificate".to_owned()));
    }
    Ok(private.located_at(checked.data().name()).into())
}

/// The key of a certificate file, by the key's name.
fn read_key(path: &Path) -> Result<(nw_name::Name, VerifyKey), StartError> {
    let error = |why: String| StartError::TrustedKey { path: path.to_owned(), why };
    let bytes = fs::read(path).map_err(|e| error(e.to_string()))?;
    let wire = certificate::read_file(&bytes).map_err(|e| error(e.to_string()))?;
    let certificate = Certificate::check(&wire).map_err(|e| error(e.to_string()))?;
    let key = VerifyKey::from_spki(certificate.public_key()).map_err(|e| error(e.to_string()))?;
    Ok((certificate.key_name().to_name(), key))
}
