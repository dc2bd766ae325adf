//! What an image needs to know of an executable: its machine, its loader, the shared libraries it
//! names, and how many of its bytes are loaded.
//!
//! Only program headers are read, as the system's loader does. All offsets come from the file and
//! are checked against its length.

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, StringTable};

/// Bytes of the file header, which is always kept.
const HEADER_BYTES: u64 = size_of::<FileHeader64<Endianness>>() as u64;

/// Fault of an executable, as part of a sentence that begins with its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfFault {
    /// The file does not begin as a 64-bit executable does.
    #[error("is not a 64-bit ELF file")]
    NotElf,
    /// A header points outside of the file.
    #[error("is damaged: a header points outside of the file")]
    Damaged,
    /// The machine has no name in the registry of images.
    #[error("is for machine number {0}; images are made for x86-64, aarch64, riscv64 and ppc64le")]
    Machine(u16),
}

/// An executable or a shared library.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the machine as images use it (GOARCH), such as `amd64`.
    pub architecture: &'static str,
    /// Path of the dynamic loader; `None` for a static executable and for a library.
    pub interpreter: Option<String>,
    /// File names of the shared libraries that the loader must find.
    pub libraries: Vec<String>,
    /// Bytes from the start of the file that hold everything that is loaded.
    loaded_bytes: usize,
}

impl Program {
    /// Reads the program headers of `file`.
    pub fn parse(file: &[u8]) -> Result<Program, ElfFault> {
        let header = FileHeader64::<Endianness>::parse(file).map_err(|_| ElfFault::NotElf)?;
        let endian = header.endian().map_err(|_| ElfFault::NotElf)?;
        let architecture = architecture(header.e_machine(endian))?;
        let segments = header.program_headers(endian, file).map_err(|_| ElfFault::Damaged)?;
        let mut program =
            Program { architecture, interpreter: None, libraries: Vec::new(), loaded_bytes: 0 };
        let table = u64::from(header.e_phentsize(endian)) * segments.len() as u64;
        let mut loaded = header.e_phoff(endian).saturating_add(table).max(HEADER_BYTES);
        for segment in segments {
            let (offset, size) = segment.file_range(endian);
            loaded = loaded.max(offset.checked_add(size).ok_or(ElfFault::Damaged)?);
            let interpreter =
                segment.interpreter(endian, file).map_err(|_| ElfFault::Damaged)?.map(text);
            program.interpreter = interpreter.transpose()?.or(program.interpreter);
            if let Some(entries) = segment.dynamic(endian, file).map_err(|_| ElfFault::Damaged)? {
                program.libraries = libraries(file, endian, segments, entries)?;
            }
        }
        program.loaded_bytes = usize::try_from(loaded).map_err(|_| ElfFault::Damaged)?;
        if program.loaded_bytes > file.len() {
            return Err(ElfFault::Damaged);
        }
        Ok(program)
    }

    /// Returns `file` without symbols, line tables and section headers: the parts that the loader
    /// reads, byte for byte. `file` is the one that was parsed.
    pub fn strip(&self, file: &[u8]) -> Vec<u8> {
        let mut stripped = file[..self.loaded_bytes].to_vec();
        // e_shoff, then e_shentsize, e_shnum and e_shstrndx: there are no section headers.
        stripped[0x28..0x30].fill(0);
        stripped[0x3a..0x40].fill(0);
        stripped
    }
}

fn architecture(machine: u16) -> Result<&'static str, ElfFault> {
    match machine {
        elf::EM_X86_64 => Ok("amd64"),
        elf::EM_AARCH64 => Ok("arm64"),
        elf::EM_RISCV => Ok("riscv64"),
        elf::EM_PPC64 => Ok("ppc64le"),
        other => Err(ElfFault::Machine(other)),
    }
}

fn text(bytes: &[u8]) -> Result<String, ElfFault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ElfFault::Damaged)
}

/// Returns the names in DT_NEEDED entries, in the order of the file.
fn libraries<H: ProgramHeader<Endian = Endianness>>(
    file: &[u8],
    endian: Endianness,
    segments: &[H],
    entries: &[<H::Elf as FileHeader>::Dyn],
) -> Result<Vec<String>, ElfFault>
where
    H::Elf: FileHeader<Endian = Endianness>,
{
    let value = |tag: u32| {
        let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(tag as _));
        entry.map(|entry| entry.val(endian))
    };
    let needed = entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED as _));
    let needed: Vec<_> = needed.collect();
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let (address, size) =
        value(elf::DT_STRTAB as _).zip(value(elf::DT_STRSZ as _)).ok_or(ElfFault::Damaged)?;
    let start = file_offset(endian, segments, address).ok_or(ElfFault::Damaged)?;
    let end = start.checked_add(size).ok_or(ElfFault::Damaged)?;
    let strings = StringTable::new(file, start, end);
    let name = |entry: &&<H::Elf as FileHeader>::Dyn| {
        let offset = u32::try_from(entry.val(endian)).map_err(|_| ElfFault::Damaged)?;
        text(strings.get(offset).map_err(|()| ElfFault::Damaged)?)
    };
    needed.iter().map(name).collect()
}

/// Returns where the byte at `address` of the running program is in the file.
fn file_offset<H: ProgramHeader>(endian: H::Endian, segments: &[H], address: u64) -> Option<u64> {
    segments.iter().filter(|s| s.p_type(endian) == elf::PT_LOAD).find_map(|segment| {
        let into = address.checked_sub(segment.p_vaddr(endian).into())?;
        let (offset, size) = segment.file_range(endian);
        (into < size).then(|| offset.checked_add(into))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").expect("the test's own executable")
    }

    #[test]
    fn own_executable_has_loader_and_c_library() {
        let program = Program::parse(&own()).unwrap();
        assert!(program.interpreter.unwrap().contains("/ld-"));
        assert!(program.libraries.iter().any(|name| name.starts_with("libc.so")));
    }

    #[test]
    fn stripped_executable_is_shorter_and_reads_the_same() {
        let file = own();
        let program = Program::parse(&file).unwrap();
        let stripped = program.strip(&file);
        assert!(stripped.len() < file.len());
        assert_eq!(Program::parse(&stripped).unwrap(), program);
        assert_eq!(program.strip(&stripped), stripped);
    }

    #[test]
    fn stripped_executable_runs() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let stripped = Program::parse(&file).unwrap().strip(&file);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stripped");
        std::fs::write(&path, stripped).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        std::fs::set_permissions(&path, permissions).unwrap();
        let output = std::process::Command::new(&path).arg("--list").output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("stripped_executable_runs"));
    }

    #[test]
    fn cut_or_foreign_file_is_refused() {
        assert_eq!(Program::parse(b"#!/bin/sh\n").unwrap_err(), ElfFault::NotElf);
        assert_eq!(Program::parse(&[]).unwrap_err(), ElfFault::NotElf);
        let file = own();
        assert_eq!(Program::parse(&file[..file.len() / 8]).unwrap_err(), ElfFault::Damaged);
        let mut machine = file[..4096].to_vec();
        machine[18..20].copy_from_slice(&40_u16.to_le_bytes());
        assert_eq!(Program::parse(&machine).unwrap_err(), ElfFault::Machine(40));
    }

    #[test]
    fn changed_bytes_of_headers_never_panic() {
        let mut file = own();
        file.truncate(1 << 16);
        for at in 0..1024 {
            for value in [0, 1, 0x7f, 0xff] {
                let before = std::mem::replace(&mut file[at], value);
                if let Ok(program) = Program::parse(&file) {
                    let _ = program.strip(&file);
                }
                file[at] = before;
            }
        }
    }
}
