//! `sampan auth` beside `kubectl auth`, users of `sampan user add` with kubectl, and the commands of
//! docs/users.md.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::session::Kubectl;
use super::{each_alive, each_since_alive};
use crate::plane::sampan;

/// Runs a shell command with both programs and returns what it prints, and its exit code.
fn shell(kubectl: &Kubectl, line: &str) -> (String, i32) {
    let programs = [sampan().get_program().to_owned(), kubectl.program.path.clone().into()];
    let folder = |it: &std::ffi::OsString| Path::new(it).parent().unwrap().to_owned();
    let path = std::env::join_paths(programs.iter().map(folder)).unwrap();
    let path = format!("{}:{}", path.to_str().unwrap(), std::env::var("PATH").unwrap());
    let home = tempfile::tempdir().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {line}")])
        .env("KUBECONFIG", &kubectl.kubeconfig)
        .env("PATH", path)
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

#[test]
fn can_i_and_whoami_answer_as_kubectl_does() {
    each_since_alive(29, 0, |kubectl| {
        kubectl.does("create namespace a");
        shell(kubectl, "sampan user add jane --role view --namespace a --group dev");
        for question in [
            "auth whoami",
            "auth can-i list pods",
            "auth can-i list po/web",
            "auth can-i get pods --subresource=log",
            "auth can-i list deployments.apps -n a",
            "auth can-i list deploy.v1.apps -n a",
            "auth can-i list nodes",
            "auth can-i list storageclasses",
            "auth can-i list nosuch",
            "auth can-i list nosuch.example.com",
            "auth can-i smile pods",
            "auth can-i get /healthz",
            "auth can-i smile /healthz",
            "auth can-i '*' '*'",
            "auth can-i impersonate users",
            "auth can-i create pods -A",
            "auth can-i create pods -q",
            "auth can-i --list",
            "auth can-i --list --no-headers -n default",
        ] {
            for context in ["sampan", "jane@sampan"] {
                let line = format!("{question} --context {context}");
                let [ours, theirs] =
                    ["sampan", "kubectl"].map(|it| shell(kubectl, &format!("{it} {line}")));
                assert_eq!(ours, theirs, "{line}");
            }
        }
        for question in ["auth whoami", "auth can-i get pods -n a"] {
            let line = format!("{question} --as jane --as-group x --as-group y");
            let [ours, theirs] =
                ["sampan", "kubectl"].map(|it| shell(kubectl, &format!("{it} {line}")));
            assert_eq!(ours, theirs, "{line}");
        }
    });
}

#[test]
fn kubectl_has_the_rights_of_the_role_in_its_namespace() {
    each_alive(0, |kubectl| {
        kubectl.does("create namespace a");
        shell(kubectl, "sampan user add jane --role view --namespace a");
        kubectl.does("--context jane@sampan get pods");
        let error = kubectl.fails("--context jane@sampan get pods --namespace default");
        assert!(error.contains("User \"jane\" cannot list resource \"pods\""), "{error}");
        let error = kubectl.fails("--context jane@sampan create configmap x");
        assert!(error.contains("User \"jane\" cannot create resource \"configmaps\""), "{error}");
        shell(kubectl, "sampan user add jane --role edit --namespace a");
        kubectl.does("--context jane@sampan create configmap x");
        shell(kubectl, "cp $KUBECONFIG $KUBECONFIG.copy; sampan user remove jane");
        let copy = format!("{}.copy", kubectl.kubeconfig.display());
        let error = kubectl.fails(&format!("--kubeconfig {copy} --context jane@sampan get pods"));
        assert!(error.contains("User \"jane\" cannot list resource \"pods\""), "{error}");
    });
}

#[test]
fn the_commands_of_the_page_print_what_the_page_shows() {
    let page = include_str!("../../../../../docs/users.md");
    let blocks = page.split("```console\n").skip(1).map(|it| it.split("```").next().unwrap());
    let shown: String = blocks.collect();
    assert!(shown.lines().filter(|it| it.starts_with("$ ")).count() > 8);
    // Older releases of kubectl word errors differently.
    each_since_alive(29, 0, |kubectl| {
        let mut printed = String::new();
        for line in shown.lines().filter(|it| it.starts_with("$ ")) {
            let (output, _) = shell(kubectl, &line[2..]);
            write!(printed, "{line}\n{output}").unwrap();
        }
        let path = kubectl.kubeconfig.to_str().unwrap();
        let printed = printed.replace(path, "~/.kube/config");
        assert_eq!(masked(&printed), masked(&shown));
    });
}

/// Replaces times by `TIME`, and the digests of certificates by `DIGEST`.
fn masked(text: &str) -> String {
    let is_time = |it: &str| it.len() == 20 && it.ends_with('Z') && it.as_bytes()[10] == b'T';
    let words = text.split_inclusive([' ', '\n', ',']).map(|word| {
        let bare = word.trim_end_matches([' ', '\n', ',']);
        match bare {
            time if is_time(time) => word.replace(time, "TIME"),
            digest if digest.starts_with("[X509SHA256=") => word.replace(digest, "DIGEST"),
            _ => word.to_owned(),
        }
    });
    words.collect()
}
