//! The router's address, determined as other NDN programs do.
//!
//! `NDN_CLIENT_TRANSPORT`, else `transport=` in `client.conf` (`~/.ndn`, `/usr/local/etc/ndn`,
//! `/opt/local/etc/ndn`, `/etc/ndn`), else the first existing unix socket: that of this user's
//! router, then the well-known ones.

use nw_api::config::file::{KEY_MAX, read_text};
use nw_faces::FaceUri;
use std::env;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Well-known paths of a router's socket, in the order they are tried.
pub const SOCKETS: [&str; 3] = ["/run/nfd/nfd.sock", "/var/run/nfd/nfd.sock", "/run/nfd.sock"];

/// A setting contains an invalid URI.
#[derive(Debug, thiserror::Error)]
#[error("{source_name} names {text:?} as the router, which is not usable: {reason}")]
pub struct TransportError {
    /// The setting: an environment variable or a file.
    pub source_name: String,
    /// Its value.
    pub text: String,
    /// The error.
    pub reason: String,
}

/// Returns the socket path of a router run by a user without access to `/run/nfd`.
pub fn user_socket() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("nfd.sock"))
}

/// Returns the router's address from the environment, client.conf or well-known paths.
///
/// # Errors
/// If a setting contains an invalid face URI.
pub fn default_uri() -> Result<FaceUri, TransportError> {
    if let Ok(text) = env::var("NDN_CLIENT_TRANSPORT") {
        return parse("NDN_CLIENT_TRANSPORT", &text);
    }
    if let Some((path, text)) = client_conf("transport") {
        return parse(&path.display().to_string(), &text);
    }
    let existing =
        user_socket().into_iter().chain(SOCKETS.map(PathBuf::from)).find(|path| path.exists());
    let path = existing.unwrap_or_else(|| PathBuf::from(SOCKETS[0]));
    parse("the default", &format!("unix://{}", path.display()))
}

/// Returns the path of a configured unix socket. `None` if nothing is configured, or another
/// transport.
pub fn configured_unix() -> Option<PathBuf> {
    let configured = env::var("NDN_CLIENT_TRANSPORT")
        .ok()
        .or_else(|| client_conf("transport").map(|(_, text)| text))?;
    configured.strip_prefix("unix://").map(PathBuf::from)
}

fn parse(source_name: &str, text: &str) -> Result<FaceUri, TransportError> {
    let error = |reason: String| TransportError {
        source_name: source_name.to_owned(),
        text: text.to_owned(),
        reason,
    };
    text.parse::<FaceUri>().map_err(|e| error(e.to_string()))
}

/// Returns whether the environment or a client.conf already contains this address.
pub fn is_configured(uri: &str) -> bool {
    let configured = env::var("NDN_CLIENT_TRANSPORT")
        .ok()
        .or_else(|| client_conf("transport").map(|(_, text)| text));
    configured.is_some_and(|configured| configured == uri)
}

/// Writes a router's address to the user's client.conf and keeps its other lines. Returns the file,
/// and its previous address if different.
///
/// # Errors
/// If there is no home folder, or the file can't be written.
pub fn write_client_conf(uri: &str) -> std::io::Result<(PathBuf, Option<String>)> {
    let no_home = || std::io::Error::other("HOME is not set");
    let folder =
        PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty()).ok_or_else(no_home)?)
            .join(".ndn");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("client.conf");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let previous =
        conf_value(&text, "transport").filter(|previous| *previous != uri).map(str::to_owned);
    // Replaced atomically.
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(with_value(&text, "transport", uri).as_bytes())?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(&path)?;
    Ok((path, previous))
}

/// Returns the text of a client.conf with a changed value; all else is unchanged.
fn with_value(conf: &str, key: &str, value: &str) -> String {
    let has_key = |line: &str| conf_value(line, key).is_some();
    let mut lines: Vec<String> =
        conf.lines().filter(|line| !has_key(line)).map(str::to_owned).collect();
    let at = conf.lines().position(has_key).unwrap_or(lines.len());
    lines.insert(at, format!("{key}={value}"));
    lines.join("\n") + "\n"
}

/// Returns the value of a key in the first client.conf that contains it, and that file.
pub(crate) fn client_conf(key: &str) -> Option<(PathBuf, String)> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".ndn"));
    let system = ["/usr/local/etc/ndn", "/opt/local/etc/ndn", "/etc/ndn"].map(PathBuf::from);
    home.into_iter().chain(system).find_map(|directory| {
        let path = directory.join("client.conf");
        let text = read_text(&path, KEY_MAX).ok()?;
        conf_value(&text, key).map(|value| (path, value.to_owned()))
    })
}

/// Returns the value of `key=` in a client.conf; `;` starts a comment.
fn conf_value<'a>(conf: &'a str, key: &str) -> Option<&'a str> {
    conf.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(';') && !line.starts_with('#'))
        .find_map(|line| {
            let (found, value) = line.split_once('=')?;
            (found.trim() == key).then(|| value.trim())
        })
}

/// Returns the URI of a unix socket path.
pub fn unix_uri(path: &Path) -> String {
    format!("unix://{}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conf_value_read_like_ndn_libraries() {
        let conf = "; a\n;transport=unix:///x\ntransport = unix:///y\npib=z";
        assert_eq!(conf_value(conf, "transport"), Some("unix:///y"));
        assert_eq!(conf_value(conf, "pib"), Some("z"));
        assert_eq!(conf_value("pib=z\n", "transport"), None);
    }

    #[test]
    fn with_value_changes_one_line() {
        let conf = "; a\npib=z\ntransport = unix:///y\ntpm=t";
        assert_eq!(
            with_value(conf, "transport", "unix:///n"),
            "; a\npib=z\ntransport=unix:///n\ntpm=t\n"
        );
        assert_eq!(with_value("pib=z\n", "transport", "unix:///n"), "pib=z\ntransport=unix:///n\n");
        assert_eq!(with_value("", "transport", "unix:///n"), "transport=unix:///n\n");
    }
}
