//! Reads images back: digests, sizes and media types of every document, and equal bytes for equal
//! input. The binary of the images is this test's own executable.

use nw_image::{Format, Image, ImageError, build};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

fn image() -> Image {
    Image {
        binary: "/proc/self/exe".into(),
        sysroot: "/".into(),
        reference: "site/namewire:1".parse().unwrap(),
        labels: BTreeMap::from([("org.example.key".to_owned(), "value".to_owned())]),
        created_s: 1_795_737_600,
    }
}

fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Returns the blob that a descriptor names, when digest, size and media type agree.
fn blob(layout: &Path, descriptor: &Value, media_type: &str) -> Vec<u8> {
    assert_eq!(descriptor["mediaType"], media_type);
    let name = descriptor["digest"].as_str().unwrap();
    let bytes = fs::read(layout.join("blobs").join(name.replace(':', "/"))).unwrap();
    assert_eq!(digest(&bytes), name);
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

#[test]
fn layout_names_every_blob_by_digest_size_and_type() {
    let folder = tempfile::tempdir().unwrap();
    let layout = folder.path().join("image");
    let summary = build(&image(), Format::Oci, &layout).unwrap();
    assert_eq!(json(&layout.join("oci-layout"))["imageLayoutVersion"], "1.0.0");
    let index = json(&layout.join("index.json"));
    let descriptor = &index["manifests"][0];
    assert_eq!(descriptor["annotations"]["org.opencontainers.image.ref.name"], "1");
    let name = "docker.io/site/namewire:1";
    assert_eq!(descriptor["annotations"]["io.containerd.image.name"], name);
    assert_eq!(descriptor["digest"], summary.digest.as_str());
    let manifest = blob(&layout, descriptor, "application/vnd.oci.image.manifest.v1+json");
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let config = blob(&layout, &manifest["config"], "application/vnd.oci.image.config.v1+json");
    let config: Value = serde_json::from_slice(&config).unwrap();
    let layers = manifest["layers"].as_array().unwrap();
    let mut compressed = 0;
    for (layer, diff_id) in layers.iter().zip(config["rootfs"]["diff_ids"].as_array().unwrap()) {
        let bytes = blob(&layout, layer, "application/vnd.oci.image.layer.v1.tar+gzip");
        compressed += bytes.len() as u64;
        let mut archive = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut archive).unwrap();
        assert_eq!(digest(&archive), diff_id.as_str().unwrap());
    }
    assert_eq!((layers.len(), compressed), (2, summary.compressed_bytes));
    assert_eq!(config["created"], "2026-11-27T00:00:00Z");
    assert_eq!(config["architecture"], summary.architecture);
    let execution = &config["config"];
    assert_eq!(execution["User"], "65532:65532");
    assert_eq!(execution["Labels"]["org.example.key"], "value");
    assert_eq!(execution["Healthcheck"]["Test"][2], "status");
    assert_eq!(fs::read_dir(layout.join("blobs/sha256")).unwrap().count(), 4);
}

#[test]
fn archive_has_the_layout_and_the_list_for_docker_load() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, file) = (folder.path().join("image"), folder.path().join("image.tar"));
    build(&image(), Format::Oci, &layout).unwrap();
    build(&image(), Format::Docker, &file).unwrap();
    let unpacked = folder.path().join("unpacked");
    tar::Archive::new(fs::File::open(&file).unwrap()).unpack(&unpacked).unwrap();
    let list = json(&unpacked.join("manifest.json"));
    assert_eq!(list[0]["RepoTags"][0], "site/namewire:1");
    let paths = list[0]["Layers"].as_array().unwrap().iter().chain([&list[0]["Config"]]);
    for path in paths {
        let path = path.as_str().unwrap();
        assert_eq!(fs::read(unpacked.join(path)).unwrap(), fs::read(layout.join(path)).unwrap());
    }
    let index = "index.json";
    assert_eq!(fs::read(unpacked.join(index)).unwrap(), fs::read(layout.join(index)).unwrap());
}

#[test]
fn same_input_gives_same_bytes_and_replaces_previous_image() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("image.tar");
    build(&image(), Format::Docker, &file).unwrap();
    let first = fs::read(&file).unwrap();
    build(&image(), Format::Docker, &file).unwrap();
    assert!(first == fs::read(&file).unwrap(), "the second archive differs");
    let later = Image { created_s: image().created_s + 1, ..image() };
    build(&later, Format::Docker, &file).unwrap();
    assert!(first != fs::read(&file).unwrap(), "the time is part of the image");
    let layout = folder.path().join("layout");
    let digests =
        [image(), later, image()].map(|image| build(&image, Format::Oci, &layout).unwrap().digest);
    assert_eq!(digests[0], digests[2]);
    assert_ne!(digests[0], digests[1]);
    assert_eq!(fs::read_dir(layout.join("blobs/sha256")).unwrap().count(), 4);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no staging files are left");
}

#[test]
fn folder_with_other_files_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("letter"), "dear").unwrap();
    let error = build(&image(), Format::Oci, folder.path()).unwrap_err();
    assert!(matches!(error, ImageError::Occupied { .. }), "{error}");
    let error = build(&image(), Format::Docker, folder.path()).unwrap_err();
    assert!(matches!(error, ImageError::Unwritable { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn binary_of_another_kind_is_refused_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let output = folder.path().join("image.tar");
    let wrong = Image { binary: script, ..image() };
    let text = build(&wrong, Format::Docker, &output).unwrap_err().to_string();
    assert!(text.contains("script is not a 64-bit ELF file"), "{text}");
    let missing = Image { binary: folder.path().join("none"), ..image() };
    let text = build(&missing, Format::Docker, &output).unwrap_err().to_string();
    assert!(text.contains("can't read") && text.contains("none"), "{text}");
    assert!(!output.exists());
}
