//! Small charts as SVG: lines or bars over two labelled axes. Written by hand, as all that is
//! needed are paths, ticks and text.

use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 72.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 50.0;
/// Told apart by people who do not see all colours (Okabe and Ito), and by their dashes.
const STROKES: [(&str, &str); 7] = [
    ("#0072b2", "none"),
    ("#d55e00", "6 3"),
    ("#555555", "2 3"),
    ("#009e73", "9 3"),
    ("#cc79a7", "4 2"),
    ("#e69f00", "10 3 2 3"),
    ("#56b4e9", "3 2"),
];
/// Pixels of a row of the legend, where it does not fit beside the title.
const LEGEND_ROW: f64 = 17.0;

/// How values lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences. Begins at 0.
    Linear,
    /// Equal steps are equal ratios.
    Log,
    /// Shares of 1, by nines: 0.9, 0.99 and 0.999 are equal steps.
    Nines,
    /// A column for each of these, to the right; the values are 0, 1, 2 …
    Columns(&'static [&'static str]),
}

/// One axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: &'static str,
    /// How.
    pub scale: Scale,
}

/// Values to draw.
#[derive(Clone, Debug)]
pub struct Line {
    /// As the legend calls it.
    pub label: &'static str,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
}

/// How a chart draws its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// From point to point.
    Lines,
    /// A bar from each point's x to the next one's; the last point ends the last bar.
    Bars,
    /// A bar in each column for each line, side by side; x is [`Scale::Columns`].
    Beside,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: &'static str,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// How the values are drawn.
    pub style: Style,
    /// Lines with their values.
    pub lines: Vec<Line>,
}

/// An axis with its ends, in pixels.
struct Ruler {
    scale: Scale,
    ticks: Vec<(f64, String)>,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Ruler {
    fn new(scale: Scale, values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        values.filter(|value| value.is_finite()).for_each(|value| {
            low = low.min(value);
            high = high.max(value);
        });
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        let (ticks, from, to) = match scale {
            Scale::Linear => linear(high),
            Scale::Log => log(low, high),
            Scale::Nines => nines(high),
            Scale::Columns(names) => columns(names),
        };
        let (from, to) = (place(scale, from), place(scale, to));
        Ruler { scale, ticks, from, to, start, end }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (place(self.scale, value) - self.from) / (self.to - self.from);
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }
}

fn place(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear | Scale::Columns(_) => value,
        Scale::Log => value.max(1e-9).log10(),
        Scale::Nines => -(1.0 - value).max(1e-9).log10(),
    }
}

/// Four to eight ticks of 1, 2 or 5 times a power of ten.
fn linear(high: f64) -> (Vec<(f64, String)>, f64, f64) {
    let high = if high > 0.0 { high } else { 1.0 };
    let power = 10f64.powf((high / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .rfind(|step| high / step >= 3.5)
        .unwrap_or(power);
    let count = (high / step).ceil();
    let ticks =
        (0..=count as u32).map(|i| f64::from(i) * step).map(|tick| (tick, number(tick))).collect();
    (ticks, 0.0, count * step)
}

/// Powers of ten, and 2 and 5 times these where there are few.
fn log(low: f64, high: f64) -> (Vec<(f64, String)>, f64, f64) {
    let low = low.max(1e-3);
    let high = high.max(low * 1.01);
    let few = (high / low).log10() < 2.0;
    let mantissas: &[f64] = if few { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let mut ticks: Vec<f64> =
        (first..=last).flat_map(|p| mantissas.iter().map(move |m| m * 10f64.powi(p))).collect();
    let from = ticks.iter().copied().rfind(|tick| *tick <= low * 1.0001).unwrap_or(low);
    let to = ticks.iter().copied().find(|tick| *tick >= high * 0.9999).unwrap_or(high);
    ticks.retain(|tick| (from..=to).contains(tick));
    (ticks.into_iter().map(|tick| (tick, number(tick))).collect(), from, to)
}

fn nines(high: f64) -> (Vec<(f64, String)>, f64, f64) {
    let all = [
        (0.0, "0"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
    ];
    let ticks: Vec<_> = all
        .into_iter()
        .filter(|(share, _)| *share <= high + 1e-12)
        .map(|(share, text)| (share, text.to_owned()))
        .collect();
    (ticks, 0.0, high.max(0.9))
}

/// A column's name stands in its middle.
fn columns(names: &[&str]) -> (Vec<(f64, String)>, f64, f64) {
    let ticks =
        names.iter().enumerate().map(|(at, name)| (at as f64, (*name).to_owned())).collect();
    (ticks, -0.5, names.len().max(1) as f64 - 0.5)
}

/// As short as can be read: 250, 1.5 k, 2 M.
fn number(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e4 => (v / 1e3, " k"),
        v => (v, ""),
    };
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

impl Chart {
    /// The element, to stand in an HTML page.
    pub fn svg(&self) -> String {
        self.svg_on_scale_of(&[])
    }

    /// The same, with the vertical scale that also holds the values of those of `others` that show
    /// the same quantity.
    pub fn svg_on_scale_of(&self, others: &[Chart]) -> String {
        let legend = self.legend();
        let (top, height) = (TOP + legend.room, HEIGHT + legend.room);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Ruler::new(self.x.scale, points().map(|(x, _)| *x), LEFT, WIDTH - RIGHT);
        let alike = others
            .iter()
            .filter(|other| (other.y.label, other.y.scale) == (self.y.label, self.y.scale));
        let theirs = alike.flat_map(|other| &other.lines).flat_map(|line| &line.points);
        let values = points().chain(theirs).map(|(_, y)| *y);
        let y = Ruler::new(self.y.scale, values, height - BOTTOM, top);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\">\n<text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>\n",
            title = self.title
        );
        self.axes(&x, &y, &mut out);
        for (at, (line, (colour, dashes))) in
            self.lines.iter().zip(STROKES.iter().cycle()).enumerate()
        {
            match self.style {
                Style::Lines => lines(line, &x, &y, colour, dashes, &mut out),
                Style::Bars => bars(line, &x, &y, colour, &mut out),
                Style::Beside => beside(line, (at, self.lines.len()), &x, &y, colour, &mut out),
            }
        }
        out.push_str(&legend.drawn);
        if points().next().is_none() {
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">nothing was answered</text>",
                WIDTH / 2.0,
                height / 2.0
            );
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, x: &Ruler, y: &Ruler, out: &mut String) {
        let (bottom, top, right) = (y.start, y.end, WIDTH - RIGHT);
        for (value, text) in &y.ticks {
            let at = y.at(*value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for (value, text) in &x.ticks {
            let at = x.at(*value);
            if !matches!(x.scale, Scale::Columns(_)) {
                let _ = write!(
                    out,
                    "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"
                );
            }
            let _ = writeln!(
                out,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
        }
        let middle = (top + bottom) / 2.0;
        let _ = writeln!(
            out,
            "<path class=\"axis\" d=\"M{LEFT} {top}V{bottom}H{right}\"/>\n<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text class=\"label\" x=\"16\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {middle})\">{}</text>",
            (LEFT + right) / 2.0,
            bottom + 40.0,
            self.x.label,
            self.y.label
        );
    }

    /// Beside the title, right-aligned, where there is room; else in rows of its own below it.
    fn legend(&self) -> Legend {
        if self.lines.len() < 2 {
            return Legend::default();
        }
        // About seven pixels a letter, eight of the title's.
        let width = |line: &Line| 7.0 * line.label.chars().count() as f64 + 40.0;
        let title = LEFT + 8.0 * self.title.chars().count() as f64;
        let all: f64 = self.lines.iter().map(width).sum();
        let mut legend = Legend::default();
        let (mut x, mut y) = (WIDTH - RIGHT - all, 16.0);
        if x < title {
            (x, y, legend.room) = (LEFT, 16.0 + LEGEND_ROW, LEGEND_ROW);
        }
        for (line, (colour, dashes)) in self.lines.iter().zip(STROKES.iter().cycle()) {
            if x + width(line) > WIDTH {
                (x, y, legend.room) = (LEFT, y + LEGEND_ROW, legend.room + LEGEND_ROW);
            }
            let (sample, broad) =
                if self.style == Style::Lines { (*dashes, 2) } else { ("none", 8) };
            let _ = writeln!(
                legend.drawn,
                "<line x1=\"{x}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"{broad}\" stroke-dasharray=\"{sample}\"/><text x=\"{}\" y=\"{y}\">{}</text>",
                x + 22.0,
                y - 4.0,
                y - 4.0,
                x + 27.0,
                line.label
            );
            x += width(line);
        }
        legend
    }
}

/// What tells the lines apart, and the pixels it takes below the title.
#[derive(Default)]
struct Legend {
    drawn: String,
    room: f64,
}

fn lines(line: &Line, x: &Ruler, y: &Ruler, colour: &str, dashes: &str, out: &mut String) {
    let mut path = String::new();
    for (i, (a, b)) in line.points.iter().enumerate() {
        let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x.at(*a), y.at(*b));
    }
    if !path.is_empty() {
        let _ = writeln!(
            out,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
        );
    }
}

fn bars(line: &Line, x: &Ruler, y: &Ruler, colour: &str, out: &mut String) {
    for pair in line.points.windows(2) {
        let ((from, value), (to, _)) = (pair[0], pair[1]);
        let (left, right, top) = (x.at(from), x.at(to), y.at(value));
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            (right - left - 0.5).max(0.5),
            (y.start - top).max(0.0)
        );
    }
}

/// The bars of the `at`-th of `all` lines. A column's bars take four fifths of it.
fn beside(
    line: &Line,
    (at, all): (usize, usize),
    x: &Ruler,
    y: &Ruler,
    colour: &str,
    out: &mut String,
) {
    let column = x.at(1.0) - x.at(0.0);
    let width = 0.8 * column / all as f64;
    for (number, value) in &line.points {
        let left = x.at(*number) - 0.4 * column + at as f64 * width;
        let top = y.at(*value);
        let _ = writeln!(
            out,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            (width - 1.0).max(0.5),
            (y.start - top).max(0.0)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round_and_few() {
        for high in [0.0, 0.3, 1.0, 7.0, 999.0, 1001.0, 123_456.0, 9.9e9] {
            let (ticks, _, to) = linear(high);
            assert!((3..=10).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(to >= high);
        }
        let (ticks, from, to) = log(37.0, 84_000.0);
        assert_eq!((from, to), (10.0, 100_000.0));
        assert_eq!(ticks.len(), 5);
    }

    #[test]
    fn legends_keep_clear_of_titles() {
        let line = |label| Line { label, points: vec![(0.0, 1.0), (1.0, 2.0)] };
        let axis = |scale| Axis { label: "x", scale };
        let chart = |title, lines| Chart {
            title,
            x: axis(Scale::Columns(&["one", "two"])),
            y: axis(Scale::Linear),
            style: Style::Beside,
            lines,
        };
        let short = chart("short", vec![line("here"), line("paper")]).svg();
        assert!(short.contains("viewBox=\"0 0 560 300\"") && short.contains(">two</text>"));
        assert_eq!(short.matches("<rect").count(), 4);
        let long = "a title that leaves no room for what tells the lines apart";
        let labels = ["no cluster", "1 member", "2 members", "3 members", "4 members", "paper"];
        let many = chart(long, labels.map(line).to_vec()).svg();
        assert!(many.contains("viewBox=\"0 0 560 334\""), "two rows more: {many}");
        assert!(labels.iter().all(|label| many.contains(&format!(">{label}</text>"))));
    }

    proptest! {
        /// Any values, also none or equal ones, make an element with numbers only.
        #[test]
        fn charts_hold_no_nonsense(
            values in proptest::collection::vec((0f64..1e9, 0f64..1e9), 0..50),
            kind in 0usize..3,
        ) {
            let scale = [Scale::Linear, Scale::Log, Scale::Nines][kind];
            let y = if scale == Scale::Nines { Scale::Log } else { scale };
            let divisor = if scale == Scale::Nines { 1e9 } else { 1.0 };
            let points = values.into_iter().map(|(x, y)| (x / divisor, y)).collect();
            let chart = Chart {
                title: "t",
                x: Axis { label: "x (s)", scale },
                y: Axis { label: "y (µs)", scale: y },
                style: Style::Lines,
                lines: vec![Line { label: "l", points }],
            };
            let svg = chart.svg();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            prop_assert!(svg.ends_with("</svg>\n"));
        }
    }
}
