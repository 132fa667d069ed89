//! Discovery: api-resources, api-versions, cluster-info, version.

use crate::kubectl::manifests::VPC_CRD;
use crate::kubectl::{assert_lines, each};

#[test]
fn api_resources_lists_built_in_and_custom_kinds() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        assert_lines(
            &kubectl.does("api-resources"),
            &[
                "NAME SHORTNAMES APIVERSION NAMESPACED KIND",
                "configmaps cm v1 true ConfigMap",
                "nodes no v1 false Node",
                "customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition",
                "leases coordination.k8s.io/v1 true Lease",
                "vpcs vp sampan.example.com/v1 true Vpc",
            ],
        );
    });
}

#[test]
fn api_resources_can_be_narrowed() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let custom = kubectl.does("api-resources --api-group=sampan.example.com -o name");
        assert_eq!(custom, "vpcs.sampan.example.com\n");
        let wide = kubectl.does("api-resources --api-group=sampan.example.com -o wide");
        for verb in
            ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        {
            assert!(wide.contains(verb), "{verb} is not in {wide}");
        }
        let cluster = kubectl.does("api-resources --namespaced=false -o name");
        assert!(cluster.lines().any(|it| it == "nodes"), "{cluster}");
        assert!(!cluster.lines().any(|it| it == "pods"), "{cluster}");
    });
}

#[test]
fn api_versions_follow_a_crd() {
    each(|kubectl| {
        let versions = || kubectl.does("api-versions");
        assert!(versions().lines().any(|it| it == "v1"));
        assert!(!versions().contains("sampan.example.com"));
        kubectl.does_with("create -f -", VPC_CRD);
        assert!(versions().lines().any(|it| it == "sampan.example.com/v1"));
        kubectl.does("delete crd vpcs.sampan.example.com");
        assert!(!versions().contains("sampan.example.com"));
    });
}

#[test]
fn cluster_info_prints_the_address_of_the_plane() {
    each(|kubectl| {
        let output = kubectl.does("cluster-info");
        assert!(output.contains("Kubernetes control plane"), "{output}");
        assert!(output.contains(&kubectl.plane.as_ref().unwrap().url), "{output}");
    });
}

#[test]
fn version_prints_the_level_of_the_api() {
    each(|kubectl| {
        let output: serde_json::Value =
            serde_json::from_str(&kubectl.does("version -o json")).unwrap();
        let server = &output["serverVersion"];
        assert_eq!((&server["major"], &server["minor"]), (&"1".into(), &"35".into()), "{output}");
        assert!(server["gitVersion"].as_str().unwrap().starts_with("v1.35.0"), "{output}");
        assert_eq!(server["platform"], output["clientVersion"]["platform"], "{output}");
    });
}

#[test]
fn health_is_served_outside_of_resources() {
    each(|kubectl| {
        assert_eq!(kubectl.does("get --raw /healthz"), "ok");
        assert!(kubectl.does("get --raw /readyz?verbose").ends_with("readyz check passed\n"));
    });
}
