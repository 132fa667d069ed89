//! The specs of the mandatory objects `exempt` and `catch-all`, which nobody can change.
//!
//! The server creates these objects at its start, so they are valid: it would not start otherwise.
//!
//! Upstream: `apiserver/pkg/apis/flowcontrol/bootstrap/default.go`

use crate::validation::go_struct;
use machinery::fields::{same, top};
use machinery::{ErrorList, Object, Path, Value, json};

/// The name of the priority level, and of the flow schema, of requests that are not limited.
pub(super) const EXEMPT: &str = "exempt";

/// The name of the priority level, and of the flow schema, of requests that match no other schema.
const CATCH_ALL: &str = "catch-all";

static SPEC: Path<'static> = Path::root("spec");

/// Adds an error if a mandatory flow schema has another spec.
pub(super) fn validate_flow_schema(object: &Object, errors: &mut ErrorList) {
    let (precedence, distinguisher, groups): (i64, Value, &[&str]) = match object.name() {
        EXEMPT => (1, Value::Null, &["system:masters"]),
        CATCH_ALL => {
            (10000, json!({"type": "ByUser"}), &["system:unauthenticated", "system:authenticated"])
        }
        _ => return,
    };
    let subjects: Value =
        groups.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect();
    let fixed = json!({
        "priorityLevelConfiguration": {"name": object.name()},
        "matchingPrecedence": precedence,
        "distinguisherMethod": distinguisher,
        "rules": [{
            "subjects": subjects,
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "clusterScope": true, "namespaces": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }],
    });
    if !same(top(object, "spec"), &fixed) {
        refuse(object, errors, "FlowSchemaSpec", "");
    }
}

/// Adds an error if a mandatory priority level has another spec. The shares of the level `exempt` can
/// be changed.
pub(super) fn validate_priority_level(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    match object.name() {
        EXEMPT => {
            let mut rest = spec.as_object().cloned().unwrap_or_default();
            rest.remove("exempt");
            if !same(&rest.into(), &json!({"type": "Exempt"})) {
                let except = " except the 'spec.exempt' field";
                refuse(object, errors, "PriorityLevelConfigurationSpec", except);
            }
        }
        CATCH_ALL => {
            let fixed = json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5,
                "lendablePercent": 0,
                "limitResponse": {"type": "Reject"},
            }});
            if !same(spec, &fixed) {
                refuse(object, errors, "PriorityLevelConfigurationSpec", "");
            }
        }
        _ => {}
    }
}

fn refuse(object: &Object, errors: &mut ErrorList, name: &str, except: &str) {
    let message = format!("spec of '{}'{except} must equal the fixed value", object.name());
    go_struct::invalid(errors, &SPEC, name, top(object, "spec"), &message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object};

    fn refused(validate: fn(&Object, &mut ErrorList), name: &str, spec: &Value) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&object(json!({"metadata": {"name": name}, "spec": spec})), &mut errors);
        lines(&errors)
    }

    #[test]
    fn the_shares_of_the_exempt_level_can_be_changed() {
        let check = |spec: Value| refused(validate_priority_level, "exempt", &spec);
        let shares = json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 6}});
        assert_eq!(check(shares), Vec::<String>::new());
        assert_eq!(
            check(json!({"type": "Limited"})),
            [
                r#"spec: Invalid value: {"Type":"Limited","Limited":null,"Exempt":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"#
            ]
        );
    }

    #[test]
    fn the_level_catch_all_has_a_fixed_spec() {
        let check = |shares: i64| {
            let limited = json!({"nominalConcurrencyShares": shares, "lendablePercent": 0,
                "limitResponse": {"type": "Reject"}});
            let spec = json!({"type": "Limited", "limited": limited});
            refused(validate_priority_level, "catch-all", &spec)
        };
        assert_eq!(check(5), Vec::<String>::new());
        assert_eq!(
            check(6),
            [
                r#"spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":6,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value"#
            ]
        );
    }

    #[test]
    fn a_mandatory_flow_schema_has_a_fixed_spec() {
        let spec =
            json!({"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1});
        assert_eq!(
            refused(validate_flow_schema, "exempt", &spec),
            [
                r#"spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"exempt"},"MatchingPrecedence":1,"DistinguisherMethod":null,"Rules":null}: spec of 'exempt' must equal the fixed value"#
            ]
        );
        assert_eq!(refused(validate_flow_schema, "other", &spec), Vec::<String>::new());
    }
}
