//! The identity of pods: their ordinal, name, host name, labels and claims.
//!
//! ```text
//! set web, ordinal 2, claim template data ─▶ pod web-2, host name web-2, claim data-web-2
//! ```

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::view::{ClaimTemplate, PodView, StatefulSetView};
use crate::controller_history::REVISION_LABEL;
use crate::metadata::Metadata;
use crate::pod_control::TemplateMetadata;

/// The label of a pod with its name.
pub(super) const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// The label of a pod with its ordinal.
pub(super) const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name of a set's pod.
pub(super) fn pod_name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// The name of a claim.
pub(super) fn claim_name(template: &ClaimTemplate, set: &str, ordinal: i32) -> String {
    format!("{}-{set}-{ordinal}", template.metadata.name)
}

/// The name of the set and the ordinal in the name of a pod.
fn parse(pod: &str) -> Option<(&str, i32)> {
    let (set, ordinal) = pod.rsplit_once('-')?;
    let is_number = !ordinal.is_empty() && ordinal.bytes().all(|it| it.is_ascii_digit());
    Some((set, ordinal.parse().ok().filter(|_| is_number)?))
}

/// The ordinal of a pod.
pub(super) fn ordinal(pod: &PodView) -> Option<i32> {
    parse(&pod.metadata.name).map(|(_, ordinal)| ordinal)
}

/// Whether the name of a pod is that of a pod of this set.
pub(super) fn is_member(set: &str, pod: &PodView) -> bool {
    parse(&pod.metadata.name).is_some_and(|(parent, _)| parent == set)
}

/// The sets that may have a claim of this name.
pub(super) fn sets_of_claim(claim: &str) -> impl Iterator<Item = &str> {
    let rest = parse(claim).map_or("", |(rest, _)| rest);
    rest.match_indices('-').map(move |(at, _)| &rest[at + 1..])
}

/// The revision of a pod.
pub(super) fn revision(pod: &PodView) -> &str {
    pod.metadata.labels.get(REVISION_LABEL).map_or("", String::as_str)
}

/// Whether the pod has the labels of its identity.
pub(super) fn identity_matches(pod: &Metadata) -> bool {
    pod.labels.get(POD_NAME_LABEL) == Some(&pod.name)
}

/// Whether the volumes of a pod are the claims of its ordinal.
pub(super) fn storage_matches(set: &StatefulSetView, pod: &PodView, ordinal: i32) -> bool {
    set.spec.volume_claim_templates.iter().all(|template| {
        let name = template.metadata.name.as_str();
        let volume = pod.spec.volumes.iter().find(|volume| volume["name"] == name);
        let claim = claim_name(template, &set.metadata.name, ordinal);
        volume.is_some_and(|volume| volume["persistentVolumeClaim"]["claimName"] == claim)
    })
}

/// The volumes of a pod, in which the claims replace other volumes of their names.
pub(super) fn volumes(set: &StatefulSetView, ordinal: i32, others: &[Value]) -> Vec<Value> {
    let templates = &set.spec.volume_claim_templates;
    let mut volumes: Vec<Value> = templates
        .iter()
        .map(|template| {
            let claim = claim_name(template, &set.metadata.name, ordinal);
            let name = &template.metadata.name;
            json!({"name": name, "persistentVolumeClaim": {"claimName": claim}})
        })
        .collect();
    let is_claim = |volume: &Value| templates.iter().any(|it| volume["name"] == it.metadata.name);
    volumes.extend(others.iter().filter(|volume| !is_claim(volume)).cloned());
    volumes
}

/// The metadata and the spec of a new pod of a template.
pub(super) fn new_pod(
    set: &StatefulSetView,
    template: &Value,
    revision: &str,
    ordinal: i32,
) -> (TemplateMetadata, Value) {
    let mut metadata = TemplateMetadata::deserialize(&template["metadata"]).unwrap_or_default();
    let name = pod_name(&set.metadata.name, ordinal);
    for (label, value) in [
        (POD_NAME_LABEL, name.clone()),
        (POD_INDEX_LABEL, ordinal.to_string()),
        (REVISION_LABEL, revision.to_owned()),
    ] {
        metadata.labels.insert(label.to_owned(), value);
    }
    let mut spec: Map<String, Value> = template["spec"].as_object().cloned().unwrap_or_default();
    spec.insert("hostname".to_owned(), name.into());
    if set.spec.service_name.is_empty() {
        spec.remove("subdomain");
    } else {
        spec.insert("subdomain".to_owned(), set.spec.service_name.as_str().into());
    }
    if !set.spec.volume_claim_templates.is_empty() {
        let others = spec.get("volumes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let volumes = volumes(set, ordinal, others);
        spec.insert("volumes".to_owned(), volumes.into());
    }
    (metadata, spec.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinal_is_the_number_after_the_last_dash() {
        for (name, expected) in [
            ("web-0", Some(("web", 0))),
            ("my-web-12", Some(("my-web", 12))),
            ("web", None),
            ("web-", None),
            ("web-x1", None),
            ("web-+1", None),
            ("web-99999999999", None),
        ] {
            assert_eq!(parse(name), expected, "{name}");
        }
    }

    #[test]
    fn a_claim_may_belong_to_each_set_whose_name_ends_its_own() {
        let sets: Vec<&str> = sets_of_claim("data-my-web-0").collect();
        assert_eq!(sets, ["my-web", "web"]);
        assert_eq!(sets_of_claim("data").count(), 0);
    }
}
