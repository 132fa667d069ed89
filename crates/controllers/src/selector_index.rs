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
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::Value;

use machinery::selector::LabelSelector;
use runtime::Request;
use runtime::informer::{Indexer, Item};

/// The name of the index.
const INDEX: &str = "selector";

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
    selector: Arc<LabelSelector>,
}

impl SelectorIndex {
    /// Adds the index to `objects`.
    pub(crate) fn new(objects: &Arc<Indexer>, read: ReadSelector) -> Self {
        objects.add_index(INDEX, move |item| {
            let selector = selector_of(item, read);
            index_value_of(item.namespace(), &selector).into_iter().collect()
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
        let values = exact.chain([format!("{namespace}/")]);
        let candidates =
            values.flat_map(|value| self.objects.by_index(INDEX, &value).unwrap_or_default());
        let selects =
            |item: &Item| self.parsed(item).matches(|key| labels.get(key).map(String::as_str));
        candidates.filter(selects).map(|item| item.key().clone()).collect()
    }

    fn parsed(&self, item: &Item) -> Arc<LabelSelector> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let known = parsed.get(item.key());
        if let Some(known) = known.filter(|it| *it.resource_version == *item.resource_version()) {
            return Arc::clone(&known.selector);
        }
        if parsed.len() > 2 * self.objects.len() {
            parsed.retain(|key, _| self.objects.get(key).is_some());
        }
        let selector = Arc::new(selector_of(item, self.read));
        let resource_version = item.resource_version().into();
        let new = Parsed { resource_version, selector: Arc::clone(&selector) };
        parsed.insert(item.key().clone(), new);
        selector
    }
}

/// The selector of an object; one that is invalid selects nothing.
fn selector_of(item: &Item, read: ReadSelector) -> LabelSelector {
    #[derive(Deserialize)]
    struct Selecting {
        #[serde(default)]
        spec: Spec,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Spec {
        selector: Value,
    }
    let selector = item.decode::<Selecting>().ok().and_then(|it| read(&it.spec.selector).ok());
    selector.unwrap_or_else(LabelSelector::nothing)
}

/// The value of a selector in the index; `None` if it selects nothing.
fn index_value_of(namespace: &str, selector: &LabelSelector) -> Option<String> {
    if *selector == LabelSelector::nothing() {
        return None;
    }
    let keys = selector.requirements().iter().map(|it| it.key.as_str());
    let exact = keys.filter_map(|key| Some((key, selector.requires_exact_match(key)?)));
    let longest = exact.max_by_key(|(_, value)| value.len());
    Some(
        longest.map_or_else(
            || format!("{namespace}/"),
            |(key, value)| index_value(namespace, key, value),
        ),
    )
}

/// The value of a label in an index of labels.
pub(crate) fn index_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
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
}
