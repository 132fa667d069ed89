//! `sampan user` and `sampan auth`: access for people, with a plane that signs certificates.

mod certificates;
mod removal;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};

use crate::plane::{self, Plane};
use apiserver::certificates::Authority;
use keel::Clock;
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
fn an_existing_file_of_output_keeps_its_current_context() {
    let session = Session::new();
    let file = session.kubeconfig().display().to_string();
    let (_, notes) = session.does(&format!("user add ci --output {file}"));
    let expect = format!(
        "the current context of the file is still \"sampan\"; to change it: kubectl config \
         --kubeconfig {file} use-context ci@sampan"
    );
    assert!(notes.contains(&expect), "{notes}");
    assert_eq!(session.document()["current-context"], "sampan");
    assert_eq!(session.document()["contexts"][1]["name"], "ci@sampan");
    let (_, notes) = session.does(&format!("user add ci --output {file} --use-context"));
    assert!(!notes.contains("current context"), "{notes}");
    assert_eq!(session.document()["current-context"], "ci@sampan");
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
fn a_renewal_has_the_namespace_of_the_roles() {
    let session = Session::new();
    let directory = tempfile::tempdir().unwrap();
    let namespace = |document: Value| document["contexts"][0]["context"]["namespace"].clone();
    let renew = |name: &str, line: &str| {
        let file = directory.path().join(name);
        session.does(&format!("user add {line} --output {}", file.display()));
        namespace(yaml::decode(&std::fs::read(&file).unwrap()).unwrap().value)
    };
    session.does("user add jane --role edit --namespace a");
    assert_eq!(renew("one", "jane"), "a");
    assert_eq!(renew("cluster", "jane --role view"), Value::Null, "a role in the cluster");
    assert_eq!(renew("both", "jane"), Value::Null, "a role in the cluster as well");
    assert_eq!(renew("other", "jane --namespace b"), "b");
    assert_eq!(renew("other", "jane"), "b", "that of the existing context");
}

/// Makes a binding as `sampan user add` does, as an administrator of the namespace can.
fn imitate_binding(session: &Session, namespace: &str, user: &str, role: &str) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {
            "generateName": "sampan:user:",
            "labels": {"app.kubernetes.io/managed-by": "sampan"},
            "annotations": {"sampan.dev/user": user},
        },
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    });
    let (code, answer) = session.plane.client().send("POST", &path, Some(&binding)).unwrap();
    assert_eq!(code, 201, "{answer:?}");
}

#[test]
fn a_binding_that_another_has_made_does_not_choose_the_namespace_of_a_context() {
    let session = Session::new();
    let directory = tempfile::tempdir().unwrap();
    let renew = |user: &str, name: &str| {
        let file = directory.path().join(name);
        session.does(&format!("user add {user} --output {}", file.display()));
        let document = yaml::decode(&std::fs::read(&file).unwrap()).unwrap().value;
        document["contexts"][0]["context"]["namespace"].clone()
    };
    session.does("user add deployer --group deployers");
    imitate_binding(&session, "a", "deployer", "view");
    assert_eq!(renew("deployer", "one"), Value::Null);
    session.does("user add deployer --role view --namespace b");
    assert_eq!(renew("deployer", "two"), "b");
    session.does("user remove deployer --namespace b");
    imitate_binding(&session, "b", "deployer", "view");
    assert_eq!(renew("deployer", "three"), Value::Null, "its role there was removed");
}

#[test]
fn text_of_bindings_does_not_control_the_terminal() {
    let session = Session::new();
    imitate_binding(&session, "a", "jane\u{1b}]0;pwn\u{7}", "view");
    imitate_binding(&session, "a", "jane", "view\u{1b}[2J\u{7}");
    let (list, _) = session.does("user list");
    let rows: Vec<Vec<&str>> = list.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 2, "the first one is not the name of a user: {list}");
    assert_eq!(rows[1][..4], ["jane", "<none>", "view^[[2J^G", "a"]);
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
fn wrong_input_is_refused_before_anything_is_made() {
    let session = Session::new();
    for (line, expect) in [
        ("user add system:admin", "belong to Kubernetes itself"),
        ("user add jane/x", "a name has the letters a-z and A-Z"),
        ("user add jane --group system:masters", "--role cluster-admin"),
        ("user add jane --ttl 5m", "10 minutes at least"),
        ("user add jane --ttl soon", "not a duration such as 24h"),
        ("user add jane --ttl -1h", "not a duration such as 24h"),
        ("user add jane --timeout 0", "the time is more than zero"),
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
    for line in ["user list", "user remove jane"] {
        let error = session.fails(&format!("{line} --context jane@sampan"));
        assert!(error.contains("which the ClusterRole cluster-admin has"), "{line}: {error}");
        assert!(error.contains("is forbidden: User \"jane\" cannot"), "{line}: {error}");
    }
    let of_all = "the role in docs/users.md: create certificatesigningrequests.certificates.k8s.io, \
                  get certificatesigningrequests.certificates.k8s.io, update \
                  certificatesigningrequests.certificates.k8s.io/approval, approve \
                  signers.certificates.k8s.io kubernetes.io/kube-apiserver-client, list \
                  clusterrolebindings.rbac.authorization.k8s.io, list \
                  rolebindings.rbac.authorization.k8s.io, get configmaps sampan-users in namespace \
                  kube-system, patch configmaps sampan-users in namespace kube-system, create \
                  configmaps in namespace kube-system";
    let of_role = ", list clusterroles.rbac.authorization.k8s.io";
    for (line, expect) in [
        ("user add bob", format!("{of_all}\n")),
        ("user add bob --role view --namespace a", format!("{of_all}{of_role}\n")),
    ] {
        let error = session.fails(&format!("{line} --context jane@sampan"));
        assert!(error.ends_with(&expect), "jane may bind roles in her namespace: {error}");
    }
}

/// Creates the roles of docs/users.md, and gives them to ann.
fn give_documented_rights(session: &Session) {
    let page = include_str!("../../../../docs/users.md");
    let mut blocks = page.split("```yaml\n").skip(1).map(|it| it.split("```").next().unwrap());
    let roles = blocks.find(|it| it.contains("name: user-admin")).unwrap();
    for role in roles.split("---\n") {
        let role = yaml::decode(role.as_bytes()).unwrap().value;
        let path = match role["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("namespaces/{namespace}/roles"),
            None => "clusterroles".to_owned(),
        };
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
        let sent = session.plane.client().send("POST", &path, Some(&role)).unwrap();
        assert_eq!(sent.0, 201, "{}", sent.1);
    }
    session.does("user add ann --role user-admin");
    session.does("user add ann --role Role/user-admin --namespace kube-system");
}

#[test]
fn the_rights_of_the_documentation_are_enough() {
    let session = Session::new();
    give_documented_rights(&session);
    for line in [
        "user add bob --role view --namespace a",
        "user add bob --role view --namespace a --group dev",
        "user add bob --role edit --namespace a",
        "user add bob --role edit",
        "user add bob",
        "user list",
        "user remove bob --namespace a",
        "user remove bob",
    ] {
        let (_, notes) = session.does(&format!("{line} --context ann@sampan"));
        assert!(!notes.contains("was not removed"), "{line}: {notes}");
    }
    let requests = session.get("/apis/certificates.k8s.io/v1/certificatesigningrequests");
    assert_eq!(requests["items"], json!([]));
    let error = session.fails("user add eve --role admin --context ann@sampan");
    let expect =
        "error: cannot add the user: a right is missing, which the ClusterRole cluster-admin";
    assert!(error.starts_with(expect) && error.contains("RBAC permissions"), "{error}");
}

#[test]
fn a_request_that_cannot_be_removed_is_named() {
    let session = Session::new();
    give_documented_rights(&session);
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/user-admin";
    let mut role = session.get(path);
    let verbs = role["rules"][0]["verbs"].as_array_mut().unwrap();
    verbs.retain(|it| *it != *"delete");
    assert_eq!(session.plane.client().send("PUT", path, Some(&role)).unwrap().0, 200);
    let (_, notes) = session.does("user add bob --context ann@sampan");
    assert!(notes.starts_with("the certificate signing request sampan-user-"), "{notes}");
    assert!(notes.contains("was not removed: ") && notes.contains("kubectl delete csr"), "{notes}");
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
        let causes: Vec<&str> = error.lines().skip(1).collect();
        assert!(matches!(causes[..], [it] if it.contains("refused")), "{line}: {error}");
    }
}

#[test]
fn a_plane_with_a_new_data_directory_is_named_as_the_cause() {
    let session = Session::new();
    session.does("user add jane --role view");
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("copy");
    std::fs::copy(session.kubeconfig(), &copy).unwrap();
    let address = session.plane.url.strip_prefix("https://").unwrap().to_owned();
    session.plane.kill();
    let plane = Plane::listening_on(&address);
    let expect = format!("error: cannot trust {} (context jane@sampan): ", plane.url);
    let [_, error] = texts(&sampan(&copy, "auth whoami --context jane@sampan"));
    assert!(error.starts_with(&expect) && !error.contains("is the plane running"), "{error}");
    assert!(error.contains("`sampan user add NAME --output FILE`"), "{error}");
}

#[test]
fn credentials_that_are_not_accepted_are_named_with_the_next_step() {
    let (former, session) = (Session::new(), Session::new());
    former.does("user add jane");
    let mut document = former.document();
    let cluster = session.document()["clusters"][0].clone();
    document["clusters"] = json!([cluster]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("jane");
    std::fs::write(&file, yaml::encode(&document)).unwrap();
    for (context, next) in [
        ("jane@sampan", "an administrator renews it with `sampan user add jane` (Unauthorized)\n"),
        ("sampan", "`sampan up` writes a new one for its administrator when it starts (Unauth"),
    ] {
        let [_, error] = texts(&sampan(&file, &format!("auth whoami --context {context}")));
        assert!(error.contains(&format!("of the context {context:?}")), "{error}");
        assert!(error.contains(next), "{error}");
    }
}

#[test]
fn the_end_of_an_expired_certificate_is_named_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let plane = Plane::embedded(directory.path());
    let now = Clock::system().now();
    let authority = Authority::open(&directory.path().join("data/pki"), now).unwrap();
    let past = now - Duration::from_hours(24 * 1000);
    let issued = authority.client("tim", &[], past).unwrap();
    let mut document = yaml::decode(&std::fs::read(&plane.kubeconfig).unwrap()).unwrap().value;
    let user = json!({
        "client-certificate-data": BASE64_STANDARD.encode(issued.certificate),
        "client-key-data": BASE64_STANDARD.encode(issued.key),
    });
    document["users"] = json!([{"name": "tim@sampan", "user": user}]);
    let context = json!({"cluster": "sampan", "user": "tim@sampan"});
    document["contexts"] = json!([{"name": "tim@sampan", "context": context}]);
    let file = directory.path().join("tim");
    std::fs::write(&file, yaml::encode(&document)).unwrap();
    for line in ["auth whoami", "auth can-i list pods", "user list"] {
        let [_, error] = texts(&sampan(&file, &format!("{line} --context tim@sampan")));
        let expect = "error: the certificate of the context \"tim@sampan\" ended at 20";
        assert!(error.starts_with(expect), "{line}: {error}");
        let next = "Z: an administrator renews it with `sampan user add tim` (Unauthorized)\n";
        assert!(error.ends_with(next), "{line}: {error}");
    }
}

#[test]
fn a_refusal_names_the_role_that_has_the_right_to_those_who_may_read_roles() {
    let session = Session::new();
    session.does("user add jane --role view --namespace a");
    let hint = "ClusterRole \"edit\" has this right; to give it instead of \"view\": sampan user add \
                jane --role edit --namespace a\n";
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
    session.does("user add eve --role view");
    let answer = session.can_i("list nodes --as eve");
    let hint = "kubectl create clusterrolebinding NAME --clusterrole=NAME --user=eve";
    assert!(answer.2.trim_end().ends_with(hint), "eve keeps the role view: {answer:?}");
    let answer = session.can_i("frobnicate pods --as ann --namespace a");
    assert!(!answer.2.contains("to give it"), "nobody needs an unknown verb: {answer:?}");
    let answer = session.can_i("list pods --as ann --namespace nowhere");
    assert_eq!(answer.2, "there is no namespace \"nowhere\"\n");
    let answer = session.can_i("get pods --as system:anonymous --namespace a");
    assert!(!answer.2.contains("/api/v1"), "the refused request is the review: {answer:?}");
    let answer = session.can_i("list pods --as system:serviceaccount:b:default --namespace b");
    assert!(answer.2.contains("--serviceaccount=b:default --namespace b"), "{answer:?}");
}
