//! Writer of metrics in the Prometheus text format, version 0.0.4. Escapes the values of labels.

use core::fmt::{Display, Write};

/// The HTTP content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics as text, in the order in which they are written.
///
/// ```
/// let mut text = nw_api::exposition::Exposition::default();
/// text.family("nw_routes", "gauge", "Routes.");
/// text.sample("nw_routes", &[("origin", &"static")], 3);
/// assert!(text.finish().ends_with("nw_routes{origin=\"static\"} 3\n"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Creates an empty text with space for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Exposition(String::with_capacity(bytes))
    }

    /// Starts a metric. `kind` is `counter` or `gauge`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes one sample of the metric started last. `labels` are names and values.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            for c in value.to_string().chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// Starts a metric without labels and writes its only sample.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.0
    }
}
