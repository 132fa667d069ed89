//! [`Definition`]: what a `CustomResourceDefinition` says about a kind and its versions.

use super::error::GenerateError;
use machinery::{Map, Value};

/// The annotation without which a server refuses CRDs of the groups of Kubernetes.
pub(crate) const APPROVAL: &str = "api-approved.kubernetes.io";

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Definition {
    /// The name of the CRD: the plural and the group.
    pub(crate) name: String,
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) singular: Option<String>,
    pub(crate) list_kind: Option<String>,
    /// `Namespaced` or `Cluster`. A server refuses a CRD without a scope.
    pub(crate) scope: Option<String>,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) approval: Option<String>,
    pub(crate) has_conversion: bool,
    pub(crate) versions: Vec<DefinedVersion>,
}

/// A version of the kind.
#[derive(Debug)]
pub(crate) struct DefinedVersion {
    pub(crate) name: String,
    pub(crate) is_served: bool,
    pub(crate) is_stored: bool,
    pub(crate) deprecation: Deprecation,
    pub(crate) columns: Vec<Value>,
    pub(crate) selectable_fields: Vec<String>,
    pub(crate) has_status_subresource: bool,
    pub(crate) scale: Option<Value>,
    /// `openAPIV3Schema`.
    pub(crate) schema: Map<String, Value>,
}

/// Whether servers warn the clients of a version.
#[derive(Debug)]
pub(crate) enum Deprecation {
    None,
    /// With a warning of the server's own.
    Plain,
    Warning(String),
}

impl Definition {
    /// Reads the object of a CRD.
    pub(crate) fn parse(crd: &Value) -> Result<Self, GenerateError> {
        let name = text(&crd["metadata"]["name"]).unwrap_or_default();
        let version = text(&crd["apiVersion"]).unwrap_or_default();
        if version != "apiextensions.k8s.io/v1" {
            return Err(GenerateError::OldVersion { name, version });
        }
        let spec = &crd["spec"];
        let required = |value: &Value, field: &str| {
            text(value).filter(|it| !it.is_empty()).ok_or_else(|| GenerateError::MissingField {
                name: name.clone(),
                field: field.to_owned(),
            })
        };
        let names = &spec["names"];
        let versions = list(&spec["versions"]);
        if versions.is_empty() {
            required(&Value::Null, "spec.versions")?;
        }
        let versions = versions.iter().map(|it| DefinedVersion::parse(it, &name));
        let annotations = &crd["metadata"]["annotations"];
        Ok(Self {
            group: required(&spec["group"], "spec.group")?,
            kind: required(&names["kind"], "spec.names.kind")?,
            plural: required(&names["plural"], "spec.names.plural")?,
            singular: text(&names["singular"]).filter(|it| !it.is_empty()),
            list_kind: text(&names["listKind"]).filter(|it| !it.is_empty()),
            scope: text(&spec["scope"]).filter(|it| !it.is_empty()),
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            approval: text(&annotations[APPROVAL]),
            has_conversion: spec["conversion"]["strategy"] == "Webhook",
            versions: versions.collect::<Result<_, _>>()?,
            name,
        })
    }

    /// The version of this name.
    pub(crate) fn version(&self, name: &str) -> Result<&DefinedVersion, GenerateError> {
        let known =
            || self.versions.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        self.versions.iter().find(|it| it.name == name).ok_or_else(|| {
            let (version, known) = (name.to_owned(), known());
            GenerateError::UnknownVersion { name: self.name.clone(), version, known }
        })
    }

    /// The version that objects are stored in, or the first one.
    pub(crate) fn stored_version(&self) -> Option<&DefinedVersion> {
        self.versions.iter().find(|it| it.is_stored).or_else(|| self.versions.first())
    }
}

impl DefinedVersion {
    fn parse(version: &Value, crd: &str) -> Result<Self, GenerateError> {
        let name = text(&version["name"]).unwrap_or_default();
        let Value::Object(schema) = &version["schema"]["openAPIV3Schema"] else {
            return Err(GenerateError::NoSchema { name: crd.to_owned(), version: name });
        };
        let subresources = &version["subresources"];
        let field_paths = list(&version["selectableFields"]).iter();
        Ok(Self {
            is_served: version["served"] == true,
            is_stored: version["storage"] == true,
            deprecation: match text(&version["deprecationWarning"]) {
                _ if version["deprecated"] != true => Deprecation::None,
                Some(warning) => Deprecation::Warning(warning),
                None => Deprecation::Plain,
            },
            columns: list(&version["additionalPrinterColumns"]).to_vec(),
            selectable_fields: field_paths.filter_map(|it| text(&it["jsonPath"])).collect(),
            has_status_subresource: subresources["status"].is_object(),
            scale: subresources.get("scale").filter(|it| it.is_object()).cloned(),
            schema: schema.clone(),
            name,
        })
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(text).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}
