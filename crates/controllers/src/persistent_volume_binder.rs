//! `persistentvolume-binder-controller`: binds each `PersistentVolumeClaim` to a `PersistentVolume` that
//! satisfies it, provisions volumes of simulated storage, and reclaims the volumes of deleted claims.
//!
//! A class whose provisioner is `simulated.sampan.dev` gets a volume that exists in name only. If
//! storage is simulated, as it is with simulated nodes, and there is no `StorageClass` at all, the
//! controller creates such a default class when it starts: `standard`, whose claims wait for their
//! first consumer, as in kind.
//!
//! ```text
//! claims ──▶ claims.rs  ─ matching.rs: the smallest volume that fits
//!                       ─ provisioning.rs: a new volume, or an external provisioner
//! volumes ─▶ volumes.rs ─ phases; reclaims released volumes
//! ```
//!
//! Reads claims, volumes, classes, nodes and the pods that use claims. Writes claims, volumes and
//! their status.

mod claims;
mod matching;
mod provisioning;
mod volumes;
mod writes;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use tokio::sync::mpsc;

use crate::controller_context::ControllerContext;
use crate::controller_table::{ControllerDescriptor, ControllerUser};
use crate::pod_claims::PodClaims;
use machinery::PolicyRule;
use runtime::informer::{Item, SharedInformer};
use runtime::recorder::{EventType, Recorder};
use runtime::{Client, Controller, Lister, Mapper, Predicate, Request};

pub(crate) const CONTROLLER: ControllerDescriptor = ControllerDescriptor {
    name: "persistentvolume-binder-controller",
    aliases: &[],
    user: ControllerUser::ServiceAccount("persistent-volume-binder"),
    rules: &[
        PolicyRule::new(&[""], &["persistentvolumes"], &["create", "patch", "delete"]),
        PolicyRule::new(&[""], &["persistentvolumes/status"], &["patch"]),
        PolicyRule::new(&[""], &["persistentvolumeclaims"], &["patch"]),
        PolicyRule::new(&[""], &["persistentvolumeclaims/status"], &["patch"]),
        PolicyRule::new(&["storage.k8s.io"], &["csidrivers", "storageclasses"], &["create"]),
    ],
    start,
};

/// The provisioner of simulated storage, and the driver of its volumes.
pub(crate) const SIMULATED_PROVISIONER: &str = "simulated.sampan.dev";

/// The claim is bound, and the controller has written both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The binding was chosen by the controller, and not by a user.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The provisioner that has created the volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The node on which the first consumer will run.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation that names the class, before there was a field.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The class of claims that name none.
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The index of unbound claims by the name of their class.
const PENDING_CLASS_INDEX: &str = "pending-class";
/// The index of volumes without a claim by the name of their class.
const AVAILABLE_CLASS_INDEX: &str = "available-class";
/// The index of volumes by the `namespace/name` of their claim.
const CLAIM_INDEX: &str = "claim";

/// Objects with many fields are boxed, so that futures stay small.
type Claim = Box<PersistentVolumeClaim>;
type Volume = Box<PersistentVolume>;

/// What the reconciles of claims and volumes use.
struct Binder {
    client: Client,
    reader: Client,
    recorder: Recorder,
    claims: Lister<Claim>,
    volumes: Lister<Volume>,
    classes: Lister<StorageClass>,
    nodes: Lister<serde_json::Value>,
    pods: PodClaims,
}

fn start(cx: &ControllerContext) {
    let claims = cx.manager.informer::<PersistentVolumeClaim>();
    let volumes = cx.manager.informer::<PersistentVolume>();
    claims.indexer().add_index(PENDING_CLASS_INDEX, pending_class);
    volumes.indexer().add_index(AVAILABLE_CLASS_INDEX, available_class);
    volumes.indexer().add_index(CLAIM_INDEX, |volume| {
        claim_of(volume).map(|claim| claim.to_string()).into_iter().collect()
    });
    let binder = || Binder {
        client: cx.client.clone(),
        reader: cx.reader.clone(),
        recorder: cx.manager.recorder_with(cx.client.clone(), "persistentvolume-controller"),
        claims: claims.lister(),
        volumes: volumes.lister(),
        classes: cx.manager.lister(),
        nodes: cx.manager.informer::<Node>().lister(),
        pods: PodClaims::new(cx),
    };
    let (of_volume, of_class) = (claims.clone(), claims.clone());
    let claim_controller = Controller::for_::<PersistentVolumeClaim>()
        .named(cx.name)
        .watches::<PersistentVolume>(Mapper::custom(move |it| claims_of_volume(&of_volume, it)))
        .watches::<StorageClass>(Mapper::custom(move |it| claims_of_class(&of_class, it)))
        .reconcile(claims::reconcile, binder());
    let of_claim = volumes.clone();
    let volume_controller = Controller::for_::<PersistentVolume>()
        .named("persistentvolume-binder-controller-volumes")
        .watches::<PersistentVolumeClaim>(Mapper::custom(move |it| volumes_of_claim(&of_claim, it)))
        .reconcile(volumes::reconcile, binder());
    cx.manager.add(claim_controller);
    cx.manager.add(volume_controller);
    if cx.options.simulated_storage {
        cx.manager.add(class_controller(cx.name, binder()));
    }
}

/// Creates the default class, once.
fn class_controller(name: &str, binder: Binder) -> Controller {
    let (sender, once) = mpsc::channel(1);
    let _ = sender.try_send(Request::new("", provisioning::STANDARD_CLASS));
    Controller::for_::<StorageClass>()
        .named(&format!("{name}-classes"))
        // Only at the start: a user may delete or change the class.
        .when(Predicate::everything().not())
        .channel(once)
        .workers(1)
        .reconcile(provisioning::create_standard_class, binder)
}

impl Binder {
    fn record_claim(
        &self,
        claim: &PersistentVolumeClaim,
        type_: EventType,
        reason: &str,
        message: &str,
    ) {
        self.recorder.record(claim, type_, reason, message);
    }
}

/// The class of a claim.
fn class_of_claim(claim: &PersistentVolumeClaim) -> &str {
    if let Some(class) = annotation(claim.metadata.annotations.as_ref(), CLASS_ANNOTATION) {
        return class;
    }
    let spec = claim.spec.as_ref();
    spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// Whether a claim names a class, which may be the empty one.
fn has_class(claim: &PersistentVolumeClaim) -> bool {
    annotation(claim.metadata.annotations.as_ref(), CLASS_ANNOTATION).is_some()
        || claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some())
}

/// The class of a volume.
fn class_of_volume(volume: &PersistentVolume) -> &str {
    if let Some(class) = annotation(volume.metadata.annotations.as_ref(), CLASS_ANNOTATION) {
        return class;
    }
    let spec = volume.spec.as_ref();
    spec.and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

type Annotations = std::collections::BTreeMap<String, String>;

fn annotation<'a>(annotations: Option<&'a Annotations>, name: &str) -> Option<&'a str> {
    annotations?.get(name).map(String::as_str)
}

/// The class of a claim that is not bound.
fn pending_class(item: &Item) -> Vec<String> {
    let Ok(claim) = item.decode::<PersistentVolumeClaim>() else { return Vec::new() };
    let is_bound = annotation(claim.metadata.annotations.as_ref(), BIND_COMPLETED).is_some();
    if is_bound { Vec::new() } else { vec![class_of_claim(&claim).to_owned()] }
}

/// The class of a volume without a claim.
fn available_class(item: &Item) -> Vec<String> {
    let Ok(volume) = item.decode::<PersistentVolume>() else { return Vec::new() };
    let is_claimed = volume.spec.as_ref().is_some_and(|spec| spec.claim_ref.is_some());
    if is_claimed { Vec::new() } else { vec![class_of_volume(&volume).to_owned()] }
}

/// The claim that a volume names.
fn claim_of(item: &Item) -> Option<Request> {
    let volume = item.object().ok()?;
    let reference = volume.get(&["spec", "claimRef"])?;
    Some(Request::new(reference["namespace"].as_str()?, reference["name"].as_str()?))
}

/// The claims that a change of a volume concerns: its own, or all that could be bound to it.
fn claims_of_volume(claims: &SharedInformer, volume: &Item) -> Vec<Request> {
    if let Some(claim) = claim_of(volume) {
        return vec![claim];
    }
    let classes = available_class(volume);
    classes.iter().flat_map(|class| pending_claims(claims, class)).collect()
}

/// The claims that wait for a class, or for any default class.
fn claims_of_class(claims: &SharedInformer, class: &Item) -> Vec<Request> {
    let mut found = pending_claims(claims, class.name());
    found.extend(pending_claims(claims, ""));
    found
}

fn pending_claims(claims: &SharedInformer, class: &str) -> Vec<Request> {
    let found = claims.indexer().by_index(PENDING_CLASS_INDEX, class).unwrap_or_default();
    found.iter().map(|claim| claim.key().clone()).collect()
}

/// The volumes that a claim names, or that name the claim.
fn volumes_of_claim(volumes: &SharedInformer, claim: &Item) -> Vec<Request> {
    let key = claim.key().to_string();
    let naming = volumes.indexer().by_index(CLAIM_INDEX, &key).unwrap_or_default();
    let mut found: Vec<Request> = naming.iter().map(|volume| volume.key().clone()).collect();
    let object = claim.object().unwrap_or_default();
    let named = object.str_at(&["spec", "volumeName"]);
    if !named.is_empty() {
        found.push(Request::new("", named));
    }
    found
}
