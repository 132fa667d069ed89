//! `IPAddress`: the owner of a cluster IP.

use super::GROUP;
use crate::table;
use crate::validation::address;
use crate::validation::rules::{add_invalid, dns_subdomain, immutable_struct, required_segment};
use machinery::fields::{part, text, top};
use machinery::{ErrorList, GroupResource, Object, Path, Value, names};
use types::columns::{AGE, NAME, age, column};
use types::resource::{Column, Columns, Now, Resource, Strategy};

/// The resource of the kind `IPAddress`.
pub fn resource() -> Resource {
    let version = table::v1("networking/v1.IPAddress", Columns::Fixed(COLUMNS, cells));
    Resource {
        short_names: vec!["ip".to_owned()],
        namespaced: false,
        ..table::resource(GROUP, "IPAddress", "ipaddresses", &STRATEGY, version)
    }
}

static STRATEGY: Strategy = Strategy {
    validate,
    validate_update: |new, old, errors| {
        let parent = |object| top(object, "spec").get("parentRef").unwrap_or(&Value::Null);
        let path = SPEC.child("parentRef");
        immutable_struct(errors, &path, "ParentReference", parent(new), parent(old));
    },
    validate_name: address::canonical_ip,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    column("ParentRef", "The object to which the address belongs, as resource/namespace/name."),
    AGE,
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let parent = part(top(object, "spec"), "parentRef").map_or("<none>".to_owned(), |it| {
        let resource = GroupResource::new(text(it, "group"), text(it, "resource")).to_string();
        let parts = [&resource.to_lowercase(), text(it, "namespace"), text(it, "name")];
        parts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("/")
    });
    vec![object.name().into(), parent.into(), age(object, now)]
}

fn validate(object: &Object, errors: &mut ErrorList) {
    let path = SPEC.child("parentRef");
    let Some(parent) = part(top(object, "spec"), "parentRef") else {
        return errors.required(&path, "");
    };
    let (group, namespace) = (text(parent, "group"), text(parent, "namespace"));
    if !group.is_empty() {
        dns_subdomain(errors, &path.child("group"), group);
    }
    required_segment(errors, &path.child("resource"), text(parent, "resource"));
    required_segment(errors, &path.child("name"), text(parent, "name"));
    add_invalid(errors, &path.child("namespace"), namespace, names::path_segment(namespace));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{object, refusals};
    use machinery::json;

    #[test]
    fn a_parent_with_resource_and_name_is_required() {
        assert_eq!(refusals(&STRATEGY, json!({})), ["spec.parentRef: Required value"]);
        assert_eq!(
            refusals(&STRATEGY, json!({"spec": {"parentRef": {"resource": "services"}}})),
            ["spec.parentRef.name: Required value"]
        );
    }

    #[test]
    fn the_table_shows_the_parent() {
        let address = object(json!({"metadata": {"name": "10.0.0.1"},
            "spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}}));
        let cells = cells(&address, &Now { unix_seconds: 0 });
        assert_eq!(cells[..2], [json!("10.0.0.1"), json!("services/n/s")]);
    }
}
