//! Which objects a list or a watch is about: namespace, name, labels and fields, and whether they
//! are there for everybody yet.

mod label_matcher;

use crate::cache::watch_cache::{Entry, LabelMask, Snapshot};
use crate::endpoints::context::RequestContext;
use crate::registry::conversion;
use label_matcher::LabelMatcher;
use machinery::field_path::quote;
use machinery::selector::{FieldSelector, LabelSelector};
use machinery::{Object, Status};
use std::borrow::Cow;
use std::sync::Arc;

/// See the [module documentation](self).
pub(crate) struct Selection {
    /// Where the selected objects' keys begin.
    pub prefix: String,
    /// The one object that can match, if there is only one.
    pub key: Option<String>,
    /// What the selected objects' labels have in common.
    pub label_mask: LabelMask,
    labels: LabelMatcher,
    fields: Box<[Wanted]>,
    /// Objects that somebody still has to work on are selected as well.
    uninitialized: bool,
    /// The keys of all of the resource's objects begin with the prefix.
    everywhere: bool,
}

/// A selection with more requirements than this takes long enough for an object to be counted.
const COSTLY: usize = 64;

/// The number of requirements that are compared before other tasks have their turn: a few
/// milliseconds.
const SLICE: usize = 8192;

/// Counts the requirements that a request compares with objects one after the other, so that it
/// gives way now and then. Its deadline can pass only then.
#[derive(Default)]
pub(crate) struct Pace(usize);

impl Pace {
    /// Another object is compared with a selection. Returns whether others have their turn first.
    pub(crate) fn is_due(&mut self, selection: &Selection) -> bool {
        self.0 += selection.cost();
        let is_due = self.0 > SLICE;
        if is_due {
            self.0 = 0;
        }
        is_due
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    field: Field,
    equal: bool,
    value: Box<str>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Name,
    Namespace,
    /// The index among the version's selectable fields.
    Other(usize),
}

impl Selection {
    /// Reads the selectors of a request.
    pub(crate) fn parse(cx: &RequestContext) -> Result<Self, Status> {
        let labels = LabelSelector::parse(cx.scope.query.text("labelSelector"))
            .map_err(Status::bad_request)?;
        let selector = FieldSelector::parse(cx.scope.query.text("fieldSelector"))
            .map_err(Status::bad_request)?;
        let mut fields = Vec::new();
        for wanted in selector.requirements() {
            let field = field(cx, &wanted.field)?;
            fields.push(Wanted { field, value: wanted.value.as_str().into(), equal: wanted.equal });
        }
        let label_mask = LabelMask::wanted(&labels);
        let mut selection = Self {
            prefix: prefix(cx),
            key: None,
            label_mask,
            labels: LabelMatcher::new(&labels),
            fields: distinct(fields),
            uninitialized: cx.scope.includes_uninitialized(),
            everywhere: cx.scope.namespace().is_empty(),
        };
        selection.key = selection.only_key(cx)?;
        Ok(selection)
    }

    /// One object by its name, from the path or from a field selector.
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
        let across = cx.scope.resource().namespaced && cx.scope.namespace().is_empty();
        Ok((!across).then(|| cx.scope.served.key(cx.scope.namespace(), name)))
    }

    /// Whether nothing of a snapshot is left out.
    pub(crate) fn is_all_of(&self, snapshot: &Snapshot) -> bool {
        self.key.is_none()
            && self.labels.is_empty()
            && self.fields.is_empty()
            && (self.uninitialized || snapshot.uninitialized == 0)
    }

    /// Whether more than an object's key is looked at, which may differ from version to version.
    pub(crate) fn looks_inside(&self) -> bool {
        !self.labels.is_empty() || self.fields.iter().any(|it| matches!(it.field, Field::Other(_)))
    }

    /// The selected objects of a snapshot, in the version of the request.
    pub(crate) async fn selected(
        &self,
        cx: &RequestContext,
        snapshot: &Snapshot,
    ) -> Result<Vec<Arc<Entry>>, Status> {
        if cx.scope.served.conversion.serves_stored_bytes() || !self.looks_inside() {
            let under = snapshot.labeled(&self.prefix, None, self.label_mask);
            return conversion::entries(&cx.scope, self.filter(cx, under).await).await;
        }
        let under = snapshot.under(&self.prefix, None);
        let all = conversion::entries(&cx.scope, under.cloned().collect()).await?;
        Ok(self.filter(cx, all.iter()).await)
    }

    /// Those of `entries` that are selected; their keys are known to begin with the prefix.
    async fn filter(
        &self,
        cx: &RequestContext,
        entries: impl Iterator<Item = &Arc<Entry>> + Send,
    ) -> Vec<Arc<Entry>> {
        let mut pace = Pace::default();
        let mut selected = Vec::new();
        for entry in entries {
            if pace.is_due(self) {
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

    /// The bytes that it takes on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let values: usize = self.fields.iter().map(|it| it.value.len()).sum();
        self.labels.heap_size() + size_of_val(&*self.fields) + values
    }

    /// Whether the comparison with one object takes long if it is made by many watches.
    pub(crate) fn is_costly(&self) -> bool {
        self.cost() > COSTLY
    }

    /// Whether an object of the resource is selected.
    pub(crate) fn sees(&self, cx: &RequestContext, entry: &Entry) -> bool {
        (self.everywhere || entry.key.starts_with(&self.prefix)) && self.matches(cx, entry)
    }

    /// Whether an object is selected; its key is known to begin with the prefix.
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
        self.fields.iter().all(|wanted| {
            let found = match wanted.field {
                Field::Name => Cow::Borrowed(entry.name()),
                Field::Namespace => Cow::Borrowed(entry.namespace()),
                Field::Other(index) => entry.field(&cx.scope.version().selectable, index),
            };
            (*found == *wanted.value) == wanted.equal
        })
    }

    /// Whether an object that is not stored is selected, which can be so by its metadata only.
    pub(crate) fn matches_unstored(&self, object: &Object) -> bool {
        self.labels.matches_by_key(|key| object.label(key))
            && self.fields.iter().all(|wanted| {
                let found = match wanted.field {
                    Field::Name => object.name(),
                    Field::Namespace => object.namespace(),
                    Field::Other(_) => "",
                };
                (*found == *wanted.value) == wanted.equal
            })
    }
}

/// Sorted, without repetition.
fn distinct(mut fields: Vec<Wanted>) -> Box<[Wanted]> {
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
    // Another name for the name is no field of their own.
    let is_plain = selectable.iter().all(|it| it.path == ["metadata", "name"]);
    match label {
        "metadata.name" => Ok(Field::Name),
        "metadata.namespace"
            if resource.namespaced || resource.conventions.selects_namespace || is_plain =>
        {
            Ok(Field::Namespace)
        }
        label => match selectable.iter().position(|it| it.label == label) {
            Some(index) => Ok(Field::Other(index)),
            // Upstream has one text for kinds with selectable fields of their own, and another for
            // those without.
            None if is_plain && resource.conventions.default_field_labels => {
                Err(Status::bad_request(format!(
                    "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                    quote(label)
                )))
            }
            None => Err(Status::bad_request((resource.behavior.unknown_label)(label))),
        },
    }
}
