//! Authorization of the parameters of policies. The messages of a policy can contain its parameters,
//! so the user who writes the policy must be allowed to read all objects of its `paramKind`, and the
//! user who writes a binding must be allowed to read the objects that its `paramRef` selects.
//!
//! Upstream: pkg/registry/admissionregistration, `authz.go` of each kind. It is a part of the
//! validation there, and runs on valid objects only.

use super::GROUP;
use super::params::ParamKind;
use super::policy_spec::text;
use crate::admission::Attributes;
use crate::auth::authentication::User;
use crate::auth::authorization;
use crate::auth::authorization::{Decision, ResourceAttributes};
use machinery::{ErrorList, GroupVersion, Object, Path, Status, Value};

/// Rejects a policy or a binding whose parameters the user cannot read.
pub(in crate::admission) async fn authorize_params(
    attributes: &Attributes<'_>,
    object: &Object,
) -> Result<(), Status> {
    let resource = attributes.scope.resource();
    if resource.group != GROUP || !attributes.scope.path.subresource.is_empty() {
        return Ok(());
    }
    let (field, result) = match resource.plural.as_str() {
        "validatingadmissionpolicies" | "mutatingadmissionpolicies" => {
            ("paramKind", authorize_param_kind(attributes, object).await)
        }
        "validatingadmissionpolicybindings" => {
            ("paramRef", authorize_param_ref(attributes, object, BindingKind::Validating).await)
        }
        "mutatingadmissionpolicybindings" => {
            ("paramRef", authorize_param_ref(attributes, object, BindingKind::Mutating).await)
        }
        _ => return Ok(()),
    };
    result.map_err(|why| {
        let mut errors = ErrorList::new();
        errors.forbidden(&Path::root("spec").child(field), &why);
        attributes.scope.invalid(object.name(), errors)
    })
}

/// The kind of a binding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BindingKind {
    Validating,
    Mutating,
}

impl BindingKind {
    /// The resource of the policies.
    fn policies(self) -> &'static str {
        match self {
            Self::Validating => "validatingadmissionpolicies",
            Self::Mutating => "mutatingadmissionpolicies",
        }
    }

    /// The message for a user who lacks a permission on the parameters.
    fn refusal(self, user: &str, verb: &str) -> String {
        match self {
            Self::Validating => format!(
                r#"user {user} does not have "{verb}" permission on the object referenced by paramRef"#
            ),
            // Upstream: the user and the verb are exchanged.
            Self::Mutating => format!(
                r#"user {verb} does not have "{user}" permission on the object referenced by paramRef"#
            ),
        }
    }

    /// The message for an error of an authorizer.
    fn failure(self, error: &str) -> String {
        match self {
            Self::Validating => format!("failed to authorize request: {error}"),
            Self::Mutating => error.to_owned(),
        }
    }
}

/// The resource of a `paramKind`. A part that cannot be resolved is `*`, so that the user must have
/// the permission on everything that the kind could be.
struct ParamPermission {
    group: String,
    version: String,
    resource: String,
    /// Why the kind is not resolved; None if it is resolved.
    unresolved: Option<String>,
}

impl ParamPermission {
    /// The permission on everything.
    fn on_everything(unresolved: Option<String>) -> Self {
        let all = || "*".to_owned();
        Self { group: all(), version: all(), resource: all(), unresolved }
    }

    fn of_kind(attributes: &Attributes<'_>, kind: &Value) -> Self {
        let shown = format!("paramKind &{{{} {}}}", text(kind, "apiVersion"), text(kind, "kind"));
        let Ok(GroupVersion { group, version }) = text(kind, "apiVersion").parse() else {
            return Self::on_everything(Some(format!("unable to parse {shown}")));
        };
        let catalog = attributes.scope.storage.catalog.load();
        let found = ParamKind::of(kind).and_then(|it| it.find(&catalog).ok());
        match found {
            Some(found) => {
                let resource = found.served.resource.plural.clone();
                Self { group, version, resource, unresolved: None }
            }
            None => Self {
                group,
                version,
                resource: "*".to_owned(),
                unresolved: Some(format!("unable to resolve {shown}")),
            },
        }
    }

    /// The permission on the `paramKind` of a policy.
    fn of_policy(attributes: &Attributes<'_>, policies: &str, name: &str) -> Self {
        let catalog = attributes.scope.storage.catalog.load();
        let policy = catalog
            .resource(GROUP, policies)
            .and_then(|served| served.cache.get(&served.key("", name)))
            .map(|entry| entry.object_as_stored());
        match policy {
            None => Self::on_everything(Some(format!("unable to get policy {name}"))),
            Some(policy) => match param_kind(&policy) {
                None => Self::on_everything(None),
                Some(kind) => Self::of_kind(attributes, kind),
            },
        }
    }

    async fn decide(
        &self,
        attributes: &Attributes<'_>,
        verb: &str,
        namespace: &str,
        name: &str,
    ) -> Decision {
        let Self { group, version, resource, .. } = self;
        let resource =
            ResourceAttributes { group, version, resource, namespace, name, ..Default::default() };
        let user = &attributes.scope.user;
        let read = authorization::Attributes::of_resource(user, verb, resource);
        attributes.admission.authorizers.decide(&read).await
    }
}

/// The user must be allowed to get all objects of the kind, unless the policy had the kind before.
async fn authorize_param_kind(attributes: &Attributes<'_>, policy: &Object) -> Result<(), String> {
    let Some(kind) = param_kind(policy) else { return Ok(()) };
    let (api_version, name) = (text(kind, "apiVersion"), text(kind, "kind"));
    let old = attributes.old.and_then(param_kind);
    if old.is_some_and(|it| text(it, "apiVersion") == api_version && text(it, "kind") == name) {
        return Ok(());
    }
    let permission = ParamPermission::of_kind(attributes, kind);
    let decision = permission.decide(attributes, "get", "*", "*").await;
    if decision.is_allowed() {
        return Ok(());
    }
    Err(match decision.evaluation_error() {
        Some(error) => error.to_owned(),
        None => format!(
            r#"user {} must have "get" permission on all objects of the referenced paramKind (kind={name}, apiVersion={api_version})"#,
            go_user(&attributes.scope.user),
        ),
    })
}

/// The user must be allowed to get the named object, or to list the selected objects.
///
/// Upstream: an unchanged reference is authorized too, since pointers in it are compared.
async fn authorize_param_ref(
    attributes: &Attributes<'_>,
    binding: &Object,
    binding_kind: BindingKind,
) -> Result<(), String> {
    let reference = binding.get(&["spec", "paramRef"]).filter(|it| it.is_object());
    let Some(reference) = reference else { return Ok(()) };
    let policy = binding.str_at(&["spec", "policyName"]);
    let permission = ParamPermission::of_policy(attributes, binding_kind.policies(), policy);
    let name = text(reference, "name");
    let verb = if name.is_empty() { "list" } else { "get" };
    let decision = permission.decide(attributes, verb, text(reference, "namespace"), name).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let user = go_user(&attributes.scope.user);
    Err(match (decision.evaluation_error(), permission.unresolved) {
        (Some(error), _) => binding_kind.failure(error),
        (None, Some(why)) => format!(
            r#"{why} to determine minimum required permissions and user {user} does not have "{verb}" permission for all groups, versions and resources"#
        ),
        (None, None) => binding_kind.refusal(&user, verb),
    })
}

fn param_kind(policy: &Object) -> Option<&Value> {
    policy.get(&["spec", "paramKind"]).filter(|it| it.is_object())
}

/// The user as Go formats it with `%v`.
fn go_user(user: &User) -> String {
    let extra: Vec<String> =
        user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    let groups = user.groups.join(" ");
    format!("&{{{} {} [{groups}] map[{}]}}", user.name, user.uid, extra.join(" "))
}
