//! Progress bars on a terminal; hidden elsewhere.

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// Returns a bar over bytes, or a spinner if `total` is `None`, on standard error.
pub fn bytes(total: Option<u64>, quiet: bool) -> ProgressBar {
    let target = if quiet || !stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(8)
    };
    let bar = ProgressBar::with_draw_target(total, target);
    let style = match total {
        Some(_) => "{bar:32} {bytes:>10} of {total_bytes}  {bytes_per_sec}  {eta} left  {msg}",
        None => "{spinner} {bytes:>10}  {bytes_per_sec}  {msg}",
    };
    bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns the progress of a transfer, on standard error: a spinner, and a bar once the number of
/// segments is known.
pub fn transfer(quiet: bool) -> ProgressBar {
    let bar = bytes(None, quiet);
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a constant template"));
    bar
}

/// Updates the progress of a transfer. `segments`: number transferred, and total if known.
pub fn show_transfer(
    bar: &ProgressBar,
    bytes: u64,
    elapsed: Duration,
    segments: (u64, Option<u64>),
) {
    if bar.is_hidden() {
        return;
    }
    let rate = bytes as f64 * 8.0 / elapsed.as_secs_f64().max(1e-3) / 1e6;
    bar.set_message(format!("{} at {rate:.1} Mbit/s", HumanBytes(bytes)));
    if let (done, Some(total)) = segments {
        if bar.length() != Some(total) {
            let style = "{bar:32} {percent:>3} %  {msg}  {eta} left";
            bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
            bar.set_length(total);
        }
        bar.set_position(done);
    }
}

/// Returns a bar over `total` steps, on standard error.
pub fn parts(total: u64, quiet: bool) -> ProgressBar {
    let bar = bytes(Some(total), quiet);
    bar.set_style(
        ProgressStyle::with_template("{bar:32} {percent} %  {eta} left")
            .expect("a constant template"),
    );
    bar
}

/// Returns a spinner with elapsed and planned time, on standard error.
pub fn time(planned: Duration, quiet: bool) -> ProgressBar {
    let bar = bytes(None, quiet);
    let style = "{spinner} measuring: {elapsed} of {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
    bar.set_message(format!("{} s", planned.as_secs_f64()));
    bar
}
