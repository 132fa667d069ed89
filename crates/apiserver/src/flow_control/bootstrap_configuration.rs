//! The flow schemas and priority levels that every plane has, and how stored ones are brought up to
//! date.
//!
//! Mandatory objects are always restored. Suggested ones are restored while their annotation
//! [`AUTO_UPDATE`] is `true`; a user who sets it to `false` may change them. Deleted objects are
//! created again in both cases.
//!
//! Upstream: apiserver/pkg/apis/flowcontrol/bootstrap/default.go and
//! registry/flowcontrol/ensurer/strategy.go

use machinery::{Map, Object, Value, json};

/// The annotation of objects whose spec the server keeps up to date.
pub(crate) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// The group of the kinds.
pub(crate) const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The resource of flow schemas.
pub(crate) const FLOW_SCHEMAS: &str = "flowschemas";

/// The resource of priority levels.
pub(crate) const PRIORITY_LEVELS: &str = "prioritylevelconfigurations";

/// The mandatory level, and the mandatory schema, of requests that are not limited.
pub(super) const EXEMPT: &str = "exempt";

/// The mandatory level, and the mandatory schema, of requests that match no other schema.
pub(super) const CATCH_ALL: &str = "catch-all";

/// An object that every plane has.
pub(crate) struct BootstrapObject {
    /// The resource.
    pub plural: &'static str,
    /// The name of the object.
    pub name: &'static str,
    /// Whether the spec is restored whatever the annotation says.
    pub is_mandatory: bool,
    /// The spec, with defaults.
    pub spec: Value,
}

impl BootstrapObject {
    /// The object as it is created.
    pub(crate) fn object(&self) -> Value {
        json!({
            "metadata": {"name": self.name, "annotations": {AUTO_UPDATE: "true"}},
            "spec": self.spec,
        })
    }

    /// The object that replaces a stored one; None if that is up to date.
    pub(crate) fn revise(&self, stored: &Object) -> Option<Value> {
        let annotation = go_bool(stored.str_at(&["metadata", "annotations", AUTO_UPDATE]));
        let generation = stored.get(&["metadata", "generation"]).and_then(Value::as_i64);
        // Upstream: without the annotation, an object that nobody has changed is updated.
        let updates_spec =
            self.is_mandatory || annotation.unwrap_or_else(|| generation.unwrap_or(0) == 1);
        let is_annotated = annotation == Some(updates_spec);
        let has_spec = !updates_spec || self.is_in_effect(stored);
        if is_annotated && has_spec {
            return None;
        }
        let mut revised = Value::Object(stored.map().clone());
        if !has_spec {
            revised["spec"] = self.spec.clone();
        }
        if !is_annotated {
            revised["metadata"]["annotations"][AUTO_UPDATE] = updates_spec.to_string().into();
        }
        Some(revised)
    }

    /// Whether a stored object has the spec. The shares of the level `exempt` can be changed.
    fn is_in_effect(&self, stored: &Object) -> bool {
        let Some(spec) = stored.get(&["spec"]) else { return false };
        if self.plural == PRIORITY_LEVELS && self.name == EXEMPT {
            let keys = spec.as_object().map_or(0, Map::len);
            return spec["type"] == self.spec["type"] && spec["exempt"].is_object() && keys == 2;
        }
        *spec == self.spec
    }
}

/// Whether a stored object that is not one of the table is to be deleted: an earlier release has
/// created it.
pub(crate) fn is_obsolete(name: &str, plural: &str, stored: &Object) -> bool {
    go_bool(stored.str_at(&["metadata", "annotations", AUTO_UPDATE])) == Some(true)
        && !objects().any(|it| it.plural == plural && it.name == name)
}

/// Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// All objects.
pub(crate) fn objects() -> impl Iterator<Item = BootstrapObject> {
    priority_levels().into_iter().chain(flow_schemas())
}

/// The priority levels.
pub(super) fn priority_levels() -> [BootstrapObject; 8] {
    let exempt = json!({
        "type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    });
    let reject = json!({"type": "Reject"});
    [
        priority_level(EXEMPT, true, exempt),
        priority_level(CATCH_ALL, true, limited(5, 0, &reject)),
        priority_level("system", false, limited(30, 33, &queue(64, 6))),
        priority_level("node-high", false, limited(40, 25, &queue(64, 6))),
        priority_level("leader-election", false, limited(10, 0, &queue(16, 4))),
        priority_level("workload-high", false, limited(40, 50, &queue(128, 6))),
        priority_level("workload-low", false, limited(100, 90, &queue(128, 6))),
        priority_level("global-default", false, limited(20, 50, &queue(128, 6))),
    ]
}

fn priority_level(name: &'static str, is_mandatory: bool, spec: Value) -> BootstrapObject {
    BootstrapObject { plural: PRIORITY_LEVELS, name, is_mandatory, spec }
}

fn limited(shares: i64, lendable_percent: i64, limit_response: &Value) -> Value {
    json!({"type": "Limited", "limited": {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable_percent,
        "limitResponse": limit_response,
    }})
}

fn queue(queues: i64, hand_size: i64) -> Value {
    json!({"type": "Queue", "queuing": {
        "queues": queues, "handSize": hand_size, "queueLengthLimit": 50,
    }})
}

/// The flow schemas, in the order of their precedence.
pub(super) fn flow_schemas() -> [BootstrapObject; 11] {
    let leases = |verbs: Value| {
        json!({"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "namespaces": ["*"]})
    };
    let everyone = || groups(&["system:unauthenticated", "system:authenticated"]);
    let kube_system = || json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}});
    let user = |name: &str| json!({"kind": "User", "user": {"name": name}});
    let (controllers, scheduler) = ("system:kube-controller-manager", "system:kube-scheduler");
    let probes = json!([{
        "subjects": everyone(),
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    }]);
    let elections = json!([{
        "subjects": [user(controllers), user(scheduler), kube_system()],
        "resourceRules": [leases(json!(["get", "create", "update"]))],
    }]);
    let heartbeats = json!([{
        "subjects": groups(&["system:nodes"]),
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"],
                "clusterScope": true, "namespaces": ["*"]},
            leases(json!(["*"])),
        ],
    }]);
    [
        mandatory_schema(EXEMPT, EXEMPT, 1, "", &everything(&groups(&["system:masters"]))),
        flow_schema("probes", EXEMPT, 2, "", &probes),
        flow_schema("system-leader-election", "leader-election", 100, "ByUser", &elections),
        flow_schema("system-node-high", "node-high", 400, "ByUser", &heartbeats),
        flow_schema(
            "system-nodes",
            "system",
            500,
            "ByUser",
            &everything(&groups(&["system:nodes"])),
        ),
        flow_schema(
            "kube-controller-manager",
            "workload-high",
            800,
            "ByNamespace",
            &everything(&json!([user(controllers)])),
        ),
        flow_schema(
            "kube-scheduler",
            "workload-high",
            800,
            "ByNamespace",
            &everything(&json!([user(scheduler)])),
        ),
        flow_schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            "ByNamespace",
            &everything(&json!([kube_system()])),
        ),
        flow_schema(
            "service-accounts",
            "workload-low",
            9000,
            "ByUser",
            &everything(&groups(&["system:serviceaccounts"])),
        ),
        flow_schema("global-default", "global-default", 9900, "ByUser", &everything(&everyone())),
        mandatory_schema(CATCH_ALL, CATCH_ALL, 10000, "ByUser", &everything(&everyone())),
    ]
}

fn mandatory_schema(
    name: &'static str,
    level: &str,
    precedence: i64,
    distinguisher: &str,
    rules: &Value,
) -> BootstrapObject {
    let schema = flow_schema(name, level, precedence, distinguisher, rules);
    BootstrapObject { is_mandatory: true, ..schema }
}

fn flow_schema(
    name: &'static str,
    level: &str,
    precedence: i64,
    distinguisher: &str,
    rules: &Value,
) -> BootstrapObject {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": rules,
    });
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    BootstrapObject { plural: FLOW_SCHEMAS, name, is_mandatory: false, spec }
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

/// The rules that match every request of these subjects.
fn everything(subjects: &Value) -> Value {
    json!([{
        "subjects": subjects,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
            "clusterScope": true, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(plural: &str, name: &str) -> BootstrapObject {
        objects().find(|it| it.plural == plural && it.name == name).unwrap()
    }

    /// A stored object with these changes of its metadata and its spec.
    fn stored(object: &BootstrapObject, annotation: &str, generation: i64, spec: Value) -> Object {
        let mut value = object.object();
        value["metadata"]["generation"] = generation.into();
        value["metadata"]["annotations"] = json!({AUTO_UPDATE: annotation});
        value["spec"] = spec;
        Object::from_value(value).unwrap()
    }

    #[test]
    fn a_suggested_object_is_restored_while_its_annotation_is_true() {
        let system = find(PRIORITY_LEVELS, "system");
        let changed = limited(1, 0, &queue(1, 1));
        assert!(system.revise(&stored(&system, "true", 1, system.spec.clone())).is_none());
        let revised = system.revise(&stored(&system, "true", 2, changed.clone())).unwrap();
        assert_eq!(revised["spec"], system.spec);
        assert!(system.revise(&stored(&system, "false", 2, changed)).is_none());
    }

    #[test]
    fn without_a_valid_annotation_only_an_unchanged_object_is_restored() {
        let system = find(PRIORITY_LEVELS, "system");
        let changed = limited(1, 0, &queue(1, 1));
        let revised = system.revise(&stored(&system, "maybe", 1, changed.clone())).unwrap();
        assert_eq!(revised["spec"], system.spec);
        assert_eq!(revised["metadata"]["annotations"][AUTO_UPDATE], "true");
        let revised = system.revise(&stored(&system, "maybe", 2, changed.clone())).unwrap();
        assert_eq!(revised["spec"], changed);
        assert_eq!(revised["metadata"]["annotations"][AUTO_UPDATE], "false");
    }

    #[test]
    fn a_mandatory_object_is_restored_whatever_its_annotation_says() {
        let catch_all = find(FLOW_SCHEMAS, CATCH_ALL);
        let changed = stored(&catch_all, "false", 3, json!({"matchingPrecedence": 7}));
        let revised = catch_all.revise(&changed).unwrap();
        assert_eq!(revised["spec"], catch_all.spec);
        assert_eq!(revised["metadata"]["annotations"][AUTO_UPDATE], "true");
    }

    #[test]
    fn the_shares_of_the_exempt_level_can_be_changed() {
        let exempt = find(PRIORITY_LEVELS, EXEMPT);
        let spec = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 9, "lendablePercent": 1}});
        assert!(exempt.revise(&stored(&exempt, "true", 2, spec)).is_none());
        let broken = limited(1, 0, &json!({"type": "Reject"}));
        assert!(exempt.revise(&stored(&exempt, "true", 2, broken)).is_some());
    }

    #[test]
    fn an_object_of_an_earlier_release_is_obsolete_unless_a_user_has_taken_it_over() {
        let system = find(PRIORITY_LEVELS, "system");
        let annotated = stored(&system, "true", 1, system.spec.clone());
        assert!(is_obsolete("old", PRIORITY_LEVELS, &annotated));
        assert!(!is_obsolete("system", PRIORITY_LEVELS, &annotated));
        let taken = stored(&system, "false", 1, system.spec.clone());
        assert!(!is_obsolete("old", PRIORITY_LEVELS, &taken));
    }
}
