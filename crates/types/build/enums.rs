//! Reads `tables/enums.txt`: the values of the API's enumerations, by the names of their Go types.
//!
//! ```text
//! core/v1.PullPolicy ["Always","IfNotPresent","Never"]
//! ```

use std::collections::HashMap;

/// All enumerations.
#[derive(Default)]
pub(super) struct Enums {
    /// Their values, one enumeration after the other.
    pub(super) values: Vec<String>,
    /// By type: (index of the first value, number of values).
    spans: HashMap<String, (usize, usize)>,
}

impl Enums {
    pub(super) fn parse(text: &str) -> Self {
        let mut enums = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, values) = line.split_once(' ').expect("a name and its values");
            let first = enums.values.len();
            // No value has a quote in it.
            enums.values.extend(values.split('"').skip(1).step_by(2).map(str::to_owned));
            enums.spans.insert(name.to_owned(), (first, enums.values.len() - first));
        }
        enums
    }

    /// The index of the first and the number of the enum values of a field with the Go type `go` in
    /// `package`. Zeros if it is no enum.
    pub(super) fn span(&self, package: &str, go: &str) -> (usize, usize) {
        // The type of one value of `[]v1.IPFamily` and `map[v1.ResourceName]v1.Status`.
        let go = go.rsplit([']', '*']).next().unwrap_or_default();
        // A Go name has the version of its package, which is one of the same group, or core.
        let group = package.split('/').next().unwrap_or_default();
        let own = self.spans.get(&format!("{group}/{go}"));
        own.or_else(|| self.spans.get(&format!("core/{go}"))).copied().unwrap_or_default()
    }
}
