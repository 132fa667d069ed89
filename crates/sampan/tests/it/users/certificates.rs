//! The certificates of users: their records, and the wait for a signer.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::{Session, sampan, texts};
use crate::plane::{self, Plane};
use machinery::codec::yaml;
use machinery::json;

#[test]
fn certificates_are_known_without_role_bindings_and_requests() {
    let session = Session::new();
    session.does("user add dan --group dev");
    session.does("user add dan");
    let (who, _) = session.does("auth whoami --context dan@sampan");
    assert!(who.contains("[dev system:authenticated]"), "a renewal keeps the groups: {who}");
    session.does("user add dan --group ops --ttl 1h --role view --namespace a");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("dan.kubeconfig").display().to_string();
    session.does(&format!("user add dan --output {file} --ttl 30m"));
    let (who, _) = session.does(&format!("auth whoami --kubeconfig {file}"));
    assert!(who.contains("[ops system:authenticated]"), "those of the last certificate: {who}");
    // As the deletion of the namespace does.
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings";
    assert_eq!(session.plane.client().send("DELETE", path, None).unwrap().0, 200);
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["dan", "dev,ops", "<none>", "<none>", "4"]);
    let (_, notes) = session.does("user list");
    assert!(notes.contains("the certificate of the context \"dan@sampan\" ends at"), "{notes}");
    let (_, notes) = session.does("user remove dan");
    assert!(notes.contains("4 certificates remain valid until"), "{notes}");
    assert!(notes.contains("the rights of the groups dev, ops, whose bindings stay"), "{notes}");
}

#[test]
fn certificates_of_another_authority_are_not_valid() {
    let (former, session) = (Session::new(), Session::new());
    former.does("user add jane --role view --group dev");
    let mut document = session.document();
    for list in ["contexts", "users"] {
        let entry = former.document()[list][1].clone();
        document[list].as_array_mut().unwrap().push(entry);
    }
    std::fs::write(session.kubeconfig(), yaml::encode(&document)).unwrap();
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "dev", "<none>", "<none>", "0"]);
    assert_eq!(row[6..], ["(not", "accepted)"]);
    let (_, notes) = session.does("user list");
    let expect = "does not accept the certificate of the context \"jane@sampan\", which is of \
                  another authority; to renew it: sampan user add jane";
    assert!(notes.contains(expect), "{notes}");
    session.does("user add jane");
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "<none>", "<none>", "<none>", "1"], "its groups do not count");
    assert_eq!(session.does("user list").1, "");
    std::fs::write(session.kubeconfig(), yaml::encode(&document)).unwrap();
    let (_, notes) = session.does("user remove jane");
    assert!(notes.contains("1 certificate remains valid until"), "{notes}");
}

#[test]
fn a_shortened_lifetime_is_said() {
    let session = Session::new();
    let (out, _) = session.does("user add jane --ttl 400d");
    assert!(out.lines().next().unwrap().ends_with("Z, shortened by the cluster"), "{out}");
    let (out, notes) = session.does("user add jane --ttl 300d --namespace a");
    assert!(!out.contains("shortened"), "{out}");
    assert!(notes.contains("sampan user add jane --role view --namespace a"), "{notes}");
}

#[test]
fn a_cluster_without_a_signer_is_named_as_the_cause() {
    let plane = Plane::in_memory();
    let output = sampan(&plane.kubeconfig, "user add jane --role view --timeout 300ms");
    let [_, error] = texts(&output);
    assert!(!output.status.success());
    assert!(error.starts_with("error: there is no certificate after 300ms"), "{error}");
    assert!(error.contains("certificatesigningrequest-signing"), "{error}");
    for path in [
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=app.kubernetes.io/managed-by%3Dsampan",
    ] {
        let (_, list) = plane.client().send("GET", path, None).unwrap();
        assert_eq!(list["items"], json!([]), "nothing is left behind");
    }
}

#[test]
fn an_interrupted_wait_removes_the_request() {
    let plane = Plane::in_memory();
    let mut process = plane::sampan()
        .args(["user", "add", "jane", "--timeout", "1m"])
        .env("KUBECONFIG", &plane.kubeconfig)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(notes.next().unwrap(), "waiting for the certificate (up to 60s)");
    let cause = notes.next().unwrap();
    assert!(cause.starts_with("there is no certificate after 3s: the cluster has no"), "{cause}");
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let error = notes.next().unwrap();
    assert!(error.starts_with("error: interrupted: the certificate signing request"), "{error}");
    assert!(error.ends_with("was removed"), "{error}");
    assert!(!process.wait().unwrap().success());
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let (_, list) = plane.client().send("GET", path, None).unwrap();
    assert_eq!(list["items"], json!([]));
}
