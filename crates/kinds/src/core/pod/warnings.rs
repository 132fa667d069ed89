//! Warnings about pods that are accepted.

use std::collections::HashSet;

use super::{each_container, overlaps, ports};
use crate::validation::address;
use crate::validation::quantities::{amount, is_fractional};
use machinery::field_path::quote;
use machinery::fields::{annotation, at, entries, integer, list, part, text, texts, top};
use machinery::{Object, Path, Value, names};

/// Deprecated labels of nodes, and the warnings about them.
const OLD_NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

/// Annotations that have no effect any more, and the warnings about them.
const OLD_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Volume sources that are no longer supported: the field, its name in the warning, the text.
const OLD_VOLUMES: &[(&str, &str, &str)] = &[
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// The warnings for a new pod. A pod with a resource version is being updated; updates mostly come
/// from programs, and cause no warnings.
pub(super) fn warnings(pod: &Object) -> Vec<String> {
    let mut warnings = Vec::new();
    if !pod.resource_version().is_empty() {
        return warnings;
    }
    let messages = names::dns1123_label(pod.name());
    if !messages.is_empty() {
        let messages = messages.join(" ");
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{messages}]"
        ));
    }
    template_warnings(&mut warnings, &Path::EMPTY, top(pod, "metadata"), top(pod, "spec"));
    warnings
}

/// Adds the warnings about a pod, or about a pod template at `root`.
pub(crate) fn template_warnings(
    out: &mut Vec<String>,
    root: &Path<'_>,
    metadata: &Value,
    spec: &Value,
) {
    let path = root.child("spec");
    warn_of_labels(out, &path, spec);
    for (key, message) in OLD_ANNOTATIONS {
        if annotation(metadata, key).is_some() {
            out.push(format!(
                "{}: {message}",
                root.child("metadata").child("annotations").key(key)
            ));
        }
    }
    warn_of_volumes(out, &path, spec);
    warn_of_duplicates(out, &path, spec);
    for name in ["memory", "ephemeral-storage"] {
        warn_of_fraction(out, &path.child("overhead").key(name), at(spec, &["overhead", name]));
    }
    each_container(spec, &path, |container, path| warn_of_container(out, path, container));
    ports::warn(out, &path, spec);
    if integer(spec, "terminationGracePeriodSeconds").is_some_and(|it| it < 0) {
        out.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            path.child("terminationGracePeriodSeconds")
        ));
    }
    warn_of_affinity(out, &path, spec);
    let config = path.child("dnsConfig");
    let servers = config.child("nameservers");
    for (index, server) in texts(at(spec, &["dnsConfig"]), "nameservers").enumerate() {
        out.extend(address::ip_warning(&servers.index(index), server));
    }
    let aliases = path.child("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = aliases.index(index);
        out.extend(address::ip_warning(&path.child("ip"), text(alias, "ip")));
    }
}

fn old_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == key).map(|(_, message)| *message)
}

fn warn_of_labels(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    for (key, _) in entries(spec, "nodeSelector") {
        if let Some(message) = old_label(key) {
            out.push(format!("{}: {message}", path.child("nodeSelector").key(key)));
        }
    }
    let affinity = at(spec, &["affinity", "nodeAffinity"]);
    let node_affinity = path.child("affinity");
    let node_affinity = node_affinity.child("nodeAffinity");
    let required = node_affinity.child("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.child("nodeSelectorTerms");
    let selector = at(affinity, &["requiredDuringSchedulingIgnoredDuringExecution"]);
    for (index, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
        warn_of_term(out, &terms.index(index), term);
    }
    let preferred = node_affinity.child("preferredDuringSchedulingIgnoredDuringExecution");
    let weighted = list(affinity, "preferredDuringSchedulingIgnoredDuringExecution");
    for (index, weighted) in weighted.iter().enumerate() {
        let path = preferred.index(index);
        warn_of_term(out, &path.child("preference"), at(weighted, &["preference"]));
    }
    let spread = path.child("topologySpreadConstraints");
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let path = spread.index(index);
        let key = text(constraint, "topologyKey");
        if let Some(message) = old_label(key) {
            out.push(format!("{}: {key} is {message}", path.child("topologyKey")));
        }
        if part(constraint, "labelSelector").is_none() {
            out.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
        }
    }
}

fn warn_of_term(out: &mut Vec<String>, path: &Path<'_>, term: &Value) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let key = text(expression, "key");
        if let Some(message) = old_label(key) {
            out.push(format!("{}: {key} is {message}", expressions.index(index).child("key")));
        }
    }
}

fn warn_of_volumes(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    let path = path.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        for (field, shown, message) in OLD_VOLUMES {
            if part(volume, field).is_some() {
                out.push(format!("{}: {message}", path.index(index).child(shown)));
            }
        }
    }
    overlaps::warn(out, spec);
}

fn warn_of_duplicates(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    for (field, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        let path = path.child(field);
        for (index, item) in list(spec, field).iter().enumerate() {
            let value = text(item, key);
            let path = path.index(index);
            if seen.contains(&value) {
                out.push(format!("{}: duplicate {key} {}", path.child(key), quote(value)));
            }
            seen.insert(value);
        }
    }
    let secrets = path.child("imagePullSecrets");
    for (index, secret) in list(spec, "imagePullSecrets").iter().enumerate() {
        if text(secret, "name").is_empty() {
            out.push(format!("{}: invalid empty name \"\"", secrets.index(index).child("name")));
        }
    }
}

fn warn_of_fraction(out: &mut Vec<String>, path: &Path<'_>, value: &Value) {
    let amount = amount(value);
    if is_fractional(&amount) {
        let shown = quote(&amount.to_string());
        out.push(format!("{path}: fractional byte value {shown} is invalid, must be an integer"));
    }
}

fn warn_of_container(out: &mut Vec<String>, path: &Path<'_>, container: &Value) {
    let resources = path.child("resources");
    for name in ["memory", "ephemeral-storage"] {
        for part in ["limits", "requests"] {
            let value = at(container, &["resources", part, name]);
            warn_of_fraction(out, &resources.child(part).key(name), value);
        }
    }
    let env = path.child("env");
    let mut seen = HashSet::new();
    for (index, variable) in list(container, "env").iter().enumerate() {
        let (name, value) = (text(variable, "name"), text(variable, "value"));
        let reference = format!("$({name})");
        // A value that refers to the previous definition does not hide it.
        let refers_to_previous = part(variable, "valueFrom").is_none()
            && value != reference
            && value.contains(&reference);
        if seen.contains(&name) && !refers_to_previous {
            out.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                env.index(index),
                quote(name)
            ));
        }
        seen.insert(name);
    }
}

fn warn_of_affinity(out: &mut Vec<String>, path: &Path<'_>, spec: &Value) {
    let path = path.child("affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let affinity = at(spec, &["affinity", kind]);
        let path = path.child(kind);
        let field = "requiredDuringSchedulingIgnoredDuringExecution";
        let required = path.child(field);
        for (index, term) in list(affinity, field).iter().enumerate() {
            if part(term, "labelSelector").is_none() {
                let path = required.index(index);
                out.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
            }
        }
        let field = "preferredDuringSchedulingIgnoredDuringExecution";
        let preferred = path.child(field);
        for (index, weighted) in list(affinity, field).iter().enumerate() {
            if at(weighted, &["podAffinityTerm", "labelSelector"]).is_null() {
                let path = preferred.index(index);
                let path = path.child("podAffinityTerm");
                out.push(format!("{}: {NO_SELECTOR}", path.child("labelSelector")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::object;
    use machinery::json;

    fn check(spec: Value, expected: &[&str]) {
        let pod = object(json!({"metadata": {"name": "a"}, "spec": spec}));
        assert_eq!(warnings(&pod), expected);
    }

    #[test]
    fn a_plain_pod_causes_no_warnings() {
        check(json!({"containers": [{"name": "c", "env": [{"name": "A"}, {"name": "B"}]}]}), &[]);
    }

    #[test]
    fn a_variable_that_hides_another_causes_a_warning() {
        check(
            json!({"containers": [{"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"},
                {"name": "A", "value": "$(A):3"}]}]}),
            &[
                r#"spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply"#,
            ],
        );
    }

    #[test]
    fn duplicate_ports_cause_warnings() {
        let port = json!({"containerPort": 80, "protocol": "TCP", "name": "http"});
        check(
            json!({"containers": [{"ports": [port, port]}]}),
            &[
                "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
                r#"spec.containers[0].ports[1]: duplicate port name "http" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]"#,
            ],
        );
    }

    #[test]
    fn deprecated_labels_and_volumes_cause_warnings() {
        check(
            json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"},
                "volumes": [{"name": "g", "gitRepo": {}}]}),
            &[
                r#"spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead"#,
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            ],
        );
    }
}
