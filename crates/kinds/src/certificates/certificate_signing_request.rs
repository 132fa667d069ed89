//! `CertificateSigningRequest`: a request for a certificate, its approval and its certificate.

mod conditions;
mod issued_certificate;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::pem_blocks::pem_blocks;
use crate::table::{self, selectable};
use crate::validation::rules::{supported_only, unique};
use machinery::field_path::quote;
use machinery::fields::{at, integer, list, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, json, names, timestamp};
use types::columns::{AGE, NAME, age, column, or_none};
use types::resource::{
    Action, Column, Columns, Now, READ_AND_WRITE, Resource, Strategy, Subresource, Version,
    keep_status,
};

/// The resource of the kind `CertificateSigningRequest`.
pub fn resource() -> Resource {
    let version = Version {
        status: true,
        selectable: [selectable("spec.signerName", "")].into(),
        ..table::v1("certificates/v1.CertificateSigningRequest", Columns::Fixed(COLUMNS, cells))
    };
    Resource {
        short_names: vec!["csr".to_owned()],
        namespaced: false,
        ..table::resource(
            "certificates.k8s.io",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            &STRATEGY,
            version,
        )
    }
}

static STRATEGY: Strategy = Strategy {
    prepare_create: |object| {
        object.map_mut().insert("status".to_owned(), json!({}));
    },
    prepare_update: |new, old| {
        machinery::fields::keep(new, old, "spec");
        keep_status(new, old);
    },
    prepare_status: conditions::prepare_status,
    set_status_times: conditions::set_times,
    validate,
    validate_update: conditions::validate_update,
    validate_status: conditions::validate_status,
    validate_name: names::path_segment,
    subresources: &[Subresource {
        name: "approval",
        group: "",
        version: "",
        kind: "CertificateSigningRequest",
        action: Action::Replace {
            prepare: conditions::prepare_approval,
            validate: conditions::validate_approval,
            verbs: READ_AND_WRITE,
        },
    }],
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

const COLUMNS: &[Column] = &[
    NAME,
    AGE,
    column("SignerName", "The name of the requested signer: a domain name, a slash and a path."),
    column("Requestor", "Base64-encoded PKCS#10 CSR data"),
    column(
        "RequestedDuration",
        "The requested duration of the validity of the certificate, if there is one.",
    ),
    column(
        "Condition",
        "Pending, Approved or Denied, and whether the request failed or is issued.",
    ),
];

fn cells(object: &Object, now: &Now) -> Vec<Value> {
    let spec = top(object, "spec");
    let duration = integer(spec, "expirationSeconds").map(timestamp::human_duration);
    vec![
        object.name().into(),
        age(object, now),
        or_none(text(spec, "signerName")).into(),
        text(spec, "username").into(),
        duration.unwrap_or_else(|| "<none>".to_owned()).into(),
        state(top(object, "status")).into(),
    ]
}

fn state(status: &Value) -> String {
    let has = |kind| list(status, "conditions").iter().any(|it| text(it, "type") == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state += ",Failed";
    }
    if !text(status, "certificate").is_empty() {
        state += ",Issued";
    }
    state
}

/// Sets the requestor from the request's user, replacing what the client sent.
pub fn set_requestor(object: &mut Object, name: &str, uid: &str, groups: &[String], extra: &Value) {
    let spec = object.map_at(&["spec"]);
    for (key, value) in [
        ("username", json!(name)),
        ("uid", json!(uid)),
        ("groups", json!(groups)),
        ("extra", extra.clone()),
    ] {
        let is_empty = match &value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => true,
        };
        if is_empty {
            spec.remove(key);
        } else {
            spec.insert(key.to_owned(), value);
        }
    }
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn validate(object: &Object, errors: &mut ErrorList) {
    let spec = top(object, "spec");
    if !is_certificate_request(text(spec, "request")) {
        let message = "PEM block type must be CERTIFICATE REQUEST";
        errors.invalid(&SPEC.child("request"), at(spec, &["request"]).clone(), message);
    }
    let path = SPEC.child("usages");
    if list(spec, "usages").is_empty() {
        errors.required(&path, "");
    }
    for (index, usage) in texts(spec, "usages").enumerate() {
        supported_only(errors, &path.index(index), usage, USAGES);
    }
    unique(errors, &path, texts(spec, "usages"));
    let signer = text(spec, "signerName");
    let path = SPEC.child("signerName");
    if signer == LEGACY_SIGNER {
        let message = "the legacy signerName is not allowed via this API version";
        errors.invalid(&path, signer, message);
    } else {
        validate_signer(errors, &path, signer);
    }
    if let Some(seconds) = integer(spec, "expirationSeconds").filter(|it| *it < 600) {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(&SPEC.child("expirationSeconds"), seconds, message);
    }
    conditions::validate(object, errors);
}

/// Whether the first PEM block of the bytes is a certificate request. The signer checks its content.
fn is_certificate_request(base64: &str) -> bool {
    let bytes = BASE64_STANDARD.decode(base64).unwrap_or_default();
    let blocks = pem_blocks(&String::from_utf8_lossy(&bytes));
    blocks.first().is_some_and(|it| it.label == "CERTIFICATE REQUEST")
}

/// A signer is a domain of at least two labels, a slash, and DNS subdomains separated by dots.
pub(super) fn validate_signer(errors: &mut ErrorList, path: &Path<'_>, signer: &str) {
    if signer.is_empty() {
        return errors.required(path, "");
    }
    let Some((domain, rest)) = signer.split_once('/').filter(|(_, rest)| !rest.contains('/'))
    else {
        let message =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, signer, message);
    };
    if domain.len() > names::SUBDOMAIN_MAX {
        errors.too_long(path, names::SUBDOMAIN_MAX);
    }
    validate_labels(errors, path, domain, names::dns1123_label);
    if !domain.contains('.') {
        let message = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, domain, message);
    }
    validate_labels(errors, path, rest, names::dns1123_subdomain);
    let longest = 2 * names::SUBDOMAIN_MAX + names::LABEL_MAX + 2;
    if signer.len() > longest {
        errors.too_long(path, longest);
    }
}

/// Adds an error about the first invalid label.
fn validate_labels(errors: &mut ErrorList, path: &Path<'_>, value: &str, rule: names::NameRule) {
    let Some(label) = value.split('.').find(|label| !rule(label).is_empty()) else { return };
    for message in rule(label) {
        errors.invalid(path, value, &format!("validating label {}: {message}", quote(label)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{lines, object, refusals};

    const REQUEST: &str = "YSBjb21tZW50Ci0tLS0tQkVHSU4gQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCllRPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0tCg==";

    fn request(spec: Value) -> Value {
        let mut whole =
            json!({"request": REQUEST, "usages": ["client auth"], "signerName": "a.io/b"});
        for (key, value) in spec.as_object().into_iter().flatten() {
            whole[key] = value.clone();
        }
        json!({"spec": whole})
    }

    #[test]
    fn a_request_has_usages_and_a_signer() {
        assert_eq!(refusals(&STRATEGY, request(json!({}))), Vec::<String>::new());
        assert_eq!(
            refusals(
                &STRATEGY,
                request(json!({"usages": [], "signerName": LEGACY_SIGNER, "expirationSeconds": 1}))
            ),
            [
                "spec.usages: Required value",
                r#"spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version"#,
                "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds (10 minutes)",
            ]
        );
    }

    #[test]
    fn the_requestor_is_the_user_of_the_request() {
        let mut request =
            object(request(json!({"username": "admin", "groups": ["system:masters"]})));
        set_requestor(&mut request, "eve", "", &[], &json!({}));
        assert_eq!(request.str_at(&["spec", "username"]), "eve");
        assert_eq!(request.get(&["spec", "groups"]), None);
    }

    #[test]
    fn only_the_approval_subresource_adds_an_approval() {
        let old = object(request(json!({})));
        let mut new = old.clone();
        let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        new.map_mut().insert("status".to_owned(), approved);
        let mut errors = ErrorList::new();
        conditions::validate_status(&new, &old, &mut errors);
        assert_eq!(
            lines(&errors),
            [r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#]
        );
        let mut errors = ErrorList::new();
        conditions::validate_approval(&new, &old, &mut errors);
        assert_eq!(lines(&errors), Vec::<String>::new());
    }

    #[test]
    fn the_table_shows_the_state() {
        assert_eq!(state(&json!({})), "Pending");
        assert_eq!(
            state(&json!({"conditions": [{"type": "Approved"}], "certificate": "eA=="})),
            "Approved,Issued"
        );
    }
}
