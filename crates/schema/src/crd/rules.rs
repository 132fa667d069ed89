//! Checks that the rules of a schema are well formed, compile, and do not exceed the cost limits.

use std::collections::HashSet;

use crate::field;
use crate::json_schema::JsonSchema;
use crate::rules::{
    Compiled, KEYWORD, MAX_REQUEST_SIZE, compile, declare, element_decl, min_size, property_decl,
};
use crate::structural::{Additional, Node};
use cel::{DeclType, Program, go_regexp};
use machinery::field_path::ErrorType;
use machinery::{ErrorList, FieldError, Path, Value, codec};

/// The limits of the estimated cost of one expression, and of all expressions of a schema.
const EXPRESSION_LIMIT: u64 = 10_000_000;
const SCHEMA_LIMIT: u64 = 100_000_000;

/// If all expressions together cost too much, the error names up to this many of the costliest,
/// each of which has at least this cost.
const COSTLIEST_MAX: usize = 4;
const COSTLIEST_MIN_COST: u64 = SCHEMA_LIMIT / 100;

/// The error if [`MEMORY_MAX`] is exceeded.
const MEMORY_EXCEEDED: &str = "the patterns and rules of the schema up to here need more memory than the limit for the schema of a CRD, which is 32 MiB";

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The errors of a CRD's schema; those about keywords are reported before those about rules.
#[derive(Debug, Default)]
pub(super) struct CrdErrors {
    pub(super) schema: ErrorList,
    rules: ErrorList,
    total_cost: u64,
    /// The paths and costs of the costliest expressions, in descending order of cost.
    costliest: Vec<(String, u64)>,
    /// The memory of the compiled patterns and rules.
    memory: usize,
    /// The patterns that are already counted.
    patterns: HashSet<String>,
}

/// The maximum memory of the compiled patterns and rules of a schema. The largest schemas in use
/// need less than a tenth of it.
const MEMORY_MAX: usize = 32 << 20;

impl CrdErrors {
    fn add_cost(&mut self, path: &Path<'_>, cost: u64) {
        self.total_cost = self.total_cost.saturating_add(cost);
        if cost >= COSTLIEST_MIN_COST {
            let at = self.costliest.partition_point(|(_, it)| *it >= cost);
            self.costliest.insert(at, (path.to_string(), cost));
            self.costliest.truncate(COSTLIEST_MAX);
        }
    }

    /// Counts the memory of a pattern, which is at `path`.
    pub(super) fn add_pattern(&mut self, pattern: &str, path: &Path<'_>) {
        if self.schema.is_full() || self.patterns.contains(pattern) {
            return;
        }
        self.patterns.insert(pattern.to_owned());
        // Measuring a pattern compiles it, which is slow.
        if self.memory > MEMORY_MAX {
            return self.schema.invalid(path, pattern, MEMORY_EXCEEDED);
        }
        match go_regexp::memory(pattern) {
            Ok(memory) => {
                if self.exceeds_memory(memory) {
                    self.schema.invalid(path, pattern, MEMORY_EXCEEDED);
                }
            }
            Err(error @ go_regexp::Error::Large(_)) => {
                let detail =
                    format!("must be a regular expression that this server can compile: {error}");
                self.schema.invalid(path, pattern, &detail);
            }
            // `structure` reports other errors of patterns.
            Err(_) => {}
        }
    }

    /// Adds to the memory, and returns whether the limit is exceeded.
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
    /// The maximum number of values at this node; None if only the size of a request limits it.
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

    /// The same scope with the result of [`Self::declare`].
    pub(super) fn declared<'b>(self, decl: Option<&'b DeclType>) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { decl: decl.or(self.decl), ..self }
    }

    pub(super) fn property(self, source: JsonSchema<'_>, name: &str) -> Option<Self> {
        let decl = self.decl.and_then(|it| property_decl(it, name));
        Some(Self { decl, ..self.below(self.node.property(name)?, source) })
    }

    pub(super) fn additional(self, source: JsonSchema<'_>) -> Option<Self> {
        match &self.node.additional {
            Additional::Schema(node) => {
                let decl = self.decl.and_then(element_decl);
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
        let uncorrelated = Some(path).filter(|_| source.list_type() != "map");
        let decl = self.decl.and_then(element_decl);
        Some(Scope { decl, uncorrelated: below.uncorrelated.or(uncorrelated), ..below })
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

/// Checks the texts of rules, without compiling them.
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
    if field::resolve_field_path(source, value).is_err() {
        errors.invalid(path, value, "must be a valid path");
    }
}

/// Compiles the rules, and adds up their estimated costs.
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
    // Rules are compiled one by one, because all together may far exceed the memory limit.
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
        found.rules.forbidden(&rule_path, MEMORY_EXCEEDED);
    }
    let max_cost = compiled.program.as_ref().map_or(0, |it| it.estimate_cost().max);
    let smallest_value = || min_size(scope.node, scope.is_resource).unwrap_or_default();
    let fitting = || MAX_REQUEST_SIZE / (smallest_value() + 1);
    let cost = max_cost.saturating_mul(scope.cardinality.unwrap_or_else(fitting));
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
        (_, Some(value)) if !compiled.uses_old_self => {
            let detail = "may not be set if oldSelf is not used in rule";
            found.rules.invalid(&path.child("optionalOldSelf"), value.clone(), detail);
        }
        _ => {}
    }
}

/// Adds an error that shows the rule as the JSON of Go's struct.
fn add_rule_error(rule: JsonSchema<'_>, error: &str, path: &Path<'_>, found: &mut CrdErrors) {
    let text = |key| codec::json::to_text(&Value::from(rule.text(key)));
    let or_null = |key| rule.value(key).map_or_else(|| "null".to_owned(), codec::json::to_text);
    let shown = format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        or_null("reason"),
        text("fieldPath"),
        or_null("optionalOldSelf"),
    );
    // The rule is part of the detail because a `Value` would not keep the order of the fields.
    found.rules.add(ErrorType::Invalid, path, None, &format!("{shown}: {error}"));
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
