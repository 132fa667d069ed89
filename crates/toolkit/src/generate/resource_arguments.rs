//! [`resource_arguments`]: the arguments of `#[resource(…)]` for a version of a kind.

use super::attribute_layout::Argument;
use super::attributes::{OF_OBJECT, OF_SCHEMA, schema_arguments};
use super::definition::{APPROVAL, DefinedVersion, Definition, Deprecation};
use super::documentation::doc_lines;
use super::kind_model::{KindModel, SpecPlace};
use super::literal::text_literal;
use super::source_file::Names;
use machinery::Value;

/// See the [module documentation](self).
pub(crate) fn resource_arguments(
    definition: &Definition,
    version: &DefinedVersion,
    model: &KindModel,
    names: &Names,
) -> Vec<Argument> {
    let mut arguments = identity(definition, version, model);
    arguments.extend(subresources(version, model, names));
    match model.spec_place {
        SpecPlace::Spec => {}
        SpecPlace::OptionalSpec => arguments.push(Argument::word("optional_spec")),
        SpecPlace::Object => arguments.push(Argument::word("no_spec")),
    }
    arguments.extend(lifecycle(version));
    arguments.extend(definition.short_names.iter().map(|it| text("shortname", it)));
    arguments.extend(definition.categories.iter().map(|it| text("category", it)));
    arguments.extend(version.selectable_fields.iter().map(|it| text("selectable", it)));
    arguments.extend(version.columns.iter().filter_map(column));
    if let Some(approval) = &definition.approval {
        let annotation = [APPROVAL, approval].map(|it| Argument::Plain(text_literal(it)));
        arguments.push(Argument::List("annotation", annotation.into()));
    }
    if !model.description.is_empty() && !model.spec_description.is_empty() {
        arguments.push(text("doc", &doc_lines(&model.description, usize::MAX).join("\n")));
    }
    arguments.push(text("derive", "PartialEq"));
    arguments.push(Argument::value("nullable", "false"));
    arguments.extend(schema_arguments(&model.spec_patch, OF_SCHEMA));
    arguments.extend(schema_arguments(&model.object_patch, OF_OBJECT));
    arguments
}

fn identity(definition: &Definition, version: &DefinedVersion, model: &KindModel) -> Vec<Argument> {
    let mut arguments = vec![
        text("group", &definition.group),
        text("version", &version.name),
        text("kind", &definition.kind),
    ];
    if model.root != definition.kind {
        arguments.push(text("root", &model.root));
    }
    arguments.push(text("plural", &definition.plural));
    let singular = definition.singular.as_ref();
    if let Some(singular) = singular.filter(|it| **it != definition.kind.to_lowercase()) {
        arguments.push(text("singular", singular));
    }
    if definition.scope.as_deref() == Some("Namespaced") {
        arguments.push(Argument::word("namespaced"));
    }
    arguments
}

fn subresources(version: &DefinedVersion, model: &KindModel, names: &Names) -> Vec<Argument> {
    let mut arguments = Vec::new();
    if model.status.is_some() {
        arguments.push(text("status", &names.status));
    }
    if model.status.is_some() != version.has_status_subresource {
        let has_subresource = version.has_status_subresource.to_string();
        arguments.push(Argument::value("status_subresource", &has_subresource));
    }
    let fields = [
        ("specReplicasPath", "spec_replicas_path"),
        ("statusReplicasPath", "status_replicas_path"),
        ("labelSelectorPath", "label_selector_path"),
    ];
    if let Some(scale) = &version.scale {
        let paths =
            fields.iter().filter_map(|(field, name)| Some(text(name, scale[*field].as_str()?)));
        arguments.push(Argument::List("scale", paths.collect()));
    }
    arguments
}

/// `name = "text"`
fn text(name: &str, text: &str) -> Argument {
    Argument::value(name, &text_literal(text))
}

/// Whether the version is stored, served and deprecated.
fn lifecycle(version: &DefinedVersion) -> Vec<Argument> {
    let mut arguments = Vec::new();
    if !version.is_stored {
        arguments.push(Argument::value("storage", "false"));
    }
    if !version.is_served {
        arguments.push(Argument::value("served", "false"));
    }
    match &version.deprecation {
        Deprecation::None => {}
        Deprecation::Plain => arguments.push(Argument::word("deprecated")),
        Deprecation::Warning(warning) => arguments.push(text("deprecated", warning)),
    }
    arguments
}

fn column(column: &Value) -> Option<Argument> {
    let mut arguments = Vec::new();
    for (field, name) in [
        ("name", "name"),
        ("type", "type_"),
        ("jsonPath", "json_path"),
        ("format", "format"),
        ("description", "description"),
    ] {
        if let Some(value) = column[field].as_str() {
            arguments.push(text(name, value));
        }
    }
    if let Some(priority) = column["priority"].as_i64() {
        arguments.push(Argument::value("priority", &priority.to_string()));
    }
    (!arguments.is_empty()).then_some(Argument::List("printcolumn", arguments))
}
