//! Validation of volumes whose files come from the API: config maps and secrets, fields of the pod,
//! tokens, certificates.

use std::collections::HashSet;

use super::env::{FieldRefConsumer, validate_field_ref, validate_resource_ref};
use crate::validation::rules::{file_mode, label_selector, local_path, required, supported_only};
use machinery::fields::{integer, list, part, text};
use machinery::{ErrorList, Path, Value};

/// Validates a volume from a config map or a secret; `name` is the field that names it.
pub(super) fn validate_keys(errors: &mut ErrorList, path: &Path<'_>, source: &Value, name: &str) {
    required(errors, &path.child(name), text(source, name));
    file_mode(errors, &path.child("defaultMode"), integer(source, "defaultMode"));
    let items = path.child("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        validate_key_to_path(errors, &items.index(index), item);
    }
}

fn validate_key_to_path(errors: &mut ErrorList, path: &Path<'_>, item: &Value) {
    required(errors, &path.child("key"), text(item, "key"));
    required(errors, &path.child("path"), text(item, "path"));
    local_path(errors, &path.child("path"), text(item, "path"));
    file_mode(errors, &path.child("mode"), integer(item, "mode"));
}

/// Validates a downward API volume. Kubernetes' errors do not name the file.
pub(super) fn validate_downward(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    file_mode(errors, &path.child("defaultMode"), integer(source, "defaultMode"));
    for file in list(source, "items") {
        validate_downward_file(errors, path, file);
    }
}

fn validate_downward_file(errors: &mut ErrorList, path: &Path<'_>, file: &Value) {
    required(errors, &path.child("path"), text(file, "path"));
    local_path(errors, &path.child("path"), text(file, "path"));
    match (part(file, "fieldRef"), part(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_ref(errors, &path.child("fieldRef"), field, FieldRefConsumer::File);
            if resource.is_some() {
                let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", message);
            }
        }
        (None, Some(resource)) => {
            validate_resource_ref(
                errors,
                &path.child("resourceFieldRef"),
                resource,
                FieldRefConsumer::File,
            );
        }
        (None, None) => {
            errors.required(path, "one of fieldRef and resourceFieldRef is required");
        }
    }
    file_mode(errors, &path.child("mode"), integer(file, "mode"));
}

/// Validates a projected volume.
pub(super) fn validate_projected(errors: &mut ErrorList, path: &Path<'_>, volume: &Value) {
    file_mode(errors, &path.child("defaultMode"), integer(volume, "defaultMode"));
    let mut sources = Sources { path, used_paths: HashSet::new() };
    let items = path.child("sources");
    for (index, source) in list(volume, "sources").iter().enumerate() {
        sources.validate(errors, &items.index(index), source);
    }
}

/// The sources of one projected volume, which must not have the same paths.
struct Sources<'a> {
    /// The path of the volume in the object.
    path: &'a Path<'a>,
    /// The paths of files in the volume.
    used_paths: HashSet<&'a str>,
}

impl<'a> Sources<'a> {
    fn validate(&mut self, errors: &mut ErrorList, item: &Path<'_>, source: &'a Value) {
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let Some(keys) = part(source, kind) else { continue };
            count += 1;
            let item = item.child(kind);
            required(errors, &item.child("name"), text(keys, "name"));
            let items = item.child("items");
            for (index, key) in list(keys, "items").iter().enumerate() {
                validate_key_to_path(errors, &items.index(index), key);
                self.use_path(errors, text(key, "path"), text(keys, "name"));
            }
        }
        if let Some(files) = part(source, "downwardAPI") {
            count += 1;
            for file in list(files, "items") {
                validate_downward_file(errors, &item.child("downwardAPI"), file);
                self.use_path(errors, text(file, "path"), text(file, "path"));
            }
        }
        if let Some(token) = part(source, "serviceAccountToken") {
            count += 1;
            self.validate_token(errors, &item.child("serviceAccountToken"), token);
        }
        if let Some(bundle) = part(source, "clusterTrustBundle") {
            count += 1;
            self.validate_bundle(errors, &item.child("clusterTrustBundle"), bundle);
        }
        if let Some(certificate) = part(source, "podCertificate") {
            count += 1;
            self.validate_certificate(errors, &item.child("podCertificate"), certificate);
        }
        if count > 1 {
            errors.forbidden(item, "may not specify more than 1 volume type per source");
        }
    }

    /// Adds the path of a file, which must be new. `shown` is the value in the error.
    fn use_path(&mut self, errors: &mut ErrorList, file: &'a str, shown: &str) {
        if file.is_empty() {
            return;
        }
        if self.used_paths.contains(&file) {
            errors.invalid(self.path, shown, "conflicting duplicate paths");
        }
        self.used_paths.insert(file);
    }

    fn validate_token(&self, errors: &mut ErrorList, item: &Path<'_>, token: &Value) {
        let expiration = item.child("expirationSeconds");
        match integer(token, "expirationSeconds") {
            None => errors.required(&expiration, ""),
            Some(seconds) if seconds < 600 => {
                let message = "may not specify a duration less than 10 minutes";
                errors.invalid(&expiration, seconds, message);
            }
            Some(seconds) if seconds > 1 << 32 => {
                let message = "may not specify a duration larger than 2^32 seconds";
                errors.invalid(&expiration, seconds, message);
            }
            Some(_) => {}
        }
        // Upstream reports these at the volume, not at the source.
        required(errors, &self.path.child("path"), text(token, "path"));
        local_path(errors, &self.path.child("path"), text(token, "path"));
    }

    fn validate_bundle(&mut self, errors: &mut ErrorList, item: &Path<'_>, bundle: &'a Value) {
        match (part(bundle, "name"), part(bundle, "signerName")) {
            (Some(_), Some(_)) => {
                errors.invalid(item, bundle.clone(), "only one of name and signerName may be used");
            }
            (Some(_), None) => {
                if text(bundle, "name").is_empty() {
                    errors.required(&item.child("name"), "must be a valid object name");
                }
                if let Some(selector) = part(bundle, "labelSelector") {
                    let message = "labelSelector must be unset if name is specified";
                    errors.invalid(&item.child("labelSelector"), selector.clone(), message);
                }
            }
            (None, Some(_)) => {
                if text(bundle, "signerName").is_empty() {
                    errors.required(&item.child("signerName"), "must be a valid signer name");
                }
                let selector = bundle.get("labelSelector").unwrap_or(&Value::Null);
                label_selector(errors, &item.child("labelSelector"), selector);
            }
            (None, None) => errors.required(item, "either name or signerName must be specified"),
        }
        let file = text(bundle, "path");
        required(errors, &item.child("path"), file);
        local_path(errors, &item.child("path"), file);
        self.use_path(errors, file, file);
    }

    fn validate_certificate(&mut self, errors: &mut ErrorList, item: &Path<'_>, source: &'a Value) {
        const KEY_TYPES: &[&str] =
            &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
        supported_only(errors, &item.child("keyType"), text(source, "keyType"), KEY_TYPES);
        if let Some(seconds) = integer(source, "maxExpirationSeconds").filter(|it| *it < 3600) {
            let message = "if provided, maxExpirationSeconds must be >= 3600";
            errors.invalid(&item.child("maxExpirationSeconds"), seconds, message);
        }
        let mut has_file = false;
        for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
            let file = text(source, field);
            if !file.is_empty() {
                has_file = true;
                local_path(errors, &item.child(field), file);
                self.use_path(errors, file, file);
            }
        }
        if !has_file {
            let message =
                "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
            errors.required(item, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(sources: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate_projected(&mut errors, &Path::root("p"), &json!({"sources": sources}));
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn two_sources_may_not_have_the_same_path() {
        let keys =
            |name: &str| json!({"configMap": {"name": name, "items": [{"key": "k", "path": "f"}]}});
        check(
            json!([keys("a"), keys("b")]),
            &[r#"p: Invalid value: "b": conflicting duplicate paths"#],
        );
    }

    #[test]
    fn a_token_must_last_at_least_ten_minutes() {
        check(
            json!([{"serviceAccountToken": {"expirationSeconds": 599, "path": "/abs"}}]),
            &[
                "p.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                r#"p.path: Invalid value: "/abs": must be a relative path"#,
            ],
        );
    }

    #[test]
    fn a_file_mode_is_at_most_0777() {
        let mut errors = ErrorList::new();
        validate_keys(&mut errors, &Path::root("s"), &json!({"defaultMode": 512}), "secretName");
        assert_eq!(
            lines(&errors),
            [
                "s.secretName: Required value",
                "s.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ]
        );
    }
}
