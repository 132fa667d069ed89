//! The IP families of a service. The cluster has only IPv4; a headless service without a selector
//! may still have IPv6, since the user provides its endpoints.

use std::collections::HashSet;

use super::{kind, spec_of};
use crate::validation::address::{self, Stored};
use machinery::fields::{entries, list, list_mut, text, texts};
use machinery::{ErrorList, Map, Object, Path, Value, json};

static SPEC: Path<'static> = Path::root("spec");

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE: &str = "SingleStack";

fn is_headless_without_selector(spec: &Value) -> bool {
    text(spec, "clusterIP") == "None" && entries(spec, "selector").next().is_none()
}

fn family_of(address: &str) -> &'static str {
    if address::is_ipv6(address) { IPV6 } else { IPV4 }
}

/// Sets the default `ipFamilyPolicy` and, if the families are valid, `ipFamilies`.
pub(super) fn set_defaults(service: &mut Object, old: Option<&Object>) {
    if kind(spec_of(service)) == "ExternalName" || is_unchanged_prefer_dual_stack(service, old) {
        return;
    }
    let policy = match old.map(|old| text(spec_of(old), "ipFamilyPolicy")) {
        Some(policy) if !policy.is_empty() => policy.to_owned(),
        _ if is_headless_without_selector(spec_of(service)) => "RequireDualStack".to_owned(),
        _ => SINGLE.to_owned(),
    };
    machinery::fields::default_value(service.map_at(&["spec"]), "ipFamilyPolicy", policy.into());
    if let Some(old) = old {
        drop_second_family(service, old);
    }
    let mut errors = ErrorList::new();
    validate(service, old, &mut errors);
    if !errors.is_empty() {
        return;
    }
    let spec = spec_of(service);
    let mut families: Vec<&str> = texts(spec, "ipFamilies").collect();
    let addresses = texts(spec, "clusterIPs").take_while(|address| *address != "None");
    for address in addresses.skip(families.len()) {
        families.push(family_of(address));
    }
    if families.is_empty() {
        families.push(IPV4);
    }
    if is_headless_without_selector(spec)
        && families.len() == 1
        && text(spec, "ipFamilyPolicy") != SINGLE
    {
        families.push(if families[0] == IPV4 { IPV6 } else { IPV4 });
    }
    let families = json!(families);
    service.map_at(&["spec"]).insert("ipFamilies".to_owned(), families);
}

/// Whether an update does not change the families or addresses of a service that prefers dual
/// stack. Such an update is neither defaulted nor validated.
fn is_unchanged_prefer_dual_stack(service: &Object, old: Option<&Object>) -> bool {
    let Some(old) = old else { return false };
    let (new, old) = (spec_of(service), spec_of(old));
    let fields = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"];
    text(new, "ipFamilyPolicy") == "PreferDualStack"
        && kind(new) == kind(old)
        && fields.iter().all(|field| new.get(field) == old.get(field))
}

/// A change of the policy to `SingleStack` alone drops the second family and address.
fn drop_second_family(service: &mut Object, old: &Object) {
    let spec = service.map_at(&["spec"]);
    if spec.get("ipFamilyPolicy").is_none_or(|policy| policy != SINGLE) {
        return;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if spec.get(field) == spec_of(old).get(field) && list_length(spec, field) > 1 {
            list_mut(spec, field).truncate(1);
        }
    }
}

fn list_length(map: &Map<String, Value>, key: &str) -> usize {
    map.get(key).and_then(Value::as_array).map_or(0, Vec::len)
}

/// Validates IP families and cluster IPs. Kubernetes does so before all other validation, and stops
/// if there are errors.
pub(super) fn validate(service: &Object, old: Option<&Object>, errors: &mut ErrorList) {
    let spec = spec_of(service);
    if kind(spec) == "ExternalName" || is_unchanged_prefer_dual_stack(service, old) {
        return;
    }
    let before = errors.len();
    validate_related_fields(service, old, errors);
    if errors.len() > before {
        return;
    }
    let policy = text(spec, "ipFamilyPolicy");
    let path = SPEC.child("ipFamilyPolicy");
    let mut refuse = |message: &str| errors.invalid(&path, policy, message);
    let count = |spec, field| list(spec, field).len();
    if policy == SINGLE || policy.is_empty() {
        if count(spec, "clusterIPs") == 2 {
            refuse(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
            );
        }
        if count(spec, "ipFamilies") == 2 {
            refuse(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
            );
        }
    } else if let Some(old) = old.map(spec_of) {
        let reduced = |field| count(old, field) == 2 && count(spec, field) == 1;
        if reduced("clusterIPs") {
            refuse("must be 'SingleStack' to release the secondary cluster IP");
        }
        if reduced("ipFamilies") {
            refuse("must be 'SingleStack' to release the secondary IP family");
        }
    }
    let families = list(spec, "ipFamilies").len();
    for (index, address) in texts(spec, "clusterIPs").enumerate().skip(families) {
        if address != "None" && family_of(address) == IPV6 {
            let shown = json!(texts(spec, "clusterIPs").collect::<Vec<&str>>());
            let path = SPEC.child("clusterIPs");
            errors.invalid(&path.index(index), shown, "IPv6 is not configured on this cluster");
        }
    }
    if errors.len() == before && !is_headless_without_selector(spec) {
        validate_single_stack_cluster(spec, errors);
    }
}

/// The rules of a cluster that has only IPv4.
fn validate_single_stack_cluster(spec: &Value, errors: &mut ErrorList) {
    let policy = text(spec, "ipFamilyPolicy");
    if policy == "RequireDualStack" {
        let message = "this cluster is not configured for dual-stack services";
        errors.invalid(&SPEC.child("ipFamilyPolicy"), policy, message);
    }
    let path = SPEC.child("ipFamilies");
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        if family != IPV4 {
            errors.invalid(&path.index(index), family, "not configured on this cluster");
        }
    }
}

/// The rules that hold on every cluster.
pub(super) fn validate_related_fields(
    service: &Object,
    old: Option<&Object>,
    errors: &mut ErrorList,
) {
    let spec = spec_of(service);
    if kind(spec) == "ExternalName" {
        return;
    }
    let addresses: Vec<&str> = texts(spec, "clusterIPs").collect();
    let path = SPEC.child("clusterIPs");
    match (text(spec, "clusterIP"), addresses.first()) {
        ("", Some(_)) => {
            let message = "must be empty when `clusterIP` is not specified";
            errors.invalid(&path, json!(addresses), message);
        }
        ("", None) => {}
        (_, None) => errors.required(&path, ""),
        (single, Some(first)) if single != *first => {
            errors.invalid(&path, json!(addresses), "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(spec, errors);
    let stored: Stored<'_> =
        old.map(|old| texts(spec_of(old), "clusterIPs").collect()).unwrap_or_default();
    if validate_addresses(&addresses, &stored, errors) {
        validate_pairs(spec, &addresses, errors);
    }
}

fn validate_families(spec: &Value, errors: &mut ErrorList) {
    let path = SPEC.child("ipFamilies");
    let mut seen = HashSet::new();
    for (index, family) in texts(spec, "ipFamilies").enumerate() {
        if !matches!(family, IPV4 | IPV6) {
            errors.not_supported(&path.index(index), family, &[IPV4, IPV6]);
        }
        if seen.contains(&family) {
            errors.duplicate(&path.index(index), family);
        }
        seen.insert(family);
    }
    let policy = text(spec, "ipFamilyPolicy");
    let policies = ["PreferDualStack", "RequireDualStack", SINGLE];
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(&SPEC.child("ipFamilyPolicy"), policy, &policies);
    }
}

/// Returns false if an address is malformed, so that the addresses cannot be compared.
fn validate_addresses(addresses: &[&str], stored: &Stored<'_>, errors: &mut ErrorList) -> bool {
    let path = SPEC.child("clusterIPs");
    let before = errors.len();
    for (index, address) in addresses.iter().enumerate() {
        if index > 0 || *address != "None" {
            address::ip(errors, &path.index(index), address, stored);
        } else if addresses.len() > 1 {
            let message = "'None' must be the first and only value";
            errors.invalid(&path, json!(addresses), message);
        }
    }
    let are_well_formed = errors.len() == before;
    if addresses.len() > 2 {
        errors.invalid(&path, json!(addresses), "may only hold up to 2 values");
    }
    are_well_formed
}

fn validate_pairs(spec: &Value, addresses: &[&str], errors: &mut ErrorList) {
    let path = SPEC.child("clusterIPs");
    if addresses.len() > 1 && !address::is_dual_stack(addresses) {
        let message = "may specify no more than one IP for each IP family";
        errors.invalid(&path, json!(addresses), message);
    }
    for (index, (address, family)) in addresses.iter().zip(texts(spec, "ipFamilies")).enumerate() {
        let is_known = matches!(family, IPV4 | IPV6) && *address != "None";
        if is_known && family_of(address) != family {
            let message =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&path.index(index), *address, &message);
        }
    }
}
