//! Metrics of components that are not reconcile functions, in Prometheus' text format. They are not
//! those of the library `prometheus_client`, whose counters have family names other than Kubernetes',
//! and whose histograms do not tell how many values they have.

use std::fmt::{Display, Write};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Labels and their values, which must not contain quotes or backslashes.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

/// The number of observed values below each bound.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: Vec<f64>,
    /// One for each bound, and the last for larger values.
    counts: Vec<AtomicU64>,
    /// The sum of all values in millionths.
    sum: AtomicU64,
}

impl Histogram {
    /// Bounds that begin with `start`, each twice the one before.
    pub(crate) fn doubling(start: f64, count: usize) -> Self {
        let bounds: Vec<f64> =
            std::iter::successors(Some(start), |it| Some(it * 2.0)).take(count).collect();
        let counts = (0..=count).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    /// Counts a value, which is not negative.
    pub(crate) fn observe(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Relaxed);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a conversion to an integer saturates, and no value is negative"
        )]
        self.sum.fetch_add((value * 1e6).round() as u64, Relaxed);
    }

    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().map(|it| it.load(Relaxed)).sum()
    }

    /// Appends the samples of the family `name`.
    pub(crate) fn append(&self, text: &mut String, name: &str, labels: Labels<'_>) {
        let (bucket, mut total) = (format!("{name}_bucket"), 0);
        let bounds = self.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&self.counts) {
            total += count.load(Relaxed);
            let labels: Vec<(&str, &str)> =
                labels.iter().copied().chain([("le", &*bound)]).collect();
            append_sample(text, &bucket, &labels, total);
        }
        #[allow(clippy::cast_precision_loss, reason = "a sum of durations")]
        let sum = self.sum.load(Relaxed) as f64 / 1e6;
        append_sample(text, &format!("{name}_sum"), labels, sum);
        append_sample(text, &format!("{name}_count"), labels, total);
    }
}

/// Appends the `HELP` and `TYPE` lines of a family.
pub(crate) fn append_head(text: &mut String, kind: &str, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Appends a sample.
pub(crate) fn append_sample(
    text: &mut String,
    name: &str,
    labels: Labels<'_>,
    value: impl Display,
) {
    let labels: Vec<String> = labels.iter().map(|(name, it)| format!("{name}=\"{it}\"")).collect();
    let labels =
        if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let _ = writeln!(text, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_the_values_up_to_each_bound() {
        let histogram = Histogram::doubling(0.5, 2);
        for value in [0.25, 0.5, 0.75, 9.0] {
            histogram.observe(value);
        }
        let mut text = String::new();
        histogram.append(&mut text, "h", &[("a", "b")]);
        let lines = [
            r#"h_bucket{a="b",le="0.5"} 2"#,
            r#"h_bucket{a="b",le="1"} 3"#,
            r#"h_bucket{a="b",le="+Inf"} 4"#,
            r#"h_sum{a="b"} 10.5"#,
            r#"h_count{a="b"} 4"#,
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
