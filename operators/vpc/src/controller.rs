//! The controller of [`Vpc`]s: creates, changes and deletes their Networks, and reports what exists.
//!
//! Invariants:
//! - only Networks that the Vpc controls are written. Another one that has the name of a subnet is
//!   reported;
//! - Networks are deleted and narrowed before others are created, so that at no time two of them have
//!   the same address;
//! - a change names the revision that it is based on, and a new Network has a fixed name. An operator
//!   with a stale cache is refused by the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::allocation::allocate;
use crate::cidr::InvalidCidr;
use crate::kinds::{SUBNET_ANNOTATION, VPC_LABEL};
use crate::{Cidr, Network, NetworkSpec, Options, Vpc};
use runtime::informer::{Indexer, LabelSelector};
use runtime::kube_client::Error;
use runtime::kube_core::params::Preconditions;
use runtime::prelude::*;

/// The index of Vpcs by namespace and [`Vpc::vpc_name`].
const NAME_INDEX: &str = "vpcname";

struct Context {
    vpcs: Lister<Vpc>,
    networks: Lister<Network>,
    pods: Lister<Pod>,
    client: Client,
    recorder: Recorder,
    clock: Clock,
}

/// Reconciles every Vpc, also when its Networks change, and the pods with its label.
pub fn controller(manager: &Manager, options: &Options) -> Controller {
    let vpcs = manager.informer::<Vpc>();
    vpcs.indexer().add_typed_index(NAME_INDEX, |vpc: &Vpc| {
        vec![format!("{}/{}", vpc.namespace().unwrap_or_default(), vpc.vpc_name())]
    });
    let labels = LabelSelector::parse(VPC_LABEL).expect("the name of a label is a selector");
    let labelled = Selection { labels, ..Selection::default() };
    let context = Context {
        vpcs: manager.lister(),
        networks: manager.lister(),
        pods: manager.lister_selecting(&labelled),
        client: manager.client(),
        recorder: manager.recorder("vpc-operator"),
        clock: manager.clock().clone(),
    };
    Controller::for_::<Vpc>()
        .owns::<Network>()
        .watches::<Network>(by_name())
        .watches::<Pod>(by_label(Arc::clone(vpcs.indexer())))
        .selecting(labelled)
        .workers(options.workers)
        .reconcile(reconcile, context)
}

/// Maps a Network to the Vpc that it is named after, also if another controls it.
fn by_name() -> Mapper {
    Mapper::custom(|network| {
        let vpc = network.name().rsplit_once('-').map(|(vpc, _)| vpc);
        vpc.map(|vpc| Request::new(network.namespace(), vpc)).into_iter().collect()
    })
}

/// Maps a pod to the Vpcs that its label names.
fn by_label(vpcs: Arc<Indexer>) -> Mapper {
    Mapper::custom(move |pod| {
        let labels = pod.labels();
        let Some(name) = labels.get(VPC_LABEL) else { return Vec::new() };
        let found = vpcs.by_index(NAME_INDEX, &format!("{}/{name}", pod.namespace()));
        found.unwrap_or_default().iter().map(|vpc| vpc.key().clone()).collect()
    })
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(vpc) = cx.vpcs.get_key(&request)? else { return Ok(Action::Done) };
    if vpc.metadata.deletion_timestamp.is_some() {
        return Ok(Action::Done); // the garbage collector deletes its Networks
    }
    let shaped = cx.shape(&vpc).await;
    let ready = match &shaped {
        Ok(ready) => ready.clone(),
        Err(failure) if is_conflict(failure) => return shaped.map(|_| Action::Done),
        Err(failure) => cx.warn(&vpc, "Failed", failure.to_string()),
    };
    cx.update_status(&vpc, ready).await?; // also of what was done before a failure
    shaped.map(|_| Action::Done)
}

/// Whether the cache was stale, which the next reconcile sees otherwise.
fn is_conflict(failure: &Failure) -> bool {
    matches!(failure.cause().downcast_ref(), Some(Error::Api(status)) if status.code == 409)
}

/// The subnets of a Vpc by the names of their Networks.
type Subnets = BTreeMap<String, Cidr>;

impl Context {
    /// Makes the Networks as they should be. Returns the condition `Ready`.
    async fn shape(&self, vpc: &Vpc) -> Result<NewCondition, Failure> {
        let networks = self.networks_of(vpc)?;
        let subnets = match plan(vpc, &networks) {
            Ok(subnets) => subnets,
            // The rules of the CRD refuse it, unless the object is older than they are.
            Err(message) => return Ok(self.warn(vpc, "InvalidBlock", message)),
        };
        let deleted = self.delete_surplus(vpc, &networks, &subnets).await?;
        let changed = self.change(vpc, &networks, &subnets).await?;
        let mut created = 0;
        let mut blocked = None;
        for (name, subnet) in subnets.iter().filter(|(name, _)| !networks.contains_key(*name)) {
            let namespace = vpc.namespace().unwrap_or_default();
            if let Some(other) = self.networks.get(&namespace, name)? {
                blocked.get_or_insert(other);
                continue;
            }
            let network = new_network(vpc, name, *subnet)?;
            self.client.api_of(&network).create(&PostParams::default(), &network).await?;
            created += 1;
        }
        if deleted + changed + created > 0 {
            let message =
                format!("subnets: {created} created, {changed} changed, {deleted} deleted");
            self.recorder.record(vpc, EventType::Normal, "Shaped", &message);
        }
        let Some(other) = blocked else {
            return Ok(NewCondition::new("Ready", true, "Shaped"));
        };
        if owner::is_controlled_by(&other, vpc) {
            let message = format!("the Network {} is being deleted", other.name_any());
            return Ok(NewCondition::new("Ready", false, "Deleting").message(message));
        }
        let message = format!("another Network has the name {}", other.name_any());
        Ok(self.warn(vpc, "NameTaken", message))
    }

    /// The Networks of a Vpc by their names, without those that are being deleted.
    fn networks_of(&self, vpc: &Vpc) -> Result<BTreeMap<String, Network>, Failure> {
        let uid = vpc.metadata.uid.as_deref().unwrap_or_default();
        let mut networks = self.networks.by_index(CONTROLLER_INDEX, uid)?.objects;
        networks.retain(|network| {
            // A Network of another namespace can name the uid, too.
            let is_here = network.metadata.namespace == vpc.metadata.namespace;
            is_here && network.metadata.deletion_timestamp.is_none()
        });
        Ok(networks.into_iter().map(|network| (network.name_any(), network)).collect())
    }

    async fn delete_surplus(
        &self,
        vpc: &Vpc,
        networks: &BTreeMap<String, Network>,
        subnets: &Subnets,
    ) -> Result<usize, Failure> {
        let api = self.client.api_beside::<Network>(vpc);
        let surplus = networks.iter().filter(|(name, _)| !subnets.contains_key(*name));
        let mut deleted = 0;
        for (name, network) in surplus {
            let uid = network.metadata.uid.clone();
            let this_network = Preconditions { uid, ..Preconditions::default() };
            let parameters = DeleteParams::default().preconditions(this_network);
            api.delete(name, &parameters).await.ignore_not_found()?;
            deleted += 1;
        }
        Ok(deleted)
    }

    /// Changes the Networks that differ from their subnet. Only what this operator decides is sent.
    async fn change(
        &self,
        vpc: &Vpc,
        networks: &BTreeMap<String, Network>,
        subnets: &Subnets,
    ) -> Result<usize, Failure> {
        let api = self.client.api_beside::<Network>(vpc);
        let mut different = Vec::new();
        for (name, network) in networks {
            let Some(subnet) = subnets.get(name) else { continue };
            let wanted = new_network(vpc, name, *subnet)?;
            if network.spec != wanted.spec || !has_marks(network, &wanted) {
                let is_narrowed = subnet_of(network).is_some_and(|old| old.contains(*subnet));
                different.push((!is_narrowed, network, wanted));
            }
        }
        // A subnet that moves may need the addresses of one that is narrowed.
        different.sort_by_key(|(moves, ..)| *moves);
        for (_, network, wanted) in &different {
            let patch = json!({
                "metadata": {
                    "resourceVersion": network.metadata.resource_version,
                    "labels": wanted.metadata.labels,
                    "annotations": wanted.metadata.annotations,
                },
                "spec": wanted.spec,
            });
            api.patch(&network.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(different.len())
    }

    /// Records an Event, and returns the same as a condition.
    fn warn(&self, vpc: &Vpc, reason: &str, message: String) -> NewCondition {
        self.recorder.record(vpc, EventType::Warning, reason, &message);
        NewCondition::new("Ready", false, reason).message(message)
    }

    /// Writes the status if it has changed. The caches have what this reconcile wrote.
    async fn update_status(&self, vpc: &Vpc, ready: NewCondition) -> Result<(), Failure> {
        let mut status = vpc.status.clone().unwrap_or_default();
        status.subnetnum = self.networks_of(vpc)?.len();
        status.pod_names = self.pods_of(vpc);
        conditions::set(&mut status.conditions, ready, vpc.metadata.generation, &self.clock);
        patch_status(&self.client.api_of(vpc), vpc, &status).await?;
        Ok(())
    }

    /// The names of the pods in the VPC.
    fn pods_of(&self, vpc: &Vpc) -> Vec<String> {
        let vpc_name = vpc.vpc_name();
        let namespace = vpc.namespace().unwrap_or_default();
        let mut pods = self.pods.list_namespace(&namespace).objects;
        pods.retain(|pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, None | Some("Pending" | "Running"))
                && pod.labels().get(VPC_LABEL) == Some(&vpc_name)
                && pod.metadata.deletion_timestamp.is_none()
        });
        let mut names: Vec<_> = pods.iter().map(Pod::name_any).collect();
        names.sort_unstable();
        names
    }
}

/// The subnets that a Vpc should have; those that exist keep their addresses. An error is for people.
fn plan(vpc: &Vpc, networks: &BTreeMap<String, Network>) -> Result<Subnets, String> {
    let block: Cidr = vpc.spec.cidrblock.parse().map_err(|error: InvalidCidr| error.to_string())?;
    let count = vpc.spec.subnetnum;
    let name = |number: usize| format!("{}-{number}", vpc.name_any());
    let present = (0..count)
        .filter_map(|number| Some((number, networks.get(&name(number)).and_then(subnet_of)?)));
    let subnets = allocate(block, count, &present.collect()).map_err(|error| error.to_string())?;
    Ok(subnets.into_iter().enumerate().map(|(number, subnet)| (name(number), subnet)).collect())
}

/// The addresses that were allocated to a Network.
fn subnet_of(network: &Network) -> Option<Cidr> {
    let allocated = network.annotations().get(SUBNET_ANNOTATION);
    allocated.unwrap_or(&network.spec.cidr).parse().ok()
}

fn new_network(vpc: &Vpc, name: &str, subnet: Cidr) -> Result<Network, Failure> {
    let (cidr, gateway) = (subnet.to_string(), subnet.gateway().to_string());
    let mut network = Network::new(name, NetworkSpec { cidr: cidr.clone(), gateway });
    network.metadata.namespace = vpc.namespace();
    network.labels_mut().insert(VPC_LABEL.to_owned(), vpc.vpc_name());
    network.annotations_mut().insert(SUBNET_ANNOTATION.to_owned(), cidr);
    owner::set_controller(vpc, &mut network)?;
    Ok(network)
}

/// Whether a Network has the label and the annotation of `wanted`.
fn has_marks(network: &Network, wanted: &Network) -> bool {
    network.labels().get(VPC_LABEL) == wanted.labels().get(VPC_LABEL)
        && network.annotations().get(SUBNET_ANNOTATION)
            == wanted.annotations().get(SUBNET_ANNOTATION)
}
