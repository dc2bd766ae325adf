//! Decisions about packets as text, for `nw trace`.

use core::time::Duration;
use nw_element_api::decision_trace::{Decision, NotSent};
use nw_element_api::{DropReason, FaceId};
use nw_name::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A decision about a packet, as `nw trace` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TraceEvent {
    /// Time of the decision, microseconds since the router started.
    pub at_us: u64,
    /// Number of the packet; all decisions about a packet have the same number.
    pub packet: u32,
    /// Name of the packet.
    #[schema(value_type = crate::schema::NameText)]
    pub name: String,
    /// Step of forwarding that decided: interest, content_store, pit, fib, strategy, data, nack,
    /// drop, or face.
    #[schema(example = "content_store")]
    pub step: String,
    /// The decision as text.
    #[schema(example = "content store: miss (MustBeFresh, stale for 3.0 s)")]
    pub words: String,
    /// The face that the decision concerns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub face_id: Option<u64>,
    /// Number of earlier decisions that were discarded because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // required by serde
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Formats a duration with a suitable unit.
fn time(duration: Duration) -> String {
    match duration.as_nanos() {
        0..1_000_000 => format!("{} µs", duration.as_micros()),
        1_000_000..1_000_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", duration.as_secs_f64()),
    }
}

/// Returns step, face and text of a decision about a packet with this name. `strategy`: the
/// strategy that decided.
pub fn describe(
    decision: &Decision,
    name: &Name,
    strategy: Option<&Name>,
) -> (&'static str, Option<u64>, String) {
    let face_of = |face: &FaceId| Some(face.number());
    match decision {
        Decision::InterestIn { face, can_be_prefix, must_be_fresh, lifetime_ms, hop_limit } => {
            let selectors = (*can_be_prefix, *must_be_fresh);
            ("interest", face_of(face), interest_text(face, selectors, *lifetime_ms, *hop_limit))
        }
        Decision::StoreHit => ("content_store", None, "content store: hit".into()),
        Decision::StoreMiss => ("content_store", None, "content store: miss".into()),
        Decision::StoreStale(since) => (
            "content_store",
            None,
            format!("content store: miss (MustBeFresh, stale for {})", time(*since)),
        ),
        Decision::StoreOff => ("content_store", None, "content store: disabled".into()),
        Decision::PendingNew => ("pit", None, "PIT: new entry".into()),
        Decision::PendingJoined { downstreams, again } => {
            ("pit", None, joined_text(*downstreams, *again))
        }
        Decision::Route { prefix_len, next_hops, by_hint } => {
            ("fib", None, route_text(name, *prefix_len, *next_hops, *by_hint))
        }
        Decision::NoRoute => ("fib", None, "FIB: no prefix of the name has an entry".into()),
        Decision::Strategy(_) => {
            let name = strategy.map_or_else(|| "unknown".into(), short_strategy);
            ("strategy", None, format!("strategy: {name}"))
        }
        Decision::NotSent { face, cost, why } => {
            let reason = exclusion(why);
            (
                "strategy",
                face_of(face),
                format!("strategy: not to face {face} (cost {cost}), {reason}"),
            )
        }
        Decision::InterestOut { face, cost, place, usable, sent } => {
            let cost = cost.map(|cost| format!(" (cost {cost})")).unwrap_or_default();
            let reason = selection(*place, *usable, *sent);
            ("strategy", face_of(face), format!("strategy: to face {face}{cost}, {reason}; sent"))
        }
        Decision::DataIn { face, after, answers, freshness_ms } => {
            ("data", face_of(face), data_text(face, *after, *answers, *freshness_ms))
        }
        Decision::Cached => ("content_store", None, "content store: cached".into()),
        Decision::CachedAgain => {
            ("content_store", None, "content store: already cached, fresh again".into())
        }
        Decision::NotCached => ("content_store", None, "content store: not cached".into()),
        Decision::DataOut(face) => ("face", face_of(face), format!("Data to face {face}: sent")),
        Decision::NackIn { face, reason, after } => {
            let after = after.map(|after| format!(" after {}", time(after))).unwrap_or_default();
            ("nack", face_of(face), format!("Nack ({}) from face {face}{after}", reason.as_str()))
        }
        Decision::NackOut { face, reason } => {
            ("nack", face_of(face), format!("Nack ({}) to face {face}: sent", reason.as_str()))
        }
        Decision::Dropped(reason) => ("drop", None, drop_text(reason)),
        Decision::Expired(after) => {
            ("pit", None, format!("PIT: expired after {} without an answer", time(*after)))
        }
    }
}

/// Describes a received Interest. `selectors`: CanBePrefix, MustBeFresh.
fn interest_text(
    face: &FaceId,
    selectors: (bool, bool),
    lifetime_ms: u32,
    hop_limit: Option<u8>,
) -> String {
    let mut text = format!("Interest from face {face}");
    text.push_str(if selectors.0 { ", CanBePrefix" } else { "" });
    text.push_str(if selectors.1 { ", MustBeFresh" } else { "" });
    text.push_str(&format!(", lifetime {lifetime_ms} ms"));
    text.push_str(&hop_limit.map(|hops| format!(", hop limit {hops}")).unwrap_or_default());
    text
}

/// Describes an Interest for which an entry was pending. `again`: this face was a downstream.
fn joined_text(downstreams: u32, again: bool) -> String {
    let from = if again { "retransmitted by this face" } else { "aggregated" };
    format!("PIT: already pending, {from}; {} waiting", count(downstreams, "face"))
}

/// Describes the FIB entry that applies.
fn route_text(name: &Name, prefix_len: usize, next_hops: u32, by_hint: bool) -> String {
    let next_hops = count(next_hops, "next hop");
    if by_hint {
        return format!("FIB: by the forwarding hint, {next_hops}");
    }
    format!("FIB: {} has {next_hops}", name.as_ref().prefix(prefix_len))
}

/// Describes received Data.
fn data_text(face: &FaceId, after: Option<Duration>, answers: u32, freshness_ms: u32) -> String {
    let after = match after {
        Some(after) => format!(" after {}", time(after)),
        None => ", which received no Interest".to_owned(),
    };
    let fresh = match freshness_ms {
        0 => "never fresh".to_owned(),
        ms => format!("fresh for {ms} ms"),
    };
    let answers = count(answers, "pending Interest");
    format!("Data from face {face}{after}: answers {answers}, {fresh}")
}

/// Returns why an Interest was not sent to a next hop.
const fn exclusion(why: &NotSent) -> &'static str {
    match why {
        NotSent::CameFrom => "the Interest came from it",
        NotSent::Gone => "it is closed",
        NotSent::Scope => "the scope of the name forbids it",
        NotSent::NotChosen => "others are preferred",
    }
}

/// Returns why a next hop was selected: it is number `place` by cost, from 0, of `usable` next
/// hops, and the Interest was sent to `sent` of them.
fn selection<T: Copy + Into<u64>>(place: T, usable: T, sent: T) -> String {
    let (place, usable, sent) = (place.into(), usable.into(), sent.into());
    match (usable, sent, place) {
        (0, ..) => "as requested by the application or strategy".to_owned(),
        (1, ..) => "the only next hop that may be used".to_owned(),
        (usable, sent, _) if sent == usable => format!("as to all {usable} that may be used"),
        (usable, 1, 0) => format!("the cheapest of {usable} that may be used"),
        (usable, _, place) => format!("number {} by cost of {usable} that may be used", place + 1),
    }
}

fn drop_text(reason: &DropReason) -> String {
    match reason {
        DropReason::Malformed(fault) => format!("dropped (malformed: {})", fault.as_str()),
        DropReason::Cause(cause) => {
            format!("ends here ({}): {}", cause.as_str(), cause.explanation().trim())
        }
    }
}

fn count(number: u32, thing: &str) -> String {
    match number {
        0 => format!("no {thing}"),
        1 => format!("1 {thing}"),
        n => format!("{n} {thing}s"),
    }
}

/// Returns the name of a strategy without the common prefix.
fn short_strategy(name: &Name) -> String {
    let uri = name.to_string();
    uri.strip_prefix("/localhost/nfd/strategy/").map_or_else(|| uri.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::DropCause;

    #[test]
    fn describe_returns_text_for_each_decision() {
        let name: Name = "/video/a/b".parse().unwrap();
        let face = FaceId::from_bits(12);
        let words = |decision| describe(&decision, &name, None).2;
        assert_eq!(
            words(Decision::StoreStale(Duration::from_secs(3))),
            "content store: miss (MustBeFresh, stale for 3.0 s)"
        );
        assert_eq!(
            words(Decision::Route { prefix_len: 1, next_hops: 2, by_hint: false }),
            "FIB: /video has 2 next hops"
        );
        let out = |place, usable, sent| {
            words(Decision::InterestOut { face, cost: Some(10), place, usable, sent })
        };
        assert_eq!(
            out(0, 2, 1),
            "strategy: to face 12 (cost 10), the cheapest of 2 that may be used; sent"
        );
        assert_eq!(
            out(1, 3, 1),
            "strategy: to face 12 (cost 10), number 2 by cost of 3 that may be used; sent"
        );
        assert_eq!(
            out(1, 2, 2),
            "strategy: to face 12 (cost 10), as to all 2 that may be used; sent"
        );
        assert_eq!(
            words(Decision::DataIn {
                face,
                after: Some(Duration::from_micros(3100)),
                answers: 1,
                freshness_ms: 0
            }),
            "Data from face 12 after 3.1 ms: answers 1 pending Interest, never fresh"
        );
        let strategy = "/localhost/nfd/strategy/best-route/v=5".parse().unwrap();
        let decision = Decision::Strategy(nw_tables_strategy());
        assert_eq!(describe(&decision, &name, Some(&strategy)).2, "strategy: best-route/v=5");
        assert!(
            words(Decision::Dropped(DropCause::PitFull.into()))
                .starts_with("ends here (pit_full): The PIT")
        );
    }

    fn nw_tables_strategy() -> nw_element_api::decision_trace::StrategyId {
        nw_element_api::decision_trace::StrategyId(0)
    }
}
