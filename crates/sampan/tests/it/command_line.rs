//! The command line: start, stop, help texts and errors.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use crate::http::{Client, Credentials};
use crate::plane::{self, Plane};
use machinery::json;

/// Runs the program to its end. A plane that starts unexpectedly also ends, since its kubeconfig
/// cannot be written.
fn sampan(arguments: &[&str]) -> Output {
    let mut program = plane::sampan();
    program.args(arguments).env("KUBECONFIG", "/dev/null/kubeconfig");
    program.stdin(Stdio::null()).output().unwrap()
}

fn error_of(arguments: &[&str]) -> String {
    let output = sampan(arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    String::from_utf8(output.stderr).unwrap()
}

fn signal(plane: &Plane, name: &str) {
    let id = plane.process.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

#[test]
fn a_plane_stops_cleanly_on_each_stop_signal() {
    // A child process inherits an ignored SIGHUP, such as that of tests started with nohup.
    let hup = (!ignores_hangup()).then_some("HUP");
    for name in ["INT", "TERM"].into_iter().chain(hup) {
        let mut plane = Plane::in_memory();
        let (code, _) = plane.client().send("GET", "/readyz", None).unwrap();
        assert_eq!(code, 200);
        signal(&plane, name);
        assert_eq!(plane.process.wait().unwrap().code(), Some(0), "after {name}");
    }
}

/// Returns whether the test process ignores SIGHUP.
fn ignores_hangup() -> bool {
    cfg!(target_os = "linux") && ignored_signals(std::process::id()) & 1 == 1
}

/// The mask of ignored signals, whose lowest bit is SIGHUP.
fn ignored_signals(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_plane_that_is_started_with_nohup_outlives_its_terminal() {
    let plane = Plane::started_by("trap '' HUP; exec \"$0\" \"$@\"");
    assert_eq!(ignored_signals(plane.process.id()) & 1, 1);
    let other = Plane::in_memory();
    assert_eq!(ignored_signals(other.process.id()) & 1 == 1, ignores_hangup());
}

#[cfg(target_os = "linux")]
#[test]
fn a_plane_may_open_as_many_files_as_the_system_allows() {
    let plane = Plane::started_by("ulimit -Sn 64 && exec \"$0\" \"$@\"");
    let limits = format!("/proc/{}/limits", plane.process.id());
    let limits = std::fs::read_to_string(limits).unwrap();
    let line = limits.lines().find(|it| it.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_ne!(words[4], "64", "the test has no hard limit above its soft one: {line}");
    assert_eq!(words[3], words[4], "{line}");
}

#[cfg(unix)]
#[test]
fn a_plane_survives_a_file_at_the_limit_of_its_size() {
    const LIMIT: u64 = 64 << 10;
    let directory = tempfile::tempdir().unwrap();
    let [policy, log] = ["policy", "log"].map(|it| directory.path().join(it));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, rules).unwrap();
    // In blocks of 512 bytes, or of 1024 in some shells.
    let plane = Plane::started_by(&format!(
        "ulimit -f 64 && exec \"$0\" \"$@\" --audit-policy-file {} --audit-log-path {}",
        policy.display(),
        log.display()
    ));
    let mut client = plane.client();
    let mut get = |path: &str| client.send("GET", path, None).unwrap();
    for _ in 0..400 {
        assert_eq!(get("/api/v1/namespaces/default").0, 200);
    }
    let size = std::fs::metadata(&log).unwrap().len();
    assert!(size == LIMIT || size == LIMIT / 2, "the limit was reached: {size}");
    assert_eq!(get("/readyz").0, 200);
}

#[cfg(unix)]
#[test]
fn data_files_are_made_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    Plane::embedded(directory.path()).kill();
    let data = directory.path().join("data");
    let all = || {
        let below = |name: &str| std::fs::read_dir(data.join(name)).unwrap();
        let files = below("store").chain(below("pki")).map(|it| it.unwrap().path());
        files.chain([data.join("store"), data.join("pki")]).collect::<Vec<_>>()
    };
    for path in all() {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let _plane = Plane::embedded(directory.path());
    for path in all() {
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

#[test]
fn a_plane_whose_data_directory_was_removed_is_not_ready_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let (plane, log) = Plane::with_log(directory.path(), &[]);
    let ready = || plane.client().send("GET", "/readyz", None).unwrap().0;
    assert_eq!(ready(), 200);
    std::fs::remove_dir_all(directory.path().join("data")).unwrap();
    assert_eq!(ready(), 500);
    let mut lines = BufReader::new(log).lines().map(Result::unwrap);
    let line = lines.find(|it| it.contains("ERROR")).unwrap();
    assert!(line.contains("data/store/LOCK was removed, moved or replaced"), "{line}");
    assert!(
        line.contains("all writes are lost when the plane stops: save what you need"),
        "{line}"
    );
}

#[test]
fn the_first_start_of_operators_does_not_warn_about_their_own_crds() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--controllers", "*", "--with", "network,vpc,custompod,sidecar"];
    let (plane, mut log) = Plane::with_log(directory.path(), &arguments);
    plane.kill();
    let mut text = String::new();
    log.read_to_string(&mut text).unwrap();
    assert!(text.contains("operators: network, vpc, custompod, sidecar\n"), "{text}");
    assert!(!text.contains("cannot list or watch"), "{text}");
}

#[test]
fn a_kubeconfig_is_private_and_keeps_other_entries() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let mine = "apiVersion: v1\nkind: Config\ncurrent-context: mine\nclusters:\n- name: mine\n  cluster: {server: 'https://example.com'}\ncontexts: []\nusers: []\n";
    std::fs::write(&path, mine).unwrap();
    let plane = Plane::embedded(directory.path());
    let text = std::fs::read_to_string(&plane.kubeconfig).unwrap();
    assert!(text.contains("https://example.com") && text.contains(&plane.url), "{text}");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_command_that_selects_the_context_names_the_kubeconfig_of_the_flag() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let mine = "apiVersion: v1\nkind: Config\ncurrent-context: mine\n";
    let notes = directory.path().join("notes");
    let flag = path.to_str().unwrap();
    let cases: [(&[&str], String); 2] = [
        (&["--kubeconfig", flag], format!("kubectl config --kubeconfig {flag} use-context sampan")),
        (&[], "kubectl config use-context sampan".to_owned()),
    ];
    for (arguments, expect) in cases {
        std::fs::write(&path, mine).unwrap();
        let mut command = up(directory.path());
        command.args(arguments).stdout(Stdio::piped());
        let mut process = command.stderr(File::create(&notes).unwrap()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|it| it.starts_with("ready in")));
        process.kill().unwrap();
        process.wait().unwrap();
        let notes = std::fs::read_to_string(&notes).unwrap();
        assert!(notes.contains(&format!("the current one: {expect}\n")), "{notes}");
    }
}

#[test]
fn wrong_values_of_flags_are_answered_with_right_ones() {
    for (arguments, expect) in [
        (["--nodes", "-1"], "a number from 0 to 10000"),
        (["--nodes", "10001"], "a number from 0 to 10000"),
        (["--quota-backend-bytes", "1G"], "a number of bytes, as in 1073741824"),
        (["--controllers", "*,-daemonsets"], "there is no controller \"daemonsets\": did you mean"),
    ] {
        let error = error_of(&[&["up", "--in-memory"], arguments.as_slice()].concat());
        assert!(error.contains(expect), "{error}");
        assert!(!error.contains("endpointslice"), "not all names: {error}");
    }
}

#[test]
fn a_missing_serving_certificate_is_the_only_error_of_a_start() {
    let error = error_of(&[
        "up",
        "--in-memory",
        "--listen",
        "127.0.0.1:0",
        "--tls-cert-file",
        "nope",
        "--tls-private-key-file",
        "nope",
    ]);
    assert!(error.starts_with("error: name a certificate and its key"), "{error}");
}

#[test]
fn a_plane_without_controllers_says_what_does_not_happen() {
    let directory = tempfile::tempdir().unwrap();
    let (plane, log) = Plane::with_log(directory.path(), &[]);
    plane.kill();
    let expect = "no controllers run: deployments get no pods, and deleted namespaces stay";
    let log = std::io::read_to_string(log).unwrap();
    assert!(log.lines().any(|it| it == expect), "{log}");
}

#[test]
fn a_data_directory_that_is_in_use_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let _plane = Plane::embedded(directory.path());
    let data = directory.path().join("data");
    let other = directory.path().join("other");
    let error = error_of(&[
        "up",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data.to_str().unwrap(),
        "--kubeconfig",
        other.to_str().unwrap(),
    ]);
    assert!(error.contains("data") && error.contains("in use"), "{error}");
    assert!(error.contains("--data-dir") && error.contains("--kubeconfig"), "{error}");
}

#[test]
fn a_second_start_on_the_same_port_and_data_names_the_plane_that_is_running() {
    let directory = tempfile::tempdir().unwrap();
    let plane = Plane::embedded(directory.path());
    let listen = plane.url.strip_prefix("https://").unwrap();
    let data = directory.path().join("data");
    let error = error_of(&["up", "--listen", listen, "--data-dir", data.to_str().unwrap()]);
    let expect = format!("already (process {})", plane.process.id());
    assert!(error.contains(&expect) && error.contains("--kubeconfig"), "{error}");
}

#[test]
fn the_context_of_a_running_plane_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let first = Plane::embedded(directory.path());
    let text = std::fs::read_to_string(&first.kubeconfig).unwrap();
    let file = first.kubeconfig.to_str().unwrap().to_owned();
    let second = ["up", "--in-memory", "--listen", "127.0.0.1:0", "--kubeconfig", &file];
    let error = error_of(&second);
    let expect = format!("belongs to a plane that is running at {}", first.url);
    assert!(error.contains(&expect) && error.contains("--kubeconfig ./"), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    first.kill();
    let third = Plane::embedded(directory.path());
    assert!(std::fs::read_to_string(&file).unwrap().contains(&third.url));
}

#[test]
fn creates_are_refused_at_the_size_limit_until_objects_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let plane = Plane::with_arguments(directory.path(), &["--quota-backend-bytes", "3000000"]);
    let mut client = plane.client();
    let maps = "/api/v1/namespaces/default/configmaps";
    let create = |client: &mut Client, name: &str| {
        let data = json!({"k": "x".repeat(900_000)});
        let map = json!({"metadata": {"name": name}, "data": data});
        client.send("POST", maps, Some(&map)).unwrap()
    };
    for name in ["a", "b", "c"] {
        assert_eq!(create(&mut client, name).0, 201);
    }
    let (code, status) = create(&mut client, "d");
    let message = status["message"].as_str().unwrap();
    assert!(code == 500 && message.contains("the limit of 3000000 bytes"), "{status}");
    assert_eq!(client.send("DELETE", &format!("{maps}/a"), None).unwrap().0, 200);
    assert_eq!(create(&mut client, "d").0, 201);
}

#[test]
fn unsupported_flags_and_plugins_are_refused_by_name() {
    assert!(error_of(&["up", "--etcd", "http://127.0.0.1:2379"]).contains("--etcd"));
    assert!(error_of(&["up", "--with", "nosuch"]).contains("--with accepts network, vpc"));
    assert!(error_of(&["up", "--with", "vpc"]).contains("--with network,vpc"));
    let unknown = error_of(&["up", "--controllers", "*,-nosuch"]);
    assert!(unknown.contains("there is no controller \"nosuch\""), "{unknown}");
    assert!(unknown.contains(", daemonset-controller"), "{unknown}");
    let with = |flag: &str, names: &str| error_of(&["up", "--in-memory", flag, names]);
    let absent = with("--enable-admission-plugins", "Priority,EventRateLimit");
    assert!(absent.contains("EventRateLimit cannot be enabled"), "{absent}");
    let unknown = with("--disable-admission-plugins", "Priorty");
    assert!(unknown.contains("unknown admission plugin \"Priorty\""), "{unknown}");
    assert!(unknown.contains(", Priority, "), "{unknown}");
    let required = with("--runtime-config", "api/beta=true,apps/v1=false");
    assert!(required.contains("apps/v1 cannot be turned off"), "{required}");
    assert!(error_of(&["up", "--in-memory", "--data-dir", "x"]).contains("cannot be used with"));
}

#[test]
fn the_error_of_a_port_in_use_suggests_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = error_of(&["up", "--in-memory", "--listen", &address]);
    assert!(error.contains(&address) && error.contains("in use"), "{error}");
    assert!(error.contains("--listen 127.0.0.1:"), "{error}");
}

#[test]
fn an_address_without_a_port_is_refused_with_examples() {
    let error = error_of(&["up", "--in-memory", "--listen", "8443"]);
    assert!(error.contains("localhost:8443") && error.contains("[::1]:6443"), "{error}");
}

#[test]
fn a_log_filter_that_does_not_parse_is_refused() {
    let output = sampan(&["--log", "apiserver=loud", "up", "--in-memory"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--log") && error.contains("\"debug\""), "{error}");
}

#[test]
fn the_error_of_an_unusable_data_directory_names_the_flags() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().join("data");
    let path = path.to_str().unwrap();
    let error = error_of(&["up", "--listen", "127.0.0.1:0", "--data-dir", path]);
    assert!(error.contains(&format!("stored in {path}")), "{error}");
    assert!(error.contains("--data-dir") && error.contains("--in-memory"), "{error}");
}

#[test]
fn a_log_filter_with_an_unknown_level_is_refused() {
    let error = error_of(&["--log", "verbose", "up", "--in-memory", "--listen", "127.0.0.1:0"]);
    assert!(error.contains("\"verbose\" is not a level: use one of"), "{error}");
}

#[test]
fn a_read_only_file_system_is_not_reported_as_full() {
    let error = error_of(&["up", "--listen", "127.0.0.1:0", "--data-dir", "/proc/sampan"]);
    assert!(error.starts_with("error: objects cannot be stored in /proc/sampan"), "{error}");
    assert!(!error.contains("space"), "{error}");
}

#[test]
fn the_error_of_an_unusable_file_or_network_names_a_remedy() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("text");
    std::fs::write(&text, "hello\n").unwrap();
    let (directory, text) = (directory.path().to_str().unwrap(), text.to_str().unwrap());
    for (flag, value, remedy) in [
        ("--kubeconfig", directory, "name another one with --kubeconfig"),
        ("--kubeconfig", text, "correct it, or name another with --kubeconfig"),
        ("--token-auth-file", "/no/file", "can be read with --token-auth-file"),
        ("--authorization-policy-file", "/no/file", "read with --authorization-policy-file"),
        ("--audit-policy-file", "/no/file", "name a valid one with --audit-policy-file"),
        ("--client-ca-file", "/no/file", "certificates with --client-ca-file"),
        ("--client-ca-file", text, "has no certificate in PEM"),
        ("--service-cidr", "10.0.0.0/32", "from /8 to /30"),
    ] {
        let error = error_of(&["up", "--in-memory", "--listen", "127.0.0.1:0", flag, value]);
        assert!(error.contains(remedy), "{flag} {value}: {error}");
    }
}

#[test]
fn help_lists_only_supported_flags_and_has_examples() {
    for command in [vec![], vec!["up"], vec!["bench"], vec!["completion"]] {
        let output = sampan(&[command.as_slice(), &["--help"]].concat());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && help.contains("Examples:"), "{command:?}: {help}");
        assert!(!help.contains("--etcd"), "{command:?} offers --etcd");
    }
}

#[test]
fn the_help_of_up_has_headings_and_its_short_form_the_first_flags() {
    let help = |flag: &str| String::from_utf8(sampan(&["up", flag]).stdout).unwrap();
    let (short, long) = (help("-h"), help("--help"));
    for flag in ["--listen", "--data-dir", "--in-memory", "--kubeconfig", "--nodes"] {
        assert!(short.contains(flag), "{flag}: {short}");
    }
    assert!(!short.contains("--audit-policy-file") && !short.contains("--client-ca-file"));
    assert!(short.contains("see more with '--help'"), "{short}");
    let position = |text: &str| long.find(text).unwrap_or_else(|| panic!("no {text}: {long}"));
    for (heading, flag) in [
        ("\nAuthentication:", "--oidc-issuer-url"),
        ("\nAuthentication:", "--anonymous-auth"),
        ("\nAuthorization:", "--authorization-mode"),
        ("\nAudit:", "--audit-log-path"),
        ("\nEncryption at rest:", "--encryption-provider-config"),
        ("\nLimits:", "--quota-backend-bytes"),
        ("\nLimits:", "--max-requests-inflight"),
    ] {
        assert!(position("\nOptions:") < position(heading), "{heading}");
        assert!(position(heading) < position(&format!("      {flag}")), "{flag}");
    }
}

#[test]
fn the_error_of_a_token_or_policy_file_names_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let path = path.to_str().unwrap();
    for (flag, content, mistake) in [
        ("--token-auth-file", "a,b,c\nt,alice,1,\"dev\n", "line 2 has a quote"),
        ("--authorization-policy-file", "\n{\n}\n", "line 2 ends before"),
        ("--authorization-policy-file", "kind: Policy\n", "line 1 is not a policy"),
    ] {
        std::fs::write(path, content).unwrap();
        let error = error_of(&["up", "--in-memory", flag, path]);
        assert!(error.contains(path) && error.contains(mistake), "{error}");
        assert_eq!(error.matches("line ").count(), 1, "{error}");
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let full = || Stdio::from(File::options().write(true).open("/dev/full").unwrap());
    for arguments in [&["--help"][..], &["completion", "bash"]] {
        let output = plane::sampan().args(arguments).stdout(full()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.starts_with("error: cannot write to standard output\n"), "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let output = up(directory.path()).stdout(full()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("cannot write to standard output"), "{error}");
    assert_closed_cleanly(directory.path());
}

#[test]
fn a_closed_pipe_and_a_full_standard_error_are_ignored() {
    let mut process = plane::sampan()
        .args(["completion", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    let full = File::options().write(true).open("/dev/full").unwrap();
    let arguments = ["bench", "--kubeconfig", "/no/such/file"];
    let status = plane::sampan().args(arguments).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn the_store_is_closed_if_the_kubeconfig_cannot_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = up(directory.path()).arg("--kubeconfig").arg(file.join("config")).output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(error.contains("cannot write") && error.contains("--kubeconfig"), "{error}");
    assert_closed_cleanly(directory.path());
}

/// The command `sampan up` with its data in a directory, on a free port.
fn up(directory: &Path) -> Command {
    let mut command = plane::sampan();
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data"));
    command.env("KUBECONFIG", directory.join("kubeconfig")).stdin(Stdio::null());
    command
}

/// Starts a plane on the data in a directory, which ends before it serves. Its store logs whether it
/// was closed before.
fn assert_closed_cleanly(directory: &Path) {
    let file = directory.join("no-directory");
    std::fs::write(&file, "").unwrap();
    let output = up(directory).arg("--kubeconfig").arg(file.join("config")).output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("cannot write"), "{log}");
    assert!(!log.contains("not closed cleanly"), "{log}");
}

/// Returns whether the certificate of the plane is valid for a name.
fn has_serving_name(plane: &Plane, name: &str) -> bool {
    let config = Arc::new(Credentials::read(&plane.kubeconfig).anonymous_tls());
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut tls = ClientConnection::new(config, name).unwrap();
    let mut stream = TcpStream::connect(plane.url.strip_prefix("https://").unwrap()).unwrap();
    tls.complete_io(&mut stream).is_ok()
}

#[test]
fn a_certificate_for_all_addresses_has_those_of_the_machine_and_its_host_name() {
    let mut plane = Plane::listening_on("0.0.0.0:0");
    assert!(plane.url.starts_with("https://127.0.0.1:"), "{}", plane.url);
    let kubeconfig = std::fs::read_to_string(&plane.kubeconfig).unwrap();
    assert!(kubeconfig.contains(&format!("server: {}", plane.url)), "{kubeconfig}");
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // No packet is sent; without a route to other machines there is no such address.
    let outside = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    for name in
        ["127.0.0.1".to_owned(), host].into_iter().chain(outside.map(|it| it.ip().to_string()))
    {
        assert!(has_serving_name(&plane, &name), "{name}");
    }
    signal(&plane, "TERM");
    assert_eq!(plane.process.wait().unwrap().code(), Some(0));
    let elsewhere = Plane::listening_on("localhost:0");
    assert!(
        has_serving_name(&elsewhere, "localhost") && !has_serving_name(&elsewhere, "192.0.2.77")
    );
}

#[test]
fn plain_http_on_the_tls_port_gets_an_explanation() {
    let plane = Plane::listening_on("127.0.0.1:0");
    let mut stream = TcpStream::connect(plane.url.strip_prefix("https://").unwrap()).unwrap();
    stream.write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.0 400 Bad Request\r\n"), "{response}");
    let text = "\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
    assert!(response.ends_with(text), "{response}");
}

#[cfg(unix)]
#[test]
fn the_program_behaves_as_kubectl_when_it_is_called_kubectl() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("kubectl");
    let program = std::fs::canonicalize(plane::sampan().get_program()).unwrap();
    std::os::unix::fs::symlink(program, &link).unwrap();
    let plane = Plane::in_memory();
    let run = |arguments: &[&str]| {
        let mut program = Command::new(&link);
        program.args(arguments).env("KUBECONFIG", &plane.kubeconfig).output().unwrap()
    };
    let namespace = run(&["-n", "default", "get", "namespace", "default", "-o", "name"]);
    assert_eq!(String::from_utf8_lossy(&namespace.stdout), "namespace/default\n");
    let unknown = run(&["up"]);
    assert_eq!(unknown.status.code(), Some(1));
    let message = String::from_utf8_lossy(&unknown.stderr);
    assert!(message.contains("unknown command \"up\" for \"kubectl\""), "{message}");
}
