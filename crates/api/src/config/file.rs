//! Files of configurations, keys and certificates, read within bounds: a device, a pipe that nothing is written into, or a file that can't be what
//! was meant is refused with a sentence, and never fills the memory or waits for ever.

use core::time::Duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of the largest configuration, scenario, topology or graph file.
pub const TEXT_MAX: u64 = 64 << 20;
/// Bytes of the largest file with a key, a certificate or a secret.
pub const KEY_MAX: u64 = 1 << 20;
/// Characters of the shortest secret that is none to guess.
const TOKEN_LEN_MIN: usize = 16;
const PIPE: &str = "a pipe (FIFO)";
/// How long a pipe may be silent.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[error("can't read {}: {why}", path.display())]
pub struct ReadError {
    /// Which.
    pub path: PathBuf,
    /// Why, and what should be there.
    pub why: String,
}

/// Reads a text file of at most `most` bytes.
///
/// # Errors
/// A sentence: it is not there, no file, too large, or not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let bytes = read_bytes(path, most)?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        ReadError { path: path.to_owned(), why: format!("line {line} is not text in UTF-8") }
    })
}

/// Reads a file with a secret of at least 16 characters, as `control.token_file` names one.
///
/// # Errors
/// See [`read_text`]; a secret that is too short.
pub fn read_token(path: &Path) -> Result<String, ReadError> {
    let text = read_text(path, KEY_MAX)?;
    match text.trim() {
        token if token.len() < TOKEN_LEN_MIN => {
            let why =
                format!("a token has at least {TOKEN_LEN_MIN} characters; `openssl rand -hex 32` makes one");
            Err(ReadError { path: path.to_owned(), why })
        }
        token => Ok(token.to_owned()),
    }
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// See [`read_text`].
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    read(path, most).map_err(|why| ReadError { path: path.to_owned(), why })
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let mut options = OpenOptions::new();
    // A pipe is opened even if nothing writes into it, instead of waiting for that.
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let mut file = options.open(path).map_err(|error| describe(&error))?;
    let kind = file.metadata().map_err(|error| describe(&error))?;
    let (file_type, len) = (kind.file_type(), kind.len());
    if file_type.is_dir() {
        return Err("it is a directory; name a file in it".to_owned());
    }
    if file_type.is_fifo() || file_type.is_char_device() {
        let what = if file_type.is_fifo() { PIPE } else { "a device" };
        return read_stream(&mut file, most, what);
    }
    if !file_type.is_file() {
        return Err("it is no file".to_owned());
    }
    if len > most {
        return Err(format!("it is {} long; {}", size(len), too_large(most)));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| describe(&error))?;
    match bytes.len() as u64 > most {
        true => Err(too_large(most)),
        false => Ok(bytes),
    }
}

/// Reads what has no length: a pipe, /dev/null, a terminal.
fn read_stream(file: &mut File, most: u64, what: &str) -> Result<Vec<u8>, String> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let patience = Timespec { tv_sec: PIPE_PATIENCE.as_secs() as i64, tv_nsec: 0 };
    loop {
        match file.read(&mut buffer) {
            Ok(0) if bytes.is_empty() && what == PIPE => {
                return Err(format!("it is {what} that nothing is written into"));
            }
            Ok(0) => return Ok(bytes),
            Ok(len) => bytes.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let mut wait = [PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)];
                if let Ok(0) = poll(&mut wait, Some(&patience)) {
                    let seconds = PIPE_PATIENCE.as_secs();
                    return Err(format!("it is {what}, and nothing came from it for {seconds} s"));
                }
            }
            Err(error) => return Err(describe(&error)),
        }
        if bytes.len() as u64 > most {
            return Err(format!("it is {what} that goes on; {}", too_large(most)));
        }
    }
}

fn too_large(most: u64) -> String {
    format!("a file of this kind has at most {}", size(most))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// As the system says it, without its number where the words say all.
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

    fn why(path: &Path, most: u64) -> String {
        read_text(path, most).unwrap_err().why
    }

    #[test]
    fn files_are_read_within_bounds_and_others_refused_with_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read_text(&path, 3).unwrap(), "abc");
        assert_eq!(why(&path, 2), "it is 3 bytes long; a file of this kind has at most 2 bytes");
        fs::write(&path, b"a\nb\n\xff").unwrap();
        assert_eq!(why(&path, 100), "line 3 is not text in UTF-8");
        // Without blocks on the disk: nothing of it is read.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(why(&path, TEXT_MAX), "it is 1048576 MiB long; a file of this kind has at most 64 MiB");
        assert_eq!(why(folder.path(), 9), "it is a directory; name a file in it");
        assert_eq!(
            why(Path::new("/dev/zero"), 9),
            "it is a device that goes on; a file of this kind has at most 9 bytes"
        );
        assert_eq!(read_text(Path::new("/dev/null"), 9).unwrap(), "");
        assert_eq!(why(&folder.path().join("none"), 9), "No such file or directory");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(read_text(&socket, 9).is_err());
    }

    #[test]
    fn a_pipe_is_read_when_something_writes_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(why(&path, 9), "it is a pipe (FIFO) that nothing is written into");
        let (reader, mut writer) = io::pipe().unwrap();
        let open = PathBuf::from(format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
        let writing = std::thread::spawn(move || io::Write::write_all(&mut writer, &[b'x'; 100_000]));
        assert_eq!(read_text(&open, 100_000).unwrap().len(), 100_000);
        writing.join().unwrap().unwrap();
    }
}
