//! Joins the sources into the table's text; `crates/types/build.rs` documents the format.

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use super::facts::Facts;
use super::fold;
use super::messages::{Container, Field, Item, Key, Message};
use super::schemas::{Schema, Schemas};

/// Modules that the OpenAPI document omits, with their API groups: types that are used only in
/// protobuf or by webhooks, and the CRD version of older manifests.
const UNPUBLISHED: [(&str, &str); 4] = [
    ("api/admission/v1", "admission.k8s.io"),
    ("api/apidiscovery/v2", "apidiscovery.k8s.io"),
    ("api/apidiscovery/v2beta1", "apidiscovery.k8s.io"),
    ("apiextensions_apiserver/pkg/apis/apiextensions/v1beta1", "apiextensions.k8s.io"),
];

const META: &str = "apimachinery/pkg/apis/meta/v1";

/// Types that later releases serve unchanged in a newer version: package, newer package, names.
const PROMOTED: [(&str, &str, &[&str]); 1] = [(
    "admissionregistration/v1beta1",
    "admissionregistration/v1",
    &[
        "ApplyConfiguration",
        "JSONPatch",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicyBindingList",
        "MutatingAdmissionPolicyBindingSpec",
        "MutatingAdmissionPolicyList",
        "MutatingAdmissionPolicySpec",
        "Mutation",
    ],
)];

/// Go constants in `+default=ref(…)` markers.
const CONSTANTS: [(&str, &str); 2] =
    [("AzureDataDiskCachingReadWrite", "\"ReadWrite\""), ("AzureSharedBlobDisk", "\"Shared\"")];

/// The files of the table, by name.
pub(crate) fn join(
    messages: BTreeMap<Key, Message>,
    schemas: &Schemas,
    facts: &Facts,
) -> anyhow::Result<BTreeMap<String, String>> {
    let join = Join { messages, schemas, facts };
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for key in join.messages.keys().filter(|key| special(key).is_none()) {
        let Some(head) = join.package_line(&key.0) else { continue };
        let package =
            packages.entry(short(&key.0)).or_insert(Package { head, types: BTreeMap::new() });
        let (name, text) = join.type_text(key).with_context(|| format!("type {}", key.1))?;
        package.types.insert(name, text);
    }
    for (from, to, names) in PROMOTED {
        for name in names {
            let text = packages[from].types.get(*name).context("a promoted type does not exist")?;
            let text = text.replace("go=v1beta1.", "go=v1.");
            packages
                .get_mut(to)
                .context("a package does not exist")?
                .types
                .insert((*name).into(), text);
        }
    }
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for (name, package) in packages {
        let group = name.split('/').next().unwrap_or_default();
        let file = files.entry(format!("{group}.txt")).or_default();
        file.push_str(&package.head);
        package.types.values().for_each(|text| file.push_str(text));
    }
    Ok(files)
}

struct Package {
    head: String,
    types: BTreeMap<String, String>,
}

struct Join<'a> {
    messages: BTreeMap<Key, Message>,
    schemas: &'a Schemas,
    facts: &'a Facts,
}

impl Join<'_> {
    /// The first line of a package, `= core/v1 v1 io.k8s.api.core.v1`; none for modules that are not
    /// in the table.
    fn package_line(&self, module: &str) -> Option<String> {
        let unpublished = UNPUBLISHED.iter().find(|(known, _)| *known == module);
        let group = match unpublished {
            Some((_, group)) => group,
            None if module == META => "meta.k8s.io",
            None => self.schemas.group(module).filter(|_| self.schemas.has_module(module))?,
        };
        let version = module.rsplit('/').next()?;
        let slash = if group.is_empty() { "" } else { "/" };
        let openapi = module.replace('/', ".").replace('_', "-");
        Some(format!("= {} {group}{slash}{version} io.k8s.{openapi}\n", short(module)))
    }

    fn type_text(&self, key: &Key) -> anyhow::Result<(String, String)> {
        let message = &self.messages[key];
        let schema = self.schemas.get(&key.0, &key.1);
        let name = self.type_name(key);
        let owner = format!("{}.{name}", short(&key.0));
        let mut text = name.clone();
        if self.is_kind(&owner, message, schema) {
            text.push_str(" @");
        }
        if is_atomic(&message.markers) {
            text.push_str(" atomic");
        }
        if message.markers.iter().any(|marker| marker == "union") {
            text.push_str(" union");
        }
        text.push('\n');
        // k8s-pb lists the fields of a message in Go's order, which is also the order in JSON.
        for field in &message.fields {
            let line = self.field_text(&key.0, &owner, field, schema);
            text.push_str(&line.with_context(|| format!("field {}", field.name))?);
        }
        Ok((name, text))
    }

    /// Returns whether the type has kind and apiVersion, which protobuf has outside of the message.
    fn is_kind(&self, owner: &str, message: &Message, schema: Option<&Schema>) -> bool {
        let own = message.fields.iter().any(|field| field.name == "api_version");
        let listed = schema.is_some_and(|schema| schema.fields.contains("apiVersion"));
        let is_list = message
            .fields
            .iter()
            .any(|field| matches!(&field.item, Item::Message((_, name)) if name == "ListMeta"));
        (listed && !own) || is_list || self.facts.kinds.contains(owner)
    }

    fn field_text(
        &self,
        module: &str,
        owner: &str,
        field: &Field,
        schema: Option<&Schema>,
    ) -> anyhow::Result<String> {
        let item = self.item_text(module, &field.item)?;
        let prefix = match field.container {
            Container::One => "",
            Container::List => "[]",
            Container::Map => "{}",
        };
        let name = self.field_name(owner, field, schema);
        let Some(name) = name else {
            return Ok(format!(" {} - {item} i\n", field.tag));
        };
        let fact = (owner.to_owned(), name.clone());
        let optional = field.markers.iter().any(|it| it == "optional" || it == "k8s:optional");
        let listed = schema.map_or(!optional, |schema| schema.required.contains(&name));
        let required = self.facts.required.get(&fact).copied().unwrap_or(listed);
        let emit =
            self.facts.emit.get(&fact).copied().unwrap_or_else(|| default_emit(field, required));
        // Without a schema the comment decides, but Go never requires a field that its encoder omits.
        let required = required && (schema.is_some() || emit != 'o' && emit != 'p');
        let mark = if required { "!" } else { "" };
        let mut text = format!(" {} {name} {prefix}{item} {emit}{mark}", field.tag);
        text.push_str(&self.attributes(field)?);
        if let Some(go) = self.facts.go.get(&fact) {
            text.push_str(&format!(" go={go}"));
        }
        text.push('\n');
        Ok(text)
    }

    /// The field's name in JSON; none if Go inlines the fields of the message.
    fn field_name(&self, owner: &str, field: &Field, schema: Option<&Schema>) -> Option<String> {
        let folded = fold(&field.name);
        if let Some(name) = self.facts.fields.get(&(owner.to_owned(), folded.clone())) {
            return Some(name.clone()).filter(|name| name != "-");
        }
        let spelled = schema.and_then(|schema| schema.fields.iter().find(|it| fold(it) == folded));
        if let Some(name) = spelled {
            return Some(name.clone());
        }
        if schema.is_some() && matches!(&field.item, Item::Message(key) if special(key).is_none()) {
            return None;
        }
        let name = self.schemas.spelling(&folded).map(str::to_owned);
        Some(name.unwrap_or_else(|| camel(&field.name)))
    }

    fn item_text(&self, module: &str, item: &Item) -> anyhow::Result<String> {
        let key = match item {
            Item::Scalar(scalar) => return Ok((*scalar).to_owned()),
            Item::Message(key) => key,
        };
        if let Some(special) = special(key) {
            return Ok(special.to_owned());
        }
        if self.package_line(&key.0).is_none() {
            bail!("its type {} of {} is not in the table", key.1, key.0);
        }
        let package = if key.0 == module { String::new() } else { short(&key.0) };
        Ok(format!("{package}.{}", self.type_name(key)))
    }

    /// The type's name in Go; prost writes `HttpGetAction` for `HTTPGetAction`.
    fn type_name(&self, key: &Key) -> String {
        if let Some(name) = self.facts.types.get(&format!("{}.{}", short(&key.0), key.1)) {
            return name.clone();
        }
        if let Some(schema) = self.schemas.get(&key.0, &key.1) {
            return schema.name.clone();
        }
        let element = key.1.strip_suffix("List").and_then(|it| self.schemas.get(&key.0, it));
        element.map_or_else(|| key.1.clone(), |schema| format!("{}List", schema.name))
    }

    fn attributes(&self, field: &Field) -> anyhow::Result<String> {
        let mut text = String::new();
        let one = |name: &str| {
            field.markers.iter().find_map(|marker| marker.strip_prefix(name)?.strip_prefix('='))
        };
        if let Some(list) = one("listType") {
            let keys = field.markers.iter().filter_map(|it| it.strip_prefix("listMapKey="));
            let keys: Vec<&str> = keys.collect();
            let colon = if keys.is_empty() { "" } else { ":" };
            text.push_str(&format!(" list={list}{colon}{}", keys.join(",")));
        }
        let atomic_type = matches!(&field.item, Item::Message(key)
            if self.messages.get(key).is_some_and(|message| is_atomic(&message.markers)));
        let granular = one("structType") == Some("granular") || field.container != Container::One;
        if is_atomic(&field.markers) || (atomic_type && !granular) {
            text.push_str(" atomic");
        }
        if let Some(patch) = one("patchStrategy") {
            text.push_str(&format!(" patch={patch}"));
        }
        if let Some(key) = one("patchMergeKey") {
            text.push_str(&format!(" key={key}"));
        }
        if let Some(default) = one("default") {
            let constant = default.strip_prefix("ref(").map(|name| name.trim_end_matches(')'));
            let default = match constant {
                None => default,
                Some(name) => CONSTANTS
                    .iter()
                    .find_map(|(known, value)| (*known == name).then_some(*value))
                    .with_context(|| format!("unknown constant {name}"))?,
            };
            text.push_str(&format!(" default={default}"));
        }
        if field.markers.iter().any(|marker| marker == "unionDiscriminator") {
            text.push_str(" discriminator");
        }
        Ok(text)
    }
}

/// The behavior of Go's encoder for most fields of that type, as a letter of the table.
fn default_emit(field: &Field, required: bool) -> char {
    let message = matches!(field.item, Item::Message(_)) && field.container == Container::One;
    let slice = field.container != Container::One || field.item == Item::Scalar("bytes");
    match &field.item {
        Item::Message((_, name)) if name == "ObjectMeta" || name == "ListMeta" => 'a',
        _ if slice && required => 'n',
        _ if required => 'a',
        _ if message => 'p',
        _ => 'o',
    }
}

/// The messages whose JSON form is not an object with their fields.
fn special(key: &Key) -> Option<&'static str> {
    let (module, name) = (key.0.as_str(), key.1.as_str());
    Some(match (module.rsplit('/').nth(1).unwrap_or_default(), name) {
        (_, "Quantity") if module == "apimachinery/pkg/api/resource" => "Quantity",
        (_, "IntOrString") if module == "apimachinery/pkg/util/intstr" => "IntOrString",
        (_, "RawExtension") if module == "apimachinery/pkg/runtime" => "RawExtension",
        ("meta", "Time") => "Time",
        ("meta", "MicroTime") => "MicroTime",
        ("meta", "FieldsV1") => "FieldsV1",
        // Other encodings of messages that the table has; no field has these types.
        ("meta", "Timestamp" | "Duration" | "TypeMeta") => "",
        ("meta", "Verbs") | (_, "ExtraValue") => "Strings",
        ("apiextensions", "Json") => "JSON",
        ("apiextensions", "JsonSchemaPropsOrBool") => "SchemaOrBool",
        ("apiextensions", "JsonSchemaPropsOrArray") => "SchemaOrArray",
        ("apiextensions", "JsonSchemaPropsOrStringArray") => "SchemaOrStrings",
        _ => return None,
    })
}

fn is_atomic(markers: &[String]) -> bool {
    markers.iter().any(|marker| marker == "structType=atomic" || marker == "mapType=atomic")
}

/// `core/v1` for `api/core/v1`.
fn short(module: &str) -> String {
    let mut parts = module.rsplit('/');
    let version = parts.next().unwrap_or_default();
    format!("{}/{version}", parts.next().unwrap_or_default())
}

fn camel(name: &str) -> String {
    let mut words = name.trim_start_matches("r#").split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
