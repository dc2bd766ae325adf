//! TLS 1.3 between manager and agent: both sides have certificates of the manager's authority.
//!
//! When a host enrols it has no certificate and does not know the authority yet. It accepts the one
//! whose digest is in its token, and no other.

use crate::authority::{Authority, MANAGER_NAME};
use crate::{AgentError, digest_bytes, users};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ConnectionCommon, DigitallySignedStruct, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::net::IpAddr;
use std::sync::Arc;

/// Digest of an authority's certificate.
pub type AuthorityDigest = [u8; 32];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn roots(authority: &CertificateDer<'static>) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone())?;
    Ok(Arc::new(roots))
}

/// Returns the name that agents expect of a manager.
pub fn manager_name() -> ServerName<'static> {
    ServerName::try_from(MANAGER_NAME).expect("a DNS name")
}

/// Returns the manager's configuration. A client without certificate is accepted here, and may then
/// only redeem a token.
pub fn server(authority: &Authority, now_s: u64) -> Result<Arc<ServerConfig>, AgentError> {
    let roots = roots(authority.certificate())?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .allow_unauthenticated()
        .build()
        .map_err(|error| AgentError::Tls(Error::General(error.to_string())))?;
    let (chain, key) = authority.manager_identity(now_s);
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain, key)?;
    // Each connection shows its certificate anew, so that a forgotten host is refused.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Returns the configuration of a listener for users, who have tokens and no certificates.
pub fn user_server(
    authority: &Authority,
    address: IpAddr,
    now_s: u64,
) -> Result<Arc<ServerConfig>, AgentError> {
    let (chain, key) = authority.identity(users::names(address), now_s);
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(Arc::new(config))
}

/// Returns the configuration of an enrolled agent.
pub fn client(
    authority: &CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ClientConfig>, AgentError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(authority)?)
        .with_client_auth_cert(vec![certificate], key)?;
    Ok(Arc::new(config))
}

/// Returns the configuration of a host that enrols. Without a digest, any manager is accepted,
/// which has to prove otherwise that it is the right one.
pub fn enrolment(digest: Option<AuthorityDigest>) -> Result<Arc<ClientConfig>, AgentError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AuthorityPin { digest, provider: provider() }))
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Returns bytes that only the two ends of a TLS connection have, and no other connection
/// (RFC 9266).
pub fn channel_binding<D>(connection: &ConnectionCommon<D>) -> Result<[u8; 32], Error> {
    connection.export_keying_material([0; 32], b"EXPORTER-Channel-Binding", None)
}

/// Accepts a manager whose chain ends in the authority with this digest, or in any if there is
/// none.
#[derive(Debug)]
struct AuthorityPin {
    digest: Option<AuthorityDigest>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AuthorityPin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_it = |found: &&CertificateDer<'_>| {
            self.digest.is_none_or(|digest| digest_bytes(found) == digest)
        };
        let authority = intermediates.iter().find(is_it).ok_or_else(|| {
            Error::General("it is not the manager that made the token".to_owned())
        })?;
        let roots = roots(&authority.clone().into_owned())?;
        WebPkiServerVerifier::builder_with_provider(roots, self.provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))?
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
