//! Text for people, JSON for programs. All output of the command goes through this module, so that a reader that ends early and a full disk are
//! errors that the command can report, and so that text of others can't command the terminal.

use anyhow::Result;
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::io::{self, StdoutLock, Write};

/// Writes a line of text to standard output; an `io::Result`.
macro_rules! outln {
    () => { $crate::output::text(format_args!("\n")) };
    ($($part:tt)*) => { $crate::output::line(format_args!($($part)*)) };
}

/// Writes text to standard output; an `io::Result`.
macro_rules! out {
    ($($part:tt)*) => { $crate::output::text(format_args!($($part)*)) };
}

/// Writes a line to standard error. Where that fails there is no place left to report it.
macro_rules! note {
    ($($part:tt)*) => { $crate::output::note(format_args!($($part)*)) };
}

/// Standard output. Its errors are recognised by [`failure`].
pub struct Output(StdoutLock<'static>);

/// Standard output, for bytes that are written as they are.
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

/// Standard output can't be written.
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

/// What went wrong at standard output, if that is what `error` is about. Errors of sockets have the same kinds and are something else.
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

/// Writes help, with colours on a terminal.
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

/// `text` without what a terminal obeys: escape sequences become visible, lines and tabs stay.
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

/// As [`printable`], in one line.
pub fn printable_line(text: &str) -> String {
    escape(text, |_| false)
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len() + 1);
    for c in text.chars() {
        // The second kind reorders what is shown around it.
        let commands = c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match commands && !stays(c) {
            true => {
                let _ = write!(shown, "{}", c.escape_default());
            }
            false => shown.push(c),
        }
    }
    shown
}

/// An error with its causes as one sentence. Causes that repeat what stands beside them are left out: many errors show their cause themselves.
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

/// One JSON object on a line of its own.
pub fn json_line(value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    let mut out = stdout();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// Columns as wide as their widest cell. The first row is the head.
pub fn table(rows: &[Vec<String>]) -> Result<()> {
    Ok(stdout().write_all(table_text(rows).as_bytes())?)
}

fn table_text(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| printable_line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A head or row of a table.
pub fn row<const N: usize>(cells: [&dyn std::fmt::Display; N]) -> Vec<String> {
    cells.iter().map(|cell| cell.to_string()).collect()
}

/// A number of things: 1 packet, 2 packets.
pub fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A duration as people say it: 850 µs, 12.3 ms, 4.5 s.
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
    fn durations_read_well() {
        assert_eq!(duration_us(850), "850 µs");
        assert_eq!(duration_us(12_340), "12.34 ms");
        assert_eq!(duration_us(4_500_000), "4.50 s");
        assert_eq!((count(1, "packet"), count(0, "packet")), ("1 packet".into(), "0 packets".into()));
    }

    #[test]
    fn describe_repeated_causes_once() {
        let full = || io::Error::from_raw_os_error(28);
        let shown = anyhow::Error::new(full()).context(format!("can't write: {}", full())).context("a.bin");
        assert_eq!(describe(&shown), "a.bin: can't write: No space left on device (os error 28)");
        let thrice = Err::<(), _>(anyhow!("x is no face URI: it has no scheme")).context("x is no face URI");
        assert_eq!(describe(&thrice.unwrap_err()), "x is no face URI: it has no scheme");
        assert_eq!(describe(&anyhow!("inner").context("outer")), "outer: inner");
    }

    #[test]
    fn failure_output_is_told_from_sockets() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let output = anyhow::Error::from(OutputError::wrap(broken())).context("while listing");
        assert_eq!(failure(&output), Some(io::ErrorKind::BrokenPipe));
        assert_eq!(failure(&anyhow::Error::from(broken()).context("the router")), None);
    }

    #[test]
    fn printable_escapes_are_shown_and_rows_stay_one_line() {
        assert_eq!(printable("a\x1b[31mb\n\tc\u{9b}\u{202e}"), "a\\u{1b}[31mb\n\tc\\u{9b}\\u{202e}");
        let text = table_text(&[vec!["unix:///x\ny".into(), "1".into()], vec!["é".into(), "2".into()]]);
        assert_eq!(text, "unix:///x\\ny  1\né             2\n");
    }
}
