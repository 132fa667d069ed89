//! Validation of `spec.conversion`.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::is_established;
use crate::admissionregistration::webhook::validate_client_config;
use crate::validation::rules::one_of;
use machinery::fields::{at, flag, part, text, texts, top};
use machinery::{ErrorList, Object, Path, Value, names};

/// Validates the conversion between versions. The paths are those of upstream's internal type,
/// which has no `webhook` level. A rule that the stored CRD violates is not enforced.
pub(super) fn validate(spec: &Value, old: Option<&Object>, errors: &mut ErrorList) {
    let Some(conversion) = part(spec, "conversion") else { return };
    let root = Path::root("spec");
    let path = root.child("conversion");
    let strategy = text(conversion, "strategy");
    one_of(errors, &path.child("strategy"), strategy, &["None", "Webhook"]);
    let config_path = path.child("webhookClientConfig");
    let reviews_path = path.child("conversionReviewVersions");
    let config = part(at(conversion, &["webhook"]), "clientConfig");
    let reviews: Vec<&str> =
        texts(at(conversion, &["webhook"]), "conversionReviewVersions").collect();
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.forbidden(&config_path, detail);
        }
        if !reviews.is_empty() {
            errors.forbidden(&reviews_path, detail);
        }
        return;
    }
    if flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(&path.child("strategy"), strategy, detail);
    }
    match config {
        None => errors.required(&config_path, "required when strategy is set to Webhook"),
        Some(config) => {
            validate_client_config(errors, &config_path, config);
            let bundle = text(config, "caBundle");
            if !is_valid_ca_bundle(bundle) && !may_have_invalid_ca_bundle(old) {
                let detail = "unable to load root certificates: unable to parse bytes as PEM block";
                errors.invalid(&config_path.child("caBundle"), bundle, detail);
            }
        }
    }
    let require_supported_version = old.is_none_or(|old| {
        let before = webhook_of(old);
        let reviews: Vec<&str> = texts(before, "conversionReviewVersions").collect();
        reviews.is_empty() || accepts_supported_version(&reviews)
    });
    validate_review_versions(&reviews, require_supported_version, &reviews_path, errors);
}

fn webhook_of(crd: &Object) -> &Value {
    at(top(crd, "spec"), &["conversion", "webhook"])
}

/// Whether a CA bundle, in base64, is empty or has at least one certificate.
fn is_valid_ca_bundle(text: &str) -> bool {
    let Ok(bytes) = BASE64_STANDARD.decode(text) else { return false };
    let pem = String::from_utf8_lossy(&bytes);
    pem.is_empty()
        || pem.split("-----BEGIN CERTIFICATE-----").skip(1).any(|rest| {
            let Some((body, _)) = rest.split_once("-----END CERTIFICATE-----") else {
                return false;
            };
            let body: String = body.split_whitespace().collect();
            !body.is_empty() && BASE64_STANDARD.decode(body).is_ok()
        })
}

/// An invalid bundle is allowed in a new CRD, and if the stored CRD has one or is not established.
fn may_have_invalid_ca_bundle(old: Option<&Object>) -> bool {
    old.is_none_or(|old| {
        let bundle = text(at(webhook_of(old), &["clientConfig"]), "caBundle");
        !is_established(old) || !is_valid_ca_bundle(bundle)
    })
}

fn accepts_supported_version(reviews: &[&str]) -> bool {
    reviews.iter().any(|it| matches!(*it, "v1" | "v1beta1"))
}

fn validate_review_versions(
    reviews: &[&str],
    require_supported_version: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if reviews.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in reviews.iter().enumerate() {
        let path = path.index(index);
        if !seen.insert(version) {
            errors.invalid(&path, *version, "duplicate version");
            continue;
        }
        for message in names::dns1035_label(version) {
            errors.invalid(&path, *version, &message);
        }
    }
    if require_supported_version && !accepts_supported_version(reviews) {
        errors.invalid(path, reviews.to_vec(), "must include at least one of v1, v1beta1");
    }
}
