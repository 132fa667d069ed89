//! [`Repeats`]: how often an expression repeats its parts, all in all.
//!
//! Go allows a count of 1000, and no more when counts are nested in each other:
//!
//! ```text
//! (a{10}b{100}){10}      10 × 100 = 1000 times b, which is allowed
//! (a{10}b{100}){11}      1100 times b, which is not
//! ```

/// The most that Go lets a part be repeated.
const MAX_REPEAT: u32 = 1000;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Repeats {
    /// For each open group, the largest number of repeats before it in the enclosing group.
    outer: Vec<u32>,
    /// The same for this group, up to the last operand.
    before: u32,
    /// The most repeats within the last operand.
    operand: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { outer: Vec::new(), before: 1, operand: 1 }
    }
}

impl Repeats {
    /// Something new that may be repeated.
    pub(super) fn begin_operand(&mut self) {
        self.before = self.before.max(self.operand);
        self.operand = 1;
    }

    pub(super) fn open_group(&mut self) {
        self.begin_operand();
        self.outer.push(self.before);
        self.before = 1;
    }

    /// The group becomes an operand of the one around; false if none is open.
    pub(super) fn close_group(&mut self) -> bool {
        let Some(outer) = self.outer.pop() else { return false };
        self.operand = self.operand.max(self.before);
        self.before = outer;
        true
    }

    pub(super) fn is_in_group(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Repeats the last operand by `{min}`, `{min,}` or `{min,max}`; false if that is too often.
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
                // What never comes is never repeated.
                0 => 1,
                max => self.operand * max,
            },
            _ => return false,
        };
        self.operand <= MAX_REPEAT
    }
}
