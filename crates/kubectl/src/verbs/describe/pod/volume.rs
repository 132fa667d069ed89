//! Volumes, each with the fields of its type.

use super::super::sheet::Sheet;
use crate::print::template::plain_text;
use machinery::Value;
use machinery::fields::{flag, list, text};

/// Describes volumes. `space` is the indentation of a template.
pub(super) fn describe(sheet: &mut Sheet, volumes: &[Value], space: &str) {
    if volumes.is_empty() {
        return sheet.field(0, &format!("{space}Volumes"), "<none>");
    }
    sheet.line(0, &format!("{space}Volumes:"));
    let indent = if space.is_empty() { "" } else { " " };
    for volume in volumes {
        sheet.line(1, &format!("{indent}{}:", text(volume, "name")));
        let source = volume.as_object().and_then(|it| it.iter().find(|it| it.0 != "name"));
        match source {
            Some((kind, source)) => describe_source(sheet, kind, source),
            None => sheet.line(1, "<unknown>"),
        }
    }
}

fn describe_source(sheet: &mut Sheet, kind: &str, source: &Value) {
    let optional = flag(source, "optional").to_string();
    match kind {
        "emptyDir" => {
            sheet.field(2, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
            sheet.field(2, "Medium", text(source, "medium"));
            let limit = &source["sizeLimit"];
            let limit = if limit.is_null() { "<unset>".to_owned() } else { plain_text(limit) };
            sheet.field(2, "SizeLimit", &limit);
        }
        "hostPath" => {
            sheet.field(2, "Type", "HostPath (bare host directory volume)");
            sheet.field(2, "Path", text(source, "path"));
            sheet.field(2, "HostPathType", text(source, "type"));
        }
        "secret" => {
            sheet.field(2, "Type", "Secret (a volume populated by a Secret)");
            sheet.field(2, "SecretName", text(source, "secretName"));
            sheet.field(2, "Optional", &optional);
        }
        "configMap" => {
            sheet.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
            sheet.field(2, "Name", text(source, "name"));
            sheet.field(2, "Optional", &optional);
        }
        "persistentVolumeClaim" => {
            let kind = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same \
                        namespace)";
            sheet.field(2, "Type", kind);
            sheet.field(2, "ClaimName", text(source, "claimName"));
            sheet.field(2, "ReadOnly", &flag(source, "readOnly").to_string());
        }
        "projected" => projected(sheet, source),
        _ => other(sheet, kind, source),
    }
}

fn projected(sheet: &mut Sheet, source: &Value) {
    let kind = "Projected (a volume that contains injected data from multiple sources)";
    sheet.field(2, "Type", kind);
    let optional = |it: &Value| match &it["optional"] {
        Value::Null => "<nil>".to_owned(),
        value => value.to_string(),
    };
    for it in list(source, "sources") {
        let (secret, map) = (&it["secret"], &it["configMap"]);
        let token = &it["serviceAccountToken"];
        if secret.is_object() {
            sheet.field(2, "SecretName", text(secret, "name"));
            sheet.field(2, "SecretOptionalName", &optional(secret));
        } else if it["downwardAPI"].is_object() {
            sheet.field(2, "DownwardAPI", "true");
        } else if map.is_object() {
            sheet.field(2, "ConfigMapName", text(map, "name"));
            sheet.field(2, "ConfigMapOptional", &optional(map));
        } else if token.is_object() {
            sheet.field(2, "TokenExpirationSeconds", &plain_text(&token["expirationSeconds"]));
        }
    }
}

/// A type that has no layout of its own: its fields.
fn other(sheet: &mut Sheet, kind: &str, source: &Value) {
    sheet.field(2, "Type", kind);
    for (field, value) in source.as_object().into_iter().flatten() {
        sheet.field(2, field, &plain_text(value));
    }
}
