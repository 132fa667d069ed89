//! `get --watch`: what changes is told as it changes.

use crate::kubectl::manifests::{CONFIG_MAP, VPC, VPC_DEFINITION};
use crate::kubectl::{each, table};

#[test]
fn a_watch_sees_what_is_added_and_changed() {
    each(|kubectl| {
        kubectl.does_with("create -f -", VPC_DEFINITION);
        kubectl.does_with("create -f -", VPC);
        let mut watch = kubectl.starts("get vpcs -w");
        assert_eq!(table(&watch.line()), "NAME CIDR REPLICAS AGE");
        assert_eq!(table(&watch.line()), "one 10.0.0.0/8 1 *");
        watch.until_it_watches();
        kubectl.does_with("create -f -", &VPC.replace("one", "two"));
        assert_eq!(table(&watch.line()), "two 10.0.0.0/8 1 *");
        kubectl.does(r#"patch vpc one --type merge -p {"spec":{"replicas":2}}"#);
        assert_eq!(table(&watch.line()), "one 10.0.0.0/8 2 *");
    });
}

#[test]
fn a_watch_tells_the_kind_of_each_event() {
    each(|kubectl| {
        let mut watch = kubectl.starts("get cm --watch-only --output-watch-events");
        watch.until_it_watches();
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
fn a_watch_with_a_selector_sees_no_others() {
    each(|kubectl| {
        let mut watch = kubectl.starts("get cm --watch-only -o name -l app=web");
        watch.until_it_watches();
        kubectl.does_with("create -f -", &CONFIG_MAP.replace("app: web", "app: db"));
        kubectl.does_with("create -f -", &CONFIG_MAP.replace("settings", "seen"));
        assert_eq!(watch.line(), "configmap/seen");
    });
}
