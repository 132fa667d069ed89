//! What an object uses of a quota: how the objects of each resource are measured, and which of them
//! a quota covers.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::persistent_volume::class;
use crate::core::pod::{qos_class, totals};
use crate::validation::quantities::{amount, is_huge_pages, is_native};
use machinery::fields::{at, flag, integer, list, part, text, texts, top};
use machinery::quantity::Quantity;
use machinery::{Object, Value};

pub use crate::core::pod::totals::{Amounts, add, shown};

/// A quota: its scopes and limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// What may be used, by name.
    pub hard: Amounts,
    /// What it is about; nothing means everything.
    pub scopes: Vec<Scope>,
}

/// A part of all objects.
#[derive(Debug, Clone, PartialEq)]
pub struct Scope {
    name: String,
    operator: String,
    values: Vec<String>,
}

impl Quota {
    /// Reads a quota. What its author has written counts, not what a controller has copied.
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

    /// The resources that it may count, as group and plural.
    pub fn resources(&self) -> BTreeSet<(String, String)> {
        let measured = |name: &String| {
            if let Some(counted) = name.strip_prefix("count/") {
                let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
                return Some((group.to_owned(), plural.to_owned()));
            }
            let plural = ["pods", "services", "persistentvolumeclaims"]
                .into_iter()
                .find(|it| Evaluator::of("", it).is_some_and(|it| it.matches_resource(name)))
                .or_else(|| COUNTED.iter().copied().find(|it| it == name))?;
            Some((String::new(), plural.to_owned()))
        };
        self.hard.keys().filter_map(measured).collect()
    }
}

/// What was counted by its own name before everything could be.
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
                let asked = name.strip_prefix("requests.");
                OF_PODS.contains(&name)
                    || is_huge_pages(asked.unwrap_or(name))
                    || asked.is_some_and(|_| !is_native(name))
            }
            Self::Services => OF_SERVICES.contains(&name),
            Self::Claims => {
                let of_class = name.split_once(BY_CLASS).map(|(_, rest)| rest);
                name == "count/persistentvolumeclaims"
                    || OF_CLAIMS.contains(&of_class.unwrap_or(name))
            }
            Self::Count(names) => names.iter().any(|it| it == name),
        }
    }

    /// Whether a change may use more: what a change of the object itself cannot do is not looked at.
    pub fn may_grow(&self, subresource: &str, new: &Object, old: Option<&Object>) -> bool {
        match (self, subresource, old) {
            (_, "", None)
            | (Self::Services | Self::Claims, "", Some(_))
            | (Self::Pods, "resize", Some(_)) => true,
            (Self::Pods, "", Some(old)) => is_terminating(new) != is_terminating(old),
            _ => false,
        }
    }

    /// Whether the scopes of a quota select an object.
    pub fn matches(&self, quota: &Quota, object: &Object) -> bool {
        quota.scopes.iter().all(|scope| match self {
            Self::Pods => pod_is_in(object, scope),
            Self::Claims => claim_is_in(object, scope),
            Self::Services | Self::Count(_) => false,
        })
    }

    /// Whether all objects have the same usage, so that they need not be read.
    pub fn is_count(&self) -> bool {
        matches!(self, Self::Count(_))
    }

    /// What an object uses.
    pub fn usage(&self, object: &Object) -> Amounts {
        match self {
            Self::Pods => of_pod(object),
            Self::Services => of_service(object),
            Self::Claims => of_claim(object),
            Self::Count(names) => names.iter().map(|it| (it.clone(), Quantity::from(1))).collect(),
        }
    }

    /// The error about an object without the requests or limits that a quota requires.
    pub fn missing_requests(&self, object: &Object, quota: &Quota) -> Option<String> {
        let spec = top(object, "spec");
        let whole = at(spec, &["resources"]);
        let says_it_itself =
            ["requests", "limits"].iter().any(|it| !totals::amounts(whole, it).is_empty());
        if self != &Self::Pods || says_it_itself {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let asked = quota.hard.keys().filter(|it| TO_BE_SAID.contains(&it.as_str()));
        for name in asked {
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

const OF_PODS: &[&str] = &[
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

/// The requests and limits that every container must have where a quota limits them.
const TO_BE_SAID: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

const OF_SERVICES: &[&str] =
    &["count/services", "services", "services.nodeports", "services.loadbalancers"];

const OF_CLAIMS: &[&str] = &["persistentvolumeclaims", "requests.storage"];

/// The separator between the name of a storage class and the counted resource.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";

fn specifies(container: &Value, name: &str) -> bool {
    let (part, name) = match name.strip_prefix("limits.") {
        Some(name) => ("limits", name),
        None => ("requests", name.strip_prefix("requests.").unwrap_or(name)),
    };
    !at(container, &["resources", part, name]).is_null()
}

fn of_pod(pod: &Object) -> Amounts {
    let mut used = Amounts::from([("count/pods".to_owned(), Quantity::from(1))]);
    // What has ended takes up a place in the store, and nothing else.
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

fn of_service(service: &Object) -> Amounts {
    let spec = top(service, "spec");
    let ports = list(spec, "ports");
    let with_node_port = || ports.iter().filter(|it| integer(it, "nodePort").unwrap_or(0) != 0);
    let (node_ports, balancers) = match text(spec, "type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" => {
            let on_demand = part(spec, "allocateLoadBalancerNodePorts").is_some()
                && !flag(spec, "allocateLoadBalancerNodePorts");
            (if on_demand { with_node_port().count() } else { ports.len() }, 1)
        }
        _ => (0, 0),
    };
    let counted = |count: usize| Quantity::from(i64::try_from(count).unwrap_or(i64::MAX));
    OF_SERVICES
        .iter()
        .zip([1, 1, node_ports, balancers])
        .map(|(name, count)| ((*name).to_owned(), counted(count)))
        .collect()
}

fn of_claim(claim: &Object) -> Amounts {
    let one = || Quantity::from(1);
    let mut used = Amounts::from([
        ("persistentvolumeclaims".to_owned(), one()),
        ("count/persistentvolumeclaims".to_owned(), one()),
    ]);
    let asked = at(top(claim, "spec"), &["resources", "requests", "storage"]);
    let given = at(top(claim, "status"), &["allocatedResources", "storage"]);
    if !asked.is_null() {
        used.insert("requests.storage".to_owned(), amount(asked).max(amount(given)));
    }
    let class = class(claim);
    if !class.is_empty() {
        for name in OF_CLAIMS {
            if let Some(amount) = used.get(*name).cloned() {
                used.insert(format!("{class}{BY_CLASS}{name}"), amount);
            }
        }
    }
    used
}

fn is_terminating(pod: &Object) -> bool {
    integer(top(pod, "spec"), "activeDeadlineSeconds").is_some_and(|it| it >= 0)
}

fn pod_is_in(pod: &Object, scope: &Scope) -> bool {
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
        "CrossNamespacePodAffinity" => looks_into_other_namespaces(at(spec, &["affinity"])),
        _ => false,
    }
}

fn looks_into_other_namespaces(affinity: &Value) -> bool {
    let is_foreign = |term: &Value| {
        !list(term, "namespaces").is_empty() || part(term, "namespaceSelector").is_some()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let of = at(affinity, &[kind]);
        list(of, "requiredDuringSchedulingIgnoredDuringExecution").iter().any(is_foreign)
            || list(of, "preferredDuringSchedulingIgnoredDuringExecution")
                .iter()
                .any(|it| is_foreign(at(it, &["podAffinityTerm"])))
    })
}

fn claim_is_in(claim: &Object, scope: &Scope) -> bool {
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
    /// Whether it holds for something with these names.
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
