//! `ServiceAccount`: the identity of pods.

use crate::table;
use machinery::fields::maps_mut;
use machinery::{Object, Value};
use types::columns::{AGE, NAME, age};
use types::resource::{Action, Column, Columns, Now, Resource, Strategy, Subresource};

/// The resource of the kind `ServiceAccount`.
pub fn resource() -> Resource {
    let version = table::v1("core/v1.ServiceAccount", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["sa".to_owned()],
        ..table::resource("", "ServiceAccount", "serviceaccounts", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: keep_names_of_secrets,
    prepare_update: |new, _| keep_names_of_secrets(new),
    warnings,
    returns_deleted: true,
    subresources: &[Subresource {
        name: "token",
        group: "authentication.k8s.io",
        version: "v1",
        kind: "TokenRequest",
        action: Action::Token,
    }],
    ..Strategy::DEFAULT
};

const COLUMNS: &[Column] = &[NAME, AGE];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    vec![object.name().into(), age(object, now)]
}

/// Drops all fields of a reference to a secret but its name: the secret is in the same namespace.
fn keep_names_of_secrets(object: &mut Object) {
    for secret in maps_mut(object.map_mut(), "secrets") {
        secret.retain(|key, _| key == "name");
    }
}

fn warnings(object: &Object) -> Vec<String> {
    const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";
    object
        .annotation(ENFORCE)
        .map(|_| {
            format!(
                "metadata.annotations[{ENFORCE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            )
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::created;
    use machinery::json;

    #[test]
    fn references_to_secrets_keep_only_the_name() {
        assert_eq!(
            created(
                &STRATEGY,
                json!({"secrets": [{"name": "s", "namespace": "other", "kind": "X"}]})
            ),
            json!({"secrets": [{"name": "s"}]})
        );
    }
}
