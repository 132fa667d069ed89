//! Reading, resolving and merging kubeconfigs.

use std::os::unix::fs::PermissionsExt;

use tempfile::TempDir;

use super::*;
use apiserver::certificates::Authority;
use keel::Clock;
use machinery::json;

const CONFIG: &str = r#"
apiVersion: v1
kind: Config
preferences: {colors: true}
current-context: work
clusters:
- name: work
  cluster: {server: "https://work.example:6443", certificate-authority: pki/ca.crt}
- name: lab
  cluster: {server: "https://lab.example", insecure-skip-tls-verify: true, tls-server-name: lab}
contexts:
- name: work
  context: {cluster: work, user: ada, namespace: team}
- name: lab
  context: {cluster: lab, user: robot}
- name: cloud
  context: {cluster: lab, user: cloud}
- name: anonymous
  context: {cluster: lab}
- name: dangling
  context: {cluster: lab, user: nobody}
users:
- name: ada
  user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}
- name: robot
  user: {token: stale, tokenFile: token}
- name: cloud
  user: {exec: {command: login}}
"#;

struct Home {
    directory: TempDir,
}

impl Home {
    fn with(text: &str) -> Self {
        let home = Self { directory: tempfile::tempdir().unwrap() };
        fs::write(home.config(), text).unwrap();
        fs::create_dir(home.directory.path().join("pki")).unwrap();
        fs::write(home.directory.path().join("pki/ca.crt"), "CA").unwrap();
        fs::write(home.directory.path().join("token"), "fresh\n").unwrap();
        home
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    fn resolve(&self, context: Option<&str>) -> Result<Access, Error> {
        resolve(&self.config(), context)
    }

    fn document(&self) -> Value {
        Value::Object(parse(&self.config(), &fs::read(self.config()).unwrap()).unwrap())
    }
}

/// The entry of a new plane.
fn entry() -> Entry {
    let now = Clock::system().now();
    let authority = Authority::new(now).unwrap();
    Entry {
        cluster: "sampan".to_owned(),
        server: "https://127.0.0.1:6443".to_owned(),
        certificate_authority: authority.certificate().to_owned(),
        tls_server_name: None,
        user: "sampan-admin".to_owned(),
        client_certificate: authority.client("sampan-admin", &[], now).unwrap().certificate,
        client_key: "OUR KEY".to_owned(),
        context: "sampan".to_owned(),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_current_context_is_followed_to_its_cluster_and_user() {
    let access = Home::with(CONFIG).resolve(None).unwrap();
    assert_eq!(access.server, "https://work.example:6443");
    assert_eq!(access.certificate_authority.as_deref(), Some(b"CA".as_slice()));
    let identity = access.identity.unwrap();
    assert_eq!((identity.certificate, identity.key), (b"CERT".to_vec(), b"KEY".to_vec()));
    assert_eq!((access.token, access.insecure), (None, false));
    assert_eq!(access.namespace, "team");
}

#[test]
fn a_named_context_and_a_token_file_take_precedence() {
    let access = Home::with(CONFIG).resolve(Some("lab")).unwrap();
    assert_eq!(access.server, "https://lab.example");
    assert_eq!(access.token.as_deref(), Some("fresh"));
    assert_eq!(access.tls_server_name.as_deref(), Some("lab"));
    assert!(access.insecure && access.identity.is_none());
    assert_eq!(access.namespace, "default");
}

#[test]
fn a_context_without_a_user_is_anonymous() {
    let access = Home::with(CONFIG).resolve(Some("anonymous")).unwrap();
    assert!(access.identity.is_none() && access.token.is_none());
}

#[track_caller]
fn check_refusal(text: &str, context: Option<&str>, expected: &str) {
    let error = Home::with(text).resolve(context).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn the_error_of_an_unresolvable_context_names_the_cause() {
    check_refusal(CONFIG, Some("home"), r#"no context "home"; it has: work, lab, cloud"#);
    check_refusal(CONFIG, Some("dangling"), r#"no user "nobody"; it has: ada, robot, cloud"#);
    check_refusal(CONFIG, Some("cloud"), r#"authenticates by "exec", which is not supported"#);
    check_refusal("", None, "no current context");
    check_refusal("current-context: a", None, r#"no context "a"; it has: none"#);
    check_refusal("a: [", None, "is not valid YAML");
    check_refusal("- a", None, "is not a map");
    check_refusal(&CONFIG.replace("S0VZ", "'!'"), None, "client-key-data is not base64");
    check_refusal(&CONFIG.replace(", client-key-data: S0VZ", ""), None, "without its key");
    check_refusal(&CONFIG.replace("pki/ca.crt", "gone.crt"), None, "gone.crt");
}

#[test]
fn the_first_file_of_the_variable_is_the_default() {
    let home = || Some(PathBuf::from("/home/ada"));
    let chosen = |variable: Option<&str>| choose_path(variable.map(OsStr::new), home());
    assert_eq!(chosen(Some(":/a:/b")).unwrap(), Path::new("/a"));
    assert_eq!(chosen(Some("")).unwrap(), Path::new("/home/ada/.kube/config"));
    assert_eq!(chosen(None).unwrap(), Path::new("/home/ada/.kube/config"));
    assert!(matches!(choose_path(None, None), Err(Error::NoHome)));
}

#[test]
fn a_new_file_is_private_and_resolves_to_the_written_entry() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/config");
    let entry = entry();
    merge_into(&path, &entry).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    let access = resolve(&path, None).unwrap();
    assert_eq!(access.server, "https://127.0.0.1:6443");
    let authority = entry.certificate_authority.as_bytes();
    assert_eq!(access.certificate_authority.as_deref(), Some(authority));
    assert_eq!(access.identity.unwrap().key, b"OUR KEY");
    let names: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file remains");
}

#[test]
fn a_merge_preserves_all_other_entries() {
    let home = Home::with(CONFIG);
    let before = home.document();
    fs::set_permissions(home.config(), fs::Permissions::from_mode(0o644)).unwrap();
    merge_into(&home.config(), &entry()).unwrap();
    let mut after = home.document();
    assert_eq!(mode(&home.config()), 0o600);
    assert_eq!(home.resolve(Some("sampan")).unwrap().server, "https://127.0.0.1:6443");
    for list in ["clusters", "contexts", "users"] {
        after[list].as_array_mut().unwrap().pop();
    }
    assert_eq!(after, before);
}

#[test]
fn a_merge_preserves_the_owner_of_the_file() {
    use std::os::unix::fs::{MetadataExt, chown};
    let home = Home::with(CONFIG);
    if chown(home.config(), Some(12345), Some(12346)).is_err() {
        eprintln!("SKIPPED: only root may change the owner of a file");
        return;
    }
    merge_into(&home.config(), &entry()).unwrap();
    let metadata = fs::metadata(home.config()).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12345, 12346));
    assert_eq!(mode(&home.config()), 0o600);
}

#[test]
fn temporary_files_of_killed_processes_are_removed() {
    let home = Home::with(CONFIG);
    let directory = home.config().parent().unwrap().to_owned();
    let unfinished = directory.join(".sampan-kubeconfig-a1B2c3");
    fs::write(&unfinished, "a key").unwrap();
    let other = directory.join(".kubeconfig-backup");
    fs::write(&other, "of the user").unwrap();
    merge_into(&home.config(), &entry()).unwrap();
    assert!(!unfinished.exists() && other.exists());
}

#[test]
fn a_second_merge_replaces_the_entries_and_preserves_the_namespace() {
    let home = Home::with(CONFIG);
    merge_into(&home.config(), &entry()).unwrap();
    let chosen = fs::read_to_string(home.config()).unwrap();
    let chosen = chosen.replace("    user: sampan-admin", "    namespace: mine\n    user: x");
    fs::write(home.config(), chosen).unwrap();
    let moved = Entry { server: "https://127.0.0.1:7443".to_owned(), ..entry() };
    let merged = merge_into(&home.config(), &moved).unwrap();
    assert_eq!(merged.previous_server.as_deref(), Some("https://127.0.0.1:6443"));
    assert_eq!(home.document()["clusters"].as_array().unwrap().len(), 3);
    let access = home.resolve(Some("sampan")).unwrap();
    assert_eq!(access.server, "https://127.0.0.1:7443");
    assert_eq!(access.namespace, "mine");
    assert!(access.identity.is_some());
}

#[test]
fn the_current_context_changes_on_request_only() {
    let home = Home::with(CONFIG);
    assert!(!merge_into(&home.config(), &entry()).unwrap().is_current);
    assert_eq!(home.document()["current-context"], "work");
    let switched = fs::read_to_string(home.config()).unwrap();
    let switched = switched.replace("current-context: work", "current-context: sampan");
    fs::write(home.config(), switched).unwrap();
    assert!(merge_into(&home.config(), &entry()).unwrap().is_current);
    assert_eq!(home.document()["current-context"], "sampan");
}

#[test]
fn entries_are_merged_into_an_empty_file_and_empty_lists() {
    for text in ["", "clusters: null\nusers: []\ncurrent-context: ''\n"] {
        let home = Home::with(text);
        merge_into(&home.config(), &entry()).unwrap();
        assert_eq!(home.resolve(None).unwrap().server, "https://127.0.0.1:6443");
    }
}

#[test]
fn a_file_that_does_not_parse_is_refused_and_unchanged() {
    let others = ["kind: Pod", "apiVersion: apps/v1", "kind: Config\napiVersion: [v1]"];
    for text in ["clusters: [", "- a", "clusters: {}", "users: [1]"].into_iter().chain(others) {
        let home = Home::with(text);
        let error = merge_into(&home.config(), &entry()).unwrap_err().to_string();
        assert!(error.contains("config is not"), "{error}");
        assert_eq!(fs::read_to_string(home.config()).unwrap(), text);
    }
}

#[test]
fn a_link_stays_a_link_and_its_target_is_rewritten() {
    let home = Home::with(CONFIG);
    let link = home.directory.path().join("link");
    std::os::unix::fs::symlink(home.config(), &link).unwrap();
    merge_into(&link, &entry()).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(home.resolve(Some("sampan")).unwrap().server, "https://127.0.0.1:6443");
}

#[test]
fn a_link_to_a_file_that_does_not_exist_yet_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let [link, second, file] = ["link", "second", "file"].map(|it| directory.path().join(it));
    std::os::unix::fs::symlink("second", &link).unwrap();
    std::os::unix::fs::symlink(&file, &second).unwrap();
    merge_into(&link, &entry()).unwrap();
    for path in [&link, &second] {
        assert!(fs::symlink_metadata(path).unwrap().is_symlink(), "{}", path.display());
    }
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_link_into_a_directory_that_does_not_exist_is_refused_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    let target = directory.path().join("absent/file");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let error = merge_into(&link, &entry()).unwrap_err();
    assert!(matches!(&error, Error::Write { path, .. } if *path == target), "{error}");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink() && !target.exists());
    std::os::unix::fs::symlink("circle", directory.path().join("circle")).unwrap();
    assert!(merge_into(&directory.path().join("circle"), &entry()).is_err());
}

#[test]
fn entries_of_another_cluster_with_the_same_names_are_refused_and_unchanged() {
    for text in [
        "clusters: [{name: sampan, cluster: {server: 'https://prod.example'}}]",
        "clusters: [{name: sampan, cluster: {certificate-authority-data: Q0VSVA==}}]",
        "users: [{name: sampan-admin, user: {token: the-only-copy}}]",
    ] {
        let home = Home::with(text);
        let error = merge_into(&home.config(), &entry()).unwrap_err().to_string();
        assert!(error.contains("did not write") && error.contains("--kubeconfig"), "{error}");
        assert_eq!(fs::read_to_string(home.config()).unwrap(), text);
    }
}

#[test]
fn the_error_of_a_missing_kubeconfig_names_the_command_that_writes_it() {
    let error = resolve(Path::new("/no/such/config"), None).unwrap_err().to_string();
    assert!(error.contains("/no/such/config") && error.contains("`sampan up`"), "{error}");
}

/// The cluster's entry in a kubeconfig of a plane with this authority.
fn cluster_of(authority: &Authority) -> Value {
    let bundle = BASE64_STANDARD.encode(authority.bundle());
    json!({"server": "https://127.0.0.1:6443", "certificate-authority-data": bundle})
}

fn add(path: &Path, name: &str, authority: &Authority, cluster: &Value) -> AddedPerson {
    let issued = authority.client(name, &[], Clock::system().now()).unwrap();
    let entry = PersonEntry {
        name,
        cluster_name: "sampan",
        cluster,
        certificate: &issued.certificate,
        key: &issued.key,
        namespace: Namespace::Unchanged,
        current: CurrentContext::NewIfNone,
    };
    add_person(path, &entry).unwrap()
}

#[test]
fn a_renewed_person_trusts_the_present_authority_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jane");
    let now = Clock::system().now();
    let [old, new] = [(), ()].map(|()| Authority::new(now).unwrap());
    add(&path, "ann", &old, &cluster_of(&old));
    let added = add(&path, "jane", &old, &cluster_of(&old));
    assert!(added.with_new_authority.is_empty(), "it is the same");
    let added = add(&path, "jane", &new, &cluster_of(&new));
    assert_eq!(added.with_new_authority, ["ann@sampan"]);
    assert_eq!(added.current.as_deref(), Some("ann@sampan"));
    let access = resolve(&path, Some("jane@sampan")).unwrap();
    assert_eq!(access.certificate_authority.as_deref(), Some(new.bundle().as_bytes()));
}

#[test]
fn the_authority_of_an_entry_is_replaced_with_all_that_belongs_to_it() {
    let now = Clock::system().now();
    let [old, new] = [(), ()].map(|()| Authority::new(now).unwrap());
    let home = Home::with(
        "clusters: [{name: sampan, cluster: {server: 'https://127.0.0.1:6443', tls-server-name: old, \
         insecure-skip-tls-verify: true, proxy-url: 'http://proxy:3128'}}]",
    );
    let mut expect = cluster_of(&new);
    expect["proxy-url"] = json!("http://proxy:3128");
    add(&home.config(), "jane", &new, &cluster_of(&new));
    assert_eq!(home.document()["clusters"][0]["cluster"], expect);
    let unverified = json!({"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": true});
    add(&home.config(), "jane", &old, &unverified);
    assert_eq!(home.document()["clusters"][0]["cluster"], expect, "it would be less safe");
}

#[test]
fn an_authority_in_a_file_of_its_own_stays_there_while_it_is_the_same() {
    let authority = Authority::new(Clock::system().now()).unwrap();
    let text = "clusters: [{name: sampan, cluster: {server: 'https://127.0.0.1:6443', \
                certificate-authority: pki/ca.crt}}]";
    let home = Home::with(text);
    fs::write(home.directory.path().join("pki/ca.crt"), authority.bundle()).unwrap();
    add(&home.config(), "jane", &authority, &cluster_of(&authority));
    let cluster = home.document()["clusters"][0]["cluster"].clone();
    assert_eq!(cluster["certificate-authority"], "pki/ca.crt");
    assert_eq!(cluster.get("certificate-authority-data"), None);
}
