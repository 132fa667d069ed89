//! Are the rules of a schema well formed, do they compile, and are they cheap enough?

use std::collections::HashSet;

use crate::field;
use crate::json_schema::JsonSchema;
use crate::rules::{
    Compiled, KEYWORD, MAX_REQUEST_SIZE, compile, declare, min_size, of_property, of_values,
};
use crate::structural::{Additional, Node};
use cel::{DeclType, Program, go_regexp};
use machinery::field_path::ErrorType;
use machinery::{ErrorList, FieldError, Path, Value};

/// The most that one expression may cost by estimate, and all of a schema together.
const EXPRESSION_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;

/// How many of the costliest expressions are named when all together cost too much, and how much
/// one must cost to be named.
const NAMED: usize = 4;
const NAMED_FROM: u64 = SCHEMA_LIMIT / 100;

/// The limit is [`MEMORY_MAX`].
const NO_ROOM: &str = "the patterns and rules of the schema up to here need more memory than the schema of a CRD may take up, which is 32 MiB";

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// What was found: errors about the schema come before those about rules.
#[derive(Debug, Default)]
pub(super) struct CrdErrors {
    pub(super) schema: ErrorList,
    rules: ErrorList,
    total_cost: u64,
    /// The costliest expressions, the costliest first.
    costliest: Vec<(String, u64)>,
    /// What patterns and rules take up when they are compiled.
    memory: usize,
    /// The patterns that are counted; each is compiled once.
    patterns: HashSet<String>,
}

/// What the patterns and rules of a schema may take up when they are compiled. Those of the largest
/// schemas in use take up less than a tenth of it.
const MEMORY_MAX: usize = 32 << 20;

impl CrdErrors {
    fn add_cost(&mut self, path: &Path<'_>, cost: u64) {
        self.total_cost = self.total_cost.saturating_add(cost);
        if cost >= NAMED_FROM {
            let at = self.costliest.partition_point(|(_, it)| *it >= cost);
            self.costliest.insert(at, (path.to_string(), cost));
            self.costliest.truncate(NAMED);
        }
    }

    /// Measures a pattern, which is at `path`.
    pub(super) fn add_pattern(&mut self, pattern: &str, path: &Path<'_>) {
        if self.schema.is_full() || self.patterns.contains(pattern) {
            return;
        }
        self.patterns.insert(pattern.to_owned());
        // To measure a pattern is to compile it, which is slow.
        if self.memory > MEMORY_MAX {
            return self.schema.invalid(path, pattern, NO_ROOM);
        }
        match go_regexp::memory(pattern) {
            Ok(memory) => {
                if self.exceeds_memory(memory) {
                    self.schema.invalid(path, pattern, NO_ROOM);
                }
            }
            Err(error @ go_regexp::Error::Large(_)) => {
                let detail =
                    format!("must be a regular expression that this server can compile: {error}");
                self.schema.invalid(path, pattern, &detail);
            }
            // Reported elsewhere.
            Err(_) => {}
        }
    }

    /// Adds to the memory; whether that is now more than a schema may have.
    fn exceeds_memory(&mut self, memory: usize) -> bool {
        self.memory = self.memory.saturating_add(memory);
        self.memory > MEMORY_MAX
    }

    /// Adds everything to `errors`; `path` is that of the whole schema.
    pub(super) fn report(self, path: &Path<'_>, errors: &mut ErrorList) {
        errors.extend(self.schema);
        errors.extend(self.rules);
        if self.total_cost <= SCHEMA_LIMIT {
            return;
        }
        for (field, _) in self.costliest {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            let detail = detail.to_owned();
            errors.push(FieldError { kind: ErrorType::Forbidden, field, value: None, detail });
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.forbidden(path, &too_costly(what, self.total_cost, SCHEMA_LIMIT));
    }
}

/// The context of the rules of a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    node: &'a Node,
    is_resource: bool,
    /// The declared type of the values; None without rules in an enclosing node, or where rules
    /// cannot access the values.
    decl: Option<&'a DeclType>,
    /// How many values there can be at this place; none if nothing but the request bounds it.
    cardinality: Option<u64>,
    /// The outermost list whose items cannot be correlated with old ones.
    uncorrelated: Option<&'a Path<'a>>,
}

impl<'a> Scope<'a> {
    pub(super) fn root(node: &'a Node) -> Self {
        Self { node, is_resource: true, decl: None, cardinality: Some(1), uncorrelated: None }
    }

    /// The type of the values here, if there are rules and the enclosing schema has not determined
    /// it.
    pub(super) fn declare(self) -> Option<DeclType> {
        if self.decl.is_some() || self.node.rules().is_empty() {
            return None;
        }
        declare(self.node, self.is_resource, "selfType")
    }

    /// The same place, with what [`Self::declare`] has found.
    pub(super) fn declared<'b>(self, decl: Option<&'b DeclType>) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { decl: decl.or(self.decl), ..self }
    }

    pub(super) fn property(self, source: JsonSchema<'_>, name: &str) -> Option<Self> {
        let decl = self.decl.and_then(|it| of_property(it, name));
        Some(Self { decl, ..self.below(self.node.property(name)?, source) })
    }

    pub(super) fn additional(self, source: JsonSchema<'_>) -> Option<Self> {
        match &self.node.additional {
            Additional::Schema(node) => {
                let decl = self.decl.and_then(of_values);
                Some(Self { decl, ..self.below(node, source) })
            }
            _ => None,
        }
    }

    /// The items of the list at `path`.
    pub(super) fn items<'b>(self, source: JsonSchema<'_>, path: &'b Path<'b>) -> Option<Scope<'b>>
    where
        'a: 'b,
    {
        let below: Scope<'b> = self.below(self.node.items.as_deref()?, source);
        let own = Some(path).filter(|_| source.list_type() != "map");
        let decl = self.decl.and_then(of_values);
        Some(Scope { decl, uncorrelated: below.uncorrelated.or(own), ..below })
    }

    fn below(self, node: &'a Node, source: JsonSchema<'_>) -> Self {
        let factor = match source.text("type") {
            "object" if source.value("additionalProperties").is_some() => {
                source.count("maxProperties")
            }
            "array" => source.count("maxItems"),
            _ => Some(1),
        };
        let cardinality =
            self.cardinality.zip(factor).map(|(own, factor)| own.saturating_mul(factor));
        Self { node, is_resource: node.is_embedded(), cardinality, ..self }
    }
}

fn has_line_breaks(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Checks what can be checked without compiling.
pub(super) fn check_texts(source: JsonSchema<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let list = path.child(KEYWORD);
    for (index, rule) in source.schemas(KEYWORD).enumerate() {
        let path = list.index(index);
        let (expression, message) = (rule.text("rule"), rule.text("message"));
        let message_path = path.child("message");
        if expression.trim().is_empty() {
            errors.required(&path.child("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&message_path, message, "must be non-empty if specified");
        } else if has_line_breaks(message.trim()) {
            errors.invalid(&message_path, message, "must not contain line breaks");
        } else if has_line_breaks(expression.trim()) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.required(&message_path, detail);
        }
        let expression = rule.text("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(&path.child("messageExpression"), detail);
        }
        let reason = rule.text("reason");
        if rule.value("reason").is_some() && !REASONS.contains(&reason) {
            errors.not_supported(&path.child("reason"), reason, &REASONS);
        }
        check_field_path(source, rule.text("fieldPath"), &path.child("fieldPath"), errors);
    }
}

fn check_field_path(source: JsonSchema<'_>, value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if value.is_empty() {
        return;
    }
    if value.trim().is_empty() {
        errors.invalid(path, value, "must be non-empty if specified");
    }
    if has_line_breaks(value) {
        errors.invalid(path, value, "must not contain line breaks");
    }
    if field::follow(source, value).is_err() {
        errors.invalid(path, value, "must be a valid path");
    }
}

/// Compiles the rules, and adds up what they may cost.
pub(super) fn check_programs(
    source: JsonSchema<'_>,
    scope: Scope<'_>,
    path: &Path<'_>,
    found: &mut CrdErrors,
) {
    if scope.node.rules().is_empty() {
        return;
    }
    let list = path.child(KEYWORD);
    let Some(decl) = scope.decl else {
        let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        found.rules.add(ErrorType::Internal, &list, None, detail);
        return;
    };
    let compiled = compile(scope.node.rules(), decl);
    // One by one: all together may take up far more than is allowed.
    for (index, (compiled, rule)) in compiled.zip(source.schemas(KEYWORD)).enumerate() {
        check_program(&compiled, rule, scope, &list.index(index), found);
        if found.memory > MEMORY_MAX {
            return;
        }
    }
}

fn check_program(
    compiled: &Compiled,
    rule: JsonSchema<'_>,
    scope: Scope<'_>,
    path: &Path<'_>,
    found: &mut CrdErrors,
) {
    let rule_path = path.child("rule");
    let programs = [&compiled.program, &compiled.message];
    let memory: usize = programs.into_iter().flatten().map(Program::memory).sum();
    if found.exceeds_memory(memory) {
        found.rules.forbidden(&rule_path, NO_ROOM);
    }
    let most = compiled.program.as_ref().map_or(0, |it| it.estimate_cost().max);
    let smallest = || min_size(scope.node, scope.is_resource).unwrap_or_default();
    let fitting = || MAX_REQUEST_SIZE / (smallest() + 1);
    let cost = most.saturating_mul(scope.cardinality.unwrap_or_else(fitting));
    if cost > EXPRESSION_LIMIT {
        let detail = too_costly("estimated rule cost", cost, EXPRESSION_LIMIT);
        found.rules.forbidden(&rule_path, &detail);
    }
    found.add_cost(&rule_path, cost);
    if let Some(error) = &compiled.error {
        add_rule_error(rule, error, &rule_path, found);
    }
    let message_path = path.child("messageExpression");
    if let Some(error) = &compiled.message_error {
        add_rule_error(rule, error, &message_path, found);
    } else if let Some(message) = &compiled.message {
        let cost = message.estimate_cost().max;
        if cost > EXPRESSION_LIMIT {
            let detail = too_costly("estimated messageExpression cost", cost, EXPRESSION_LIMIT);
            found.rules.forbidden(&message_path, &detail);
        }
        found.add_cost(&message_path, cost);
    }
    match (scope.uncorrelated, rule.value("optionalOldSelf")) {
        (Some(outermost), _) if compiled.uses_old_self => {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {outermost}"
            );
            found.rules.invalid(&rule_path, rule.text("rule"), &detail);
        }
        (_, Some(non_empty)) if !compiled.uses_old_self => {
            let detail = "may not be set if oldSelf is not used in rule";
            found.rules.invalid(&path.child("optionalOldSelf"), non_empty.clone(), detail);
        }
        _ => {}
    }
}

/// Adds an error about a rule, which is shown as Go would write it.
fn add_rule_error(rule: JsonSchema<'_>, error: &str, path: &Path<'_>, found: &mut CrdErrors) {
    let text = |key| go_json(&Value::from(rule.text(key)));
    let or_null = |key| rule.value(key).map_or_else(|| "null".to_owned(), go_json);
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        or_null("reason"),
        text("fieldPath"),
        or_null("optionalOldSelf"),
    );
    // The order of a Go struct's fields is not that of a JSON value, so it is part of the text.
    found.rules.add(ErrorType::Invalid, path, None, &format!("{shown}: {error}"));
}

/// JSON in which nothing could be taken for HTML.
fn go_json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[allow(clippy::cast_precision_loss, reason = "the factor is shown with a few digits")]
fn too_costly(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests;
