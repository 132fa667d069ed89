//! Validates `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! If no alternative is valid, the errors of the one with the highest `match_count` are reported,
//! because it is most likely the intended one.

use super::{Data, Walk, WalkErrors};
use crate::structural::{Combined, Node};
use machinery::Path;
use machinery::field_path::quote;

/// The outcome of one alternative.
#[derive(Debug)]
struct BranchOutcome {
    errors: WalkErrors,
    match_count: usize,
}

impl BranchOutcome {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

impl Walk<'_> {
    pub(super) fn check_combined(
        self,
        combined: &Combined,
        data: Data<'_>,
        old: Option<Data<'_>>,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let outcome = |node: &Node| {
            self.spend(1);
            let mut errors = WalkErrors::default();
            let match_count = self.apply(node, data, old, path, &mut errors);
            BranchOutcome { errors, match_count }
        };
        let name = || quote(&path.to_string());
        let mut match_count = 0;

        if !combined.any_of.is_empty() {
            let (valid, closest) =
                count_valid(combined.any_of.iter().map(outcome), Stop::AtFirstValid);
            if valid == 0 {
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate at least one schema (anyOf)",
                        name()
                    ))
                });
            }
            match_count += merge(closest, found);
        }
        if !combined.one_of.is_empty() {
            let (valid, closest) = count_valid(combined.one_of.iter().map(outcome), Stop::Never);
            if valid == 1 {
                match_count += merge(closest, found);
            } else {
                let many = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate one and only one schema (oneOf). {many}",
                        name()
                    ))
                });
                match_count += merge(closest.filter(|_| valid == 0), found);
            }
        }
        if !combined.all_of.is_empty() {
            let mut valid = 0;
            for it in combined.all_of.iter().map(outcome) {
                valid += usize::from(it.is_valid());
                match_count += merge(Some(it), found);
            }
            if valid != combined.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate all the schemas (allOf){none}",
                        name()
                    ))
                });
            }
        }
        if combined.not.as_ref().is_some_and(|node| outcome(node).is_valid()) {
            found.add(|| {
                self.error_without_field(format!("{} must not validate the schema (not)", name()))
            });
        }
        match_count
    }
}

/// When to stop evaluating alternatives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    AtFirstValid,
    Never,
}

/// The number of valid alternatives, and the first valid one or else the one with the highest
/// `match_count`.
fn count_valid(
    outcomes: impl Iterator<Item = BranchOutcome>,
    stop: Stop,
) -> (usize, Option<BranchOutcome>) {
    let mut valid = 0;
    let mut best: Option<BranchOutcome> = None;
    for outcome in outcomes {
        let better = match &best {
            None => true,
            Some(best) if best.is_valid() => false,
            Some(best) => outcome.is_valid() || outcome.match_count > best.match_count,
        };
        valid += usize::from(outcome.is_valid());
        if better {
            best = Some(outcome);
        }
        if valid > 0 && stop == Stop::AtFirstValid {
            break;
        }
    }
    (valid, best)
}

/// Adds the errors of an outcome without repetition, and returns its `match_count`.
fn merge(outcome: Option<BranchOutcome>, found: &mut WalkErrors) -> usize {
    let Some(outcome) = outcome else { return 0 };
    found.add_new(outcome.errors);
    outcome.match_count
}
