//! The log: its format, and levels that can be changed at run time.

use anyhow::{Result, anyhow};
use nw_api::config::{Config, LOG_PARTS, LogFormat};
use nw_api::rest::LogLine;
use nw_rest_api::LogSwitch;
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// Lines of the log that are kept for the page.
const LINES_MAX: usize = 500;
/// Longest kept line, bytes.
const LINE_BYTES_MAX: usize = 1000;

/// The last lines of the log.
#[derive(Clone, Default)]
struct RecentLines(Arc<Mutex<VecDeque<LogLine>>>);

impl<S: tracing::Subscriber> Layer<S> for RecentLines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut text = LineText::default();
        event.record(&mut text);
        let target = event.metadata().target();
        let part = target.strip_prefix("nw_").unwrap_or(target).split(':').next().unwrap_or("");
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seq = lines.back().map_or(1, |line| line.seq + 1);
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(LogLine {
            seq,
            at_ms: at.as_millis() as u64,
            level: event.metadata().level().as_str().to_ascii_lowercase(),
            part: part.to_owned(),
            text: text.finish(),
        });
    }
}

/// Warnings that a command without a log shows: the sender of what causes them may be anyone.
const WARNINGS_MAX: u32 = 20;

/// Writes warnings of this project's crates to standard error as plain lines.
#[derive(Default)]
struct Warnings(AtomicU32);

impl Warnings {
    /// Returns the line that is to be shown for an event.
    fn line(&self, event: &tracing::Event<'_>) -> Option<String> {
        let metadata = event.metadata();
        if *metadata.level() > tracing::Level::WARN || !metadata.target().starts_with("nw") {
            return None;
        }
        let shown = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |shown| {
            (shown <= WARNINGS_MAX).then_some(shown + 1)
        });
        if shown.ok()? == WARNINGS_MAX {
            return Some("nw: warnings that follow are not shown".to_owned());
        }
        let mut text = LineText::default();
        event.record(&mut text);
        Some(format!("nw: {}", text.finish()))
    }
}

impl<S: tracing::Subscriber> Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if let Some(line) = self.line(event) {
            note!("{line}");
        }
    }
}

/// Shows warnings of a command on standard error, unless it has started a log.
pub fn show_warnings() {
    let _ = tracing_subscriber::registry().with(Warnings::default()).try_init();
}

/// Message and fields of an event as text.
#[derive(Default)]
struct LineText {
    message: String,
    fields: String,
}

impl LineText {
    fn finish(self) -> String {
        let mut text = self.message + &self.fields;
        let end = (0..=LINE_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text
    }
}

impl Visit for LineText {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            name => drop(write!(self.fields, " {name}={value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn core::fmt::Debug) {
        match field.name() {
            "message" => drop(write!(self.message, "{value:?}")),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }
}

/// The levels of the log. Clones control the same log.
#[derive(Clone)]
pub struct Levels {
    switch: reload::Handle<EnvFilter, Registry>,
    filter: Arc<Mutex<String>>,
    recent: RecentLines,
}

impl Levels {
    /// Starts logging to standard error.
    pub fn start(filter: &str, format: LogFormat) -> Result<Self> {
        let parsed = parse(filter).map_err(|why| anyhow!(why))?;
        let (layer, switch) = reload::Layer::new(parsed);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(std::io::stderr)
            // If the log can't be written, the library would report that on standard error and
            // panic.
            .log_internal_errors(false);
        let lines = match format {
            LogFormat::Text => {
                let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
                lines.with_ansi(terminal).with_target(false).boxed()
            }
            LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
        };
        let recent = RecentLines::default();
        tracing_subscriber::registry().with(layer).with(lines).with(recent.clone()).init();
        Ok(Levels { switch, filter: Arc::new(Mutex::new(filter.to_owned())), recent })
    }

    /// Checks a filter without logging anything.
    pub fn check(filter: &str) -> Result<()> {
        parse(filter).map(drop).map_err(|why| anyhow!(why))
    }

    /// Returns the filter of a configuration.
    pub fn of(config: &Config) -> &str {
        config.log.level.as_str()
    }
}

impl LogSwitch for Levels {
    fn lines(&self, after: u64) -> Vec<LogLine> {
        let lines = self.recent.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.seq > after).cloned().collect()
    }

    fn filter(&self) -> String {
        self.filter.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, filter: &str) -> Result<(), String> {
        let parsed = parse(filter)?;
        self.switch.reload(parsed).map_err(|error| error.to_string())?;
        *self.filter.lock().unwrap_or_else(PoisonError::into_inner) = filter.to_owned();
        tracing::info!(filter, "log levels changed");
        Ok(())
    }
}

/// Returns the crate that logs for a part of the program; other targets are returned as they are.
fn crate_of(part: &str) -> String {
    match part.strip_prefix("nw_").unwrap_or(part) {
        "element" => "nw_element_api".to_owned(),
        "rest" => "nw_rest_api".to_owned(),
        name if LOG_PARTS.contains(&name) => format!("nw_{name}"),
        _ => part.to_owned(),
    }
}

/// Parses a filter such as `info,router=debug`. Parts of the program have short names; the default
/// level is info.
fn parse(filter: &str) -> Result<EnvFilter, String> {
    let mut directives = Vec::new();
    let mut has_default = false;
    for directive in filter.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let (target, level) = match directive.split_once('=') {
            Some((target, level)) => (Some(target.trim()), level.trim()),
            None => (None, directive),
        };
        let is_level = ["off", "error", "warn", "info", "debug", "trace"].contains(&level);
        match target {
            Some(target) if is_level => {
                let part = target.split(['[', ':']).next().unwrap_or("");
                let inner = &target[part.len()..];
                directives.push(format!("{}{inner}={level}", crate_of(part)));
            }
            None if is_level => {
                has_default = true;
                directives.push(level.to_owned());
            }
            _ => {
                return Err(format!(
                    "{directive:?} is no log level: use error, warn, info, debug, trace, off, or a \
                     level for a part such as router=debug"
                ));
            }
        }
    }
    if !has_default {
        directives.insert(0, "info".to_owned());
    }
    EnvFilter::try_new(directives.join(","))
        .map_err(|error| format!("{filter:?} is not a log filter: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, LINES_MAX, RecentLines, WARNINGS_MAX, Warnings};
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::Layer;
    use tracing_subscriber::layer::{Context, SubscriberExt};

    /// Keeps the lines that would be shown.
    #[derive(Clone, Default)]
    struct Shown(Arc<Warnings>, Arc<Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> Layer<S> for Shown {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            self.1.lock().unwrap().extend(self.0.line(event));
        }
    }

    #[test]
    fn warnings_of_commands_are_shown_and_bounded() {
        let shown = Shown::default();
        let subscriber = tracing_subscriber::registry().with(shown.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("not shown");
            tracing::warn!(target: "rustls", "not shown");
            (0..100).for_each(|at| tracing::warn!(at, "can't reply"));
        });
        let lines = shown.1.lock().unwrap();
        assert_eq!(lines.len(), WARNINGS_MAX as usize + 1);
        assert_eq!(lines[0], "nw: can't reply at=0");
        assert_eq!(lines.last().unwrap(), "nw: warnings that follow are not shown");
    }

    #[test]
    fn recent_lines_have_message_and_fields_and_are_bounded() {
        let recent = RecentLines::default();
        let subscriber = tracing_subscriber::registry().with(recent.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("first");
            (0..LINES_MAX).for_each(|_| tracing::info!("{}", "é".repeat(LINE_BYTES_MAX)));
        });
        let lines = recent.0.lock().unwrap();
        assert_eq!(lines.len(), LINES_MAX);
        assert_eq!(lines[0].seq, 2, "the first line was removed");
        assert!(lines[0].text.len() <= LINE_BYTES_MAX);
        drop(lines);
        let recent = RecentLines::default();
        tracing::subscriber::with_default(
            tracing_subscriber::registry().with(recent.clone()),
            || tracing::warn!(face = 7, uri = %"udp4://192.0.2.1", "can't send"),
        );
        let lines = recent.0.lock().unwrap();
        assert_eq!(lines[0].text, "can't send face=7 uri=udp4://192.0.2.1");
        assert_eq!(lines[0].level, "warn");
    }

    #[test]
    fn parse_accepts_levels_and_short_names_of_parts() {
        let shown = |filter: &str| super::parse(filter).map(|filter| filter.to_string());
        assert_eq!(shown("debug").unwrap(), "debug");
        let one = shown("router=debug").unwrap();
        assert!(one.contains("nw_router=debug") && one.contains("info"), "{one}");
        let two = shown("warn, nw_faces=trace ,rest=off").unwrap();
        assert!(
            two.contains("nw_faces=trace")
                && two.contains("nw_rest_api=off")
                && two.contains("warn"),
            "{two}"
        );
        for wrong in ["loud", "router=loud", "=", "router="] {
            assert!(shown(wrong).unwrap_err().contains("no log level"), "{wrong}");
        }
    }
}
