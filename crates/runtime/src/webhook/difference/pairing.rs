//! Pairs the elements of a list before and after a handler has changed it.
//!
//! ```text
//! before   a  b  c        after   side  a'  c        pairs   a' = a   c = c
//! ```
//!
//! Elements are paired in this order: equal elements; elements with the same key, as the lists of
//! Kubernetes have one; similar elements, if there is no key; elements at the same index of lists
//! of the same length. Other elements are new, and get no fields of removed ones.

use std::collections::HashMap;

use serde_json::Value;

/// Fields that are keys of lists in Kubernetes, the most common first.
const KEYS: [&str; 10] = [
    "name",
    "key",
    "type",
    "uid",
    "ip",
    "mountPath",
    "devicePath",
    "containerPort",
    "port",
    "topologyKey",
];

/// If more comparisons were needed, similar elements are not searched for.
const MAX_COMPARISONS: usize = 10_000;

/// For each element of `after`, its index in `before`; each index is used once at most.
pub(super) fn pairs(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut pairing = Pairing {
        before,
        after,
        found: vec![None; after.len()],
        is_paired: vec![false; before.len()],
    };
    pairing.by_text(|element| Some(element.to_string()));
    let key = key_of(before, after);
    match key {
        Some(key) => pairing.by_text(|element| element.get(key).map(Value::to_string)),
        None => pairing.by_similarity(),
    }
    pairing.by_index(key);
    pairing.found
}

struct Pairing<'a> {
    before: &'a [Value],
    after: &'a [Value],
    found: Vec<Option<usize>>,
    is_paired: Vec<bool>,
}

impl Pairing<'_> {
    /// Pairs elements with the same text, in order.
    fn by_text(&mut self, text: impl Fn(&Value) -> Option<String>) {
        let mut places: HashMap<String, Vec<usize>> = HashMap::new();
        // From the last to the first, so that the first is taken first.
        for old in self.unpaired_before().into_iter().rev() {
            if let Some(text) = text(&self.before[old]) {
                places.entry(text).or_default().push(old);
            }
        }
        for new in self.unpaired_after() {
            let place = text(&self.after[new]).and_then(|text| places.get_mut(&text)?.pop());
            if let Some(old) = place {
                self.pair(old, new);
            }
        }
    }

    /// Pairs objects with at least as many equal as different fields, the most similar first.
    fn by_similarity(&mut self) {
        let (olds, news) = (self.unpaired_before(), self.unpaired_after());
        if olds.len().saturating_mul(news.len()) > MAX_COMPARISONS {
            return;
        }
        let mut candidates = Vec::new();
        for &old in &olds {
            for &new in &news {
                let (same, other) = similarity(&self.before[old], &self.after[new], None);
                if same > 0 && same >= other {
                    candidates.push((same, old, new));
                }
            }
        }
        candidates.sort_by_key(|&(same, old, new)| (usize::MAX - same, old.abs_diff(new), old));
        for (_, old, new) in candidates {
            if !self.is_paired[old] && self.found[new].is_none() {
                self.pair(old, new);
            }
        }
    }

    /// Pairs elements at the same index of lists of the same length. Elements with different keys
    /// are paired only if at least as many of their other fields are equal as different.
    fn by_index(&mut self, key: Option<&str>) {
        if self.before.len() != self.after.len() {
            return;
        }
        for place in self.unpaired_after() {
            let (old, new) = (&self.before[place], &self.after[place]);
            let (same, other) = similarity(old, new, key);
            if !self.is_paired[place] && (key.is_none() || same >= other) {
                self.pair(place, place);
            }
        }
    }

    fn unpaired_before(&self) -> Vec<usize> {
        (0..self.before.len()).filter(|old| !self.is_paired[*old]).collect()
    }

    fn unpaired_after(&self) -> Vec<usize> {
        (0..self.after.len()).filter(|new| self.found[*new].is_none()).collect()
    }

    fn pair(&mut self, old: usize, new: usize) {
        self.is_paired[old] = true;
        self.found[new] = Some(old);
    }
}

/// The field that is a key of all elements, before and after.
fn key_of(before: &[Value], after: &[Value]) -> Option<&'static str> {
    let is_unique = |key: &str, list: &[Value]| {
        let mut values: Vec<_> =
            list.iter().filter_map(|it| it.get(key)).map(Value::to_string).collect();
        values.sort_unstable();
        values.dedup();
        values.len() == list.len()
    };
    KEYS.into_iter().find(|key| is_unique(key, before) && is_unique(key, after))
}

/// The numbers of equal and of different fields of two objects, without the key.
fn similarity(old: &Value, new: &Value, key: Option<&str>) -> (usize, usize) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return (0, 0) };
    let is_counted = |name: &&String| Some(name.as_str()) != key;
    let same = old.iter().filter(|(name, value)| is_counted(name) && new.get(*name) == Some(value));
    let same = same.count();
    let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
    (same, names.filter(is_counted).count() - same)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Elements are written `key` or `key=image`; the result has the indices in `before`.
    #[track_caller]
    fn check(key: &str, before: &str, after: &str, expected: &[Option<usize>]) {
        let parse = |list: &str| -> Vec<Value> {
            let element = |text: &str| match text.split_once('=') {
                Some((name, image)) => json!({key: name, "image": image}),
                None => json!({key: text}),
            };
            list.split_whitespace().map(element).collect()
        };
        assert_eq!(pairs(&parse(before), &parse(after)), expected, "{before} to {after}");
    }

    #[test]
    fn elements_with_the_same_key_are_paired() {
        check("name", "a=1 b=1", "side=1 a=2 b=1", &[None, Some(0), Some(1)]);
        check("name", "a=1 b=1 c=1", "b=2 c=1", &[Some(1), Some(2)]);
        check("name", "a=1 b=1", "b=2 a=2", &[Some(1), Some(0)]);
        check("mountPath", "a=1 b=1", "side=3 a=2 b=1", &[None, Some(0), Some(1)]);
    }

    #[test]
    fn an_element_with_a_new_key_is_paired_by_index() {
        check("name", "a b", "a2 b", &[Some(0), Some(1)]);
        check("name", "a=1 b=1", "a2=1 b=1", &[Some(0), Some(1)]);
        check("name", "a=1 b=1", "side=2 b=1", &[None, Some(1)]);
        check("name", "a=1 b=1", "b=1 side=1", &[Some(1), None]);
    }

    #[test]
    fn without_a_key_the_most_similar_elements_are_paired() {
        check("value", "a=1 b=2", "side=3 a=4 b=2", &[None, Some(0), Some(1)]);
        check("value", "a=1 b=2", "c=3 d=4", &[Some(0), Some(1)]);
        check("name", "a=1 a=2", "side=3 a=1 a=5", &[None, Some(0), Some(1)]);
    }

    #[test]
    fn equal_elements_are_paired_in_order() {
        assert_eq!(pairs(&[json!(1), json!(1)], &[json!(1), json!(2)]), [Some(0), Some(1)]);
        assert_eq!(pairs(&[json!(1), json!(2)], &[json!(2)]), [Some(1)]);
        assert_eq!(pairs(&[], &[json!(2)]), [None]);
    }
}
