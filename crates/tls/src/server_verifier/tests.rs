//! Tests whose expected decisions are those of Go's `crypto/x509` for the same certificates.

use rcgen::{
    BasicConstraints, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::fixtures::{TestCertificate, authority, decision, now, params, self_signed, signed};

/// The decision about `presented`, in 2030, for a server that is called `name`.
fn decide(
    roots: &[&TestCertificate],
    presented: &[&TestCertificate],
    name: &str,
) -> Result<(), String> {
    let bundle: Vec<&str> = roots.iter().map(|it| it.pem.as_str()).collect();
    let bundle = bundle.join("# between certificates\n");
    let verifier =
        ServerVerifier::new(Roots::from_pem(bundle.as_bytes()), Arc::new(ring::default_provider()));
    let intermediates: Vec<_> = presented[1..].iter().map(|it| it.der.clone()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    decision(verifier.verify_server_cert(&presented[0].der, &intermediates, &name, &[], now()))
}

fn refused(why: &str) -> Result<(), String> {
    Err(why.to_owned())
}

#[test]
fn a_certificate_in_the_bundle_is_accepted_independently_of_its_issuer() {
    let unrelated = self_signed(authority("unrelated"));
    let serving = signed(params("a.svc"), &unrelated);
    assert_eq!(decide(&[&serving], &[&serving], "a.svc"), Ok(()));
    assert_eq!(decide(&[&unrelated, &serving], &[&serving], "a.svc"), Ok(()));
    let other = signed(params("a.svc"), &unrelated);
    assert_eq!(decide(&[&other], &[&serving], "a.svc"), refused("UnknownIssuer"));
}

#[test]
fn a_self_signed_certificate_is_accepted_whether_or_not_it_is_an_authority() {
    for certificate in [self_signed(params("a.svc")), self_signed(authority("a.svc"))] {
        assert_eq!(decide(&[&certificate], &[&certificate], "a.svc"), Ok(()));
        let name = "certificate is valid for a.svc, not b.svc";
        assert_eq!(decide(&[&certificate], &[&certificate], "b.svc"), refused(name));
    }
}

#[test]
fn an_authority_that_was_signed_by_a_root_may_serve() {
    let root = self_signed(authority("root"));
    let middle = signed(authority("middle"), &root);
    let serving = signed(authority("a.svc"), &middle);
    assert_eq!(decide(&[&root], &[&serving, &middle], "a.svc"), Ok(()));
    assert_eq!(decide(&[&middle], &[&serving], "a.svc"), Ok(()));
    assert_eq!(decide(&[&root], &[&serving], "a.svc"), refused("UnknownIssuer"));
    let same_name = self_signed(authority("root"));
    assert_eq!(decide(&[&same_name], &[&serving, &middle], "a.svc"), refused("UnknownIssuer"));
}

#[test]
fn a_root_with_path_length_zero_refuses_intermediates() {
    let mut params = authority("root");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let root = self_signed(params);
    let middle = signed(authority("middle"), &root);
    let serving = signed(authority("a.svc"), &middle);
    assert_eq!(decide(&[&root], &[&serving, &middle], "a.svc"), refused("UnknownIssuer"));
    let serving = signed(authority("a.svc"), &root);
    assert_eq!(decide(&[&root], &[&serving], "a.svc"), Ok(()));
}

#[test]
fn only_an_authority_with_the_usage_cert_sign_is_an_issuer() {
    let leaf = self_signed(params("leaf"));
    let serving = signed(params("a.svc"), &leaf);
    assert_eq!(decide(&[&leaf], &[&serving], "a.svc"), refused("UnknownIssuer"));
    let mut root_params = authority("root");
    root_params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let root = self_signed(root_params);
    let serving = signed(params("a.svc"), &root);
    assert_eq!(decide(&[&root], &[&serving], "a.svc"), refused("UnknownIssuer"));
}

#[test]
fn an_expired_certificate_is_refused_also_as_a_root() {
    let mut old = authority("a.svc");
    old.not_after = date_time_ymd(2029, 1, 1);
    let expired = self_signed(old.clone());
    assert_eq!(decide(&[&expired], &[&expired], "a.svc"), refused("ExpiredContext"));
    let serving = signed(params("a.svc"), &expired);
    assert_eq!(decide(&[&expired], &[&serving], "a.svc"), refused("UnknownIssuer"));
    let root = self_signed(authority("root"));
    assert_eq!(decide(&[&root], &[&signed(old, &root)], "a.svc"), refused("ExpiredContext"));
    let mut early = authority("a.svc");
    early.not_before = date_time_ymd(2035, 1, 1);
    let early = self_signed(early);
    assert_eq!(decide(&[&early], &[&early], "a.svc"), refused("NotValidYetContext"));
}

#[test]
fn a_client_certificate_is_refused_for_a_server() {
    let mut client = authority("a.svc");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client = self_signed(client);
    assert_eq!(decide(&[&client], &[&client], "a.svc"), refused("InvalidPurpose"));
    let mut server = authority("a.svc");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let server = self_signed(server);
    assert_eq!(decide(&[&server], &[&server], "a.svc"), Ok(()));
}

#[test]
fn names_are_compared_as_in_go() {
    let root = self_signed(authority("root"));
    let mut wild = params("*.svc");
    wild.distinguished_name.push(DnType::CommonName, "b");
    let wild = signed(wild, &root);
    assert_eq!(decide(&[&root], &[&wild], "a.svc"), Ok(()));
    assert_eq!(decide(&[&root], &[&wild], "A.Svc"), Ok(()));
    let why = "certificate is valid for *.svc, not a.b.svc";
    assert_eq!(decide(&[&root], &[&wild], "a.b.svc"), refused(why));
    let why = "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs";
    assert_eq!(decide(&[&root], &[&wild], "127.0.0.1"), refused(why));
    let address = signed(params("127.0.0.1"), &root);
    assert_eq!(decide(&[&root], &[&address], "127.0.0.1"), Ok(()));
    let why = "certificate is valid for 127.0.0.1, not 127.0.0.2";
    assert_eq!(decide(&[&root], &[&address], "127.0.0.2"), refused(why));
    let mut nameless = params("a.svc");
    nameless.subject_alt_names.clear();
    let nameless = self_signed(nameless);
    let why = "certificate relies on legacy Common Name field, use SANs instead";
    assert_eq!(decide(&[&nameless], &[&nameless], "a.svc"), refused(why));
    let why = "certificate is not valid for any names, but wanted to match b.svc";
    assert_eq!(decide(&[&nameless], &[&nameless], "b.svc"), refused(why));
}

#[test]
fn names_outside_the_name_constraints_of_a_root_are_refused() {
    let mut root_params = authority("root");
    let permitted_subtrees = vec![GeneralSubtree::DnsName("good".to_owned())];
    root_params.name_constraints =
        Some(NameConstraints { permitted_subtrees, excluded_subtrees: vec![] });
    let root = self_signed(root_params);
    assert_eq!(decide(&[&root], &[&signed(params("a.good"), &root)], "a.good"), Ok(()));
    assert!(decide(&[&root], &[&signed(params("a.bad"), &root)], "a.bad").is_err());
    assert!(decide(&[&root], &[&signed(authority("a.bad"), &root)], "a.bad").is_err());
}

#[test]
fn text_and_malformed_certificates_in_a_bundle_are_ignored() {
    let root = self_signed(authority("root"));
    let other = self_signed(authority("other"));
    let serving = signed(params("a.svc"), &root);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\nsubject=CN\n";
    let bundle = format!("hello\n{garbage}{}\n{}", other.pem, root.pem);
    let roots = Roots::from_pem(bundle.as_bytes());
    assert!(roots.contains(&CertificateDer::from_pem_slice(root.pem.as_bytes()).unwrap()));
    assert!(!roots.contains(&serving.der));
    assert!(Roots::from_pem(garbage.as_bytes()).is_empty());
}
