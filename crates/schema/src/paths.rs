//! [`Paths`]: places of fields that were dropped, within a bound.

/// The approximate size of all paths together in bytes: far more than is reported to a client.
const TEXT_MAX: usize = 1 << 20;

/// See the [module documentation](self). A long key would otherwise be repeated for each of a
/// hundred thousand fields below it.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    list: Vec<String>,
    weight: usize,
}

impl Paths {
    /// Notes one more, if there is room.
    pub(crate) fn note(&mut self, path: impl FnOnce() -> String) {
        if self.weight < TEXT_MAX {
            let path = path();
            self.weight += 16 + path.len();
            self.list.push(path);
        }
    }

    /// All that were noted, in alphabetical order.
    pub(crate) fn into_sorted(mut self) -> Vec<String> {
        self.list.sort_unstable();
        self.list
    }

    /// All that were noted, in that order.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list
    }
}
