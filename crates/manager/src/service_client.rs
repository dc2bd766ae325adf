//! A client of services' control sockets: one HTTP/1.0 request per connection, with a time limit
//! and a bound on the response. Services are not trusted to answer in time or in form.

use nw_api::rest::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time limit of a request unless another one is given.
pub const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response's head, bytes.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// Maximum size of a response's body, bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// Reasons why a request to a service failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Nothing listens at the path, or the connection broke.
    #[error("the control socket does not answer: {0}")]
    Unreachable(String),
    /// The service refused the request.
    #[error("refused by the service ({code}): {text}")]
    Refused {
        /// HTTP status code.
        code: u64,
        /// Reason.
        text: String,
    },
    /// The response is not what it should be.
    #[error("the response is malformed: {0}")]
    Malformed(String),
}

impl ServiceError {
    /// Returns whether the service answered with this status code.
    pub fn has_code(&self, expected: u64) -> bool {
        matches!(self, ServiceError::Refused { code, .. } if *code == expected)
    }
}

/// Sends `GET path` and parses the response.
///
/// # Errors
/// See [`ServiceError`].
pub fn get<T: DeserializeOwned>(control: &Path, path: &str) -> Result<T, ServiceError> {
    parse(&request(control, "GET", path, b"", TIMEOUT)?)
}

/// A `GET` whose response has not been read yet: others can be sent meanwhile.
pub struct Asked(std::io::Result<BufReader<UnixStream>>);

/// Sends `GET path`, and does not wait for the response.
pub fn ask(control: &Path, path: &str) -> Asked {
    Asked(send_request(control, "GET", path, b"", TIMEOUT))
}

impl Asked {
    /// Reads the response and parses it.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn response<T: DeserializeOwned>(self) -> Result<T, ServiceError> {
        let read = || {
            let mut reader = self.0?;
            let code = read_head(&mut reader)?;
            Ok((code, read_body(reader)?))
        };
        parse(&accept(read())?)
    }
}

/// Sends a body by `method` (PUT, POST) and parses the response.
///
/// # Errors
/// See [`ServiceError`].
pub fn send<T: DeserializeOwned>(
    control: &Path,
    method: &str,
    path: &str,
    body: &impl Serialize,
    timeout: Duration,
) -> Result<T, ServiceError> {
    let body = serde_json::to_vec(body).map_err(|e| ServiceError::Malformed(e.to_string()))?;
    parse(&request(control, method, path, &body, timeout)?)
}

/// Sends `POST path` without a body and ignores the response's body.
///
/// # Errors
/// See [`ServiceError`].
pub fn post(control: &Path, path: &str) -> Result<(), ServiceError> {
    request(control, "POST", path, b"", TIMEOUT).map(drop)
}

/// Sends `GET path` and returns the body to be read while it arrives. A read that waits for longer
/// than `timeout` fails with `WouldBlock`.
///
/// # Errors
/// See [`ServiceError`].
pub fn open(
    control: &Path,
    path: &str,
    timeout: Duration,
) -> Result<impl Read + use<>, ServiceError> {
    let unreachable = |error: std::io::Error| ServiceError::Unreachable(error.to_string());
    let (code, mut body) = start(control, "GET", path, b"", TIMEOUT).map_err(unreachable)?;
    if (200..300).contains(&code) {
        body.get_ref().set_read_timeout(Some(timeout)).map_err(unreachable)?;
        return Ok(body);
    }
    let mut text = Vec::new();
    // What can't be read gives no reason.
    let _ = body.by_ref().take(BODY_BYTES_MAX).read_to_end(&mut text);
    Err(refused(code, &text))
}

fn refused(code: u64, body: &[u8]) -> ServiceError {
    let problem = serde_json::from_slice::<Problem>(body);
    let text = problem.map_or_else(|_| "no reason given".to_owned(), |problem| problem.text);
    ServiceError::Refused { code, text }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ServiceError> {
    serde_json::from_slice(body).map_err(|error| ServiceError::Malformed(error.to_string()))
}

fn request(
    control: &Path,
    method: &str,
    path: &str,
    body: &[u8],
    timeout: Duration,
) -> Result<Vec<u8>, ServiceError> {
    let exchange = || {
        let (code, reader) = start(control, method, path, body, timeout)?;
        Ok((code, read_body(reader)?))
    };
    accept(exchange())
}

/// Returns the body of a response without an error.
fn accept(response: std::io::Result<(u64, Vec<u8>)>) -> Result<Vec<u8>, ServiceError> {
    let (code, body) = response.map_err(|error| ServiceError::Unreachable(error.to_string()))?;
    match (200..300).contains(&code) {
        true => Ok(body),
        false => Err(refused(code, &body)),
    }
}

fn read_body(reader: BufReader<UnixStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(BODY_BYTES_MAX).read_to_end(&mut body)?;
    Ok(body)
}

/// Sends a request and reads the head of the response.
fn start(
    control: &Path,
    method: &str,
    path: &str,
    body: &[u8],
    timeout: Duration,
) -> std::io::Result<(u64, BufReader<UnixStream>)> {
    let mut reader = send_request(control, method, path, body, timeout)?;
    let code = read_head(&mut reader)?;
    Ok((code, reader))
}

fn send_request(
    control: &Path,
    method: &str,
    path: &str,
    body: &[u8],
    timeout: Duration,
) -> std::io::Result<BufReader<UnixStream>> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n");
    if !body.is_empty() {
        head.push_str("Content-Type: application/json\r\n");
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    let mut message = head.into_bytes();
    message.extend_from_slice(body);
    stream.write_all(&message)?;
    Ok(BufReader::new(stream))
}

fn read_head(reader: &mut BufReader<UnixStream>) -> std::io::Result<u64> {
    let malformed = || std::io::Error::other("no HTTP response");
    let mut head = reader.by_ref().take(HEAD_BYTES_MAX);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let code = line.strip_prefix("HTTP/").and_then(|line| line.split(' ').nth(1)?.parse().ok());
    let code = code.ok_or_else(malformed)?;
    while !line.trim_end().is_empty() {
        line.clear();
        if head.read_line(&mut line)? == 0 {
            return Err(malformed());
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::service::GraphText;
    use std::os::unix::net::UnixListener;

    /// Answers one request with fixed bytes and returns what it received.
    fn answer(path: &Path, response: &'static str) -> std::thread::JoinHandle<String> {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = [0; 1024];
            let len = stream.read(&mut bytes).unwrap();
            stream.write_all(response.as_bytes()).unwrap();
            String::from_utf8_lossy(&bytes[..len]).into_owned()
        })
    }

    #[test]
    fn responses_are_read_after_all_requests_are_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let response = "HTTP/1.0 200 OK\r\n\r\n{\"graph\":\"g\"}";
        let _threads = ["a", "b"].map(|name| answer(&path(name), response));
        let asked = ["a", "none", "b"].map(|name| ask(&path(name), "/v1/graph"));
        let answered = asked.map(|asked| asked.response::<GraphText>().map(|text| text.graph));
        assert_eq!((answered[0].as_deref(), answered[2].as_deref()), (Ok("g"), Ok("g")));
        assert!(matches!(answered[1], Err(ServiceError::Unreachable(_))));
    }

    #[test]
    fn response_error_and_garbage_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let good = answer(&path("a"), "HTTP/1.0 200 OK\r\nX: y\r\n\r\n{\"graph\":\"g\"}");
        let text: GraphText = get(&path("a"), "/v1/graph").unwrap();
        assert_eq!(text.graph, "g");
        assert!(good.join().unwrap().starts_with("GET /v1/graph HTTP/1.0\r\n"));
        let _thread = answer(&path("b"), "HTTP/1.0 409 No\r\n\r\n{\"code\":409,\"text\":\"busy\"}");
        let error = get::<GraphText>(&path("b"), "/v1/graph").unwrap_err();
        assert!(error.has_code(409));
        assert_eq!(error.to_string(), "refused by the service (409): busy");
        for (name, response) in [("c", "nonsense\r\n\r\n"), ("d", "HTTP/1.0 200 OK\r\n")] {
            let _thread = answer(&path(name), response);
            let error = get::<GraphText>(&path(name), "/").unwrap_err();
            assert!(error.to_string().contains("no HTTP response"), "{error}");
        }
        let _thread = answer(&path("e"), "HTTP/1.0 200 OK\r\n\r\n[]");
        assert!(matches!(get::<GraphText>(&path("e"), "/"), Err(ServiceError::Malformed(_))));
        assert!(matches!(get::<GraphText>(&path("f"), "/"), Err(ServiceError::Unreachable(_))));
    }
}
