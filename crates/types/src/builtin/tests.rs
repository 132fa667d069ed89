//! The table is complete and correct.

use super::*;

/// A field by its path from a type; the path goes through the elements of lists and maps.
fn at(ty: &str, path: &str) -> &'static Field {
    let mut ty = find(ty).unwrap();
    let mut steps = path.split('.').peekable();
    while let Some(step) = steps.next() {
        let field = ty.field(step).unwrap_or_else(|| panic!("{} has no {step}", ty.name()));
        if steps.peek().is_none() {
            return field;
        }
        ty = field.message().unwrap();
    }
    panic!("an empty path");
}

#[test]
fn every_type_is_found_by_its_name() {
    for ty in all() {
        assert!(std::ptr::eq(find(ty.name()).unwrap(), ty), "{}", ty.name());
    }
    assert!(find("core/v1.Nothing").is_none());
    assert!(find("Pod").is_none());
}

#[test]
fn every_field_is_found_by_its_name_and_field_numbers_are_unique() {
    for ty in all() {
        for field in ty.fields() {
            assert!(std::ptr::eq(ty.field(field.json()).unwrap(), field), "{}", ty.name());
        }
        let numbers: Vec<u16> = ty.wire().iter().map(|field| field.number).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{}: {numbers:?}", ty.name());
    }
}

#[test]
fn json_and_protobuf_have_the_same_fields() {
    fn count(ty: &Type) -> usize {
        ty.wire().iter().map(|it| if it.inline { count(it.message().unwrap()) } else { 1 }).sum()
    }
    for ty in all() {
        let type_meta = if ty.is_kind { 2 } else { 0 };
        assert_eq!(ty.fields().len(), count(ty) + type_meta, "{}", ty.name());
    }
}

#[test]
fn the_keys_of_lists_are_fields_of_their_elements() {
    for ty in all() {
        for field in ty.fields() {
            let keys = field.keys().chain(field.merge_key().filter(|_| field.merge));
            for (key, element) in keys.zip(std::iter::repeat(field.message())) {
                let known = element.is_some_and(|element| element.field(key).is_some());
                assert!(known, "{}.{} has the key {key}", ty.name(), field.json());
            }
            assert_eq!(field.list == ListType::Map, field.keys().len() > 0, "{}", ty.name());
        }
    }
}

#[test]
fn defaults_are_json() {
    for field in all().iter().flat_map(Type::fields) {
        if let Some(default) = field.default() {
            serde_json::from_str::<serde_json::Value>(default).unwrap();
        }
    }
    assert_eq!(at("core/v1.Container", "ports.protocol").default(), Some("\"TCP\""));
}

#[test]
fn the_table_is_about_as_large_as_the_api() {
    let fields: usize = all().iter().map(|ty| ty.wire().len()).sum();
    assert!((850..1000).contains(&all().len()), "{} types", all().len());
    assert!((3000..3600).contains(&fields), "{fields} fields");
    let statics = size_of_val(&TYPES) + size_of_val(&FIELDS) + size_of_val(&BY_NAME) + TEXT.len();
    assert!(statics < 512 * 1024, "{statics} bytes");
}

#[test]
fn a_container_is_described_as_upstream_does() {
    let env = at("core/v1.Pod", "spec.containers.env");
    assert_eq!((env.number, env.container, env.list), (7, Container::List, ListType::Map));
    assert_eq!((env.merge, env.merge_key()), (true, Some("name")));
    let ports = at("core/v1.Pod", "spec.containers.ports");
    assert_eq!(ports.keys().collect::<Vec<_>>(), ["containerPort", "protocol"]);
    assert_eq!(ports.merge_key(), Some("containerPort"));
    let limits = at("core/v1.Container", "resources.limits");
    assert_eq!((limits.container, limits.item), (Container::Map, Item::Quantity));
    let volumes = at("core/v1.PodSpec", "volumes");
    assert!(volumes.merge && volumes.retain_keys);
    assert!(at("core/v1.PodSpec", "containers").required);
    assert_eq!(at("core/v1.PodSpec", "containers").number, 2);
}

#[test]
fn a_service_is_described_as_upstream_does() {
    let ports = at("core/v1.Service", "spec.ports");
    assert_eq!(ports.keys().collect::<Vec<_>>(), ["port", "protocol"]);
    assert_eq!(ports.merge_key(), Some("port"));
    assert_eq!(at("core/v1.Service", "spec.ports.targetPort").item, Item::IntOrString);
    assert_eq!(at("core/v1.Service", "spec.clusterIPs").list, ListType::Atomic);
    assert!(at("core/v1.Service", "spec.selector").atomic);
}

#[test]
fn list_types_atomic_types_and_unions_are_marked() {
    assert_eq!(at("meta/v1.ObjectMeta", "finalizers").list, ListType::Set);
    assert_eq!(at("meta/v1.ObjectMeta", "ownerReferences").merge_key(), Some("uid"));
    assert!(find("meta/v1.LabelSelector").unwrap().atomic);
    assert!(at("apps/v1.Deployment", "spec.selector").atomic);
    assert!(!at("core/v1.PersistentVolume", "spec.claimRef").atomic);
    assert!(find("core/v1.SeccompProfile").unwrap().union);
    assert!(at("core/v1.SeccompProfile", "type").discriminator);
    assert!(at("coordination/v1.Lease", "spec.renewTime").item == Item::MicroTime);
}

#[test]
fn inlined_messages_are_flat_in_json_and_nested_in_protobuf() {
    let volume = find("core/v1.Volume").unwrap();
    assert_eq!(
        volume.field("emptyDir").unwrap().message().unwrap().name(),
        "core/v1.EmptyDirVolumeSource"
    );
    let source = &volume.wire()[1];
    assert!(source.inline && source.number == 2);
    assert_eq!(source.message().unwrap().name(), "core/v1.VolumeSource");
    assert!(volume.field("volumeSource").is_none());
    let probe = find("core/v1.Probe").unwrap();
    assert!(probe.wire()[0].inline && probe.field("httpGet").is_some());
    let rule = find("admissionregistration/v1.NamedRuleWithOperations").unwrap();
    assert!(rule.field("apiGroups").is_some() && rule.field("operations").is_some());
}

#[test]
fn kinds_are_found_by_their_api_version() {
    for (version, kind, name) in [
        ("v1", "Pod", "core/v1.Pod"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole", "rbac/v1.ClusterRole"),
        (
            "apiextensions.k8s.io/v1beta1",
            "CustomResourceDefinition",
            "apiextensions/v1beta1.CustomResourceDefinition",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingAdmissionPolicy",
            "admissionregistration/v1.MutatingAdmissionPolicy",
        ),
        ("v1", "PodList", "core/v1.PodList"),
    ] {
        assert_eq!(of_kind(version, kind).map(Type::name), Some(name));
    }
    assert!(of_kind("v1", "PodSpec").is_none(), "it has no kind");
    assert!(of_kind("apps/v1", "Pod").is_none());
    let crd = find("apiextensions/v1.CustomResourceDefinition").unwrap();
    assert_eq!(
        crd.openapi_name(),
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    );
}

#[test]
fn the_table_has_the_output_of_go_for_unset_fields() {
    for (ty, path, emit) in [
        ("core/v1.Pod", "status", Emit::Always),
        ("core/v1.Container", "resources", Emit::Always),
        ("core/v1.Event", "eventTime", Emit::Always),
        ("core/v1.Event", "count", Emit::OmitZero),
        ("apps/v1.DeploymentSpec", "replicas", Emit::Pointer),
        ("apps/v1.DeploymentSpec", "selector", Emit::Null),
        ("apiextensions/v1.CustomResourceDefinitionStatus", "conditions", Emit::Null),
        ("rbac/v1.Role", "rules", Emit::Null),
        ("meta/v1.ObjectMeta", "creationTimestamp", Emit::OmitZero),
    ] {
        assert_eq!(at(ty, path).emit, emit, "{ty} {path}");
    }
}
