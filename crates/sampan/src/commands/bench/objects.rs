//! The objects that the bench writes: config maps of 1 KiB, and custom resources of about that size.

use anyhow::{Context, Result};
use serde::Deserialize;

use machinery::{Value, json};

/// A resource whose objects are written, in one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// The name in the table.
    pub resource: &'static str,
    /// The path of the collection.
    pub collection: String,
    api_version: String,
    kind: String,
    /// The field that holds the content.
    section: &'static str,
    /// The content's fields, as JSON without the braces.
    content: String,
}

impl Sample {
    /// Config maps with 1 KiB of data.
    pub(crate) fn config_map(namespace: &str) -> Self {
        Self {
            resource: "configmaps",
            collection: format!("/api/v1/namespaces/{namespace}/configmaps"),
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            section: "data",
            content: format!(r#""payload":"{}""#, payload(1024)),
        }
    }

    /// Custom resources of a [`crd`].
    pub(crate) fn custom(group: &str, singular: &str, namespace: &str) -> Self {
        let fields = json!({
            "image": "registry.example.com/team/widget:v1.2.3",
            "replicas": 3,
            "paused": false,
            "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
            "environment": {"LOG_LEVEL": "info", "REGION": "eu-west-1"},
            "payload": payload(768),
        })
        .to_string();
        Self {
            resource: "widgets",
            collection: format!("/apis/{group}/v1/namespaces/{namespace}/{singular}s"),
            api_version: format!("{group}/v1"),
            kind: kind(singular),
            section: "spec",
            content: fields[1..fields.len() - 1].to_owned(),
        }
    }

    /// The body of a create request, or with a resource version, of an update. Bodies with
    /// different marks differ.
    pub(crate) fn body(&self, name: &str, version: Option<&str>, mark: u64) -> String {
        let Self { api_version, kind, section, content, .. } = self;
        let version = match version {
            Some(version) => format!(r#","resourceVersion":"{version}""#),
            None => String::new(),
        };
        format!(
            r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"{name}"{version}}},"{section}":{{{content},"mark":"{mark}"}}}}"#
        )
    }

    /// A merge patch that changes the mark.
    pub(crate) fn patch(&self, mark: u64) -> String {
        format!(r#"{{"{}":{{"mark":"{mark}"}}}}"#, self.section)
    }
}

/// A CRD with a structural schema of the usual types of fields. CRDs of one group must have
/// different names.
pub(crate) fn crd(group: &str, singular: &str) -> Value {
    let text = json!({"type": "string", "maxLength": 4096});
    let port = json!({
        "type": "object",
        "required": ["port"],
        "properties": {
            "name": {"type": "string"},
            "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
        },
    });
    let spec = json!({
        "type": "object",
        "required": ["image"],
        "properties": {
            "image": {"type": "string", "minLength": 1},
            "replicas": {"type": "integer", "format": "int32", "minimum": 0, "default": 1},
            "paused": {"type": "boolean"},
            "ports": {"type": "array", "maxItems": 16, "items": port},
            "environment": {"type": "object", "additionalProperties": {"type": "string"}},
            "payload": text,
            "mark": text,
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{singular}s.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {
                "plural": format!("{singular}s"),
                "singular": singular,
                "kind": kind(singular),
                "listKind": format!("{}List", kind(singular)),
            },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// The resource version of an object or a list. All other fields are skipped, not decoded.
pub(crate) fn resource_version(body: &[u8]) -> Result<String> {
    #[derive(Deserialize)]
    struct Versioned<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    struct Metadata<'a> {
        #[serde(rename = "resourceVersion")]
        resource_version: &'a str,
    }
    let versioned: Versioned<'_> =
        serde_json::from_slice(body).context("the response has no resource version")?;
    Ok(versioned.metadata.resource_version.to_owned())
}

/// The singular name with a capital letter.
fn kind(singular: &str) -> String {
    let (first, rest) = singular.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Text of this length that needs no escaping.
fn payload(length: usize) -> String {
    "endpoint=https://example.internal:8443;mode=active;".chars().cycle().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_config_map_has_one_kibibyte_of_payload() {
        let sample = Sample::config_map("here");
        let object = parsed(&sample.body("a", None, 7));
        assert_eq!(object["metadata"], json!({"name": "a"}));
        assert_eq!(object["data"]["payload"].as_str().unwrap().len(), 1024);
        assert_eq!(object["data"]["mark"], "7");
        assert_eq!(parsed(&sample.patch(8)), json!({"data": {"mark": "8"}}));
    }

    #[test]
    fn a_resource_version_is_read_from_a_response() {
        let body = br#"{"kind":"X","metadata":{"uid":"u","resourceVersion":"41"},"spec":{}}"#;
        assert_eq!(resource_version(body).unwrap(), "41");
        assert!(resource_version(b"{}").is_err());
    }

    #[test]
    fn a_custom_resource_conforms_to_its_crd() {
        let sample = Sample::custom("x.example", "widget", "here");
        let object = parsed(&sample.body("a", Some("41"), 7));
        assert_eq!(object["metadata"], json!({"name": "a", "resourceVersion": "41"}));
        let crd = crd("x.example", "widget");
        let names = &crd["spec"]["names"];
        assert_eq!(object["kind"], names["kind"]);
        assert_eq!(sample.collection, "/apis/x.example/v1/namespaces/here/widgets");
        assert_eq!(crd["metadata"]["name"], "widgets.x.example");
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let known = &schema["properties"]["spec"]["properties"];
        for field in object["spec"].as_object().unwrap().keys() {
            assert!(known.get(field).is_some(), "{field}");
        }
    }
}
