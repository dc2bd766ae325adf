//! Decides whether a command or prefix announcement is authorized.
//!
//! The basic rules of [`CommandPolicy`] are tried first, then the named rules with their
//! certificate chains. A missing certificate makes the decision [`Decision::Later`]:
//!
//! ```text
//! check_command() ─▶ Accept | Refuse
//!        ▲        └▶ Later ──▶ next_request() ─▶ (the host sends an Interest) ─▶ on_data() ─┐
//!        └──────────────────────────── next_ready() ◀───────────────────────────────────────┘
//! ```
//!
//! Sans-I/O: time is an argument, the host sends the Interests for certificates and passes the
//! Data in. Invariant: nothing is accepted without a rule that allows it, and all memory is
//! bounded.

use crate::chain::{Anchor, AnchorSet, ChainResult, ChainValidator, IssuerRule, key_name};
use crate::clocks::Clocks;
use crate::command::{Command, CommandSigner, Refusal};
use crate::fetch::{CertificateRequest, FetchShortages, Fetcher, ReadyCommand, Source};
use crate::peer_group::PeerGroup;
use crate::policy::{CommandPolicy, CommandRules, Signature};
use crate::rules::{AllowRule, Privilege};
use crate::verify::VerifyKey;
use nw_name::{Name, NameRef};
use nw_wire::{Data, Interest, KeyLocator};

/// The authorization rules of a router.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The basic rules, by the kind of signer.
    pub basic: CommandRules,
    /// Keys known to the basic rules, by name.
    pub keys: Vec<(Name, VerifyKey)>,
    /// Named rules, tried when the basic rules refuse.
    pub allow: Vec<AllowRule>,
    /// Trust anchors of the named rules, each with the sets that contain it.
    pub anchors: Vec<(AnchorSet, Anchor)>,
    /// Rules for certificate issuers. Empty: an identity may issue for names below its own.
    pub issuer_rules: Vec<IssuerRule>,
}

/// A command or announcement to be authorized.
#[derive(Clone, Copy, Debug)]
pub struct AuthorizationRequest<'a> {
    /// The Interest that carries it.
    pub interest: &'a Interest<'a>,
    /// Its sender.
    pub requester: Requester<'a>,
}

/// The sender of a command or announcement, and the prefix it is about.
#[derive(Clone, Copy, Debug)]
pub struct Requester<'a> {
    /// The ingress face.
    pub face: u64,
    /// True if the face connects to an application on this machine.
    pub local: bool,
    /// The group whose quota of waiting commands applies.
    pub peer: PeerGroup,
    /// The prefix that the command is about, if it has one.
    pub prefix: Option<NameRef<'a>>,
}

/// The outcome of an authorization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The command is authorized.
    Accept,
    /// The command is refused.
    Refuse(Refusal),
    /// A certificate must be fetched first; [`Authority::next_ready`] then returns the Interest.
    Later,
}

/// The authorization state machine of a router; the module documentation shows how it is driven.
#[derive(Debug, Default)]
pub struct Authority {
    policy: CommandPolicy,
    allow: Vec<AllowRule>,
    chains: ChainValidator,
    fetcher: Fetcher,
}

/// The result of applying the rules to a signature.
enum Verdict {
    /// Allowed; true if the signature was verified with a known key.
    Allowed(bool),
    Refused(Refusal),
    Fetch(Name),
}

impl Authority {
    /// Creates an authority with these rules.
    pub fn new(rules: Rules) -> Self {
        let mut authority = Authority::default();
        authority.reconfigure(rules);
        authority
    }

    /// Replaces the rules. The replay history and the fetched certificates stay; chains are
    /// validated again.
    pub fn reconfigure(&mut self, rules: Rules) {
        self.policy.reconfigure(rules.basic, rules.keys);
        self.allow = rules.allow;
        self.chains.reconfigure(rules.anchors, rules.issuer_rules);
    }

    /// Decides on a command of a management module. An accepted command counts as seen: a replay of
    /// it is refused.
    pub fn check_command(
        &mut self,
        request: AuthorizationRequest<'_>,
        module: &str,
        clocks: Clocks,
    ) -> Decision {
        let command = match Command::read(request.interest) {
            Ok(command) => command,
            Err(refusal) => return Decision::Refuse(refusal),
        };
        // A stale command must not cause a certificate to be fetched.
        if let Err(refusal) = self.policy.check_fresh(&command, clocks.unix_ms) {
            return Decision::Refuse(refusal);
        }
        match self.apply_rules(
            &command.signature(),
            request.requester,
            Privilege::of_module(module),
            clocks,
        ) {
            Verdict::Allowed(is_verified) => {
                match self.policy.check_time(&command, is_verified, clocks.unix_ms) {
                    Ok(()) => Decision::Accept,
                    Err(refusal) => Decision::Refuse(refusal),
                }
            }
            Verdict::Refused(refusal) => Decision::Refuse(refusal),
            Verdict::Fetch(name) => self.wait(&request, &name, clocks.elapsed_ms),
        }
    }

    /// Like [`check_command`](Self::check_command), for hosts that fetch no certificates.
    ///
    /// # Errors
    /// The refusal; if a certificate is missing, also its name, or the name of its key.
    pub fn check_command_offline(
        &mut self,
        request: AuthorizationRequest<'_>,
        module: &str,
        clocks: Clocks,
    ) -> Result<(), (Refusal, Option<Name>)> {
        let refused = |refusal| (refusal, None);
        let command = Command::read(request.interest).map_err(refused)?;
        self.policy.check_fresh(&command, clocks.unix_ms).map_err(refused)?;
        let privilege = Privilege::of_module(module);
        match self.apply_rules(&command.signature(), request.requester, privilege, clocks) {
            Verdict::Allowed(is_verified) => {
                self.policy.check_time(&command, is_verified, clocks.unix_ms).map_err(refused)
            }
            Verdict::Refused(refusal) => Err(refused(refusal)),
            Verdict::Fetch(name) => Err((Refusal::CertificateMissing, Some(name))),
        }
    }

    /// Stores the certificates of the configuration in place of those of an earlier one. Returns
    /// why some can't be used.
    pub fn set_certificates(&mut self, certificates: &[Vec<u8>]) -> Vec<Refusal> {
        self.chains.set_configured(certificates)
    }

    /// Decides on a prefix announcement. Nothing is remembered, so it may be presented again. The
    /// caller checks the Data's ValidityPeriod.
    pub fn check_announcement(
        &mut self,
        data: &Data<'_>,
        request: AuthorizationRequest<'_>,
        clocks: Clocks,
    ) -> Decision {
        let finding = match Signature::of_announcement(data) {
            Ok(signature) => {
                self.apply_rules(&signature, request.requester, Privilege::Announce, clocks)
            }
            Err(refusal) => Verdict::Refused(refusal),
        };
        match finding {
            Verdict::Allowed(_) => Decision::Accept,
            Verdict::Refused(refusal) => Decision::Refuse(refusal),
            Verdict::Fetch(name) => self.wait(&request, &name, clocks.elapsed_ms),
        }
    }

    /// Decides on an announcement learned from traffic, without a command that waits for the
    /// answer.
    ///
    /// [`Decision::Later`] starts fetching a certificate, but [`next_ready`](Self::next_ready) does
    /// not return the announcement: the caller presents it again when it arrives next.
    pub fn check_learned(
        &mut self,
        data: &Data<'_>,
        by: Requester<'_>,
        clocks: Clocks,
    ) -> Decision {
        let finding = match Signature::of_announcement(data) {
            Ok(signature) => self.apply_rules(&signature, by, Privilege::Announce, clocks),
            Err(refusal) => Verdict::Refused(refusal),
        };
        match finding {
            Verdict::Allowed(_) => Decision::Accept,
            Verdict::Refused(refusal) => Decision::Refuse(refusal),
            Verdict::Fetch(name) => {
                match self.fetcher.request_in_background(
                    name.as_ref(),
                    by.source(),
                    clocks.elapsed_ms,
                ) {
                    Ok(()) => Decision::Later,
                    Err(refusal) => Decision::Refuse(refusal),
                }
            }
        }
    }

    /// Returns the next certificate to request from the network.
    pub fn next_request(&mut self) -> Option<CertificateRequest> {
        self.fetcher.next_request()
    }

    /// Processes a Data that may be a requested certificate.
    pub fn on_data(&mut self, data: &Data<'_>, wire: &[u8], elapsed_ms: u64) {
        let answered = self.fetcher.take_answered(data.name());
        if answered.is_empty() {
            return;
        }
        let added = self.chains.add(wire);
        for name in answered {
            let is_requested = added.as_ref().is_ok_and(|certificate| {
                let certificate = certificate.as_ref();
                name.as_ref() == certificate || key_name(certificate) == Some(name.as_ref())
            });
            self.fetcher.resolve(&name, !is_requested, elapsed_ms);
        }
    }

    /// Returns the next waiting command to be presented again.
    pub fn next_ready(&mut self) -> Option<ReadyCommand> {
        self.fetcher.next_ready()
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout), in `elapsed_ms`. May change after any
    /// other call. `None`: no time limit is running.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        self.fetcher.next_timeout_ms()
    }

    /// Ends requests and waiting commands past their time limit.
    pub fn on_timeout(&mut self, elapsed_ms: u64) {
        self.fetcher.on_timeout(elapsed_ms);
    }

    /// Returns the numbers of stored certificates, requested certificates and waiting commands.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.chains.len(), self.fetcher.pending(), self.fetcher.waiting())
    }

    /// Returns how often a bound was reached: on commands (including replay histories of keys), and
    /// on certificate requests.
    pub fn shortages(&self) -> FetchShortages {
        let FetchShortages { commands, certificates } = self.fetcher.shortages();
        FetchShortages { commands: commands + self.policy.shortages(), certificates }
    }

    fn wait(
        &mut self,
        request: &AuthorizationRequest<'_>,
        name: &Name,
        elapsed_ms: u64,
    ) -> Decision {
        let source = request.requester.source();
        match self.fetcher.wait(request.interest, source, name.as_ref(), elapsed_ms) {
            Ok(()) => Decision::Later,
            Err(refusal) => Decision::Refuse(refusal),
        }
    }

    fn apply_rules(
        &mut self,
        signature: &Signature<'_>,
        by: Requester<'_>,
        privilege: Privilege,
        clocks: Clocks,
    ) -> Verdict {
        let mut why = match self.policy.check_signature(signature, by.local) {
            Ok(is_verified) => return Verdict::Allowed(is_verified),
            Err(Refusal::BadSignature) => return Verdict::Refused(Refusal::BadSignature),
            Err(refusal) => refusal,
        };
        let mut fetch = None;
        for at in 0..self.allow.len() {
            if !self.allow[at].covers(by.local, privilege) {
                continue;
            }
            match self.apply_rule(at, signature, by, clocks) {
                Verdict::Allowed(is_verified) => return Verdict::Allowed(is_verified),
                Verdict::Fetch(name) => fetch = fetch.or(Some(name)),
                // A fault in the chain of a signer with a matching name is the better explanation.
                Verdict::Refused(Refusal::NotAllowed) if is_about_chains(why) => {}
                Verdict::Refused(refusal) => why = refusal,
            }
        }
        fetch.map_or(Verdict::Refused(why), Verdict::Fetch)
    }

    fn apply_rule(
        &mut self,
        at: usize,
        signature: &Signature<'_>,
        by: Requester<'_>,
        clocks: Clocks,
    ) -> Verdict {
        let rule = &self.allow[at];
        let not_allowed = Verdict::Refused(Refusal::NotAllowed);
        let (locator, named) = match signature.signer {
            CommandSigner::Digest if rule.anchors.is_some() => {
                return Verdict::Refused(Refusal::DigestNotEnough);
            }
            CommandSigner::Digest if !rule.fits(None, by.prefix) => return not_allowed,
            CommandSigner::Digest => {
                return signature
                    .verify_digest()
                    .map_or_else(Verdict::Refused, |()| Verdict::Allowed(false));
            }
            CommandSigner::Key(locator @ KeyLocator::Name(name)) => match key_name(name) {
                Some(key) => (locator, Some(key)),
                None if rule.anchors.is_none() && rule.signer.is_none() => (locator, None),
                None => return Verdict::Refused(Refusal::UnknownKey),
            },
            CommandSigner::Key(locator @ KeyLocator::Digest(_)) => (locator, None),
        };
        let Some(sets) = rule.anchors else {
            return if rule.fits(named, by.prefix) { Verdict::Allowed(false) } else { not_allowed };
        };
        if named.is_some() && !rule.fits(named, by.prefix) {
            return not_allowed;
        }
        match self.chains.validate(locator, sets, clocks.unix_ms / 1000) {
            ChainResult::Trusted(key_name, key) => {
                if !self.allow[at].fits(Some(key_name.as_ref()), by.prefix) {
                    return not_allowed;
                }
                signature.verify(&key).map_or_else(Verdict::Refused, |()| Verdict::Allowed(true))
            }
            ChainResult::Fetch(name) => Verdict::Fetch(name),
            ChainResult::Bad(name) => {
                // Remembered as failed, so that the next command does not fetch it again at once.
                self.fetcher.fail(&name, by.face, clocks.elapsed_ms);
                Verdict::Refused(Refusal::BadCertificate)
            }
            ChainResult::Refused(refusal) => Verdict::Refused(refusal),
        }
    }
}

impl Requester<'_> {
    const fn source(&self) -> Source {
        Source { face: self.face, local: self.local, peer: self.peer }
    }
}

const fn is_about_chains(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::CertificateMissing
            | Refusal::CertificateOutsideValidity
            | Refusal::BadCertificate
            | Refusal::IssuerNotAllowed
            | Refusal::ChainLoop
            | Refusal::ChainTooDeep
            | Refusal::BadSignature
    )
}
