//! `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! If no alternative is valid, the errors of the one that passed most checks are shown, since that
//! is most likely the intended one.

use super::{Data, Walk, WalkErrors};
use crate::structural::{Combined, Node};
use machinery::Path;
use machinery::field_path::quote;

/// The outcome of one alternative.
#[derive(Debug)]
struct BranchOutcome {
    errors: WalkErrors,
    passed: usize,
}

impl BranchOutcome {
    fn holds(&self) -> bool {
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
            let passed = self.apply(node, data, old, path, &mut errors);
            BranchOutcome { errors, passed }
        };
        let name = || quote(&path.to_string());
        let mut passed = 0;

        if !combined.any_of.is_empty() {
            let (held, closest) = count_matches(combined.any_of.iter().map(outcome), Stop::AtFirst);
            if held == 0 {
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate at least one schema (anyOf)",
                        name()
                    ))
                });
            }
            passed += merge(closest, found);
        }
        if !combined.one_of.is_empty() {
            let (held, closest) = count_matches(combined.one_of.iter().map(outcome), Stop::Never);
            if held == 1 {
                passed += merge(closest, found);
            } else {
                let many = match held {
                    0 => "Found none valid".to_owned(),
                    held => format!("Found {held} valid alternatives"),
                };
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate one and only one schema (oneOf). {many}",
                        name()
                    ))
                });
                passed += merge(closest.filter(|_| held == 0), found);
            }
        }
        if !combined.all_of.is_empty() {
            let mut held = 0;
            for it in combined.all_of.iter().map(outcome) {
                held += usize::from(it.holds());
                passed += merge(Some(it), found);
            }
            if held != combined.all_of.len() {
                let none = if held == 0 { ". None validated" } else { "" };
                found.add(|| {
                    self.error_without_field(format!(
                        "{} must validate all the schemas (allOf){none}",
                        name()
                    ))
                });
            }
        }
        if combined.not.as_ref().is_some_and(|node| outcome(node).holds()) {
            found.add(|| {
                self.error_without_field(format!("{} must not validate the schema (not)", name()))
            });
        }
        passed
    }
}

/// When to stop trying alternatives.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    AtFirst,
    Never,
}

/// How many alternatives hold, and the first that does or else the one that came closest.
fn count_matches(
    outcomes: impl Iterator<Item = BranchOutcome>,
    stop: Stop,
) -> (usize, Option<BranchOutcome>) {
    let mut held = 0;
    let mut best: Option<BranchOutcome> = None;
    for outcome in outcomes {
        let better = match &best {
            None => true,
            Some(best) if best.holds() => false,
            Some(best) => outcome.holds() || outcome.passed > best.passed,
        };
        held += usize::from(outcome.holds());
        if better {
            best = Some(outcome);
        }
        if held > 0 && stop == Stop::AtFirst {
            break;
        }
    }
    (held, best)
}

/// Adds an outcome's errors, each once, and returns the checks it passed.
fn merge(outcome: Option<BranchOutcome>, found: &mut WalkErrors) -> usize {
    let Some(outcome) = outcome else { return 0 };
    found.add_new(outcome.errors);
    outcome.passed
}
