//! The page: each table and figure beside the paper's numbers.

use super::elements::ROWS;
use super::poisoning::PoisoningAttack;
use super::{ChainResult, ElementResult, MundnReport, PoisoningResult, Scaling};
use crate::bulk::Paper;
use crate::check::{Judged, write_statements};
use crate::conditions::write_problems;
use nw_report_kit::chart::{Axis, Chart, Line, Scale, Style};
use nw_report_kit::page::{escape, head};
use std::fmt::Write;

/// Instances of the figure, with the paper's names.
const INSTANCES: [(&str, &str); 5] =
    [("cs~1", "CS"), ("br~1", "BR1"), ("br~2", "BR1.1"), ("br~3", "BR1.2"), ("nr~1", "NR")];

/// Returns the HTML page, which loads nothing from elsewhere.
pub fn mundn_page(report: &MundnReport, paper: &Paper) -> String {
    let mut out = head("nw paper mundn: networks of services that scale");
    let quick = if report.quick { " A quick run: short loads, so figures are rough." } else { "" };
    let _ = writeln!(
        out,
        "<p>The experiments of {}, <i>{}</i>, repeated here on {} processors.{quick}</p>",
        escape(&paper.authors),
        escape(&paper.title),
        report.cores
    );
    write_problems(&report.problems(), &mut out);
    let _ = writeln!(
        out,
        "<p class=\"note\">{} Consumer and producer are threads of one process here and \
         share the processors with the services; links are Unix sockets and shared memory, where \
         the paper has TCP.</p>",
        escape(&report.conditions.before_the_runs())
    );
    if !report.processes.is_empty() {
        table3(report, paper, &mut out);
    }
    if let (Some(chain), Some(router)) = (&report.chain, &report.router) {
        table4(chain, router, paper, &mut out);
    }
    if let Some(scaling) = &report.scaling {
        figure5(scaling, paper, &mut out);
    }
    if let Some(poisoning) = &report.poisoning {
        figure7(poisoning, paper, &mut out);
    }
    out.push_str("<h2>Statements</h2>\n");
    write_statements(&report.checks(), &mut out);
    out.push_str("<h2>What was not run</h2>\n<ul>\n");
    for text in &report.left_out {
        let _ = writeln!(out, "<li>{}</li>", escape(text));
    }
    out.push_str("</ul>\n</body></html>\n");
    out
}

fn table3(report: &MundnReport, paper: &Paper, out: &mut String) {
    out.push_str(
        "<h2>Table 3: throughput of each service</h2>\n<table><tr><th>service</th>\
         <th class=\"n\">paper, process</th><th class=\"n\">here, process</th>\
         <th class=\"n\">ratio</th><th class=\"n\">µs per exchange</th>\
         <th class=\"n\">paper, container</th><th class=\"n\">here, container</th>\
         <th class=\"n\">µs per exchange</th></tr>\n",
    );
    let find = |results: &[ElementResult], row: &str| {
        results.iter().find(|result| result.row == row).cloned()
    };
    for (row, _, title) in ROWS {
        let Some(own) = find(&report.processes, row) else { continue };
        let values = &paper.number[row].values;
        let _ = write!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.0}</td>\
             <td class=\"n\">{:.1}</td><td class=\"n\">{:.2}</td><td class=\"n\">{}</td>",
            escape(title),
            values[0],
            own.mbit,
            own.mbit / values[0],
            own.cpu_us,
            values[1]
        );
        let contained = find(&report.containers, row);
        let cell = |value: Option<String>| value.unwrap_or_else(|| "not run".to_owned());
        let mbit = cell(contained.as_ref().map(|one| format!("{:.0}", one.mbit)));
        let cpu = cell(contained.map(|one| format!("{:.2}", one.cpu_us)));
        let _ = writeln!(out, "<td class=\"n\">{mbit}</td><td class=\"n\">{cpu}</td></tr>");
    }
    let containers = report.container_ratio().map_or(String::new(), |ratio| {
        format!(
            " Services in containers used {ratio:.2} times the processor time of processes per \
             exchange, as a mean of the rows."
        )
    });
    let _ = writeln!(
        out,
        "</table>\n<p class=\"note\">Mbit/s; Data with 8192 bytes of content.{containers}</p>"
    );
}

fn table4(chain: &ChainResult, router: &ChainResult, paper: &Paper, out: &mut String) {
    let (mbit, latency) =
        (&paper.number["chain_mbit"].values, &paper.number["chain_latency_ms"].values);
    out.push_str(
        "<h2>Table 4: four services in a chain, and one router</h2>\n<table><tr><th></th>\
         <th class=\"n\">Mbit/s</th><th class=\"n\">latency, ms</th>\
         <th class=\"n\">processor time, % of a core</th><th class=\"n\">µs per exchange</th></tr>\n",
    );
    for (at, title) in ["chain (the paper)", "NFD (the paper)"].into_iter().enumerate() {
        let _ = writeln!(
            out,
            "<tr><td>{title}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td></td></tr>",
            mbit[at],
            latency[at],
            ["CS 67, BR 100, NR 71", "100"][at]
        );
    }
    for (title, result) in [("chain (here)", chain), ("nw run (here)", router)] {
        let cpu: Vec<String> =
            result.cpu_percent.iter().map(|(name, used)| format!("{name} {used:.0}")).collect();
        let _ = writeln!(
            out,
            "<tr><td>{title}</td><td class=\"n\">{:.0}</td><td class=\"n\">{:.3}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{:.2}</td></tr>",
            result.mbit,
            result.latency_ms,
            escape(&cpu.join(", ")),
            result.cpu_us
        );
    }
    let _ = writeln!(
        out,
        "</table>\n<p>The chain uses {:.1} times the processor time of the router per exchange \
         (the paper: about 3 times that of NFD).</p>",
        chain.cpu_us / router.cpu_us
    );
}

fn figure5(scaling: &Scaling, paper: &Paper, out: &mut String) {
    let values = &paper.number["scaling_mbit"].values;
    let three = scaling.mbit_three.map_or("not added".to_owned(), |mbit| format!("{mbit:.0}"));
    let _ = writeln!(
        out,
        "<h2>Figure 5: scaling by load</h2>\n<p>A backward router may use {:.0} % of a core (the \
         paper: 67 %), the store {:.0} % and the name router {:.0} %. As in the paper, the store \
         does not cache, and both carry about twice what one backward router carries: what an \
         exchange costs was measured first.</p>\n\
         <table><tr><th>backward routers</th><th class=\"n\">paper, Mbit/s</th>\
         <th class=\"n\">here, Mbit/s</th></tr>\n\
         <tr><td>1</td><td class=\"n\">{}</td><td class=\"n\">{:.0}</td></tr>\n\
         <tr><td>2</td><td class=\"n\">{}</td><td class=\"n\">{:.0}</td></tr>\n\
         <tr><td>3</td><td class=\"n\">{}</td><td class=\"n\">{three}</td></tr></table>",
        100.0 * scaling.quotas.router,
        100.0 * scaling.quotas.store,
        100.0 * scaling.quotas.name_router,
        values[0],
        scaling.mbit_one,
        values[1],
        scaling.mbit_two,
        values[2]
    );
    let _ = writeln!(
        out,
        "<p>Speedup {:.2} (the paper: {:.2}). The first clone carried traffic {:.1} s after the \
         load began. Of {} exchanges, {} were lost, {} came twice, {} were refused. {}. The manager \
         used {:.1} % of a core. {}</p>",
        scaling.speedup(),
        values[1] / values[0],
        scaling.seconds_to_carry,
        scaling.exchanges,
        scaling.lost,
        scaling.duplicates,
        scaling.refused,
        if scaling.end_equals_start {
            "At the end, the services and their graphs were those of the begin"
        } else {
            "At the end, the services were not those of the begin"
        },
        scaling.manager_percent,
        escape(&match scaling.reason.as_str() {
            "" => String::new(),
            reason => format!("Why there were no more: {reason}."),
        })
    );
    out.push_str("<div class=\"charts\">");
    for chart in charts(scaling, paper) {
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg());
    }
    out.push_str("</div>\n<ul>\n");
    for decision in &scaling.decisions {
        let _ = writeln!(out, "<li class=\"note\">{}</li>", escape(decision));
    }
    out.push_str("</ul>\n");
}

fn figure7(poisoning: &PoisoningResult, paper: &Paper, out: &mut String) {
    let values = &paper.number["hit_ratio_percent"].values;
    let row = |title: &str, paper: String, here: String| {
        format!(
            "<tr><td>{title}</td><td class=\"n\">{paper}</td><td class=\"n\">{here}</td></tr>\n"
        )
    };
    let _ = writeln!(
        out,
        "<h2>Figure 7: content poisoning</h2>\n<p>Store, name router and a second store, to which \
         a good and a bad producer are connected, and a backward router against loops; a forwarder \
         behind the second store sends each Interest to both producers. The good consumer asks for \
         100 names, {:.0} times a second; the bad one for {:.0} new names a second, which the bad \
         producer answers with fake Data, as it does one in three good names. The manager looks at \
         the first store every {} s.</p>\n\
         <table><tr><th></th><th class=\"n\">paper</th><th class=\"n\">here</th></tr>",
        poisoning.rates[0], poisoning.rates[1], poisoning.period_s
    );
    let seconds = |value: f64| format!("{value:.1} s");
    let fakes: u64 = poisoning.attacks.iter().map(|attack| attack.fakes_before).sum();
    let gone = |attack: &PoisoningAttack| seconds(attack.gone_s - attack.end_s);
    let gone: Vec<String> = poisoning.attacks.iter().map(gone).collect();
    for (title, theirs, ours) in [
        ("hit ratio before the attack", percent(values[0]), percent(poisoning.usual_percent)),
        ("lowest hit ratio in the attack", percent(values[2]), percent(poisoning.lowest_percent())),
        (
            "from the begin of an attack until a verifier is asked for",
            "2 periods".to_owned(),
            format!("{:.1} periods", poisoning.periods_to_detect()),
        ),
        (
            "from the verifier to 90 % of the good consumer's hit ratio",
            "not told".to_owned(),
            seconds(poisoning.seconds_to_recover()),
        ),
        ("fake Data at the good consumer until then", "not told".to_owned(), fakes.to_string()),
        (
            "fake Data at the good consumer from then on",
            "not told".to_owned(),
            poisoning.fakes_after().to_string(),
        ),
        (
            "from the end of an attack until the verifier is gone",
            "20 s (10 periods)".to_owned(),
            format!("{} ({} periods and its removal)", gone.join(", "), poisoning.quiet_periods),
        ),
        ("verifiers without an attack", "0".to_owned(), poisoning.false_alarms.to_string()),
    ] {
        out.push_str(&row(title, theirs, ours));
    }
    let places = poisoning.attacks.first().map(|attack| attack.places.join(", then "));
    let end = match poisoning.end_equals_start {
        true => "At the end, the services and their graphs were those of the begin.",
        false => "At the end, the services were not those of the begin.",
    };
    let _ = writeln!(
        out,
        "</table>\n<p>The verifier was before {}; the paper leaves it before the first store. {end} \
         The good consumer sent {} Interests.</p>\n<div class=\"charts\">",
        escape(&places.unwrap_or_default()),
        poisoning.asked
    );
    for chart in poisoning_charts(poisoning, paper) {
        let _ = writeln!(out, "<figure style=\"margin:0\">{}</figure>", chart.svg());
    }
    out.push_str("</div>\n");
    list_attacks(poisoning, out);
}

/// Writes the times of the attacks, and what the manager decided.
fn list_attacks(poisoning: &PoisoningResult, out: &mut String) {
    out.push_str("<ul>\n");
    for (number, attack) in poisoning.attacks.iter().enumerate() {
        let _ = writeln!(out, "<li class=\"note\">{}</li>", escape(&describe(number + 1, attack)));
    }
    for decision in &poisoning.decisions {
        let _ = writeln!(out, "<li class=\"note\">{}</li>", escape(decision));
    }
    out.push_str("</ul>\n");
}

fn percent(value: f64) -> String {
    format!("{value:.0} %")
}

/// Returns the times of an attack in words.
fn describe(number: usize, attack: &PoisoningAttack) -> String {
    let recovered = match attack.recovered_s {
        Some(at) => format!("hit ratio back at {at:.1} s"),
        None => "hit ratio not back during the attack".to_owned(),
    };
    format!(
        "attack {number}: from {:.1} s to {:.1} s; verifier asked for at {:.1} s, in place at {:.1} \
         s, attack confirmed at {:.1} s, {recovered}, isolated at {:.1} s; all as before at {:.1} s",
        attack.start_s,
        attack.end_s,
        attack.detected_s,
        attack.verifier_s,
        attack.confirmed_s,
        attack.isolated_s,
        attack.gone_s
    )
}

/// Instances of figure 7, with the names of the document.
const POISONED: [(&str, &str); 3] =
    [("front~1", "first store"), ("br~1", "BR"), ("back~1", "NR, second store")];

fn poisoning_charts(poisoning: &PoisoningResult, paper: &Paper) -> Vec<Chart> {
    let time = || Axis { label: "seconds since the first Interest", scale: Scale::Linear };
    let hits = || Axis { label: "% of the Interests", scale: Scale::Linear };
    let columns = Scale::Columns(&["before", "first report", "next one"]);
    let levels = paper.number["hit_ratio_percent"].values.iter().enumerate();
    let levels = levels.map(|(at, value)| (at as f64, *value)).collect();
    let line = |label, points: &[(f64, f64)]| Line { label, points: points.to_vec() };
    let cpu = POISONED.iter().filter_map(|(name, label)| {
        Some(Line { label, points: poisoning.cpu_percent.get(*name)?.clone() })
    });
    vec![
        Chart {
            title: "The paper: hit ratio of figure 7",
            x: Axis { label: "reports", scale: columns },
            y: hits(),
            style: Style::Beside,
            lines: vec![Line { label: "all consumers", points: levels }],
        },
        Chart {
            title: "Here: hit ratio by period, all consumers",
            x: time(),
            y: hits(),
            style: Style::Bars,
            lines: vec![line("all consumers", &poisoning.hit_percent)],
        },
        Chart {
            title: "Here: hit ratio of the good consumer",
            x: time(),
            y: hits(),
            style: Style::Lines,
            lines: vec![line("good consumer", &poisoning.good_percent)],
        },
        Chart {
            title: "Here: fake Data at the good consumer",
            x: time(),
            y: Axis { label: "per second", scale: Scale::Linear },
            style: Style::Lines,
            lines: vec![line("fake Data", &poisoning.fakes_per_s)],
        },
        Chart {
            title: "Here: processor time",
            x: time(),
            y: Axis { label: "% of a core", scale: Scale::Linear },
            style: Style::Lines,
            lines: cpu.collect(),
        },
    ]
}

fn charts(scaling: &Scaling, paper: &Paper) -> Vec<Chart> {
    let time = Axis { label: "seconds since the load began", scale: Scale::Linear };
    let percent = Axis { label: "% of a core", scale: Scale::Linear };
    let mbit = || Axis { label: "Mbit/s", scale: Scale::Linear };
    let levels = paper.number["scaling_mbit"].values.iter().enumerate();
    let columns = Axis { label: "backward routers", scale: Scale::Columns(&["1", "2", "3"]) };
    let cpu = INSTANCES.iter().filter_map(|(name, label)| {
        Some(Line { label, points: scaling.cpu_percent.get(*name)?.clone() })
    });
    let lines = |label, points| vec![Line { label, points }];
    vec![
        Chart {
            title: "The paper: levels of figure 5",
            x: columns,
            y: mbit(),
            style: Style::Beside,
            lines: lines("throughput", levels.map(|(at, value)| (at as f64, *value)).collect()),
        },
        Chart {
            title: "Here: throughput",
            x: time.clone(),
            y: mbit(),
            style: Style::Lines,
            lines: lines("throughput", scaling.mbit.clone()),
        },
        Chart {
            title: "Here: processor time",
            x: time,
            y: percent,
            style: Style::Lines,
            lines: cpu.collect(),
        },
    ]
}
