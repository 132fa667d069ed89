//! [`TextList`]: the verbs, groups, resources or names of a rule. A role can have tens of thousands of
//! them, and whoever writes roles must not make requests of others slow; so a text of a long list is
//! found by binary search.

use std::ops::Deref;

use serde::{Deserialize, Serialize, Serializer};

/// The longest list whose texts are compared one by one.
const SHORT: usize = 8;

/// See the [module documentation](self). It is used like a slice of the texts, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(from = "Vec<String>")]
pub(crate) struct TextList {
    texts: Vec<String>,
    /// The positions of the texts, in the order of the texts; empty for a short list.
    sorted: Vec<u32>,
}

impl From<Vec<String>> for TextList {
    fn from(texts: Vec<String>) -> Self {
        let mut sorted = Vec::new();
        if texts.len() > SHORT {
            let count = u32::try_from(texts.len()).expect("a role is smaller than 4 GiB");
            sorted.extend(0..count);
            sorted.sort_unstable_by(|a, b| texts[*a as usize].cmp(&texts[*b as usize]));
        }
        Self { texts, sorted }
    }
}

impl Serialize for TextList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.texts.serialize(serializer)
    }
}

impl Deref for TextList {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.texts
    }
}

impl TextList {
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        if self.sorted.is_empty() {
            return self.texts.iter().any(|it| it == text);
        }
        self.sorted.binary_search_by(|at| self.texts[*at as usize].as_str().cmp(text)).is_ok()
    }

    /// Whether the list contains the text or `*`.
    pub(super) fn contains_or_all(&self, text: &str) -> bool {
        self.contains(text) || self.contains("*")
    }

    /// The number of texts that [`contains`](Self::contains) compares at most.
    pub(super) fn comparisons(&self) -> usize {
        match self.sorted.len() {
            0 => self.texts.len(),
            count => 1 + count.ilog2() as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_wherever_it_stands_and_the_order_stays() {
        let short = ["m", "z", "a", "m", ""].map(str::to_owned).to_vec();
        let long: Vec<String> = short.iter().cloned().cycle().take(SHORT * 3).collect();
        for listed in [short, long] {
            let texts = TextList::from(listed.clone());
            assert_eq!(*texts, *listed);
            assert!(listed.iter().all(|text| texts.contains(text)));
            assert!(!texts.contains("b") && !texts.contains("zz"));
            assert!(!texts.contains_or_all("b") && texts.contains_or_all("a"));
        }
        assert!(!TextList::default().contains(""));
    }

    #[test]
    fn a_text_of_a_long_list_is_found_with_few_comparisons() {
        let list = |count: usize| TextList::from(vec!["pods".to_owned(); count]);
        assert_eq!(list(SHORT).comparisons(), SHORT);
        assert_eq!(list(20_000).comparisons(), 15);
    }
}
