//! What an enrolled host has: its key, its certificate, and the authority of its manager, in one
//! file that only its owner may read.

use crate::authority::new_key;
use crate::dial::{greet, greet_as, runtime};
use crate::group_token::{GroupToken, Statement};
use crate::message::{Binary, Purpose, Token, Welcome};
use crate::{AgentError, now_s, read_private, tls, write_private};
use rcgen::{KeyPair, PublicKeyData};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Content of the file.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    pub manager: String,
    pub host: String,
    authority: Binary,
    certificate: Binary,
    key: Binary,
    pub expires_s: u64,
    pub renew_s: u64,
}

impl Identity {
    /// Returns what a manager has given to a host with this key.
    fn new(manager: &str, welcome: Welcome, key: &KeyPair) -> Result<Identity, AgentError> {
        let (Some(certificate), Some(authority)) = (welcome.certificate, welcome.authority) else {
            return Err(AgentError::Refused {
                manager: manager.to_owned(),
                reason: "it sent no certificate".to_owned(),
            });
        };
        Ok(Identity {
            manager: manager.to_owned(),
            host: welcome.host,
            authority,
            certificate,
            key: Binary(key.serialize_der()),
            expires_s: welcome.expires_s,
            renew_s: welcome.renew_s,
        })
    }

    fn path(directory: &Path) -> PathBuf {
        directory.join("agent.json")
    }

    /// Reads the file.
    pub fn read(directory: &Path) -> Result<Identity, AgentError> {
        let path = Identity::path(directory);
        if !path.exists() {
            return Err(AgentError::NotEnrolled);
        }
        serde_json::from_slice(&read_private(&path)?).map_err(AgentError::damaged(&path))
    }

    fn write(&self, directory: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_vec_pretty(self).expect("texts and numbers");
        write_private(&Identity::path(directory), &text)
    }

    /// Returns the TLS configuration with the certificate.
    pub fn tls(&self) -> Result<Arc<ClientConfig>, AgentError> {
        let certificate = CertificateDer::from(self.certificate.0.clone());
        let key = PrivatePkcs8KeyDer::from(self.key.0.clone()).into();
        tls::client(&CertificateDer::from(self.authority.0.clone()), certificate, key)
    }

    /// Replaces the certificate and its key by new ones, and returns the TLS configuration with
    /// them.
    pub async fn renew(&mut self, directory: &Path) -> Result<Arc<ClientConfig>, AgentError> {
        let key = new_key();
        let purpose = Purpose::Renew { key: Binary(key.der_bytes().to_vec()) };
        let (welcome, _) = greet(&self.manager, self.tls()?, purpose).await?;
        let Some(certificate) = welcome.certificate else { return Err(AgentError::NotEnrolled) };
        self.certificate = certificate;
        self.key = Binary(key.serialize_der());
        (self.expires_s, self.renew_s) = (welcome.expires_s, welcome.renew_s);
        self.write(directory)?;
        self.tls()
    }

    /// Returns an error if the certificate has expired.
    pub fn check_time(&self) -> Result<(), AgentError> {
        let past_s = now_s().saturating_sub(self.expires_s);
        match past_s {
            0 => Ok(()),
            _ => Err(AgentError::Expired { host: self.host.clone(), days: past_s / 86_400 }),
        }
    }
}

/// Returns whether the host has a certificate in this directory.
pub fn is_enrolled(state_directory: &Path) -> bool {
    Identity::path(state_directory).exists()
}

/// Redeems `token` at the manager for a certificate, and writes it. Returns the host's name.
///
/// # Errors
/// The text is no token, the manager can't be reached, is not the one of the token, or refuses.
pub fn enrol(state_directory: &Path, manager: &str, token: &str) -> Result<String, AgentError> {
    let token = Token::decode(token)?;
    let config = tls::enrolment(Some(token.authority))?;
    let key = new_key();
    let public = Binary(key.der_bytes().to_vec());
    let purpose = Purpose::Enrol { secret: Binary(token.secret.to_vec()), key: public };
    let greeted = runtime(manager)?.block_on(greet(manager, config, purpose));
    let (welcome, _) = greeted?;
    let identity = Identity::new(manager, welcome, &key)?;
    identity.write(state_directory)?;
    Ok(identity.host)
}

/// Enrols as `host` with the token of its group, and writes the certificate.
///
/// # Errors
/// The file has no token; the manager can't be reached, does not know the token, or refuses.
pub async fn enrol_in_group(
    state_directory: &Path,
    manager: &str,
    host: &str,
    token_file: &Path,
) -> Result<Identity, AgentError> {
    let token = GroupToken::read(token_file)?;
    let key = new_key();
    let mut made = None;
    let purpose = |binding: &[u8; 32]| {
        let statement = Statement::new(binding, host, key.der_bytes());
        let proof = Binary(token.prove(&statement).to_vec());
        made = Some(statement);
        Purpose::EnrolInGroup {
            host: host.to_owned(),
            key: Binary(key.der_bytes().to_vec()),
            proof,
        }
    };
    let (mut welcome, _) = greet_as(manager, tls::enrolment(None)?, purpose).await?;
    // Until here, the manager could be anyone.
    let proof = welcome.proof.take().unwrap_or(Binary(Vec::new())).0;
    let has_proven = match (&made, &welcome.authority, &welcome.certificate) {
        (Some(statement), Some(authority), Some(certificate)) => {
            token.is_answer(statement, &authority.0, &certificate.0, &proof)
        }
        _ => false,
    };
    if !has_proven || welcome.host != host {
        return Err(AgentError::NotTheManager { manager: manager.to_owned() });
    }
    let identity = Identity::new(manager, welcome, &key)?;
    identity.write(state_directory)?;
    Ok(identity)
}
