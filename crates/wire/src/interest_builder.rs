//! Builds Interest packets.

use crate::signature::Sign;
use crate::{sha256, types as t};
use nw_name::tlv::{push_integer, push_number, push_tlv};
use nw_name::{Component, ComponentType, Name};

/// Builds Interest packets.
#[derive(Clone, Debug)]
pub struct InterestBuilder {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    forwarding_hint: Vec<Name>,
    nonce: Option<u32>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    parameters: Option<Vec<u8>>,
}

impl InterestBuilder {
    /// Starts an Interest with a name and no other field.
    pub fn new(name: impl Into<Name>) -> Self {
        InterestBuilder {
            name: name.into(),
            can_be_prefix: false,
            must_be_fresh: false,
            forwarding_hint: Vec::new(),
            nonce: None,
            lifetime_ms: None,
            hop_limit: None,
            parameters: None,
        }
    }

    /// Sets CanBePrefix.
    #[must_use]
    pub fn can_be_prefix(mut self, yes: bool) -> Self {
        self.can_be_prefix = yes;
        self
    }

    /// Sets MustBeFresh.
    #[must_use]
    pub fn must_be_fresh(mut self, yes: bool) -> Self {
        self.must_be_fresh = yes;
        self
    }

    /// Adds a name to ForwardingHint.
    #[must_use]
    pub fn forwarding_hint(mut self, name: impl Into<Name>) -> Self {
        self.forwarding_hint.push(name.into());
        self
    }

    /// Sets the nonce.
    #[must_use]
    pub fn nonce(mut self, nonce: u32) -> Self {
        self.nonce = Some(nonce);
        self
    }

    /// Sets InterestLifetime, milliseconds.
    #[must_use]
    pub fn lifetime_ms(mut self, lifetime_ms: u64) -> Self {
        self.lifetime_ms = Some(lifetime_ms);
        self
    }

    /// Sets HopLimit.
    #[must_use]
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.hop_limit = Some(hop_limit);
        self
    }

    /// Sets ApplicationParameters. The parameters digest is added to the name by `encode`.
    #[must_use]
    pub fn parameters(mut self, parameters: impl Into<Vec<u8>>) -> Self {
        self.parameters = Some(parameters.into());
        self
    }

    /// Returns the packet. If it is longer than [`PACKET_LEN_MAX`](crate::PACKET_LEN_MAX),
    /// receivers will reject it.
    pub fn encode(self) -> Vec<u8> {
        let mut tail = Vec::new();
        if let Some(parameters) = &self.parameters {
            push_tlv(t::APPLICATION_PARAMETERS, parameters, &mut tail);
        }
        self.finish(tail)
    }

    /// Returns the packet, signed as in format 0.3. `fields` are encoded elements that follow the
    /// signer's own in InterestSignatureInfo (SignatureNonce, SignatureTime, SignatureSeqNum).
    ///
    /// # Errors
    /// When the signer can't sign.
    pub fn encode_signed<S: Sign + ?Sized>(
        self,
        signer: &S,
        fields: &[u8],
    ) -> Result<Vec<u8>, S::Error> {
        let mut tail = Vec::new();
        push_tlv(t::APPLICATION_PARAMETERS, self.parameters.as_deref().unwrap_or(&[]), &mut tail);
        let mut info = signer.info();
        info.extend_from_slice(fields);
        push_tlv(t::INTEREST_SIGNATURE_INFO, &info, &mut tail);
        let value = signer.sign(&[self.name.as_ref().as_bytes(), &tail])?;
        push_tlv(t::INTEREST_SIGNATURE_VALUE, &value, &mut tail);
        Ok(self.finish(tail))
    }

    /// Encodes the packet. `tail` is ApplicationParameters and all fields after it.
    fn finish(mut self, tail: Vec<u8>) -> Vec<u8> {
        if !tail.is_empty() {
            let digest = sha256(&[&tail]);
            self.name.push(
                Component::new(ComponentType::PARAMETERS_DIGEST, &digest)
                    .expect("a digest of 32 bytes"),
            );
        }
        let mut body = Vec::with_capacity(self.name.as_ref().as_bytes().len() + tail.len() + 48);
        self.name.as_ref().encode(&mut body);
        if self.can_be_prefix {
            push_tlv(t::CAN_BE_PREFIX, &[], &mut body);
        }
        if self.must_be_fresh {
            push_tlv(t::MUST_BE_FRESH, &[], &mut body);
        }
        if !self.forwarding_hint.is_empty() {
            let mut hint = Vec::new();
            self.forwarding_hint.iter().for_each(|name| name.as_ref().encode(&mut hint));
            push_tlv(t::FORWARDING_HINT, &hint, &mut body);
        }
        if let Some(nonce) = self.nonce {
            push_tlv(t::NONCE, &nonce.to_be_bytes(), &mut body);
        }
        if let Some(lifetime_ms) = self.lifetime_ms {
            push_integer(t::INTEREST_LIFETIME, lifetime_ms, &mut body);
        }
        if let Some(hop_limit) = self.hop_limit {
            push_tlv(t::HOP_LIMIT, &[hop_limit], &mut body);
        }
        body.extend_from_slice(&tail);
        let mut wire = Vec::with_capacity(body.len() + 4);
        push_number(u64::from(t::INTEREST), &mut wire);
        push_number(body.len() as u64, &mut wire);
        wire.extend_from_slice(&body);
        wire
    }
}
