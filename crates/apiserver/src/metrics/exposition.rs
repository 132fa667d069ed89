//! Prometheus' text format, for families whose values are read from the server's state at each scrape.

use std::fmt::{Display, Write};

/// The type of a family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MetricType {
    Counter,
    Gauge,
}

/// Appends a family that has one value.
pub(crate) fn append_value(
    text: &mut String,
    metric_type: MetricType,
    name: &str,
    help: &str,
    value: impl Display,
) {
    append_head(text, metric_type, name, help);
    let _ = writeln!(text, "{name} {value}");
}

/// Appends the `HELP` and `TYPE` lines of a family.
pub(crate) fn append_head(text: &mut String, metric_type: MetricType, name: &str, help: &str) {
    let metric_type = match metric_type {
        MetricType::Counter => "counter",
        MetricType::Gauge => "gauge",
    };
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {metric_type}");
}

/// Appends a sample. Label values must not contain quotes or backslashes.
pub(crate) fn append_sample(
    text: &mut String,
    name: &str,
    labels: &[(&str, &str)],
    value: impl Display,
) {
    let labels: Vec<String> = labels.iter().map(|(name, it)| format!("{name}=\"{it}\"")).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}
