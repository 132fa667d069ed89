//! [`SelectorIndex`]: finds the objects, such as services or workloads, whose selector selects an object
//! with given labels.
//!
//! Objects are indexed by one label that their selector requires, so that only those that have a label
//! in common with the given ones are compared, and not all of the namespace. Their selectors are parsed
//! once for each state of an object:
//!
//! ```text
//! app=web,pod-template-hash=5d9c ─▶ n/pod-template-hash=5d9c    the longest value is most often unique
//! tier in (a,b)                  ─▶ n/                          compared with all objects
//! more than 500 labels           ─▶ n/                          not parsed until it is compared
//! ```
//!
//! Invariants:
//! - the index function parses no large selector, and each object has at most one value;
//! - no selector is parsed under the lock of `parsed`;
//! - the large selectors in `parsed` have at most [`MAX_KEPT`] requirements together, and the number of
//!   their required keys, which most objects do not have, remains known without them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use machinery::selector::LabelSelector;
use runtime::Request;
use runtime::informer::{Indexer, Item};

/// The name of the index.
const INDEX: &str = "selector";

/// A selector with more strings is large. A label has two strings.
const MAX_SMALL: usize = 1000;

/// The number of requirements of large selectors that are kept in memory: about 30 MB.
const MAX_KEPT: usize = 200_000;

/// Reads `spec.selector` of an object.
pub(crate) type ReadSelector = fn(&Value) -> Result<LabelSelector, String>;

/// See the [module documentation](self). An informer has at most one index; all of its users read
/// selectors in the same way.
#[derive(Clone)]
pub(crate) struct SelectorIndex {
    objects: Arc<Indexer>,
    read: ReadSelector,
    parsed: Arc<Mutex<HashMap<Request, Parsed>>>,
}

/// The selector of one state of an object.
struct Parsed {
    resource_version: Box<str>,
    required_keys: usize,
    /// The number of requirements of a large selector; 0 for others.
    large: usize,
    /// `None` if too many large ones were parsed after it.
    selector: Option<Arc<LabelSelector>>,
}

impl SelectorIndex {
    /// Adds the index to `objects`.
    pub(crate) fn new(objects: &Arc<Indexer>, read: ReadSelector) -> Self {
        objects.add_index(INDEX, move |item| {
            let selector = SelectorText::of(item);
            if selector.is_large() {
                return vec![any_label(item.namespace())];
            }
            index_value_of(item.namespace(), &selector.parse(read)).into_iter().collect()
        });
        Self { objects: Arc::clone(objects), read, parsed: Arc::default() }
    }

    /// Whether there are no objects.
    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The objects of a namespace that select an object with these labels.
    pub(crate) fn selecting(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Request> {
        let exact = labels.iter().map(|(key, value)| index_value(namespace, key, value));
        let values = exact.chain([any_label(namespace)]);
        let candidates =
            values.flat_map(|value| self.objects.by_index(INDEX, &value).unwrap_or_default());
        let selecting = candidates.filter(|item| self.selects(item, labels));
        selecting.map(|item| item.key().clone()).collect()
    }

    fn selects(&self, item: &Item, labels: &BTreeMap<String, String>) -> bool {
        let parsed = self.lock();
        let known = parsed.get(item.key());
        if let Some(known) = known.filter(|it| *it.resource_version == *item.resource_version()) {
            if labels.len() < known.required_keys {
                return false;
            }
            if let Some(selector) = known.selector.clone() {
                drop(parsed);
                return selector.matches_labels(labels);
            }
        }
        drop(parsed);
        let text = SelectorText::of(item);
        let (large, selector) = if text.is_large() {
            let selector = keel::blocking(|| text.parse(self.read));
            (selector.requirements().len(), selector)
        } else {
            (0, text.parse(self.read))
        };
        let selector = Arc::new(selector);
        self.keep(item, large, Arc::clone(&selector));
        selector.matches_labels(labels)
    }

    fn keep(&self, item: &Item, large: usize, selector: Arc<LabelSelector>) {
        let mut parsed = self.lock();
        if parsed.len() > 2 * self.objects.len() {
            parsed.retain(|key, _| self.objects.get(key).is_some());
        }
        let mut dropped = Vec::new();
        if large > 0 && parsed.values().map(|it| it.large).sum::<usize>() + large > MAX_KEPT {
            for others in parsed.values_mut().filter(|it| it.large > 0) {
                others.large = 0;
                dropped.extend(others.selector.take());
            }
        }
        let resource_version = item.resource_version().into();
        let required_keys = selector.required_keys();
        let new = Parsed { resource_version, required_keys, large, selector: Some(selector) };
        let replaced = parsed.insert(item.key().clone(), new);
        drop(parsed);
        drop((dropped, replaced));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Request, Parsed>> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The JSON of a selector; `None` if it is absent.
struct SelectorText(Option<Box<RawValue>>);

impl SelectorText {
    fn of(item: &Item) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Selecting {
            spec: Spec,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            selector: Option<Box<RawValue>>,
        }
        Self(item.decode::<Selecting>().unwrap_or_default().spec.selector)
    }

    /// Whether there are more than [`MAX_SMALL`] strings. A quotation mark cannot be a part of one.
    fn is_large(&self) -> bool {
        let text = self.0.as_ref().map_or("", |text| text.get());
        text.bytes().filter(|byte| *byte == b'"').nth(2 * MAX_SMALL).is_some()
    }

    /// The selector; one that is invalid selects nothing.
    fn parse(&self, read: ReadSelector) -> LabelSelector {
        let text = self.0.as_ref().map_or("null", |text| text.get());
        let value = serde_json::from_str(text).ok();
        value.and_then(|it| read(&it).ok()).unwrap_or_else(LabelSelector::nothing)
    }
}

/// The value of a selector in the index; `None` if it selects nothing.
fn index_value_of(namespace: &str, selector: &LabelSelector) -> Option<String> {
    if *selector == LabelSelector::nothing() {
        return None;
    }
    let requirements = selector.requirements().iter();
    let exact = requirements.filter_map(|it| Some((it.key.as_str(), it.exact_value()?)));
    let longest = exact.max_by_key(|(_, value)| value.len());
    Some(
        longest.map_or_else(
            || any_label(namespace),
            |(key, value)| index_value(namespace, key, value),
        ),
    )
}

/// The value of a label in an index of labels.
pub(crate) fn index_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}

/// The value of objects that are compared with all labels.
pub(crate) fn any_label(namespace: &str) -> String {
    format!("{namespace}/")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use serde_json::json;

    use super::*;

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn insert(objects: &Indexer, name: &str, version: u32, selector: &Value) {
        let object = json!({
            "metadata": {"namespace": "n", "name": name, "resourceVersion": version.to_string()},
            "spec": {"selector": selector},
        });
        objects.insert(Item::parse(object.to_string().into_bytes()).unwrap());
    }

    #[test]
    fn the_selecting_objects_are_found_by_any_kind_of_requirement() {
        let objects = Arc::new(Indexer::new());
        let index = SelectorIndex::new(&objects, LabelSelector::from_value);
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "app", "operator": operator, "values": values}]});
        for (name, selector) in [
            ("exact", json!({"matchLabels": {"app": "web", "tier": "x"}})),
            ("in-one", expression("In", &["web"])),
            ("in-two", expression("In", &["web", "db"])),
            ("not-in", expression("NotIn", &["db"])),
            ("exists", expression("Exists", &[])),
            ("all", json!({})),
            ("none", Value::Null),
            ("invalid", expression("Wrong", &[])),
        ] {
            insert(&objects, name, 1, &selector);
        }
        let check = |namespace: &str, pairs: &[(&str, &str)], expected: &[&str]| {
            let mut found = index.selecting(namespace, &labels(pairs));
            found.sort_unstable();
            let names: Vec<&str> = found.iter().map(Request::name).collect();
            assert_eq!(names, expected, "{namespace} {pairs:?}");
        };
        let all = ["all", "exact", "exists", "in-one", "in-two", "not-in"];
        check("n", &[("app", "web"), ("tier", "x")], &all);
        check("n", &[("app", "db")], &["all", "exists", "in-two"]);
        check("n", &[], &["all", "not-in"]);
        check("m", &[("app", "web")], &[]);
        // The present selector counts.
        insert(&objects, "exact", 2, &json!({"matchLabels": {"app": "db"}}));
        check("n", &[("app", "db")], &["all", "exact", "exists", "in-two"]);
    }

    #[test]
    fn a_selector_is_read_once_for_each_state() {
        static READS: AtomicUsize = AtomicUsize::new(0);
        let objects = Arc::new(Indexer::new());
        let index = SelectorIndex::new(&objects, |selector| {
            READS.fetch_add(1, Relaxed);
            LabelSelector::from_value(selector)
        });
        for number in 0..100 {
            let hash = format!("hash-{number}");
            let selector = json!({"matchLabels": {"app": "web", "hash": hash}});
            insert(&objects, &format!("set-{number}"), 1, &selector);
        }
        assert_eq!(READS.swap(0, Relaxed), 100, "once for the index");
        for _ in 0..100 {
            let found = index.selecting("n", &labels(&[("app", "web"), ("hash", "hash-7")]));
            assert_eq!(found, [Request::new("n", "set-7")]);
        }
        assert_eq!(READS.load(Relaxed), 1);
    }

    /// The counting reader of the next test.
    fn count_large(selector: &Value) -> Result<LabelSelector, String> {
        READS_OF_LARGE.fetch_add(1, Relaxed);
        LabelSelector::from_value(selector)
    }
    static READS_OF_LARGE: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_large_selector_is_not_read_when_its_object_changes_and_once_when_it_is_compared() {
        let objects = Arc::new(Indexer::new());
        let index = SelectorIndex::new(&objects, count_large);
        let keys = 0..MAX_SMALL;
        let required: BTreeMap<String, String> =
            keys.clone().map(|key| (format!("k{key}"), "v".to_owned())).collect();
        let not_in: Vec<Value> = keys
            .map(|key| json!({"key": format!("k{key}"), "operator": "NotIn", "values": ["w"]}))
            .collect();
        for version in 0..30 {
            insert(&objects, "required", version, &json!({"matchLabels": required}));
            insert(&objects, "not-in", version, &json!({"matchExpressions": not_in}));
        }
        assert_eq!(READS_OF_LARGE.swap(0, Relaxed), 0, "only the namespace is indexed");
        assert_eq!(objects.index_values(INDEX).unwrap(), ["n/"]);
        let mut almost = required.clone();
        almost.insert("k7".to_owned(), "w".to_owned());
        for _ in 0..10 {
            let mut all = index.selecting("n", &required);
            all.sort_unstable();
            assert_eq!(all, [Request::new("n", "not-in"), Request::new("n", "required")]);
            assert_eq!(index.selecting("n", &almost), []);
            assert_eq!(index.selecting("n", &labels(&[])), [Request::new("n", "not-in")]);
        }
        assert_eq!(READS_OF_LARGE.load(Relaxed), 2);
    }

    #[test]
    fn the_large_selectors_in_memory_are_bounded() {
        let objects = Arc::new(Indexer::new());
        let index = SelectorIndex::new(&objects, LabelSelector::from_value);
        let size = MAX_KEPT / 3;
        let required: BTreeMap<String, String> =
            (0..size).map(|key| (format!("k{key}"), String::new())).collect();
        for number in 0..5 {
            let name = format!("set-{number}");
            insert(&objects, &name, 1, &json!({"matchLabels": required}));
        }
        assert_eq!(index.selecting("n", &labels(&[("k0", "")])), []);
        let parsed = index.lock();
        assert_eq!(parsed.len(), 5, "the number of required keys is known of all");
        let kept = parsed.values().filter_map(|it| it.selector.as_ref());
        assert!(kept.map(|it| it.requirements().len()).sum::<usize>() <= MAX_KEPT);
    }
}
