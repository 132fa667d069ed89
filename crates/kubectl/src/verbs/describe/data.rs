//! Config maps and secrets.

use base64::prelude::{BASE64_STANDARD, Engine};

use super::sheet::Sheet;
use machinery::Value;
use machinery::fields::{entries, text};

/// Describes a config map; whether its events are wanted.
pub(super) fn config_map(sheet: &mut Sheet, object: &Value) -> bool {
    sheet.head(object);
    sheet.line(0, "\nData\n====");
    for (key, value) in entries(object, "data") {
        sheet.line(0, &format!("{key}:\n----\n{}\n", value.as_str().unwrap_or_default()));
    }
    sheet.line(0, "\nBinaryData\n====");
    for (key, value) in entries(object, "binaryData") {
        sheet.line(0, &format!("{key}: {} bytes", length(value)));
    }
    sheet.line(0, "");
    true
}

/// Describes a secret without showing it; whether its events are wanted.
pub(super) fn secret(sheet: &mut Sheet, object: &Value) -> bool {
    sheet.head(object);
    let kind = text(object, "type");
    sheet.line(0, &format!("\nType:\t{kind}"));
    sheet.line(0, "\nData\n====");
    for (key, value) in entries(object, "data") {
        if key == "token" && kind == "kubernetes.io/service-account-token" {
            let decoded = BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
            let token = String::from_utf8(decoded.unwrap_or_default()).unwrap_or_default();
            sheet.field(0, key, &token);
        } else {
            sheet.field(0, key, &format!("{} bytes", length(value)));
        }
    }
    false
}

/// The number of bytes in base64.
fn length(value: &Value) -> usize {
    BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).map_or(0, |it| it.len())
}
