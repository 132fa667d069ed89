//! The program with its arguments and its environment.

use std::process::{Command, Output};

/// The variables of all options.
const VARIABLES: [&str; 19] = [
    "ENDPOINT",
    "LEADER_ELECT",
    "NETWORK_BACKEND",
    "NETWORK_CLUSTER_NAME",
    "NETWORK_RESYNC",
    "NETWORK_WEBHOOK_LISTEN",
    "NEUTRON_URL",
    "OS_APPLICATION_CREDENTIAL_ID",
    "OS_APPLICATION_CREDENTIAL_SECRET",
    "OS_AUTH_URL",
    "OS_CACERT",
    "OS_PASSWORD",
    "OS_PROJECT_DOMAIN_ID",
    "OS_PROJECT_DOMAIN_NAME",
    "OS_PROJECT_NAME",
    "OS_REGION_NAME",
    "OS_USERNAME",
    "OS_USER_DOMAIN_ID",
    "OS_USER_DOMAIN_NAME",
];

const KUBECONFIG: &str = "apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: a, user: {token: a}}]
";

/// The program with these arguments, and with an empty value for each variable of its options.
fn program(arguments: &[&str]) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_network-operator"));
    program.args(arguments).envs(VARIABLES.map(|variable| (variable, "")));
    program
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).unwrap()
}

#[test]
fn empty_variables_count_as_unset() {
    let Output { status, stderr, .. } = program(&["manifests"]).output().unwrap();
    assert!(status.success(), "{}", text(&stderr));
}

#[test]
fn an_empty_secret_is_missing_and_a_log_in_a_file_has_no_colors() {
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, KUBECONFIG).unwrap();
    let ended = program(&["--backend", "neutron"])
        .env("KUBECONFIG", kubeconfig)
        .env("OS_AUTH_URL", "http://127.0.0.1:1/v3")
        .env("OS_APPLICATION_CREDENTIAL_ID", "a")
        .output()
        .unwrap();
    let log = text(&ended.stderr);
    assert!(!ended.status.success());
    assert!(log.contains("OS_APPLICATION_CREDENTIAL_SECRET is missing"), "{log}");
    assert!(log.contains("INFO") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn the_help_has_no_markdown_and_names_the_variables_of_secrets() {
    let help = text(&program(&["--help"]).output().unwrap().stdout);
    for mark in ["`", "<http"] {
        assert!(!help.contains(mark), "{mark} in {help}");
    }
    for variable in ["OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_SECRET"] {
        assert!(help.contains(variable), "{help}");
    }
}

#[test]
fn a_resync_period_of_zero_is_refused() {
    let ended = program(&["--resync", "0", "manifests"]).output().unwrap();
    let why = "invalid value '0' for '--resync <SECONDS>': should be a number of seconds from 1";
    assert!(text(&ended.stderr).contains(why), "{}", text(&ended.stderr));
}
