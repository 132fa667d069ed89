//! `explain`: old kubectls read `/openapi/v2`, new ones `/openapi/v3`.

use crate::kubectl::manifests::VPC_CRD;
use crate::kubectl::{assert_lines, each};

#[test]
fn a_field_of_a_built_in_kind_is_explained() {
    each(|kubectl| {
        let field = kubectl.does("explain pod.spec.containers.image");
        assert_lines(&field, &["KIND: Pod", "VERSION: v1", "FIELD: image <string>"]);
        assert!(field.contains("Container image name."), "{field}");
    });
}

#[test]
fn all_fields_of_a_built_in_kind_are_listed() {
    each(|kubectl| {
        let all = kubectl.does("explain pods --recursive");
        assert_lines(&all, &["imagePullPolicy <string>", "nodeName <string>"]);
    });
}

#[test]
fn a_custom_kind_is_explained_with_its_descriptions() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let kind = kubectl.does("explain vpc");
        assert_lines(
            &kind,
            &[
                "KIND: Vpc",
                "A virtual private cloud.",
                "spec <Object> -required-",
                "What is wanted.",
            ],
        );
        let field = kubectl.does("explain vpc.spec.cidr");
        assert_lines(&field, &["FIELD: cidr <string>", "The range of addresses."]);
        let all = kubectl.does("explain vpc --recursive");
        assert_lines(&all, &["zones <[]Object>", "replicas <integer>", "phase <string>"]);
    });
}

#[test]
fn explaining_an_unknown_field_fails() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let error = kubectl.fails("explain vpc.spec.nothing");
        assert!(error.ends_with("error: field \"nothing\" does not exist"), "{error}");
    });
}
