//! Where the router is: as NDN's programs find it.
//!
//! `NDN_CLIENT_TRANSPORT`, else `transport=` in `client.conf` (`~/.ndn`, `/usr/local/etc/ndn`, `/opt/local/etc/ndn`, `/etc/ndn`), else the
//! first unix socket that is there: ours for this user, then the ones that all clients know.

use nw_api::config::file::{KEY_MAX, read_text};
use nw_faces::FaceUri;
use std::env;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Sockets that clients of a router look for, first one first.
pub const SOCKETS: [&str; 3] = ["/run/nfd/nfd.sock", "/var/run/nfd/nfd.sock", "/run/nfd.sock"];

/// The URI was no URI.
#[derive(Debug, thiserror::Error)]
#[error("{source_name} says the router is at {text:?}, which can't be used: {reason}")]
pub struct TransportError {
    /// Which setting: an environment variable or a file.
    pub source_name: String,
    /// What it says.
    pub text: String,
    /// Why not.
    pub reason: String,
}

/// Where the socket of a router run by a user without rights to `/run/nfd` is.
pub fn user_socket() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(|dir| PathBuf::from(dir).join("nfd.sock"))
}

/// The router's place by environment, client.conf and habit.
///
/// # Errors
/// When one of those names something that is no face URI.
pub fn default_uri() -> Result<FaceUri, TransportError> {
    if let Ok(text) = env::var("NDN_CLIENT_TRANSPORT") {
        return parse("NDN_CLIENT_TRANSPORT", &text);
    }
    if let Some((path, text)) = client_conf("transport") {
        return parse(&path.display().to_string(), &text);
    }
    let there = user_socket().into_iter().chain(SOCKETS.map(PathBuf::from)).find(|path| path.exists());
    let path = there.unwrap_or_else(|| PathBuf::from(SOCKETS[0]));
    parse("the default", &format!("unix://{}", path.display()))
}

fn parse(source_name: &str, text: &str) -> Result<FaceUri, TransportError> {
    let error = |reason: String| TransportError {
        source_name: source_name.to_owned(),
        text: text.to_owned(),
        reason,
    };
    text.parse::<FaceUri>().map_err(|e| error(e.to_string()))
}

/// Returns true when the environment or a client.conf names this place already.
pub fn is_configured(uri: &str) -> bool {
    let named =
        env::var("NDN_CLIENT_TRANSPORT").ok().or_else(|| client_conf("transport").map(|(_, text)| text));
    named.is_some_and(|named| named == uri)
}

/// Writes a router's place into the client.conf of this user, and leaves its other lines as they are. Returns the file, and the place it named
/// before, if another.
///
/// # Errors
/// When there is no home folder, or it can't be written.
pub fn write_client_conf(uri: &str) -> std::io::Result<(PathBuf, Option<String>)> {
    let none = || std::io::Error::other("HOME is not set");
    let folder =
        PathBuf::from(env::var_os("HOME").filter(|home| !home.is_empty()).ok_or_else(none)?).join(".ndn");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join("client.conf");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let before = conf_value(&text, "transport").filter(|before| *before != uri).map(str::to_owned);
    // Whole under its name or not at all.
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(with_value(&text, "transport", uri).as_bytes())?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.persist(&path)?;
    Ok((path, before))
}

/// A client.conf in which a key has this value, and nothing else has changed.
fn with_value(conf: &str, key: &str, value: &str) -> String {
    let is_it = |line: &str| conf_value(line, key).is_some();
    let mut lines: Vec<String> = conf.lines().filter(|line| !is_it(line)).map(str::to_owned).collect();
    let at = conf.lines().position(is_it).unwrap_or(lines.len());
    lines.insert(at, format!("{key}={value}"));
    lines.join("\n") + "\n"
}

/// The value of a key in the first client.conf that has it, and that file.
pub(crate) fn client_conf(key: &str) -> Option<(PathBuf, String)> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".ndn"));
    let system = ["/usr/local/etc/ndn", "/opt/local/etc/ndn", "/etc/ndn"].map(PathBuf::from);
    home.into_iter().chain(system).find_map(|directory| {
        let path = directory.join("client.conf");
        let text = read_text(&path, KEY_MAX).ok()?;
        conf_value(&text, key).map(|value| (path, value.to_owned()))
    })
}

/// The value of `key=` in a client.conf; `;` starts a comment.
fn conf_value<'a>(conf: &'a str, key: &str) -> Option<&'a str> {
    conf.lines().map(str::trim).filter(|line| !line.starts_with(';') && !line.starts_with('#')).find_map(
        |line| {
            let (found, value) = line.split_once('=')?;
            (found.trim() == key).then(|| value.trim())
        },
    )
}

/// A unix path as a URI.
pub fn unix_uri(path: &Path) -> String {
    format!("unix://{}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_conf_is_read_as_the_libraries_do() {
        let conf = "; a\n;transport=unix:///x\ntransport = unix:///y\npib=z";
        assert_eq!(conf_value(conf, "transport"), Some("unix:///y"));
        assert_eq!(conf_value(conf, "pib"), Some("z"));
        assert_eq!(conf_value("pib=z\n", "transport"), None);
    }

    #[test]
    fn client_conf_is_changed_in_one_line() {
        let conf = "; a\npib=z\ntransport = unix:///y\ntpm=t";
        assert_eq!(with_value(conf, "transport", "unix:///n"), "; a\npib=z\ntransport=unix:///n\ntpm=t\n");
        assert_eq!(with_value("pib=z\n", "transport", "unix:///n"), "pib=z\ntransport=unix:///n\n");
        assert_eq!(with_value("", "transport", "unix:///n"), "transport=unix:///n\n");
    }
}
