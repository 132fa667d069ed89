//! [`IndexSet`]: a set of completion indexes, written as `1,3-5,7`.

use std::fmt;

/// See the [module documentation](self). It consists of intervals, since a Job may have 100,000
/// indexes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct IndexSet {
    /// The first and the last index of each interval. Intervals are sorted and do not touch.
    intervals: Vec<(usize, usize)>,
}

impl IndexSet {
    /// Parses a set, and leaves out indexes that are not below `limit`, and intervals that are no
    /// numbers.
    pub(super) fn parse(text: &str, limit: usize) -> Self {
        let intervals = text.split(',').filter_map(|interval| {
            let (first, last) = interval.split_once('-').unwrap_or((interval, interval));
            let (first, last) = (first.parse().ok()?, last.parse::<usize>().ok()?);
            (first < limit && first <= last).then(|| (first, last.min(limit - 1)))
        });
        Self::from_intervals(intervals.collect())
    }

    /// A set of single indexes in any order.
    pub(super) fn of(indexes: impl IntoIterator<Item = usize>) -> Self {
        Self::from_intervals(indexes.into_iter().map(|index| (index, index)).collect())
    }

    fn from_intervals(mut intervals: Vec<(usize, usize)>) -> Self {
        intervals.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(intervals.len());
        for (first, last) in intervals {
            match merged.last_mut() {
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        Self { intervals: merged }
    }

    /// The indexes that are in one of the sets.
    pub(super) fn union(&self, other: &Self) -> Self {
        Self::from_intervals([self.intervals.as_slice(), &other.intervals].concat())
    }

    /// The number of indexes that are in both sets.
    pub(super) fn overlap(&self, other: &Self) -> usize {
        let (mut left, mut right) = (self.intervals.as_slice(), other.intervals.as_slice());
        let mut count = 0;
        while let ([(first, last), left_rest @ ..], [(low, high), right_rest @ ..]) = (left, right)
        {
            let (start, end) = (*first.max(low), *last.min(high));
            count += (end + 1).saturating_sub(start);
            if last < high { left = left_rest } else { right = right_rest }
        }
        count
    }

    /// The number of indexes.
    pub(super) fn len(&self) -> usize {
        self.intervals.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Whether there are no indexes.
    pub(super) fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Whether an index is in the set.
    pub(super) fn contains(&self, index: usize) -> bool {
        let place = self.intervals.partition_point(|(_, last)| *last < index);
        self.intervals.get(place).is_some_and(|(first, _)| *first <= index)
    }

    /// The first `count` indexes below `limit` that are not in the set.
    pub(super) fn missing(&self, count: usize, limit: usize) -> Vec<usize> {
        let ends = [(limit, limit)];
        let mut found = Vec::new();
        let mut candidate = 0;
        for (first, last) in self.intervals.iter().chain(&ends) {
            let gap = candidate..(*first).min(limit);
            found.extend(gap.take(count - found.len()));
            candidate = last + 1;
        }
        found
    }
}

impl fmt::Display for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.intervals.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_written_as_intervals() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7,8"] {
            assert_eq!(IndexSet::parse(text, 10).to_string(), text);
        }
        assert_eq!(IndexSet::of([7, 1, 3, 5, 4]).to_string(), "1,3-5,7");
        assert_eq!(IndexSet::parse("x,2-y,3", 10).to_string(), "3");
    }

    #[test]
    fn indexes_beyond_the_limit_are_left_out() {
        assert_eq!(IndexSet::parse("1,3-9,11", 5).to_string(), "1,3,4");
        assert_eq!(IndexSet::parse("0-3", 0).to_string(), "");
    }

    #[test]
    fn sets_are_merged_and_compared() {
        let (one, other) = (IndexSet::parse("0-3,8", 20), IndexSet::parse("2-5,7,8-10", 20));
        assert_eq!(one.union(&other).to_string(), "0-5,7-10");
        assert_eq!((one.overlap(&other), other.overlap(&one)), (3, 3));
        assert_eq!((one.len(), other.len(), one.is_empty()), (5, 8, false));
        let members: Vec<usize> = (0..20).filter(|index| one.contains(*index)).collect();
        assert_eq!(members, [0, 1, 2, 3, 8]);
    }

    #[test]
    fn the_first_missing_indexes_are_found() {
        let set = IndexSet::parse("0,1,3", 10);
        assert_eq!(set.missing(3, 10), [2, 4, 5]);
        assert_eq!(set.missing(3, 5), [2, 4]);
        assert_eq!(set.missing(0, 5), Vec::<usize>::new());
        assert_eq!(IndexSet::default().missing(2, 1), [0]);
        assert_eq!(set.missing(9, 2), Vec::<usize>::new());
    }
}
