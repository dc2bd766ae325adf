//! The basic rules for commands: which kinds of signatures are accepted from which faces.
//!
//! The default: any process that can open the router's local socket may command it, with a digest
//! signature or any key; other machines need a key known to the router. Signatures are always
//! verified as far as possible: a digest must match, and so must the signature of a known key.
//! Anybody can make a digest signature, so these are not checked for replay.

use crate::command::{Command, CommandSigner, Refusal};
use crate::replay::ReplayGuard;
use crate::verify::{VerifyKey, verify_digest};
use nw_name::Name;
use nw_wire::{Data, Interest, KeyLocator, SignatureType, sha256};
use std::collections::BTreeMap;

/// The faces from which commands with some kind of signature are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowFrom {
    /// No face.
    Nowhere,
    /// Faces to applications on this machine.
    Local,
    /// Any face.
    Anywhere,
}

impl AllowFrom {
    const fn includes(self, local: bool) -> bool {
        match self {
            AllowFrom::Nowhere => false,
            AllowFrom::Local => local,
            AllowFrom::Anywhere => true,
        }
    }
}

/// The basic rules, by the kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRules {
    /// For digest signatures.
    pub digest: AllowFrom,
    /// For signatures by an unknown key, which can't be verified.
    pub unknown_key: AllowFrom,
    /// For signatures by a known key.
    pub known_key: AllowFrom,
    /// The maximum difference between a command's time and now, milliseconds.
    pub grace_ms: u64,
}

impl Default for CommandRules {
    fn default() -> Self {
        CommandRules {
            digest: AllowFrom::Local,
            unknown_key: AllowFrom::Local,
            known_key: AllowFrom::Anywhere,
            grace_ms: 120_000,
        }
    }
}

/// A signature and the bytes it covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature<'a> {
    pub(crate) signer: CommandSigner<'a>,
    typ: SignatureType,
    signed: [&'a [u8]; 3],
    value: &'a [u8],
}

impl<'a> Signature<'a> {
    /// Returns the signature of a prefix announcement. A Null signature is treated like a digest
    /// signature, as it proves no less; NDNts makes such announcements inside signed commands.
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
            return Ok(()); // only for announcements; nothing to compare
        }
        verify_digest(&self.signed, self.value).map_err(|_| Refusal::BadSignature)
    }
}

impl<'a> Command<'a> {
    pub(crate) const fn signature(&self) -> Signature<'a> {
        Signature { signer: self.signer, typ: self.typ, signed: self.signed, value: self.signature }
    }
}

/// Applies the basic rules, and protects against replayed commands.
#[derive(Debug)]
pub struct CommandPolicy {
    rules: CommandRules,
    keys: BTreeMap<Name, VerifyKey>,
    replay: ReplayGuard,
}

impl CommandPolicy {
    /// Creates a policy without known keys.
    pub const fn new(rules: CommandRules) -> Self {
        CommandPolicy { rules, keys: BTreeMap::new(), replay: ReplayGuard::new(rules.grace_ms) }
    }

    /// Adds a known key.
    pub fn add_key(&mut self, name: Name, key: VerifyKey) {
        self.keys.insert(name, key);
    }

    /// Replaces rules and known keys. The replay history stays.
    pub fn reconfigure(
        &mut self,
        rules: CommandRules,
        keys: impl IntoIterator<Item = (Name, VerifyKey)>,
    ) {
        self.replay.set_grace_ms(rules.grace_ms);
        self.rules = rules;
        self.keys = keys.into_iter().collect();
    }

    /// Decides on a command at `now_ms`, milliseconds since 1970. `local`: it came from a face of
    /// this machine.
    ///
    /// # Errors
    /// The reason why the command is refused.
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

    /// Decides on a signed Data such as a prefix announcement, by the same rules. The caller checks
    /// its ValidityPeriod.
    ///
    /// # Errors
    /// The reason why the Data is refused.
    pub fn check_data(&self, data: &Data<'_>, local: bool) -> Result<(), Refusal> {
        self.check_signature(&Signature::of_announcement(data)?, local).map(drop)
    }

    /// Checks a signature by the rules, and returns whether a known key made it.
    pub(crate) fn check_signature(
        &self,
        signature: &Signature<'_>,
        local: bool,
    ) -> Result<bool, Refusal> {
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

    /// Checks that the command's time, if present, is within the grace period.
    pub(crate) fn check_fresh(&self, command: &Command<'_>, now_ms: u64) -> Result<(), Refusal> {
        command.time_ms.map_or(Ok(()), |time_ms| self.replay.check_fresh(time_ms, now_ms))
    }

    /// Returns how often the replay history had too many keys.
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
            // Anyone can make a fresh digest signature, so a time is checked but not required.
            CommandSigner::Digest => return self.check_fresh(command, now_ms),
            CommandSigner::Key(KeyLocator::Name(name)) => sha256(&[&[0], name.as_bytes()]),
            CommandSigner::Key(KeyLocator::Digest(digest)) => sha256(&[&[1], digest]),
        };
        let time_ms = command.time_ms.ok_or(Refusal::NoTime)?;
        let command_digest = sha256(&command.signed);
        let tag =
            u64::from_le_bytes(*command_digest.first_chunk().expect("32 bytes have a first 8"));
        self.replay.accept(key_digest, is_verified, time_ms, tag, now_ms)
    }

    /// Returns the known key for a locator: the key's name, the name of one of its certificates
    /// (two more components), or its digest.
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
