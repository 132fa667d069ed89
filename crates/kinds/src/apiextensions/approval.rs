//! The approval annotation that CRDs in Kubernetes' own groups need, and the condition about it.

use super::conditions::Condition;
use machinery::field_path::quote;
use machinery::{ErrorList, Object, Path};

/// The annotation with the URL of the approval, or with a reason why there is none.
const ANNOTATION: &str = "api-approved.kubernetes.io";
const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";

/// The state of a CRD's approval.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Malformed,
}

impl Approval {
    fn of(object: &Object) -> Self {
        match object.annotation(ANNOTATION).unwrap_or_default() {
            "" => Self::Missing,
            why if why.starts_with("unapproved") => Self::Bypassed,
            link if schema::is_absolute_uri(link) => Self::Approved,
            _ => Self::Malformed,
        }
    }

    /// The status and the reason of the condition.
    fn status_and_reason(self) -> (&'static str, &'static str) {
        match self {
            Self::Missing => ("False", "MissingAnnotation"),
            Self::Bypassed => ("False", "UnapprovedAnnotation"),
            Self::Approved => ("True", "ApprovedAnnotation"),
            Self::Malformed => ("False", "InvalidAnnotation"),
        }
    }

    fn message(self, annotation: &str) -> String {
        match self {
            Self::Missing => {
                format!("protected groups must have approval annotation \"{ANNOTATION}\", {SEE}")
            }
            Self::Bypassed => format!("not approved: {}", quote(annotation)),
            Self::Approved => format!("approved in {annotation}"),
            Self::Malformed => format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {SEE}"
            ),
        }
    }
}

fn needs_approval(crd: &Object) -> bool {
    let group = crd.str_at(&["spec", "group"]);
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// The status, reason and message of the condition.
#[derive(Debug)]
pub(super) struct ApprovalStatus {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl ApprovalStatus {
    /// None for a group that is not Kubernetes' own.
    pub(super) fn of(crd: &Object) -> Option<Self> {
        let approval = needs_approval(crd).then(|| Approval::of(crd))?;
        let (status, reason) = approval.status_and_reason();
        let message = approval.message(crd.annotation(ANNOTATION).unwrap_or_default());
        Some(Self { status, reason, message })
    }

    /// As a condition.
    pub(super) fn condition(&self) -> Condition<'_> {
        Condition {
            kind: "KubernetesAPIApprovalPolicyConformant",
            status: self.status,
            reason: self.reason,
            message: &self.message,
        }
    }
}

/// Adds an error if the approval is missing or malformed and was not so in the stored CRD.
pub(super) fn validate(new: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let approval = Approval::of(new);
    if !needs_approval(new) || old.is_some_and(|old| Approval::of(old) == approval) {
        return;
    }
    let metadata = Path::root("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(ANNOTATION);
    let annotation = new.annotation(ANNOTATION).unwrap_or_default();
    match approval {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.required(&path, &approval.message(annotation)),
        Approval::Malformed => errors.invalid(&path, annotation, &approval.message(annotation)),
    }
}
