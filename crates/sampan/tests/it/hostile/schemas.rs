//! Schemas and rules that are expensive to evaluate.

use super::{AttackedPlane, COLLECTION, CRDS, JSON, assert_refused, refusal, traps};
use machinery::{Map, Value, json};

const TRAPS: &str = "/apis/hostile.example.dev/v1/traps";

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn trap(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "hostile.example.dev/v1", "kind": "Trap", "metadata": {"name": name},
        "spec": spec})
}

/// The error message for a CRD with a schema of `spec`.
fn crd_refusal(attacked: &mut AttackedPlane, spec: &Value) -> String {
    let crd = traps(&object(&json!({"spec": spec}))).to_string();
    let response = attacked.send("POST", CRDS, JSON, crd.as_bytes());
    refusal(&response, 422, "Invalid")
}

#[test]
fn a_rule_over_the_cost_limit_is_refused() {
    let mut attacked = AttackedPlane::start();
    let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d > 0))))";
    let spec = json!({"type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule}]});
    let message = crd_refusal(&mut attacked, &spec);
    let why = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x";
    assert!(message.contains(why), "{message}");
    let nested = "[1].all(a, ".repeat(1000) + "true" + &")".repeat(1000);
    let message = crd_refusal(
        &mut attacked,
        &json!({"type": "integer", "x-kubernetes-validations": [{"rule": nested}]}),
    );
    assert!(message.contains("recursion"), "{message}");
    attacked.assert_healthy();
}

#[test]
fn a_policy_over_the_cost_budget_is_stopped() {
    let mut attacked = AttackedPlane::start();
    let all =
        "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, true))))";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["configmaps"]});
    attacked.send_accepted(
        "POST",
        POLICIES,
        &json!({"metadata": {"name": "endless"}, "spec": {
            "matchConstraints": {"resourceRules": [rule],
                "objectSelector": {"matchLabels": {"checked": "yes"}}},
            "validations": [{"expression": all}]}}),
    );
    attacked.send_accepted(
        "POST",
        BINDINGS,
        &json!({"metadata": {"name": "endless"},
            "spec": {"policyName": "endless", "validationActions": ["Deny"]}}),
    );
    let data: Map<String, Value> = (0..500).map(|it| (format!("k{it}"), "v".into())).collect();
    let labels = json!({"checked": "yes"});
    let map = json!({"metadata": {"name": "checked", "labels": labels}, "data": data}).to_string();
    let response = attacked.send("POST", COLLECTION, JSON, map.as_bytes());
    let message = refusal(&response, 422, "Invalid");
    assert!(message.contains("operation cancelled: actual cost limit exceeded"), "{message}");
    attacked.assert_healthy();
}

#[test]
fn large_patterns_are_refused_and_matching_is_linear() {
    let mut attacked = AttackedPlane::start();
    let huge = "((a{1000}){1000}){1000}";
    let message = crd_refusal(&mut attacked, &json!({"type": "string", "pattern": huge}));
    assert!(message.contains("pattern: Invalid value"), "{message}");
    let rule = format!("self.matches('{huge}')");
    let spec = json!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
    let message = crd_refusal(&mut attacked, &spec);
    assert!(message.contains("rule: Invalid value"), "{message}");
    // A backtracking matcher needs exponential time for this pattern.
    let slow = "^(([a-z])+.)+[A-Z]([a-z])+$";
    let rule = json!({"rule": format!("!self.matches('{slow}')")});
    let text = json!({"type": "string", "maxLength": 100_000});
    let mut ruled = text.clone();
    ruled["x-kubernetes-validations"] = json!([rule]);
    let mut patterned = text;
    patterned["pattern"] = slow.into();
    let spec = object(&json!({"ruled": ruled, "patterned": patterned}));
    attacked.create_crd(&traps(&object(&json!({"spec": spec}))));
    let bait = "a".repeat(100_000);
    attacked.send_accepted("POST", TRAPS, &trap("ruled", &json!({"ruled": bait})));
    let body = trap("patterned", &json!({"patterned": bait})).to_string();
    let message = refusal(&attacked.send("POST", TRAPS, JSON, body.as_bytes()), 422, "Invalid");
    assert!(message.ends_with(&format!("in body should match '{slow}'")), "{}", message.len());
    attacked.assert_healthy();
}

#[test]
fn a_schema_cannot_refer_to_itself() {
    let mut attacked = AttackedPlane::start();
    let message = crd_refusal(&mut attacked, &json!({"$ref": "#/properties/spec"}));
    let why = "openAPIV3Schema.properties[spec].$ref: Forbidden: $ref is not supported";
    assert!(message.contains(why), "{message}");
    attacked.assert_healthy();
}

#[test]
fn a_thousand_rules_are_enforced() {
    let mut attacked = AttackedPlane::start();
    let rules: Vec<Value> = (0..1000)
        .map(|it| json!({"rule": format!("self != {it}"), "message": format!("not {it}")}))
        .collect();
    let spec = json!({"type": "integer", "x-kubernetes-validations": rules});
    attacked.create_crd(&traps(&object(&json!({"spec": spec}))));
    attacked.send_accepted("POST", TRAPS, &trap("fine", &json!(1000)));
    let body = trap("last", &json!(999)).to_string();
    let response = attacked.send("POST", TRAPS, JSON, body.as_bytes());
    let message = "Trap.hostile.example.dev \"last\" is invalid: spec: Invalid value: 999: not 999";
    assert_refused(&response, 422, "Invalid", message);
    attacked.assert_healthy();
}

/// A CRD whose schema has a number of fields, of about 160 bytes each.
fn wide(fields: usize) -> Value {
    let field =
        |it| (format!("field{it:06}"), json!({"type": "string", "description": "x".repeat(100)}));
    let fields: Map<String, Value> = (0..fields).map(field).collect();
    traps(&object(&json!({"spec": {"type": "object", "properties": fields}})))
}

#[test]
fn a_schema_of_a_megabyte_is_served_and_larger_ones_are_refused() {
    let mut attacked = AttackedPlane::start();
    for (fields, limit) in [(40_000, "limit is 3145728"), (17_000, "1572864")] {
        let crd = wide(fields).to_string();
        let response = attacked.send("POST", CRDS, JSON, crd.as_bytes());
        let message = refusal(&response, 413, "RequestEntityTooLarge");
        assert!(message.contains(limit), "{message}");
    }
    attacked.create_crd(&wide(9_000));
    attacked.send_accepted("POST", TRAPS, &trap("one", &json!({"field000007": "x"})));
    let path = "/openapi/v3/apis/hostile.example.dev/v1";
    assert_eq!(attacked.client.send("GET", path, None).unwrap().0, 200);
    attacked.assert_healthy();
}
