//! [`Conflicts`]: fields that an applier changes and that other managers own.

use std::fmt;

use super::element::PathElement;
use super::managed::{Entry, Operation};
use super::set::Set;
use crate::field_path::quote;
use crate::status::Cause;

/// See the [module documentation](self). `Display` writes the message of the 409 response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conflicts {
    /// The text for each manager, and the conflicting fields that it owns; never an empty list.
    managers: Vec<(String, Vec<Vec<PathElement>>)>,
}

impl Conflicts {
    /// Adds the changed fields that a manager owns.
    pub(super) fn add(&mut self, entry: &Entry, fields: &Set) {
        let mut paths = Vec::new();
        fields.visit(&mut Vec::new(), &mut |path| {
            paths.push(path.iter().map(|element| (*element).clone()).collect());
        });
        if !paths.is_empty() {
            self.managers.push((manager_text(entry), paths));
        }
    }

    /// Sorts by manager, which is the order in which conflicts are reported.
    pub(super) fn sort(&mut self) {
        self.managers.sort_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// Removes the conflicts about these fields.
    pub(super) fn without(mut self, fields: &Set) -> Self {
        for (_, paths) in &mut self.managers {
            paths.retain(|path| !fields.contains(path));
        }
        self.managers.retain(|(_, paths)| !paths.is_empty());
        self
    }

    /// Whether there is no conflict.
    pub fn is_empty(&self) -> bool {
        self.managers.is_empty()
    }

    /// One cause for each field, for `details.causes` of the response.
    pub fn causes(&self) -> Vec<Cause> {
        let causes = self.managers.iter().flat_map(|(manager, paths)| {
            paths.iter().map(move |path| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: format!("conflict with {manager}"),
                field: text(path),
            })
        });
        causes.collect()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count: usize = self.managers.iter().map(|(_, paths)| paths.len()).sum();
        if let [(manager, paths)] = self.managers.as_slice()
            && let [path] = paths.as_slice()
        {
            let path = text(path);
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {count} conflicts: ")?;
        for (index, (manager, paths)) in self.managers.iter().enumerate() {
            let line = if index > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {manager}:")?;
            paths.iter().try_for_each(|path| write!(f, "\n- {}", text(path)))?;
        }
        Ok(())
    }
}

impl std::error::Error for Conflicts {}

fn text(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

/// `"name" with subresource "status" using v1`.
fn manager_text(entry: &Entry) -> String {
    let mut text = quote(&entry.manager);
    if !entry.subresource.is_empty() {
        text += &format!(" with subresource {}", quote(&entry.subresource));
    }
    if entry.operation == Operation::Update {
        text += &format!(" using {}", entry.api_version);
    }
    text
}
