//! [`check_schema`]: refuses schemas that are too large or have references, and collects the keywords
//! that a server does not know.

use super::canonical::is_known_keyword;
use super::error::GenerateError;
use machinery::Value;

/// The deepest nesting of fields.
const MAX_DEPTH: usize = 100;

/// The largest number of fields. The schemas of pods have some 1,000.
const MAX_FIELDS: usize = 100_000;

/// Visits all schemas of a version, and returns warnings.
pub(crate) fn check_schema(crd: &str, schema: &Value) -> Result<Vec<String>, GenerateError> {
    let mut check = Check { crd, fields: 0, warnings: Vec::new() };
    check.visit(schema, "", 0)?;
    Ok(check.warnings)
}

struct Check<'a> {
    crd: &'a str,
    fields: usize,
    warnings: Vec<String>,
}

impl Check<'_> {
    fn visit(&mut self, schema: &Value, field: &str, depth: usize) -> Result<(), GenerateError> {
        let shown = || if field.is_empty() { "the object".to_owned() } else { field.to_owned() };
        let Value::Object(keywords) = schema else {
            let found = schema.to_string().chars().take(40).collect();
            return Err(GenerateError::NotASchema { field: shown(), found });
        };
        self.fields += 1;
        if depth > MAX_DEPTH {
            return Err(GenerateError::TooDeep { field: shown(), limit: MAX_DEPTH });
        }
        if self.fields > MAX_FIELDS {
            return Err(GenerateError::TooManyFields {
                name: self.crd.to_owned(),
                limit: MAX_FIELDS,
            });
        }
        if keywords.contains_key("$ref") {
            return Err(GenerateError::Reference { field: shown() });
        }
        for (keyword, value) in keywords {
            if !is_known_keyword(keyword) {
                let warning = format!(
                    "{}: the keyword {keyword}, which no server knows, is left out",
                    shown()
                );
                self.warnings.push(warning);
            }
            if keyword == "default" && value.is_null() {
                let warning =
                    format!("{}: the default null is left out: a CRD cannot express it", shown());
                self.warnings.push(warning);
            }
            self.visit_nested(keyword, value, field, depth)?;
        }
        Ok(())
    }

    fn visit_nested(
        &mut self,
        keyword: &str,
        value: &Value,
        field: &str,
        depth: usize,
    ) -> Result<(), GenerateError> {
        match (keyword, value) {
            ("properties", Value::Object(schemas)) => {
                for (name, schema) in schemas {
                    let field =
                        if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                    self.visit(schema, &field, depth + 1)?;
                }
            }
            ("items", schema) if !schema.is_array() => {
                self.visit(schema, &format!("{field}[]"), depth + 1)?;
            }
            ("additionalProperties", schema) if !schema.is_boolean() => {
                self.visit(schema, &format!("{field}{{}}"), depth + 1)?;
            }
            ("not", schema) => self.visit(schema, field, depth + 1)?,
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                for schema in schemas {
                    self.visit(schema, field, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use machinery::json;

    use super::*;

    fn error(schema: &Value) -> String {
        check_schema("sites.example.com", schema).unwrap_err().to_string()
    }

    #[test]
    fn unknown_keywords_are_reported_with_their_field() {
        let schema = json!({"properties": {"a": {"items": {"const": 1, "default": null}}}});
        let warnings = check_schema("a", &schema).unwrap();
        assert_eq!(warnings[0], "a[]: the keyword const, which no server knows, is left out");
        assert!(warnings[1].starts_with("a[]: the default null"), "{warnings:?}");
    }

    #[test]
    fn a_schema_is_bounded_and_has_no_references() {
        assert!(error(&json!({"properties": {"a": {"$ref": "#"}}})).contains("a has a $ref"));
        assert!(error(&json!({"properties": {"a": true}})).contains("a is not an object but true"));
        let deep = (0..200).fold(json!({}), |inner, _| json!({"items": inner}));
        assert!(error(&deep).contains("more than 100 levels"));
        let wide: Vec<Value> = vec![json!({}); MAX_FIELDS];
        assert!(error(&json!({"allOf": wide})).contains("more than 100000 fields"));
    }
}
