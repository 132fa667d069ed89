//! [`filter`]: the fields that a request to a resource or a subresource cannot change, because they
//! are reset.
//!
//! Upstream: `GetResetFields` of each strategy.

use crate::resource::{Resource, Version};
use machinery::patch::apply::Filter;

const WITHOUT_STATUS: Filter = Filter::Without(&[&["status"]]);
const WITHOUT_SPEC: Filter = Filter::Without(&[&["spec"]]);
const ONLY_STATUS: Filter = Filter::Without(&[&["metadata"], &["spec"]]);
/// Any element of a list.
const ANY: Option<&str> = None;

/// The built-in kinds whose `/status` resets metadata as well, as that of all custom resources
/// does.
const STATUS_RESETS_METADATA: [(&str, &str); 13] = [
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("apiregistration.k8s.io", "APIService"),
    ("certificates.k8s.io", "PodCertificateRequest"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("networking.k8s.io", "ServiceCIDR"),
    ("resource.k8s.io", "DeviceTaintRule"),
    ("resource.k8s.io", "ResourceClaim"),
    ("scheduling.k8s.io", "PodGroup"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// The fields that a request to `subresource` can change; it is empty for the resource itself.
pub fn filter(resource: &Resource, version: &Version, subresource: &str) -> Filter {
    let kind = (resource.group.as_str(), resource.kind.as_str());
    match (kind, subresource) {
        (_, "status")
            if resource.conventions.status_resets_metadata
                || STATUS_RESETS_METADATA.contains(&kind) =>
        {
            ONLY_STATUS
        }
        (("", "Pod"), "status") => Filter::Without(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
        (("", "Pod"), "ephemeralcontainers") => {
            Filter::Only(&[&[Some("spec"), Some("ephemeralContainers")]])
        }
        (("", "Pod"), "resize") => Filter::Only(&[
            &[Some("spec"), Some("containers"), ANY, Some("resources")],
            &[Some("spec"), Some("containers"), ANY, Some("resizePolicy")],
            &[Some("spec"), Some("initContainers"), ANY, Some("resources")],
            &[Some("spec"), Some("initContainers"), ANY, Some("resizePolicy")],
        ]),
        (("apps", "Deployment"), "status") => {
            Filter::Without(&[&["spec"], &["metadata", "labels"]])
        }
        (("certificates.k8s.io", "CertificateSigningRequest"), _) => match subresource {
            "status" => Filter::Without(&[&["spec"], &["status", "conditions"]]),
            "approval" => Filter::Without(&[&["spec"], &["status", "certificate"]]),
            _ => Filter::Without(&[&["spec"], &["status"]]),
        },
        (_, "status") => WITHOUT_SPEC,
        (_, "" | "finalize") if version.status => WITHOUT_STATUS,
        _ => Filter::ALL,
    }
}
