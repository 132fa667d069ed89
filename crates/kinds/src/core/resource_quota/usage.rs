//! The usage of quotas: what each object uses, and which objects are in the scopes of a quota.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::persistent_volume::class;
use crate::core::pod::{qos_class, totals};
use crate::validation::quantities::{amount, is_huge_pages, is_native};
use machinery::fields::{at, flag, integer, list, part, text, texts, top};
use machinery::quantity::Quantity;
use machinery::{Object, Value};

pub use crate::core::pod::totals::{Amounts, add, shown};

/// A parsed quota.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// The name of the quota.
    pub name: String,
    /// The limits, by the names of resources.
    pub hard: Amounts,
    /// The objects that count must be in all of these scopes.
    pub scopes: Vec<Scope>,
}

/// A scope of a quota, which selects some of the objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Parses a quota: the limits of its spec, not their copy in the status.
    pub fn of(quota: &Object) -> Self {
        let spec = top(quota, "spec");
        let plain = texts(spec, "scopes").map(|name| Scope {
            name: name.to_owned(),
            operator: "Exists".to_owned(),
            values: Vec::new(),
        });
        let selected =
            list(at(spec, &["scopeSelector"]), "matchExpressions").iter().map(|it| Scope {
                name: text(it, "scopeName").to_owned(),
                operator: text(it, "operator").to_owned(),
                values: texts(it, "values").map(str::to_owned).collect(),
            });
        Self {
            name: quota.name().to_owned(),
            hard: totals::amounts(spec, "hard"),
            scopes: plain.chain(selected).collect(),
        }
    }

    /// The resources whose objects the quota limits, as group and plural.
    pub fn resources(&self) -> BTreeSet<(String, String)> {
        let resource = |name: &String| {
            if let Some(counted) = name.strip_prefix("count/") {
                let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
                return Some((group.to_owned(), plural.to_owned()));
            }
            if Evaluator::ResourceClaims.matches_resource(name) {
                return Some(("resource.k8s.io".to_owned(), "resourceclaims".to_owned()));
            }
            let plural = ["pods", "services", "persistentvolumeclaims"]
                .into_iter()
                .find(|it| Evaluator::of("", it).is_some_and(|it| it.matches_resource(name)))
                .or_else(|| COUNTED.iter().copied().find(|it| it == name))?;
            Some((String::new(), plural.to_owned()))
        };
        self.hard.keys().filter_map(resource).collect()
    }
}

/// The resources that can be counted under their plain names, besides `count/` and the name.
const COUNTED: &[&str] = &["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// Computes the usage of the objects of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evaluator {
    /// By number and by the resources of their containers.
    Pods,
    /// By number, node ports and load balancers.
    Services,
    /// By number and size, in all and by storage class.
    Claims,
    /// By number, and by the devices of each class that they may use.
    ResourceClaims,
    /// By number, under these names.
    Count(Vec<String>),
}

impl Evaluator {
    /// The evaluator of a resource; None for resources that quotas do not count.
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        Some(match (group, plural) {
            ("" | "events.k8s.io", "events") => return None,
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("resource.k8s.io", "resourceclaims") => Self::ResourceClaims,
            ("", plural) => {
                let own = COUNTED.iter().filter(|it| **it == plural).map(|it| (*it).to_owned());
                Self::Count(own.chain([format!("count/{plural}")]).collect())
            }
            (group, plural) => Self::Count(vec![format!("count/{plural}.{group}")]),
        })
    }

    /// Whether a quota with this resource name in `spec.hard` limits these objects.
    pub fn matches_resource(&self, name: &str) -> bool {
        match self {
            Self::Pods => {
                let requested = name.strip_prefix("requests.");
                POD_RESOURCES.contains(&name)
                    || is_huge_pages(requested.unwrap_or(name))
                    || requested.is_some_and(|_| !is_native(name))
            }
            Self::Services => SERVICE_RESOURCES.contains(&name),
            Self::Claims => {
                let of_class = name.split_once(STORAGE_CLASS_INFIX).map(|(_, rest)| rest);
                name == "count/persistentvolumeclaims"
                    || CLAIM_RESOURCES.contains(&of_class.unwrap_or(name))
            }
            Self::ResourceClaims => {
                name == RESOURCE_CLAIM_COUNT || name.ends_with(DEVICES_OF_CLASS)
            }
            Self::Count(names) => names.iter().any(|it| it == name),
        }
    }

    /// Whether a request may increase the usage of an object, so that quotas must be checked. `old`
    /// is None for a new object.
    pub fn may_grow(&self, subresource: &str, new: &Object, old: Option<&Object>) -> bool {
        match (self, subresource, old) {
            (_, "", None)
            | (Self::Services | Self::Claims | Self::ResourceClaims, "", Some(_))
            | (Self::Pods, "resize", Some(_)) => true,
            (Self::Pods, "", Some(old)) => is_terminating(new) != is_terminating(old),
            _ => false,
        }
    }

    /// Whether the scopes of a quota select an object.
    pub fn matches(&self, quota: &Quota, object: &Object) -> bool {
        quota.scopes.iter().all(|scope| match self {
            Self::Pods => pod_is_in_scope(object, scope),
            Self::Claims => claim_is_in_scope(object, scope),
            Self::Services | Self::ResourceClaims | Self::Count(_) => false,
        })
    }

    /// Whether all objects have the same usage, so that they need not be read.
    pub fn is_count(&self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// The usage of an object.
    pub fn usage(&self, object: &Object) -> Amounts {
        match self {
            Self::Pods => pod_usage(object),
            Self::Services => service_usage(object),
            Self::Claims => claim_usage(object),
            Self::ResourceClaims => resource_claim_usage(object),
            Self::Count(names) => names.iter().map(|it| (it.clone(), Quantity::from(1))).collect(),
        }
    }

    /// The error about an object without the requests or limits that a quota requires.
    pub fn missing_requests(&self, object: &Object, quota: &Quota) -> Option<String> {
        let spec = top(object, "spec");
        let pod_level = at(spec, &["resources"]);
        let has_pod_level =
            ["requests", "limits"].iter().any(|it| !totals::amounts(pod_level, it).is_empty());
        if self != &Self::Pods || has_pod_level {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let required = quota.hard.keys().filter(|it| REQUIRED_RESOURCES.contains(&it.as_str()));
        for name in required {
            for part in ["containers", "initContainers"] {
                for container in list(spec, part) {
                    if !specifies(container, name) {
                        missing.entry(name).or_default().insert(text(container, "name"));
                    }
                }
            }
        }
        let missing: Vec<String> = missing
            .into_iter()
            .map(|(name, containers)| {
                let containers: Vec<&str> = containers.into_iter().collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        (!missing.is_empty()).then(|| format!("must specify {}", missing.join("; ")))
    }
}

/// The resources of pods, besides huge pages and extended resources.
const POD_RESOURCES: &[&str] = &[
    "count/pods",
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// The requests and limits that every container must set if a quota limits them.
const REQUIRED_RESOURCES: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// The resources of services, in the order of the counts in [`service_usage`].
const SERVICE_RESOURCES: &[&str] =
    &["count/services", "services", "services.nodeports", "services.loadbalancers"];

/// The resources of claims, in total and of each storage class.
const CLAIM_RESOURCES: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// The separator between the name of a storage class and a resource in the limits of a quota.
const STORAGE_CLASS_INFIX: &str = ".storageclass.storage.k8s.io/";

/// The number of resource claims.
const RESOURCE_CLAIM_COUNT: &str = "count/resourceclaims.resource.k8s.io";

/// Stands after the name of a device class in the limits of a quota.
const DEVICES_OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";

/// The number of devices that a request for all devices may get at most.
const MAX_DEVICES: i64 = 32;

/// Whether a container sets the request or limit that `name` stands for in a quota.
fn specifies(container: &Value, name: &str) -> bool {
    let (part, name) = match name.strip_prefix("limits.") {
        Some(name) => ("limits", name),
        None => ("requests", name.strip_prefix("requests.").unwrap_or(name)),
    };
    !at(container, &["resources", part, name]).is_null()
}

fn pod_usage(pod: &Object) -> Amounts {
    let mut used = Amounts::from([("count/pods".to_owned(), Quantity::from(1))]);
    // A terminated pod only counts as a stored object.
    if matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") {
        return used;
    }
    used.insert("pods".to_owned(), Quantity::from(1));
    for (name, amount) in totals::requests(top(pod, "spec")) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(&name) {
            used.insert(name.clone(), amount.clone());
            used.insert(format!("requests.{name}"), amount);
        } else if !is_native(&name) {
            used.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in totals::limits(top(pod, "spec")) {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), amount);
        }
    }
    used
}

fn service_usage(service: &Object) -> Amounts {
    let spec = top(service, "spec");
    let ports = list(spec, "ports");
    let with_node_port = || ports.iter().filter(|it| integer(it, "nodePort").unwrap_or(0) != 0);
    let (node_ports, load_balancers) = match text(spec, "type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" => {
            let is_allocation_disabled = part(spec, "allocateLoadBalancerNodePorts").is_some()
                && !flag(spec, "allocateLoadBalancerNodePorts");
            (if is_allocation_disabled { with_node_port().count() } else { ports.len() }, 1)
        }
        _ => (0, 0),
    };
    let quantity = |count: usize| Quantity::from(i64::try_from(count).unwrap_or(i64::MAX));
    SERVICE_RESOURCES
        .iter()
        .zip([1, 1, node_ports, load_balancers])
        .map(|(name, count)| ((*name).to_owned(), quantity(count)))
        .collect()
}

fn claim_usage(claim: &Object) -> Amounts {
    let one = || Quantity::from(1);
    let mut used = Amounts::from([
        ("persistentvolumeclaims".to_owned(), one()),
        ("count/persistentvolumeclaims".to_owned(), one()),
    ]);
    let requested = at(top(claim, "spec"), &["resources", "requests", "storage"]);
    let allocated = at(top(claim, "status"), &["allocatedResources", "storage"]);
    if !requested.is_null() {
        used.insert("requests.storage".to_owned(), amount(requested).max(amount(allocated)));
    }
    let class = class(claim);
    if !class.is_empty() {
        for name in CLAIM_RESOURCES {
            if let Some(amount) = used.get(*name).cloned() {
                used.insert(format!("{class}{STORAGE_CLASS_INFIX}{name}"), amount);
            }
        }
    }
    used
}

/// Of alternatives, the one with the most devices of a class counts for this class.
fn resource_claim_usage(claim: &Object) -> Amounts {
    let mut used = Amounts::from([(RESOURCE_CLAIM_COUNT.to_owned(), Quantity::from(1))]);
    for request in list(at(top(claim, "spec"), &["devices"]), "requests") {
        let alternatives = list(request, "firstAvailable");
        let exactly = part(request, "exactly").filter(|_| alternatives.is_empty());
        let mut largest = BTreeMap::<&str, i64>::new();
        for request in alternatives.iter().chain(exactly) {
            let devices = match text(request, "allocationMode") {
                "ExactCount" => integer(request, "count").unwrap_or(0),
                "All" => MAX_DEVICES,
                _ => 0,
            };
            let known = largest.entry(text(request, "deviceClassName")).or_default();
            *known = devices.max(*known);
        }
        for (class, devices) in largest {
            let devices = Amounts::from([(format!("{class}{DEVICES_OF_CLASS}"), devices.into())]);
            add(&mut used, &devices);
        }
    }
    used
}

/// Whether a pod is in the scope `Terminating`: it has a deadline.
fn is_terminating(pod: &Object) -> bool {
    integer(top(pod, "spec"), "activeDeadlineSeconds").is_some_and(|it| it >= 0)
}

fn pod_is_in_scope(pod: &Object, scope: &Scope) -> bool {
    let spec = top(pod, "spec");
    match scope.name.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => qos_class::class_of(spec) == "BestEffort",
        "NotBestEffort" => qos_class::class_of(spec) != "BestEffort",
        "PriorityClass" => {
            let class = text(spec, "priorityClassName");
            scope.selects(Some(class).filter(|it| !it.is_empty()).into_iter().collect())
        }
        "CrossNamespacePodAffinity" => has_cross_namespace_term(at(spec, &["affinity"])),
        _ => false,
    }
}

/// Whether a pod (anti-)affinity has a term that names namespaces or selects them.
fn has_cross_namespace_term(affinity: &Value) -> bool {
    let is_cross_namespace = |term: &Value| {
        !list(term, "namespaces").is_empty() || part(term, "namespaceSelector").is_some()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let of = at(affinity, &[kind]);
        list(of, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(is_cross_namespace)
            || list(of, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|it| is_cross_namespace(at(it, &["podAffinityTerm"])))
    })
}

fn claim_is_in_scope(claim: &Object, scope: &Scope) -> bool {
    if scope.name != "VolumeAttributesClass" {
        return false;
    }
    let (spec, status) = (top(claim, "spec"), top(claim, "status"));
    let names = [
        text(spec, "volumeAttributesClassName"),
        text(status, "currentVolumeAttributesClassName"),
        text(at(status, &["modifyVolumeStatus"]), "targetVolumeAttributesClassName"),
    ];
    scope.selects(names.into_iter().filter(|it| !it.is_empty()).collect())
}

impl Scope {
    /// Whether the scope selects an object with these names of classes.
    fn selects(&self, names: Vec<&str>) -> bool {
        let is_listed = |name: &str| self.values.iter().any(|it| it == name);
        match self.operator.as_str() {
            "Exists" => !names.is_empty(),
            "DoesNotExist" => names.is_empty(),
            "In" => names.into_iter().any(is_listed),
            "NotIn" => names.is_empty() || !names.into_iter().all(is_listed),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
