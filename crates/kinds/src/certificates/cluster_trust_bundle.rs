//! `ClusterTrustBundle`: certificates of authorities that workloads trust.

use x509_parser::prelude::{FromDer, X509Certificate};

use super::certificate_signing_request::validate_signer;
use super::pem_blocks::pem_blocks;
use crate::table::{self, selectable};
use crate::validation::rules::immutable;
use machinery::fields::{text, top};
use machinery::{ErrorList, Object, Path, Value, names};
use types::columns::{NAME, column, or_none};
use types::resource::{Column, Columns, Now, Resource, Strategy, Version};

/// The resource of the kind `ClusterTrustBundle`, which is not served by default.
pub fn resource() -> Resource {
    let version = |name: &str| Version {
        name: name.to_owned(),
        served: false,
        selectable: [selectable("spec.signerName", "")].into(),
        ..table::v1(
            &format!("certificates/{name}.ClusterTrustBundle"),
            Columns::Fixed(COLUMNS, cells),
        )
    };
    let mut resource = table::resource(
        "certificates.k8s.io",
        "ClusterTrustBundle",
        "clustertrustbundles",
        &STRATEGY,
        version("v1beta1"),
    );
    resource.versions.push(version("v1alpha1"));
    Resource { namespaced: false, ..resource }
}

static STRATEGY: Strategy = Strategy {
    validate: |object, errors| {
        validate_names(object, errors);
        validate_bundle(text(top(object, "spec"), "trustBundle"), errors);
    },
    validate_update: |new, old, errors| {
        validate_names(new, errors);
        let bundle = |object| text(top(object, "spec"), "trustBundle");
        // A bundle that was accepted once stays valid.
        if bundle(new) != bundle(old) {
            validate_bundle(bundle(new), errors);
        }
        let signer = |object| Value::from(text(top(object, "spec"), "signerName"));
        immutable(errors, &SPEC.child("signerName"), &signer(new), &signer(old));
    },
    // The name depends on the signer.
    validate_name: names::path_segment,
    unconditional_update: false,
    ..Strategy::DEFAULT
};

static SPEC: Path<'static> = Path::root("spec");

/// The size of the largest bundle.
const MAX_BUNDLE: usize = 1024 * 1024;

const COLUMNS: &[Column] =
    &[NAME, column("SignerName", "The signer of the bundle, if it belongs to one.")];

fn cells(object: &Object, _: &Now) -> Vec<Value> {
    vec![object.name().into(), or_none(text(top(object, "spec"), "signerName")).into()]
}

/// The name of a bundle begins with its signer.
fn validate_names(object: &Object, errors: &mut ErrorList) {
    let (name, signer) = (object.name(), text(top(object, "spec"), "signerName"));
    let messages = if !signer.is_empty() {
        let prefix = format!("{}:", signer.replace('/', ":"));
        match name.strip_prefix(&prefix) {
            Some(rest) => names::dns1123_subdomain(rest),
            None => vec![format!(
                "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
            )],
        }
    } else if name.contains(':') {
        let message = r#"ClusterTrustBundle without signer name must not have ":" in its name"#;
        vec![message.to_owned()]
    } else {
        names::dns1123_subdomain(name)
    };
    for message in messages {
        errors.invalid(&Path::root("metadata").child("name"), name, &message);
    }
    if !signer.is_empty() {
        validate_signer(errors, &SPEC.child("signerName"), signer);
    }
}

/// A bundle has at least one certificate, all of authorities, and none of them twice.
fn validate_bundle(bundle: &str, errors: &mut ErrorList) {
    let path = SPEC.child("trustBundle");
    if bundle.len() > MAX_BUNDLE {
        return errors.too_long(&path, MAX_BUNDLE);
    }
    let mut refuse = |message: &str| errors.invalid(&path, "<value omitted>", message);
    let blocks = pem_blocks(bundle);
    let mut is_refused = false;
    for (index, block) in blocks.iter().enumerate() {
        let problem = if block.label != "CERTIFICATE" {
            format!("has bad block type: {}", block.label)
        } else if block.has_headers {
            "has PEM block headers".to_owned()
        } else {
            match X509Certificate::from_der(&block.content) {
                Ok(([], certificate)) => {
                    let constraints = certificate.basic_constraints();
                    match constraints {
                        Ok(Some(constraints)) if constraints.value.ca => continue,
                        Ok(_) => "does not have the CA bit set".to_owned(),
                        Err(_) => "has invalid basic constraints".to_owned(),
                    }
                }
                _ => "does not parse as X.509".to_owned(),
            }
        };
        is_refused = true;
        refuse(&format!("entry {index} {problem}"));
    }
    if is_refused {
        return;
    }
    if blocks.is_empty() {
        return refuse("at least one trust anchor must be provided");
    }
    for (first, block) in blocks.iter().enumerate() {
        let same = blocks.iter().enumerate().filter(|(_, it)| it.content == block.content);
        let same: Vec<usize> = same.map(|(index, _)| index).collect();
        if same.len() > 1 && same[0] == first {
            let indices: Vec<String> = same.iter().map(ToString::to_string).collect();
            refuse(&format!("duplicate trust anchor (indices [{}])", indices.join(" ")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::{refusals, refusals_of_update};
    use machinery::json;

    const AUTHORITY: &str = include_str!("cluster_trust_bundle/authority.pem");
    const LEAF: &str = include_str!("cluster_trust_bundle/leaf.pem");

    fn bundle(name: &str, signer: &str, certificates: &str) -> Value {
        json!({"metadata": {"name": name},
            "spec": {"signerName": signer, "trustBundle": certificates}})
    }

    fn check(certificates: &str, expected: &[&str]) {
        let omitted = r#"spec.trustBundle: Invalid value: "<value omitted>": "#;
        let expected: Vec<String> = expected.iter().map(|it| format!("{omitted}{it}")).collect();
        assert_eq!(refusals(&STRATEGY, bundle("a", "", certificates)), expected);
    }

    #[test]
    fn a_bundle_has_different_certificates_of_authorities() {
        check(AUTHORITY, &[]);
        check("", &["at least one trust anchor must be provided"]);
        check(LEAF, &["entry 0 does not have the CA bit set"]);
        check(&[AUTHORITY, AUTHORITY].concat(), &["duplicate trust anchor (indices [0 1])"]);
        let other = AUTHORITY.replace("CERTIFICATE", "BOAT");
        check(&[AUTHORITY, &other].concat(), &["entry 1 has bad block type: BOAT"]);
        let headers = AUTHORITY.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n\n", 1);
        check(&headers, &["entry 0 has PEM block headers"]);
        let short = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(short, &["entry 0 does not parse as X.509"]);
    }

    #[test]
    fn the_name_of_a_bundle_begins_with_its_signer() {
        let refused = |name, signer| refusals(&STRATEGY, bundle(name, signer, AUTHORITY));
        assert_eq!(refused("a.io:b:c", "a.io/b"), Vec::<String>::new());
        assert_eq!(
            refused("c", "a.io/b"),
            [
                r#"metadata.name: Invalid value: "c": ClusterTrustBundle for signerName a.io/b must be named with prefix a.io:b:"#
            ]
        );
        assert_eq!(refused("a:b", "").len(), 1);
    }

    #[test]
    fn the_signer_of_a_bundle_does_not_change() {
        let (old, new) = (bundle("a.io:b:c", "a.io/b", ""), bundle("a.io:b:c", "", ""));
        let refused = refusals_of_update(&STRATEGY, new, old);
        assert!(refused.iter().any(|it| it.ends_with("field is immutable")), "{refused:?}");
        assert!(!refused.iter().any(|it| it.starts_with("spec.trustBundle")), "{refused:?}");
    }
}
