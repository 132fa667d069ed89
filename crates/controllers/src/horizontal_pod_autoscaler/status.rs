//! [`Conditions`]: the conditions in the status of an autoscaler.

use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};

use crate::time;
use keel::Clock;

/// See the [module documentation](self).
pub(super) struct Conditions {
    all: Vec<HorizontalPodAutoscalerCondition>,
    clock: Clock,
}

impl Conditions {
    /// The present conditions.
    pub(super) fn new(autoscaler: &HorizontalPodAutoscaler, clock: &Clock) -> Self {
        let all = autoscaler.status.as_ref().and_then(|status| status.conditions.clone());
        Self { all: all.unwrap_or_default(), clock: clock.clone() }
    }

    /// Sets a condition. The time of transition changes with the status only.
    pub(super) fn set(&mut self, type_: &str, is_true: bool, reason: &str, message: &str) {
        let status = if is_true { "True" } else { "False" };
        let index = self.all.iter().position(|it| it.type_ == type_).unwrap_or_else(|| {
            let type_ = type_.to_owned();
            self.all.push(HorizontalPodAutoscalerCondition { type_, ..Default::default() });
            self.all.len() - 1
        });
        let condition = &mut self.all[index];
        if condition.status != status {
            status.clone_into(&mut condition.status);
            condition.last_transition_time = Some(time::now(&self.clock));
        }
        condition.reason = Some(reason.to_owned());
        condition.message = Some(message.to_owned());
    }

    /// All conditions.
    pub(super) fn into_inner(self) -> Vec<HorizontalPodAutoscalerCondition> {
        self.all
    }
}
