//! Output of all commands: text for people, JSON for programs.
//!
//! All output goes through this module, for two reasons: a closed pipe or a full disk becomes an
//! error that the command can handle, and escape sequences in text from the network can't control
//! the terminal.

use anyhow::Result;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal, StdoutLock, Write};

/// Writes a line of text to standard output. Evaluates to an `io::Result`.
macro_rules! outln {
    () => { $crate::output::text(format_args!("\n")) };
    ($($part:tt)*) => { $crate::output::line(format_args!($($part)*)) };
}

/// Writes text to standard output. Evaluates to an `io::Result`.
macro_rules! out {
    ($($part:tt)*) => { $crate::output::text(format_args!($($part)*)) };
}

/// Writes a line to standard error. Failures are ignored, as they could not be reported.
macro_rules! note {
    ($($part:tt)*) => { $crate::output::note(format_args!($($part)*)) };
}

/// Standard output. [`failure`] recognises its errors.
pub struct Output(StdoutLock<'static>);

/// Returns standard output, for bytes that are written unchanged.
pub fn stdout() -> Output {
    Output(io::stdout().lock())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(OutputError::wrap)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(OutputError::wrap)
    }
}

/// Error: standard output can't be written.
#[derive(Debug)]
struct OutputError(io::Error);

impl OutputError {
    fn wrap(error: io::Error) -> io::Error {
        io::Error::new(error.kind(), OutputError(error))
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't write to standard output: {}", self.0)
    }
}

impl std::error::Error for OutputError {}

/// Returns the error kind if `error` is about standard output. Socket errors of the same kinds do
/// not count.
pub fn failure(error: &anyhow::Error) -> Option<io::ErrorKind> {
    error.chain().find_map(|cause| {
        let error = cause.downcast_ref::<io::Error>()?;
        error.get_ref().is_some_and(|inner| inner.is::<OutputError>()).then(|| error.kind())
    })
}

/// Writes text for people to standard output.
pub fn text(text: fmt::Arguments<'_>) -> io::Result<()> {
    stdout().write_all(printable(&text.to_string()).as_bytes())
}

/// Writes a line for people to standard output.
pub fn line(text: fmt::Arguments<'_>) -> io::Result<()> {
    let mut line = printable(&text.to_string());
    line.push('\n');
    stdout().write_all(line.as_bytes())
}

/// Writes help to standard output, with colours on a terminal.
pub fn print(help: &clap::Error) -> io::Result<()> {
    help.print().map_err(OutputError::wrap)?;
    stdout().flush()
}

/// Writes a line for people to standard error.
pub fn note(text: fmt::Arguments<'_>) {
    let mut line = printable(&text.to_string());
    line.push('\n');
    let _ = io::stderr().lock().write_all(line.as_bytes());
}

/// Makes control characters visible, except line ends and tabs, so that text can't control the
/// terminal.
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

/// Makes all control characters visible, including line ends and tabs.
pub fn printable_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, is_allowed: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // Control characters, and bidirectional formatting that reorders the surrounding text.
        let is_control = c.is_control()
            || matches!(
                c,
                '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            );
        match is_control && !is_allowed(c) {
            true => {
                let _ = write!(escaped, "{}", c.escape_default());
            }
            false => escaped.push(c),
        }
    }
    escaped
}

/// Returns an error with its causes as one sentence. Many errors include their cause in their own
/// text; such repetitions are left out.
pub fn describe(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        match parts.last_mut() {
            Some(last) if last.contains(&cause) => {}
            Some(last) if cause.contains(last.as_str()) => *last = cause,
            _ => parts.push(cause),
        }
    }
    parts.join(": ")
}

/// Writes a value as JSON on a line of its own.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = stdout();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// Writes a table with the header in the first row. Columns are as wide as their widest cell; a
/// narrow terminal wraps lines.
pub fn table(rows: &[Vec<String>]) -> Result<()> {
    Ok(stdout().write_all(table_text(rows, None, &[]).as_bytes())?)
}

/// Writes a table. On a terminal that is too narrow the `optional` columns are left out, in this
/// order, as far as needed; then cells are shortened.
pub fn fitting_table(rows: &[Vec<String>], optional: &[usize]) -> Result<()> {
    let width = match io::stdout().is_terminal() {
        true => ratatui::crossterm::terminal::size().ok().map(|(columns, _)| usize::from(columns)),
        false => None,
    };
    Ok(stdout()
        .write_all(table_text(rows, width.filter(|width| *width > 0), optional).as_bytes())?)
}

/// Spaces between two columns.
const GAP: usize = 2;
/// Minimum width of a shortened cell, characters.
const CELL_MIN: usize = 12;

fn table_text(rows: &[Vec<String>], max: Option<usize>, optional: &[usize]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable_line(cell)).collect()).collect();
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let mut columns: Vec<(usize, usize)> =
        (0..count).map(|column| (column, width(column))).collect();
    if let Some(max) = max {
        fit(&mut columns, max, optional);
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> = columns
            .iter()
            .filter_map(|(column, width)| {
                row.get(*column).map(|cell| format!("{:width$}", shorten(cell, *width)))
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Reduces `columns`, given as (index, width), to a total width of `max`: first removes optional
/// columns, then narrows the widest.
fn fit(columns: &mut Vec<(usize, usize)>, max: usize, optional: &[usize]) {
    fn total(columns: &[(usize, usize)]) -> usize {
        columns.iter().map(|(_, width)| width).sum::<usize>()
            + GAP * columns.len().saturating_sub(1)
    }
    for column in optional {
        if total(columns) <= max {
            return;
        }
        columns.retain(|(index, _)| index != column);
    }
    while total(columns) > max {
        match columns.iter_mut().max_by_key(|(_, width)| *width) {
            Some((_, width)) if *width > CELL_MIN => *width -= 1,
            _ => return,
        }
    }
}

/// Shortens a text to `width` characters by removing its middle.
fn shorten(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let end = (width - 1) / 2;
    let head: String = text.chars().take(width - 1 - end).collect();
    let tail: String = text.chars().skip(count - end).collect();
    format!("{head}…{tail}")
}

/// Returns a row of a table.
pub fn row<const N: usize>(cells: [&dyn std::fmt::Display; N]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// Returns a number with a noun in singular or plural: 1 packet, 2 packets.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Returns a duration with a suitable unit: 850 µs, 12.30 ms, 4.50 s.
pub fn duration_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.2} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn durations_and_counts_have_units() {
        assert_eq!(duration_us(850), "850 µs");
        assert_eq!(duration_us(12_340), "12.34 ms");
        assert_eq!(duration_us(4_500_000), "4.50 s");
        assert_eq!(
            (count(1, "packet"), count(0, "packet")),
            ("1 packet".into(), "0 packets".into())
        );
    }

    #[test]
    fn describe_leaves_out_repeated_causes() {
        let full = || io::Error::from_raw_os_error(28);
        let error =
            anyhow::Error::new(full()).context(format!("can't write: {}", full())).context("a.bin");
        assert_eq!(describe(&error), "a.bin: can't write: No space left on device (os error 28)");
        let repeated =
            Err::<(), _>(anyhow!("x is no face URI: it has no scheme")).context("x is no face URI");
        assert_eq!(describe(&repeated.unwrap_err()), "x is no face URI: it has no scheme");
        assert_eq!(describe(&anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn failure_ignores_socket_errors() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let output = anyhow::Error::from(OutputError::wrap(broken())).context("while listing");
        assert_eq!(failure(&output), Some(io::ErrorKind::BrokenPipe));
        assert_eq!(failure(&anyhow::Error::from(broken()).context("the router")), None);
    }

    #[test]
    fn printable_shows_escapes_and_keeps_rows_on_one_line() {
        assert_eq!(
            printable("a\x1b[31mb\n\tc\u{9b}\u{202e}"),
            "a\\u{1b}[31mb\n\tc\\u{9b}\\u{202e}"
        );
        let rows = [vec!["unix:///x\ny".into(), "1".into()], vec!["é".into(), "2".into()]];
        let text = table_text(&rows, None, &[]);
        assert_eq!(text, "unix:///x\\ny  1\né             2\n");
    }

    #[test]
    fn table_fits_a_narrow_terminal() {
        let rows =
            [row([&"id", &"peer", &"bytes"]), row([&256, &"udp4://192.0.2.100:6363", &123_456])];
        let fitted = |width| table_text(&rows, Some(width), &[2]);
        assert_eq!(fitted(80).lines().nth(1), Some("256  udp4://192.0.2.100:6363  123456"));
        assert_eq!(fitted(30).lines().nth(1), Some("256  udp4://192.0.2.100:6363"));
        assert_eq!(fitted(20).lines().nth(1), Some("256  udp4://…00:6363"));
        assert_eq!(fitted(5).lines().nth(1), Some("256  udp4:/…:6363"));
    }
}
