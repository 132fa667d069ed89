//! `sampan user` and `sampan auth`: access for people, with a plane that signs certificates.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::plane::{self, Plane};
use machinery::codec::yaml;
use machinery::{Value, json};

/// The namespaces of the tests.
const NAMESPACES: [&str; 2] = ["a", "b"];

/// Runs the program with a kubeconfig.
fn sampan(kubeconfig: &Path, line: &str) -> Output {
    let mut program = plane::sampan();
    program.args(line.split_whitespace()).env("KUBECONFIG", kubeconfig);
    program.stdin(Stdio::null()).output().unwrap()
}

/// A plane with controllers and namespaces.
struct Session {
    plane: Plane,
}

impl Session {
    fn new() -> Self {
        let session = Self { plane: Plane::alive(0) };
        for name in NAMESPACES {
            let body = json!({"metadata": {"name": name}});
            let sent = session.plane.client().send("POST", "/api/v1/namespaces", Some(&body));
            assert_eq!(sent.unwrap().0, 201);
        }
        session
    }

    fn kubeconfig(&self) -> PathBuf {
        self.plane.kubeconfig.clone()
    }

    /// Runs a command that succeeds, and returns its standard output and its notes.
    #[track_caller]
    fn does(&self, line: &str) -> (String, String) {
        let output = sampan(&self.kubeconfig(), line);
        let [out, err] = texts(&output);
        assert!(output.status.success(), "{line}: {out}{err}");
        assert!(!out.contains("PRIVATE KEY") && !err.contains("PRIVATE KEY"), "{line}");
        (out, err)
    }

    /// Runs a command that fails, and returns its error.
    #[track_caller]
    fn fails(&self, line: &str) -> String {
        let output = sampan(&self.kubeconfig(), line);
        let [out, err] = texts(&output);
        assert!(!output.status.success(), "{line}: {out}");
        err
    }

    /// The rows of `user list`, without the title.
    fn rows(&self) -> Vec<Vec<String>> {
        let (list, _) = self.does("user list");
        let rows = list.lines().skip(1);
        rows.map(|it| it.split_whitespace().map(str::to_owned).collect()).collect()
    }

    /// The answer of `can-i`: its exit code, standard output and standard error.
    fn can_i(&self, line: &str) -> (i32, String, String) {
        let output = sampan(&self.kubeconfig(), &format!("auth can-i {line}"));
        let [out, err] = texts(&output);
        (output.status.code().unwrap(), out, err)
    }

    /// Sends a request as the administrator.
    fn get(&self, path: &str) -> Value {
        let (code, body) = self.plane.client().send("GET", path, None).unwrap();
        assert_eq!(code, 200, "{path}: {body}");
        body
    }

    fn document(&self) -> Value {
        yaml::decode(&std::fs::read(self.kubeconfig()).unwrap()).unwrap().value
    }
}

fn texts(output: &Output) -> [String; 2] {
    [&output.stdout, &output.stderr].map(|it| String::from_utf8(it.clone()).unwrap())
}

#[test]
fn a_user_has_its_role_in_its_namespace_and_nowhere_else() {
    let session = Session::new();
    let (out, _) = session.does("user add jane --role view --namespace a --group dev --group ops");
    assert!(out.contains("in the groups dev, ops: certificate valid until 20"), "{out}");
    assert!(out.contains("ClusterRole \"view\" in namespace \"a\""), "{out}");
    let answers = [
        ("list pods", 0),
        ("list pods --namespace b", 1),
        ("list pods --all-namespaces", 1),
        ("create pods", 1),
        ("get secrets", 1),
    ];
    for (question, code) in answers {
        // The context has the namespace of the role.
        let answer = session.can_i(&format!("{question} --context jane@sampan"));
        assert_eq!(answer.0, code, "{question}: {answer:?}");
    }
    let (who, _) = session.does("auth whoami --context jane@sampan");
    let rows: Vec<(&str, &str)> =
        who.lines().filter_map(|it| it.split_once("   ")).map(|(a, b)| (a, b.trim())).collect();
    assert_eq!(
        rows[..3],
        [
            ("ATTRIBUTE", "VALUE"),
            ("Username", "jane"),
            ("Groups", "[dev ops system:authenticated]"),
        ]
    );
    let (attribute, credential) = rows[3];
    assert_eq!(attribute, "Extra: authentication.kubernetes.io/credential-id");
    assert!(credential.starts_with("[X509SHA256="), "{credential}");
}

#[test]
fn the_kubeconfig_stays_private_and_keeps_its_current_context() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a");
    let mode = std::fs::metadata(session.kubeconfig()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let document = session.document();
    assert_eq!(document["current-context"], "sampan");
    assert_eq!(document["contexts"][1]["name"], "jane@sampan");
    assert_eq!(document["clusters"].as_array().unwrap().len(), 1);
    session.does("user add jane --use-context");
    assert_eq!(session.document()["current-context"], "jane@sampan");
    let (_, notes) = session.does("user remove jane --context sampan");
    assert!(notes.contains("it was the current context"), "{notes}");
    assert_eq!(session.document()["current-context"], Value::Null);
}

#[test]
fn a_file_for_another_machine_has_everything_that_it_needs() {
    let session = Session::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ci");
    let line = format!("user add ci --role edit --namespace b --output {}", file.display());
    let before = session.document();
    let (out, notes) = session.does(&line);
    assert!(out.contains(&format!("written to {}", file.display())), "{out}");
    assert!(notes.contains("private key") && notes.contains("this machine only"), "{notes}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(session.document(), before, "the kubeconfig of the command is unchanged");
    let answer = sampan(&file, "auth can-i create pods");
    assert_eq!(texts(&answer)[0], "yes\n");
    let error = session.fails("user add ci --output -");
    assert!(error.contains("the private key is not printed"), "{error}");
}

#[test]
fn adding_a_user_again_renews_the_certificate_and_replaces_the_role() {
    let session = Session::new();
    let user = |document: &Value| document["users"][1].clone();
    session.does("user add jane --role view --namespace a --group dev --ttl 10m");
    let first = user(&session.document());
    let (out, _) = session.does("user add jane --role edit --namespace a --ttl 48h");
    assert!(out.contains("in the groups dev"), "{out}");
    assert!(out.contains("ClusterRole \"edit\" in namespace \"a\", instead of view"), "{out}");
    let second = user(&session.document());
    assert_ne!(first["user"], second["user"]);
    assert_eq!(first["name"], second["name"]);
    session.does("user add jane --role view --namespace b");
    session.does("user add jane --role view --namespace b");
    let bindings = session.get("/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings");
    let own: Vec<&Value> = bindings["items"].as_array().unwrap().iter().collect();
    assert_eq!(own.len(), 1, "{own:?}");
    assert_eq!(own[0]["metadata"]["labels"]["app.kubernetes.io/managed-by"], "sampan");
    let (list, _) = session.does("user list");
    let rows: Vec<Vec<&str>> = list.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "GROUPS", "ROLE", "NAMESPACE", "CERTIFICATES", "EXPIRES"]);
    assert_eq!(rows[1][..4], ["jane", "dev", "edit", "a"]);
    assert_eq!(rows[2][..4], ["jane", "dev", "view", "b"]);
    assert_eq!(rows[1][4..], rows[2][4..], "the certificates are the same: {list}");
    let requests = session.get("/apis/certificates.k8s.io/v1/certificatesigningrequests");
    assert_eq!(requests["items"], json!([]), "requests are removed");
}

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
    session.does("user add jane");
    let row: Vec<String> = session.rows().swap_remove(0);
    assert_eq!(row[..5], ["jane", "dev", "<none>", "<none>", "3"], "old certificates count");
    let (who, _) = session.does("auth whoami --context jane@sampan");
    assert!(!who.contains("dev"), "a user that is added again begins without groups: {who}");
}

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
fn a_shortened_lifetime_is_said() {
    let session = Session::new();
    let (out, _) = session.does("user add jane --ttl 400d");
    assert!(out.lines().next().unwrap().ends_with("Z, shortened by the cluster"), "{out}");
    let (out, notes) = session.does("user add jane --ttl 300d --namespace a");
    assert!(!out.contains("shortened"), "{out}");
    assert!(notes.contains("sampan user add jane --role view --namespace a"), "{notes}");
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_a_certificate_is_issued() {
    let session = Session::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "[not a kubeconfig").unwrap();
    for (output, expect) in [
        ("/proc/ci".to_owned(), "cannot write /proc/ci; name another file with --output"),
        (directory.path().join("no/ci").display().to_string(), "name another file with --output"),
        (file.display().to_string(), "name another file with --output"),
        (directory.path().display().to_string(), "name another one with --output"),
    ] {
        let error = session.fails(&format!("user add ci --output {output}"));
        assert!(error.contains(expect) && !error.contains("--kubeconfig"), "{output}: {error}");
    }
    assert!(!directory.path().join("no").exists(), "no directory is made");
    let (_, notes) = session.does("user list");
    assert!(notes.contains("there are no users"), "{notes}");
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

#[test]
fn wrong_input_is_refused_before_anything_is_made() {
    let session = Session::new();
    for (line, expect) in [
        ("user add system:admin", "belong to Kubernetes itself"),
        ("user add jane/x", "a name has the letters a-z and A-Z"),
        ("user add jane --group system:masters", "--role cluster-admin"),
        ("user add jane --ttl 5m", "10 minutes at least"),
        ("user add jane --ttl soon", "not a duration such as 24h"),
        ("user add jane --role veiw --namespace a", "did you mean \"view\"?"),
        ("user add jane --role Role/x", "name it with --namespace"),
        ("user add jane --role nosuchrole", "the roles for people are view"),
        (
            "user add jane --role Role/deployer --namespace a",
            "there is no Role \"deployer\" in namespace \"a\"",
        ),
        ("user add jane --role view --namespace nowhere", "kubectl create namespace nowhere"),
        ("user add jane --context nowhere", "no context \"nowhere\"; it has: sampan"),
        ("user add jane --kubeconfig /no/such/file", "`sampan up` writes it"),
        ("user remove nobody", "there is no user \"nobody\""),
    ] {
        let error = session.fails(line);
        assert!(error.contains(expect), "{line}: {error}");
    }
    let requests = session.get("/apis/certificates.k8s.io/v1/certificatesigningrequests");
    assert_eq!(requests["items"], json!([]));
}

#[test]
fn an_entry_that_is_not_of_the_user_is_not_replaced() {
    let session = Session::new();
    let mut document = session.document();
    let entry = json!({"name": "jane@sampan", "user": {"token": "the-only-copy"}});
    document["users"].as_array_mut().unwrap().push(entry);
    let text = yaml::encode(&document);
    std::fs::write(session.kubeconfig(), &text).unwrap();
    let error = session.fails("user add jane");
    assert!(error.contains("did not write and does not replace"), "{error}");
    assert_eq!(std::fs::read_to_string(session.kubeconfig()).unwrap(), text);
}

#[test]
fn a_user_without_the_rights_cannot_add_others() {
    let session = Session::new();
    session.does("user add jane --role admin --namespace a");
    for line in ["user add bob", "user add bob --role view", "user list", "user remove jane"] {
        let error = session.fails(&format!("{line} --context jane@sampan"));
        assert!(error.contains("which the ClusterRole cluster-admin has"), "{line}: {error}");
        assert!(error.contains("is forbidden: User \"jane\" cannot"), "{line}: {error}");
    }
}

#[test]
fn a_plane_that_does_not_run_is_named_as_the_cause() {
    let session = Session::new();
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    std::fs::copy(session.kubeconfig(), &copy).unwrap();
    let url = session.plane.url.clone();
    session.plane.kill();
    let expect = format!(
        "error: cannot reach {url} (context sampan): is the plane running? start it with `sampan up`\n"
    );
    for line in
        ["user list", "user add jane", "user remove jane", "auth whoami", "auth can-i list pods"]
    {
        let [_, error] = texts(&sampan(&copy, line));
        assert!(error.starts_with(&expect) && !error.contains("rights"), "{line}: {error}");
    }
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

#[test]
fn a_refusal_names_the_role_that_has_the_right_to_those_who_may_read_roles() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a");
    let hint = "ClusterRole \"edit\" has this right; to give it: sampan user add jane --role edit \
                --namespace a\n";
    let answer = session.can_i("create deploy --as jane --namespace a");
    assert_eq!(answer, (1, "no\n".to_owned(), hint.to_owned()));
    let answer = session.can_i("create deploy --context jane@sampan");
    assert_eq!(answer, (1, "no\n".to_owned(), String::new()), "jane may not read roles");
    let answer = session.can_i("create deploy --as jane --namespace a --quiet");
    assert_eq!(answer, (1, String::new(), String::new()));
    let answer = session.can_i("create deploy");
    assert_eq!(answer, (0, "yes\n".to_owned(), String::new()));
    let answer = session.can_i("get /metrics --as ann");
    assert!(answer.2.contains("ClusterRole \"system:monitoring\" has this right"), "{answer:?}");
    let answer = session.can_i("list nosuch --as ann");
    assert!(!answer.2.contains("NAME"), "no role can be made for it: {answer:?}");
    let answer = session.can_i("create nodes --as ann");
    let hint = "kubectl create clusterrole NAME --verb=create --resource=nodes && \
                sampan user add ann --role NAME";
    assert!(answer.2.trim_end().ends_with(hint), "{answer:?}");
    let answer = session.can_i("list pods --as system:serviceaccount:b:default --namespace b");
    assert!(answer.2.contains("--serviceaccount=b:default --namespace b"), "{answer:?}");
}
