//! `sampan certs` beside a running plane.

use std::io::{BufRead, BufReader};
use std::sync::mpsc;
use std::time::Duration;

use crate::plane::{Plane, sampan};

/// The time within which a plane uses new files, which it reads every five seconds.
const LIMIT: Duration = Duration::from_mins(1);

/// The beginning of a certificate in PEM.
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";

#[test]
fn the_kubeconfig_of_a_running_plane_follows_its_authority() {
    let directory = tempfile::tempdir().unwrap();
    let (plane, notes) = Plane::with_log(directory.path(), &[]);
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
    let rotated = sampan().args(["certs", "rotate", "--data-dir"]).arg(&data).output().unwrap();
    let advice = String::from_utf8(rotated.stderr).unwrap();
    assert!(advice.contains("then need `sampan user add NAME` again"), "{advice}");
    wait();
    assert_eq!(code(), 200, "with a certificate of the new authority");

    let authority = data.join("pki/ca.crt");
    let bundle = std::fs::read_to_string(&authority).unwrap();
    assert_eq!(bundle.matches(BEGIN).count(), 2);
    let second = bundle.rfind(BEGIN).unwrap();
    std::fs::write(&authority, &bundle[..second]).unwrap();
    wait();
    assert_eq!(code(), 200, "the old authority is gone");
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
