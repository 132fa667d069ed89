//! Files in a volume that come from the API: keys of config maps and secrets, fields of the pod,
//! tokens.

use super::env::{Shower, validate_field_ref, validate_resource_ref};
use crate::fields::{integer, list, part, text};
use crate::rules::{file_mode, label_selector, local_path, required, supported_only};
use machinery::{Faults, Path, Value};
use std::collections::HashSet;

/// Judges a volume made of a config map or a secret; `name` is the field that names it.
pub(super) fn validate_keys(faults: &mut Faults, path: &Path<'_>, source: &Value, name: &str) {
    required(faults, &path.child(name), text(source, name));
    file_mode(faults, &path.child("defaultMode"), integer(source, "defaultMode"));
    let items = path.child("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        validate_key_to_path(faults, &items.index(index), item);
    }
}

fn validate_key_to_path(faults: &mut Faults, path: &Path<'_>, item: &Value) {
    required(faults, &path.child("key"), text(item, "key"));
    required(faults, &path.child("path"), text(item, "path"));
    local_path(faults, &path.child("path"), text(item, "path"));
    file_mode(faults, &path.child("mode"), integer(item, "mode"));
}

/// Judges a volume that shows fields of the pod. Kubernetes does not say which file is wrong.
pub(super) fn validate_downward(faults: &mut Faults, path: &Path<'_>, source: &Value) {
    file_mode(faults, &path.child("defaultMode"), integer(source, "defaultMode"));
    for file in list(source, "items") {
        validate_downward_file(faults, path, file);
    }
}

fn validate_downward_file(faults: &mut Faults, path: &Path<'_>, file: &Value) {
    required(faults, &path.child("path"), text(file, "path"));
    local_path(faults, &path.child("path"), text(file, "path"));
    match (part(file, "fieldRef"), part(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_ref(faults, &path.child("fieldRef"), field, Shower::File);
            if resource.is_some() {
                let message = "fieldRef and resourceFieldRef can not be specified simultaneously";
                faults.invalid(path, "resource", message);
            }
        }
        (None, Some(resource)) => {
            validate_resource_ref(faults, &path.child("resourceFieldRef"), resource, Shower::File);
        }
        (None, None) => {
            faults.required(path, "one of fieldRef and resourceFieldRef is required");
        }
    }
    file_mode(faults, &path.child("mode"), integer(file, "mode"));
}

/// Judges a volume of several sources.
pub(super) fn validate_projected(faults: &mut Faults, path: &Path<'_>, volume: &Value) {
    file_mode(faults, &path.child("defaultMode"), integer(volume, "defaultMode"));
    let mut sources = Sources { path, taken: HashSet::new() };
    let items = path.child("sources");
    for (index, source) in list(volume, "sources").iter().enumerate() {
        sources.validate(faults, &items.index(index), source);
    }
}

/// The sources of one volume, which must not write to the same file.
struct Sources<'a> {
    path: &'a Path<'a>,
    taken: HashSet<&'a str>,
}

impl<'a> Sources<'a> {
    fn validate(&mut self, faults: &mut Faults, item: &Path<'_>, source: &'a Value) {
        let mut count = 0;
        for kind in ["secret", "configMap"] {
            let Some(keys) = part(source, kind) else { continue };
            count += 1;
            let item = item.child(kind);
            required(faults, &item.child("name"), text(keys, "name"));
            let items = item.child("items");
            for (index, key) in list(keys, "items").iter().enumerate() {
                validate_key_to_path(faults, &items.index(index), key);
                self.take(faults, text(key, "path"), text(keys, "name"));
            }
        }
        if let Some(files) = part(source, "downwardAPI") {
            count += 1;
            for file in list(files, "items") {
                validate_downward_file(faults, &item.child("downwardAPI"), file);
                self.take(faults, text(file, "path"), text(file, "path"));
            }
        }
        if let Some(token) = part(source, "serviceAccountToken") {
            count += 1;
            self.validate_token(faults, &item.child("serviceAccountToken"), token);
        }
        if let Some(bundle) = part(source, "clusterTrustBundle") {
            count += 1;
            self.validate_bundle(faults, &item.child("clusterTrustBundle"), bundle);
        }
        if let Some(certificate) = part(source, "podCertificate") {
            count += 1;
            self.validate_certificate(faults, &item.child("podCertificate"), certificate);
        }
        if count > 1 {
            faults.forbidden(item, "may not specify more than 1 volume type per source");
        }
    }

    fn take(&mut self, faults: &mut Faults, file: &'a str, shown: &str) {
        if file.is_empty() {
            return;
        }
        if self.taken.contains(&file) {
            faults.invalid(self.path, shown, "conflicting duplicate paths");
        }
        self.taken.insert(file);
    }

    fn validate_token(&self, faults: &mut Faults, item: &Path<'_>, token: &Value) {
        let expiration = item.child("expirationSeconds");
        match integer(token, "expirationSeconds") {
            None => faults.required(&expiration, ""),
            Some(seconds) if seconds < 600 => {
                let message = "may not specify a duration less than 10 minutes";
                faults.invalid(&expiration, seconds, message);
            }
            Some(seconds) if seconds > 1 << 32 => {
                let message = "may not specify a duration larger than 2^32 seconds";
                faults.invalid(&expiration, seconds, message);
            }
            Some(_) => {}
        }
        // Upstream reports these at the volume, not at the source.
        required(faults, &self.path.child("path"), text(token, "path"));
        local_path(faults, &self.path.child("path"), text(token, "path"));
    }

    fn validate_bundle(&mut self, faults: &mut Faults, item: &Path<'_>, bundle: &'a Value) {
        match (part(bundle, "name"), part(bundle, "signerName")) {
            (Some(_), Some(_)) => {
                faults.invalid(item, bundle.clone(), "only one of name and signerName may be used");
            }
            (Some(_), None) => {
                if text(bundle, "name").is_empty() {
                    faults.required(&item.child("name"), "must be a valid object name");
                }
                if let Some(selector) = part(bundle, "labelSelector") {
                    let message = "labelSelector must be unset if name is specified";
                    faults.invalid(&item.child("labelSelector"), selector.clone(), message);
                }
            }
            (None, Some(_)) => {
                if text(bundle, "signerName").is_empty() {
                    faults.required(&item.child("signerName"), "must be a valid signer name");
                }
                let selector = bundle.get("labelSelector").unwrap_or(&Value::Null);
                label_selector(faults, &item.child("labelSelector"), selector);
            }
            (None, None) => faults.required(item, "either name or signerName must be specified"),
        }
        let file = text(bundle, "path");
        required(faults, &item.child("path"), file);
        local_path(faults, &item.child("path"), file);
        self.take(faults, file, file);
    }

    fn validate_certificate(&mut self, faults: &mut Faults, item: &Path<'_>, source: &'a Value) {
        const KEYS: &[&str] =
            &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
        supported_only(faults, &item.child("keyType"), text(source, "keyType"), KEYS);
        if let Some(seconds) = integer(source, "maxExpirationSeconds").filter(|it| *it < 3600) {
            let message = "if provided, maxExpirationSeconds must be >= 3600";
            faults.invalid(&item.child("maxExpirationSeconds"), seconds, message);
        }
        let mut has_file = false;
        for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
            let file = text(source, field);
            if !file.is_empty() {
                has_file = true;
                local_path(faults, &item.child(field), file);
                self.take(faults, file, file);
            }
        }
        if !has_file {
            let message =
                "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
            faults.required(item, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lines;
    use machinery::json;

    fn check(sources: Value, expected: &[&str]) {
        let mut faults = Faults::new();
        validate_projected(&mut faults, &Path::root("p"), &json!({"sources": sources}));
        assert_eq!(lines(&faults), expected);
    }

    #[test]
    fn two_sources_do_not_write_the_same_file() {
        let keys =
            |name: &str| json!({"configMap": {"name": name, "items": [{"key": "k", "path": "f"}]}});
        check(
            json!([keys("a"), keys("b")]),
            &[r#"p: Invalid value: "b": conflicting duplicate paths"#],
        );
    }

    #[test]
    fn a_token_lives_for_ten_minutes_at_least() {
        check(
            json!([{"serviceAccountToken": {"expirationSeconds": 599, "path": "/abs"}}]),
            &[
                "p.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
                r#"p.path: Invalid value: "/abs": must be a relative path"#,
            ],
        );
    }

    #[test]
    fn a_mode_is_octal() {
        let mut faults = Faults::new();
        validate_keys(&mut faults, &Path::root("s"), &json!({"defaultMode": 512}), "secretName");
        assert_eq!(
            lines(&faults),
            [
                "s.secretName: Required value",
                "s.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ]
        );
    }
}
