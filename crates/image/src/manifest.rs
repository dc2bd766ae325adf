//! The documents of an image: configuration, manifest and index of the OCI image format, and the
//! list that `docker load` reads.

use crate::files::{BINARY_PATH, HOME, USER_ID};
use crate::layer::{Blob, Layer};
use crate::reference::Reference;
use serde::Serialize;
use std::collections::BTreeMap;

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const SECOND_NS: u64 = 1_000_000_000;

/// A reference to a blob.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: &'static str,
    digest: String,
    size: u64,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Platform>,
}

impl Descriptor {
    fn new(media_type: &'static str, blob: &Blob) -> Descriptor {
        let (digest, size) = (blob.digest.clone(), blob.bytes.len() as u64);
        Descriptor { media_type, digest, size, annotations: BTreeMap::new(), platform: None }
    }
}

#[derive(Serialize)]
struct Platform {
    architecture: &'static str,
    os: &'static str,
}

#[derive(Serialize)]
struct Config {
    created: String,
    architecture: &'static str,
    os: &'static str,
    config: Execution,
    rootfs: RootFs,
    history: Vec<History>,
}

/// How a container is started.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Execution {
    user: String,
    env: Vec<String>,
    entrypoint: [&'static str; 1],
    cmd: [&'static str; 1],
    working_dir: &'static str,
    exposed_ports: BTreeMap<&'static str, Empty>,
    stop_signal: &'static str,
    labels: BTreeMap<String, String>,
    healthcheck: HealthCheck,
}

#[derive(Serialize)]
struct Empty {}

/// Docker's extension of the configuration; other engines ignore it.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HealthCheck {
    test: [&'static str; 3],
    interval: u64,
    timeout: u64,
    start_period: u64,
    retries: u32,
}

#[derive(Serialize)]
struct RootFs {
    r#type: &'static str,
    diff_ids: Vec<String>,
}

#[derive(Serialize)]
struct History {
    created: String,
    created_by: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u32,
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index {
    schema_version: u32,
    media_type: &'static str,
    manifests: [Descriptor; 1],
}

/// The list in an archive for `docker load`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct LoadItem {
    config: String,
    repo_tags: [String; 1],
    layers: Vec<String>,
}

/// An image without its layers.
pub struct Documents {
    pub config: Blob,
    pub manifest: Blob,
    /// Content of `index.json`.
    pub index: Vec<u8>,
    /// Content of `manifest.json`, which `docker load` reads.
    pub load_list: Vec<u8>,
}

/// Content of the file `oci-layout`.
pub const LAYOUT: &str = "{\"imageLayoutVersion\":\"1.0.0\"}";

/// Describes an image of these layers, lowest first.
pub fn describe(
    architecture: &'static str,
    layers: &[Layer],
    reference: &Reference,
    labels: &BTreeMap<String, String>,
    created_s: u64,
) -> Documents {
    let created = rfc3339(created_s);
    let steps = ["nw image build (libraries)", "nw image build (nw)"];
    let history = steps.map(|created_by| History { created: created.clone(), created_by });
    let config = Blob::new(json(&Config {
        created,
        architecture,
        os: "linux",
        config: execution(labels.clone()),
        rootfs: RootFs {
            r#type: "layers",
            diff_ids: layers.iter().map(|layer| layer.diff_id.clone()).collect(),
        },
        history: history.into(),
    }));
    let manifest = Blob::new(json(&Manifest {
        schema_version: 2,
        media_type: MANIFEST_TYPE,
        config: Descriptor::new(CONFIG_TYPE, &config),
        layers: layers.iter().map(|layer| Descriptor::new(LAYER_TYPE, &layer.blob)).collect(),
    }));
    let annotations = BTreeMap::from([
        ("io.containerd.image.name", reference.qualified()),
        ("org.opencontainers.image.ref.name", reference.tag().to_owned()),
    ]);
    let platform = Some(Platform { architecture, os: "linux" });
    let descriptor =
        Descriptor { annotations, platform, ..Descriptor::new(MANIFEST_TYPE, &manifest) };
    let index = json(&Index { schema_version: 2, media_type: INDEX_TYPE, manifests: [descriptor] });
    let load_list = json(&[LoadItem {
        config: config.path(),
        repo_tags: [reference.to_string()],
        layers: layers.iter().map(|layer| layer.blob.path()).collect(),
    }]);
    Documents { config, manifest, index, load_list }
}

fn execution(labels: BTreeMap<String, String>) -> Execution {
    Execution {
        user: format!("{USER_ID}:{USER_ID}"),
        env: vec!["PATH=/usr/bin".to_owned(), format!("HOME={HOME}")],
        entrypoint: [BINARY_PATH],
        cmd: ["run"],
        working_dir: HOME,
        exposed_ports: BTreeMap::from([("6363/tcp", Empty {}), ("6363/udp", Empty {})]),
        stop_signal: "SIGTERM",
        labels,
        healthcheck: HealthCheck {
            test: ["CMD", BINARY_PATH, "status"],
            interval: 10 * SECOND_NS,
            timeout: 5 * SECOND_NS,
            start_period: 2 * SECOND_NS,
            retries: 3,
        },
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers are JSON")
}

/// Returns a time in seconds since 1970 as `2026-11-27T00:00:00Z`. Years have at least four digits.
fn rfc3339(time_s: u64) -> String {
    let (days, second) = (time_s / 86_400, time_s % 86_400);
    // Days are counted from 1 March 0000 in cycles of 400 years, so that leap days come last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        for (time_s, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_737_600, "2026-11-27T00:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(time_s), text);
        }
    }
}
