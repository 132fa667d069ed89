//! Files of a volume that hide one another, of which a pod's author is told.

use crate::fields::{at, list, part, text};
use machinery::Value;
use machinery::field_path::quote;

/// A file, and where it comes from if that needs telling.
struct File<'a> {
    path: &'a str,
    from: String,
}

impl File<'_> {
    fn shown(&self) -> String {
        match self.from.as_str() {
            "" => quote(self.path),
            from => format!("{} ({from})", quote(self.path)),
        }
    }

    /// Whether both are the same file, or one is to be below the other.
    fn overlaps(&self, other: &File<'_>) -> bool {
        let contains =
            |outer: &str, inner: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        contains(self.path, other.path) || contains(other.path, self.path)
    }
}

/// The warnings about the volumes of a pod's spec.
pub(super) fn warn(out: &mut Vec<String>, spec: &Value) {
    for volume in list(spec, "volumes") {
        let name = quote(text(volume, "name"));
        for (field, what, key) in
            [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName")]
        {
            let source = at(volume, &[field]);
            let what = format!("{what} {}", quote(text(source, key)));
            compare(out, &format!("volume {name} ({what})"), files(source, ""));
        }
        let downward = at(volume, &["downwardAPI"]);
        compare(out, &format!("volume {name} (DownwardAPI)"), files(downward, ""));
        let mut found = Vec::new();
        for source in list(at(volume, &["projected"]), "sources") {
            if source.as_object().is_none_or(|it| it.values().all(Value::is_null)) {
                out.push(format!("volume {name} (Projected) has no sources provided"));
            }
            found.extend(projected(source));
        }
        compare(out, &format!("volume {name} (Projected)"), found);
    }
}

fn files<'a>(source: &'a Value, from: &str) -> Vec<File<'a>> {
    let items = list(source, "items").iter();
    items.map(|it| File { path: text(it, "path"), from: from.to_owned() }).collect()
}

fn projected(source: &Value) -> Vec<File<'_>> {
    if let Some(map) = part(source, "configMap") {
        return files(map, &format!("ConfigMap {}", quote(text(map, "name"))));
    }
    if let Some(secret) = part(source, "secret") {
        return files(secret, &format!("Secret {}", quote(text(secret, "name"))));
    }
    if let Some(downward) = part(source, "downwardAPI") {
        return files(downward, "DownwardAPI");
    }
    if let Some(token) = part(source, "serviceAccountToken") {
        return vec![File { path: text(token, "path"), from: "ServiceAccountToken".to_owned() }];
    }
    if let Some(bundle) = part(source, "clusterTrustBundle") {
        let name = part(bundle, "name").or_else(|| part(bundle, "signerName"));
        let name = quote(name.and_then(Value::as_str).unwrap_or_default());
        return vec![File {
            path: text(bundle, "path"),
            from: format!("ClusterTrustBundle {name}"),
        }];
    }
    Vec::new()
}

fn compare(out: &mut Vec<String>, place: &str, files: Vec<File<'_>>) {
    let mut seen: Vec<File<'_>> = Vec::new();
    for file in files {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        if file.path.is_empty() {
            continue;
        }
        for other in seen.iter().filter(|other| file.overlaps(other)) {
            out.push(format!(
                "{place}: overlapping paths: {} with {}",
                file.shown(),
                other.shown()
            ));
        }
        seen.push(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn what_hides_another_file_is_told_with_where_it_comes_from() {
        let sources = json!([{"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]}},
            {"serviceAccountToken": {"path": "a/b"}}, {}]);
        let mut found = Vec::new();
        warn(&mut found, &json!({"volumes": [{"name": "v", "projected": {"sources": sources}}]}));
        assert_eq!(
            found,
            [
                r#"volume "v" (Projected) has no sources provided"#,
                r#"volume "v" (Projected): overlapping paths: "a/b" (ServiceAccountToken) with "a" (Secret "s")"#,
            ]
        );
    }
}
