//! The field and label selectors of access reviews.

use machinery::{Value, json};
use testenv::TestEnv;

const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// The code of a review of all pods with these selectors, and its `evaluationError` or its message.
async fn review_selectors(plane: &TestEnv, selectors: &Value) -> (u16, String) {
    let mut attributes = json!({"verb": "list", "resource": "pods"});
    machinery::patch::merge::apply(&mut attributes, selectors);
    let spec = json!({"user": "u", "resourceAttributes": attributes});
    let (code, answer) = plane.post(ACCESS_REVIEWS, &json!({"spec": spec})).await;
    let text = if code == 201 { &answer["status"]["evaluationError"] } else { &answer["message"] };
    (code, text.as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn the_selectors_of_an_access_review_are_validated() {
    let plane = TestEnv::start().await;
    let at = "spec.resourceAttributes";
    let in_values = "must be specified when `operator` is 'In' or 'NotIn'";
    let exists_values = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
    let one = json!({"key": "a", "operator": "In", "values": ["b"]});
    for field in ["fieldSelector", "labelSelector"] {
        for (selector, message) in [
            (
                json!({}),
                format!(
                    "{at}.{field}.requirements: Required value: when {at}.{field} is specified, requirements or rawSelector is required"
                ),
            ),
            (
                json!({"rawSelector": "a=b", "requirements": [one]}),
                format!(
                    "{at}.{field}.rawSelector: Invalid value: \"a=b\": may not specified at the same time as requirements"
                ),
            ),
            (
                json!({"requirements": [{"key": "a", "operator": "In"}]}),
                format!("{at}.{field}.requirements[0].values: Required value: {in_values}"),
            ),
            (
                json!({"requirements": [one, {"key": "a", "operator": "Exists", "values": ["b"]}]}),
                format!("{at}.{field}.requirements[1].values: Forbidden: {exists_values}"),
            ),
        ] {
            let message = format!(".authorization.k8s.io \"\" is invalid: {message}");
            assert_eq!(review_selectors(&plane, &json!({field: selector})).await, (422, message));
        }
    }
    let nameless = json!({"requirements": [{"key": "", "operator": "Exists"}]});
    let (code, message) = review_selectors(&plane, &json!({"fieldSelector": nameless})).await;
    assert_eq!(code, 422);
    assert!(message.ends_with("requirements[0].key: Required value: must be specified"));
    let wrong = json!({"requirements": [{"key": "-", "operator": "In", "values": ["-"]}]});
    let (code, message) = review_selectors(&plane, &json!({"labelSelector": wrong})).await;
    assert_eq!(code, 422);
    assert!(message.contains("requirements[0].key: Invalid value: \"-\": name part must"));
    assert!(message.contains("requirements[0].values[0]: Invalid value: \"-\": a valid label"));
}

#[tokio::test]
async fn a_selector_that_cannot_be_parsed_is_reported_by_an_access_review() {
    let plane = TestEnv::start().await;
    let newer = json!({"key": "a", "operator": "Newer"});
    let one = json!({"key": "a", "operator": "In", "values": ["b"]});
    let several = json!({"key": "a", "operator": "In", "values": ["b", "c"]});
    let error = |field: &str, how: &str| {
        format!("spec.resourceAttributes.{field} {how} due to parse error")
    };
    let field = |how: &str| error("fieldSelector", how);
    let label = |how: &str| error("labelSelector", how);
    for (selectors, expected) in [
        (json!({"fieldSelector": {"rawSelector": "a=b"}}), String::new()),
        (json!({"fieldSelector": {"rawSelector": "a"}}), field("ignored")),
        (json!({"labelSelector": {"rawSelector": "a=b=c"}}), label("ignored")),
        (json!({"fieldSelector": {"requirements": [newer]}}), field("ignored")),
        (json!({"fieldSelector": {"requirements": [newer, one]}}), field("partially ignored")),
        (json!({"labelSelector": {"requirements": [newer, one]}}), label("partially ignored")),
        (json!({"labelSelector": {"requirements": [several]}}), String::new()),
        (
            json!({"fieldSelector": {"requirements": [several]},
                "labelSelector": {"requirements": [newer]}}),
            format!("{}; {}", field("ignored"), label("ignored")),
        ),
    ] {
        assert_eq!(review_selectors(&plane, &selectors).await, (201, expected), "{selectors}");
    }
}
