//! [`Selection`]: a namespace, a label selector and a field selector.

use crate::Item;
use machinery::selector::{FieldSelector, LabelSelector};

/// Selects objects of one resource, which is that of the [`ListWatch`](crate::ListWatch).
///
/// ```
/// use informer::{FieldSelector, LabelSelector, Selection};
///
/// let running = Selection {
///     labels: LabelSelector::parse("app in (web, db)")?,
///     fields: FieldSelector::parse("status.phase=Running")?,
///     ..Selection::default()
/// };
/// # drop(running);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// The namespace; all namespaces if `None`.
    pub namespace: Option<String>,
    /// The label selector.
    pub labels: LabelSelector,
    /// The field selector.
    pub fields: FieldSelector,
    /// Whether objects with pending initializers are included: for the controller of an initializer.
    /// Servers without initializers, which are all since Kubernetes 1.14, ignore it.
    pub includes_uninitialized: bool,
}

impl Selection {
    /// Whether `item` is selected; `None` if that depends on fields other than its name and
    /// namespace, which only the server can read.
    pub fn selects(&self, item: &Item) -> Option<bool> {
        let in_namespace =
            self.namespace.as_ref().is_none_or(|namespace| namespace == item.namespace());
        if !in_namespace || !item.is_selected_by(&self.labels) {
            return Some(false);
        }
        let mut known = true;
        for requirement in self.fields.requirements() {
            let found = match requirement.field.as_str() {
                "metadata.name" => item.name(),
                "metadata.namespace" => item.namespace(),
                _ => {
                    known = false;
                    continue;
                }
            };
            if (found == requirement.value) != requirement.equal {
                return Some(false);
            }
        }
        known.then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_only_the_server_reads_leaves_the_selection_undecided() {
        let item = Item::parse(br#"{"metadata":{"name":"a","namespace":"n"}}"#.as_slice()).unwrap();
        let fields = |text| Selection {
            fields: FieldSelector::parse(text).unwrap(),
            ..Selection::default()
        };
        assert_eq!(fields("metadata.name=a").selects(&item), Some(true));
        assert_eq!(fields("metadata.name!=a,spec.x=y").selects(&item), Some(false));
        assert_eq!(fields("metadata.name=a,spec.x=y").selects(&item), None);
        let elsewhere = Selection { namespace: Some("m".into()), ..Selection::default() };
        assert_eq!(elsewhere.selects(&item), Some(false));
    }
}
