//! The API groups, the verbs and the rules that recur in the tables.

use machinery::PolicyRule;

/// A rule of a table.
pub(super) const fn rule(groups: Terms, resources: Terms, verbs: Terms) -> PolicyRule {
    PolicyRule::new(groups, resources, verbs)
}

/// Groups, resources or verbs; sorted, as upstream stores them.
type Terms = &'static [&'static str];

/// The right to record events.
pub(super) const EVENTS: PolicyRule =
    rule(CORE_AND_EVENTS, &["events"], &["create", "patch", "update"]);

/// Every group, resource, verb or URL.
pub(super) const ALL: Terms = &["*"];

pub(super) const APPS: Terms = &["apps"];
// Nothing is served in `extensions` any more, but upstream's roles still name it.
pub(super) const APPS_AND_EXTENSIONS: Terms = &["apps", "extensions"];
pub(super) const AUTHENTICATION: Terms = &["authentication.k8s.io"];
pub(super) const AUTHORIZATION: Terms = &["authorization.k8s.io"];
pub(super) const AUTOSCALING: Terms = &["autoscaling"];
pub(super) const BATCH: Terms = &["batch"];
pub(super) const CERTIFICATES: Terms = &["certificates.k8s.io"];
pub(super) const COORDINATION: Terms = &["coordination.k8s.io"];
pub(super) const CORE: Terms = &[""];
pub(super) const CORE_AND_EVENTS: Terms = &["", "events.k8s.io"];
pub(super) const DISCOVERY: Terms = &["discovery.k8s.io"];
pub(super) const EXTENSIONS: Terms = &["extensions"];
pub(super) const NETWORKING: Terms = &["networking.k8s.io"];
pub(super) const POLICY: Terms = &["policy"];
pub(super) const RBAC: Terms = &[crate::rbac::GROUP];
pub(super) const RESOURCE: Terms = &["resource.k8s.io"];
pub(super) const STORAGE: Terms = &["storage.k8s.io"];

pub(super) const CREATE: Terms = &["create"];
pub(super) const GET: Terms = &["get"];
pub(super) const UPDATE: Terms = &["update"];
pub(super) const PATCH_UPDATE: Terms = &["patch", "update"];
pub(super) const LIST_WATCH: Terms = &["list", "watch"];
pub(super) const READ: Terms = &["get", "list", "watch"];
pub(super) const READ_UPDATE: Terms = &["get", "list", "update", "watch"];
pub(super) const READ_PATCH_UPDATE: Terms = &["get", "list", "patch", "update", "watch"];
pub(super) const WRITE: Terms = &["create", "delete", "deletecollection", "patch", "update"];
pub(super) const READ_WRITE: Terms =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
