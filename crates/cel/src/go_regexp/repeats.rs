//! [`Repeats`]: checks the total number of repetitions of nested counted repetitions.
//!
//! Go allows at most 1000 repetitions, also as the product of nested counts:
//!
//! ```text
//! (a{10}b{100}){10}      10 × 100 = 1000 times b, which is allowed
//! (a{10}b{100}){11}      1100 times b, which is not
//! ```

/// Go's limit of repetitions.
const MAX_REPEAT: u32 = 1000;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Repeats {
    /// For each open group, the maximum number of repetitions before it in the enclosing group.
    outer: Vec<u32>,
    /// The maximum number of repetitions in the current group before the last operand.
    before: u32,
    /// The maximum number of repetitions within the last operand.
    operand: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { outer: Vec::new(), before: 1, operand: 1 }
    }
}

impl Repeats {
    /// Begins an operand that may be repeated.
    pub(super) fn begin_operand(&mut self) {
        self.before = self.before.max(self.operand);
        self.operand = 1;
    }

    pub(super) fn open_group(&mut self) {
        self.begin_operand();
        self.outer.push(self.before);
        self.before = 1;
    }

    /// Makes the group an operand of the enclosing one; false if no group is open.
    pub(super) fn close_group(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else { return false };
        self.operand = self.operand.max(self.before);
        self.before = outer;
        true
    }

    pub(super) fn is_in_group(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Repeats the last operand by `{min}`, `{min,}` or `{min,max}`; false if the counts are
    /// invalid or too large.
    pub(super) fn repeat(&mut self, counts: &str) -> bool {
        let number = |it: &str| it.parse::<u32>().ok().filter(|count| *count <= MAX_REPEAT);
        let (min, max) = counts.split_once(',').unwrap_or((counts, counts));
        let (min, max) = match (number(min), max) {
            (Some(min), "") => (min, None),
            (Some(min), max) => (min, number(max)),
            (None, _) => return false,
        };
        self.operand = match max {
            None if counts.ends_with(',') => self.operand * min.max(1),
            Some(max) if min <= max => match max {
                // An operand that is repeated zero times has no repetitions.
                0 => 1,
                max => self.operand * max,
            },
            _ => return false,
        };
        self.operand <= MAX_REPEAT
    }
}
