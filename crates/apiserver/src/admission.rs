//! Admission: what else is changed in or held against an object before it is stored, in
//! Kubernetes' order. Mutating plugins run before validation, judging ones after it; policies, and
//! then webhooks, stand at the end of each half, and quotas after all.

mod attributes;
mod admitter;
mod plugins;
mod namespace_lifecycle;
mod limit_ranger;
mod service_account;
mod node_taints;
mod always_pull_images;
mod anti_affinity;
mod external_ips;
mod pod_security;
mod priority;
mod default_tolerations;
mod default_class;
mod default_storage_class;
mod default_ingress_class;
mod storage_protection;
mod owner_references;
mod claim_resize;
mod runtime_class;
mod certificate_subject;
mod initializers;
mod matching;
mod fault_order;
mod authorizer;
mod request;
mod policy;
mod webhook;
mod scaled;
mod resource_quota;

pub(crate) use attributes::{Attributes, Operation};
pub(crate) use namespace_lifecycle::IMMORTAL;
pub use plugins::BadPlugins;
pub(crate) use plugins::Plugins;
pub(crate) use policy::keep_true as keep_policies_checked;
pub(crate) use resource_quota::status::keep_true as keep_quotas_true;

use crate::auth::authorization::Authorizers;
use crate::cache::hooks::{Reservation, Validate as ValidateHook};
use crate::cache::parsed_objects::ParsedObjects;
use crate::cache::snapshot_value::SnapshotValue;
use crate::registry::scope::RequestScope;
use kinds::core::limit_range::enforcement::Limits;
use machinery::{Object, Status};
use plugins::Plugin;
use policy::Policies;
use prometheus_client::registry::Registry;
use resource_quota::{Ledger, ParsedQuota};
use std::sync::Arc;
use webhook::{Rounds, WebhookMetrics, Webhooks};

/// What admission keeps between requests.
pub(crate) struct Admission {
    plugins: Plugins,
    limit_ranges: ParsedObjects<Limits>,
    priority_classes: SnapshotValue<priority::Classes>,
    /// The name of the class.
    storage_default: SnapshotValue<Option<String>>,
    /// The same.
    ingress_default: SnapshotValue<Option<String>>,
    initializers: SnapshotValue<Vec<initializers::Initializer>>,
    quotas: ParsedObjects<ParsedQuota>,
    ledger: Arc<Ledger>,
    policies: Policies,
    webhooks: Webhooks,
    webhook_metrics: WebhookMetrics,
    authorizers: Authorizers,
}

impl Admission {
    /// With these plugins. Their metrics are registered in `registry`.
    pub(crate) fn new(plugins: Plugins, authorizers: Authorizers, registry: &mut Registry) -> Self {
        Self {
            plugins,
            limit_ranges: ParsedObjects::new("", "limitranges", Limits::of),
            priority_classes: SnapshotValue::new(
                "scheduling.k8s.io",
                "priorityclasses",
                priority::read,
            ),
            storage_default: SnapshotValue::new(
                "storage.k8s.io",
                "storageclasses",
                default_storage_class::read,
            ),
            ingress_default: SnapshotValue::new(
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
            ledger: Arc::default(),
            policies: Policies::default(),
            webhooks: Webhooks::default(),
            webhook_metrics: WebhookMetrics::new(registry),
            authorizers,
        }
    }
}

/// The hook that validates a resource by which admission is configured: whether its expressions
/// compile.
pub(crate) fn validation_hook(group: &str, plural: &str) -> Option<ValidateHook> {
    match (group, plural) {
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicies" | "mutatingadmissionpolicies",
        ) => Some(policy::validate_policy),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations" | "mutatingwebhookconfigurations",
        ) => Some(webhook::validate_configuration),
        _ => None,
    }
}

/// What a plugin does to an object.
enum Mutate {
    /// Completes it.
    Fill(fn(&Attributes<'_>, &mut Object)),
    /// Completes it, or sees that that cannot be done.
    Try(fn(&Attributes<'_>, &mut Object) -> Result<(), Status>),
}

use Mutate::{Fill, Try};

type Validate = fn(&Attributes<'_>, &Object) -> Result<(), Status>;

/// The plugins that change objects, in Kubernetes' order.
const MUTATING: &[(Plugin, Mutate)] = &[
    (Plugin::NamespaceLifecycle, Try(namespace_lifecycle::mutate)),
    (Plugin::LimitRanger, Try(limit_ranger::mutate)),
    (Plugin::ServiceAccount, Try(service_account::mutate)),
    (Plugin::TaintNodesByCondition, Fill(node_taints::mutate)),
    (Plugin::AlwaysPullImages, Fill(always_pull_images::mutate)),
    (Plugin::Priority, Try(priority::mutate)),
    (Plugin::DefaultTolerationSeconds, Fill(default_tolerations::mutate)),
    (Plugin::DefaultStorageClass, Fill(default_storage_class::mutate)),
    (Plugin::StorageObjectInUseProtection, Fill(storage_protection::mutate)),
    (Plugin::RuntimeClass, Try(runtime_class::mutate)),
    (Plugin::DefaultIngressClass, Fill(default_ingress_class::mutate)),
    (Plugin::Initializers, Try(initializers::mutate)),
];

/// The plugins that judge objects, in Kubernetes' order. The quotas come after all others: nothing
/// is taken out of them for what somebody else refuses.
const VALIDATING: &[(Plugin, Validate)] = &[
    (Plugin::LimitPodHardAntiAffinityTopology, anti_affinity::validate),
    (Plugin::LimitRanger, limit_ranger::validate),
    (Plugin::ServiceAccount, service_account::validate),
    (Plugin::AlwaysPullImages, always_pull_images::validate),
    (Plugin::PodSecurity, pod_security::validate),
    (Plugin::Priority, priority::validate),
    (Plugin::OwnerReferencesPermissionEnforcement, owner_references::validate),
    (Plugin::PersistentVolumeClaimResize, claim_resize::validate),
    (Plugin::RuntimeClass, runtime_class::validate),
    (Plugin::CertificateSubjectRestriction, certificate_subject::validate),
    (Plugin::DenyServiceExternalIps, external_ips::validate),
];

/// Changes the object, or refuses it before anybody looks at it closely.
pub(crate) async fn mutate(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    let Some(scale) = scaled::scale(attributes) else { return change(attributes, object).await };
    let old = attributes.old.map(|it| scaled::of(attributes, scale, it)).transpose()?;
    let mut shown = scaled::of(attributes, scale, object)?;
    change(&scaled::attributes(attributes, old.as_ref()), &mut shown).await?;
    scaled::put_back(scale, &shown, object);
    Ok(())
}

/// Judges what is about to be stored, or, if `object` is None, removed. What it takes out of quotas
/// is to be held until the object can be read.
pub(crate) async fn validate(
    attributes: &Attributes<'_>,
    object: Option<&Object>,
) -> Result<Reservation, Status> {
    let plugins = attributes.admission.plugins;
    let Some(object) = object else {
        if plugins.has(Plugin::NamespaceLifecycle) {
            namespace_lifecycle::delete(attributes)?;
        }
        if plugins.has(Plugin::MutatingAdmissionWebhook) {
            // Those who change objects may also have something against the deletion of one.
            webhook::mutate(attributes, None, &mut Rounds::default()).await?;
        }
        verdict(attributes, None).await?;
        return Ok(Reservation::default());
    };
    for (_, validate) in VALIDATING.iter().filter(|(plugin, _)| plugins.has(*plugin)) {
        validate(attributes, object)?;
    }
    if let Some(scale) = scaled::scale(attributes) {
        let old = attributes.old.map(|it| scaled::of(attributes, scale, it)).transpose()?;
        let shown = scaled::of(attributes, scale, object)?;
        verdict(&scaled::attributes(attributes, old.as_ref()), Some(&shown)).await?;
    } else {
        verdict(attributes, Some(object)).await?;
    }
    if plugins.has(Plugin::ResourceQuota) {
        return resource_quota::charge(attributes, object);
    }
    Ok(Reservation::default())
}

/// Changes and judges what was sent and is not stored.
pub(crate) async fn admit_sent(
    attributes: &Attributes<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    mutate_sent(attributes, object).await?;
    validate_sent(attributes, object).await
}

/// Changes what was sent and is not stored.
pub(crate) async fn mutate_sent(
    attributes: &Attributes<'_>,
    object: &mut Object,
) -> Result<(), Status> {
    change(attributes, object).await
}

/// Judges what was sent and is not stored.
pub(crate) async fn validate_sent(
    attributes: &Attributes<'_>,
    object: &Object,
) -> Result<(), Status> {
    verdict(attributes, Some(object)).await
}

/// Whether something may be made in the namespace of the request.
pub(crate) fn validate_namespace(
    admission: &Admission,
    scope: &RequestScope,
    object: &Object,
) -> Result<(), Status> {
    if admission.plugins.has(Plugin::NamespaceLifecycle) {
        return namespace_lifecycle::create(scope, object);
    }
    Ok(())
}

/// What policies and webhooks say that cannot change the object any more.
async fn verdict(attributes: &Attributes<'_>, object: Option<&Object>) -> Result<(), Status> {
    let plugins = attributes.admission.plugins;
    if plugins.has(Plugin::ValidatingAdmissionPolicy) {
        policy::validate(attributes, object).await?;
    }
    if plugins.has(Plugin::ValidatingAdmissionWebhook) {
        webhook::validate(attributes, object).await?;
    }
    Ok(())
}

/// Lets everybody change the object who may; if a policy or a webhook did, a second time, since the
/// others have not seen what it made of the object.
async fn change(attributes: &Attributes<'_>, object: &mut Object) -> Result<(), Status> {
    let mut policies = policy::Rounds::default();
    let mut webhooks = Rounds::default();
    let by_policy = round(attributes, object, &mut policies, &mut webhooks).await?;
    if webhooks.again(object, by_policy) {
        round(attributes, object, &mut policies, &mut webhooks).await?;
    }
    Ok(())
}

/// Tells whether a policy changed the object.
async fn round(
    attributes: &Attributes<'_>,
    object: &mut Object,
    policies: &mut policy::Rounds,
    webhooks: &mut Rounds,
) -> Result<bool, Status> {
    certificate_subject::note_requestor(attributes, object);
    let plugins = attributes.admission.plugins;
    for (_, mutate) in MUTATING.iter().filter(|(plugin, _)| plugins.has(*plugin)) {
        match mutate {
            Fill(fill) => fill(attributes, object),
            Try(mutate) => mutate(attributes, object)?,
        }
    }
    let mut by_policy = false;
    if plugins.has(Plugin::MutatingAdmissionPolicy) {
        by_policy = policy::mutate(attributes, object, policies).await?;
    }
    if plugins.has(Plugin::MutatingAdmissionWebhook) {
        webhooks.look_again(object);
        webhook::mutate(attributes, Some(object), webhooks).await?;
    }
    Ok(by_policy)
}

/// Several complaints as one text, as Kubernetes writes them.
fn aggregated(mut texts: Vec<String>) -> String {
    let mut seen = std::collections::HashSet::new();
    texts.retain(|it| seen.insert(it.clone()));
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
