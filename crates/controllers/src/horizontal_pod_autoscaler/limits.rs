//! [`ScalingHistory`]: what an autoscaler remembers, and the limits of its steps: stabilization
//! windows, rates, and the minimum and maximum of replicas.
// Upstream: podautoscaler/horizontal.go, normalizeDesiredReplicas and …WithBehaviors

#![allow(
    clippy::cast_possible_truncation,
    reason = "percentages are calculated in floating point, as in Kubernetes"
)]

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscalerBehavior};

use keel::Timestamp;

/// The default window in which no smaller number of replicas than the largest proposed one is set.
const DOWNSCALE_WINDOW: Duration = Duration::from_mins(5);

/// What an autoscaler remembers of its past.
#[derive(Debug, Default)]
pub(super) struct ScalingHistory {
    /// The proposed replicas.
    recommendations: Vec<(Timestamp, i32)>,
    /// The added replicas.
    scale_ups: Vec<(Timestamp, i32)>,
    /// The removed replicas.
    scale_downs: Vec<(Timestamp, i32)>,
}

/// The numbers of one decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) current: i32,
    pub(super) desired: i32,
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) now: Timestamp,
}

/// The reason and the message of a condition.
pub(super) type Explanation = (&'static str, &'static str);

/// The replicas within all limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) replicas: i32,
    /// For the condition `AbleToScale`.
    pub(super) able: Explanation,
    /// For the condition `ScalingLimited`.
    pub(super) range: Explanation,
    /// Whether the replicas are not those that were desired.
    pub(super) is_out_of_range: bool,
}

const READY: Explanation = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABILIZED: Explanation = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABILIZED: Explanation = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN_RANGE: Explanation =
    ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: Explanation =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: Explanation =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const TOO_FAST_UP: Explanation =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const TOO_FAST_DOWN: Explanation = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);

impl ScalingHistory {
    /// Remembers the first seen replicas, so that a restart is not followed by a scale-down at once.
    pub(super) fn begin(&mut self, current: i32, now: Timestamp) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, current));
        }
    }

    /// Applies all limits to the desired replicas.
    pub(super) fn limit(
        &mut self,
        step: Step,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
    ) -> Limited {
        let Some(behavior) = behavior else {
            let stabilized = self.stabilize(step);
            let able = if stabilized == step.desired { READY } else { DOWN_STABILIZED };
            let (replicas, range) = within_default_rate(Step { desired: stabilized, ..step });
            return Limited { replicas, able, range, is_out_of_range: replicas != stabilized };
        };
        let (up, down) = (behavior.scale_up.as_ref(), behavior.scale_down.as_ref());
        let stabilized = self.stabilize_with(step, window(up, 0), window(down, 300));
        let able = match stabilized == step.desired {
            true => READY,
            false if step.desired >= step.current => UP_STABILIZED,
            false => DOWN_STABILIZED,
        };
        let (replicas, range) = self.within_rate(Step { desired: stabilized, ..step }, up, down);
        Limited { replicas, able, range, is_out_of_range: replicas != stabilized }
    }

    /// Remembers a change of the replicas.
    pub(super) fn record(
        &mut self,
        step: Step,
        behavior: Option<&HorizontalPodAutoscalerBehavior>,
    ) {
        let Some(behavior) = behavior else { return };
        let change = step.desired - step.current;
        let (events, rules) = if change > 0 {
            (&mut self.scale_ups, behavior.scale_up.as_ref())
        } else {
            (&mut self.scale_downs, behavior.scale_down.as_ref())
        };
        let longest = policies(rules, &DEFAULT_UP).into_iter().map(|it| it.period).max();
        let longest = longest.unwrap_or_default();
        events.retain(|(time, _)| step.now.since(*time) <= longest);
        events.push((step.now, change.abs()));
    }

    /// The largest recommendation of the default window.
    fn stabilize(&mut self, step: Step) -> i32 {
        self.recommendations.retain(|(time, _)| step.now.since(*time) <= DOWNSCALE_WINDOW);
        let largest = self.recommendations.iter().map(|(_, replicas)| *replicas).max();
        self.recommendations.push((step.now, step.desired));
        largest.map_or(step.desired, |largest| largest.max(step.desired))
    }

    /// The replicas between the smallest and the largest recommendation of the windows.
    fn stabilize_with(&mut self, step: Step, up: Duration, down: Duration) -> i32 {
        let age = |time: Timestamp| step.now.since(time);
        let recent = |window: Duration| {
            let all = self.recommendations.iter().filter(move |(time, _)| age(*time) < window);
            all.map(|(_, replicas)| *replicas)
        };
        let lowest = recent(up).fold(step.desired, i32::min);
        let highest = recent(down).fold(step.desired, i32::max);
        self.recommendations.retain(|(time, _)| age(*time) <= up.max(down));
        self.recommendations.push((step.now, step.desired));
        step.current.max(lowest).min(highest)
    }

    /// The desired replicas within the rate of the policies.
    fn within_rate(
        &self,
        step: Step,
        up: Option<&HPAScalingRules>,
        down: Option<&HPAScalingRules>,
    ) -> (i32, Explanation) {
        let Step { current, desired, .. } = step;
        if desired > current {
            let rate = self.rate_limit(step, up, Direction::Up).max(current);
            let (most, why) =
                if step.max > rate { (rate, TOO_FAST_UP) } else { (step.max, TOO_MANY) };
            if desired > most {
                return (most, why);
            }
        } else if desired < current {
            let rate = self.rate_limit(step, down, Direction::Down).min(current);
            let (least, why) =
                if step.min < rate { (rate, TOO_FAST_DOWN) } else { (step.min, TOO_FEW) };
            if desired < least {
                return (least, why);
            }
        }
        (desired, WITHIN_RANGE)
    }

    /// The most extreme number of replicas that the policies of one direction allow.
    fn rate_limit(&self, step: Step, rules: Option<&HPAScalingRules>, direction: Direction) -> i32 {
        let select = rules.and_then(|rules| rules.select_policy.as_deref()).unwrap_or("Max");
        if select == "Disabled" {
            return step.current;
        }
        let changes = |events: &[(Timestamp, i32)], period: Duration| -> i64 {
            let recent = events.iter().filter(|(time, _)| step.now.since(*time) < period);
            recent.map(|(_, change)| i64::from(*change)).sum()
        };
        let default = if direction == Direction::Up { &DEFAULT_UP[..] } else { &DEFAULT_DOWN };
        let proposals = policies(rules, default).into_iter().map(|policy| {
            let start = i64::from(step.current) - changes(&self.scale_ups, policy.period)
                + changes(&self.scale_downs, policy.period);
            let start = start.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            policy.apply(i32::try_from(start).unwrap_or(i32::MAX), direction)
        });
        // The largest change is the highest number when scaling up, and the lowest one otherwise.
        let is_highest = (select == "Min") != (direction == Direction::Up);
        let extreme = if is_highest { proposals.max() } else { proposals.min() };
        extreme.unwrap_or(step.current)
    }
}

/// The direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// A policy of a behavior.
#[derive(Debug, Clone, Copy)]
struct Policy {
    is_percent: bool,
    value: i32,
    period: Duration,
}

const fn default_policy(is_percent: bool, value: i32) -> Policy {
    Policy { is_percent, value, period: Duration::from_secs(15) }
}

const DEFAULT_UP: [Policy; 2] = [default_policy(false, 4), default_policy(true, 100)];
const DEFAULT_DOWN: [Policy; 1] = [default_policy(true, 100)];

impl Policy {
    /// The replicas after the change that this policy allows.
    fn apply(self, start: i32, direction: Direction) -> i32 {
        let part = f64::from(self.value) / 100.0;
        match (self.is_percent, direction) {
            (false, Direction::Up) => start.saturating_add(self.value),
            (false, Direction::Down) => start.saturating_sub(self.value),
            (true, Direction::Up) => (f64::from(start) * (1.0 + part)).ceil() as i32,
            (true, Direction::Down) => (f64::from(start) * (1.0 - part)) as i32,
        }
    }
}

/// The policies of some rules, or the default ones.
fn policies(rules: Option<&HPAScalingRules>, default: &[Policy]) -> Vec<Policy> {
    let Some(policies) = rules.and_then(|rules| rules.policies.as_ref()) else {
        return default.to_vec();
    };
    let policy = |it: &k8s_openapi::api::autoscaling::v2::HPAScalingPolicy| Policy {
        is_percent: it.type_ == "Percent",
        value: it.value,
        period: Duration::from_secs(u64::try_from(it.period_seconds).unwrap_or_default()),
    };
    policies.iter().map(policy).collect()
}

/// The stabilization window of some rules.
fn window(rules: Option<&HPAScalingRules>, default: i32) -> Duration {
    let seconds = rules.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(default);
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// The desired replicas within the limits of autoscalers without a behavior: at most twice the
/// replicas, or four.
fn within_default_rate(step: Step) -> (i32, Explanation) {
    let rate = step.current.saturating_mul(2).max(4);
    let (most, why) = if step.max > rate { (rate, TOO_FAST_UP) } else { (step.max, TOO_MANY) };
    if step.desired < step.min {
        (step.min, TOO_FEW)
    } else if step.desired > most {
        (most, why)
    } else {
        (step.desired, WITHIN_RANGE)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: Timestamp = Timestamp::from_seconds(1_000_000);

    fn step(current: i32, desired: i32, after: u64) -> Step {
        let now = START + Duration::from_secs(after);
        Step { current, desired, min: 1, max: 100, now }
    }

    /// The replicas and the two reasons.
    fn reasons(limited: &Limited) -> (i32, &'static str, &'static str) {
        (limited.replicas, limited.able.0, limited.range.0)
    }

    #[test]
    fn without_a_behavior_the_replicas_at_most_double() {
        let check = |current, desired, expected: (i32, &str)| {
            let limited = ScalingHistory::default().limit(step(current, desired, 0), None);
            assert_eq!((limited.replicas, limited.range.0), expected);
            assert_eq!(limited.is_out_of_range, limited.replicas != desired);
        };
        check(1, 3, (3, "DesiredWithinRange"));
        check(1, 9, (4, "ScaleUpLimit"));
        check(10, 50, (20, "ScaleUpLimit"));
        check(60, 110, (100, "TooManyReplicas"));
        check(2, 0, (1, "TooFewReplicas"));
    }

    #[test]
    fn without_a_behavior_the_highest_recommendation_of_five_minutes_applies() {
        let mut history = ScalingHistory::default();
        history.begin(5, START);
        let mut check = |after, desired, expected| {
            assert_eq!(reasons(&history.limit(step(5, desired, after), None)), expected);
        };
        check(15, 2, (5, "ScaleDownStabilized", "DesiredWithinRange"));
        check(300, 2, (5, "ScaleDownStabilized", "DesiredWithinRange"));
        check(301, 2, (2, "ReadyForNewScale", "DesiredWithinRange"));
    }

    fn behavior(rules: serde_json::Value) -> HorizontalPodAutoscalerBehavior {
        serde_json::from_value(rules).unwrap()
    }

    #[test]
    fn policies_limit_the_rate() {
        let behavior = behavior(json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 60},
                {"type": "Percent", "value": 50, "periodSeconds": 60}]},
            "scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": "Min", "policies": [
                {"type": "Pods", "value": 2, "periodSeconds": 60},
                {"type": "Percent", "value": 50, "periodSeconds": 60}]},
        }));
        let mut history = ScalingHistory::default();
        let mut check = |current, desired, after, expected: (i32, &str)| {
            let step = step(current, desired, after);
            let limited = history.limit(step, Some(&behavior));
            assert_eq!((limited.replicas, limited.range.0), expected, "{step:?}");
            history.record(Step { desired: limited.replicas, ..step }, Some(&behavior));
        };
        check(2, 20, 0, (6, "ScaleUpLimit"));
        // Nothing more within the minute.
        check(6, 20, 30, (6, "ScaleUpLimit"));
        check(6, 20, 60, (10, "ScaleUpLimit"));
        check(10, 1, 120, (8, "ScaleDownLimit"));
        check(8, 1, 200, (6, "ScaleDownLimit"));
    }

    #[test]
    fn the_largest_changes_do_not_overflow() {
        let behavior = behavior(json!({"scaleUp": {"policies": [
            {"type": "Pods", "value": 5, "periodSeconds": 60}]}}));
        let mut history = ScalingHistory::default();
        for _ in 0..3 {
            history.record(Step { max: i32::MAX, ..step(1, i32::MAX, 0) }, Some(&behavior));
        }
        let limited = history.limit(step(1, 9, 1), Some(&behavior));
        assert_eq!(reasons(&limited), (1, "ReadyForNewScale", "ScaleUpLimit"));
    }

    #[test]
    fn a_disabled_direction_does_not_scale() {
        let behavior = behavior(json!({"scaleDown": {"selectPolicy": "Disabled",
            "stabilizationWindowSeconds": 0}}));
        let limited = ScalingHistory::default().limit(step(5, 1, 0), Some(&behavior));
        assert_eq!(reasons(&limited), (5, "ReadyForNewScale", "ScaleDownLimit"));
    }

    #[test]
    fn windows_stabilize_both_directions() {
        let behavior = behavior(json!({
            "scaleUp": {"stabilizationWindowSeconds": 60},
            "scaleDown": {"stabilizationWindowSeconds": 120},
        }));
        let mut history = ScalingHistory::default();
        history.begin(3, START);
        let mut check = |desired, after, expected| {
            assert_eq!(reasons(&history.limit(step(3, desired, after), Some(&behavior))), expected);
        };
        check(5, 15, (3, "ScaleUpStabilized", "DesiredWithinRange"));
        check(5, 60, (5, "ReadyForNewScale", "DesiredWithinRange"));
        check(1, 75, (3, "ScaleDownStabilized", "DesiredWithinRange"));
        check(1, 181, (1, "ReadyForNewScale", "DesiredWithinRange"));
    }
}
