//! [`Rounds`]: which webhooks are asked again, because others have changed the object since.

use super::hook::Hook;
use machinery::Object;
use std::collections::BTreeSet;
use std::sync::Arc;

/// See the [module documentation](self). Webhooks are known by their place in the order.
#[derive(Default)]
pub(in crate::admission) struct Rounds {
    /// The same ones in both rounds, whatever is configured meanwhile.
    hooks: Option<Arc<Vec<Hook>>>,
    /// Who wants to see later changes, and has seen all of them so far.
    content: BTreeSet<usize>,
    /// Who wants to see later changes, and has missed one.
    due: BTreeSet<usize>,
    /// Whether any webhook changed the object in the first round.
    changed: bool,
    second: bool,
    /// What the first round left.
    left: Option<Object>,
}

impl Rounds {
    pub(super) fn hooks(&mut self, current: impl FnOnce() -> Arc<Vec<Hook>>) -> Arc<Vec<Hook>> {
        Arc::clone(self.hooks.get_or_insert_with(current))
    }

    /// Begins the second round, if there must be one: because a webhook has changed something, or
    /// somebody else before them.
    pub(in crate::admission) fn again(&mut self, object: &Object, changed_before: bool) -> bool {
        self.second = true;
        let again = self.changed || changed_before;
        if again {
            self.left = Some(object.clone());
        }
        again
    }

    /// Tells what the plugins made of the object between the rounds.
    pub(in crate::admission) fn look_again(&mut self, object: &Object) {
        if self.left.take().is_some_and(|left| left != *object) {
            self.due.append(&mut self.content);
        }
    }

    /// Whether a webhook that is about the object is to be asked in this round. None is asked for
    /// the first time in the second.
    pub(super) fn is_due(&self, index: usize) -> bool {
        !self.second || self.due.contains(&index)
    }

    /// Notes that a webhook was asked, whether it wants to see later changes, and whether it made
    /// one.
    pub(super) fn asked(&mut self, index: usize, reinvoked: bool, changed: bool) {
        if changed {
            self.changed = true;
            self.due.append(&mut self.content);
        }
        if reinvoked {
            self.content.insert(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first round, in which each webhook is (wants to see later changes, makes one); returns
    /// who is asked in the second.
    fn check(first: &[(bool, bool)], expect: &[usize]) {
        let mut rounds = Rounds::default();
        for (index, (reinvoked, changed)) in first.iter().enumerate() {
            assert!(rounds.is_due(index));
            rounds.asked(index, *reinvoked, *changed);
        }
        let object = Object::default();
        let again = rounds.again(&object, false);
        rounds.look_again(&object);
        let due: Vec<usize> = (0..first.len()).filter(|it| again && rounds.is_due(*it)).collect();
        assert_eq!(due, expect);
    }

    #[test]
    fn only_changes_that_came_later_are_shown_again() {
        check(&[(true, true), (true, false)], &[]);
        check(&[(true, false), (true, true)], &[0]);
        check(&[(true, true), (true, true), (false, true)], &[0, 1]);
        check(&[(false, true), (false, true)], &[]);
    }

    #[test]
    fn a_plugin_that_changes_the_object_in_between_counts_as_well() {
        let mut rounds = Rounds::default();
        rounds.asked(0, true, true);
        let mut object = Object::default();
        assert!(rounds.again(&object, false));
        object.set_meta("name", "changed");
        rounds.look_again(&object);
        assert!(rounds.is_due(0));
    }
}
