//! `CSIDriver`: the capabilities of a volume driver.

use std::collections::HashSet;

use super::GROUP;
use crate::table;
use crate::validation::rules::{immutable, supported_only};
use machinery::fields::{
    boolean as bool_at, default_value, flag, integer, list, part, same, text, texts, top,
};
use machinery::{ErrorList, Object, Path, Value, json};
use types::columns::{AGE, NAME, age, boolean, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `CSIDriver`.
pub fn resource() -> Resource {
    let version = table::v1("storage/v1.CSIDriver", Columns::Fixed(COLUMNS, cells));
    Resource {
        namespaced: false,
        ..table::resource(GROUP, "CSIDriver", "csidrivers", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    defaults,
    prepare_update,
    validate,
    validate_update,
    unconditional_update: false,
    returns_deleted: true,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    boolean(
        "AttachRequired",
        "Whether a volume has to be attached to a node before it can be mounted there.",
    ),
    boolean(
        "PodInfoOnMount",
        "Whether the driver gets information about the pod for which it mounts a volume.",
    ),
    boolean(
        "StorageCapacity",
        "Whether the scheduler considers the storage capacity that the driver publishes.",
    ),
    column(
        "TokenRequests",
        "The audiences of the service account tokens that the driver gets for pods.",
    ),
    boolean("RequiresRepublish", "Whether the driver is called periodically for mounted volumes."),
    column("Modes", "The lifecycle modes of the driver's volumes: Persistent, Ephemeral or both."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let tokens = part(spec, "tokenRequests").map_or("<unset>".to_owned(), |_| {
        let audiences: Vec<&str> =
            list(spec, "tokenRequests").iter().map(|it| text(it, "audience")).collect();
        audiences.join(",")
    });
    let modes: Vec<&str> = texts(spec, "volumeLifecycleModes").collect();
    let modes = if modes.is_empty() { "<none>".to_owned() } else { modes.join(",") };
    vec![
        object.name().into(),
        bool_at(spec, "attachRequired").unwrap_or(true).into(),
        flag(spec, "podInfoOnMount").into(),
        flag(spec, "storageCapacity").into(),
        tokens.into(),
        flag(spec, "requiresRepublish").into(),
        modes.into(),
        age(object, now),
    ]
}

fn defaults(object: &mut Object) {
    let spec = object.map_at(&["spec"]);
    default_value(spec, "attachRequired", true.into());
    for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        default_value(spec, key, false.into());
    }
    default_value(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType".into());
    if spec.get("volumeLifecycleModes").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        spec.insert("volumeLifecycleModes".to_owned(), json!(["Persistent"]));
    }
}

/// As upstream: changes of the spec are counted, but the generation is not set at creation.
fn prepare_update(new: &mut Object, old: &Object) {
    if !same(top(new, "spec"), top(old, "spec")) {
        new.set_meta("generation", old.generation() + 1);
    }
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    let policies = &["File", "None", "ReadWriteOnceWithFSType"];
    supported_only(errors, &SPEC.child("fsGroupPolicy"), text(spec, "fsGroupPolicy"), policies);
    validate_tokens(errors, &SPEC.child("tokenRequests"), list(spec, "tokenRequests"));
    for mode in texts(spec, "volumeLifecycleModes") {
        let modes = &["Persistent", "Ephemeral"];
        supported_only(errors, &SPEC.child("volumeLifecycleModes"), mode, modes);
    }
    if let Some(period) = integer(spec, "nodeAllocatableUpdatePeriodSeconds").filter(|it| *it < 10)
    {
        let path = SPEC.child("nodeAllocatableUpdatePeriodSeconds");
        errors.invalid(&path, period, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = part(spec, "serviceAccountTokenInSecrets");
    if let Some(value) = in_secrets.filter(|_| list(spec, "tokenRequests").is_empty()) {
        let path = SPEC.child("serviceAccountTokenInSecrets");
        let message = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&path, value.clone(), message);
    }
}

fn validate_tokens(errors: &mut ErrorList, path: &Path<'_>, requests: &[Value]) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        let audience = text(request, "audience");
        if seen.contains(&audience) {
            errors.duplicate(&path.child("audience"), audience);
            continue;
        }
        seen.insert(audience);
        let message = match integer(request, "expirationSeconds") {
            Some(seconds) if seconds < 600 => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => continue,
        };
        let seconds = request["expirationSeconds"].clone();
        errors.invalid(&path.child("expirationSeconds"), seconds, message);
    }
}

fn validate_update(new: &Object, old: &Object, errors: &mut ErrorList) {
    validate(new, errors);
    // As upstream: the path of `attachRequired` is misspelled.
    for (field, shown) in
        [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
    {
        let value = |object| top(object, "spec").get(field).unwrap_or(&Value::Null);
        immutable(errors, &SPEC.child(shown), value(new), value(old));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{created, refusals_of_update};

    #[test]
    fn the_defaults_of_a_driver() {
        assert_eq!(
            created(&STRATEGY, json!({"spec": {"podInfoOnMount": true}})),
            json!({"spec": {"attachRequired": true, "podInfoOnMount": true, "storageCapacity": false,
                "requiresRepublish": false, "seLinuxMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "volumeLifecycleModes": ["Persistent"]}})
        );
    }

    #[test]
    fn attach_required_is_immutable() {
        assert_eq!(
            refusals_of_update(&STRATEGY, json!({"spec": {"attachRequired": false}}), json!({})),
            ["spec.attachedRequired: Invalid value: false: field is immutable"]
        );
    }
}
