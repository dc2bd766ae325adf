//! Certificate and key of a page's own TLS (decision 0091). TLS 1.3 only, which all browsers of the
//! last years speak; no certificate is asked of the browser.

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Errors of the files of a page's TLS.
#[derive(Debug, thiserror::Error)]
#[error("can't use {option} {}: {reason}", path.display())]
pub struct TlsError {
    /// The option that names the file.
    option: &'static str,
    path: PathBuf,
    reason: String,
}

/// Reads a certificate and its key.
///
/// # Errors
/// If a file can't be read, has nothing of its kind, or the two do not belong together.
pub fn read(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let error =
        |option, path: &Path, reason: String| TlsError { option, path: path.to_owned(), reason };
    let of_certificate = |reason: String| error("page.certificate", certificate, reason);
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|failure| of_certificate(failure.to_string()))?;
    if chain.is_empty() {
        let reason = "it has no certificate: a PEM file begins with -----BEGIN CERTIFICATE-----";
        return Err(of_certificate(reason.to_owned()));
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|failure| error("page.key", key, failure.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|failure| of_certificate(failure.to_string()))?;
    Ok(Arc::new(config))
}
