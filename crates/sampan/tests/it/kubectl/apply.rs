//! Client-side `apply`, and `diff`.

use crate::kubectl::each;
use crate::kubectl::manifests::{CONFIG_MAP, POD, SERVICE, VPC, VPC_CRD};

#[test]
fn an_applied_manifest_is_created_then_unchanged_then_configured() {
    each(|kubectl| {
        kubectl.does_with("apply -f -", VPC_CRD);
        for (manifest, from, to, name) in [
            (VPC, "10.0.0.0", "10.3.0.0", "vpc.sampan.example.com/one"),
            (CONFIG_MAP, "red", "blue", "configmap/settings"),
            (POD, "nginx:1.27", "nginx:1.28", "pod/web"),
            (SERVICE, "port: 80", "port: 81", "service/web"),
        ] {
            let apply = |manifest: &str| kubectl.does_with("apply -f -", manifest);
            assert_eq!(apply(manifest), format!("{name} created\n"));
            assert_eq!(apply(manifest), format!("{name} unchanged\n"));
            assert_eq!(apply(&manifest.replace(from, to)), format!("{name} configured\n"));
            assert!(kubectl.does(&format!("get {name} -o yaml")).contains(to));
        }
        let again = kubectl.does_with("apply -f -", VPC_CRD);
        assert!(again.ends_with("vpcs.sampan.example.com unchanged\n"), "{again}");
    });
}

#[test]
fn apply_removes_dropped_fields_and_keeps_those_of_others() {
    each(|kubectl| {
        kubectl.does_with("apply -f -", &CONFIG_MAP.replace("red", "red, size: xl"));
        kubectl.does(r#"patch cm settings -p {"data":{"by-hand":"yes"}}"#);
        kubectl.does_with("apply -f -", CONFIG_MAP);
        let data =
            kubectl.does("get cm settings -o jsonpath={.data.color},{.data.size},{.data.by-hand}");
        assert_eq!(data, "red,,yes");
        kubectl.does_with("apply -f -", VPC_CRD);
        kubectl
            .does_with("apply -f -", &VPC.replace("10.0.0.0/8", "10.0.0.0/8, zones: [{name: a}]"));
        kubectl.does_with("apply -f -", VPC);
        assert_eq!(kubectl.does("get vpc one -o jsonpath={.spec.zones}"), "");
    });
}

#[test]
fn the_last_applied_manifest_can_be_viewed() {
    each(|kubectl| {
        kubectl.does_with("apply -f -", CONFIG_MAP);
        let last = kubectl.does("apply view-last-applied cm settings -o json");
        let last: serde_json::Value = serde_json::from_str(&last).unwrap();
        assert_eq!(last["data"]["color"], "red");
    });
}

#[test]
fn a_dry_run_apply_stores_nothing() {
    each(|kubectl| {
        let printed = kubectl.does_with("apply --dry-run=server -f -", CONFIG_MAP);
        assert_eq!(printed, "configmap/settings created (server dry run)\n");
        assert_eq!(kubectl.does("get cm -o name"), "");
        kubectl.does_with("apply -f -", CONFIG_MAP);
        let changed = CONFIG_MAP.replace("red", "blue");
        let printed = kubectl.does_with("apply --dry-run=server -f -", &changed);
        assert_eq!(printed, "configmap/settings configured (server dry run)\n");
        assert_eq!(kubectl.does("get cm settings -o jsonpath={.data.color}"), "red");
    });
}

#[test]
fn diff_prints_the_difference_and_exits_with_1() {
    each(|kubectl| {
        kubectl.does_with("apply -f -", VPC_CRD);
        for (manifest, from, to) in [(VPC, "10.0.0.0", "10.4.0.0"), (CONFIG_MAP, "red", "blue")] {
            let new = kubectl.outcome("diff -f -", manifest);
            assert_eq!(new.code, 1, "a new object: {new:?}");
            kubectl.does_with("apply -f -", manifest);
            assert_eq!(kubectl.does_with("diff -f -", manifest), "");
            let different = kubectl.outcome("diff -f -", &manifest.replace(from, to));
            assert_eq!(different.code, 1, "{different:?}");
            let has = |sign: char, value: &str| {
                different.stdout.lines().any(|it| it.starts_with(sign) && it.contains(value))
            };
            assert!(has('-', from) && has('+', to), "{different:?}");
            assert!(kubectl.does_with("get -o yaml -f -", manifest).contains(from));
        }
    });
}
