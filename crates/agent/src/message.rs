//! The first frames of a connection, as JSON; and tokens.

use crate::AgentError;
use crate::tls::AuthorityDigest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

/// Version of the protocol.
pub const VERSION: u32 = 1;
/// Start of the sentence with which a host is refused that has to enrol again.
pub const NOT_A_HOST: &str = "its certificate is not one of a host";
/// Start of the text of a token.
const TOKEN_PREFIX: &str = "nw1-";
/// Bytes of a token's secret.
pub const SECRET_LEN: usize = 16;

/// What an agent sends first.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub purpose: Purpose,
}

/// The part of a greeting that all versions of the protocol have.
#[derive(Deserialize)]
pub struct HelloVersion {
    pub version: u32,
}

/// What a connection is for.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Redeems a token for a certificate of `key`. No certificate is needed.
    Enrol { secret: Binary, key: Binary },
    /// A certificate of `key` for a host of a group. `proof`: that it has the group's token. No
    /// certificate is needed.
    EnrolInGroup { host: String, key: Binary, proof: Binary },
    /// A new certificate, for `key`.
    Renew { key: Binary },
    /// Calls of the manager. `address`: where other hosts reach this one.
    Channel { address: Option<String> },
    /// Calls of the host, which the manager answers.
    Caller,
}

/// What a manager answers.
#[derive(Default, Serialize, Deserialize)]
pub struct Welcome {
    pub host: String,
    /// The new certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Binary>,
    /// Certificate of the authority, when a host enrols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<Binary>,
    /// Proof that the manager knows the group's token, when a host enrols in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Binary>,
    /// End of the new certificate, and time from which the agent renews it; seconds since 1970.
    #[serde(default)]
    pub expires_s: u64,
    #[serde(default)]
    pub renew_s: u64,
}

/// Bytes, in JSON as base64.
#[derive(Clone)]
pub struct Binary(pub Vec<u8>);

impl Serialize for Binary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Binary {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Binary).map_err(serde::de::Error::custom)
    }
}

/// A secret that is redeemed once, and the digest of the authority that redeems it.
pub struct Token {
    pub secret: [u8; SECRET_LEN],
    pub authority: AuthorityDigest,
}

impl Token {
    /// Returns the text that a person copies to the host.
    pub fn encode(&self) -> String {
        let bytes = [&self.secret[..], &self.authority].concat();
        format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads such a text.
    pub fn decode(text: &str) -> Result<Token, AgentError> {
        let digits = text.trim().strip_prefix(TOKEN_PREFIX).ok_or(AgentError::Token)?;
        let bytes = URL_SAFE_NO_PAD.decode(digits).map_err(|_| AgentError::Token)?;
        let (secret, authority) = bytes.split_first_chunk().ok_or(AgentError::Token)?;
        let authority = authority.try_into().map_err(|_| AgentError::Token)?;
        Ok(Token { secret: *secret, authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_read_back_and_other_texts_are_refused() {
        let token = Token { secret: [7; SECRET_LEN], authority: [9; 32] };
        let text = token.encode();
        let read = Token::decode(&format!(" {text}\n")).unwrap();
        assert_eq!((read.secret, read.authority), (token.secret, token.authority));
        for wrong in ["", "nw1-", &text[4..], &text[..text.len() - 2], &format!("{text}AAAA")] {
            assert!(Token::decode(wrong).is_err(), "{wrong}");
        }
    }
}
