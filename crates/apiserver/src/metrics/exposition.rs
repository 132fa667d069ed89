//! Prometheus' text format, for families whose values are read from the server's state at each scrape.

use std::fmt::{Display, Write};

/// The type of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// Appends a family that has one value.
pub(crate) fn value(text: &mut String, kind: Kind, name: &str, help: &str, value: impl Display) {
    head(text, kind, name, help);
    let _ = writeln!(text, "{name} {value}");
}

/// Appends the lines before the samples of a family.
pub(crate) fn head(text: &mut String, kind: Kind, name: &str, help: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Appends a sample. Label values must not contain quotes or backslashes.
pub(crate) fn sample(text: &mut String, name: &str, labels: &[(&str, &str)], value: impl Display) {
    let labels: Vec<String> = labels.iter().map(|(name, it)| format!("{name}=\"{it}\"")).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}
