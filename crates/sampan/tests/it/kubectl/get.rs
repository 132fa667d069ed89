//! `get`: output formats, selectors and errors.

use crate::kubectl::manifests::{CONFIG_MAP, NAMESPACE, NODE, POD, SERVICE, VPC, VPC_CRD};
use crate::kubectl::session::Kubectl;
use crate::kubectl::{assert_lines, each, table};

/// Two custom resources and two of a built-in kind.
fn prepare(kubectl: &Kubectl) {
    kubectl.does_with("create -f -", VPC_CRD);
    let second = VPC.replace("one", "two").replace("front", "back").replace("10.0.0.0", "11.0.0.0");
    kubectl.does_with("create -f -", &format!("{VPC}---{second}"));
    let other = CONFIG_MAP.replace("settings", "a-first").replace("app: web", "app: db");
    kubectl.does_with("create -f -", &format!("{CONFIG_MAP}---{other}"));
}

#[test]
fn tables_have_the_columns_of_their_kind() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does_with("create -f -", &format!("{NODE}---{POD}---{SERVICE}"));
        for (line, printed) in [
            ("get vp", "NAME CIDR REPLICAS AGE\none 10.0.0.0/8 1 *\ntwo 11.0.0.0/8 1 *"),
            ("get nets", "NAME CIDR REPLICAS AGE\none 10.0.0.0/8 1 *\ntwo 11.0.0.0/8 1 *"),
            ("get vpc one -o wide", "NAME CIDR REPLICAS PHASE AGE\none 10.0.0.0/8 1 *"),
            ("get cm", "NAME DATA AGE\na-first 1 *\nsettings 1 *"),
            ("get pods", "NAME READY STATUS RESTARTS AGE\nweb 0/1 Pending 0 *"),
            (
                "get pods -o wide",
                "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES\n\
                 web 0/1 Pending 0 * <none> worker <none> <none>",
            ),
            ("get nodes", "NAME STATUS ROLES AGE VERSION\nworker Unknown worker *"),
            (
                "get svc web -o wide",
                "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR\n\
                 web ClusterIP 10.0.0.80 <none> 80/TCP * app=web",
            ),
            ("get ns default", "NAME STATUS AGE\ndefault Active *"),
        ] {
            assert_eq!(table(&kubectl.does(line)), printed, "{line}");
        }
    });
}

#[test]
fn tables_show_labels_and_omit_headers() {
    each(|kubectl| {
        prepare(kubectl);
        for (line, printed) in [
            (
                "get vpcs --show-labels",
                "NAME CIDR REPLICAS AGE LABELS\none 10.0.0.0/8 1 * tier=front\ntwo 11.0.0.0/8 1 * tier=back",
            ),
            (
                "get vpcs -L tier",
                "NAME CIDR REPLICAS AGE TIER\none 10.0.0.0/8 1 * front\ntwo 11.0.0.0/8 1 * back",
            ),
            ("get vpcs --no-headers", "one 10.0.0.0/8 1 *\ntwo 11.0.0.0/8 1 *"),
            ("get cm,vpc -l 'app=web'", "NAME DATA AGE\nconfigmap/settings 1 *"),
        ] {
            assert_eq!(table(&kubectl.does(line)), printed, "{line}");
        }
    });
}

#[test]
fn documents_hold_the_whole_object() {
    each(|kubectl| {
        prepare(kubectl);
        assert_lines(
            &kubectl.does("get vpc one -o yaml"),
            &[
                "apiVersion: sampan.example.com/v1",
                "kind: Vpc",
                "generation: 1",
                "cidr: 10.0.0.0/8",
            ],
        );
        let json: serde_json::Value =
            serde_json::from_str(&kubectl.does("get cm settings -o json")).unwrap();
        assert_eq!(json["kind"], "ConfigMap");
        assert_eq!(json["data"]["color"], "red");
        assert_eq!(json["metadata"]["labels"]["app"], "web");
        let list: serde_json::Value =
            serde_json::from_str(&kubectl.does("get vpc,cm -o json")).unwrap();
        assert_eq!(list["kind"], "List");
        assert_eq!(list["items"].as_array().unwrap().len(), 4);
    });
}

#[test]
fn output_is_selected_by_name_path_column_and_template() {
    each(|kubectl| {
        prepare(kubectl);
        for (line, printed) in [
            (
                "get vpc,cm -o name",
                "vpc.sampan.example.com/one\nvpc.sampan.example.com/two\nconfigmap/a-first\nconfigmap/settings\n",
            ),
            ("get vpcs -o 'jsonpath={.items[*].spec.cidr}'", "10.0.0.0/8 11.0.0.0/8"),
            (
                r#"get vpcs -o 'jsonpath={range .items[?(@.metadata.name=="two")]}{.spec.cidr}{end}'"#,
                "11.0.0.0/8",
            ),
            (
                "get vpcs -o custom-columns=N:.metadata.name,C:.spec.cidr",
                "N     C\none   10.0.0.0/8\ntwo   11.0.0.0/8\n",
            ),
            (
                "get cm -o 'go-template={{range .items}}{{.metadata.name}} {{end}}'",
                "a-first settings ",
            ),
        ] {
            assert_eq!(kubectl.does(line), printed, "{line}");
        }
    });
}

#[test]
fn lists_are_filtered_by_labels_and_fields() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does_with("create -f -", POD);
        for (line, printed) in [
            ("get vpcs -o name -l tier=front", "vpc.sampan.example.com/one\n"),
            ("get vpcs -o name -l tier!=front", "vpc.sampan.example.com/two\n"),
            (
                "get vpcs -o name -l 'tier in (front, back)'",
                "vpc.sampan.example.com/one\nvpc.sampan.example.com/two\n",
            ),
            ("get cm -o name -l app,app!=db", "configmap/settings\n"),
            ("get vpcs -o name --field-selector metadata.name=two", "vpc.sampan.example.com/two\n"),
            ("get cm -o name --field-selector metadata.name!=settings", "configmap/a-first\n"),
            (
                "get pods -o name --field-selector spec.nodeName=worker,status.phase=Pending",
                "pod/web\n",
            ),
            ("get pods -o name --field-selector status.phase=Running", ""),
        ] {
            assert_eq!(kubectl.does(line), printed, "{line}");
        }
        let error = kubectl.fails("get vpcs --field-selector spec.cidr=10.0.0.0/8");
        assert!(error.ends_with("field label not supported: spec.cidr"), "{error}");
    });
}

#[test]
fn all_namespaces_are_listed_at_once() {
    each(|kubectl| {
        prepare(kubectl);
        kubectl.does_with("create -f -", NAMESPACE);
        kubectl.does_with("create -n staging -f -", VPC);
        assert_eq!(
            table(&kubectl.does("get vpcs -A")),
            "NAMESPACE NAME CIDR REPLICAS AGE\ndefault one 10.0.0.0/8 1 *\ndefault two 11.0.0.0/8 1 *\nstaging one 10.0.0.0/8 1 *"
        );
        assert_eq!(kubectl.does("get vpcs -n staging -o name"), "vpc.sampan.example.com/one\n");
    });
}

#[test]
fn lists_are_sorted_and_cut_into_pages() {
    each(|kubectl| {
        prepare(kubectl);
        let by_cidr = kubectl.does("get vpcs --sort-by=.spec.cidr");
        assert_eq!(
            table(&by_cidr),
            "NAME CIDR REPLICAS AGE\none 10.0.0.0/8 1 *\ntwo 11.0.0.0/8 1 *"
        );
        let by_label = kubectl.does("get vpcs --sort-by={.metadata.labels.tier} -o name");
        assert_eq!(by_label, "vpc.sampan.example.com/two\nvpc.sampan.example.com/one\n");
        let paged = kubectl.does("get cm --chunk-size=1");
        assert_eq!(table(&paged), "NAME DATA AGE\na-first 1 *\nsettings 1 *");
    });
}

#[test]
fn getting_a_missing_object_fails() {
    each(|kubectl| {
        prepare(kubectl);
        for (line, error) in [
            ("get pod nothing", "Error from server (NotFound): pods \"nothing\" not found"),
            (
                "get vpc nothing",
                "Error from server (NotFound): vpcs.sampan.example.com \"nothing\" not found",
            ),
            ("get nothings", "error: the server doesn't have a resource type \"nothings\""),
            (
                "get namespace nothing",
                "Error from server (NotFound): namespaces \"nothing\" not found",
            ),
        ] {
            assert_eq!(kubectl.fails(line), error, "{line}");
        }
        let nothing = kubectl.outcome("get pods", "");
        assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""));
        assert!(nothing.stderr.contains("No resources found in default namespace."), "{nothing:?}");
        assert_eq!(kubectl.does("get pod nothing --ignore-not-found"), "");
    });
}
