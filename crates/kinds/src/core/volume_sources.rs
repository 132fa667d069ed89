//! The network volume sources of pods and persistent volumes: defaults and validation.

use crate::validation::rules::{dns_label, in_range, required, supported_only};
use machinery::fields::{
    at, default_text, default_value, flag, integer, list, map_mut, number, part, text,
};
use machinery::{ErrorList, Map, Path, Value};

const HOST_PORTS: &str = "must be a host:port pair or multiple pairs separated by commas";
const MANAGED_DISK: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
const BLOB_DISK: &str =
    "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";

/// Sets the defaults of a volume of a pod, or of the spec of a persistent volume.
pub(super) fn defaults(volume: &mut Map<String, Value>) {
    if let Some(source) = map_mut(volume, "iscsi") {
        default_text(source, "iscsiInterface", "default");
    }
    if let Some(source) = map_mut(volume, "rbd") {
        default_text(source, "pool", "rbd");
        default_text(source, "user", "admin");
        default_text(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = map_mut(volume, "azureDisk") {
        default_value(source, "cachingMode", "ReadWrite".into());
        default_value(source, "kind", "Shared".into());
        default_value(source, "fsType", "ext4".into());
        default_value(source, "readOnly", false.into());
    }
    if let Some(source) = map_mut(volume, "scaleIO") {
        default_text(source, "storageMode", "ThinProvisioned");
        default_text(source, "fsType", "xfs");
    }
}

/// Validates a network volume source; other kinds are ignored.
pub(super) fn validate(errors: &mut ErrorList, path: &Path<'_>, kind: &str, source: &Value) {
    match kind {
        "rbd" | "cephfs" => {
            if list(source, "monitors").is_empty() {
                errors.required(&path.child("monitors"), "");
            }
            if kind == "rbd" {
                required(errors, &path.child("image"), text(source, "image"));
            }
        }
        "iscsi" => {
            required(errors, &path.child("targetPortal"), text(source, "targetPortal"));
            let message = "must be valid format starting with iqn, eui, or naa";
            validate_iscsi(errors, path, source, message);
        }
        "fc" => validate_fibre_channel(errors, path, source),
        "azureDisk" => validate_azure(errors, path, source),
        "quobyte" => validate_quobyte(errors, path, source),
        "storageos" => validate_storage_os(errors, path, source),
        _ => {}
    }
}

/// Validates a persistent volume's iSCSI disk, whose rules differ slightly; `volume` is its name.
pub(super) fn validate_persistent_iscsi(
    errors: &mut ErrorList,
    path: &Path<'_>,
    source: &Value,
    volume: &str,
) {
    let portal = text(source, "targetPortal");
    required(errors, &path.child("targetPortal"), portal);
    if part(source, "initiatorName").is_some() && volume.len() + 1 + portal.len() > 64 {
        let message = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        // As upstream, the field is in lower case.
        errors.invalid(&path.child("targetportal"), portal, message);
    }
    validate_iscsi(errors, path, source, INVALID_FORMAT);
    if let Some(secret) = part(source, "secretRef") {
        required(errors, &path.child("secretRef").child("name"), text(secret, "name"));
    }
}

const INVALID_FORMAT: &str = "must be valid format";

/// `unknown_format` is the error about a name in no known format.
fn validate_iscsi(errors: &mut ErrorList, path: &Path<'_>, source: &Value, unknown_format: &str) {
    let message = |name: &str| match iscsi_name_format(name) {
        IscsiNameFormat::Unknown => Some(unknown_format),
        IscsiNameFormat::Invalid => Some(INVALID_FORMAT),
        IscsiNameFormat::Valid => None,
    };
    match text(source, "iqn") {
        "" => errors.required(&path.child("iqn"), ""),
        name => {
            if let Some(message) = message(name) {
                errors.invalid(&path.child("iqn"), name, message);
            }
        }
    }
    in_range(errors, &path.child("lun"), number(source, "lun"), 0, 255);
    let uses_chap = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if uses_chap && part(source, "secretRef").is_none() {
        errors.required(&path.child("secretRef"), "");
    }
    if let Some(name) = part(source, "initiatorName").and_then(Value::as_str)
        && let Some(message) = message(name)
    {
        // As upstream, the field is in lower case.
        errors.invalid(&path.child("initiatorname"), name, message);
    }
}

enum IscsiNameFormat {
    Valid,
    Invalid,
    /// The name begins with none of `iqn`, `eui` and `naa`.
    Unknown,
}

fn iscsi_name_format(name: &str) -> IscsiNameFormat {
    // As upstream's regular expression `eui.[[:alnum:]]{16}`: the separator is any character.
    let is_code = |code: &str, length: usize| {
        let mut rest = code.chars();
        rest.next().is_some()
            && rest.as_str().len() == length
            && rest.all(|c| c.is_ascii_alphanumeric())
    };
    let is_valid = if let Some(rest) = name.strip_prefix("iqn") {
        is_qualified(rest)
    } else if let Some(code) = name.strip_prefix("eui") {
        is_code(code, 16)
    } else if let Some(code) = name.strip_prefix("naa") {
        is_code(code, 32)
    } else {
        return IscsiNameFormat::Unknown;
    };
    if is_valid { IscsiNameFormat::Valid } else { IscsiNameFormat::Invalid }
}

/// Whether an iSCSI qualified name is valid after `iqn`: `.2001-04.com.example:storage`, the month
/// in which the domain was registered, the domain, and a name that its owner chose.
fn is_qualified(rest: &str) -> bool {
    let Some((date, rest)) = rest.strip_prefix('.').and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let Some((domain, name)) = rest.split_once(':') else { return false };
    let is_date = date.len() == 7
        && date.char_indices().all(|(at, c)| if at == 4 { c == '-' } else { c.is_ascii_digit() });
    let is_domain = !domain.is_empty()
        && domain.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    let is_name =
        !name.is_empty() && !name.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n']);
    is_date && is_domain && is_name
}

fn validate_fibre_channel(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (targets, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    if targets.is_empty() && ids.is_empty() {
        let message = "must specify either targetWWNs or wwids, but not both";
        errors.required(&path.child("targetWWNs"), message);
    }
    if !targets.is_empty() && !ids.is_empty() {
        let message = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&path.child("targetWWNs"), Value::from(targets.to_vec()), message);
    }
    if targets.is_empty() {
        return;
    }
    match integer(source, "lun") {
        Some(lun) => in_range(errors, &path.child("lun"), lun, 0, 255),
        None => errors.required(&path.child("lun"), "lun is required if targetWWNs is specified"),
    }
}

fn validate_azure(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let uri = text(source, "diskURI");
    required(errors, &path.child("diskName"), text(source, "diskName"));
    required(errors, &path.child("diskURI"), uri);
    if let Some(mode) = part(source, "cachingMode").and_then(Value::as_str) {
        let modes = &["None", "ReadOnly", "ReadWrite"];
        supported_only(errors, &path.child("cachingMode"), mode, modes);
    }
    let Some(kind) = part(source, "kind").and_then(Value::as_str) else { return };
    supported_only(errors, &path.child("kind"), kind, &["Dedicated", "Managed", "Shared"]);
    let (prefix, format) = match kind {
        "Managed" => ("/subscriptions/", MANAGED_DISK),
        _ => ("https://", BLOB_DISK),
    };
    if !uri.starts_with(prefix) {
        errors.not_supported(&path.child("diskURI"), uri, &[format]);
    }
}

fn validate_quobyte(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    let (registry, tenant) = (text(source, "registry"), text(source, "tenant"));
    if registry.is_empty() {
        errors.required(&path.child("registry"), HOST_PORTS);
    } else if tenant.len() > 64 {
        let message = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.child("tenant"), message);
    } else {
        for pair in registry.split(',').filter(|pair| pair.matches(':').count() != 1) {
            // An IPv6 address has its colons in brackets.
            if !(pair.starts_with('[') && pair.contains("]:")) {
                errors.invalid(&path.child("registry"), registry, HOST_PORTS);
            }
        }
    }
    required(errors, &path.child("volume"), text(source, "volume"));
}

fn validate_storage_os(errors: &mut ErrorList, path: &Path<'_>, source: &Value) {
    match text(source, "volumeName") {
        "" => errors.required(&path.child("volumeName"), ""),
        name => dns_label(errors, &path.child("volumeName"), name),
    }
    let namespace = text(source, "volumeNamespace");
    if !namespace.is_empty() {
        dns_label(errors, &path.child("volumeNamespace"), namespace);
    }
    if part(source, "secretRef").is_some() {
        let name = text(at(source, &["secretRef"]), "name");
        required(errors, &path.child("secretRef").child("name"), name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::testing::lines;
    use machinery::json;

    fn check(kind: &str, source: Value, expected: &[&str]) {
        let mut errors = ErrorList::new();
        validate(&mut errors, &Path::root("d"), kind, &source);
        assert_eq!(lines(&errors), expected);
    }

    #[test]
    fn an_iscsi_name_must_be_in_a_known_format() {
        let named = |name: &str| json!({"targetPortal": "p", "iqn": name});
        for name in ["iqn.2001-04.com.example:storage", "eui.0123456789abcdef"] {
            check("iscsi", named(name), &[]);
        }
        check(
            "iscsi",
            named("iqn.2001-4.com:x"),
            &[r#"d.iqn: Invalid value: "iqn.2001-4.com:x": must be valid format"#],
        );
        check(
            "iscsi",
            named("x"),
            &[r#"d.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa"#],
        );
    }

    #[test]
    fn the_uri_of_an_azure_disk_must_match_its_kind() {
        check(
            "azureDisk",
            json!({"diskName": "d", "diskURI": "/x", "kind": "Managed"}),
            &[&format!(
                r#"d.diskURI: Unsupported value: "/x": supported values: "{MANAGED_DISK}""#
            )],
        );
    }

    #[test]
    fn fibre_channel_targets_require_a_lun() {
        let message = "d.lun: Required value: lun is required if targetWWNs is specified";
        check("fc", json!({"targetWWNs": ["w"]}), &[message]);
    }

    #[test]
    fn a_quobyte_registry_must_be_host_and_port_pairs() {
        check("quobyte", json!({"registry": "h:1,[::1]:2", "volume": "v"}), &[]);
        check(
            "quobyte",
            json!({"registry": "h", "volume": "v"}),
            &[&format!(r#"d.registry: Invalid value: "h": {HOST_PORTS}"#)],
        );
    }
}
