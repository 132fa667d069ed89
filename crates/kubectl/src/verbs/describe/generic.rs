//! Objects of any kind: all fields, with titles made of their names.

use super::sheet::Sheet;
use crate::print::template::plain_text;
use machinery::Value;

/// What the head shows, and nobody reads.
const SKIPPED: [&str; 5] = [
    ".metadata.managedFields",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.labels",
    ".metadata.annotations",
];

/// Words that are written in capitals.
const ACRONYMS: [&str; 4] = ["API", "URL", "UID", "GUID"];

/// Describes an object; whether its events are wanted.
pub(super) fn describe(sheet: &mut Sheet, object: &Value) -> bool {
    sheet.head(object);
    fields(sheet, 0, object, "");
    true
}

fn fields(sheet: &mut Sheet, level: usize, object: &Value, path: &str) {
    for (field, value) in object.as_object().into_iter().flatten() {
        let path = format!("{path}.{field}");
        if SKIPPED.contains(&path.as_str()) {
            continue;
        }
        let title = title(field);
        match value {
            Value::Object(_) => {
                sheet.line(level, &format!("{title}:"));
                fields(sheet, level + 1, value, &path);
            }
            Value::Array(items) => {
                sheet.line(level, &format!("{title}:"));
                for item in items {
                    if item.is_object() {
                        fields(sheet, level + 1, item, &path);
                    } else {
                        sheet.line(level + 1, &plain_text(item));
                    }
                }
            }
            scalar => sheet.field(level, &title, &plain_text(scalar)),
        }
    }
}

/// `creationTimestamp` → `Creation Timestamp`
fn title(field: &str) -> String {
    if !field.chars().all(|c| c.is_alphabetic() || c == '-') {
        return field.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let mut chars = field.chars().peekable();
    let mut before: Option<char> = None;
    while let Some(c) = chars.next() {
        let begins = match before {
            None => true,
            Some(before) if c.is_uppercase() => {
                !before.is_uppercase() || chars.peek().is_some_and(|next| next.is_lowercase())
            }
            Some(before) => !c.is_alphabetic() || !before.is_alphabetic(),
        };
        match words.last_mut() {
            Some(word) if !begins => word.push(c),
            _ => words.push(c.to_string()),
        }
        before = Some(c);
    }
    let shown: Vec<String> = words.into_iter().map(|word| capital(&word)).collect();
    shown.join(" ")
}

fn capital(word: &str) -> String {
    let upper = word.to_uppercase();
    if ACRONYMS.contains(&upper.as_str()) {
        return upper;
    }
    if word.to_lowercase() != word {
        return word.to_owned();
    }
    let mut chars = word.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_the_words_of_a_field() {
        let titles = ["creationTimestamp", "apiVersion", "uid", "clusterIP", "a.b/c", "podCIDRs"];
        let shown: Vec<String> = titles.iter().map(|it| title(it)).collect();
        assert_eq!(shown[..5], ["Creation Timestamp", "API Version", "UID", "Cluster IP", "a.b/c"]);
    }
}
