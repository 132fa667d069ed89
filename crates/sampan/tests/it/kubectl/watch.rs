//! `get --watch`: changes are printed as they happen.

use crate::kubectl::manifests::{CONFIG_MAP, VPC, VPC_CRD};
use crate::kubectl::{each, table};

#[test]
fn a_watch_prints_added_and_changed_objects() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_CRD);
        kubectl.does_with("create -f -", VPC);
        let mut watch = kubectl.starts("get vpcs -w");
        assert_eq!(table(&watch.line()), "NAME CIDR REPLICAS AGE");
        assert_eq!(table(&watch.line()), "one 10.0.0.0/8 1 *");
        watch.until_watching();
        kubectl.does_with("create -f -", &VPC.replace("one", "two"));
        assert_eq!(table(&watch.line()), "two 10.0.0.0/8 1 *");
        kubectl.does(r#"patch vpc one --type merge -p {"spec":{"replicas":2}}"#);
        assert_eq!(table(&watch.line()), "one 10.0.0.0/8 2 *");
    });
}

#[test]
fn a_watch_prints_the_type_of_each_event() {
    each(|kubectl| {
        let mut watch = kubectl.starts("get cm --watch-only --output-watch-events");
        watch.until_watching();
        kubectl.does_with("create -f -", CONFIG_MAP);
        assert!(watch.line().starts_with("EVENT"));
        assert!(watch.line().starts_with("ADDED"));
        kubectl.does("label cm settings a=b");
        assert!(watch.line().starts_with("MODIFIED"));
        kubectl.does("delete cm settings");
        assert!(watch.line().starts_with("DELETED"));
    });
}

#[test]
fn a_watch_with_a_selector_prints_only_matching_objects() {
    each(|kubectl| {
        let mut watch = kubectl.starts("get cm --watch-only -o name -l app=web");
        watch.until_watching();
        kubectl.does_with("create -f -", &CONFIG_MAP.replace("app: web", "app: db"));
        kubectl.does_with("create -f -", &CONFIG_MAP.replace("settings", "seen"));
        assert_eq!(watch.line(), "configmap/seen");
    });
}
