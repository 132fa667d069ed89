//! `sampan user remove`: what is taken away, and what is said to remain.

use super::{Session, sampan, texts};
use machinery::json;

#[test]
fn removing_a_user_takes_its_rights_and_says_what_remains() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a --group dev");
    session.does("user add jane --role view");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    std::fs::copy(session.kubeconfig(), &copy).unwrap();
    let mine = json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings";
    let sent = session.plane.client().send("POST", path, Some(&mine));
    assert_eq!(sent.unwrap().0, 201);
    let (out, notes) = session.does("user remove jane");
    assert!(out.contains("RoleBinding \"sampan:user:jane:view\" in namespace \"a\""), "{out}");
    assert!(out.contains("ClusterRoleBinding \"sampan:user:jane:view\""), "{out}");
    assert!(out.contains("context \"jane@sampan\" removed"), "{out}");
    assert!(notes.contains("2 certificates remain valid until"), "{notes}");
    assert!(notes.contains("RoleBinding \"mine\" in namespace \"b\" still gives"), "{notes}");
    assert!(notes.contains("the rights of the groups dev, whose bindings stay"), "{notes}");
    let jane = |line: &str| {
        let output = sampan(&copy, &format!("auth can-i {line} --context jane@sampan"));
        texts(&output)[0].clone()
    };
    assert_eq!(jane("list pods --namespace a"), "no\n");
    assert_eq!(jane("list pods --namespace b"), "yes\n", "the other binding stays");
    assert_eq!(session.document()["users"].as_array().unwrap().len(), 1);
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "dev", "<removed>", "<none>", "2"]);
    let (_, notes) = session.does("user remove jane");
    assert!(notes.contains("2 certificates remain valid until"), "a second time: {notes}");
    assert_eq!(session.does("users rm jane").0, "user \"jane\" was removed before\n");
    session.does("user add jane");
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "dev", "<none>", "<none>", "3"], "old certificates count");
    let (who, _) = session.does("auth whoami --context jane@sampan");
    assert!(!who.contains("dev"), "a user that is added again begins without groups: {who}");
}

#[test]
fn the_role_in_one_namespace_is_taken_away_alone() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a");
    session.does("user add jane --role edit --namespace b");
    let before = session.document();
    let (out, notes) = session.does("user del jane --namespace a");
    let expect =
        "user \"jane\" removed from RoleBinding \"sampan:user:jane:view\" in namespace \"a\"\n";
    assert_eq!(out, expect);
    assert!(notes.contains("stays in RoleBinding \"sampan:user:jane:edit\""), "{notes}");
    assert_eq!(session.document(), before, "the context stays");
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "<none>", "edit", "b", "2"]);
    let error = session.fails("user remove jane --namespace a");
    assert!(error.contains("has no role in namespace \"a\""), "{error}");
    let (_, notes) = session.does("user remove jane -n b");
    assert!(notes.contains("to remove its context as well: sampan user remove jane"), "{notes}");
}

#[test]
fn nobody_removes_himself() {
    let session = Session::new();
    session.does("user add boss --role cluster-admin --use-context");
    let before = session.document();
    let error = session.fails("user remove boss");
    let expect = "error: you are the user \"boss\" of the context \"boss@sampan\", and nothing was \
                  removed: name the context of another administrator with --context (the \
                  kubeconfig has sampan)\n";
    assert_eq!(error, expect);
    assert_eq!(session.document(), before);
    assert_eq!(session.rows()[0][2], "cluster-admin");
    let (out, _) = session.does("user remove boss --context sampan");
    assert!(out.contains("context \"boss@sampan\" removed"), "{out}");
}

#[test]
fn a_binding_with_further_subjects_loses_only_the_user() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a");
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/a/rolebindings/sampan:user:jane:view";
    let mut binding = session.get(path);
    let bob = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"});
    binding["subjects"].as_array_mut().unwrap().push(bob.clone());
    let sent = session.plane.client().send("PUT", path, Some(&binding));
    assert_eq!(sent.unwrap().0, 200);
    session.does("user remove jane");
    assert_eq!(session.get(path)["subjects"], json!([bob]));
    session.does("user add jane --role view --namespace a");
    let jane = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
    assert_eq!(session.get(path)["subjects"], json!([bob, jane]), "a second time as well");
}
