//! [`Paths`]: the paths of dropped fields, up to a limit.

/// The limit on the approximate size of all paths in bytes: far more than a response reports.
const TEXT_MAX: usize = 1 << 20;

/// See the [module documentation](self). Without the limit, a long key would be repeated in the
/// path of each of a hundred thousand fields below it.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<String>,
    weight: usize,
}

impl Paths {
    /// Adds a path unless the limit is reached.
    pub(crate) fn add(&mut self, path: impl FnOnce() -> String) {
        if self.weight < TEXT_MAX {
            let path = path();
            self.weight += 16 + path.len();
            self.list.push(path);
        }
    }

    /// The paths in alphabetical order.
    pub(crate) fn into_sorted(mut self) -> Vec<String> {
        self.list.sort_unstable();
        self.list
    }

    /// The paths in the order in which they were added.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
