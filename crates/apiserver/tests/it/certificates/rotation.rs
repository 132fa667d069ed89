//! Rotation of certificates and authorities without a restart.

use std::fs;
use std::time::Duration;

use http::HeaderName;
use rcgen::{CertificateParams, KeyPair};

use super::{
    INTERVAL, TestAuthority, builder, client_params, connect, connect_as, eventually, user, write,
};
use apiserver::auth::authentication::client_authorities::ClientAuthorities;
use apiserver::auth::authentication::request_header::RequestHeaderSettings;
use apiserver::certificates::authority_files::AuthorityFiles;
use apiserver::certificates::tls_settings::{KeyPairFiles, NamedCertificate, ServingSource};
use keel::Clock;
use testenv::TestEnv;
use tls::{Certified, Trust};

#[tokio::test]
async fn a_serving_certificate_is_read_again_and_open_connections_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let issuer = TestAuthority::new("servers");
    let (first, second) = (issuer.serving(&["localhost"]), issuer.serving(&["localhost"]));
    write(path, "apiserver", &first);
    let serving = ServingSource::Files(KeyPairFiles::in_directory(path));
    let plane = builder().config(|config| config.tls.serving = serving).start().await;
    let trust = Trust::CaBundle(issuer.certificate.as_str().into());
    let admin = plane.server().admin().unwrap();
    let mut open = connect_as(&plane, "localhost", &trust, Some(&admin)).await.unwrap();
    assert!(open.presents(&first));

    for damaged in ["", &second.certificate, &second.certificate[..100]] {
        fs::write(path.join("apiserver.crt"), damaged).unwrap();
        for _ in 0..3 {
            plane.advance(INTERVAL);
            let connection = connect_as(&plane, "localhost", &trust, None).await.unwrap();
            assert!(connection.presents(&first), "the key is still that of the first");
        }
    }
    write(path, "apiserver", &second);
    eventually(&plane, "the second certificate", async || {
        connect_as(&plane, "localhost", &trust, None).await.unwrap().presents(&second)
    })
    .await;
    assert_eq!(open.user().await, Some(Ok("sampan-admin".to_owned())));
    drop(open);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn authorities_of_clients_are_read_again_also_for_open_connections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clients.crt");
    let (first, second) = (TestAuthority::new("first"), TestAuthority::new("second"));
    fs::write(&path, &first.certificate).unwrap();
    let clients = ClientAuthorities::read(&path).unwrap();
    let plane = builder().config(|config| config.client_authorities = clients).start().await;
    let (alice, bob) = (first.sign(&client_params("alice")), second.sign(&client_params("bob")));
    let admin = plane.server().admin().unwrap();
    let mut of_alice = connect(&plane, Some(&alice)).await.unwrap();
    let mut of_admin = connect(&plane, Some(&admin)).await.unwrap();
    assert_eq!(of_alice.user().await, Some(Ok("alice".to_owned())));
    assert_eq!(user(&plane, Some(&bob)).await, Some(Err(401)));

    fs::write(&path, &second.certificate).unwrap();
    eventually(&plane, "the second authority", async || {
        user(&plane, Some(&bob)).await == Some(Ok("bob".to_owned()))
    })
    .await;
    assert_eq!(user(&plane, Some(&alice)).await, Some(Err(401)), "a new connection");
    assert_eq!(of_alice.user().await, Some(Err(401)), "an open connection");
    assert_eq!(of_admin.user().await, Some(Ok("sampan-admin".to_owned())));
    let map = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    eventually(&plane, "the config map of aggregated servers", async || {
        let bundle = plane.read(map).await["data"]["client-ca-file"].clone();
        bundle.as_str().unwrap().contains(second.certificate.lines().nth(1).unwrap())
    })
    .await;
    drop((of_alice, of_admin));
    plane.stop().await.unwrap();
}

/// The number of files whose previous content is in effect, in the metrics.
async fn unusable_files(plane: &TestEnv) -> u32 {
    let metrics = plane.get_as("/metrics", "*/*").await;
    let metrics = String::from_utf8(metrics.bytes.to_vec()).unwrap();
    let count = |it: &str| it.strip_prefix("apiserver_unusable_certificate_files ")?.parse().ok();
    metrics.lines().find_map(count).unwrap()
}

#[tokio::test]
async fn an_authority_is_no_longer_trusted_while_other_files_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let clients = path.join("clients.crt");
    let (first, second) = (TestAuthority::new("first"), TestAuthority::new("second"));
    fs::write(&clients, &first.certificate).unwrap();
    let served = first.serving(&["a.example"]);
    write(path, "a", &served);
    let files = KeyPairFiles { certificate: path.join("a.crt"), key: path.join("a.key") };
    let named = NamedCertificate { files, names: Vec::new() };
    let authorities = ClientAuthorities::read(&clients).unwrap();
    let plane = builder().data_dir(&path.join("data")).config(|config| {
        config.client_authorities = authorities;
        config.tls.named = vec![named];
    });
    let plane = plane.start().await;
    let old_admin = plane.server().admin().unwrap();
    let [alice, bob] = [(&first, "alice"), (&second, "bob")]
        .map(|(authority, name)| authority.sign(&client_params(name)));

    fs::remove_file(&clients).unwrap();
    fs::write(path.join("a.crt"), "").unwrap();
    eventually(&plane, "two files that cannot be used", async || unusable_files(&plane).await == 2)
        .await;
    let pki = path.join("data/pki");
    AuthorityFiles::new(&pki).rotate(Clock::system().now()).unwrap();
    AuthorityFiles::new(&pki).distrust_predecessors(Clock::system().now()).unwrap();
    eventually(&plane, "the old authority is no longer trusted", async || {
        user(&plane, Some(&old_admin)).await == Some(Err(401))
    })
    .await;
    let new_admin = plane.server().admin().unwrap();
    assert_eq!(user(&plane, Some(&new_admin)).await, Some(Ok("sampan-admin".to_owned())));
    assert_eq!(user(&plane, Some(&alice)).await, Some(Ok("alice".to_owned())), "the last content");
    let trust = Trust::CaBundle(first.certificate.as_str().into());
    let connection = connect_as(&plane, "a.example", &trust, None).await.unwrap();
    assert!(connection.presents(&served));

    // The one that is read again counts, while the other one is still damaged.
    fs::write(&clients, &second.certificate).unwrap();
    eventually(&plane, "the second authority", async || {
        user(&plane, Some(&bob)).await == Some(Ok("bob".to_owned()))
    })
    .await;
    assert_eq!(user(&plane, Some(&alice)).await, Some(Err(401)));
    assert_eq!(unusable_files(&plane).await, 1);
    drop(connection);
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn an_authority_is_no_longer_trusted_while_users_would_become_proxies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (users, proxies) = (TestAuthority::new("users"), TestAuthority::new("proxies"));
    let [users_file, proxies_file] = ["users", "proxies"].map(|it| path.join(it));
    fs::write(&users_file, &users.certificate).unwrap();
    fs::write(&proxies_file, &proxies.certificate).unwrap();
    let settings = RequestHeaderSettings {
        authorities: ClientAuthorities::read(&proxies_file).unwrap(),
        allowed_names: Vec::new(),
        username_headers: vec![HeaderName::from_static("x-remote-user")],
        uid_headers: Vec::new(),
        group_headers: Vec::new(),
        extra_prefixes: Vec::new(),
    };
    let authorities = ClientAuthorities::read(&users_file).unwrap();
    let plane = builder().data_dir(&path.join("data")).config(|config| {
        config.client_authorities = authorities;
        config.request_header = Some(settings.into());
    });
    let plane = plane.start().await;
    let old_admin = plane.server().admin().unwrap();
    let alice = users.sign(&client_params("alice"));
    let named = async || {
        let mut connection = connect(&plane, Some(&alice)).await.unwrap();
        connection.user_with(&[("x-remote-user", "mallory")]).await
    };
    assert_eq!(named().await, Some(Ok("alice".to_owned())));

    fs::write(&proxies_file, &users.certificate).unwrap();
    eventually(&plane, "the overlap", async || unusable_files(&plane).await == 1).await;
    let pki = path.join("data/pki");
    AuthorityFiles::new(&pki).rotate(Clock::system().now()).unwrap();
    AuthorityFiles::new(&pki).distrust_predecessors(Clock::system().now()).unwrap();
    eventually(&plane, "the old authority is no longer trusted", async || {
        user(&plane, Some(&old_admin)).await == Some(Err(401))
    })
    .await;
    assert_eq!(named().await, Some(Ok("alice".to_owned())), "she is no proxy");
    plane.stop().await.unwrap();
}

#[tokio::test]
async fn the_serving_certificate_of_the_plane_is_renewed() {
    let plane = builder().start().await;
    let chain = async || {
        connect_as(&plane, "localhost", &Trust::Insecure, None).await.unwrap().chain.clone()
    };
    let first = chain().await;
    plane.advance(Duration::from_hours(24 * 240));
    for _ in 0..3 {
        plane.advance(INTERVAL);
        assert!(chain().await == first, "a third of its lifetime remains");
    }
    plane.advance(Duration::from_hours(24 * 10));
    eventually(&plane, "a renewal", async || chain().await != first).await;
    plane.stop().await.unwrap();
}

/// A certificate signing request of a user, and its key.
fn request(name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params: CertificateParams = client_params(name);
    params.extended_key_usages.clear();
    (params.serialize_request(&key).unwrap().pem().unwrap(), key.serialize_pem())
}

#[tokio::test]
async fn the_authority_is_rotated_and_old_kubeconfigs_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let plane = builder().data_dir(directory.path()).start().await;
    let (old_authority, old_admin) = (plane.server().authority(), plane.server().admin().unwrap());
    let admin = || Some(Ok("sampan-admin".to_owned()));
    let mut open = connect(&plane, Some(&old_admin)).await.unwrap();

    let files = AuthorityFiles::new(&directory.path().join("pki"));
    let rotated = files.rotate(Clock::system().now()).unwrap();
    let new_authority = rotated.certificate().to_owned();
    let (old, new) = (
        Trust::CaBundle(old_authority.as_str().into()),
        Trust::CaBundle(new_authority.as_str().into()),
    );
    eventually(&plane, "the new authority", async || {
        connect_as(&plane, "localhost", &new, None).await.is_some()
    })
    .await;
    assert_eq!(plane.server().authority(), format!("{new_authority}{old_authority}"));
    let new_admin = plane.server().admin().unwrap();
    for (trust, client) in [(&old, &old_admin), (&old, &new_admin), (&new, &old_admin)] {
        let mut connection = connect_as(&plane, "localhost", trust, Some(client)).await.unwrap();
        assert_eq!(connection.user().await, admin());
    }
    assert_eq!(open.user().await, admin());

    let (request, key) = request("carol");
    let usages = ["client auth".to_owned(), "digital signature".to_owned()];
    let keys = plane.server().signing_keys();
    let signed =
        keys.sign_certificate(request.as_bytes(), &usages, Duration::from_hours(1)).unwrap();
    let carol = Certified { certificate: signed, key };
    assert_eq!(user(&plane, Some(&carol)).await, Some(Ok("carol".to_owned())), "a signer");

    fs::write(directory.path().join("pki/ca.crt"), &new_authority).unwrap();
    eventually(&plane, "the old authority is no longer trusted", async || {
        user(&plane, Some(&old_admin)).await == Some(Err(401))
    })
    .await;
    assert_eq!(open.user().await, Some(Err(401)));
    assert_eq!(user(&plane, Some(&new_admin)).await, admin());
    assert_eq!(user(&plane, Some(&carol)).await, Some(Ok("carol".to_owned())));
    drop((open, keys));
    plane.stop().await.unwrap();
}
