//! Warnings about overlapping paths of files in a volume.

use std::collections::BTreeMap;
use std::ops::Bound;

use machinery::Value;
use machinery::field_path::quote;
use machinery::fields::{at, list, part, text};

/// The maximum number of warnings. A client receives only the first few kilobytes of them.
const WARNINGS_MAX: usize = 1000;

/// A file in a volume.
struct File<'a> {
    path: &'a str,
    /// The source of the file in a projected volume, or "".
    source: String,
}

impl File<'_> {
    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => quote(self.path),
            source => format!("{} ({source})", quote(self.path)),
        }
    }
}

/// Adds the warnings about the volumes of a pod's spec.
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

fn files<'a>(value: &'a Value, source: &str) -> Vec<File<'a>> {
    let items = list(value, "items").iter();
    items.map(|it| File { path: text(it, "path"), source: source.to_owned() }).collect()
}

/// The files of a source of a projected volume.
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
        return vec![File { path: text(token, "path"), source: "ServiceAccountToken".to_owned() }];
    }
    if let Some(bundle) = part(source, "clusterTrustBundle") {
        let name = part(bundle, "name").or_else(|| part(bundle, "signerName"));
        let name = quote(name.and_then(Value::as_str).unwrap_or_default());
        return vec![File {
            path: text(bundle, "path"),
            source: format!("ClusterTrustBundle {name}"),
        }];
    }
    Vec::new()
}

/// Adds a warning for each pair of overlapping paths; `place` names the volume.
fn compare(out: &mut Vec<String>, place: &str, files: Vec<File<'_>>) {
    let mut seen: Vec<File<'_>> = Vec::new();
    let mut indexes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for file in files {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        if file.path.is_empty() {
            continue;
        }
        for index in overlapping(&indexes, file.path) {
            if out.len() >= WARNINGS_MAX {
                return;
            }
            out.push(format!(
                "{place}: overlapping paths: {} with {}",
                file.shown(),
                seen[index].shown()
            ));
        }
        indexes.entry(file.path).or_default().push(seen.len());
        seen.push(file);
    }
}

/// The indexes of the files whose path equals, contains or is inside of `path`, in ascending order.
fn overlapping(indexes: &BTreeMap<&str, Vec<usize>>, path: &str) -> Vec<usize> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    let same_or_above = above.chain([path]).filter_map(|it| indexes.get(it));
    let start = format!("{path}/");
    let after = (Bound::Included(start.as_str()), Bound::Unbounded);
    let below = indexes.range::<str, _>(after).take_while(|(it, _)| it.starts_with(&start));
    let mut found: Vec<usize> = same_or_above
        .chain(below.map(|(_, indexes)| indexes))
        .flatten()
        .copied()
        .take(WARNINGS_MAX)
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::json;

    #[test]
    fn overlapping_files_are_reported_with_their_sources() {
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
