//! TLS for users of a manager: the listener's certificate, and tokens that name the authority.
//!
//! A user's token has a secret and the digest of the authority, as that of a host. So its program
//! knows the manager before it sends the token.

use crate::authority::{Authority, MANAGER_NAME};
use crate::message::{SECRET_LEN, Token};
use crate::{AgentError, digest_bytes, now_s, tls};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned};
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Name of the file with the authority's certificate in PEM, for programs such as `curl --cacert`.
const AUTHORITY_PEM: &str = "authority.pem";

/// Returns the TLS configuration of a listener for users at an address of this machine, with a new
/// certificate of the authority in `state_directory`. Writes the authority's certificate there as
/// `authority.pem`.
///
/// # Errors
/// The state directory can't be read or written.
pub fn user_listener(
    state_directory: &Path,
    address: IpAddr,
) -> Result<Arc<ServerConfig>, AgentError> {
    fs::create_dir_all(state_directory).map_err(AgentError::file("make", state_directory))?;
    let authority = Authority::open(state_directory, now_s())?;
    let path = state_directory.join(AUTHORITY_PEM);
    let pem = pem(authority.certificate());
    fs::write(&path, pem).map_err(AgentError::file("write", &path))?;
    tls::user_server(&authority, address, now_s())
}

/// Returns the text of a new token for users of the manager with this state directory.
///
/// # Errors
/// The state directory can't be read or written.
pub fn new_user_token(state_directory: &Path) -> Result<String, AgentError> {
    fs::create_dir_all(state_directory).map_err(AgentError::file("make", state_directory))?;
    let authority = Authority::open(state_directory, now_s())?;
    let (mut secret, mut more) = ([0; SECRET_LEN], [0; SECRET_LEN]);
    getrandom::fill(&mut secret).expect("the system has random numbers");
    getrandom::fill(&mut more).expect("the system has random numbers");
    let token = Token { secret, authority: digest_bytes(authority.certificate()) };
    let more: String = more.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{}.{more}", token.encode()))
}

/// Returns the TLS configuration that accepts only the manager that made this token.
fn user_client(token: &str) -> Result<Arc<ClientConfig>, AgentError> {
    let text = token.trim().rsplit_once('.').ok_or(AgentError::UserToken)?.0;
    let token = Token::decode(text).map_err(|_| AgentError::UserToken)?;
    tls::enrolment(Some(token.authority))
}

/// A connection of a user's program to the manager that made its token.
pub struct UserStream(StreamOwned<ClientConnection, TcpStream>);

impl UserStream {
    /// Connects to `manager`, `HOST:PORT`. The handshake is made with the first bytes.
    ///
    /// # Errors
    /// The text is no token of a user, or the manager can't be reached.
    pub fn connect(manager: &str, token: &str) -> Result<Self, AgentError> {
        let config = user_client(token)?;
        let failed = |source| AgentError::Connection { manager: manager.to_owned(), source };
        let stream = TcpStream::connect(manager).map_err(failed)?;
        let connection = ClientConnection::new(config, tls::manager_name())?;
        Ok(UserStream(StreamOwned::new(connection, stream)))
    }

    /// Limits the time to wait for each part that is read. `None`: no limit.
    ///
    /// # Errors
    /// The system refuses the time.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.sock.set_read_timeout(timeout)
    }
}

impl Read for UserStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for UserStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: Vec<_> = lines.collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

/// Names in the certificate of a listener for users.
pub(crate) fn names(address: IpAddr) -> Vec<rcgen::SanType> {
    let name = |text: &str| rcgen::SanType::DnsName(text.try_into().expect("a DNS name"));
    vec![name(MANAGER_NAME), name("localhost"), rcgen::SanType::IpAddress(address)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_token_is_accepted_by_its_client_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let token = new_user_token(folder.path()).unwrap();
        assert_ne!(token, new_user_token(folder.path()).unwrap());
        user_client(&format!("{token}\n")).unwrap();
        for wrong in ["", "nw1-", "hello", token.split_once('.').unwrap().0] {
            assert!(user_client(wrong).is_err(), "{wrong}");
        }
        user_listener(folder.path(), IpAddr::from([127, 0, 0, 1])).unwrap();
        let pem = fs::read_to_string(folder.path().join(AUTHORITY_PEM)).unwrap();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----\n"), "{pem}");
    }
}
