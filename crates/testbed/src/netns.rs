//! Network namespaces and operations in them.

use crate::error::LabError;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The directory where `ip netns` keeps namespaces.
pub(crate) const NETNS_DIRECTORY: &str = "/run/netns";

/// Makes namespaces with a single command.
pub(crate) fn make(names: &[&str]) -> Result<(), LabError> {
    let lines: String = names.iter().map(|name| format!("netns add {name}\n")).collect();
    batch("ip", None, &lines)?;
    names.iter().try_for_each(|name| batch("ip", Some(name), "link set lo up\n"))
}

/// Removes a namespace. A missing namespace is no error.
pub(crate) fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
}

/// Runs lines of `ip` or `tc` commands in a namespace.
pub(crate) fn batch(program: &str, netns: Option<&str>, lines: &str) -> Result<(), LabError> {
    let mut command = Command::new(program);
    if let Some(netns) = netns {
        command.args(["-n", netns]);
    }
    command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.spawn().and_then(|mut child| {
        let mut stdin = child.stdin.take().expect("asked for above");
        stdin.write_all(lines.as_bytes())?;
        drop(stdin);
        child.wait_with_output()
    });
    let output = output.map_err(|source| missing(program, &source))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    // "Command failed -:3" refers to the third line.
    let line = errors.rsplit("-:").next().and_then(|n| n.trim().parse::<usize>().ok());
    let line = line.and_then(|n| lines.lines().nth(n - 1)).unwrap_or(lines);
    Err(LabError::Refused {
        what: format!("{program} {}", line.trim()),
        said: errors.lines().next().unwrap_or_default().trim().to_owned(),
    })
}

/// Runs a system command and returns its output.
pub(crate) fn run(program: &str, words: &[&str]) -> Result<String, LabError> {
    let output: Output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| missing(program, &source))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(LabError::Refused {
            what: format!("{program} {}", words.join(" ")),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        }),
    }
}

/// Returns the path of a program in `PATH`.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

fn missing(program: &str, why: &std::io::Error) -> LabError {
    LabError::Missing(format!("the command {program} can't be run ({why}): apt install iproute2"))
}

/// Runs a function in a namespace, in a separate thread. Sockets that it opens and programs that it
/// starts stay in the namespace.
///
/// # Errors
/// Returns an error if the namespace does not exist or can't be entered, and the errors of `work`.
pub fn within_netns<T: Send, E: From<LabError> + Send>(
    name: &str,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, E> {
    let path = Path::new(NETNS_DIRECTORY).join(name);
    let netns = File::open(&path).map_err(LabError::at("open the namespace", &path))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let network = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(netns.as_fd(), Some(network)).map_err(
                |errno| LabError::Refused {
                    what: format!("entering {name}"),
                    said: errno.to_string(),
                },
            )?;
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sets a value below `/proc/sys` of a namespace.
pub(crate) fn set(name: &str, key: &str, value: &str) -> Result<(), LabError> {
    let path = Path::new("/proc/sys").join(key);
    within_netns(name, || std::fs::write(&path, value).map_err(LabError::at("write", &path)))
}
