//! Warnings about services that are accepted.

use super::{kind, spec_of};
use crate::validation::address;
use machinery::field_path::quote;
use machinery::fields::{list, text, texts};
use machinery::{Object, Path};

pub(super) fn warnings(service: &Object) -> Vec<String> {
    const HINTS: &str = "service.kubernetes.io/topology-aware-hints";
    let spec = spec_of(service);
    let path = Path::root("spec");
    let mut warnings = Vec::new();
    if service.annotation(HINTS).is_some() {
        warnings.push(format!(
            "annotation {HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let is_headless = kind(spec) == "ClusterIP" && text(spec, "clusterIP") == "None";
    let external = list(spec, "externalIPs");
    if is_headless {
        for (field, is_set) in [
            ("loadBalancerIP", !text(spec, "loadBalancerIP").is_empty()),
            ("externalIPs", !external.is_empty()),
            ("SessionAffinity", text(spec, "sessionAffinity") != "None"),
        ] {
            if is_set {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    } else {
        warn_of_addresses(&mut warnings, &path.child("clusterIPs"), texts(spec, "clusterIPs"));
    }
    warn_of_addresses(&mut warnings, &path.child("externalIPs"), texts(spec, "externalIPs"));
    let is_external_name = kind(spec) == "ExternalName";
    if !external.is_empty() && !is_headless && !is_external_name {
        let warning =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(warning.to_owned());
    }
    let balancer = text(spec, "loadBalancerIP");
    warnings.extend(address::ip_warning(&path.child("loadBalancerIP"), balancer));
    let ranges = path.child("loadBalancerSourceRanges");
    for (index, range) in texts(spec, "loadBalancerSourceRanges").enumerate() {
        warnings.extend(address::cidr_warnings(&ranges.index(index), range));
    }
    if is_external_name && !external.is_empty() {
        let warning = r#"spec.externalIPs is ignored when spec.type is "ExternalName""#;
        warnings.push(warning.to_owned());
    }
    if !is_external_name && !text(spec, "externalName").is_empty() {
        let warning = r#"spec.externalName is ignored when spec.type is not "ExternalName""#;
        warnings.push(warning.to_owned());
    }
    if text(spec, "trafficDistribution") == "PreferClose" {
        let (old, new) = (quote("PreferClose"), quote("PreferSameZone"));
        warnings.push(format!("spec.trafficDistribution: {old} is deprecated; use {new}"));
    }
    warnings
}

fn warn_of_addresses<'a>(
    warnings: &mut Vec<String>,
    path: &Path<'_>,
    addresses: impl Iterator<Item = &'a str>,
) {
    for (index, address) in addresses.enumerate() {
        warnings.extend(address::ip_warning(&path.index(index), address));
    }
}
