//! [`SourceFile`]: the Rust source of a version of a kind.

use std::collections::BTreeSet;

use super::attribute_layout::{Argument, WIDTH, attribute};
use super::attributes::{OF_SCHEMA, field_attributes, schema_arguments};
use super::definition::{DefinedVersion, Definition};
use super::documentation::doc_comment;
use super::error::GenerateError;
use super::kind_model::{KindModel, SpecPlace};
use super::literal::text_literal;
use super::resource_arguments::resource_arguments;
use super::rust_type::RustType;
use super::type_names::type_names;
use super::type_tree::{Content, Field, Presence, Struct};
use super::variants::Variants;
use super::words::{FieldCase, words};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) text: String,
    /// What the types cannot express.
    pub(crate) warnings: Vec<String>,
}

impl SourceFile {
    /// Generates the source of a version. Conditions may be those of k8s-openapi.
    pub(crate) fn new(
        definition: &Definition,
        version: &DefinedVersion,
        uses_conditions: bool,
    ) -> Result<Self, GenerateError> {
        let model = KindModel::new(definition, version, uses_conditions)?;
        let names = Names::of(&model);
        let mut printer = Printer { model: &model, names: &names, text: String::new() };
        printer.header(definition, version);
        printer.spec(definition, version);
        printer.types();
        Ok(Self { text: printer.text, warnings: model.warnings })
    }
}

/// The name of the module of a version, such as `http_route_v1`.
pub(crate) fn module_name(definition: &Definition, version: &DefinedVersion) -> String {
    let kind = words(&definition.kind).join("_");
    format!("{kind}_{}", words(&version.name).concat())
}

/// The name where another group has a kind of this name: `service_serving_knative_dev_v1`.
pub(crate) fn long_module_name(definition: &Definition, version: &DefinedVersion) -> String {
    let name = words(&definition.kind).into_iter().chain(words(&definition.group));
    format!("{}_{}", name.collect::<Vec<_>>().join("_"), words(&version.name).concat())
}

/// The names of all types.
pub(crate) struct Names {
    pub(crate) spec: String,
    pub(crate) status: String,
    types: Vec<String>,
}

impl Names {
    fn of(model: &KindModel) -> Self {
        let root = &model.root;
        let end = if model.spec_place == SpecPlace::Object { "Fields" } else { "Spec" };
        let (spec, status) = (format!("{root}{end}"), format!("{root}Status"));
        let mut taken: BTreeSet<String> =
            [root.clone(), format!("Optional{spec}"), spec.clone(), status.clone()].into();
        if model.rust_types().contains(&&RustType::Condition) {
            taken.insert("Condition".to_owned());
        }
        let paths: Vec<&[String]> = model.tree.types.iter().map(|it| it.path.as_slice()).collect();
        let mut types = type_names(root, &paths, &taken);
        if let Some(RustType::Named(index)) = model.status {
            status.clone_into(&mut types[index]);
        }
        Self { spec, status, types }
    }

    fn of_type(&self, index: usize) -> &str {
        &self.types[index]
    }
}

struct Printer<'a> {
    model: &'a KindModel,
    names: &'a Names,
    text: String,
}

impl Printer<'_> {
    fn header(&mut self, definition: &Definition, version: &DefinedVersion) {
        let (kind, group, name) = (&definition.kind, &definition.group, &definition.name);
        self.text += &format!("//! The kind `{kind}` of {group}/{}.\n//!\n", version.name);
        self.text += &format!("//! `sampan generate` has made it from the CRD {name}.\n\n");
        self.text += "#![allow(clippy::all, clippy::pedantic, reason = \"generated\")]\n";
        self.text +=
            "#![allow(dead_code, missing_docs, unreachable_pub, reason = \"generated\")]\n\n";
        let types = self.model.rust_types();
        let has_map = types.iter().any(|it| matches!(it, RustType::Map(_)));
        if has_map || self.model.structs().any(|it| it.keeps_others) {
            self.text += "use std::collections::BTreeMap;\n\n";
        }
        if types.contains(&&RustType::Condition) {
            self.text += "use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;\n\n";
        }
        let mut imports = Vec::new();
        if types.contains(&&RustType::IntOrString) {
            imports.push("IntOrString");
        }
        imports.push("resource");
        if !self.model.tree.types.is_empty() {
            imports.push("schema");
        }
        self.text += &match imports.as_slice() {
            [one] => format!("use runtime::{one};\n"),
            several => format!("use runtime::{{{}}};\n", several.join(", ")),
        };
    }

    fn spec(&mut self, definition: &Definition, version: &DefinedVersion) {
        let description = if self.model.spec_description.is_empty() {
            &self.model.description
        } else {
            &self.model.spec_description
        };
        self.text += "\n";
        self.text += &doc_comment(description, "");
        let arguments = resource_arguments(definition, version, self.model, self.names);
        self.text += &attribute("resource", &arguments, 0);
        self.structure(&self.names.spec.clone(), &self.model.spec);
        match &self.model.status {
            None | Some(RustType::Named(_)) => {}
            Some(other) => {
                let rust = self.rust(other);
                self.text +=
                    &format!("\n/// The status.\npub type {} = {rust};\n", self.names.status);
            }
        }
    }

    fn types(&mut self) {
        for (index, named) in self.model.tree.types.iter().enumerate() {
            let name = self.names.of_type(index).to_owned();
            self.text += "\n";
            self.text += &doc_comment(&named.description, "");
            match &named.content {
                Content::Struct(content) => {
                    let mut arguments = vec![Argument::value("nullable", "false")];
                    arguments.extend(schema_arguments(&named.patch(), OF_SCHEMA));
                    self.text += &attribute("schema", &arguments, 0);
                    self.structure(&name, content);
                }
                Content::Enum(variants) => self.enumeration(&name, variants),
            }
        }
    }

    /// A struct, after its first attribute.
    fn structure(&mut self, name: &str, content: &Struct) {
        let has_default = self.has_default(content);
        self.text +=
            if has_default { "#[derive(PartialEq, Default)]\n" } else { "#[derive(PartialEq)]\n" };
        if content.case != FieldCase::Camel {
            self.text += &format!("#[serde(rename_all = \"{}\")]\n", content.case.name());
        }
        if content.fields.is_empty() && !content.keeps_others {
            self.text += &format!("pub struct {name} {{}}\n");
            return;
        }
        self.text += &format!("pub struct {name} {{\n");
        for field in &content.fields {
            self.field(field, content.case);
        }
        if content.keeps_others {
            let mut identifier = "other".to_owned();
            while content.fields.iter().any(|it| it.identifier == identifier) {
                identifier += "_fields";
            }
            self.text +=
                "    /// The fields that the schema does not name.\n    #[serde(flatten)]\n";
            self.text += &format!("    pub {identifier}: BTreeMap<String, serde_json::Value>,\n");
        }
        self.text += "}\n";
    }

    fn field(&mut self, field: &Field, case: FieldCase) {
        self.text += &doc_comment(&field.description, "    ");
        let mut serde = Vec::new();
        if case.apply(&field.identifier) != field.name {
            serde.push(Argument::value("rename", &text_literal(&field.name)));
        }
        let (mut schemars, schema) = field_attributes(&field.patch, &field.rust_type);
        if matches!(field.presence, Presence::RequiredOrNull | Presence::RequiredOrDefault) {
            schemars.insert(0, Argument::word("required"));
        }
        if field.presence == Presence::RequiredOrDefault {
            serde.push(Argument::value("skip_serializing_if", "\"Option::is_none\""));
        }
        self.text += &attribute("serde", &serde, 4);
        self.text += &attribute("schemars", &schemars, 4);
        self.text += &attribute("schema", &schema, 4);
        let rust = self.rust(&field.rust_type);
        let rust =
            if field.presence == Presence::Required { rust } else { format!("Option<{rust}>") };
        let line = format!("    pub {}: {rust},\n", field.identifier);
        let is_short = line.trim_end().len() <= WIDTH;
        let lines = || format!("    pub {}:\n        {rust},\n", field.identifier);
        self.text += &if is_short { line } else { lines() };
    }

    fn enumeration(&mut self, name: &str, variants: &Variants) {
        self.text += "#[schema]\n#[derive(Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]\n";
        if let Some(case) = variants.rename_all {
            self.text += &format!("#[serde(rename_all = \"{case}\")]\n");
        }
        self.text += &format!("pub enum {name} {{\n");
        for variant in &variants.variants {
            if let Some(value) = &variant.rename {
                self.text += &format!("    #[serde(rename = {})]\n", text_literal(value));
            }
            self.text += &format!("    {},\n", variant.identifier);
        }
        self.text += "}\n";
    }

    fn rust(&self, rust_type: &RustType) -> String {
        rust_type.rust(&|index| self.names.of_type(index))
    }

    /// Whether all fields have a default. An enum has none.
    fn has_default(&self, content: &Struct) -> bool {
        content.fields.iter().filter(|it| it.presence == Presence::Required).all(|field| {
            match &field.rust_type {
                RustType::Named(index) => match &self.model.tree.types[*index].content {
                    Content::Struct(inner) => self.has_default(inner),
                    Content::Enum(_) => false,
                },
                _ => true,
            }
        })
    }
}
