//! Rates per second from two snapshots of counters.

use super::SortBy;
use crate::output::row;
use crate::status::is_done;
use core::time::Duration;
use nw_api::rest::Look;
use serde::Serialize;
use std::collections::BTreeMap;

/// Rates per second between two snapshots, and current table sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    /// The router's version.
    pub version: String,
    /// Seconds since the router started.
    pub up_s: u64,
    /// Packets received per second, all faces.
    pub in_packets: f64,
    /// Packets sent per second, all faces.
    pub out_packets: f64,
    /// Bytes received per second, all faces.
    pub in_bytes: f64,
    /// Bytes sent per second, all faces.
    pub out_bytes: f64,
    /// Interests answered per second, cache hits included.
    pub satisfied: f64,
    /// Interests that expired unanswered per second.
    pub unsatisfied: f64,
    /// Share of Interests that the content store answered. `None` without Interests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit_ratio: Option<f64>,
    /// Share of one core that the event loop was busy. `None` if the router does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_share: Option<f64>,
    /// Pending Interests.
    pub pit_entries: u64,
    /// Prefixes in the FIB.
    pub fib_entries: u64,
    /// Packets in the content store.
    pub cs_entries: u64,
    /// Maximum packets in the content store.
    pub cs_capacity: u64,
    /// Rates of each face.
    pub faces: Vec<FaceRates>,
    /// Rates of the busiest prefixes; empty if the router does not report them.
    pub prefixes: Vec<PrefixRates>,
    /// Dropped packets by reason.
    pub drops: Vec<DropRate>,
    /// Packets whose work was done, by reason: an Interest answered from the cache, for example, is
    /// not forwarded.
    pub done: Vec<DropRate>,
}

/// Rates of one face, per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FaceRates {
    /// Face id.
    pub face_id: u64,
    /// Remote URI.
    pub uri: String,
    /// Interests, Data, Nacks received.
    pub in_packets: [f64; 3],
    /// Interests, Data, Nacks sent.
    pub out_packets: [f64; 3],
    /// Bytes received.
    pub in_bytes: f64,
    /// Bytes sent.
    pub out_bytes: f64,
    /// Interests that wait for the link; absent while the link is not short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_interests: Option<u64>,
    /// Data that may be requested on the link, bytes per second; absent while it is not short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaping_rate_bytes: Option<u64>,
    /// Interests refused because they would have waited too long.
    pub refused: f64,
    /// Data marked because Interests of their flow waited long.
    pub marked: f64,
}

/// Rates of one prefix, per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PrefixRates {
    /// Name prefix.
    pub prefix: String,
    /// Interests received.
    pub interests: f64,
    /// Data received.
    pub data: f64,
    /// Bytes received.
    pub bytes: f64,
}

/// Drops for one reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DropRate {
    /// Name of the counter.
    pub reason: String,
    /// Packets per second.
    pub packets: f64,
    /// Packets since the router started.
    pub total: u64,
}

/// Columns of the table of faces without those of shaping.
const TRAFFIC_COLUMNS: usize = 10;
/// Maximum number of prefixes.
const PREFIXES_MAX: usize = 100;

/// Returns the rates between two snapshots that are `took` apart.
pub fn rates(before: &Look, now: &Look, took: Duration) -> Rates {
    let seconds = took.as_secs_f64().max(1e-3);
    // After a restart counters begin at zero; the rate is then reported as 0.
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let (old, new) = (&before.status, &now.status);
    let (old_forwarder, forwarder) = (&old.forwarder, &new.forwarder);
    let packets = |status: &nw_api::management::ForwarderStatus| {
        (
            status.in_interests + status.in_data + status.in_nacks,
            status.out_interests + status.out_data + status.out_nacks,
        )
    };
    let (old_packets, new_packets) = (packets(old_forwarder), packets(forwarder));
    let hits = new.content_store.hits.saturating_sub(old.content_store.hits);
    let lookups = hits + new.content_store.misses.saturating_sub(old.content_store.misses);
    let busy_ns = new.loop_time.busy_ns.saturating_sub(old.loop_time.busy_ns);
    let (done, drops) =
        drop_rates(before, now, &rate).into_iter().partition(|drop| is_done(&drop.reason));
    Rates {
        version: forwarder.version.clone(),
        up_s: forwarder.current_timestamp.saturating_sub(forwarder.start_timestamp) / 1000,
        in_packets: rate(old_packets.0, new_packets.0),
        out_packets: rate(old_packets.1, new_packets.1),
        in_bytes: rate(old.in_bytes, new.in_bytes),
        out_bytes: rate(old.out_bytes, new.out_bytes),
        satisfied: rate(old_forwarder.satisfied_interests, forwarder.satisfied_interests),
        unsatisfied: rate(old_forwarder.unsatisfied_interests, forwarder.unsatisfied_interests),
        hit_ratio: (lookups > 0).then(|| hits as f64 / lookups as f64),
        core_share: (new.loop_time.turns > 0).then(|| busy_ns as f64 / 1e9 / seconds),
        pit_entries: forwarder.pit_entries,
        fib_entries: forwarder.fib_entries,
        cs_entries: new.content_store.entries,
        cs_capacity: new.content_store.capacity,
        faces: face_rates(before, now, &rate),
        prefixes: prefix_rates(before, now, &rate),
        drops,
        done,
    }
}

fn face_rates(before: &Look, now: &Look, rate: &impl Fn(u64, u64) -> f64) -> Vec<FaceRates> {
    let previous: BTreeMap<u64, _> = before.faces.iter().map(|face| (face.face_id, face)).collect();
    let rates = now.faces.iter().map(|face| {
        let old = previous.get(&face.face_id).filter(|old| old.uri == face.uri);
        let of = |counter: fn(&nw_api::management::FaceStatus) -> u64| {
            rate(old.map_or(0, |old| counter(old)), counter(face))
        };
        FaceRates {
            face_id: face.face_id,
            uri: face.uri.clone(),
            in_packets: [
                of(|face| face.in_interests),
                of(|face| face.in_data),
                of(|face| face.in_nacks),
            ],
            out_packets: [
                of(|face| face.out_interests),
                of(|face| face.out_data),
                of(|face| face.out_nacks),
            ],
            in_bytes: of(|face| face.in_bytes),
            out_bytes: of(|face| face.out_bytes),
            held_interests: face.held_interests,
            shaping_rate_bytes: face.shaping_rate_bytes,
            refused: of(|face| face.refused_interests.unwrap_or(0)),
            marked: of(|face| face.shaping_marks.unwrap_or(0)),
        }
    });
    rates.collect()
}

fn prefix_rates(before: &Look, now: &Look, rate: &impl Fn(u64, u64) -> f64) -> Vec<PrefixRates> {
    let (Some(old), Some(new)) = (&before.top, &now.top) else { return Vec::new() };
    // A counting period that was restarted begins at zero.
    let is_same_period = new.counting_ms >= old.counting_ms;
    let previous: BTreeMap<&str, _> = old
        .prefixes
        .iter()
        .filter(|_| is_same_period)
        .map(|prefix| (prefix.prefix.as_str(), prefix))
        .collect();
    let mut rates: Vec<PrefixRates> = new
        .prefixes
        .iter()
        .map(|prefix| {
            // A prefix that was evicted and counted again began at zero.
            let old = previous.get(prefix.prefix.as_str()).filter(|old| old.bytes <= prefix.bytes);
            PrefixRates {
                prefix: prefix.prefix.clone(),
                interests: rate(old.map_or(0, |old| old.interests), prefix.interests),
                data: rate(old.map_or(0, |old| old.data), prefix.data),
                bytes: rate(old.map_or(0, |old| old.bytes), prefix.bytes),
            }
        })
        .filter(|prefix| prefix.bytes > 0.0)
        .collect();
    rates.sort_by(|a, b| b.bytes.total_cmp(&a.bytes).then_with(|| a.prefix.cmp(&b.prefix)));
    rates.truncate(PREFIXES_MAX);
    rates
}

fn drop_rates(before: &Look, now: &Look, rate: &impl Fn(u64, u64) -> f64) -> Vec<DropRate> {
    let previous: BTreeMap<&str, u64> =
        before.drops.iter().map(|drop| (drop.reason.as_str(), drop.count)).collect();
    let rates = now.drops.iter().map(|drop| DropRate {
        reason: drop.reason.clone(),
        packets: rate(previous.get(drop.reason.as_str()).copied().unwrap_or(0), drop.count),
        total: drop.count,
    });
    let mut rates: Vec<DropRate> = rates.filter(|drop| drop.total > 0).collect();
    rates.sort_by(|a, b| b.packets.total_cmp(&a.packets).then_with(|| b.total.cmp(&a.total)));
    rates
}

impl Rates {
    /// Sorts faces, highest rates first, or ids ascending; or the reverse.
    pub fn sort_faces(&mut self, by: SortBy, reverse: bool) {
        let key = |face: &FaceRates| match by {
            SortBy::Traffic => face.in_bytes + face.out_bytes,
            SortBy::In => face.in_packets.iter().sum(),
            SortBy::Out => face.out_packets.iter().sum(),
            SortBy::Id => -(face.face_id as f64),
        };
        self.faces
            .sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.face_id.cmp(&b.face_id)));
        if reverse {
            self.faces.reverse();
        }
    }

    /// Returns the summary lines.
    pub fn head(&self) -> [String; 3] {
        let up = self.up_s;
        let share = |share: Option<f64>| {
            share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
        };
        [
            format!(
                "{}  up {} d {:02}:{:02}:{:02}  faces {}  loop {} of a core",
                self.version,
                up / 86_400,
                up / 3600 % 24,
                up / 60 % 60,
                up % 60,
                self.faces.len(),
                share(self.core_share)
            ),
            format!(
                "in {} packets/s {}B/s  out {} packets/s {}B/s  answered {}/s  not {}/s",
                short(self.in_packets),
                short(self.in_bytes),
                short(self.out_packets),
                short(self.out_bytes),
                short(self.satisfied),
                short(self.unsatisfied)
            ),
            format!(
                "pending {}  prefixes {}  cached {} of {}  hits {}",
                self.pit_entries,
                self.fib_entries,
                self.cs_entries,
                self.cs_capacity,
                share(self.hit_ratio)
            ),
        ]
    }

    /// Returns the table of faces, header first. Columns of shaping exist while a link is short.
    pub fn face_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row([
            &"face",
            &"peer",
            &"in I/s",
            &"in D/s",
            &"in N/s",
            &"in B/s",
            &"out I/s",
            &"out D/s",
            &"out N/s",
            &"out B/s",
            &"held",
            &"link B/s",
            &"refused/s",
            &"marked/s",
        ])];
        rows.extend(self.faces.iter().map(|face| {
            let ([a, b, c], [d, e, f]) = (face.in_packets.map(short), face.out_packets.map(short));
            row([
                &face.face_id,
                &face.uri,
                &a,
                &b,
                &c,
                &short(face.in_bytes),
                &d,
                &e,
                &f,
                &short(face.out_bytes),
                &face.held_interests.map_or("-".to_owned(), |held| held.to_string()),
                &face.shaping_rate_bytes.map_or("-".to_owned(), |rate| short(rate as f64)),
                &short(face.refused),
                &short(face.marked),
            ])
        }));
        let is_short = |face: &FaceRates| {
            face.held_interests.is_some() || face.refused > 0.0 || face.marked > 0.0
        };
        if !self.faces.iter().any(is_short) {
            rows.iter_mut().for_each(|row| row.truncate(TRAFFIC_COLUMNS));
        }
        rows
    }

    /// Returns the table of prefixes, header first.
    pub fn prefix_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row([&"in I/s", &"in D/s", &"in B/s", &"prefix"])];
        rows.extend(self.prefixes.iter().map(|prefix| {
            row([
                &short(prefix.interests),
                &short(prefix.data),
                &short(prefix.bytes),
                &prefix.prefix,
            ])
        }));
        rows
    }

    /// Returns the table of drops, header first.
    pub fn drop_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![row([&"dropped/s", &"in all", &"reason"])];
        rows.extend(
            self.drops.iter().map(|drop| row([&short(drop.packets), &drop.total, &drop.reason])),
        );
        rows
    }
}

/// Formats a rate in at most five characters: 0, 0.4, 12, 3.4k, 120k, 1.2M.
pub fn short(rate: f64) -> String {
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    let (mut number, mut unit) = (rate, 0);
    while number >= 999.5 && unit + 1 < UNITS.len() {
        number /= 1000.0;
        unit += 1;
    }
    match number {
        0.0 => "0".into(),
        number if number < 9.95 => format!("{number:.1}{}", UNITS[unit]),
        number => format!("{number:.0}{}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::management::{DropCount, FaceScope, FaceStatus};
    use nw_api::rest::{PrefixTraffic, TopPrefixes};

    #[test]
    fn short_uses_unit_prefixes() {
        for (rate, text) in [
            (0.0, "0"),
            (0.41, "0.4"),
            (9.97, "10"),
            (999.4, "999"),
            (999.9, "1.0k"),
            (123_456.0, "123k"),
            (1.25e6, "1.2M"),
        ] {
            assert_eq!(short(rate), text, "{rate}");
        }
    }

    fn snapshot(face_in: u64, prefix_bytes: u64, counting_ms: u64, drops: u64) -> Look {
        let mut snapshot = Look::default();
        for (id, factor) in [(256, 1), (257, 3)] {
            let mut face =
                FaceStatus::new(id, format!("udp4://192.0.2.1:{id}"), "x", FaceScope::NonLocal);
            (face.in_interests, face.in_bytes) = (face_in * factor, face_in * factor * 10);
            snapshot.faces.push(face);
        }
        snapshot.drops.push(DropCount { reason: "no_route".into(), count: drops });
        let prefix = PrefixTraffic {
            prefix: "/a".into(),
            interests: 0,
            data: 0,
            bytes: prefix_bytes,
            error: 0,
        };
        snapshot.top =
            Some(TopPrefixes { counting_ms, components: 2, packets: 0, prefixes: vec![prefix] });
        snapshot
    }

    #[test]
    fn rates_are_differences_over_time() {
        let interval = Duration::from_secs(2);
        let mut seen = rates(&snapshot(10, 100, 1000, 4), &snapshot(30, 500, 3000, 8), interval);
        assert_eq!(seen.faces[0].in_packets, [10.0, 0.0, 0.0]);
        let mut cached = snapshot(30, 500, 3000, 8);
        cached.drops[0].reason = "cache_hit".into();
        let hits = rates(&Look::default(), &cached, interval);
        assert_eq!((hits.drops.len(), hits.done.len()), (0, 1), "a cache hit is no loss");
        assert_eq!(
            (seen.prefixes[0].bytes, seen.drops[0].packets, seen.drops[0].total),
            (200.0, 2.0, 8)
        );
        seen.sort_faces(SortBy::Traffic, false);
        assert_eq!(seen.faces[0].face_id, 257);
        seen.sort_faces(SortBy::Traffic, true);
        assert_eq!(seen.faces[0].face_id, 256);
        seen.sort_faces(SortBy::Id, false);
        assert_eq!(seen.faces[0].face_id, 256);

        let restarted = rates(&snapshot(30, 500, 3000, 8), &snapshot(10, 100, 500, 1), interval);
        assert_eq!(restarted.faces[0].in_packets, [0.0; 3], "restarted router");
        assert_eq!(restarted.prefixes[0].bytes, 50.0, "restarted counting period");
    }
}
