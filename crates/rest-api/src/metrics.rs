//! `/metrics`: Prometheus text format, version 0.0.4. [`METRICS`] is the only list of metrics and
//! their names.

use crate::State;
use crate::api_error::ApiError;
use crate::dataset::LIST_MAX;
use axum::extract::State as Shared;
use axum::http::header;
use axum::response::IntoResponse;
use core::fmt::Display;
use nw_api::counters::{METRICS, Metric, MetricKind, is_done};
use nw_api::exposition::{CONTENT_TYPE, Exposition};
use nw_api::management::{DropCount, FaceStatus};
use nw_api::rest::RouterStatus;

/// Values from which the metrics are computed.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Status and counters of the router.
    pub status: RouterStatus,
    /// All packet counters by reason, including zeros: a series that first appears with a packet
    /// has no rate.
    pub drops: Vec<DropCount>,
    /// Faces, if metrics per face are enabled.
    pub faces: Vec<FaceStatus>,
}

/// Show all metrics
#[utoipa::path(
    get, path = "/metrics", tag = "metrics", operation_id = "show_metrics",
    responses((status = 200, content_type = "text/plain", body = String, description = "Prometheus' text format"))
)]
pub async fn show(Shared(state): Shared<State>) -> Result<impl IntoResponse, ApiError> {
    let snapshot = Snapshot {
        status: state.router.status().await?,
        drops: state.router.drops(true).await?,
        faces: match state.face_metrics {
            true => state.router.faces(None, LIST_MAX).await?,
            false => Vec::new(),
        },
    };
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], encode(&snapshot)))
}

/// Encodes every metric of the list.
pub fn encode(snapshot: &Snapshot) -> String {
    let mut text = Text {
        out: Exposition::with_capacity(4096 + 512 * snapshot.faces.len()),
        metric: &METRICS[0],
    };
    for metric in METRICS {
        text.metric = metric;
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        text.out.family(metric.name, kind, metric.help);
        write_samples(snapshot, &mut text);
    }
    text.out.finish()
}

/// Writes the samples of the current metric.
fn write_samples(snapshot: &Snapshot, text: &mut Text) {
    let forwarder = &snapshot.status.forwarder;
    match text.metric.name {
        "nw_face_packets_total" => {
            for face in &snapshot.faces {
                let counts = [
                    ("in", [face.in_interests, face.in_data, face.in_nacks]),
                    ("out", [face.out_interests, face.out_data, face.out_nacks]),
                ];
                for (direction, counts) in counts {
                    for (kind, count) in KINDS.iter().zip(counts) {
                        text.sample(&[&face.face_id, &face.uri, &direction, kind], count);
                    }
                }
            }
        }
        "nw_face_bytes_total" => {
            for face in &snapshot.faces {
                text.sample(&[&face.face_id, &face.uri, &"in"], face.in_bytes);
                text.sample(&[&face.face_id, &face.uri, &"out"], face.out_bytes);
            }
        }
        "nw_face_held_interests" => text.face_samples(snapshot, |face| face.held_interests),
        "nw_face_shaping_rate_bytes" => text.face_samples(snapshot, |face| face.shaping_rate_bytes),
        "nw_face_refused_interests_total" => {
            text.face_samples(snapshot, |face| face.refused_interests);
        }
        "nw_face_shaping_marks_total" => text.face_samples(snapshot, |face| face.shaping_marks),
        "nw_packets_total" => {
            let counts = [
                ("in", [forwarder.in_interests, forwarder.in_data, forwarder.in_nacks]),
                ("out", [forwarder.out_interests, forwarder.out_data, forwarder.out_nacks]),
            ];
            for (direction, counts) in counts {
                for (kind, count) in KINDS.iter().zip(counts) {
                    text.sample(&[&direction, kind], count);
                }
            }
        }
        _ => write_router_samples(snapshot, text),
    }
}

/// Writes the samples of all metrics other than packets by kind and counters per face.
fn write_router_samples(snapshot: &Snapshot, text: &mut Text) {
    let (status, forwarder) = (&snapshot.status, &snapshot.status.forwarder);
    let (cs, time) = (&status.content_store, &status.loop_time);
    match text.metric.name {
        "nw_bytes_total" => {
            text.sample(&[&"in"], status.in_bytes);
            text.sample(&[&"out"], status.out_bytes);
        }
        "nw_drops_total" => {
            for drop in snapshot.drops.iter().filter(|drop| !is_done(&drop.reason)) {
                text.sample(&[&drop.reason], drop.count);
            }
        }
        "nw_packets_done_total" => {
            for done in snapshot.drops.iter().filter(|drop| is_done(&drop.reason)) {
                text.sample(&[&done.reason], done.count);
            }
        }
        "nw_build_info" => text.sample(&[&env!("CARGO_PKG_VERSION")], 1),
        "nw_pool_shortages_total" => {
            for shortage in &status.shortages {
                text.sample(&[&shortage.pool], shortage.count);
            }
        }
        // The dataset includes content store hits, which were never pending.
        "nw_interests_satisfied_total" => {
            text.sample(&[], forwarder.satisfied_interests.saturating_sub(cs.hits));
        }
        "nw_interests_unsatisfied_total" => text.sample(&[], forwarder.unsatisfied_interests),
        "nw_content_store_hits_total" => text.sample(&[], cs.hits),
        "nw_content_store_misses_total" => text.sample(&[], cs.misses),
        "nw_content_store_packets" => text.sample(&[], cs.entries),
        "nw_content_store_capacity_packets" => text.sample(&[], cs.capacity),
        "nw_content_store_bytes" => text.sample(&[], status.content_store_bytes),
        "nw_pit_entries" => text.sample(&[], forwarder.pit_entries),
        "nw_fib_entries" => text.sample(&[], forwarder.fib_entries),
        "nw_faces" => text.sample(&[], status.face_count),
        "nw_packets_in_use" => text.sample(&[], status.packets_in_use),
        "nw_loop_turns_total" => text.sample(&[], time.turns),
        "nw_loop_slow_turns_total" => text.sample(&[], time.slow_turns),
        "nw_loop_busy_seconds_total" => text.sample(&[], Seconds(time.busy_ns)),
        "nw_loop_longest_turn_seconds" => text.sample(&[], Seconds(time.longest_ns)),
        "nw_shard_packets_total" => {
            status.shards.iter().for_each(|shard| text.sample(&[&shard.shard], shard.packets));
        }
        "nw_shard_handed_over_total" => {
            status.shards.iter().for_each(|shard| text.sample(&[&shard.shard], shard.handed_over));
        }
        "nw_shard_busy_seconds_total" => {
            status
                .shards
                .iter()
                .for_each(|shard| text.sample(&[&shard.shard], Seconds(shard.busy_ns)));
        }
        "nw_start_time_seconds" => {
            text.sample(&[], Seconds(forwarder.start_timestamp.saturating_mul(1_000_000)))
        }
        name => debug_assert!(false, "the metric {name} has no value"),
    }
}

const KINDS: [&str; 3] = ["interest", "data", "nack"];

/// Nanoseconds, formatted as seconds without loss.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

struct Text {
    out: Exposition,
    metric: &'static Metric,
}

impl Text {
    /// Writes one line. `labels` are the values of the metric's labels, in their order.
    fn sample(&mut self, labels: &[&dyn Display], value: impl Display) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        let labels: Vec<(&str, &dyn Display)> =
            self.metric.labels.iter().copied().zip(labels.iter().copied()).collect();
        self.out.sample(self.metric.name, &labels, value);
    }

    /// Writes a line for each face that has the value.
    fn face_samples(&mut self, snapshot: &Snapshot, value: impl Fn(&FaceStatus) -> Option<u64>) {
        for face in &snapshot.faces {
            if let Some(value) = value(face) {
                self.sample(&[&face.face_id, &face.uri], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::counters::drop_reasons;
    use nw_api::management::{FaceScope, ShardStatus};
    use nw_api::rest::PoolShortage;
    use std::collections::BTreeSet;

    fn snapshot() -> Snapshot {
        let mut face = FaceStatus::new(256, "unix:///tmp/\"odd\\\n", "fd://3", FaceScope::Local);
        face.out_data = 7;
        (face.held_interests, face.shaping_rate_bytes) = (Some(12), Some(1_250_000));
        (face.refused_interests, face.shaping_marks) = (Some(3), Some(4));
        let mut status = RouterStatus::default();
        status.forwarder.satisfied_interests = 10;
        status.content_store.hits = 4;
        status.loop_time.busy_ns = 1_000_000_005;
        let shard = |shard, packets| ShardStatus { shard, packets, ..ShardStatus::default() };
        status.shards = vec![shard(0, 5), shard(1, 6)];
        status.shortages = vec![PoolShortage { pool: "pending_interests".into(), count: 3 }];
        let drops =
            drop_reasons().into_iter().map(|reason| DropCount { reason: reason.name, count: 1 });
        Snapshot { status, drops: drops.collect(), faces: vec![face] }
    }

    #[test]
    fn metrics_each_has_value_and_labels() {
        let text = encode(&snapshot());
        for metric in METRICS {
            let lines: Vec<&str> = text
                .lines()
                .filter(|line| line.split(['{', ' ']).next() == Some(metric.name))
                .collect();
            assert!(!lines.is_empty(), "{}", metric.name);
            for label in metric.labels {
                assert!(
                    lines.iter().all(|line| line.contains(&format!("{label}=\""))),
                    "{}",
                    metric.name
                );
            }
            assert!(text.contains(&format!("# TYPE {} ", metric.name)));
        }
        assert!(text.contains("nw_interests_satisfied_total 6\n"), "without content store hits");
        assert!(text.contains("nw_packets_done_total{reason=\"cache_hit\"} 1\n"));
        assert!(text.contains("nw_drops_total{reason=\"no_route\"} 1\n"));
        assert!(
            !text.contains("nw_drops_total{reason=\"cache_hit\"}"),
            "a cache hit is not a drop"
        );
        assert!(text.contains("nw_loop_busy_seconds_total 1.000000005\n"));
        assert!(text.contains("nw_shard_packets_total{shard=\"1\"} 6\n"));
        assert!(text.contains(
            "nw_face_packets_total{face=\"256\",uri=\"unix:///tmp/\\\"odd\\\\\\n\",direction=\"out\",kind=\"data\"} 7\n"
        ));
    }

    #[test]
    fn metrics_series_are_unique_and_faces_optional() {
        let text = encode(&snapshot());
        let series: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.rsplit_once(' '))
            .map(|(series, _)| series)
            .collect();
        assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len());
        let without = encode(&Snapshot { faces: Vec::new(), ..snapshot() });
        assert!(!without.contains("face=\""));
        assert!(without.contains("nw_packets_total{direction=\"in\",kind=\"interest\"} 0\n"));
    }

    /// Every query of the dashboard uses existing metrics and labels.
    #[test]
    fn dashboard_queries_use_existing_metrics_and_labels() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/grafana/namewire.json");
        let dashboard: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).expect("the dashboard"))
                .expect("JSON");
        let mut queries = Vec::new();
        collect(&dashboard, &mut queries);
        assert!(queries.len() >= 15, "{} queries", queries.len());
        let mut used = BTreeSet::new();
        for query in &queries {
            let tokens = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names: Vec<&str> = tokens.filter(|token| token.starts_with("nw_")).collect();
            assert!(!names.is_empty(), "{query} uses no metric of the router");
            for name in names {
                let metric = METRICS.iter().find(|metric| metric.name == name);
                let metric = metric.unwrap_or_else(|| panic!("{query}: there is no {name}"));
                for selector in query.match_indices(name).filter_map(|(start, _)| {
                    query[start + name.len()..]
                        .strip_prefix('{')?
                        .split_once('}')
                        .map(|(inner, _)| inner)
                }) {
                    for label in
                        selector.split(',').filter_map(|part| part.split(['=', '!']).next())
                    {
                        let exists =
                            ["instance", "job"].contains(&label) || metric.labels.contains(&label);
                        assert!(exists, "{query}: {name} has no label {label}");
                    }
                }
                used.insert(name);
            }
        }
        let all: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(used, all, "the dashboard shows every metric");
    }

    fn collect(value: &serde_json::Value, queries: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| match value {
                serde_json::Value::String(query) if key == "expr" => queries.push(query.clone()),
                value => collect(value, queries),
            }),
            serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, queries)),
            _ => {}
        }
    }
}
