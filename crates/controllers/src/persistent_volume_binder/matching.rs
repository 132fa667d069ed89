//! Which volumes satisfy a claim.
// Upstream: component-helpers/storage/volume/pv_helpers.go FindMatchingVolume

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use super::{AVAILABLE_CLASS_INDEX, CLAIM_INDEX, Volume, class_of_claim, class_of_volume};
use crate::label_selector;
use machinery::quantity::Quantity;
use runtime::{Failure, Lister};

type Amounts = std::collections::BTreeMap<String, QuantityText>;

/// The amount of storage; 0 if there is none.
pub(super) fn storage(amounts: Option<&Amounts>) -> Quantity {
    let text = amounts.and_then(|amounts| amounts.get("storage"));
    text.and_then(|text| Quantity::parse(&text.0).ok()).unwrap_or_else(Quantity::zero)
}

/// The size that a claim requests.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    storage(resources.and_then(|resources| resources.requests.as_ref()))
}

/// The size of a volume.
pub(super) fn capacity(volume: &PersistentVolume) -> Quantity {
    storage(volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()))
}

/// Whether a volume names this claim. The uid may be missing if a user has chosen the claim.
pub(super) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        reference.name == claim.metadata.name
            && reference.namespace == claim.metadata.namespace
            && reference
                .uid
                .as_ref()
                .is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// Whether the volume modes differ.
pub(super) fn has_other_mode(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |mode: Option<&String>| mode.map_or("Filesystem", String::as_str).to_owned();
    let of_claim = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref());
    mode(volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_ref())) != mode(of_claim)
}

fn allows_access(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let offered = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref());
    let offered = offered.unwrap_or_default();
    let wanted = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref());
    wanted.unwrap_or_default().iter().all(|mode| offered.contains(mode))
}

fn has_other_attributes(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let of_claim = claim.spec.as_ref().and_then(|it| it.volume_attributes_class_name.as_deref());
    let of_volume = volume.spec.as_ref().and_then(|it| it.volume_attributes_class_name.as_deref());
    of_claim.unwrap_or_default() != of_volume.unwrap_or_default()
}

/// Why a volume does not satisfy a claim that names it.
pub(super) fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<String> {
    let name = volume.metadata.name.as_deref().unwrap_or_default();
    if volume.metadata.deletion_timestamp.is_some() {
        return Some(format!("the volume is marked for deletion {name:?}"));
    }
    let why = if capacity(volume) < requested(claim) {
        "requested PV is too small"
    } else if class_of_volume(volume) != class_of_claim(claim) {
        "storageClassName does not match"
    } else if has_other_attributes(volume, claim) {
        "volumeAttributesClassName does not match"
    } else if has_other_mode(volume, claim) {
        "incompatible volumeMode"
    } else if !allows_access(volume, claim) {
        "incompatible accessMode"
    } else {
        return None;
    };
    Some(why.to_owned())
}

/// The volume that names the claim, or the smallest that satisfies it. If the class binds late, the
/// scheduler chooses among the latter.
pub(super) fn best_match(
    volumes: &Lister<Volume>,
    claim: &PersistentVolumeClaim,
    is_delayed: bool,
) -> Result<Option<Volume>, Failure> {
    let (metadata, requested) = (&claim.metadata, requested(claim));
    let key = format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    let fits = |volume: &PersistentVolume| {
        volume.metadata.deletion_timestamp.is_none()
            && !has_other_mode(volume, claim)
            && !has_other_attributes(volume, claim)
            && capacity(volume) >= requested
    };
    let named = volumes.by_index(CLAIM_INDEX, &key)?.objects;
    if let Some(volume) = named.into_iter().find(|it| is_bound_to(it, claim) && fits(it)) {
        return Ok(Some(volume));
    }
    if is_delayed {
        return Ok(None);
    }
    let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let selector = match selector {
        Some(selector) => Some(label_selector::parse(Some(selector)).map_err(Failure::permanent)?),
        None => None,
    };
    let is_selected = |volume: &PersistentVolume| {
        let labels = volume.metadata.labels.as_ref();
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        selector.as_ref().is_none_or(|selector| selector.matches(label))
    };
    let is_available = |volume: &PersistentVolume| {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        phase == Some("Available")
    };
    let all = volumes.by_index(AVAILABLE_CLASS_INDEX, class_of_claim(claim))?.objects;
    let fitting = all.into_iter().filter(|volume| {
        fits(volume) && is_available(volume) && is_selected(volume) && allows_access(volume, claim)
    });
    Ok(fitting.min_by_key(|volume| capacity(volume)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(volume: &Value, claim: &Value, expected: Option<&str>) {
        let volume = serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": volume}));
        let claim = serde_json::from_value(json!({"metadata": {"name": "c"}, "spec": claim}));
        let found = mismatch(&volume.unwrap(), &claim.unwrap());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_volume_must_satisfy_each_part_of_a_claim() {
        let volume = json!({"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast"});
        let claim = |size: &str, class: &str, access: &str, mode: &str| {
            json!({"resources": {"requests": {"storage": size}}, "storageClassName": class,
                "accessModes": [access], "volumeMode": mode})
        };
        check(&volume, &claim("1Gi", "fast", "ReadWriteOnce", "Filesystem"), None);
        let too_small = Some("requested PV is too small");
        check(&volume, &claim("3Gi", "fast", "ReadWriteOnce", "Filesystem"), too_small);
        let class = Some("storageClassName does not match");
        check(&volume, &claim("1Gi", "slow", "ReadWriteOnce", "Filesystem"), class);
        let mode = Some("incompatible volumeMode");
        check(&volume, &claim("1Gi", "fast", "ReadWriteOnce", "Block"), mode);
        let access = Some("incompatible accessMode");
        check(&volume, &claim("1Gi", "fast", "ReadWriteMany", "Filesystem"), access);
    }
}
