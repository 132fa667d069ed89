//! [`Selection`]: the objects that a list or a watch selects, by namespace, name, labels, fields
//! and initialization.

mod label_matcher;

use std::borrow::Cow;
use std::sync::Arc;

use crate::cache::watch_cache::{Entry, LabelMask, Snapshot};
use crate::endpoints::context::RequestContext;
use crate::registry::conversion;
use label_matcher::LabelMatcher;
use machinery::field_path::quote;
use machinery::selector::{FieldSelector, LabelSelector};
use machinery::{Object, Status};

/// See the [module documentation](self).
pub(crate) struct Selection {
    /// The prefix of the keys of all selected objects.
    pub prefix: String,
    /// The key of the only object that can match, if the selection has a name.
    pub key: Option<String>,
    /// A mask that includes the labels of every selected object.
    pub label_mask: LabelMask,
    labels: LabelMatcher,
    fields: Box<[FieldTerm]>,
    /// Whether objects with pending initializers are selected.
    uninitialized: bool,
    /// Whether the prefix includes all objects of the resource.
    all_namespaces: bool,
}

/// A selection with more requirements than this is costly.
const COSTLY_REQUIREMENTS: usize = 64;

/// The number of compared requirements after which a task yields: a few milliseconds.
const YIELD_AFTER: usize = 8192;

/// Counts the requirements that a task compares with objects, so that it yields regularly. Its
/// deadline can take effect only when it yields.
#[derive(Default)]
pub(crate) struct YieldBudget(usize);

impl YieldBudget {
    /// Counts the comparison of one more object. Returns whether the task should yield first.
    pub(crate) fn should_yield(&mut self, selection: &Selection) -> bool {
        self.0 += selection.cost();
        let should_yield = self.0 > YIELD_AFTER;
        if should_yield {
            self.0 = 0;
        }
        should_yield
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FieldTerm {
    field: Field,
    equal: bool,
    value: Box<str>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Name,
    Namespace,
    /// An index into the selectable fields of the version.
    Other(usize),
}

impl Selection {
    /// Parses the selectors of a request.
    pub(crate) fn parse(cx: &RequestContext) -> Result<Self, Status> {
        let labels =
            LabelSelector::parse(cx.query.text("labelSelector")).map_err(Status::bad_request)?;
        let selector =
            FieldSelector::parse(cx.query.text("fieldSelector")).map_err(Status::bad_request)?;
        let mut fields = Vec::new();
        for term in selector.requirements() {
            let field = field(cx, &term.field)?;
            fields.push(FieldTerm { field, value: term.value.as_str().into(), equal: term.equal });
        }
        let label_mask = LabelMask::required_by(&labels);
        let mut selection = Self {
            prefix: prefix(cx),
            key: None,
            label_mask,
            labels: LabelMatcher::new(&labels),
            fields: distinct(fields),
            uninitialized: cx.includes_uninitialized(),
            all_namespaces: cx.scope.namespace().is_empty(),
        };
        selection.key = selection.only_key(cx)?;
        Ok(selection)
    }

    /// The key of the only selected object, by a name from the path or from a field selector.
    fn only_key(&self, cx: &RequestContext) -> Result<Option<String>, Status> {
        let named = self.fields.iter().find_map(|it| match it.field {
            Field::Name if it.equal => Some(&*it.value),
            _ => None,
        });
        let name = match (cx.scope.path.name.as_str(), named) {
            ("", None) => return Ok(None),
            ("", Some(name)) | (name, None) => name,
            (name, Some(named)) if name == named => name,
            (_, Some(named)) => {
                return Err(Status::bad_request(format!(
                    "field metadata.name: {named} does not match the name on the URL"
                )));
            }
        };
        let spans_namespaces = cx.scope.resource().namespaced && cx.scope.namespace().is_empty();
        Ok((!spans_namespaces).then(|| cx.scope.served.key(cx.scope.namespace(), name)))
    }

    /// Whether every object of a snapshot is selected.
    pub(crate) fn selects_all(&self, snapshot: &Snapshot) -> bool {
        self.key.is_none()
            && self.labels.is_empty()
            && self.fields.is_empty()
            && (self.uninitialized || snapshot.uninitialized == 0)
    }

    /// Whether the selection depends on more than the key of an object, which may differ between
    /// versions.
    pub(crate) fn depends_on_version(&self) -> bool {
        !self.labels.is_empty() || self.fields.iter().any(|it| matches!(it.field, Field::Other(_)))
    }

    /// The selected objects of a snapshot, in the version of the request.
    pub(crate) async fn selected(
        &self,
        cx: &RequestContext,
        snapshot: &Snapshot,
    ) -> Result<Vec<Arc<Entry>>, Status> {
        if cx.scope.served.conversion.serves_stored_bytes() || !self.depends_on_version() {
            let candidates = snapshot.labeled(&self.prefix, None, self.label_mask);
            return conversion::entries(&cx.scope, self.filter(cx, candidates).await).await;
        }
        let candidates = snapshot.under(&self.prefix, None);
        let all = conversion::entries(&cx.scope, candidates.cloned().collect()).await?;
        Ok(self.filter(cx, all.iter()).await)
    }

    /// The selected ones of `entries`, whose keys are known to have the prefix.
    async fn filter(
        &self,
        cx: &RequestContext,
        entries: impl Iterator<Item = &Arc<Entry>> + Send,
    ) -> Vec<Arc<Entry>> {
        let mut yield_budget = YieldBudget::default();
        let mut selected = Vec::new();
        for entry in entries {
            if yield_budget.should_yield(self) {
                tokio::task::yield_now().await;
            }
            if self.matches(cx, entry) {
                selected.push(Arc::clone(entry));
            }
        }
        selected
    }

    /// The number of requirements that an object is compared with.
    fn cost(&self) -> usize {
        self.labels.len() + self.fields.len()
    }

    /// The size of the selection on the heap, in bytes.
    pub(crate) fn heap_size(&self) -> usize {
        let values: usize = self.fields.iter().map(|it| it.value.len()).sum();
        self.labels.heap_size() + size_of_val(&*self.fields) + values
    }

    /// Whether the comparison with an object is expensive when many watches make it.
    pub(crate) fn is_costly(&self) -> bool {
        self.cost() > COSTLY_REQUIREMENTS
    }

    /// Whether an object of the resource is selected.
    pub(crate) fn selects(&self, cx: &RequestContext, entry: &Entry) -> bool {
        (self.all_namespaces || entry.key.starts_with(&self.prefix)) && self.matches(cx, entry)
    }

    /// Whether an object is selected whose key is known to have the prefix.
    pub(crate) fn matches(&self, cx: &RequestContext, entry: &Entry) -> bool {
        if entry.uninitialized && !self.uninitialized {
            return false;
        }
        if self.key.as_ref().is_some_and(|it| **it != *entry.key) {
            return false;
        }
        if !self.labels.is_empty() && !self.labels.matches(entry) {
            return false;
        }
        self.fields.iter().all(|term| {
            let found = match term.field {
                Field::Name => Cow::Borrowed(entry.name()),
                Field::Namespace => Cow::Borrowed(entry.namespace()),
                Field::Other(index) => entry.field(&cx.scope.version().selectable, index),
            };
            (*found == *term.value) == term.equal
        })
    }

    /// Whether an object of an unstored kind is selected; only its metadata can be selected by.
    pub(crate) fn matches_unstored(&self, object: &Object) -> bool {
        self.labels.matches_by_key(|key| object.label(key))
            && self.fields.iter().all(|term| {
                let found = match term.field {
                    Field::Name => object.name(),
                    Field::Namespace => object.namespace(),
                    Field::Other(_) => "",
                };
                (*found == *term.value) == term.equal
            })
    }
}

/// Sorts the terms and removes duplicates.
fn distinct(mut fields: Vec<FieldTerm>) -> Box<[FieldTerm]> {
    fields.sort_unstable();
    fields.dedup();
    fields.into()
}

fn prefix(cx: &RequestContext) -> String {
    let prefix = &cx.scope.resource().prefix;
    match cx.scope.namespace() {
        "" => format!("{prefix}/"),
        namespace => format!("{prefix}/{namespace}/"),
    }
}

fn field(cx: &RequestContext, label: &str) -> Result<Field, Status> {
    let (resource, selectable) = (cx.scope.resource(), &cx.scope.version().selectable);
    // Whether the kind has no selectable fields of its own. An alias of the name does not count.
    let has_default_fields = selectable.iter().all(|it| it.path == ["metadata", "name"]);
    match label {
        "metadata.name" => Ok(Field::Name),
        "metadata.namespace"
            if resource.namespaced
                || resource.conventions.selects_namespace
                || has_default_fields =>
        {
            Ok(Field::Namespace)
        }
        label => match selectable.iter().position(|it| it.label == label) {
            Some(index) => Ok(Field::Other(index)),
            // Upstream has one message for kinds with selectable fields, and another for those
            // without.
            None if has_default_fields && resource.conventions.default_field_labels => {
                Err(Status::bad_request(format!(
                    "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                    quote(label)
                )))
            }
            None => Err(Status::bad_request((resource.strategy.unknown_label)(label))),
        },
    }
}
