//! Large CRDs, and custom resources with long lists.

use http::Method;

use super::{TestRequest, check};
use crate::objects::{CRDS, THINGS, any_schema, thing, thing_crd};
use machinery::{Map, Value, json};
use testenv::TestEnv;
use testenv::media_type::MERGE_PATCH;

fn spec(properties: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
}

async fn plane_of(properties: &Value) -> TestEnv {
    let plane = TestEnv::start().await;
    plane.install_crd(&thing_crd(&spec(properties))).await;
    plane
}

fn list(count: usize, one: impl Fn(usize) -> Value) -> Value {
    json!({"list": (0..count).map(one).collect::<Value>()})
}

#[tokio::test]
async fn list_maps_and_sets_take_linear_time() {
    let keyed = json!({"list": {"type": "array", "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
        "properties": {"k": {"type": "integer"}}}}});
    let plane = plane_of(&keyed).await;
    for (code, divisor) in [(201, 1), (422, 2)] {
        check(&plane, code, 2000, |n| {
            TestRequest::post(THINGS, &thing("a", &list(n, |it| json!({"k": it / divisor}))))
        })
        .await;
    }
    let set = json!({"list": {"type": "array", "x-kubernetes-list-type": "set",
        "items": {"type": "integer"}}});
    let plane = plane_of(&set).await;
    for (code, divisor) in [(201, 1), (422, 2)] {
        check(&plane, code, 4000, |n| {
            TestRequest::post(THINGS, &thing("a", &list(n, |it| (it / divisor).into())))
        })
        .await;
    }
}

#[tokio::test]
async fn rules_that_compare_long_lists_take_linear_time() {
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "maxItems": 10_000,
        "items": {"type": "integer"}});
    let keyed = json!({"type": "array", "x-kubernetes-list-type": "map", "maxItems": 10_000,
        "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"],
        "properties": {"k": {"type": "integer"}}}});
    let set_rules = ["self.a == self.b", "self.a + self.b == self.a"];
    // The elements of two lists of objects have different types.
    let keyed_rules = ["self.a + self.a == self.a", "self.b == self.b"];
    let number = |it: usize| json!(it);
    let element = |it: usize| json!({"k": it});
    for (kind, rules, item) in
        [(set, set_rules, number as fn(usize) -> Value), (keyed, keyed_rules, element)]
    {
        let plane = TestEnv::start().await;
        let mut schema = spec(&json!({"a": kind, "b": kind}));
        schema["properties"]["spec"]["x-kubernetes-validations"] =
            rules.iter().map(|it| json!({"rule": it})).collect();
        plane.install_crd(&thing_crd(&schema)).await;
        check(&plane, 201, 2000, |n| {
            let forward: Value = (0..n).map(item).collect();
            let backward: Value = (0..n).rev().map(item).collect();
            TestRequest::post(THINGS, &thing("a", &json!({"a": forward, "b": backward})))
        })
        .await;
    }
}

#[tokio::test]
async fn many_enum_values_and_required_fields_take_linear_time() {
    let choices: Value = (0..8000).map(|it| Value::from(format!("c{it}"))).collect();
    let strings = json!({"list": {"type": "array", "items": {"type": "string", "enum": choices}}});
    let plane = plane_of(&strings).await;
    for (code, prefix) in [(201, "c"), (422, "d")] {
        check(&plane, code, 2000, |n| {
            TestRequest::post(THINGS, &thing("a", &list(n, |it| format!("{prefix}{it}").into())))
        })
        .await;
    }
    let plane = TestEnv::start().await;
    let required: Value = (0..2000).map(|it| Value::from(format!("r{it}"))).collect();
    let objects =
        json!({"list": {"type": "array", "items": {"type": "object", "required": required}}});
    plane.install_crd(&thing_crd(&spec(&objects))).await;
    check(&plane, 422, 500, |n| TestRequest::post(THINGS, &thing("a", &list(n, |_| json!({})))))
        .await;
}

#[tokio::test]
async fn unknown_fields_and_errors_below_a_long_key_take_linear_time() {
    let maps = json!({"map": {"type": "object", "additionalProperties": {"type": "object",
        "properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}}}}});
    let plane = plane_of(&maps).await;
    let below = |n: usize, fields: Map<String, Value>, field: Option<&str>| {
        let fields = match field {
            Some(field) => json!({field: fields}),
            None => Value::Object(fields),
        };
        thing("a", &json!({"map": {"x".repeat(n * 10): fields}}))
    };
    let many = |n: usize| (0..n).map(|it| (format!("u{it}"), Value::from("v"))).collect();
    check(&plane, 201, 5000, |n| TestRequest::post(THINGS, &below(n, many(n), None))).await;
    check(&plane, 422, 5000, |n| TestRequest::post(THINGS, &below(n, many(n), Some("a")))).await;
}

#[tokio::test]
async fn ratcheting_of_rules_that_fail_for_every_item_takes_bounded_time() {
    let loose =
        json!({"list": {"type": "array", "maxItems": 10_000, "items": {"type": "integer"}}});
    let plane = plane_of(&loose).await;
    plane.create(THINGS, &thing("a", &list(8000, Value::from))).await;
    let mut strict = loose.clone();
    strict["list"]["items"]["x-kubernetes-validations"] = json!([{"rule": "self < 0"}]);
    let path = format!("{CRDS}/things.example.com");
    let versions = thing_crd(&spec(&strict))["spec"]["versions"].clone();
    plane.merge(&path, &json!({"spec": {"versions": versions}})).await;
    let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
    let path = format!("{THINGS}/a?dryRun=All");
    let request = TestRequest::new(Method::PATCH, path, MERGE_PATCH, patch);
    let spent = super::cpu_time(&plane, 200, &request).await;
    assert!(spent.as_secs() < 10, "{spent:?}");
}

#[tokio::test]
async fn large_crds_take_linear_time() {
    let plane = TestEnv::start().await;
    check(&plane, 201, 500, |n| {
        let properties: Map<String, Value> =
            (0..n).map(|it| (format!("p{it}"), json!({"type": "string"}))).collect();
        TestRequest::post(CRDS, &thing_crd(&spec(&Value::Object(properties))))
    })
    .await;
    check(&plane, 201, 100, |n| {
        let mut crd = thing_crd(&any_schema());
        let version = |it: usize| {
            json!({"name": format!("v{}", it + 1), "served": true, "storage": it == 0,
                "schema": {"openAPIV3Schema": any_schema()}})
        };
        crd["spec"]["versions"] = (0..n).map(version).collect();
        TestRequest::post(CRDS, &crd)
    })
    .await;
    check(&plane, 201, 500, |n| {
        let mut crd = thing_crd(&any_schema());
        crd["spec"]["versions"][0]["additionalPrinterColumns"] = (0..n)
            .map(|it| json!({"name": format!("c{it}"), "type": "string", "jsonPath": ".spec.a"}))
            .collect();
        TestRequest::post(CRDS, &crd)
    })
    .await;
    check(&plane, 201, 100, |n| {
        let rules: Value = (0..n).map(|it| json!({"rule": format!("self.a > {it}")})).collect();
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"a": {"type": "integer"}}, "x-kubernetes-validations": rules}}});
        TestRequest::post(CRDS, &thing_crd(&schema))
    })
    .await;
    check(&plane, 201, 50, |n| {
        let leaf = json!({"type": "string"});
        let nested =
            (0..n).fold(leaf, |below, _| json!({"type": "object", "properties": {"a": below}}));
        TestRequest::post(CRDS, &thing_crd(&spec(&json!({"a": nested}))))
    })
    .await;
}

#[tokio::test]
async fn a_crd_with_expensive_patterns_is_refused_with_a_cause() {
    let plane = TestEnv::start().await;
    let properties: Map<String, Value> = (0..200)
        .map(|n| {
            let pattern = format!("\\b[\\p{{L}}]{{1,900}}x{n}");
            (format!("p{n}"), json!({"type": "string", "pattern": pattern}))
        })
        .collect();
    let schema = spec(&Value::Object(properties));
    let (code, status) = plane.post(CRDS, &thing_crd(&schema)).await;
    assert_eq!(code, 422);
    let cause = &status["details"]["causes"][0];
    assert_eq!(
        cause["field"],
        "spec.validation.openAPIV3Schema.properties[spec].properties[p0].pattern"
    );
    assert!(cause["message"].as_str().unwrap().contains("expression too large"), "{cause}");
}

#[tokio::test]
async fn patterns_computed_by_a_rule_count_for_its_cost() {
    let pairs = json!({"list": {"type": "array", "maxItems": 10_000, "items": {"type": "object",
        "properties": {"p": {"type": "string", "maxLength": 30}}, "x-kubernetes-validations":
            [{"rule": "!has(self.p) || !'a'.matches(self.p)"}]}}});
    let plane = plane_of(&pairs).await;
    let object =
        |n: usize| thing("a", &list(n, |it| json!({"p": format!("[\\p{{L}}]{{1,3}}x{it}")})));
    check(&plane, 201, 100, |n| TestRequest::post(THINGS, &object(n))).await;
    let (code, status) = plane.post(THINGS, &object(10_000)).await;
    assert_eq!(code, 422);
    assert!(status.to_string().contains("cost budget"), "{}", status["message"]);
}
