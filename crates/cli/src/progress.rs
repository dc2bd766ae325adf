//! Progress on a terminal; nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::time::Duration;

/// A bar over octets (a spinner while their number is not known), on standard error.
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

/// A bar over parts of one thing, on standard error.
pub fn parts(total: u64, quiet: bool) -> ProgressBar {
    let bar = bytes(Some(total), quiet);
    bar.set_style(
        ProgressStyle::with_template("{bar:32} {percent} %  {eta} left").expect("a constant template"),
    );
    bar
}

/// A spinner with the time that something takes, on standard error.
pub fn time(planned: Duration, quiet: bool) -> ProgressBar {
    let bar = bytes(None, quiet);
    let style = "{spinner} measuring: {elapsed} of {msg}";
    bar.set_style(ProgressStyle::with_template(style).expect("a constant template"));
    bar.set_message(format!("{} s", planned.as_secs_f64()));
    bar
}
