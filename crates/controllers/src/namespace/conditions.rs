//! The conditions of a namespace that is being deleted.
//!
//! Upstream: deletion/status_condition_utils.go

use serde_json::{Value, json};

use crate::time;
use keel::Clock;

/// A type of condition, with its reason and message when nothing is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConditionType {
    name: &'static str,
    ok_reason: &'static str,
    ok_message: &'static str,
    /// The reason when something is wrong.
    reason: &'static str,
}

pub(super) const DISCOVERY_FAILURE: ConditionType = ConditionType {
    name: "NamespaceDeletionDiscoveryFailure",
    ok_reason: "ResourcesDiscovered",
    ok_message: "All resources successfully discovered",
    reason: "DiscoveryFailed",
};
pub(super) const GROUP_VERSION_PARSING_FAILURE: ConditionType = ConditionType {
    name: "NamespaceDeletionGroupVersionParsingFailure",
    ok_reason: "ParsedGroupVersions",
    ok_message: "All legacy kube types successfully parsed",
    reason: "GroupVersionParsingFailed",
};
pub(super) const CONTENT_FAILURE: ConditionType = ConditionType {
    name: "NamespaceDeletionContentFailure",
    ok_reason: "ContentDeleted",
    ok_message: "All content successfully deleted, may be waiting on finalization",
    reason: "ContentDeletionFailed",
};
pub(super) const CONTENT_REMAINING: ConditionType = ConditionType {
    name: "NamespaceContentRemaining",
    ok_reason: "ContentRemoved",
    ok_message: "All content successfully removed",
    reason: "SomeResourcesRemain",
};
pub(super) const FINALIZERS_REMAINING: ConditionType = ConditionType {
    name: "NamespaceFinalizersRemaining",
    ok_reason: "ContentHasNoFinalizers",
    ok_message: "All content-preserving finalizers finished",
    reason: "SomeFinalizersRemain",
};

/// All types, in the order in which they are added.
const TYPES: [ConditionType; 5] = [
    DISCOVERY_FAILURE,
    GROUP_VERSION_PARSING_FAILURE,
    CONTENT_FAILURE,
    CONTENT_REMAINING,
    FINALIZERS_REMAINING,
];

/// Something that is wrong.
#[derive(Debug)]
pub(super) struct NewCondition {
    pub condition_type: ConditionType,
    pub message: String,
}

/// Sets the conditions of a namespace, and returns whether they have changed. What is not in
/// `conditions` is not wrong.
pub(super) fn update(namespace: &mut Value, conditions: Vec<NewCondition>, clock: &Clock) -> bool {
    let now = serde_json::to_value(time::now(clock)).unwrap_or_default();
    let mut has_changed = false;
    for condition_type in TYPES {
        let problem = conditions.iter().find(|it| it.condition_type == condition_type);
        let (status, reason, message) = match problem {
            Some(problem) => ("True", condition_type.reason, problem.message.as_str()),
            None => ("False", condition_type.ok_reason, condition_type.ok_message),
        };
        let existing = namespace["status"]["conditions"].as_array_mut();
        let existing = existing.and_then(|all| {
            all.iter_mut().find(|condition| condition["type"] == condition_type.name)
        });
        let Some(existing) = existing else {
            let condition = json!({
                "type": condition_type.name,
                "status": status,
                "lastTransitionTime": now,
                "reason": reason,
                "message": message,
            });
            match namespace["status"]["conditions"].as_array_mut() {
                Some(all) => all.push(condition),
                None => namespace["status"]["conditions"] = json!([condition]),
            }
            has_changed = true;
            continue;
        };
        let is_same = existing["status"] == status
            && existing["reason"] == reason
            && existing["message"] == message;
        if is_same {
            continue;
        }
        if existing["status"] != status {
            existing["lastTransitionTime"] = now.clone();
        }
        existing["status"] = status.into();
        existing["reason"] = reason.into();
        existing["message"] = message.into();
        has_changed = true;
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use keel::Timestamp;

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let clock = Clock::manual(Timestamp::from_seconds(0));
        let mut namespace = json!({"status": {"phase": "Terminating"}});
        let problem = |message: &str| {
            vec![NewCondition { condition_type: CONTENT_REMAINING, message: message.to_owned() }]
        };
        assert!(update(&mut namespace, problem("two"), &clock));
        assert_eq!(namespace["status"]["conditions"].as_array().unwrap().len(), 5);
        clock.advance(Duration::from_secs(1));
        assert!(!update(&mut namespace, problem("two"), &clock));
        assert!(update(&mut namespace, problem("one"), &clock));
        let condition = &namespace["status"]["conditions"][3];
        assert_eq!(condition["message"], "one");
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:00Z");
        assert!(update(&mut namespace, Vec::new(), &clock));
        let condition = &namespace["status"]["conditions"][3];
        assert_eq!(condition["status"], "False");
        assert_eq!(condition["lastTransitionTime"], "1970-01-01T00:00:01Z");
    }
}
