//! `create`: from manifests and from arguments, dry runs and errors.

use crate::kubectl::manifests::{CONFIG_MAP, POD, VPC, VPC_CRD, VPC_WITH_A_COLOR};
use crate::kubectl::{each, each_before, each_since, table};

#[test]
fn objects_are_created_from_manifests_and_images() {
    each(|kubectl| {
        let created = kubectl.does_with("create -f -", &format!("{CONFIG_MAP}---{POD}"));
        assert_eq!(created, "configmap/settings created\npod/web created\n");
        assert_eq!(kubectl.does("run web-2 --image=nginx"), "pod/web-2 created\n");
        kubectl.does_with("create -f -", VPC_CRD);
        assert_eq!(
            kubectl.does_with("create -f -", VPC),
            "vpc.sampan.example.com/one created\n",
            "a custom resource can be created immediately after its CRD"
        );
    });
}

/// Newer kubectls send these objects as protobuf, older ones as JSON.
#[test]
fn objects_are_created_from_arguments() {
    each(|kubectl| {
        for (line, printed) in [
            ("create configmap settings --from-literal=color=red", "configmap/settings created\n"),
            ("create secret generic login --from-literal=name=me", "secret/login created\n"),
            ("create serviceaccount robot", "serviceaccount/robot created\n"),
            ("create service clusterip web --tcp=80:8080", "service/web created\n"),
            ("create namespace staging", "namespace/staging created\n"),
        ] {
            assert_eq!(kubectl.does(line), printed);
        }
        assert_eq!(kubectl.does("get cm settings -o jsonpath={.data.color}"), "red");
        assert_eq!(kubectl.does("get secret login -o jsonpath={.data.name}"), "bWU=");
        assert_eq!(
            table(&kubectl.does("get secret,sa")),
            "NAME TYPE DATA AGE\nsecret/login Opaque 1 *\n\nNAME AGE\nserviceaccount/robot *"
        );
        assert_eq!(kubectl.does("get svc web -o jsonpath={.spec.ports[*].targetPort}"), "8080");
    });
}

#[test]
fn a_dry_run_create_stores_nothing() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let server = kubectl.does_with("create --dry-run=server -f -", VPC);
        assert_eq!(server, "vpc.sampan.example.com/one created (server dry run)\n");
        let server = kubectl.does_with("create --dry-run=server -o yaml -f -", VPC);
        assert!(server.contains("uid:") && server.contains("replicas: 1"), "{server}");
        let server = kubectl.does("create configmap a --from-literal=k=v --dry-run=server -o yaml");
        assert!(server.contains("k: v") && server.contains("uid:"), "{server}");
        let client = kubectl.does_with("create --dry-run=client -f -", VPC);
        assert_eq!(client, "vpc.sampan.example.com/one created (dry run)\n");
        let client = kubectl.does("create configmap a --from-literal=k=v --dry-run=client -o yaml");
        assert!(client.contains("k: v") && !client.contains("uid:"), "{client}");
        assert_eq!(kubectl.does("get vpcs,configmaps -o name"), "");
    });
}

#[test]
fn creating_an_existing_object_fails() {
    each(|kubectl| {
        kubectl.does_with("create -f -", &format!("{VPC_CRD}---{CONFIG_MAP}"));
        kubectl.does_with("create -f -", VPC);
        assert_eq!(
            kubectl.fails_with("create -f -", CONFIG_MAP),
            "Error from server (AlreadyExists): error when creating \"STDIN\": configmaps \"settings\" already exists"
        );
        assert_eq!(
            kubectl.fails_with("create -f -", VPC),
            "Error from server (AlreadyExists): error when creating \"STDIN\": vpcs.sampan.example.com \"one\" already exists"
        );
        assert_eq!(
            kubectl.fails_with("create --dry-run=server -f -", VPC),
            "Error from server (AlreadyExists): error when creating \"STDIN\": vpcs.sampan.example.com \"one\" already exists"
        );
    });
}

#[test]
fn all_errors_of_an_invalid_object_are_reported() {
    let vpc = VPC.replace("10.0.0.0/8", "nonsense, replicas: 100");
    let pod = POD.replace("name: web, labels", "name: Bad_Name, labels");
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        assert_eq!(
            kubectl.fails_with("create -f -", &vpc),
            "The Vpc \"one\" is invalid: \n\
             * spec.cidr: Invalid value: \"nonsense\": spec.cidr in body should match '^[0-9./]+$'\n\
             * spec.replicas: Invalid value: 100: spec.replicas in body should be less than or equal to 10"
        );
        let error = kubectl.fails_with("create -f -", &pod);
        let expected = "The Pod \"Bad_Name\" is invalid: metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain must consist of";
        assert!(error.starts_with(expected), "{error}");
    });
}

#[test]
fn the_server_generates_names() {
    let manifest = CONFIG_MAP.replace("name: settings", "generateName: settings-");
    each(|kubectl| {
        let names = [(); 2].map(|()| kubectl.does_with("create -o name -f -", &manifest));
        assert!(names.iter().all(|it| it.starts_with("configmap/settings-")), "{names:?}");
        assert_ne!(names[0], names[1]);
    });
}

#[test]
fn a_new_kubectl_lets_the_server_refuse_unknown_fields() {
    each_since(25, |kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        assert_eq!(
            kubectl.fails_with("create --validate=strict -f -", VPC_WITH_A_COLOR),
            "Error from server (BadRequest): error when creating \"STDIN\": Vpc in version \"v1\" cannot be handled as a Vpc: strict decoding error: unknown field \"spec.color\""
        );
        let typo = CONFIG_MAP.replace("\ndata:", "\ndaat:");
        assert_eq!(
            kubectl.fails_with("create --validate=strict -f -", &typo),
            "Error from server (BadRequest): error when creating \"STDIN\": ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"daat\""
        );
        let outcome = kubectl.outcome("create --validate=warn -f -", VPC_WITH_A_COLOR);
        assert!(outcome.stderr.contains("Warning: unknown field \"spec.color\""), "{outcome:?}");
        assert_eq!(outcome.stdout, "vpc.sampan.example.com/colored created\n");
    });
}

/// The check is local, by the schemas in `/openapi/v2`.
#[test]
fn an_old_kubectl_refuses_unknown_fields_itself() {
    each_before(25, |kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        let error = kubectl.fails_with("create -f -", VPC_WITH_A_COLOR);
        let expected =
            "ValidationError(Vpc.spec): unknown field \"color\" in com.example.sampan.v1.Vpc.spec";
        assert!(error.contains(expected), "{error}");
        let error = kubectl.fails_with("create -f -", &CONFIG_MAP.replace("\ndata:", "\ndaat:"));
        let expected =
            "ValidationError(ConfigMap): unknown field \"daat\" in io.k8s.api.core.v1.ConfigMap";
        assert!(error.contains(expected), "{error}");
    });
}

#[test]
fn unknown_fields_are_pruned_without_validation() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        kubectl.does_with("create --validate=false -f -", VPC_WITH_A_COLOR);
        assert_eq!(
            kubectl.does("get vpc colored -o jsonpath={.spec}"),
            r#"{"cidr":"10.0.0.0/8","replicas":1}"#
        );
    });
}

#[test]
fn an_unknown_kind_cannot_be_created() {
    each(|kubectl| {
        let error = kubectl.fails_with("create -f -", VPC);
        assert!(
            error.contains("no matches for kind \"Vpc\" in version \"sampan.example.com/v1\""),
            "{error}"
        );
    });
}
