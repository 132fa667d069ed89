//! Admission: mutates and validates objects before they are stored, in Kubernetes' order. Mutating
//! plugins run before validation, validating plugins after it. Each of the two phases ends with
//! policies and then webhooks; quotas are checked last.

mod attributes;
mod admitter;
mod plugins;
mod namespace_lifecycle;
mod limit_ranger;
mod service_account;
mod node_restriction;
mod taint_nodes_by_condition;
mod always_pull_images;
mod limit_pod_hard_anti_affinity_topology;
mod deny_service_external_ips;
mod pod_security;
mod priority;
mod default_toleration_seconds;
mod default_class;
mod default_storage_class;
mod default_ingress_class;
mod storage_object_in_use_protection;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod runtime_class;
mod signer_authorization;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod device_admin_access;
mod initializers;
mod matching;
mod error_order;
mod authorizer;
mod admission_request;
mod policy;
mod webhook;
mod scale_subresource;
mod resource_quota;

use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::auth::authorization::Authorizers;
use crate::rbac::rule_resolver::RuleResolver;
use crate::registry::admit::AdmissionFuture;
use crate::registry::scope::RequestScope;
use crate::storage::hooks::{Reservation, Validate as ValidateHook};
use crate::storage::parsed_objects::ParsedObjects;
use crate::storage::snapshot_value::SnapshotValue;
use kinds::core::limit_range::enforcement::Limits;
use machinery::{Object, Status};
use plugins::Plugin;
use policy::{Policies, PolicyReinvokeContext};
use resource_quota::{ParsedQuota, QuotaAccounting};
use webhook::{WebhookMetrics, WebhookReinvokeContext, Webhooks};

pub(crate) use attributes::{Attributes, Operation, OperationOptions};
pub(crate) use device_admin_access::status_validation_hook;
pub(crate) use namespace_lifecycle::IMMORTAL_NAMESPACES;
pub use plugins::PluginSelectionError;
pub(crate) use plugins::Plugins;
pub(crate) use policy::run_policy_status_controller;
pub(crate) use resource_quota::status::run_quota_status_controller;

/// The state of admission between requests: parsed configuration, quota usage and metrics.
pub(crate) struct Admission {
    plugins: Plugins,
    limit_ranges: ParsedObjects<Limits>,
    priority_classes: SnapshotValue<priority::PriorityClasses>,
    /// The name of the default storage class.
    default_storage_class: SnapshotValue<Option<String>>,
    /// The name of the default ingress class.
    default_ingress_class: SnapshotValue<Option<String>>,
    initializers: SnapshotValue<Vec<initializers::Initializer>>,
    quotas: ParsedObjects<ParsedQuota>,
    quota_accounting: Arc<QuotaAccounting>,
    policies: Policies,
    webhooks: Webhooks,
    webhook_metrics: WebhookMetrics,
    authorizers: Authorizers,
    /// Present if roles are in effect.
    rules: Option<Arc<RuleResolver>>,
}

impl Admission {
    /// Admission with these plugins. Their metrics are registered in `registry`.
    pub(crate) fn new(
        plugins: Plugins,
        authorizers: Authorizers,
        rules: Option<Arc<RuleResolver>>,
        registry: &mut Registry,
    ) -> Self {
        Self {
            plugins,
            limit_ranges: ParsedObjects::new("", "limitranges", Limits::of),
            priority_classes: SnapshotValue::new(
                "scheduling.k8s.io",
                "priorityclasses",
                priority::read,
            ),
            default_storage_class: SnapshotValue::new(
                "storage.k8s.io",
                "storageclasses",
                default_storage_class::read,
            ),
            default_ingress_class: SnapshotValue::new(
                "networking.k8s.io",
                "ingressclasses",
                default_ingress_class::read,
            ),
            initializers: SnapshotValue::new(
                "admissionregistration.k8s.io",
                "initializerconfigurations",
                initializers::read,
            ),
            quotas: ParsedObjects::new("", "resourcequotas", ParsedQuota::of),
            quota_accounting: Arc::default(),
            policies: Policies::default(),
            webhooks: Webhooks::default(),
            webhook_metrics: WebhookMetrics::new(registry),
            authorizers,
            rules,
        }
    }
}

/// The validation hook of a resource that configures admission, which reports the CEL expressions
/// that do not compile, or of a claim for devices.
pub(crate) fn validation_hook(group: &str, plural: &str) -> Option<ValidateHook> {
    let hook: ValidateHook = match (group, plural) {
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies" | "mutatingadmissionpolicies",
        ) => |_, new, old, errors| policy::validate_policy(new, old, errors),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => |_, new, old, errors| webhook::validate_configuration(new, old, errors),
        _ => return device_admin_access::validation_hook(group, plural),
    };
    Some(hook)
}

/// The mutating function of a plugin.
enum Mutate {
    /// Sets fields, and never fails.
    Infallible(fn(&Attributes<'_>, &mut Object)),
    /// Sets fields, or rejects the request.
    Fallible(fn(&Attributes<'_>, &mut Object) -> Result<(), Status>),
    /// The same, after waiting for the authorizers or for another object.
    Waiting(for<'a> fn(&'a Attributes<'a>, &'a mut Object) -> AdmissionFuture<'a, ()>),
}

/// The validating function of a plugin.
enum Validate {
    /// Rejects the request, or does not.
    Immediate(fn(&Attributes<'_>, &Object) -> Result<(), Status>),
    /// The same, after waiting for the authorizers or for a long computation.
    Waiting(for<'a> fn(&'a Attributes<'a>, &'a Object) -> AdmissionFuture<'a, ()>),
}

use Mutate::{Fallible, Infallible};
use Validate::{Immediate, Waiting};

/// The plugins that mutate objects, in Kubernetes' order.
const MUTATING: &[(Plugin, Mutate)] = &[
    (Plugin::NamespaceLifecycle, Fallible(namespace_lifecycle::mutate)),
    (Plugin::LimitRanger, Fallible(limit_ranger::mutate)),
    (Plugin::ServiceAccount, Mutate::Waiting(service_account::mutate)),
    (Plugin::NodeRestriction, Mutate::Waiting(node_restriction::mutate)),
    (Plugin::TaintNodesByCondition, Infallible(taint_nodes_by_condition::mutate)),
    (Plugin::AlwaysPullImages, Infallible(always_pull_images::mutate)),
    (Plugin::Priority, Fallible(priority::mutate)),
    (Plugin::DefaultTolerationSeconds, Infallible(default_toleration_seconds::mutate)),
    (Plugin::DefaultStorageClass, Infallible(default_storage_class::mutate)),
    (Plugin::StorageObjectInUseProtection, Infallible(storage_object_in_use_protection::mutate)),
    (Plugin::RuntimeClass, Fallible(runtime_class::mutate)),
    (Plugin::DefaultIngressClass, Infallible(default_ingress_class::mutate)),
    (Plugin::Initializers, Mutate::Waiting(initializers::mutate)),
];

/// The plugins that validate objects, in Kubernetes' order. Quotas are not in the list: they are
/// checked after policies and webhooks, so that a rejected request uses no quota.
const VALIDATING: &[(Plugin, Validate)] = &[
    (
        Plugin::LimitPodHardAntiAffinityTopology,
        Immediate(limit_pod_hard_anti_affinity_topology::validate),
    ),
    (Plugin::LimitRanger, Immediate(limit_ranger::validate)),
    (Plugin::ServiceAccount, Immediate(service_account::validate)),
    (Plugin::AlwaysPullImages, Immediate(always_pull_images::validate)),
    (Plugin::PodSecurity, Waiting(pod_security::validate)),
    (Plugin::Priority, Immediate(priority::validate)),
    (
        Plugin::OwnerReferencesPermissionEnforcement,
        Waiting(owner_references_permission_enforcement::validate),
    ),
    (Plugin::PersistentVolumeClaimResize, Immediate(persistent_volume_claim_resize::validate)),
    (Plugin::RuntimeClass, Immediate(runtime_class::validate)),
    (Plugin::CertificateApproval, Waiting(certificate_approval::validate)),
    (Plugin::CertificateSigning, Waiting(certificate_signing::validate)),
    (Plugin::CertificateSubjectRestriction, Immediate(certificate_subject_restriction::validate)),
    (Plugin::DenyServiceExternalIps, Immediate(deny_service_external_ips::validate)),
];

/// Mutates the object, or rejects the request before validation.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    let Some(scale) = scale_subresource::requested_scale(attributes) else {
        return mutate_with_reinvocation(attributes, object).await;
    };
    let old =
        attributes.old.map(|it| scale_subresource::scale_of(attributes, scale, it)).transpose()?;
    let mut scale_object = scale_subresource::scale_of(attributes, scale, object)?;
    mutate_with_reinvocation(
        &scale_subresource::attributes(attributes, old.as_ref()),
        &mut scale_object,
    )
    .await?;
    scale_subresource::apply_to_object(scale, &scale_object, object);
    Ok(())
}

/// Validates an object that is about to be stored or, if `object` is None, an object that is about
/// to be deleted. The reservation holds the quota that the object uses until the object can be
/// read.
pub(crate) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<Reservation, Status> {
    let plugins = attributes.admission.plugins;
    let Some(object) = object else {
        if plugins.is_enabled(Plugin::NamespaceLifecycle) {
            namespace_lifecycle::delete(attributes)?;
        }
        if plugins.is_enabled(Plugin::NodeRestriction) {
            node_restriction::delete(attributes)?;
        }
        if plugins.is_enabled(Plugin::MutatingAdmissionWebhook) {
            // Mutating webhooks are also called for deletions, which they can reject.
            webhook::mutate(attributes, None, &mut WebhookReinvokeContext::default()).await?;
        }
        validate_by_policies_and_webhooks(attributes, None).await?;
        return Ok(Reservation::default());
    };
    for (_, validate) in VALIDATING.iter().filter(|(plugin, _)| plugins.is_enabled(*plugin)) {
        match validate {
            Immediate(validate) => validate(attributes, object)?,
            Waiting(validate) => validate(attributes, object).await?,
        }
    }
    if let Some(scale) = scale_subresource::requested_scale(attributes) {
        let old = attributes
            .old
            .map(|it| scale_subresource::scale_of(attributes, scale, it))
            .transpose()?;
        let scale_object = scale_subresource::scale_of(attributes, scale, object)?;
        validate_by_policies_and_webhooks(
            &scale_subresource::attributes(attributes, old.as_ref()),
            Some(&scale_object),
        )
        .await?;
    } else {
        validate_by_policies_and_webhooks(attributes, Some(object)).await?;
    }
    if attributes.operation == Operation::Create {
        // A webhook may have delayed the request while the namespace was deleted. Its contents are
        // gone, so that nobody would delete an object that is stored now.
        validate_namespace(attributes.admission, attributes.scope, object)?;
    }
    if plugins.is_enabled(Plugin::ResourceQuota) {
        return resource_quota::reserve(attributes, object);
    }
    Ok(Reservation::default())
}

/// Mutates and validates an object that is sent to a subresource and is not stored.
pub(crate) async fn admit_subresource(
    attributes: &Attributes<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    mutate_subresource(attributes, object).await?;
    validate_subresource(attributes, object).await
}

/// Mutates an object that is sent to a subresource and is not stored.
pub(crate) async fn mutate_subresource(
    attributes: &Attributes<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    mutate_with_reinvocation(attributes, object).await
}

/// Validates an object that is sent to a subresource and is not stored.
pub(crate) async fn validate_subresource(
    attributes: &Attributes<'_>,
    object: &Object,
) -> Result<(), Status> {
    validate_by_policies_and_webhooks(attributes, Some(object)).await
}

/// Rejects a creation in a namespace that does not exist or is being terminated.
pub(crate) fn validate_namespace(
    admission: &Admission,
    scope: &RequestScope,
    object: &Object,
) -> Result<(), Status> {
    if admission.plugins.is_enabled(Plugin::NamespaceLifecycle) {
        return namespace_lifecycle::create(scope, object);
    }
    Ok(())
}

/// Runs validating policies and validating webhooks.
async fn validate_by_policies_and_webhooks(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<(), Status> {
    let plugins = attributes.admission.plugins;
    if plugins.is_enabled(Plugin::ValidatingAdmissionPolicy) {
        policy::validate(attributes, object).await?;
    }
    if plugins.is_enabled(Plugin::ValidatingAdmissionWebhook) {
        webhook::validate(attributes, object).await?;
    }
    Ok(())
}

/// Runs all mutating plugins, policies and webhooks. They run a second time if a policy or a
/// webhook changed the object, because earlier ones have not seen the change.
async fn mutate_with_reinvocation(
    attributes: &Attributes<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    let mut policies = PolicyReinvokeContext::default();
    let mut webhooks = WebhookReinvokeContext::default();
    let policy_changed = mutate_once(attributes, object, &mut policies, &mut webhooks).await?;
    if webhooks.begin_reinvocation(object, policy_changed) {
        mutate_once(attributes, object, &mut policies, &mut webhooks).await?;
    }
    Ok(())
}

/// Runs all mutating plugins, policies and webhooks once. Returns whether a policy changed the
/// object.
async fn mutate_once(
    attributes: &Attributes<'_>,
    object: &mut Object,
    policies: &mut PolicyReinvokeContext,
    webhooks: &mut WebhookReinvokeContext,
) -> Result<bool, Status> {
    certificate_subject_restriction::record_requestor(attributes, object);
    let plugins = attributes.admission.plugins;
    for (_, mutate) in MUTATING.iter().filter(|(plugin, _)| plugins.is_enabled(*plugin)) {
        match mutate {
            Infallible(mutate) => mutate(attributes, object),
            Fallible(mutate) => mutate(attributes, object)?,
            Mutate::Waiting(mutate) => mutate(attributes, object).await?,
        }
    }
    let mut policy_changed = false;
    if plugins.is_enabled(Plugin::MutatingAdmissionPolicy) {
        policy_changed = policy::mutate(attributes, object, policies).await?;
    }
    if plugins.is_enabled(Plugin::MutatingAdmissionWebhook) {
        webhooks.require_reinvocation_if_changed(object);
        webhook::mutate(attributes, Some(object), webhooks).await?;
    }
    Ok(policy_changed)
}
