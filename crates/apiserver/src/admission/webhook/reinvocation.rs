//! [`WebhookReinvokeContext`]: which webhooks are called again because the object changed after
//! their call.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::parsed_webhook::ParsedWebhook;
use machinery::Object;

/// See the [module documentation](self). A webhook is identified by its index in the order of
/// calls.
#[derive(Default)]
pub(in crate::admission) struct WebhookReinvokeContext {
    /// The webhooks of the first round. The second round uses the same ones, even if the
    /// configuration changes in between.
    webhooks: Option<Arc<Vec<ParsedWebhook>>>,
    /// Webhooks with the reinvocation policy `IfNeeded` after whose call the object has not
    /// changed.
    previously_invoked: BTreeSet<usize>,
    /// Webhooks with the reinvocation policy `IfNeeded` after whose call the object has changed.
    to_reinvoke: BTreeSet<usize>,
    /// Whether a webhook changed the object in the first round.
    changed: bool,
    is_reinvoke: bool,
    /// The object after the first round.
    last_output: Option<Object>,
}

impl WebhookReinvokeContext {
    pub(super) fn webhooks(
        &mut self,
        current: impl FnOnce() -> Arc<Vec<ParsedWebhook>>,
    ) -> Arc<Vec<ParsedWebhook>> {
        Arc::clone(self.webhooks.get_or_insert_with(current))
    }

    /// 0 in the first round, 1 in the second.
    pub(super) fn round(&self) -> usize {
        usize::from(self.is_reinvoke)
    }

    /// Begins the second round. Returns false if no second round is needed, because neither a
    /// policy nor a webhook changed the object.
    pub(in crate::admission) fn begin_reinvocation(
        &mut self,
        object: &Object,
        policy_changed: bool,
    ) -> bool {
        self.is_reinvoke = true;
        let is_needed = self.changed || policy_changed;
        if is_needed {
            self.last_output = Some(object.clone());
        }
        is_needed
    }

    /// Marks all webhooks for reinvocation if plugins changed the object since the first round.
    pub(in crate::admission) fn require_reinvocation_if_changed(&mut self, object: &Object) {
        if self.last_output.take().is_some_and(|last| last != *object) {
            self.to_reinvoke.append(&mut self.previously_invoked);
        }
    }

    /// Whether a webhook that matches the object is called in this round. The second round calls
    /// only webhooks that are marked for reinvocation.
    pub(super) fn should_invoke(&self, index: usize) -> bool {
        !self.is_reinvoke || self.to_reinvoke.contains(&index)
    }

    /// Records a call: the reinvocation policy of the webhook, and whether it changed the object.
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

    /// Runs the first round, in which each webhook is (reinvoke if needed, changes the object), and
    /// compares the webhooks that are called in the second round.
    fn check(first: &[(bool, bool)], expect: &[usize]) {
        let mut reinvocation = WebhookReinvokeContext::default();
        for (index, (reinvoke_if_needed, changed)) in first.iter().enumerate() {
            assert!(reinvocation.should_invoke(index));
            reinvocation.record_invocation(index, *reinvoke_if_needed, *changed);
        }
        let object = Object::default();
        let is_needed = reinvocation.begin_reinvocation(&object, false);
        reinvocation.require_reinvocation_if_changed(&object);
        let reinvoked: Vec<usize> =
            (0..first.len()).filter(|it| is_needed && reinvocation.should_invoke(*it)).collect();
        assert_eq!(reinvoked, expect);
    }

    #[test]
    fn a_webhook_is_reinvoked_only_for_later_changes() {
        check(&[(true, true), (true, false)], &[]);
        check(&[(true, false), (true, true)], &[0]);
        check(&[(true, true), (true, true), (false, true)], &[0, 1]);
        check(&[(false, true), (false, true)], &[]);
    }

    #[test]
    fn a_change_by_a_plugin_between_the_rounds_reinvokes_webhooks() {
        let mut reinvocation = WebhookReinvokeContext::default();
        reinvocation.record_invocation(0, true, true);
        let mut object = Object::default();
        assert!(reinvocation.begin_reinvocation(&object, false));
        object.set_meta("name", "changed");
        reinvocation.require_reinvocation_if_changed(&object);
        assert!(reinvocation.should_invoke(0));
    }
}
