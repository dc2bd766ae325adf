//! Packages of the example networks: exported, read back, and changed.

use nw_manage::Document;
use nw_tosca::{ToscaError, export, import};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

fn examples() -> Vec<Document> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "graph"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        Document::read(name, "a.graph", &text).unwrap()
    };
    let found: Vec<_> = paths.iter().map(read).collect();
    assert!(!found.is_empty());
    found
}

fn files(package: &[u8]) -> Vec<(String, String)> {
    let mut archive = ZipArchive::new(Cursor::new(package)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut file = archive.by_index(index).unwrap();
            let mut text = String::new();
            file.read_to_string(&mut text).unwrap();
            (file.name().unwrap().into_owned(), text)
        })
        .collect()
}

fn pack(files: &[(String, String)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, text) in files {
        archive.start_file(path.as_str(), SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn document_survives_export_and_import() {
    for document in examples() {
        let package = export(&document).unwrap();
        assert!(package == export(&document).unwrap(), "the same document gives the same bytes");
        let read = import(&package).unwrap();
        assert_eq!((read.name, read.text), (document.name, document.text));
    }
}

#[test]
fn each_changed_line_is_refused_with_its_place() {
    let document = examples().remove(0);
    let original = files(&export(&document).unwrap());
    for file in 0..original.len() {
        if original[file].0.ends_with(".graph") {
            continue;
        }
        let lines = original[file].1.lines().count();
        for line in (0..lines).step_by(7) {
            let mut changed = original.clone();
            let text = original[file].1.lines().enumerate();
            let text = text.map(|(at, text)| if at == line { "changed" } else { text });
            changed[file].1 = text.map(|line| format!("{line}\n")).collect();
            match import(&pack(&changed)) {
                Err(ToscaError::Differs { file: name, line: found, .. }) => {
                    assert_eq!((name, found), (original[file].0.clone(), line + 1));
                }
                other => panic!("{other:?}"),
            }
        }
        let mut without = original.clone();
        let (removed, _) = without.remove(file);
        assert_eq!(import(&pack(&without)).unwrap_err(), ToscaError::Missing(removed));
    }
    let mut more = original.clone();
    more.push(("Scripts/run.sh".to_owned(), "rm -r /".to_owned()));
    assert!(matches!(import(&pack(&more)), Err(ToscaError::Surplus(_))));
    let mut wrong = original;
    let document = wrong.iter_mut().find(|(path, _)| path.ends_with(".graph")).unwrap();
    document.1.push_str("cs = no_such_element\n");
    assert!(matches!(import(&pack(&wrong)), Err(ToscaError::Document(_))));
}

#[test]
fn packages_of_others_and_damaged_ones_are_refused() {
    let package = export(&examples()[0]).unwrap();
    assert!(matches!(import(b"PK"), Err(ToscaError::Archive(_))));
    assert!(matches!(import(&package[..package.len() / 2]), Err(ToscaError::Archive(_))));
    let foreign = pack(&[("Definitions/a.yaml".to_owned(), "a: b\n".to_owned())]);
    assert_eq!(import(&foreign).unwrap_err(), ToscaError::Foreign);
    // A file of 32 MiB of zeros, which takes little room in the archive.
    let bomb = pack(&[("Files/a.graph".to_owned(), "\0".repeat(32 << 20))]);
    assert!(matches!(import(&bomb), Err(ToscaError::Archive(_))));
    for at in (0..package.len()).step_by(11) {
        let mut changed = package.clone();
        changed[at] ^= 0x55;
        // Some bytes, as those of times, do not matter; none makes it panic.
        let _ = import(&changed);
    }
}
