//! `sampan certs` beside a running plane.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use tokio::time::Instant;

use crate::http::Credentials;
use crate::plane::{Plane, sampan};
use apiserver::certificates::Authority;
use keel::Clock;

/// The time within which a plane uses new files, which it reads every five seconds.
const LIMIT: Duration = Duration::from_mins(1);

/// The beginning of a certificate in PEM.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

#[test]
fn the_kubeconfig_of_a_running_plane_follows_its_authority() {
    let directory = tempfile::tempdir().unwrap();
    let (plane, notes) = Plane::with_log(directory.path(), &["--controllers", "*"]);
    let (data, kubeconfig) = (directory.path().join("data"), &plane.kubeconfig);
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(notes).lines().map_while(Result::ok);
        lines.for_each(|it| drop(sender.send(it)));
    });
    let expect = format!(
        "the certificate authority has changed: kubeconfig {} was written again",
        kubeconfig.display()
    );
    let wait = || while received.recv_timeout(LIMIT).expect("no such note") != expect {};
    let code = || plane.client().send("GET", "/api/v1/nodes", None).unwrap().0;
    assert_eq!(code(), 200);
    let run = |line: &str| {
        let mut program = sampan();
        program.args(line.split_whitespace()).env("KUBECONFIG", kubeconfig);
        if line.starts_with("certs") {
            program.arg("--data-dir").arg(&data);
        }
        let output = program.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(text).unwrap();
        assert!(output.status.success(), "{line}: {text}");
        text
    };
    let holder = format!("process {}", plane.process.id());
    assert!(run("certs distrust-old").starts_with("no old authority is trusted in"));
    let file = directory.path().join("jane").display().to_string();
    run(&format!("user add jane --output {file}"));
    run("user add kim");
    let advice = run("certs rotate");
    assert!(advice.contains("then need `sampan user add NAME` again"), "{advice}");
    let used = format!("({holder}) uses it now, and has written its kubeconfig again\n");
    assert!(advice.contains(&used), "{advice}");
    let trusted = Credentials::read(kubeconfig).authority;
    assert_eq!(trusted, std::fs::read(data.join("pki/ca.crt")).unwrap());
    wait();
    run("user add kim");
    assert_eq!(code(), 200, "with a certificate of the new authority");

    let authority = data.join("pki/ca.crt");
    let bundle = std::fs::read_to_string(&authority).unwrap();
    assert_eq!(bundle.matches(BEGIN).count(), 2);
    let old = directory.path().join("old");
    std::fs::copy(&file, &old).unwrap();
    let said = run("certs distrust-old");
    let refused = sampan().args(["auth", "whoami", "--kubeconfig"]).arg(&old).output().unwrap();
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.contains("(Unauthorized)"), "the command has waited: {refused}");
    assert!(said.starts_with("1 old authority removed from"), "{said}");
    assert!(said.contains("files of theirs with an older one stop working: kim\n"), "{said}");
    assert!(said.ends_with("with --output for a file of their own: jane\n"), "{said}");
    let remaining = std::fs::read_to_string(&authority).unwrap();
    assert_eq!((remaining.matches(BEGIN).count(), bundle.starts_with(&remaining)), (1, true));
    wait();
    assert_eq!(code(), 200, "the old authority is gone");
    let deadline = Instant::now() + LIMIT;
    let is_refused = |list: &str| {
        let jane = list.lines().find(|it| it.starts_with("jane")).unwrap();
        jane.ends_with("(not accepted)")
    };
    // The bundle that the cluster publishes follows.
    while !is_refused(&run("user list")) {
        assert!(Instant::now() < deadline, "jane's certificate still counts");
    }
    run(&format!("user add jane --output {file}"));
    let renewed = Credentials::read(Path::new(&file)).authority;
    assert_eq!(renewed, remaining.as_bytes(), "the old authority is not trusted");
    run(&format!("auth whoami --kubeconfig {file}"));
}

#[test]
fn a_rotation_before_the_first_start_says_what_makes_a_plane() {
    let directory = tempfile::tempdir().unwrap();
    let output = sampan().args(["certs", "rotate", "--data-dir"]).arg(directory.path()).output();
    let error = String::from_utf8(output.unwrap().stderr).unwrap();
    let expect =
        format!("there is no plane in {} yet: `sampan up` makes", directory.path().display());
    assert!(error.contains(&expect), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn the_default_directory_is_refused_while_the_context_is_that_of_another_plane() {
    let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let data = home.path().join("sampan");
    Authority::open(&data.join("pki"), Clock::system().now()).unwrap();
    let before = std::fs::read(data.join("pki/ca.crt")).unwrap();
    let plane = Plane::embedded(other.path());
    let certs = |line: &str, more: &[&str]| {
        let mut program = sampan();
        program.args(["certs", line]).args(more).env("XDG_DATA_HOME", home.path());
        let output = program.env("KUBECONFIG", &plane.kubeconfig).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
        (output.status.success(), out + &err)
    };
    for line in ["rotate", "distrust-old"] {
        let (is_done, said) = certs(line, &[]);
        let expect = format!("is not one of the plane in {}, the default", data.display());
        assert!(!is_done && said.contains(&expect) && said.contains("--data-dir"), "{said}");
    }
    assert_eq!(std::fs::read(data.join("pki/ca.crt")).unwrap(), before);
    let named = ["--data-dir", data.to_str().unwrap()];
    let (is_done, said) = certs("rotate", &named);
    let expect = format!("no plane runs with the data in {}: its next", data.display());
    assert!(is_done && said.contains(&expect), "{said}");
    let (is_done, said) = certs("distrust-old", &named);
    assert!(is_done && said.contains("is not known: the context \"sampan\" in"), "{said}");
    assert!(said.contains("is not one of this plane; `sampan user list` says it"), "{said}");
}
