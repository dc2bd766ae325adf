//! Checks of the router: where programs look for it, whether it answers, and what it reports.

use super::Checks;
use crate::args::flags::RouterArgs;
use crate::connect;
use crate::management::fetch_records;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output::{count, describe};
use nw_api::management::client::decode_status;
use nw_api::management::{Dataset, FaceStatus, ForwarderStatus, RibEntry};
use nw_api::rest::Look;
use nw_app::control::dataset;
use nw_app::{Client, FaceUri, transport};
use nw_element_api::SharedPool;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Clock difference from which the router refuses commands, milliseconds.
const CLOCK_FAIL_MS: u64 = 60_000;
/// Clock difference that is worth a warning, milliseconds.
const CLOCK_WARN_MS: u64 = 2_000;

/// Runs all checks. Returns whether a router answers.
pub fn check(checks: &mut Checks, router: &RouterArgs) -> bool {
    let uri = match connect::uri(router) {
        Ok(uri) => uri,
        Err(error) => {
            checks.fail(
                "transport",
                describe(&error),
                "export NDN_CLIENT_TRANSPORT=unix:///run/nfd/nfd.sock",
            );
            return false;
        }
    };
    transport(checks, router, &uri);
    if let FaceUri::Unix(path) = &uri
        && !socket(checks, path)
    {
        return false;
    }
    let mut client = match Client::connect(&uri) {
        Ok(client) => client,
        Err(error) => {
            checks.fail("router", format!("{uri} can't be reached: {error}"), "nw run &");
            return false;
        }
    };
    let status = match dataset(&mut client, Dataset::StatusGeneral, None)
        .map(|content| decode_status(&content))
    {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => {
            let found = format!("the status of {uri} can't be read: {error}");
            checks.fail("router", found, "is it an NDN router? give another with --socket");
            return false;
        }
        Err(error) => {
            let remedy = "nw doctor --socket unix:///path/of/its/socket, on the router's machine";
            checks.fail("router", format!("{uri}: {error}"), remedy);
            return false;
        }
    };
    let up_s = status.current_timestamp.saturating_sub(status.start_timestamp) / 1000;
    checks.ok("router", format!("{} at {uri}, up for {up_s} s", status.version));
    clock(checks, &status);
    routes(checks, &mut client);
    if let FaceUri::Unix(path) = &uri {
        control(checks, path);
    }
    true
}

/// Checks where programs look for the router. Other libraries know fewer places than `nw`.
fn transport(checks: &mut Checks, router: &RouterArgs, uri: &FaceUri) {
    let is_named = router.socket.is_some() || std::env::var_os("NDN_CLIENT_TRANSPORT").is_some();
    let user = transport::user_socket();
    let is_user_socket = matches!(uri, FaceUri::Unix(path) if Some(path) == user.as_ref());
    if is_user_socket && !is_named {
        checks.warn(
            "transport",
            format!("{uri}: other libraries do not look there by default"),
            format!("export NDN_CLIENT_TRANSPORT={uri}"),
        );
    } else {
        let by = match (&router.socket, is_named) {
            (Some(_), _) => "--socket",
            (None, true) => "NDN_CLIENT_TRANSPORT",
            (None, false) => "client.conf or the default",
        };
        checks.ok("transport", format!("{uri} ({by})"));
    }
}

/// Checks the unix socket. Returns whether this user can connect.
fn socket(checks: &mut Checks, path: &Path) -> bool {
    let (socket, path) = (path, path.display());
    let metadata = match socket.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            checks.fail(
                "socket",
                format!("this user has no access to the folder of {path}"),
                format!("ls -ld {}", folder(socket)),
            );
            return false;
        }
        Err(_) => {
            checks.fail(
                "socket",
                format!("{path} does not exist: no router runs there"),
                "nw run &",
            );
            return false;
        }
    };
    if !metadata.file_type().is_socket() {
        checks.fail(
            "socket",
            format!("{path} is not a socket"),
            format!("mv {path} {path}.old; nw run &"),
        );
        return false;
    }
    match UnixStream::connect(socket) {
        Ok(_) => {
            checks.ok(
                "socket",
                format!(
                    "{path} accepts this user (mode {:o})",
                    metadata.permissions().mode() & 0o777
                ),
            );
            true
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            checks.fail(
                "socket",
                format!(
                    "this user has no access to {path} (mode {:o}, group {})",
                    metadata.permissions().mode() & 0o777,
                    metadata.gid()
                ),
                "sudo usermod -aG GROUP $USER, or faces.unix.mode in the router's configuration",
            );
            false
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            checks.fail("socket", format!("{path} is left over: no router runs there"), "nw run &");
            false
        }
        Err(error) => {
            checks.fail("socket", format!("{path}: {error}"), "nw run &");
            false
        }
    }
}

fn folder(path: &Path) -> String {
    path.parent().map_or(".".to_owned(), |folder| folder.display().to_string())
}

/// Compares the clocks: a router refuses commands with a timestamp that is too far from its own
/// time.
fn clock(checks: &mut Checks, status: &ForwarderStatus) {
    let now_ms =
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    let apart = now_ms.abs_diff(status.current_timestamp);
    let found = format!("the router's clock is {:.1} s from this program's", apart as f64 / 1000.0);
    match apart {
        0..CLOCK_WARN_MS => checks.ok("clock", found),
        CLOCK_WARN_MS..CLOCK_FAIL_MS => {
            checks.warn("clock", found, "sudo timedatectl set-ntp true")
        }
        _ => checks.fail(
            "clock",
            format!("{found}: commands are refused"),
            "sudo timedatectl set-ntp true; then start the router again",
        ),
    }
}

fn routes(checks: &mut Checks, client: &mut Client) {
    let (faces, entries) = match (
        fetch_records::<FaceStatus>(client, Dataset::FacesList, None),
        fetch_records::<RibEntry>(client, Dataset::RibList, None),
    ) {
        (Ok(faces), Ok(entries)) => (faces, entries),
        (Err(error), _) | (_, Err(error)) => {
            checks.warn("routes", format!("can't be read: {}", describe(&error)), "nw route list");
            return;
        }
    };
    let ids: BTreeSet<u64> = faces.iter().map(|face| face.face_id).collect();
    let routes = entries.iter().map(|entry| entry.routes.len()).sum::<usize>();
    let dangling: Vec<_> = entries
        .iter()
        .flat_map(|entry| entry.routes.iter().map(move |route| (&entry.name, route.face_id)))
        .filter(|(_, face)| !ids.contains(face))
        .collect();
    match dangling.first() {
        Some((name, face)) => checks.warn(
            "routes",
            format!(
                "{} to faces that do not exist, such as {name} to face {face}",
                count(dangling.len() as u64, "route")
            ),
            format!("nw route remove {name} {face}"),
        ),
        None if routes == 0 => checks.warn(
            "routes",
            "none: only names on this machine can be fetched",
            "nw route add / udp4://192.0.2.1 (the next router's address)",
        ),
        None => checks.ok(
            "routes",
            format!("{} over {}", count(routes as u64, "route"), count(ids.len() as u64, "face")),
        ),
    }
}

/// Checks the control socket, and the pools that only it reports.
fn control(checks: &mut Checks, path: &Path) {
    let address = ControlAddress::Unix(nw_api::config::control_path_beside(path));
    let look: Look = match http::request_json(&address, Method::Get, "/v1/look?components=1", None)
    {
        Ok(look) => look,
        Err(error) => {
            let remedy = "run as the router's user; see [control] in `nw config`";
            checks.warn(
                "control",
                format!("nw top, trace, tap and log do not work: {}", describe(&error)),
                remedy,
            );
            return;
        }
    };
    checks.ok("control", format!("{address} answers"));
    let exhausted: Vec<_> = look.status.shortages.iter().filter(|pool| pool.count > 0).collect();
    for pool in &exhausted {
        let known = SharedPool::ALL.iter().find(|known| known.as_str() == pool.pool);
        let remedy = known.map_or("nw top", |known| known.remedy());
        checks.warn(
            "pools",
            format!("{} was exhausted {}", pool.pool, count(pool.count, "time")),
            remedy,
        );
    }
    if exhausted.is_empty() {
        checks.ok("pools", "none was exhausted since the router started");
    }
}
