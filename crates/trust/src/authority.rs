//! Decides on commands by all the rules there are: the plain ones of [`CommandPolicy`], then named ones with certificate chains.
//!
//! ```text
//! command() ─▶ Accept | Refuse | Later ──▶ next_ask() ─▶ (the host asks the network) ─▶ on_data() ─▶ next_ready() ─▶ command() again
//! ```
//!
//! Sans-I/O: time is an argument, Interests for certificates are named, Data comes in.

use crate::chain::{Anchor, Chains, Sets, Step, Vouch, key_name};
use crate::clocks::Clocks;
use crate::command::{Command, CommandSigner, Refusal};
use crate::fetch::{Ask, FetchShortages, Fetcher, Ready, Source};
use crate::peer::Peer;
use crate::policy::{CommandPolicy, CommandRules, Signature};
use crate::rules::{Allow, Privilege};
use crate::verify::VerifyKey;
use nw_name::{Name, NameRef};
use nw_wire::{Data, Interest, KeyLocator};

/// All that a router's owner decides.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The plain rules, by kinds of signers.
    pub plain: CommandRules,
    /// Keys that are known to the plain rules.
    pub keys: Vec<(Name, VerifyKey)>,
    /// Named rules, tried when the plain ones do not allow it.
    pub allow: Vec<Allow>,
    /// Anchors of the named rules, with the sets they are in.
    pub anchors: Vec<(Sets, Anchor)>,
    /// Who may vouch for whom; none: an identity for names below it.
    pub vouch: Vec<Vouch>,
}

/// What somebody asks for.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// The Interest that brought it.
    pub interest: &'a Interest<'a>,
    /// Who.
    pub by: Asker<'a>,
}

/// Who asks, and about what.
#[derive(Clone, Copy, Debug)]
pub struct Asker<'a> {
    /// The face it came by.
    pub face: u64,
    /// True when that face is of this machine.
    pub local: bool,
    /// The peer whose share of the places it uses.
    pub peer: Peer,
    /// The prefix it is about, if it is about one.
    pub prefix: Option<NameRef<'a>>,
}

/// What is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do it.
    Accept,
    /// Don't.
    Refuse(Refusal),
    /// A certificate has to be fetched; the Interest comes back by [`Authority::next_ready`].
    Later,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Authority {
    policy: CommandPolicy,
    allow: Vec<Allow>,
    chains: Chains,
    fetcher: Fetcher,
}

/// What the rules say of a signature.
enum Finding {
    /// With whether a key that is known made it.
    Allowed(bool),
    Refused(Refusal),
    Fetch(Name),
}

impl Authority {
    /// By these rules.
    pub fn new(rules: Rules) -> Self {
        let mut authority = Authority::default();
        authority.reconfigure(rules);
        authority
    }

    /// By other rules from now on. Commands seen stay seen, certificates fetched stay here and are proven anew.
    pub fn reconfigure(&mut self, rules: Rules) {
        self.policy.reconfigure(rules.plain, rules.keys);
        self.allow = rules.allow;
        self.chains.reconfigure(rules.anchors, rules.vouch);
    }

    /// May this command be carried out? Accepted, it counts as seen.
    pub fn command(&mut self, asking: Asking<'_>, module: &str, clocks: Clocks) -> Decision {
        let command = match Command::read(asking.interest) {
            Ok(command) => command,
            Err(refusal) => return Decision::Refuse(refusal),
        };
        // Nobody makes us fetch for what would be refused anyway.
        if let Err(refusal) = self.policy.check_fresh(&command, clocks.unix_ms) {
            return Decision::Refuse(refusal);
        }
        match self.find(&command.signature(), asking.by, Privilege::of_module(module), clocks) {
            Finding::Allowed(is_verified) => {
                match self.policy.check_time(&command, is_verified, clocks.unix_ms) {
                    Ok(()) => Decision::Accept,
                    Err(refusal) => Decision::Refuse(refusal),
                }
            }
            Finding::Refused(refusal) => Decision::Refuse(refusal),
            Finding::Fetch(name) => self.wait(&asking, &name, clocks.elapsed_ms),
        }
    }

    /// May whoever signed this Data, such as a prefix announcement, speak for the prefix? Nothing is remembered of it. A Data has no time of
    /// its own: whoever asks looks at its ValidityPeriod.
    pub fn announcement(&mut self, data: &Data<'_>, asking: Asking<'_>, clocks: Clocks) -> Decision {
        let finding = match Signature::of_announcement(data) {
            Ok(signature) => self.find(&signature, asking.by, Privilege::Announce, clocks),
            Err(refusal) => Finding::Refused(refusal),
        };
        match finding {
            Finding::Allowed(_) => Decision::Accept,
            Finding::Refused(refusal) => Decision::Refuse(refusal),
            Finding::Fetch(name) => self.wait(&asking, &name, clocks.elapsed_ms),
        }
    }

    /// As [`announcement`](Self::announcement), of one that nobody waits for: [`Decision::Later`] when a certificate is asked for, and nothing comes
    /// back by [`next_ready`](Self::next_ready); whoever shows it again then may be believed.
    pub fn learned(&mut self, data: &Data<'_>, by: Asker<'_>, clocks: Clocks) -> Decision {
        let finding = match Signature::of_announcement(data) {
            Ok(signature) => self.find(&signature, by, Privilege::Announce, clocks),
            Err(refusal) => Finding::Refused(refusal),
        };
        match finding {
            Finding::Allowed(_) => Decision::Accept,
            Finding::Refused(refusal) => Decision::Refuse(refusal),
            Finding::Fetch(name) => match self.fetcher.want(name.as_ref(), by.source(), clocks.elapsed_ms) {
                Ok(()) => Decision::Later,
                Err(refusal) => Decision::Refuse(refusal),
            },
        }
    }

    /// The next certificate to ask for.
    pub fn next_ask(&mut self) -> Option<Ask> {
        self.fetcher.next_ask()
    }

    /// A Data came that may be a certificate somebody waits for.
    pub fn on_data(&mut self, data: &Data<'_>, wire: &[u8], elapsed_ms: u64) {
        let answered = self.fetcher.answered(data.name());
        if answered.is_empty() {
            return;
        }
        let added = self.chains.add(wire);
        for name in answered {
            let meant = added.as_ref().is_ok_and(|certificate| {
                let certificate = certificate.as_ref();
                name.as_ref() == certificate || key_name(certificate) == Some(name.as_ref())
            });
            self.fetcher.settle(&name, !meant, elapsed_ms);
        }
    }

    /// The next command to be decided once more.
    pub fn next_ready(&mut self) -> Option<Ready> {
        self.fetcher.next_ready()
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called, on the clock that only goes forward.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        self.fetcher.next_timeout_ms()
    }

    /// Gives up what took too long.
    pub fn on_timeout(&mut self, elapsed_ms: u64) {
        self.fetcher.on_timeout(elapsed_ms);
    }

    /// Certificates kept, certificates asked for, commands that wait: for tests and for looking inside.
    pub fn sizes(&self) -> (usize, usize, usize) {
        (self.chains.len(), self.fetcher.pending(), self.fetcher.waiting())
    }

    /// Returns how often places for commands (those for keys that were seen included) and certificates were used up.
    pub fn shortages(&self) -> FetchShortages {
        let FetchShortages { commands, certificates } = self.fetcher.shortages();
        FetchShortages { commands: commands + self.policy.shortages(), certificates }
    }

    fn wait(&mut self, asking: &Asking<'_>, name: &Name, elapsed_ms: u64) -> Decision {
        match self.fetcher.wait(asking.interest, asking.by.source(), name.as_ref(), elapsed_ms) {
            Ok(()) => Decision::Later,
            Err(refusal) => Decision::Refuse(refusal),
        }
    }

    fn find(
        &mut self,
        signature: &Signature<'_>,
        by: Asker<'_>,
        privilege: Privilege,
        clocks: Clocks,
    ) -> Finding {
        let mut why = match self.policy.check_signature(signature, by.local) {
            Ok(is_verified) => return Finding::Allowed(is_verified),
            Err(Refusal::BadSignature) => return Finding::Refused(Refusal::BadSignature),
            Err(refusal) => refusal,
        };
        let mut fetch = None;
        for at in 0..self.allow.len() {
            if !self.allow[at].covers(by.local, privilege) {
                continue;
            }
            match self.find_by(at, signature, by, clocks) {
                Finding::Allowed(is_verified) => return Finding::Allowed(is_verified),
                Finding::Fetch(name) => fetch = fetch.or(Some(name)),
                // What is wrong with a signer of the right name says more than that the name is wrong.
                Finding::Refused(Refusal::NotAllowed) if is_about_chains(why) => {}
                Finding::Refused(refusal) => why = refusal,
            }
        }
        fetch.map_or(Finding::Refused(why), Finding::Fetch)
    }

    fn find_by(&mut self, at: usize, signature: &Signature<'_>, by: Asker<'_>, clocks: Clocks) -> Finding {
        let rule = &self.allow[at];
        let not_allowed = Finding::Refused(Refusal::NotAllowed);
        let (locator, named) = match signature.signer {
            CommandSigner::Digest if rule.anchors.is_some() => {
                return Finding::Refused(Refusal::DigestNotEnough);
            }
            CommandSigner::Digest if !rule.fits(None, by.prefix) => return not_allowed,
            CommandSigner::Digest => {
                return signature.verify_digest().map_or_else(Finding::Refused, |()| Finding::Allowed(false));
            }
            CommandSigner::Key(locator @ KeyLocator::Name(name)) => match key_name(name) {
                Some(key) => (locator, Some(key)),
                None if rule.anchors.is_none() && rule.signer.is_none() => (locator, None),
                None => return Finding::Refused(Refusal::UnknownKey),
            },
            CommandSigner::Key(locator @ KeyLocator::Digest(_)) => (locator, None),
        };
        let Some(sets) = rule.anchors else {
            return if rule.fits(named, by.prefix) { Finding::Allowed(false) } else { not_allowed };
        };
        if named.is_some() && !rule.fits(named, by.prefix) {
            return not_allowed;
        }
        match self.chains.follow(locator, sets, clocks.unix_ms / 1000) {
            Step::Trusted(key_name, key) => {
                if !self.allow[at].fits(Some(key_name.as_ref()), by.prefix) {
                    return not_allowed;
                }
                signature.verify(&key).map_or_else(Finding::Refused, |()| Finding::Allowed(true))
            }
            Step::Fetch(name) => Finding::Fetch(name),
            Step::Bad(name) => {
                // Not asked for again at every command.
                self.fetcher.fail(&name, by.face, clocks.elapsed_ms);
                Finding::Refused(Refusal::BadCertificate)
            }
            Step::Refused(refusal) => Finding::Refused(refusal),
        }
    }
}

impl Asker<'_> {
    const fn source(&self) -> Source {
        Source { face: self.face, local: self.local, peer: self.peer }
    }
}

const fn is_about_chains(refusal: Refusal) -> bool {
    matches!(
        refusal,
        Refusal::CertificateMissing
            | Refusal::CertificateOutOfTime
            | Refusal::BadCertificate
            | Refusal::NotVouched
            | Refusal::ChainLoop
            | Refusal::ChainTooDeep
            | Refusal::BadSignature
    )
}
