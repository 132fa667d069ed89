//! [`Document`]: an OpenAPI v3 document, and the texts of its schemas.

use super::text_wrap::{indent, wrap};
use super::{description_text, enum_values};
use crate::discovery::ApiResource;
use machinery::Value;
use machinery::fields::{entries, list, text, texts};

/// See the [module documentation](self).
pub(super) struct Document(pub(super) Value);

/// The number of enumeration values that are shown in a list of fields.
const ENUM_LIMIT: usize = 4;

impl Document {
    /// The schema of a kind.
    pub(super) fn of_kind(&self, resource: &ApiResource) -> Option<&Value> {
        let schemas = self.0["components"]["schemas"].as_object()?;
        schemas.values().find(|schema| {
            list(schema, "x-kubernetes-group-version-kind").iter().any(|it| {
                text(it, "kind") == resource.kind
                    && text(it, "group") == resource.group
                    && text(it, "version") == resource.version
            })
        })
    }

    /// The schema that a reference means, or the schema itself.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let Some(name) = reference(schema) else { return schema };
        let found = &self.0["components"]["schemas"][name];
        if found.is_null() { schema } else { found }
    }

    /// The text for a schema, or for the field at a path below it; none if there is no such field.
    pub(super) fn explain(&self, schema: &Value, path: &[&str], recursive: bool) -> Option<String> {
        self.follow(schema, path, recursive, &mut Vec::new())
    }

    fn follow<'a>(
        &'a self,
        schema: &'a Value,
        path: &[&str],
        recursive: bool,
        seen: &mut Vec<&'a str>,
    ) -> Option<String> {
        let resolved = self.resolve(schema);
        let Some((first, rest)) = path.split_first() else {
            let mut out = description_text(&self.description(schema));
            let mut fields = String::new();
            self.fields(schema, 1, recursive, &mut Vec::new(), &mut fields);
            if !fields.is_empty() {
                out.push_str("FIELDS:\n");
                out.push_str(&fields);
            }
            return Some(out);
        };
        if let Some(name) = reference(schema) {
            if seen.contains(&name) {
                return None;
            }
            seen.push(name);
        }
        if let Some(property) = resolved["properties"].get(first) {
            let mut out = String::new();
            if rest.is_empty() {
                out.push_str(&format!("FIELD: {first} <{}>\n", self.type_name(property)));
                if let Some(values) = enum_values(property, usize::MAX) {
                    out.push_str(&format!("ENUM:\n    {}", values.join("\n    ")));
                }
                out.push_str("\n\n");
            }
            out.push_str(&self.follow(property, rest, recursive, &mut Vec::new())?);
            return Some(out);
        }
        if let Some(items) = resolved.get("items") {
            return self.follow(items, path, recursive, seen);
        }
        if let Some(values) = resolved.get("additionalProperties").filter(|it| it.is_object()) {
            return self.follow(values, path, recursive, seen);
        }
        list(resolved, "allOf").iter().find_map(|it| self.follow(it, path, recursive, seen))
    }

    /// The descriptions of a schema and of what it consists of.
    fn description(&self, schema: &Value) -> String {
        let resolved = self.resolve(schema);
        let mut out = String::new();
        let own = text(resolved, "description");
        if !own.is_empty() {
            out.push_str(&format!("{own}\n"));
        }
        for sibling in siblings(resolved) {
            out.push_str(&self.description(sibling));
        }
        out
    }

    /// The list of a schema's fields.
    fn fields<'a>(
        &'a self,
        schema: &'a Value,
        level: usize,
        recursive: bool,
        seen: &mut Vec<&'a str>,
        out: &mut String,
    ) {
        let name = reference(schema);
        if name.is_some_and(|it| seen.contains(&it)) {
            return;
        }
        seen.extend(name);
        let resolved = self.resolve(schema);
        let required: Vec<&str> = texts(resolved, "required").collect();
        for (field, property) in entries(resolved, "properties") {
            self.field(field, property, required.contains(&field), level, recursive, out);
            if recursive {
                self.fields(property, level + 1, recursive, seen, out);
            }
        }
        for sibling in siblings(resolved) {
            self.fields(sibling, level, recursive, seen, out);
        }
        if name.is_some() {
            seen.pop();
        }
    }

    fn field(
        &self,
        name: &str,
        schema: &Value,
        is_required: bool,
        level: usize,
        is_short: bool,
        out: &mut String,
    ) {
        let spaces = level * 2;
        out.push_str(&format!("{}\t<{}>", indent(spaces, name), self.type_name(schema)));
        if is_required {
            out.push_str(" -required-");
        }
        if let Some(values) = enum_values(schema, ENUM_LIMIT) {
            out.push_str(&format!("\n{}enum: {}", " ".repeat(spaces), values.join(", ")));
        }
        out.push('\n');
        if !is_short {
            let description = match text(schema, "description") {
                "" => "<no description>",
                text => text,
            };
            out.push_str(&indent(spaces + 2, &wrap(78 - spaces, description)));
            out.push_str("\n\n");
        }
    }

    /// The type of a schema in a few words: `string`, `[]Container`, `map[string]Quantity`.
    fn type_name(&self, schema: &Value) -> String {
        if let Some(items) = schema.get("items") {
            return format!("[]{}", self.type_name(items));
        }
        if let Some(values) = schema.get("additionalProperties").filter(|it| it.is_object()) {
            return format!("map[string]{}", self.type_name(values));
        }
        if let ([one], true) = (list(schema, "allOf"), schema.get("properties").is_none()) {
            return self.type_name(one);
        }
        let kind = match reference(schema) {
            Some(name) => {
                let kind = text(self.resolve(schema), "type");
                if kind.is_empty() || kind == "object" || self.resolve(schema) == schema {
                    return name.rsplit('.').next().unwrap_or(name).to_owned();
                }
                kind
            }
            None => text(schema, "type"),
        };
        if kind.is_empty() || kind == "object" { "Object".to_owned() } else { kind.to_owned() }
    }
}

/// The name in `#/components/schemas/io.k8s.api.apps.v1.Deployment`.
fn reference(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

/// The schemas below one that are no properties: of items, of values, and alternatives.
fn siblings(schema: &Value) -> Vec<&Value> {
    let mut found: Vec<&Value> = list(schema, "allOf").iter().collect();
    found.extend(schema.get("items"));
    found.extend(schema.get("additionalProperties").filter(|it| it.is_object()));
    found
}
