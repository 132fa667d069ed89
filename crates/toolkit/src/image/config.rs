//! The configuration of an image: its user, its entry point, its labels.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::digest::Digest;
use super::platform::Platform;
use super::root_files::{CA_FILE, USER, program_path};
use crate::project::Project;

/// The variable with the time that an image shows, in seconds.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

/// The time that the image and its files show: `SOURCE_DATE_EPOCH`, or the beginning of 1970.
pub(super) fn source_date() -> Result<u64> {
    let Some(text) = std::env::var_os(SOURCE_DATE_EPOCH) else { return Ok(0) };
    let text = text.to_string_lossy();
    parse_seconds(&text).with_context(|| {
        format!("{SOURCE_DATE_EPOCH} is {text:?}, which is not a number of seconds since 1970")
    })
}

fn parse_seconds(text: &str) -> Option<u64> {
    let seconds: u64 = text.parse().ok()?;
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(seconds)
}

/// The labels that the settings of a project have values for.
pub(super) fn labels(project: &Project) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let mut add = |name: &str, value: Option<&str>| {
        let name = format!("org.opencontainers.image.{name}");
        labels.extend(value.map(|value| (name, value.to_owned())));
    };
    add("title", Some(&project.name));
    add("version", Some(&project.version));
    add("description", project.package_text("description"));
    add("licenses", project.package_text("license"));
    add("url", project.package_text("homepage"));
    add("source", project.package_text("repository"));
    labels
}

/// What the configuration of an image depends on.
pub(super) struct ConfigSource<'a> {
    pub(super) name: &'a str,
    pub(super) platform: Platform,
    pub(super) seconds: u64,
    pub(super) labels: BTreeMap<String, String>,
    /// The layers above the base, with their comments.
    pub(super) layers: Vec<(Digest, &'static str)>,
    /// The configuration of the base.
    pub(super) base: Option<Value>,
}

impl ConfigSource<'_> {
    /// The document.
    pub(super) fn document(self) -> Result<Value> {
        let seconds = i64::try_from(self.seconds)?;
        let created = Timestamp::from_second(seconds)?.to_string();
        let has_base = self.base.is_some();
        let base = self.base.unwrap_or_default();
        let items = |pointer: &str| {
            base.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let (mut diff_ids, mut history) = (items("/rootfs/diff_ids"), items("/history"));
        for (content, comment) in self.layers {
            diff_ids.push(json!(content));
            history.push(
                json!({"created": created, "created_by": "sampan image build", "comment": comment}),
            );
        }
        let mut config = match &base["config"] {
            Value::Object(config) => config.clone(),
            _ => Map::new(),
        };
        // It would be the arguments of the operator.
        config.remove("Cmd");
        if !has_base {
            let path = "PATH=/usr/local/bin:/usr/bin:/bin";
            config.insert("Env".to_owned(), json!([path, format!("SSL_CERT_FILE={CA_FILE}")]));
            config.insert("WorkingDir".to_owned(), json!("/"));
        }
        config.insert("User".to_owned(), json!(USER));
        config.insert("Entrypoint".to_owned(), json!([program_path(self.name)]));
        config.insert("Labels".to_owned(), json!(self.labels));
        Ok(json!({
            "created": created, "architecture": self.platform.architecture(), "os": "linux",
            "config": config, "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "history": history,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_a_number_of_seconds() {
        assert_eq!(parse_seconds("1700000000"), Some(1_700_000_000));
        for text in ["", "-1", "1.5", "yesterday", "99999999999999999999", "9999999999999999"] {
            assert_eq!(parse_seconds(text), None, "{text}");
        }
    }

    #[test]
    fn the_configuration_of_a_base_stays_but_for_what_the_operator_needs() {
        let base = json!({
            "architecture": "amd64", "os": "linux",
            "config": {"Env": ["A=1"], "Cmd": ["sh"], "User": "root", "WorkingDir": "/srv"},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:base"]},
            "history": [{"created_by": "base"}],
        });
        let source = ConfigSource {
            name: "demo",
            platform: Platform::Amd64,
            seconds: 86400,
            labels: BTreeMap::new(),
            layers: vec![(Digest::of(b""), "the operator")],
            base: Some(base),
        };
        let document = source.document().unwrap();
        assert_eq!(document["created"], "1970-01-02T00:00:00Z");
        assert_eq!(document["rootfs"]["diff_ids"], json!(["sha256:base", Digest::of(b"")]));
        let config = json!({
            "Env": ["A=1"], "User": USER, "WorkingDir": "/srv", "Labels": {},
            "Entrypoint": ["/usr/local/bin/demo"],
        });
        assert_eq!(document["config"], config);
        assert_eq!(document["history"].as_array().map(Vec::len), Some(2));
    }
}
