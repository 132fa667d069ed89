//! Metrics of other parts of the process, such as controllers, which the server shows together with
//! its own.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Returns families in Prometheus' text format.
pub(crate) type MetricsSource = Box<dyn Fn() -> String + Send + Sync>;

/// See the [module documentation](self).
#[derive(Default)]
pub(crate) struct MetricsSources(Mutex<Vec<MetricsSource>>);

impl MetricsSources {
    /// Adds a source.
    pub(crate) fn add(&self, source: MetricsSource) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Appends the families of all sources that `text` does not have yet: a family may occur once, and
    /// some, such as those of the process, are the same for all.
    pub(crate) fn append(&self, text: &mut String) {
        let sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.is_empty() {
            return;
        }
        let mut known: HashSet<String> =
            text.lines().filter_map(family).map(str::to_owned).collect();
        for source in &*sources {
            append_new(text, &source(), &mut known);
        }
    }
}

/// Appends the families of `added` that are not known.
fn append_new(text: &mut String, added: &str, known: &mut HashSet<String>) {
    let (mut current, mut is_new) = ("", true);
    for line in added.lines().filter(|line| *line != "# EOF") {
        if let Some(name) = family(line).filter(|name| *name != current) {
            current = name;
            is_new = known.insert(name.to_owned());
        }
        if is_new {
            text.push_str(line);
            text.push('\n');
        }
    }
}

/// The family that a line describes, if it is a description.
fn family(line: &str) -> Option<&str> {
    let described =
        ["# HELP ", "# TYPE ", "# UNIT "].iter().find_map(|it| line.strip_prefix(it))?;
    described.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_occurs_once() {
        let sources = MetricsSources::default();
        let own = "# HELP a A.\n# TYPE a counter\na 1\n";
        sources.add(Box::new(|| {
            "# HELP a B.\n# TYPE a counter\na 2\n# HELP b B.\n# TYPE b gauge\nb{x=\"y\"} 3\n# EOF\n"
                .to_owned()
        }));
        sources.add(Box::new(|| "# TYPE b gauge\nb 4\n# TYPE c gauge\nc 5\n".to_owned()));
        let mut text = own.to_owned();
        sources.append(&mut text);
        let expected = "# HELP b B.\n# TYPE b gauge\nb{x=\"y\"} 3\n# TYPE c gauge\nc 5\n";
        assert_eq!(text, format!("{own}{expected}"));
    }
}
