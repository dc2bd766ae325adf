//! Who may command a router.
//!
//! The default suits a newcomer and a shared machine alike: who can open the router's local socket may command it, signed by a digest or by
//! any key; from elsewhere only keys that were made known. What can be verified is verified: a digest must match, a known key's
//! signature must match. Digest signatures are everybody's, so they are not held to one clock and not checked for replay.

use crate::command::{Command, CommandSigner, Refusal};
use crate::replay::Replay;
use crate::verify::{VerifyKey, verify_digest};
use nw_name::Name;
use nw_wire::{Data, Interest, KeyLocator, SignatureType, sha256};
use std::collections::BTreeMap;

/// From where commands signed in some way are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From nowhere.
    Nowhere,
    /// From faces of the same machine.
    Local,
    /// From any face.
    Anywhere,
}

impl Reach {
    const fn includes(self, local: bool) -> bool {
        match self {
            Reach::Nowhere => false,
            Reach::Local => local,
            Reach::Anywhere => true,
        }
    }
}

/// What a router's owner decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRules {
    /// Commands signed by a plain digest.
    pub digest: Reach,
    /// Commands signed by a key we can't verify, because we don't know it.
    pub unknown_key: Reach,
    /// Commands signed by a known key.
    pub known_key: Reach,
    /// How far from now a command's time may be, milliseconds.
    pub grace_ms: u64,
}

impl Default for CommandRules {
    fn default() -> Self {
        CommandRules {
            digest: Reach::Local,
            unknown_key: Reach::Local,
            known_key: Reach::Anywhere,
            grace_ms: 120_000,
        }
    }
}

/// A signature and what it covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) signer: CommandSigner<'a>,
    typ: SignatureType,
    signed: [&'a [u8]; 3],
    value: &'a [u8],
}

impl<'a> Signature<'a> {
    /// As [`of`](Self::of), for a prefix announcement: one with a Null signature is taken for one that is signed by a digest, as that proves no
    /// more. NDNts makes them so, inside a signed command.
    pub(crate) fn of_announcement(data: &Data<'a>) -> Result<Self, Refusal> {
        let typ = data.signature_info().typ();
        if typ != SignatureType::Null {
            return Self::of(data);
        }
        Ok(Signature { signer: CommandSigner::Digest, typ, signed: [&[]; 3], value: &[] })
    }

    pub(crate) fn of(data: &Data<'a>) -> Result<Self, Refusal> {
        let info = data.signature_info();
        Ok(Signature {
            signer: CommandSigner::of(&info)?,
            typ: info.typ(),
            signed: [data.signed_portion(), &[], &[]],
            value: data.signature_value(),
        })
    }

    pub(crate) fn verify(&self, key: &VerifyKey) -> Result<(), Refusal> {
        key.verify(self.typ, &self.signed, self.value).map_err(|_| Refusal::BadSignature)
    }

    pub(crate) fn verify_digest(&self) -> Result<(), Refusal> {
        if self.typ == SignatureType::Null {
            return Ok(()); // only of an announcement: there is nothing to compare
        }
        verify_digest(&self.signed, self.value).map_err(|_| Refusal::BadSignature)
    }
}

impl<'a> Command<'a> {
    pub(crate) const fn signature(&self) -> Signature<'a> {
        Signature { signer: self.signer, typ: self.typ, signed: self.signed, value: self.signature }
    }
}

/// Decides on commands: rules, known keys, and what was seen.
#[derive(Debug)]
pub struct CommandPolicy {
    rules: CommandRules,
    keys: BTreeMap<Name, VerifyKey>,
    replay: Replay,
}

impl CommandPolicy {
    /// Of these rules, knowing no key.
    pub const fn new(rules: CommandRules) -> Self {
        CommandPolicy { rules, keys: BTreeMap::new(), replay: Replay::new(rules.grace_ms) }
    }

    /// Makes a key known by its name.
    pub fn add_key(&mut self, name: Name, key: VerifyKey) {
        self.keys.insert(name, key);
    }

    /// Other rules and keys from now on, as when the configuration is read again. What was seen stays seen.
    pub fn reconfigure(&mut self, rules: CommandRules, keys: impl IntoIterator<Item = (Name, VerifyKey)>) {
        self.replay.set_grace_ms(rules.grace_ms);
        self.rules = rules;
        self.keys = keys.into_iter().collect();
    }

    /// Decides on a command that came from a face (`local`: of the same machine) at `now_ms`, milliseconds since 1970.
    ///
    /// # Errors
    /// Why it must not be obeyed.
    pub fn check<'a>(
        &mut self,
        interest: &Interest<'a>,
        local: bool,
        now_ms: u64,
    ) -> Result<Command<'a>, Refusal> {
        let command = Command::read(interest)?;
        let is_verified = self.check_signature(&command.signature(), local)?;
        self.check_time(&command, is_verified, now_ms)?;
        Ok(command)
    }

    /// Decides on a Data that speaks for somebody, such as a prefix announcement, by the rules for commands. A Data has no time of its own:
    /// whoever asks looks at its ValidityPeriod.
    ///
    /// # Errors
    /// Why it must not be believed.
    pub fn check_data(&self, data: &Data<'_>, local: bool) -> Result<(), Refusal> {
        self.check_signature(&Signature::of_announcement(data)?, local).map(drop)
    }

    /// Returns whether the signature was made by a key that is known.
    pub(crate) fn check_signature(&self, signature: &Signature<'_>, local: bool) -> Result<bool, Refusal> {
        let CommandSigner::Key(locator) = signature.signer else {
            if !self.rules.digest.includes(local) {
                return Err(Refusal::DigestNotEnough);
            }
            return signature.verify_digest().map(|()| false);
        };
        match self.key(locator) {
            Some(_) if !self.rules.known_key.includes(local) => Err(Refusal::KeyNotAllowed),
            Some(key) => signature.verify(key).map(|()| true),
            None if !self.rules.unknown_key.includes(local) => Err(Refusal::UnknownKey),
            None => Ok(false),
        }
    }

    /// Checks that a command of that time is neither too old nor too new by itself.
    pub(crate) fn check_fresh(&self, command: &Command<'_>, now_ms: u64) -> Result<(), Refusal> {
        command.time_ms.map_or(Ok(()), |time_ms| self.replay.check_fresh(time_ms, now_ms))
    }

    /// Returns how often there were too many keys.
    pub(crate) const fn shortages(&self) -> u64 {
        self.replay.shortages()
    }

    pub(crate) fn check_time(
        &mut self,
        command: &Command<'_>,
        is_verified: bool,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let key_digest = match command.signer {
            // Anyone can make a fresh digest: a time is held to the grace period where there is one, but not required.
            CommandSigner::Digest => return self.check_fresh(command, now_ms),
            CommandSigner::Key(KeyLocator::Name(name)) => sha256(&[&[0], name.as_bytes()]),
            CommandSigner::Key(KeyLocator::Digest(digest)) => sha256(&[&[1], digest]),
        };
        let time_ms = command.time_ms.ok_or(Refusal::NoTime)?;
        let command_digest = sha256(&command.signed);
        let tag = u64::from_le_bytes(*command_digest.first_chunk().expect("32 octets have a first 8"));
        self.replay.accept(key_digest, is_verified, time_ms, tag, now_ms)
    }

    /// By the key's name, by the name of one of its certificates (issuer and version behind the key's name), or by its digest.
    fn key(&self, locator: KeyLocator<'_>) -> Option<&VerifyKey> {
        match locator {
            KeyLocator::Name(name) => {
                let of_certificate = name.len().checked_sub(2).map(|count| name.prefix(count));
                let by_name = |name: nw_name::NameRef<'_>| self.keys.get(name.as_bytes());
                by_name(name).or_else(|| by_name(of_certificate?))
            }
            KeyLocator::Digest(digest) => {
                self.keys.values().find(|key| key.key_digest().is_some_and(|own| own == digest))
            }
        }
    }
}

impl Default for CommandPolicy {
    fn default() -> Self {
        CommandPolicy::new(CommandRules::default())
    }
}
