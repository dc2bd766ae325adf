//! The files of an image: what is in it, where, with which owner.
//!
//! An image has two layers. The lower one has the loader, the libraries and the accounts and
//! changes with the distribution; the upper one has `nw` and changes with each build.

use crate::ImageError;
use crate::elf::Program;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// User and group of the processes in an image.
pub const USER_ID: u32 = 65_532;
/// Where the image has the binary.
pub const BINARY_PATH: &str = "/usr/bin/nw";
/// Home of the user: keys are below it.
pub const HOME: &str = "/var/lib/namewire";
/// Libraries of an executable, at most. `nw` needs four.
const LIBRARIES_MAX: usize = 64;
/// Bytes of one file, at most.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A file or directory of an image.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    Directory { mode: u32, owner: u32 },
    File { mode: u32, bytes: Vec<u8> },
}

/// Entries of a layer by their path without the leading slash.
pub type Files = BTreeMap<String, Entry>;

/// The files of an image, and the machine that they are for.
pub struct Contents {
    pub architecture: &'static str,
    /// Lowest layer first.
    pub layers: [Files; 2],
}

/// Reads the binary and the libraries that it needs.
pub fn collect(binary: &Path, sysroot: &Path) -> Result<Contents, ImageError> {
    let file = read(binary)?;
    let program = parse(binary, &file)?;
    let mut system = accounts();
    let mut wanted: VecDeque<String> = program.libraries.iter().cloned().collect();
    if let Some(interpreter) = &program.interpreter {
        let bytes = read(&below(sysroot, interpreter))?;
        insert(&mut system, interpreter, Entry::File { mode: 0o755, bytes });
    }
    let folders = library_folders(program.architecture);
    let mut found = Vec::new();
    while let Some(name) = wanted.pop_front() {
        let is_loader = |path: &String| path.ends_with(&format!("/{name}"));
        if found.contains(&name) || program.interpreter.as_ref().is_some_and(is_loader) {
            continue;
        }
        if found.len() == LIBRARIES_MAX {
            return Err(ImageError::LibrariesMax { path: binary.into(), max: LIBRARIES_MAX });
        }
        let (path, bytes, library) = find(&name, &folders, sysroot, program.architecture)
            .ok_or_else(|| ImageError::NoLibrary {
                path: binary.into(),
                name: name.clone(),
                folders: folders.join(", "),
            })?;
        wanted.extend(library.libraries);
        insert(&mut system, &path, Entry::File { mode: 0o755, bytes });
        found.push(name);
    }
    let mut own = Files::new();
    let bytes = program.strip(&file);
    insert(&mut own, BINARY_PATH, Entry::File { mode: 0o755, bytes });
    Ok(Contents { architecture: program.architecture, layers: [system, own] })
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    let unreadable = |source| ImageError::Unreadable { path: path.into(), source };
    let bytes = fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ImageError::FileMax { path: path.into(), bytes, max: FILE_BYTES_MAX });
    }
    fs::read(path).map_err(unreadable)
}

fn parse(path: &Path, file: &[u8]) -> Result<Program, ImageError> {
    Program::parse(file).map_err(|fault| ImageError::Elf { path: path.into(), fault })
}

/// Returns `path`, which begins with a slash, below the folder that stands for `/`.
fn below(sysroot: &Path, path: &str) -> PathBuf {
    sysroot.join(path.trim_start_matches('/'))
}

/// Returns the folders in which a loader looks without configuration: those of Debian, then those
/// of distributions with `lib64`.
fn library_folders(architecture: &str) -> Vec<String> {
    let triple = match architecture {
        "amd64" => "x86_64-linux-gnu",
        "arm64" => "aarch64-linux-gnu",
        "riscv64" => "riscv64-linux-gnu",
        _ => "powerpc64le-linux-gnu",
    };
    let ours = ["/lib", "/usr/lib"].map(|folder| format!("{folder}/{triple}"));
    let all = ["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(str::to_owned);
    ours.into_iter().chain(all).collect()
}

/// Returns the path in the image and the bytes of the library `name` for this machine.
fn find(
    name: &str,
    folders: &[String],
    sysroot: &Path,
    architecture: &str,
) -> Option<(String, Vec<u8>, Program)> {
    if name.contains('/') {
        return None;
    }
    folders.iter().map(|folder| format!("{folder}/{name}")).find_map(|path| {
        let bytes = read(&below(sysroot, &path)).ok()?;
        let library = Program::parse(&bytes).ok()?;
        (library.architecture == architecture).then_some((path, bytes, library))
    })
}

/// Adds an entry and the directories above it.
fn insert(files: &mut Files, path: &str, entry: Entry) {
    let path = path.trim_start_matches('/');
    for (at, _) in path.match_indices('/') {
        let directory = Entry::Directory { mode: 0o755, owner: 0 };
        files.entry(path[..at].to_owned()).or_insert(directory);
    }
    files.insert(path.to_owned(), entry);
}

/// Returns the files that every image has: accounts, name lookups, and the folders in which the
/// user may write.
fn accounts() -> Files {
    let mut files = Files::new();
    let passwd = format!(
        "root:x:0:0:root:/:/usr/sbin/nologin\n\
         namewire:x:{USER_ID}:{USER_ID}:Namewire:{HOME}:/usr/sbin/nologin\n"
    );
    let texts = [
        ("/etc/passwd", passwd),
        ("/etc/group", format!("root:x:0:\nnamewire:x:{USER_ID}:\n")),
        ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".to_owned()),
    ];
    for (path, text) in texts {
        insert(&mut files, path, Entry::File { mode: 0o644, bytes: text.into_bytes() });
    }
    for path in [HOME, "/run/nfd"] {
        insert(&mut files, path, Entry::Directory { mode: 0o755, owner: USER_ID });
    }
    insert(&mut files, "/tmp", Entry::Directory { mode: 0o1777, owner: 0 });
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_executable_is_collected_with_its_libraries() {
        let contents = collect(Path::new("/proc/self/exe"), Path::new("/")).unwrap();
        let [system, own] = &contents.layers;
        assert!(system.keys().any(|path| path.ends_with("/libc.so.6")), "{:?}", system.keys());
        assert!(system.keys().any(|path| path.contains("/ld-")), "{:?}", system.keys());
        assert_eq!(own.keys().collect::<Vec<_>>(), ["usr", "usr/bin", "usr/bin/nw"]);
        assert_eq!(system["tmp"], Entry::Directory { mode: 0o1777, owner: 0 });
        assert_eq!(system["run/nfd"], Entry::Directory { mode: 0o755, owner: USER_ID });
    }

    #[test]
    fn missing_library_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let own = fs::read("/proc/self/exe").unwrap();
        let loader = Program::parse(&own).unwrap().interpreter.unwrap();
        let copy = below(folder.path(), &loader);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(&loader, &copy).unwrap();
        let error = collect(Path::new("/proc/self/exe"), folder.path()).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(".so") && text.contains("/lib"), "{text}");
        assert!(matches!(error, ImageError::NoLibrary { .. }), "{text}");
    }
}
