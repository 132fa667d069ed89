//! What `spec.conversion` must obey.

use crate::fields::{at, flag, part, text, texts};
use crate::rules::one_of;
use machinery::{Faults, Path, Value, names};

/// Finds what is wrong with how objects are converted between versions. The places are named as in
/// upstream's inner type, which has no `webhook` level.
pub(super) fn validate(spec: &Value, faults: &mut Faults) {
    let Some(conversion) = part(spec, "conversion") else { return };
    let root = Path::root("spec");
    let path = root.child("conversion");
    let strategy = text(conversion, "strategy");
    one_of(faults, &path.child("strategy"), strategy, &["None", "Webhook"]);
    let config_path = path.child("webhookClientConfig");
    let reviews_path = path.child("conversionReviewVersions");
    let config = part(at(conversion, &["webhook"]), "clientConfig");
    let reviews: Vec<&str> =
        texts(at(conversion, &["webhook"]), "conversionReviewVersions").collect();
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            faults.forbidden(&config_path, detail);
        }
        if !reviews.is_empty() {
            faults.forbidden(&reviews_path, detail);
        }
        return;
    }
    if flag(spec, "preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        faults.invalid(&path.child("strategy"), strategy, detail);
    }
    match config {
        None => faults.required(&config_path, "required when strategy is set to Webhook"),
        Some(config) if part(config, "url").is_some() == part(config, "service").is_some() => {
            faults.required(&config_path, "exactly one of url or service is required");
        }
        Some(_) => {}
    }
    validate_reviews(&reviews, &reviews_path, faults);
    let detail = "conversion by webhook is not served by this server yet: use the strategy None, or a single version";
    faults.forbidden(&path.child("strategy"), detail);
}

fn validate_reviews(reviews: &[&str], path: &Path<'_>, faults: &mut Faults) {
    if reviews.is_empty() {
        faults.required(path, "");
        return;
    }
    for (index, version) in reviews.iter().enumerate() {
        let path = path.index(index);
        if reviews[..index].contains(version) {
            faults.invalid(&path, *version, "duplicate version");
            continue;
        }
        for complaint in names::dns1035_label(version) {
            faults.invalid(&path, *version, &complaint);
        }
    }
    if !reviews.iter().any(|it| matches!(*it, "v1" | "v1beta1")) {
        faults.invalid(path, reviews.to_vec(), "must include at least one of v1, v1beta1");
    }
}
