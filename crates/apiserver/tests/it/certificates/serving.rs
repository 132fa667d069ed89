//! Serving certificates from files, chosen by the name that a client asks for.

use std::fs;
use std::path::Path;

use super::{TestAuthority, builder, connect_as, eventually, write};
use apiserver::certificates::LOOPBACK_NAME;
use apiserver::certificates::tls_settings::{
    KeyPairFiles, NamedCertificate, ServingSource, TlsSettings,
};
use tls::Trust;

fn files(directory: &Path, name: &str) -> KeyPairFiles {
    KeyPairFiles {
        certificate: directory.join(format!("{name}.crt")),
        key: directory.join(format!("{name}.key")),
    }
}

#[tokio::test]
async fn a_certificate_is_chosen_by_the_server_name() {
    let directory = tempfile::tempdir().unwrap();
    let issuer = TestAuthority::new("servers");
    let default = issuer.serving(&["default.example"]);
    let extracted = issuer.serving(&["one.example", "*.many.example"]);
    let explicit = issuer.serving(&["whatever.example"]);
    for (name, certified) in
        [("default", &default), ("extracted", &extracted), ("explicit", &explicit)]
    {
        write(directory.path(), name, certified);
    }
    let named = |name: &str, names: &[&str]| NamedCertificate {
        files: files(directory.path(), name),
        names: names.iter().map(|it| (*it).to_owned()).collect(),
    };
    let settings = TlsSettings {
        serving: ServingSource::Files(files(directory.path(), "default")),
        named: vec![
            named("extracted", &[]),
            named("explicit", &["two.example", "exact.many.example", "127.0.0.1"]),
        ],
        ..TlsSettings::default()
    };
    let plane = builder().config(|config| config.tls = settings).start().await;
    for (host, expected) in [
        ("default.example", &default),
        ("other.example", &default),
        ("one.example", &extracted),
        ("ONE.example", &extracted),
        ("a.many.example", &extracted),
        ("a.b.many.example", &default),
        ("many.example", &default),
        ("two.example", &explicit),
        ("exact.many.example", &explicit),
        ("whatever.example", &default),
        // A client that connects to an address does not send its name.
        ("127.0.0.1", &explicit),
    ] {
        let connection = connect_as(&plane, host, &Trust::Insecure, None).await.unwrap();
        assert!(connection.presents(expected), "{host}");
    }
    let trust = Trust::CaBundle(plane.server().authority().into());
    let admin = plane.server().admin().unwrap();
    let mut own = connect_as(&plane, LOOPBACK_NAME, &trust, Some(&admin)).await.unwrap();
    assert_eq!(own.user().await, Some(Ok("sampan-admin".to_owned())), "as in the kubeconfig");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn a_plane_does_not_start_with_files_that_do_not_belong_together() {
    let directory = tempfile::tempdir().unwrap();
    let issuer = TestAuthority::new("servers");
    write(directory.path(), "one", &issuer.serving(&["one.example"]));
    write(directory.path(), "two", &issuer.serving(&["two.example"]));
    let (one, two) = (files(directory.path(), "one"), files(directory.path(), "two"));
    let mixed = KeyPairFiles { key: two.key, ..one.clone() };
    let absent = KeyPairFiles { key: directory.path().join("absent"), ..one };
    for files in [mixed, absent] {
        let settings =
            TlsSettings { serving: ServingSource::Files(files), ..TlsSettings::default() };
        let error = builder().config(|config| config.tls = settings).try_start().await;
        let error = error.err().unwrap();
        let text = format!("{error:?}");
        assert!(keel::message_with_causes(&error).contains("one.crt") || text.contains("absent"));
        assert!(!text.contains("PRIVATE KEY"), "{text}");
    }
}

#[tokio::test]
async fn a_directory_without_a_certificate_gets_that_of_the_plane() {
    let directory = tempfile::tempdir().unwrap();
    let certificates = directory.path().join("certificates");
    let start = async || {
        let files = KeyPairFiles::in_directory(&certificates);
        let serving = ServingSource::IssuedFiles(files);
        builder().config(|config| config.tls.serving = serving).start().await
    };
    let plane = start().await;
    let trust = Trust::CaBundle(plane.server().authority().into());
    let connection = connect_as(&plane, "localhost", &trust, None).await.unwrap();
    let written = KeyPairFiles::in_directory(&certificates).read().unwrap();
    assert!(connection.presents(&written));
    drop(connection);
    plane.stop().await.unwrap();

    let plane = start().await;
    let trust = Trust::CaBundle(plane.server().authority().into());
    assert!(connect_as(&plane, "localhost", &trust, None).await.is_some(), "of another plane");
    plane.stop().await.unwrap();

    let foreign = TestAuthority::new("servers").serving(&["localhost"]);
    write(&certificates, "apiserver", &foreign);
    let plane = start().await;
    let connection = connect_as(&plane, "localhost", &Trust::Insecure, None).await.unwrap();
    assert!(connection.presents(&foreign));
    drop(connection);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn files_that_are_removed_while_the_plane_runs_are_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let files = KeyPairFiles::in_directory(directory.path());
    let foreign = TestAuthority::new("servers").serving(&["localhost"]);
    write(directory.path(), "apiserver", &foreign);
    let serving = ServingSource::IssuedFiles(files.clone());
    let plane = builder().config(|config| config.tls.serving = serving).start().await;
    let trust = Trust::CaBundle(plane.server().authority().into());
    assert!(connect_as(&plane, "localhost", &trust, None).await.is_none());
    // First the foreign files, then those that the plane has written.
    for removed in
        [vec![&files.certificate, &files.key], vec![&files.key], vec![&files.certificate]]
    {
        for path in removed {
            fs::remove_file(path).unwrap();
        }
        eventually(&plane, "the files of the plane", async || {
            let Ok(written) = files.read() else { return false };
            let connection = connect_as(&plane, "localhost", &trust, None).await;
            connection.is_some_and(|it| it.presents(&written))
        })
        .await;
    }
    plane.stop().await.unwrap();
}
