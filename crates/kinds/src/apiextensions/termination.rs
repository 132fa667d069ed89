//! [`Termination`]: the condition `Terminating` of a CRD that is being deleted.

use super::conditions::{Condition, find, set_condition};
use machinery::Object;
use machinery::fields::top;

/// See the [module documentation](self). Upstream: `finalizer/crd_finalizer.go`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination<'a> {
    /// The deletion was requested.
    Pending,
    /// The custom resources are being deleted.
    InProgress,
    /// A custom resource cannot be deleted, for this reason.
    Failed(&'a str),
    /// All custom resources are deleted.
    Completed,
    /// The CRD was never served, and has no custom resources.
    NeverEstablished,
    /// The CRD is that of a built-in kind, whose objects are kept.
    OverlapsBuiltIn,
}

impl Termination<'_> {
    fn condition(self) -> (&'static str, &'static str, String) {
        let (status, reason, message) = match self {
            Self::Pending => (
                "True",
                "InstanceDeletionPending",
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
            ),
            Self::InProgress => {
                ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
            }
            Self::Failed(why) => {
                let message = format!("could not issue all deletes: {why}");
                return ("True", "InstanceDeletionFailed", message);
            }
            Self::Completed => ("False", "InstanceDeletionCompleted", "removed all instances"),
            Self::NeverEstablished => {
                ("False", "NeverEstablished", "resource was never established")
            }
            Self::OverlapsBuiltIn => (
                "False",
                "OverlappingBuiltInResource",
                "instances overlap with built-in resources in storage",
            ),
        };
        (status, reason, message.to_owned())
    }

    /// Whether the status of a CRD says this.
    pub fn is_in(self, crd: &Object) -> bool {
        let (status, reason, message) = self.condition();
        let wanted = Condition { kind: "Terminating", status, reason, message: &message };
        find(top(crd, "status"), "Terminating") == Some(wanted)
    }

    /// Sets the condition in the status of a CRD.
    pub fn set_in(self, crd: &mut Object, now: &str) {
        let (status, reason, message) = self.condition();
        let wanted = Condition { kind: "Terminating", status, reason, message: &message };
        set_condition(crd.map_at(&["status"]), &wanted, now);
    }
}
