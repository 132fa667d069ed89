//! A `SubjectAccessReview` as it is sent, as match conditions see it, and the status in the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::auth::authorization::{Attributes, Decision};
use crate::outbound::review_client::ReviewVersion;
use crate::request::Selectors;
use machinery::selector::{FieldRequirement, LabelRequirement, Operator};
use machinery::{Value, json};

/// The spec of a review, in version v1.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReviewSpec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_attributes: Option<ResourceSpec<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    non_resource_attributes: Option<PathSpec<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    groups: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: &'a BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpec<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_selector: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label_selector: Option<Value>,
}

#[derive(Serialize)]
struct PathSpec<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    verb: &'a str,
}

impl<'a> ReviewSpec<'a> {
    /// The spec of a review of a request.
    pub(super) fn new(attributes: &Attributes<'a>) -> Self {
        let (user, verb) = (attributes.user, attributes.verb);
        let resource_attributes = attributes.resource.map(|it| ResourceSpec {
            namespace: it.namespace,
            verb,
            group: it.group,
            version: it.version,
            resource: it.resource,
            subresource: it.subresource,
            name: it.name,
            field_selector: it.selectors.and_then(field_selector),
            label_selector: it.selectors.and_then(label_selector),
        });
        let is_path = resource_attributes.is_none();
        Self {
            resource_attributes,
            non_resource_attributes: is_path.then_some(PathSpec { path: attributes.path, verb }),
            user: &user.name,
            groups: &user.groups,
            extra: &user.extra,
            uid: &user.uid,
        }
    }

    /// The JSON of the spec.
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }

    /// The JSON of a review with this spec.
    pub(super) fn to_review(&self, version: ReviewVersion) -> String {
        let mut spec = serde_json::to_value(self).expect("texts are JSON");
        if version == ReviewVersion::V1beta1
            && let Some(groups) = spec.as_object_mut().and_then(|it| it.remove("groups"))
        {
            spec["group"] = groups;
        }
        let api_version = format!("authorization.k8s.io/{}", version.as_str());
        json!({"kind": "SubjectAccessReview", "apiVersion": api_version, "metadata": {},
            "spec": spec, "status": {"allowed": false}})
        .to_string()
    }
}

/// The variable `request` of match conditions: the spec of a review with all texts, also empty ones.
///
/// Upstream: `authorization/cel` `convertObjectToUnstructured`
pub(super) fn condition_variable(attributes: &Attributes<'_>) -> Value {
    let user = attributes.user;
    let mut request = json!({
        "user": user.name, "groups": user.groups, "uid": user.uid, "extra": user.extra,
    });
    let Some(target) = attributes.resource else {
        let path = json!({"verb": attributes.verb, "path": attributes.path});
        request["nonResourceAttributes"] = path;
        return request;
    };
    let mut resource = json!({
        "namespace": target.namespace, "verb": attributes.verb, "group": target.group,
        "version": target.version, "resource": target.resource,
        "subresource": target.subresource, "name": target.name,
    });
    if let Some(selector) = target.selectors.and_then(field_selector) {
        resource["fieldSelector"] = selector;
    }
    if let Some(selector) = target.selectors.and_then(label_selector) {
        resource["labelSelector"] = selector;
    }
    request["resourceAttributes"] = resource;
    request
}

fn field_selector(selectors: &Selectors) -> Option<Value> {
    let requirement = |it: &FieldRequirement| {
        let operator = if it.equal { "In" } else { "NotIn" };
        json!({"key": it.field, "operator": operator, "values": [it.value]})
    };
    selector(&selectors.fields.iter().map(requirement).collect::<Vec<_>>())
}

fn label_selector(selectors: &Selectors) -> Option<Value> {
    let requirement = |it: &LabelRequirement| {
        let operator = match it.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            // The review is then about more objects than the request.
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        let mut requirement = json!({"key": it.key, "operator": operator});
        if !it.values.is_empty() {
            requirement["values"] = json!(it.values);
        }
        Some(requirement)
    };
    selector(&selectors.labels.iter().filter_map(requirement).collect::<Vec<_>>())
}

fn selector(requirements: &[Value]) -> Option<Value> {
    (!requirements.is_empty()).then(|| json!({"requirements": requirements}))
}

/// The status of a review.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ReviewStatus {
    /// Whether the request is allowed.
    pub allowed: bool,
    denied: bool,
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Review {
    kind: String,
    api_version: String,
    status: Option<ReviewStatus>,
}

impl ReviewStatus {
    /// Reads an answer. The error is a message.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let review: Review = serde_json::from_slice(body)
            .map_err(|error| format!("the answer of the webhook cannot be read: {error}"))?;
        // Upstream: an answer without a kind is read as a review.
        let is_review = matches!(review.kind.as_str(), "" | "SubjectAccessReview")
            && (review.api_version.is_empty()
                || review.api_version.starts_with("authorization.k8s.io/v1"));
        if !is_review {
            return Err("the answer of the webhook is not a SubjectAccessReview".to_owned());
        }
        Ok(review.status.unwrap_or_default())
    }

    /// The size in bytes of what it has allocated.
    pub(super) fn size(&self) -> usize {
        self.reason.len()
    }

    /// The decision.
    pub(super) fn into_decision(self) -> Decision {
        let reason = self.reason.into();
        match (self.denied, self.allowed) {
            (true, true) => {
                let error = "webhook subject access review returned both allow and deny response"
                    .to_owned();
                Decision::Deny { reason, evaluation_error: Some(error) }
            }
            (true, false) => Decision::Deny { reason, evaluation_error: None },
            (false, true) => Decision::Allow(reason),
            (false, false) => Decision::NoOpinion { reason, evaluation_error: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::authentication::User;
    use crate::auth::authorization::ResourceAttributes;
    use crate::outbound::review_client::ReviewVersion;

    fn jane() -> User {
        let extra = BTreeMap::from([("a".to_owned(), vec!["b".to_owned()])]);
        User {
            name: "jane".to_owned(),
            uid: "7".to_owned(),
            groups: vec!["dev".to_owned()],
            extra,
            ..User::default()
        }
    }

    fn sent(attributes: &Attributes<'_>, version: ReviewVersion) -> Value {
        serde_json::from_str(&ReviewSpec::new(attributes).to_review(version)).unwrap()
    }

    #[test]
    fn a_review_has_the_attributes_of_the_request() {
        let jane = jane();
        let selectors =
            Selectors::parse("metadata.name=a,x!=b", "c,!d,e in (f,g),h!=i,j>1").unwrap();
        let pods = ResourceAttributes {
            version: "v1",
            resource: "pods",
            namespace: "n",
            selectors: Some(&selectors),
            ..ResourceAttributes::default()
        };
        let attributes = Attributes::of_resource(&jane, "list", pods);
        let fields = json!({"requirements": [
            {"key": "metadata.name", "operator": "In", "values": ["a"]},
            {"key": "x", "operator": "NotIn", "values": ["b"]}]});
        let labels = json!({"requirements": [
            {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"},
            {"key": "e", "operator": "In", "values": ["f", "g"]},
            {"key": "h", "operator": "NotIn", "values": ["i"]}]});
        let mut expected = json!({
            "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
            "spec": {"user": "jane", "uid": "7", "groups": ["dev"], "extra": {"a": ["b"]},
                "resourceAttributes": {"verb": "list", "version": "v1", "resource": "pods",
                    "namespace": "n", "fieldSelector": fields, "labelSelector": labels}},
            "status": {"allowed": false}});
        assert_eq!(sent(&attributes, ReviewVersion::V1), expected);
        expected["apiVersion"] = "authorization.k8s.io/v1beta1".into();
        let groups = expected["spec"].as_object_mut().unwrap().remove("groups").unwrap();
        expected["spec"]["group"] = groups;
        assert_eq!(sent(&attributes, ReviewVersion::V1beta1), expected);
    }

    #[test]
    fn a_review_of_a_path_has_no_resource() {
        let jane = jane();
        let attributes = Attributes { user: &jane, verb: "get", resource: None, path: "/metrics" };
        let spec = sent(&attributes, ReviewVersion::V1)["spec"].clone();
        assert_eq!(spec["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
        assert_eq!(spec.get("resourceAttributes"), None);
    }

    #[test]
    fn an_answer_allows_denies_or_has_no_opinion() {
        let decision = |status: Value| {
            let answer = json!({"kind": "SubjectAccessReview", "status": status}).to_string();
            ReviewStatus::read(answer.as_bytes()).unwrap().into_decision()
        };
        assert_eq!(decision(json!({"allowed": true})), Decision::allow());
        assert_eq!(decision(json!({"denied": true, "reason": "no"})), Decision::deny("no"));
        assert_eq!(decision(json!({"allowed": false})), Decision::no_opinion(""));
        assert_eq!(decision(Value::Null), Decision::no_opinion(""));
        let both = decision(json!({"allowed": true, "denied": true}));
        assert!(!both.is_allowed() && both.evaluation_error().is_some());
        assert!(ReviewStatus::read(b"{\"kind\": \"Status\"}").is_err());
        assert!(ReviewStatus::read(b"<html>").is_err());
    }
}
