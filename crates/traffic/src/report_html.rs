//! The report of a run as one self-contained HTML page with tables and charts.

use super::generator::{ArrivalProcess, Load};
use super::measured::Measured;
use super::result::Outcome;
use super::timings::Timings;
use super::workload::Pattern;
use hdrhistogram::Histogram;
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use std::fmt::Write;

/// Histogram bars per decade.
const BARS_PER_DECADE: f64 = 20.0;

/// Returns the HTML page of a run.
pub fn page(outcome: &Outcome, measured: &Measured) -> String {
    let title = format!("{} over {}", describe_load(outcome.load), outcome.over);
    let mut out = head(&format!("nw bench: {title}"));
    let _ = writeln!(out, "<p>{}</p>", escape(&describe_workload(outcome)));
    if !outcome.complete {
        out.push_str(
            "<p><strong>The run ended early; these are the measurements until then.</strong></p>\n",
        );
    }
    out.push_str("<div class=\"charts\">\n");
    for chart in charts(outcome, measured) {
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg());
    }
    out.push_str("</div>\n<h2>Counted</h2>\n<table>\n");
    for [what, value, note] in outcome.rows() {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"note\">{}</td></tr>",
            escape(&what),
            escape(&value),
            escape(&note)
        );
    }
    out.push_str("</table>\n<h2>Latency</h2>\n<table>\n<tr>");
    let (head, rows) = outcome.latencies();
    head.iter().for_each(|cell| out.push_str(&format!("<th class=\"n\">{cell}</th>")));
    out.push_str("</tr>\n");
    for (what, q) in rows {
        let _ = write!(out, "<tr><td>{what}</td>");
        for value in [q.min, q.mean, q.p50, q.p90, q.p99, q.p999, q.max] {
            let _ = write!(out, "<td class=\"n\">{value:.1}</td>");
        }
        out.push_str("</tr>\n");
    }
    let _ = write!(
        out,
        "</table>\n<p class=\"note\">{}</p>\n<footer>{} · seed {}</footer>\n</body></html>\n",
        match outcome.load {
            Load::Open { .. } =>
                "Latency counts from when a request was due, whether or not it could be sent then: a stall shows in every request it kept waiting.",
            Load::Closed { .. } =>
                "Latency counts from when a request was sent. A window waits while the router stalls, so stalls show in few requests; give a rate to see what users would.",
        },
        escape(&outcome.machine.to_string()),
        outcome.workload.seed
    );
    out
}

/// Describes the workload in a sentence.
pub fn describe_workload(outcome: &Outcome) -> String {
    let w = &outcome.workload;
    let order = match w.pattern {
        Pattern::Popular => format!("by Zipf's law with exponent {}", w.zipf),
        Pattern::Sequential => "in order".into(),
    };
    let mut text = format!(
        "{} names below {}, requested {order}; {} components, {} bytes a name",
        w.names, w.prefix, w.components, w.name_len
    );
    // Another program may answer with any content; the table shows the sizes of the received Data.
    if outcome.answered_by_sink.is_some() {
        let _ = write!(text, ", {} bytes of content", w.payload);
    }
    if w.can_be_prefix > 0.0 {
        let _ = write!(text, "; {} % with CanBePrefix", 100.0 * w.can_be_prefix);
    }
    if let Some(ratio) = w.hit_ratio {
        let _ = write!(text, "; {} % for cached names", 100.0 * ratio);
    }
    text
}

/// Describes the load in a few words.
pub fn describe_load(load: Load) -> String {
    match load {
        Load::Open { rate, arrivals: ArrivalProcess::Even } => {
            format!("open loop, {rate} requests a second")
        }
        Load::Open { rate, arrivals: ArrivalProcess::Poisson } => {
            format!("open loop, {rate} requests a second, Poisson")
        }
        Load::Closed { window } => format!("closed loop, {window} requests outstanding"),
    }
}

fn charts(outcome: &Outcome, measured: &Measured) -> Vec<Chart> {
    let open = matches!(outcome.load, Load::Open { .. });
    let mut by_share = vec![Line { label: "latency", points: quantiles(&measured.latency) }];
    if open {
        by_share.push(Line { label: "since sent", points: quantiles(&measured.since_sent) });
    }
    let over_time = |value: fn(&super::result::Point) -> Option<f64>| {
        outcome
            .series
            .iter()
            .filter_map(|point| Some((point.at_s + point.length_s / 2.0, value(point)?)))
            .collect()
    };
    let time = || Axis { label: "time since the start (s)", scale: Scale::Linear };
    let latency = || Axis { label: "latency (µs)", scale: Scale::Log };
    let mut charts = vec![
        Chart {
            title: "Latency by share of requests",
            x: Axis { label: "share of requests at most that long", scale: Scale::Nines },
            y: latency(),
            style: Style::Lines,
            lines: by_share,
        },
        Chart {
            title: "Distribution of latency",
            x: latency(),
            y: Axis { label: "share of requests (%)", scale: Scale::Linear },
            style: Style::Bars,
            lines: vec![Line {
                label: "latency",
                points: distribution(measured.latency.histogram()),
            }],
        },
    ];
    // A run with one interval has no chart over time.
    if outcome.series.len() < 2 {
        return charts;
    }
    charts.extend([
        Chart {
            title: "Requests over time",
            x: time(),
            y: Axis { label: "requests a second", scale: Scale::Linear },
            style: Style::Lines,
            lines: vec![
                Line { label: "asked", points: over_time(|point| Some(point.asked_per_s)) },
                Line { label: "answered", points: over_time(|point| Some(point.answered_per_s)) },
            ],
        },
        Chart {
            title: "Latency over time",
            x: time(),
            y: latency(),
            style: Style::Lines,
            lines: vec![
                Line { label: "median", points: over_time(|point| point.p50_us) },
                Line { label: "99 %", points: over_time(|point| point.p99_us) },
            ],
        },
    ]);
    charts
}

/// Returns shares and latencies in microseconds, as far as the number of samples supports them.
fn quantiles(nanos: &Timings) -> Vec<(f64, f64)> {
    if nanos.is_empty() {
        return Vec::new();
    }
    let nines = (nanos.len() as f64).log10().min(5.0);
    let steps = (nines * 24.0).ceil() as u32;
    let share = |i| 1.0 - 10f64.powf(-f64::from(i) / 24.0);
    (0..=steps).map(share).map(|share| (share, nanos.quantile_ns(share) as f64 / 1e3)).collect()
}

/// Returns bars of equal width on a logarithmic axis: the start in microseconds, and the share in
/// percent. The last entry marks the end of the last bar.
fn distribution(nanos: &Histogram<u64>) -> Vec<(f64, f64)> {
    if nanos.is_empty() {
        return Vec::new();
    }
    let bar = |nanos: u64| ((nanos.max(1) as f64).log10() * BARS_PER_DECADE).floor() as i32;
    // A single outlier must not compress all other bars.
    let (first, last) =
        (bar(nanos.value_at_quantile(0.0005)), bar(nanos.value_at_quantile(0.9995)));
    let mut counts = vec![0u64; (last - first + 1) as usize];
    for value in nanos.iter_recorded() {
        if let Ok(index) = usize::try_from(bar(value.value_iterated_to()) - first)
            && let Some(count) = counts.get_mut(index)
        {
            *count += value.count_since_last_iteration();
        }
    }
    let start = |index: usize| 10f64.powf(f64::from(first + index as i32) / BARS_PER_DECADE) / 1e3;
    let share = |count: u64| 100.0 * count as f64 / nanos.len() as f64;
    let mut bars: Vec<_> =
        counts.iter().enumerate().map(|(i, count)| (start(i), share(*count))).collect();
    bars.push((start(counts.len()), 0.0));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::TransportInfo;
    use crate::timings::histogram;
    use crate::workload::Workload;
    use crate::workload::tests::workload;
    use core::time::Duration;

    #[test]
    fn bars_hold_everything() {
        let mut nanos = histogram(3);
        (1..=1000u64).for_each(|i| nanos.record(i * 1000).unwrap());
        let bars = distribution(&nanos);
        let sum: f64 = bars.iter().map(|(_, share)| share).sum();
        assert!((sum - 100.0).abs() < 0.2, "{sum}");
        assert!(bars.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    /// A run without packets makes a page without links to other hosts, with text escaped.
    #[test]
    fn a_page_stands_alone() {
        let measured = Measured::new(Duration::from_secs(1));
        let workload = Workload { prefix: "/a&b<c".parse().unwrap(), ..workload() };
        for load in [
            Load::Closed { window: 3 },
            Load::Open { rate: 1e3, arrivals: ArrivalProcess::Poisson },
        ] {
            let outcome = Outcome::new(
                &workload,
                load,
                TransportInfo::of("<memory>"),
                false,
                &measured,
                None,
            );
            let page = page(&outcome, &measured);
            // Nothing happened over time, so there is no chart of it.
            assert_eq!(page.matches("<svg").count(), 2);
            assert!(page.contains("over &lt;memory&gt;") && !page.contains("<memory>"));
            // The only address is the name of SVG itself.
            assert_eq!(
                page.matches("http").count(),
                page.matches("http://www.w3.org/2000/svg").count()
            );
            assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("href="));
        }
    }

    #[test]
    fn a_page_says_how_frames_went() {
        let measured = Measured::new(Duration::from_secs(1));
        let status = nw_api::management::XdpStatus {
            interface: "eth0".into(),
            mode: "generic".into(),
            memory: "copy".into(),
            queues: 2,
            received: 7,
            sent: 8,
            lost: 0,
            others: 0,
        };
        let xdp = Some(super::super::through_xdp::XdpReport { status, no_room: 5, pieces: 0 });
        let way = TransportInfo { over: "udp4://192.0.2.2:6363 by AF_XDP on eth0".into(), xdp };
        let load = Load::Closed { window: 3 };
        let page = page(&Outcome::new(&workload(), load, way, true, &measured, None), &measured);
        assert!(page.contains("over udp4://192.0.2.2:6363 by AF_XDP on eth0"));
        assert!(page.contains(
            "eth0: generic, copy, 2 queues, 7 frames in, 8 out, 0 lost, 5 not sent (ring full or too long)"
        ));
    }
}
