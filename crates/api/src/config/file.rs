//! Reads configurations, keys and certificates within bounds.
//!
//! Invariant: a read never exhausts memory or waits forever. Devices, idle pipes and oversized
//! files are refused with a sentence.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum size of a configuration, scenario, topology or graph file, bytes.
pub const TEXT_MAX: u64 = 64 << 20;
/// Maximum size of a file with a key, certificate or secret, bytes.
pub const KEY_MAX: u64 = 1 << 20;
/// Minimum length of a secret that can't be guessed, characters.
const TOKEN_LEN_MIN: usize = 16;
const PIPE: &str = "a pipe (FIFO)";
/// Maximum time to wait for data from a pipe.
const PIPE_TIMEOUT: Duration = Duration::from_secs(10);

/// Error: a file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {}: {reason}", path.display())]
pub struct ReadError {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason, and what is expected.
    pub reason: String,
}

/// Reads a text file of at most `len_max` bytes.
///
/// # Errors
/// The file does not exist, is not a regular file, exceeds `len_max`, or is not UTF-8.
pub fn read_text(path: &Path, len_max: u64) -> Result<String, ReadError> {
    let bytes = read_bytes(path, len_max)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        ReadError { path: path.to_owned(), reason: format!("line {line} is not text in UTF-8") }
    })
}

/// Reads a file with a secret of at least 16 characters, as `control.token_file` names one.
///
/// # Errors
/// As for [`read_text`], or the secret is too short.
pub fn read_token(path: &Path) -> Result<String, ReadError> {
    let text = read_text(path, KEY_MAX)?;
    match text.trim() {
        token if token.len() < TOKEN_LEN_MIN => {
            let reason = format!(
                "a token needs at least {TOKEN_LEN_MIN} characters; create one with `openssl rand \
                 -hex 32`"
            );
            Err(ReadError { path: path.to_owned(), reason })
        }
        token => Ok(token.to_owned()),
    }
}

/// Reads a file of at most `len_max` bytes.
///
/// # Errors
/// The file does not exist, is not a regular file, or exceeds `len_max`.
pub fn read_bytes(path: &Path, len_max: u64) -> Result<Vec<u8>, ReadError> {
    read(path, len_max).map_err(|reason| ReadError { path: path.to_owned(), reason })
}

fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, String> {
    let mut options = OpenOptions::new();
    // Opening a pipe must not wait for a writer.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut file = options.open(path).map_err(|error| describe(&error))?;
    let metadata = file.metadata().map_err(|error| describe(&error))?;
    let (file_type, len) = (metadata.file_type(), metadata.len());
    if file_type.is_dir() {
        return Err("it is a directory; name a file in it".to_owned());
    }
    if file_type.is_fifo() || file_type.is_char_device() {
        let kind = if file_type.is_fifo() { PIPE } else { "a device" };
        return read_stream(&mut file, len_max, kind);
    }
    if !file_type.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if len > len_max {
        return Err(format!("it is {} long; {}", size(len), too_large(len_max)));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(len_max + 1).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
    match bytes.len() as u64 > len_max {
        true => Err(too_large(len_max)),
        false => Ok(bytes),
    }
}

/// Reads a file without a length: a pipe, /dev/null, a terminal.
fn read_stream(file: &mut File, len_max: u64, kind: &str) -> Result<Vec<u8>, String> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let timeout = Timespec { tv_sec: PIPE_TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    loop {
        match file.read(&mut buffer) {
            Ok(0) if bytes.is_empty() && kind == PIPE => {
                return Err(format!("it is {kind} that nothing is written into"));
            }
            Ok(0) => return Ok(bytes),
            Ok(len) => bytes.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut wait = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
                if let Ok(0) = poll(&mut wait, Some(&timeout)) {
                    let seconds = PIPE_TIMEOUT.as_secs();
                    return Err(format!("it is {kind}, and nothing came from it for {seconds} s"));
                }
            }
            Err(error) => return Err(describe(&error)),
        }
        if bytes.len() as u64 > len_max {
            return Err(format!("it is {kind} with more data; {}", too_large(len_max)));
        }
    }
}

fn too_large(len_max: u64) -> String {
    format!("the maximum is {}", size(len_max))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Returns the text of a system error, without the error number in common cases.
fn describe(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "No such file or directory".to_owned(),
        ErrorKind::PermissionDenied => "Permission denied (this user may not read it)".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn reason(path: &Path, len_max: u64) -> String {
        read_text(path, len_max).unwrap_err().reason
    }

    #[test]
    fn read_text_refuses_large_and_special_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read_text(&path, 3).unwrap(), "abc");
        assert_eq!(reason(&path, 2), "it is 3 bytes long; the maximum is 2 bytes");
        fs::write(&path, b"a\nb\n\xff").unwrap();
        assert_eq!(reason(&path, 100), "line 3 is not text in UTF-8");
        // A sparse file: its content is not read.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(reason(&path, TEXT_MAX), "it is 1048576 MiB long; the maximum is 64 MiB");
        assert_eq!(reason(folder.path(), 9), "it is a directory; name a file in it");
        assert_eq!(
            reason(Path::new("/dev/zero"), 9),
            "it is a device with more data; the maximum is 9 bytes"
        );
        assert_eq!(read_text(Path::new("/dev/null"), 9).unwrap(), "");
        assert_eq!(reason(&folder.path().join("none"), 9), "No such file or directory");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(read_text(&socket, 9).is_err());
    }

    #[test]
    fn pipe_with_writer_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(reason(&path, 9), "it is a pipe (FIFO) that nothing is written into");
        let (reader, mut writer) = io::pipe().unwrap();
        let open = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
        let writing =
            std::thread::spawn(move || io::Write::write_all(&mut writer, &[b'x'; 100_000]));
        assert_eq!(read_text(&open, 100_000).unwrap().len(), 100_000);
        writing.join().unwrap().unwrap();
    }
}
