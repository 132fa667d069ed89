//! [`LabelMatcher`]: a label selector in a compact form that is compared with objects.
//!
//! A selector can have tens of thousands of requirements, and an object as many labels.
//! Requirements therefore take a few bytes each, duplicates are dropped, and a comparison looks up
//! the smaller of the two sets in the larger one.
//!
//! ```text
//! app in (a,b),!old    text  "appabold"   ends  3 4 5 8   requirements  (0, In) (3, DoesNotExist)
//! ```
//!
//! Invariants:
//! - requirements are sorted by key and differ from each other;
//! - the pieces of a requirement are its key and its values, which are sorted.

use std::cmp::Ordering;
use std::ops::Range;

use crate::cache::watch_cache::Entry;
use machinery::selector::{LabelRequirement, LabelSelector, Operator};

/// Up to this number of requirements, each key is looked up in the labels.
const FEW_REQUIREMENTS: usize = 8;

/// With more requirements, each label is looked up in the requirements if the labels have at most
/// this many bytes per requirement, which is less than the size of a label.
const LABEL_BYTES_PER_REQUIREMENT: usize = 4;

/// See the [module documentation](self).
#[derive(Debug)]
pub(super) struct LabelMatcher {
    text: Box<str>,
    /// The end of each piece of the text.
    ends: Box<[u32]>,
    /// The index of the piece with the key, and the operator.
    requirements: Box<[(u32, Operator)]>,
    /// The number of distinct keys that a selected object must have.
    needed_keys: usize,
}

impl LabelMatcher {
    pub(super) fn new(selector: &LabelSelector) -> Self {
        let mut sorted: Vec<&LabelRequirement> = selector.requirements().iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        let (mut text, mut ends) = (String::new(), Vec::new());
        let mut requirements = Vec::with_capacity(sorted.len());
        let (mut needed_keys, mut last_needed) = (0, None);
        for requirement in sorted {
            requirements.push((offset(ends.len()), requirement.operator));
            for piece in std::iter::once(&requirement.key).chain(&requirement.values) {
                text.push_str(piece);
                ends.push(offset(text.len()));
            }
            let key = Some(requirement.key.as_str());
            if !requirement.matches(None) && last_needed != key {
                needed_keys += 1;
                last_needed = key;
            }
        }
        Self {
            text: text.into(),
            ends: ends.into(),
            requirements: requirements.into(),
            needed_keys,
        }
    }

    /// Whether the matcher selects everything.
    pub(super) fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The number of requirements.
    pub(super) fn len(&self) -> usize {
        self.requirements.len()
    }

    /// The size of the matcher on the heap, in bytes.
    pub(super) fn heap_size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends) + size_of_val(&*self.requirements)
    }

    /// Whether a stored object is selected.
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        if self.len() <= FEW_REQUIREMENTS
            || entry.label_bytes() > self.len() * LABEL_BYTES_PER_REQUIREMENT
        {
            return self.matches_by_key(|key| entry.label(key));
        }
        self.matches_by_label(entry.labels())
    }

    /// Looks up each key in the labels.
    pub(super) fn matches_by_key<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut last: Option<(&str, Option<&str>)> = None;
        (0..self.len()).all(|index| {
            let key = self.key(index);
            let value = match last {
                Some((last_key, value)) if last_key == key => value,
                _ => label(key),
            };
            last = Some((key, value));
            self.holds(index, value)
        })
    }

    /// Looks up each label in the requirements. The keys of the labels are distinct.
    fn matches_by_label<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
        let mut found_keys = 0;
        for (key, value) in labels {
            let mut is_needed = false;
            for index in self.find(key) {
                if !self.holds(index, Some(value)) {
                    return false;
                }
                is_needed |= !self.holds(index, None);
            }
            found_keys += usize::from(is_needed);
        }
        found_keys == self.needed_keys
    }

    /// The requirements on a key.
    fn find(&self, key: &str) -> Range<usize> {
        let first = partition_point(0..self.len(), |index| self.key(index) < key);
        let count = (first..self.len()).take_while(|index| self.key(*index) == key).count();
        first..first + count
    }

    fn holds(&self, index: usize, value: Option<&str>) -> bool {
        let values = self.values(index);
        let first = (!values.is_empty()).then(|| self.piece(values.start));
        let is_listed = |value: &str| {
            let at = partition_point(values.clone(), |piece| self.piece(piece) < value);
            at < values.end && self.piece(at).cmp(value) == Ordering::Equal
        };
        self.requirements[index].1.holds(value, is_listed, first)
    }

    fn key(&self, index: usize) -> &str {
        self.piece(self.requirements[index].0 as usize)
    }

    /// The range of the pieces with the values of a requirement.
    fn values(&self, index: usize) -> Range<usize> {
        let next = self.requirements.get(index + 1);
        let end = next.map_or(self.ends.len(), |(piece, _)| *piece as usize);
        self.requirements[index].0 as usize + 1..end
    }

    fn piece(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }
}

fn offset(length: usize) -> u32 {
    u32::try_from(length).expect("the size of a selector is limited by that of a request line")
}

/// The first index of a range for which `is_before` is false; it is true for all indices before.
fn partition_point(range: Range<usize>, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low.midpoint(high);
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares both ways of matching with the selector itself.
    fn check(selector: &str, labels: &[(&str, &str)]) {
        let selector = LabelSelector::parse(selector).unwrap();
        let matcher = LabelMatcher::new(&selector);
        let label = |key: &str| labels.iter().find(|(it, _)| *it == key).map(|(_, value)| *value);
        let expected = selector.matches(label);
        assert_eq!(matcher.matches_by_key(label), expected, "{selector} {labels:?}");
        let by_label = matcher.matches_by_label(labels.iter().copied());
        assert_eq!(by_label, expected, "{selector} {labels:?}");
    }

    #[test]
    fn a_matcher_selects_the_same_objects_as_its_selector() {
        let labels: [&[(&str, &str)]; 4] =
            [&[], &[("a", "1")], &[("a", ""), ("b", "2")], &[("a", "3"), ("b", "1"), ("c", "x")]];
        let requirements = [
            "a",
            "!a",
            "a=1",
            "a==3",
            "a!=1",
            "a=",
            "a in (1,3)",
            "a notin (,3)",
            "a<3",
            "b>1",
            "b",
            "!b",
            "c!=x",
            "c notin (y)",
            "c>1",
        ];
        for first in requirements {
            for second in requirements {
                for third in requirements {
                    for labels in labels {
                        check(&[first, second, third].join(","), labels);
                    }
                }
            }
        }
    }

    #[test]
    fn repeated_requirements_are_dropped() {
        let repeated = "!b,a,a=1,".repeat(1000);
        let selector = LabelSelector::parse(repeated.trim_end_matches(',')).unwrap();
        assert_eq!(LabelMatcher::new(&selector).len(), 3);
    }
}
