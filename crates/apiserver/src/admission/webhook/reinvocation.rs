//! [`WebhookReinvokeContext`]: which webhooks are asked again, because others have changed the object since.

use super::parsed_webhook::ParsedWebhook;
use machinery::Object;
use std::collections::BTreeSet;
use std::sync::Arc;

/// See the [module documentation](self). Webhooks are known by their place in the order.
#[derive(Default)]
pub(in crate::admission) struct WebhookReinvokeContext {
    /// The same ones in both reinvocation, whatever is configured meanwhile.
    webhooks: Option<Arc<Vec<ParsedWebhook>>>,
    /// Who wants to see later changes, and has seen all of them so far.
    previously_invoked: BTreeSet<usize>,
    /// Who wants to see later changes, and has missed one.
    to_reinvoke: BTreeSet<usize>,
    /// Whether any webhook changed the object in the first round.
    changed: bool,
    is_reinvoke: bool,
    /// What the first round left.
    last_output: Option<Object>,
}

impl WebhookReinvokeContext {
    pub(super) fn webhooks(
        &mut self,
        current: impl FnOnce() -> Arc<Vec<ParsedWebhook>>,
    ) -> Arc<Vec<ParsedWebhook>> {
        Arc::clone(self.webhooks.get_or_insert_with(current))
    }

    /// Begins the second round, if there must be one: because a webhook has changed something, or
    /// somebody else before them.
    pub(in crate::admission) fn begin_reinvocation(
        &mut self,
        object: &Object,
        policy_changed: bool,
    ) -> bool {
        self.is_reinvoke = true;
        let again = self.changed || policy_changed;
        if again {
            self.last_output = Some(object.clone());
        }
        again
    }

    /// Tells what the plugins made of the object between the reinvocation.
    pub(in crate::admission) fn require_reinvocation_if_changed(&mut self, object: &Object) {
        if self.last_output.take().is_some_and(|last| last != *object) {
            self.to_reinvoke.append(&mut self.previously_invoked);
        }
    }

    /// Whether a webhook that is about the object is to be asked in this round. None is asked for
    /// the first time in the second.
    pub(super) fn should_invoke(&self, index: usize) -> bool {
        !self.is_reinvoke || self.to_reinvoke.contains(&index)
    }

    /// Notes that a webhook was asked, whether it wants to see later changes, and whether it made
    /// one.
    pub(super) fn record_invocation(
        &mut self,
        index: usize,
        reinvoke_if_needed: bool,
        changed: bool,
    ) {
        if changed {
            self.changed = true;
            self.to_reinvoke.append(&mut self.previously_invoked);
        }
        if reinvoke_if_needed {
            self.previously_invoked.insert(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first round, in which each webhook is (wants to see later changes, makes one); returns
    /// who is asked in the second.
    fn check(first: &[(bool, bool)], expect: &[usize]) {
        let mut reinvocation = WebhookReinvokeContext::default();
        for (index, (reinvoke_if_needed, changed)) in first.iter().enumerate() {
            assert!(reinvocation.should_invoke(index));
            reinvocation.record_invocation(index, *reinvoke_if_needed, *changed);
        }
        let object = Object::default();
        let again = reinvocation.begin_reinvocation(&object, false);
        reinvocation.require_reinvocation_if_changed(&object);
        let due: Vec<usize> =
            (0..first.len()).filter(|it| again && reinvocation.should_invoke(*it)).collect();
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
        let mut reinvocation = WebhookReinvokeContext::default();
        reinvocation.record_invocation(0, true, true);
        let mut object = Object::default();
        assert!(reinvocation.begin_reinvocation(&object, false));
        object.set_meta("name", "changed");
        reinvocation.require_reinvocation_if_changed(&object);
        assert!(reinvocation.should_invoke(0));
    }
}
