//! One table of chains, and the decision of both verifiers about each of them.
//!
//! The decisions are those of Go's `crypto/x509`, except where a case says otherwise.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose::{self, ClientAuth, ServerAuth};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, GeneralSubtree, IsCa, KeyUsagePurpose,
    NameConstraints, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::fixtures::{
    TestCertificate, authority, decision, mismatched_algorithms, now, params, self_signed, signed,
    trailing_byte, unknown_extension, version_1,
};
use crate::{ClientVerifier, Roots, ServerVerifier};

/// The name of every end entity.
const NAME: &str = "a.svc";

/// The verifier under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verifier {
    Server,
    Client,
}

/// End entities without and with the CA flag. webpki refuses the latter (`CaUsedAsEndEntity`), so
/// `chain.rs` verifies them alone; Go accepts both.
const LEAVES: [fn(&str) -> CertificateParams; 2] = [params, authority];

/// Checks that both verifiers refuse `presented` for the reason `expected`, or accept it without one.
fn check(
    case: &str,
    roots: &[&TestCertificate],
    presented: &[&TestCertificate],
    expected: Option<&str>,
) {
    for verifier in [Verifier::Server, Verifier::Client] {
        check_one(verifier, case, roots, presented, expected);
    }
}

fn check_one(
    verifier: Verifier,
    case: &str,
    roots: &[&TestCertificate],
    presented: &[&TestCertificate],
    expected: Option<&str>,
) {
    let expected = expected.map_or(Ok(()), |it| Err(it.to_owned()));
    assert_eq!(decide(verifier, roots, presented), expected, "{verifier:?}: {case}");
}

fn decide(
    verifier: Verifier,
    roots: &[&TestCertificate],
    presented: &[&TestCertificate],
) -> Result<(), String> {
    let provider = Arc::new(ring::default_provider());
    let authorities: Vec<CertificateDer<'static>> =
        roots.iter().map(|root| root.der.clone()).collect();
    let intermediates: Vec<_> = presented[1..].iter().map(|it| it.der.clone()).collect();
    let end_entity = &presented[0].der;
    match verifier {
        Verifier::Server => {
            let name = ServerName::try_from(NAME).unwrap();
            let verifier = ServerVerifier::new(Roots::new(authorities), provider);
            decision(verifier.verify_server_cert(end_entity, &intermediates, &name, &[], now()))
        }
        Verifier::Client => {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(authorities.clone());
            let inner =
                WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider))
                    .build()
                    .unwrap();
            let verifier = ClientVerifier::new(inner, Roots::new(authorities), provider);
            decision(verifier.verify_client_cert(end_entity, &intermediates, now()))
        }
    }
}

fn with(
    mut params: CertificateParams,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    change(&mut params);
    params
}

fn critical(params: CertificateParams) -> CertificateParams {
    with(params, |params| params.custom_extensions.push(unknown_extension(true)))
}

fn expired(params: CertificateParams) -> CertificateParams {
    with(params, |params| params.not_after = date_time_ymd(2029, 1, 1))
}

fn usage(params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> CertificateParams {
    with(params, |params| params.extended_key_usages = vec![usage])
}

fn path_length(params: CertificateParams, length: u8) -> CertificateParams {
    with(params, |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(length)))
}

fn no_signing(params: CertificateParams) -> CertificateParams {
    with(params, |params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature])
}

fn permitted(params: CertificateParams, subtree: GeneralSubtree) -> CertificateParams {
    let constraints =
        NameConstraints { permitted_subtrees: vec![subtree], excluded_subtrees: vec![] };
    with(params, |params| params.name_constraints = Some(constraints))
}

#[test]
fn a_chain_of_signatures_to_a_root_is_accepted() {
    let root = self_signed(authority("root"));
    let middle = signed(authority("middle"), &root);
    let same_name = self_signed(authority("root"));
    for leaf in LEAVES {
        let end = signed(leaf(NAME), &root);
        check("directly", &[&root], &[&end], None);
        check("a root with the same name comes first", &[&same_name, &root], &[&end], None);
        check("the other root", &[&same_name], &[&end], Some("UnknownIssuer"));
        let end = signed(leaf(NAME), &middle);
        check("with an intermediate", &[&root], &[&end, &middle], None);
        check("without it", &[&root], &[&end], Some("UnknownIssuer"));
        check("the intermediate is a root", &[&middle], &[&end], None);
    }
}

#[test]
fn a_certificate_in_the_bundle_is_accepted() {
    let unrelated = self_signed(authority("unrelated"));
    for leaf in LEAVES {
        let leaf_root = self_signed(leaf(NAME));
        check("self-signed", &[&leaf_root], &[&leaf_root], None);
        check(
            "self-signed, not in the bundle",
            &[&unrelated],
            &[&leaf_root],
            Some("UnknownIssuer"),
        );
        let end = signed(leaf(NAME), &unrelated);
        check("signed by an authority that is not in the bundle", &[&end], &[&end], None);
    }
}

#[test]
fn an_unknown_critical_extension_is_refused_anywhere_in_the_chain() {
    let root = self_signed(authority("root"));
    let middle = signed(authority("middle"), &root);
    let odd_root = self_signed(critical(authority("root")));
    let odd_middle = signed(critical(authority("middle")), &root);
    for leaf in LEAVES {
        let why = Some("UnhandledCriticalExtension");
        let end = signed(critical(leaf(NAME)), &root);
        check("end entity below a root", &[&root], &[&end], why);
        check("end entity in the bundle", &[&end], &[&end], why);
        let leaf_root = self_signed(critical(leaf(NAME)));
        check("self-signed in the bundle", &[&leaf_root], &[&leaf_root], why);
        let end = signed(critical(leaf(NAME)), &middle);
        check("end entity below an intermediate", &[&root], &[&end, &middle], why);

        let why = Some("UnknownIssuer");
        let end = signed(leaf(NAME), &odd_middle);
        check("intermediate", &[&root], &[&end, &odd_middle], why);
        check("intermediate as root", &[&odd_middle], &[&end], why);
        let end = signed(leaf(NAME), &odd_root);
        check("root", &[&odd_root], &[&end], why);
        check("one root of two", &[&root, &odd_root], &[&end], why);
        let below = signed(authority("middle"), &odd_root);
        let end = signed(leaf(NAME), &below);
        check("root above an intermediate", &[&odd_root], &[&end, &below], why);
    }
}

/// The last numbers of the object identifiers of extensions (2.5.29.*).
const SUBJECT_ALT_NAME: u64 = 17;
const CERTIFICATE_POLICIES: u64 = 32;
const POLICY_CONSTRAINTS: u64 = 36;

/// The parameters with the critical extension 2.5.29.`number`, and without alternative names.
fn extended(params: CertificateParams, number: u64, content: &[u8]) -> CertificateParams {
    let mut extension = CustomExtension::from_oid_content(&[2, 5, 29, number], content.to_vec());
    extension.set_criticality(true);
    with(params, |params| {
        params.subject_alt_names.clear();
        params.custom_extensions.push(extension);
    })
}

#[test]
fn a_critical_extension_with_unknown_contents_is_refused() {
    let root = self_signed(authority("root"));
    let registered_identifier = [0x30, 4, 0x88, 2, 0x2a, 3];
    let middle =
        signed(extended(authority("middle"), SUBJECT_ALT_NAME, &registered_identifier), &root);
    for leaf in LEAVES {
        let end = signed(leaf(NAME), &middle);
        check("intermediate", &[&root], &[&end, &middle], Some("UnknownIssuer"));
        check("root", &[&middle], &[&end], Some("UnknownIssuer"));
    }
}

#[test]
fn a_critical_policy_is_accepted_and_a_policy_constraint_is_refused() {
    let policy = [0x30, 6, 0x30, 4, 6, 2, 0x2a, 3];
    let root = self_signed(extended(authority("root"), CERTIFICATE_POLICIES, &policy));
    let require_explicit_policy = [0x30, 3, 0x80, 1, 0];
    let strict =
        self_signed(extended(authority("root"), POLICY_CONSTRAINTS, &require_explicit_policy));
    for leaf in LEAVES {
        check("policy", &[&root], &[&signed(leaf(NAME), &root)], None);
        // Go accepts it: it processes policies, and does not apply the constraints of a root.
        let end = signed(leaf(NAME), &strict);
        check("policy constraint", &[&strict], &[&end], Some("UnknownIssuer"));
    }
}

#[test]
fn a_certificate_that_is_not_encoded_strictly_is_refused() {
    let root = self_signed(authority("root"));
    for leaf in LEAVES {
        let why = Some("BadEncoding");
        let end = trailing_byte(signed(leaf(NAME), &root));
        check("byte after the end entity", &[&root], &[&end], why);
        check("byte after the end entity in the bundle", &[&end, &root], &[&end], why);
        let end = mismatched_algorithms(signed(leaf(NAME), &root), &root);
        check("mismatched algorithms in the end entity", &[&root], &[&end], why);
        let why = Some("UnknownIssuer");
        let middle = trailing_byte(signed(authority("middle"), &root));
        let end = signed(leaf(NAME), &middle);
        check("byte after the intermediate", &[&root], &[&end, &middle], why);
        let middle = mismatched_algorithms(signed(authority("middle"), &root), &root);
        let end = signed(leaf(NAME), &middle);
        check("mismatched algorithms in the intermediate", &[&root], &[&end, &middle], why);
    }
}

#[test]
fn an_unknown_extension_that_is_not_critical_is_accepted() {
    let add =
        |params| with(params, |params| params.custom_extensions.push(unknown_extension(false)));
    let root = self_signed(add(authority("root")));
    let middle = signed(add(authority("middle")), &root);
    for leaf in LEAVES {
        let end = signed(add(leaf(NAME)), &middle);
        check("everywhere", &[&root], &[&end, &middle], None);
    }
}

#[test]
fn an_expired_certificate_is_refused_anywhere_in_the_chain() {
    let root = self_signed(authority("root"));
    let old_root = self_signed(expired(authority("root")));
    let old_middle = signed(expired(authority("middle")), &root);
    for leaf in LEAVES {
        let why = Some("ExpiredContext");
        let end = signed(expired(leaf(NAME)), &root);
        check("end entity", &[&root], &[&end], why);
        check("end entity in the bundle", &[&end], &[&end], why);
        let why = Some("UnknownIssuer");
        let end = signed(leaf(NAME), &old_middle);
        check("intermediate", &[&root], &[&end, &old_middle], why);
        let end = signed(leaf(NAME), &old_root);
        check("root", &[&old_root], &[&end], why);
    }
}

#[test]
fn a_certificate_for_another_usage_is_refused_anywhere_in_the_chain() {
    let pairs =
        [(Verifier::Server, ServerAuth, ClientAuth), (Verifier::Client, ClientAuth, ServerAuth)];
    for (verifier, right, wrong) in pairs {
        let root = self_signed(usage(authority("root"), right.clone()));
        let other_root = self_signed(usage(authority("root"), wrong.clone()));
        let middle = signed(usage(authority("middle"), right.clone()), &root);
        let other_middle = signed(usage(authority("middle"), wrong.clone()), &root);
        for leaf in LEAVES {
            let end = signed(usage(leaf(NAME), right.clone()), &middle);
            check_one(verifier, "right everywhere", &[&root], &[&end, &middle], None);
            let why = Some("InvalidPurpose");
            let end = signed(usage(leaf(NAME), wrong.clone()), &root);
            check_one(verifier, "end entity", &[&root], &[&end], why);
            check_one(verifier, "end entity in the bundle", &[&end], &[&end], why);
            let end = signed(leaf(NAME), &other_middle);
            check_one(verifier, "intermediate", &[&root], &[&end, &other_middle], why);
            let end = signed(leaf(NAME), &other_root);
            check_one(verifier, "root", &[&other_root], &[&end], why);
        }
    }
}

#[test]
fn only_an_authority_that_may_sign_is_an_issuer() {
    let root = self_signed(authority("root"));
    let why = Some("UnknownIssuer");
    for leaf in LEAVES {
        let plain = signed(params("middle"), &root);
        let end = signed(leaf(NAME), &plain);
        check("intermediate is no authority", &[&root], &[&end, &plain], why);
        check("root is no authority", &[&plain], &[&end], why);
        let without_cert_sign = signed(no_signing(authority("middle")), &root);
        let end = signed(leaf(NAME), &without_cert_sign);
        check("intermediate without keyCertSign", &[&root], &[&end, &without_cert_sign], why);
        check("root without keyCertSign", &[&without_cert_sign], &[&end], why);
        let old = version_1(signed(authority("middle"), &root), &root);
        let end = signed(leaf(NAME), &old);
        check("intermediate of version 1", &[&root], &[&end, &old], why);
        check("root of version 1", &[&old], &[&end], None);
    }
}

#[test]
fn a_path_length_limits_the_intermediates_below() {
    let root = self_signed(path_length(authority("root"), 0));
    let middle = signed(authority("middle"), &root);
    let free = self_signed(authority("root"));
    let upper = signed(path_length(authority("upper"), 0), &free);
    let lower = signed(authority("lower"), &upper);
    for leaf in LEAVES {
        let why = Some("UnknownIssuer");
        check("root allows the end entity", &[&root], &[&signed(leaf(NAME), &root)], None);
        let end = signed(leaf(NAME), &middle);
        check("root", &[&root], &[&end, &middle], why);
        let end = signed(leaf(NAME), &upper);
        check("intermediate allows the end entity", &[&free], &[&end, &upper], None);
        let end = signed(leaf(NAME), &lower);
        check("intermediate", &[&free], &[&end, &lower, &upper], why);
        check("intermediate as root", &[&upper], &[&end, &lower], why);
    }
}

#[test]
fn name_constraints_are_checked_for_leaves_and_refuse_authorities() {
    let matching = || GeneralSubtree::DnsName("svc".to_owned());
    let other = || GeneralSubtree::DnsName("other".to_owned());
    let free = self_signed(authority("root"));
    for (subtree, allows) in [(matching(), true), (other(), false)] {
        let root = self_signed(permitted(authority("root.svc"), subtree.clone()));
        let middle = signed(permitted(authority("middle"), subtree), &free);
        for issuer in [&root, &middle] {
            let end = signed(params(NAME), issuer);
            let decided = [Verifier::Server, Verifier::Client]
                .map(|verifier| decide(verifier, &[&root, &free], &[&end, &middle]).is_ok());
            assert_eq!(decided, [allows; 2], "{:?}", issuer.params.distinguished_name);
            // Go checks the names of an authority too, and accepts those that are permitted.
            let end = signed(authority(NAME), issuer);
            check("authority", &[&root, &free], &[&end, &middle], Some("UnknownIssuer"));
        }
    }
    let mut directory = rcgen::DistinguishedName::new();
    directory.push(rcgen::DnType::CommonName, NAME);
    let subtree = GeneralSubtree::DirectoryName(directory);
    let root = self_signed(permitted(authority("root"), subtree));
    for leaf in LEAVES {
        let end = signed(leaf(NAME), &root);
        check("a constraint on directories", &[&root], &[&end], Some("UnknownIssuer"));
    }
}

/// Self-signed certificates of `a.svc` with keys that *ring* does not support, valid up to 2040, and a
/// certificate with a supported key that the first of them has signed.
const P521: &str = "\
-----BEGIN CERTIFICATE-----
MIIB/jCCAV+gAwIBAgIUEzSQWUtKI4Aw8c2DxOUgTYjJ+CswCgYIKoZIzj0EAwQw
EDEOMAwGA1UEAwwFYS5zdmMwHhcNMjYxMTE2MDgxNTA1WhcNNDAwNzI1MDgxNTA1
WjAQMQ4wDAYDVQQDDAVhLnN2YzCBmzAQBgcqhkjOPQIBBgUrgQQAIwOBhgAEAGAi
rXTxYjMcsvZqFXsFR4J3kT7o1blSVt6+GvSJmFHkolH0pEhcCFjT/enjGSFS+sWv
GD2hzKFUxiECBVArTyeRAT4srPXt1GLaIzrvFLWPySadDkOZuaalt40Mghf0Vm/A
YW0G4V7YZX2uY71eu1s7DObcp0tGlbgxj+frfmg+Ivqdo1QwUjAQBgNVHREECTAH
ggVhLnN2YzAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIChDAdBgNVHQ4E
FgQUcuOdkRWoR8eXZSVeE363OkfWOY4wCgYIKoZIzj0EAwQDgYwAMIGIAkIAk8Qf
BmaBwBtsV74itvVJgs6l2YUUUXFvAvRXqw5pmqDWidAe/Y8likkPI5oYEB/jBtcD
/cwM6XbjIO/e0qS85XACQgCCru+HRu/E9dL4+tVCUQ/1X9dRRA/fpk0FwGM27WAh
KEsqcJcy+MTtIBYuH+w2Hk+6Y3tIGMAn8OcWCUmVZxykWA==
-----END CERTIFICATE-----";
const RSA_1024: &str = "\
-----BEGIN CERTIFICATE-----
MIIB/TCCAWagAwIBAgIUZohwdHaUtM5dGkzyxt/vUoXGWi0wDQYJKoZIhvcNAQEL
BQAwEDEOMAwGA1UEAwwFYS5zdmMwHhcNMjYxMTE2MDgxNTA1WhcNNDAwNzI1MDgx
NTA1WjAQMQ4wDAYDVQQDDAVhLnN2YzCBnzANBgkqhkiG9w0BAQEFAAOBjQAwgYkC
gYEA1STH0uui2zfvKWngNJ5yg9mk67mvp/aHdO+kHYM5nEWWnS3YSh2OksnL3NWp
Em+f9GZn5fKguVjfMmd3XERLapyD2X7D8byDnFq6vlGGUfV3HFqGSSFn52F4gcUB
N0jonnPoObibw6A+m0Q8xMT3n2K/Jn4cuye1QJaw8QDBoNMCAwEAAaNUMFIwEAYD
VR0RBAkwB4IFYS5zdmMwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAoQw
HQYDVR0OBBYEFNWopyOLJMHxWiY0/zUpaJkah2gOMA0GCSqGSIb3DQEBCwUAA4GB
ALlMkfTLaT56YFr+plWdFLJrRqmUUgr+CiGAJn2LxiwRxo3t2QYfPxdBQpVO3zg9
JXR3LWcwe/0vjQqR4eefNheUjCnvwwOcFnQxjtUFKI7JX92jSu3n0hfXtQ3Ea6Tp
fiK+afoEwwxBLG7GTyAI0ANI4fuNbaNCd7aeUWVVFYpH
-----END CERTIFICATE-----";
const BELOW_P521: &str = "\
-----BEGIN CERTIFICATE-----
MIIBuTCCARugAwIBAgIUM+DH9sfLptmL21HbCzoEs+4ipLUwCgYIKoZIzj0EAwQw
EDEOMAwGA1UEAwwFYS5zdmMwHhcNMjYxMTE2MDgxNTA1WhcNNDAwNzI1MDgxNTA1
WjAPMQ0wCwYDVQQDDARsZWFmMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEkkrV
BbXTSjhJ2VZUCLuMXk6CdgIzMuPgjateUBSHKNUxHEsILtxcHi22eYa6QQpRZLVV
J3qtKJLehfvK/FFYjaNUMFIwEAYDVR0RBAkwB4IFYS5zdmMwHQYDVR0OBBYEFMI8
V1MiUBjC9CsQB/uKnN/ucjcBMB8GA1UdIwQYMBaAFHLjnZEVqEfHl2UlXhN+tzpH
1jmOMAoGCCqGSM49BAMEA4GLADCBhwJBfIkEyZNMWwF9d1TH02CH3FvEP/QCOUou
uKUkGaMsaAJLS7xVm5/tMirANhX4u83tKI0MT1ObKQgdnh59AbGohUoCQgGdaTCw
tQmgVVCpd2X7l7kQNls861YCaIYc53GtOh7WUl3HZQ6AAv4ODOnVDzxf1+BepBVu
jsucVTF2IYp4yGksIg==
-----END CERTIFICATE-----";

#[test]
fn an_unsupported_key_is_named_in_the_error() {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let decide = |root: &str, presented: &str| {
        let verifier = ServerVerifier::new(
            Roots::from_pem(root.as_bytes()),
            Arc::new(ring::default_provider()),
        );
        let name = ServerName::try_from(NAME).unwrap();
        decision(verifier.verify_server_cert(&der(presented), &[], &name, &[], now()))
    };
    let why = |key: &str| Err(format!("this server cannot verify signatures of {key} keys"));
    assert_eq!(decide(P521, P521), why("ECDSA P-521"));
    assert_eq!(decide(P521, BELOW_P521), why("ECDSA P-521"));
    assert_eq!(decide(RSA_1024, RSA_1024), why("RSA 1024-bit"));
}
