//! Validation of the specs of pods and pod templates.

use std::collections::{BTreeSet, HashMap};

use super::containers::{
    PodContext, forbid_untrimmed_image, validate_containers, validate_ephemeral_containers,
    validate_init_containers,
};
use super::volumes::validate_volumes;
use super::{annotations, each_container, network, scheduling, security, totals};
use crate::validation::go_struct;
use crate::validation::quantities::{self, amount};
use crate::validation::rules::{at_least_zero, dns_label, dns_subdomain, in_range, labels, one_of};
use machinery::field_path::{ErrorType, quote};
use machinery::fields::{at, boolean, entries, flag, integer, list, part, text, top};
use machinery::meta::validate_annotations;
use machinery::{ErrorList, Object, Path, Value, json};

static SPEC: Path<'static> = Path::root("spec");

/// Validates a new pod.
pub(super) fn validate_create(pod: &Object, errors: &mut ErrorList) {
    validate_pod(pod, errors);
    let spec = top(pod, "spec");
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let message = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&SPEC.child("nodeName"), message);
    }
    annotations::validate_match(errors, top(pod, "metadata"), spec, &SPEC);
}

/// The rules for both new and updated pods.
pub(super) fn validate_pod(pod: &Object, errors: &mut ErrorList) {
    let (metadata, spec) = (top(pod, "metadata"), top(pod, "spec"));
    annotations::validate_pod(errors, metadata, spec);
    validate_spec(errors, &SPEC, spec, Some(pod));
    if text(spec, "serviceAccountName").is_empty() {
        forbid_tokens(errors, spec);
    }
    if let Some(seconds) = integer(spec, "terminationGracePeriodSeconds") {
        let path = SPEC.child("terminationGracePeriodSeconds");
        at_least_zero(errors, &path, seconds);
    }
    for part in ["containers", "initContainers"] {
        let path = SPEC.child(part);
        for (index, container) in list(spec, part).iter().enumerate() {
            forbid_untrimmed_image(errors, &path.index(index), container);
        }
    }
}

/// Validates a pod template, `{metadata, spec}`, at `path`.
pub fn validate_template(errors: &mut ErrorList, path: &Path<'_>, template: &Value) {
    let (metadata, spec) = (at(template, &["metadata"]), at(template, &["spec"]));
    labels(errors, &path.child("labels"), at(metadata, &["labels"]));
    if let Some(map) = at(metadata, &["annotations"]).as_object() {
        validate_annotations(map, &path.child("annotations"), errors);
    }
    annotations::validate(errors, &path.child("annotations"), metadata, spec);
    let spec_path = path.child("spec");
    validate_spec(errors, &spec_path, spec, None);
    annotations::validate_match(errors, metadata, spec, &spec_path);
    if !list(spec, "ephemeralContainers").is_empty() {
        let message = "ephemeral containers not allowed in pod template";
        errors.forbidden(&spec_path.child("ephemeralContainers"), message);
    }
}

/// Forbids projected tokens, which require a service account.
fn forbid_tokens(errors: &mut ErrorList, spec: &Value) {
    let volumes = SPEC.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = volumes.index(index);
        let path = path.child("projected");
        let path = path.child("sources");
        for (index, source) in list(at(volume, &["projected"]), "sources").iter().enumerate() {
            if part(source, "serviceAccountToken").is_some() {
                let message = "must not be specified when serviceAccountName is not set";
                errors.forbidden(&path.index(index).child("serviceAccountToken"), message);
            }
        }
    }
}

fn validate_spec(errors: &mut ErrorList, path: &Path<'_>, spec: &Value, pod: Option<&Object>) {
    if part(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let volumes =
        validate_volumes(errors, &path.child("volumes"), spec, pod.map_or("", Object::name));
    let claims = validate_claims(errors, &path.child("resourceClaims"), spec);
    let context = PodContext {
        spec,
        volumes: &volumes,
        claims: &claims,
        grace_period: integer(spec, "terminationGracePeriodSeconds"),
        os: part(spec, "os").map(|os| text(os, "name")),
        host_users: boolean(spec, "hostUsers").unwrap_or(true),
    };
    validate_containers(errors, &path.child("containers"), &context);
    validate_init_containers(errors, &path.child("initContainers"), &context);
    validate_ephemeral_containers(errors, &path.child("ephemeralContainers"), &context);
    validate_resources(errors, &path.child("resources"), spec);
    let restart_policies = &["Always", "OnFailure", "Never"];
    one_of(errors, &path.child("restartPolicy"), text(spec, "restartPolicy"), restart_policies);
    network::validate_network(errors, path, spec, pod.is_some());
    let context = at(spec, &["securityContext"]);
    security::validate_pod_context(errors, &path.child("securityContext"), context, spec);
    security::validate_host_processes(errors, path, spec);
    security::validate_host_users(errors, path, spec);
    security::validate_os(errors, path, spec);
    if boolean(spec, "shareProcessNamespace") == Some(true) && flag(spec, "hostPID") {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, message);
    }
    labels(errors, &path.child("nodeSelector"), at(spec, &["nodeSelector"]));
    scheduling::validate_affinity(errors, &path.child("affinity"), spec);
    scheduling::validate_gates(errors, path, spec);
    let spread = path.child("topologySpreadConstraints");
    scheduling::validate_spread(errors, &spread, spec);
    scheduling::validate_tolerations(errors, &path.child("tolerations"), list(spec, "tolerations"));
    validate_scalars(errors, path, spec);
    validate_file_refs(errors, path, spec);
}

/// The fields that do not depend on others.
fn validate_scalars(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    for field in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        let name = text(spec, field);
        if !name.is_empty() {
            dns_subdomain(errors, &path.child(field), name);
        }
    }
    let (account, alias) = (text(spec, "serviceAccountName"), text(spec, "serviceAccount"));
    if alias != account {
        let message = format!("must be the same as serviceAccountName: {}", quote(account));
        errors.invalid(&path.child("deprecatedServiceAccount"), alias, &message);
    }
    if let Some(seconds) = integer(spec, "activeDeadlineSeconds") {
        in_range(errors, &path.child("activeDeadlineSeconds"), seconds, 1, i64::from(i32::MAX));
    }
    if part(spec, "preemptionPolicy").is_some() {
        let policies = &["PreemptLowerPriority", "Never"];
        let policy = text(spec, "preemptionPolicy");
        one_of(errors, &path.child("preemptionPolicy"), policy, policies);
    }
    if let Some(overhead) = part(spec, "overhead") {
        let overhead = json!({"limits": overhead});
        quantities::validate_container(
            errors,
            &path.child("overhead"),
            &overhead,
            &BTreeSet::new(),
        );
    }
}

/// Validates the pod's resource claims and returns their names.
fn validate_claims<'a>(
    errors: &mut ErrorList,
    path: &Path<'_>,
    spec: &'a Value,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let path = path.index(index);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if seen.contains(&name) {
            errors.duplicate(&path.child("name"), name);
        } else {
            dns_label(errors, &path.child("name"), name);
            seen.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let count = sources.iter().filter(|source| part(claim, source).is_some()).count();
        let problem = match count {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
        };
        if !problem.is_empty() {
            let shown = go_struct::line("PodResourceClaim", claim);
            let detail = format!("{shown}: {problem}");
            errors.add(ErrorType::Invalid, &path, None, &detail);
        }
        for source in sources {
            if part(claim, source).is_some() {
                dns_subdomain(errors, &path.child(source), text(claim, source));
            }
        }
    }
    seen
}

/// Validates the pod-level resources against those of the containers.
fn validate_resources(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let Some(resources) = part(spec, "resources") else { return };
    if at(spec, &["os", "name"]) == "windows" {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    quantities::validate_pod(errors, path, resources);
    let requests = path.child("requests");
    for (name, total) in totals::sum_of_containers(spec, "requests") {
        let Some(own) = part(at(resources, &["requests"]), &name).map(amount) else { continue };
        if total > own {
            let message =
                format!("must be greater than or equal to aggregate container requests of {total}");
            errors.invalid(&requests.key(&name), own.to_string(), &message);
        }
    }
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        for (name, limit) in entries(at(container, &["resources"]), "limits") {
            let limit = amount(limit);
            let Some(own) = part(at(resources, &["limits"]), name).map(amount) else { continue };
            if limit > own {
                let message = format!("must be less than or equal to pod limits of {own}");
                let path = containers.index(index);
                let path = path.key(name);
                errors.invalid(&path.child("limits"), limit.to_string(), &message);
            }
        }
    }
}

/// Validates that the volume of each `fileKeyRef` is an `emptyDir`.
fn validate_file_refs(errors: &mut ErrorList, path: &Path<'_>, spec: &Value) {
    let mut volumes: HashMap<&str, &Value> = HashMap::new();
    for volume in list(spec, "volumes") {
        volumes.entry(text(volume, "name")).or_insert(volume);
    }
    each_container(spec, path, |container, path| {
        let env = path.child("env");
        for (index, variable) in list(container, "env").iter().enumerate() {
            let Some(file) = part(at(variable, &["valueFrom"]), "fileKeyRef") else { continue };
            let (name, path) = (text(file, "volumeName"), env.index(index));
            let path = path.child("valueFrom");
            let path = path.child("fileKeyRef");
            let path = path.child("volumeName");
            match volumes.get(name) {
                None => errors.not_found(&path, name),
                Some(volume) if part(volume, "emptyDir").is_none() => {
                    errors.invalid(&path, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::STRATEGY;
    use super::*;
    use crate::validation::testing::{lines, refusals};

    fn check(spec: Value, expected: &[&str]) {
        let pod = json!({"metadata": {"name": "a"}, "spec": spec});
        assert_eq!(refusals(&STRATEGY, pod), expected);
    }

    #[test]
    fn a_pod_requires_containers_with_unique_names_and_images() {
        check(json!({}), &["spec.containers: Required value"]);
        check(
            json!({"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"},
                {"image": "i"}, {"name": "d"}]}),
            &[
                r#"spec.containers[1].name: Duplicate value: "c""#,
                "spec.containers[2].name: Required value",
                "spec.containers[3].image: Required value",
            ],
        );
    }

    #[test]
    fn invalid_ports_and_untrimmed_images_are_refused() {
        check(
            json!({"containers": [{"name": "c", "image": " i", "ports": [{"containerPort": 0},
                {"containerPort": 80, "hostPort": 80, "protocol": "X"}, {"containerPort": 81, "hostPort": 80}]}]}),
            &[
                "spec.containers[0].ports[0].containerPort: Required value",
                r#"spec.containers[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
                r#"spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace"#,
            ],
        );
    }

    #[test]
    fn only_restartable_init_containers_may_have_probes() {
        check(
            json!({"containers": [{"name": "c", "image": "i"}], "initContainers": [
                {"name": "c", "image": "i", "readinessProbe": {"exec": {"command": ["x"]}}},
                {"name": "s", "image": "i", "restartPolicy": "Always", "readinessProbe": {"exec": {"command": ["x"]}}}]}),
            &[
                r#"spec.initContainers[0].name: Duplicate value: "c""#,
                "spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        );
    }

    #[test]
    fn deadlines_policies_and_new_ephemeral_containers_are_validated() {
        check(
            json!({"containers": [{"name": "c", "image": "i"}], "activeDeadlineSeconds": 0,
                "preemptionPolicy": "Odd", "ephemeralContainers": [{"name": "e", "image": "i"}]}),
            &[
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
                r#"spec.preemptionPolicy: Unsupported value: "Odd": supported values: "PreemptLowerPriority", "Never""#,
                "spec.ephemeralContainers: Forbidden: cannot be set on create",
            ],
        );
    }

    #[test]
    fn a_projected_token_requires_a_service_account() {
        check(
            json!({"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "t", "projected":
                {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}),
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
            ],
        );
    }

    #[test]
    fn pod_level_requests_must_cover_those_of_the_containers() {
        check(
            json!({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}),
            &[
                r#"spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2"#,
            ],
        );
    }

    #[test]
    fn errors_of_a_template_have_its_path() {
        let mut errors = ErrorList::new();
        let template = json!({"metadata": {"labels": {"a": "-"}}, "spec": {"restartPolicy": "Always",
            "dnsPolicy": "Default", "terminationGracePeriodSeconds": 1}});
        validate_template(&mut errors, &Path::root("spec").child("template"), &template);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["spec.template.labels", "spec.template.spec.containers"]);
        assert_eq!(lines(&errors)[1], "spec.template.spec.containers: Required value");
    }
}
