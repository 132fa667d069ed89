//! The controller of [`Vpc`]s: creates, changes and deletes their Networks, and reports what exists.
//!
//! Invariants:
//! - only Networks that the Vpc controls are written. Another one that has the name of a subnet is
//!   reported;
//! - at no time do two Networks have the same address. Networks are deleted and narrowed before others
//!   are moved and created, and a subnet waits for addresses that another Network still has, also
//!   while that one is being deleted;
//! - a change names the revision that it is based on, and a new Network has a fixed name. An operator
//!   with a stale cache is refused by the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::allocation::allocate;
use crate::cidr::InvalidCidr;
use crate::kinds::{MAX_SUBNETS, SUBNET_ANNOTATION, VPC_LABEL};
use crate::occupied::{self, Obstacle, Occupied};
use crate::{Cidr, Network, NetworkSpec, Options, Vpc, mappers};
use runtime::informer::LabelSelector;
use runtime::informer::work_queue::RateLimits;
use runtime::kube_client::Error;
use runtime::kube_core::params::Preconditions;
use runtime::prelude::*;

/// The longest time between two attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(1);

/// The largest number of Networks that a message names.
const MAX_NAMES: usize = 3;

struct Context {
    vpcs: Lister<Vpc>,
    networks: Lister<Network>,
    pods: Lister<Pod>,
    client: Client,
    recorder: Recorder,
    clock: Clock,
}

/// Reconciles every Vpc, also when its Networks change, other Networks with addresses of its block, and
/// the pods with its label.
pub fn controller(manager: &Manager, options: &Options) -> Controller {
    let vpcs = manager.informer::<Vpc>();
    mappers::add_indices(vpcs.indexer());
    let labels = LabelSelector::parse(VPC_LABEL).expect("the name of a label is a selector");
    let labelled = Selection { labels, ..Selection::default() };
    occupied::add_index(manager.informer::<Network>().indexer());
    let context = Context {
        vpcs: manager.lister(),
        networks: manager.lister(),
        pods: manager.lister_selecting(&labelled),
        client: manager.client(),
        recorder: manager.recorder("vpc-operator"),
        clock: manager.clock().clone(),
    };
    let retries = RateLimits { backoff_cap: MAX_BACKOFF, ..RateLimits::default() };
    Controller::for_::<Vpc>()
        .owns::<Network>()
        .watches::<Network>(mappers::by_name())
        .watches::<Network>(mappers::by_addresses(Arc::clone(vpcs.indexer())))
        // Labels and annotations of a Network do not matter to the Vpcs beside it.
        .when(Predicate::generation_changed())
        .watches::<Pod>(mappers::by_label(Arc::clone(vpcs.indexer())))
        .selecting(labelled)
        .workers(options.workers.get())
        // A user with many Vpcs does not delay those of others.
        .workers_per_namespace(options.workers.get() / 2)
        .back_off(retries)
        .reconcile(reconcile, context)
}

async fn reconcile(request: Request, cx: Arc<Context>) -> Result<Action, Failure> {
    let Some(vpc) = cx.vpcs.get_key(&request)? else { return Ok(Action::Done) };
    if vpc.metadata.deletion_timestamp.is_some() {
        return Ok(Action::Done); // the garbage collector deletes its Networks
    }
    let done = cx.reconcile_subnets(&vpc).await;
    let ready = match &done {
        Ok((ready, _)) => ready.clone(),
        Err(failure) if is_conflict(failure) => return done.map(|(_, action)| action),
        Err(failure) => cx.warn(&vpc, "Failed", failure.to_string()),
    };
    let reported = cx.update_status(&vpc, ready).await; // also of what was done before a failure
    match (done, reported) {
        (Ok((_, action)), reported) => reported.map(|()| action),
        (Err(failure), Ok(())) => Err(failure),
        (Err(failure), Err(status_failure)) => {
            tracing::warn!(%status_failure, "cannot write the status");
            Err(failure)
        }
    }
}

/// Whether the cache was stale, which the next reconcile sees otherwise.
fn is_conflict(failure: &Failure) -> bool {
    matches!(failure.cause().downcast_ref(), Some(Error::Api(status)) if status.code == 409)
}

/// Whether the server refused a Network because of its addresses. Those that this operator knows of were
/// free: its cache or that of the network operator is stale for a moment.
fn is_overlap(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 422 && status.message.contains("overlaps"))
}

/// The subnets of a Vpc by the names of their Networks.
type Subnets = BTreeMap<String, Cidr>;

impl Context {
    /// Makes the Networks as they should be. Returns the condition `Ready`, and when to try again.
    async fn reconcile_subnets(&self, vpc: &Vpc) -> Result<(NewCondition, Action), Failure> {
        let networks = self.networks_of(vpc)?;
        let subnets = match plan(vpc, &networks) {
            Ok(subnets) => subnets,
            // The rules of the CRD refuse it, unless the object is older than they are.
            Err(message) => return Ok((self.warn(vpc, "InvalidBlock", message), Action::Done)),
        };
        let surplus = networks.iter().filter(|(name, _)| !subnets.contains_key(*name));
        let surplus: Vec<&Network> = surplus.map(|(_, network)| network).collect();
        let writes = writes(vpc, &networks, &subnets)?;
        let mut done = Done::default();
        if !surplus.is_empty() || !writes.is_empty() {
            let mut occupied = self.occupied(vpc)?;
            self.delete(vpc, &surplus, &mut occupied, &mut done).await?;
            for write in &writes {
                self.write(vpc, write, &mut occupied, &mut done).await?;
            }
        }
        if done.deleted + done.changed + done.created > 0 {
            let Done { created, changed, deleted, .. } = done;
            let message =
                format!("subnets: {created} created, {changed} changed, {deleted} deleted");
            self.recorder.record(vpc, EventType::Normal, "SubnetsChanged", &message);
        }
        let is_pending =
            done.obstacles.iter().any(|obstacle| matches!(obstacle, Obstacle::Pending(_)));
        let ready = match done.obstacles.into_iter().min() {
            None => readiness(&self.networks_of(vpc)?),
            Some(obstacle) if obstacle.is_temporary() => {
                NewCondition::new("Ready", false, obstacle.reason()).message(obstacle.message())
            }
            Some(obstacle) => self.warn(vpc, obstacle.reason(), obstacle.message().to_owned()),
        };
        // The end of every other obstacle is an event, and so is a Network that becomes ready.
        Ok((ready, if is_pending { Action::Requeue } else { Action::Done }))
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

    /// The addresses of the Vpc's block that Networks of the cluster have.
    fn occupied(&self, vpc: &Vpc) -> Result<Occupied, Failure> {
        let is_own = |network: &Network| {
            network.metadata.namespace == vpc.metadata.namespace
                && owner::is_controlled_by(network, vpc)
        };
        let block =
            vpc.spec.cidrblock.parse().map_err(|error: InvalidCidr| Failure::permanent(error))?;
        Ok(Occupied::new(&occupied::overlapping(&self.networks, block)?, is_own))
    }

    async fn delete(
        &self,
        vpc: &Vpc,
        surplus: &[&Network],
        occupied: &mut Occupied,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let api = self.client.api_beside::<Network>(vpc);
        for network in surplus {
            let uid = network.metadata.uid.clone();
            let this_network = Preconditions { uid, ..Preconditions::default() };
            let parameters = DeleteParams::default().preconditions(this_network);
            let deleted = api.delete(&network.name_any(), &parameters).await.optional()?;
            // With finalizers, the response is the object that is being deleted.
            occupied.delete(network, deleted.is_some_and(|response| response.is_left()));
            done.deleted += 1;
        }
        Ok(())
    }

    /// Creates or changes one Network, unless something is in the way.
    async fn write(
        &self,
        vpc: &Vpc,
        write: &Write<'_>,
        occupied: &mut Occupied,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let Write { present, wanted, subnet } = write;
        let name = wanted.name_any();
        if let Some(obstacle) = self.obstacle(write, occupied)? {
            done.obstacles.push(obstacle);
            return Ok(());
        }
        let api = self.client.api_beside::<Network>(vpc);
        let written = match present {
            None => api.create(&PostParams::default(), wanted).await,
            Some(present) => {
                // Only what this operator decides is sent.
                let patch = json!({
                    "metadata": {
                        "resourceVersion": present.metadata.resource_version,
                        "labels": wanted.metadata.labels,
                        "annotations": wanted.metadata.annotations,
                    },
                    "spec": wanted.spec,
                });
                api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await
            }
        };
        match written {
            Err(error) if is_overlap(&error) => {
                done.obstacles.push(Obstacle::Pending(Failure::from(error).to_string()));
                return Ok(());
            }
            written => written?,
        };
        occupied.insert(wanted, *subnet);
        match present {
            None => done.created += 1,
            Some(_) => done.changed += 1,
        }
        Ok(())
    }

    fn obstacle(
        &self,
        write: &Write<'_>,
        occupied: &Occupied,
    ) -> Result<Option<Obstacle>, Failure> {
        let Write { present, wanted, subnet } = write;
        let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
        let namesake = match present {
            Some(_) => None,
            None => self.networks.get(&namespace, &name)?,
        };
        Ok(match namesake {
            Some(other) if other.metadata.deletion_timestamp.is_some() => {
                let message = format!("the Network {name} is being deleted");
                Some(Obstacle::WaitingForDeletion(message))
            }
            Some(_) => Some(Obstacle::NameTaken(format!("another Network has the name {name}"))),
            None => occupied.obstacle(wanted, *subnet),
        })
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

/// What a reconcile has done.
#[derive(Default)]
struct Done {
    created: usize,
    changed: usize,
    deleted: usize,
    /// Why subnets have no Networks, or have other addresses than they should.
    obstacles: Vec<Obstacle>,
}

/// A Network that does not exist or differs from its subnet.
struct Write<'a> {
    present: Option<&'a Network>,
    wanted: Network,
    subnet: Cidr,
}

/// What differs from the plan. Networks are narrowed before others are moved and created, which may need
/// their addresses.
fn writes<'a>(
    vpc: &Vpc,
    networks: &'a BTreeMap<String, Network>,
    subnets: &Subnets,
) -> Result<Vec<Write<'a>>, Failure> {
    let mut writes = Vec::new();
    for (name, subnet) in subnets {
        let (present, subnet) = (networks.get(name), *subnet);
        let wanted = new_network(vpc, name, subnet)?;
        if !present
            .is_some_and(|network| network.spec == wanted.spec && has_marks(network, &wanted))
        {
            writes.push(Write { present, wanted, subnet });
        }
    }
    writes.sort_by_key(|write| match write.present {
        Some(network) if addresses_of(network).is_some_and(|old| old.contains(write.subnet)) => 0,
        Some(_) => 1,
        None => 2,
    });
    Ok(writes)
}

/// The subnets that a Vpc should have; those that exist keep their addresses. An error is for people.
fn plan(vpc: &Vpc, networks: &BTreeMap<String, Network>) -> Result<Subnets, String> {
    let block: Cidr = vpc.spec.cidrblock.parse().map_err(|error: InvalidCidr| error.to_string())?;
    let count = vpc.spec.subnetnum;
    if count > MAX_SUBNETS {
        return Err(format!("{count} subnets are more than {MAX_SUBNETS}"));
    }
    let name = |number: usize| format!("{}-{number}", vpc.name_any());
    let present = (0..count)
        .filter_map(|number| Some((number, networks.get(&name(number)).and_then(subnet_of)?)));
    let subnets = allocate(block, count, &present.collect()).map_err(|error| error.to_string())?;
    Ok(subnets.into_iter().enumerate().map(|(number, subnet)| (name(number), subnet)).collect())
}

/// The condition of a Vpc that has all of its Networks. The message does not count those that are not
/// ready, which would be a write for each of them.
fn readiness(networks: &BTreeMap<String, Network>) -> NewCondition {
    let mut names =
        networks.iter().filter(|(_, network)| !network.is_ready()).map(|(name, _)| name.as_str());
    let first: Vec<_> = names.by_ref().take(MAX_NAMES).collect();
    if first.is_empty() {
        return NewCondition::new("Ready", true, "SubnetsReady");
    }
    let others = if names.next().is_some() { " and others" } else { "" };
    let message = format!("not ready: {}{others}", first.join(", "));
    NewCondition::new("Ready", false, "NetworksNotReady").message(message)
}

/// The addresses that were allocated to a Network.
fn subnet_of(network: &Network) -> Option<Cidr> {
    let allocated = network.annotations().get(SUBNET_ANNOTATION);
    allocated.unwrap_or(&network.spec.cidr).parse().ok()
}

/// The addresses that a Network has, which somebody may have changed.
fn addresses_of(network: &Network) -> Option<Cidr> {
    network.spec.cidr.parse().ok()
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
