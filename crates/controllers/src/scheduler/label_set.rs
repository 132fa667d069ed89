//! [`LabelSet`]: labels in little memory. A pod may have tens of thousands of them, which are kept as
//! long as the pod; in a map each would take ten times the bytes of its text.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Labels by key. All texts are one, and `ends` has the end of each key and of each value in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(from = "BTreeMap<String, String>")]
pub(crate) struct LabelSet {
    text: Box<str>,
    /// Sorted by key.
    ends: Box<[(u32, u32)]>,
}

/// Gives the values of labels.
pub(crate) trait Labels {
    /// The value of a label.
    fn value_of(&self, key: &str) -> Option<&str>;
}

impl Labels for LabelSet {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

impl Labels for BTreeMap<String, String> {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl LabelSet {
    /// The number of labels.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no label.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The memory of the labels, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends)
    }

    /// The value of a label.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            let (known, value) = self.at(middle);
            match known.cmp(key) {
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// Keys and values, sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|index| self.at(index))
    }

    fn at(&self, index: usize) -> (&str, &str) {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before].1 as usize);
        let (key_end, end) = self.ends[index];
        let (key_end, end) = (key_end as usize, end as usize);
        (&self.text[start..key_end], &self.text[key_end..end])
    }

    /// These labels, and others in addition or instead.
    pub(crate) fn with<'a>(&'a self, others: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self::of_sorted(&self.iter().chain(others).collect::<BTreeMap<_, _>>())
    }

    fn of_sorted<T: AsRef<str>>(labels: &BTreeMap<T, T>) -> Self {
        let mut text = String::with_capacity(
            labels.iter().map(|(key, value)| key.as_ref().len() + value.as_ref().len()).sum(),
        );
        let mut ends = Vec::with_capacity(labels.len());
        let end = |text: &str| u32::try_from(text.len()).expect("an object is smaller than 4 GiB");
        for (key, value) in labels {
            text.push_str(key.as_ref());
            let key_end = end(&text);
            text.push_str(value.as_ref());
            ends.push((key_end, end(&text)));
        }
        Self { text: text.into(), ends: ends.into() }
    }
}

impl From<BTreeMap<String, String>> for LabelSet {
    fn from(labels: BTreeMap<String, String>) -> Self {
        Self::of_sorted(&labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize) -> LabelSet {
        let pairs = (0..count).map(|index| (format!("key-{index}"), format!("{index}")));
        pairs.collect::<BTreeMap<_, _>>().into()
    }

    #[test]
    fn each_label_is_found_and_no_other() {
        let labels = labels(100);
        for index in 0..100 {
            let value = index.to_string();
            assert_eq!(labels.get(&format!("key-{index}")), Some(value.as_str()));
        }
        assert_eq!((labels.get("key-100"), labels.get(""), labels.get("key-")), (None, None, None));
        assert_eq!(LabelSet::default().get("key-0"), None);
        assert_eq!(labels.iter().count(), 100);
    }

    #[test]
    fn labels_take_little_more_memory_than_their_text() {
        let labels = labels(20_000);
        let json: usize = labels.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
        assert!(labels.bytes() < json * 3 / 2, "{} bytes for {json} of JSON", labels.bytes());
    }

    #[test]
    fn added_labels_replace_those_with_the_same_key() {
        let both = labels(2).with([("key-1", "other"), ("a", "b")].into_iter());
        let all: Vec<_> = both.iter().collect();
        assert_eq!(all, [("a", "b"), ("key-0", "0"), ("key-1", "other")]);
    }
}
