//! The log: its format, and levels that can be changed at run time.

use anyhow::{Result, anyhow};
use nw_api::config::{Config, LOG_PARTS, LogFormat};
use nw_rest_api::LogSwitch;
use std::sync::{Arc, Mutex, PoisonError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

/// The levels of the log. Clones control the same log.
#[derive(Clone)]
pub struct Levels {
    switch: reload::Handle<EnvFilter, Registry>,
    filter: Arc<Mutex<String>>,
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
        tracing_subscriber::registry().with(layer).with(lines).init();
        Ok(Levels { switch, filter: Arc::new(Mutex::new(filter.to_owned())) })
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
