//! The parameters of writes: dry run, field validation, deletion options, each checked as
//! Kubernetes checks it.

use crate::request::Query;
use machinery::field_path::quote;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

/// What to do about fields that the kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so.
    Warn,
    /// Refuse the request.
    Strict,
}

/// The options of create, update and patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// See the type.
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// Of a patch that is not an apply.
    pub(crate) fn parse_patch(query: &Query) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        if query.get("force").is_some() {
            errors.forbidden(&Path::root("force"), "may not be specified for non-apply patch");
        }
        Self::parse_common(query, "PatchOptions", errors)
    }

    /// Of an apply, whose manager must have a name.
    pub(crate) fn parse_apply(query: &Query) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        if query.text("fieldManager").is_empty() {
            errors.required(&Path::root("fieldManager"), "is required for apply patch");
        }
        Self::parse_common(query, "PatchOptions", errors)
    }

    /// `kind` is the name of the options in messages: `CreateOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, Status> {
        Self::parse_common(query, kind, ErrorList::new())
    }

    /// The options, unless there are `errors` already or they have some.
    fn parse_common(query: &Query, kind: &str, mut errors: ErrorList) -> Result<Self, Status> {
        validate_field_manager(query.text("fieldManager"), &mut errors);
        let values: Vec<&str> = query.all("dryRun").collect();
        let dry_run = validate_dry_run(&values, &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::root("fieldValidation");
                errors.not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]);
                FieldValidation::Warn
            }
        };
        reject_invalid(kind, &errors)?;
        Ok(Self { dry_run, field_validation })
    }
}

fn validate_field_manager(name: &str, errors: &mut ErrorList) {
    let path = Path::root("fieldManager");
    if name.len() > 128 {
        errors.too_long(&path, 128);
    }
    let is_printable = |c: char| c == ' ' || !c.is_control() && !c.is_whitespace();
    for (index, c) in name.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {index})", c as u32);
        errors.invalid(&path, name, &detail);
    }
}

fn validate_dry_run(values: &[&str], errors: &mut ErrorList) -> bool {
    if values.iter().any(|it| *it != "All") {
        let value: Vec<Value> = values.iter().map(|it| Value::from(*it)).collect();
        errors.not_supported(&Path::root("dryRun"), value, &["All"]);
    }
    !values.is_empty()
}

fn reject_invalid(kind: &str, errors: &ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&GroupKind::new("meta.k8s.io", kind), "", errors))
}

/// What becomes of an object's dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionPropagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted before.
    Foreground,
    /// They are left alone.
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// Seconds until the object may go.
    pub grace_period: Option<i64>,
    /// None: what the kind does by itself.
    pub propagation: Option<DeletionPropagation>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that it must have.
    pub resource_version: Option<String>,
    /// Remove what cannot be read; nothing else then.
    pub ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// From the query, which counts only if there is no body.
    pub(crate) fn from_query(query: &Query) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        let values: Vec<&str> = query.all("dryRun").collect();
        let text = |key| query.get(key).filter(|it| !it.is_empty()).map(ToOwned::to_owned);
        let (uid, resource_version) = (text("uid"), text("resourceVersion"));
        let ignore_store_read_error = query.flag(IGNORE_STORE_READ_ERROR);
        let options = Self {
            grace_period: query.get("gracePeriodSeconds").map(parse_i64).transpose()?,
            propagation: propagation(
                query.get("propagationPolicy"),
                query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
                &mut errors,
            ),
            dry_run: validate_dry_run(&values, &mut errors),
            ignore_store_read_error,
            uid,
            resource_version,
        };
        if ignore_store_read_error {
            let others = [
                ("propagationPolicy", query.get("propagationPolicy").is_some()),
                ("orphanDependents", query.get("orphanDependents").is_some()),
                ("gracePeriodSeconds", options.grace_period.is_some()),
                ("preconditions", options.uid.is_some() || options.resource_version.is_some()),
            ];
            forbid_with(others, &mut errors);
        }
        reject_invalid("DeleteOptions", &errors)?;
        Ok(options)
    }

    /// From a body.
    pub(crate) fn from_body(body: &Object) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        let listed = body.get(&["dryRun"]).and_then(Value::as_array);
        let values: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
        let text = |path: &[&str]| body.get(path).and_then(Value::as_str).map(ToOwned::to_owned);
        let flag = |key| body.get(&[key]).and_then(Value::as_bool);
        let policy = text(&["propagationPolicy"]);
        let options = Self {
            grace_period: body.get(&["gracePeriodSeconds"]).and_then(Value::as_i64),
            propagation: propagation(policy.as_deref(), flag("orphanDependents"), &mut errors),
            dry_run: validate_dry_run(&values, &mut errors),
            uid: text(&["preconditions", "uid"]),
            resource_version: text(&["preconditions", "resourceVersion"]),
            ignore_store_read_error: flag(IGNORE_STORE_READ_ERROR).unwrap_or(false),
        };
        if options.ignore_store_read_error {
            let others =
                ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
            forbid_with(others.map(|it| (it, body.get(&[it]).is_some())), &mut errors);
        }
        reject_invalid("DeleteOptions", &errors)?;
        Ok(options)
    }

    /// What is deleted by the dozen must be readable.
    pub(crate) fn validated_for_collection(self) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        if self.ignore_store_read_error {
            let detail =
                "is not allowed with DELETECOLLECTION, try again after removing the option";
            errors.invalid(&Path::root(IGNORE_STORE_READ_ERROR), true, detail);
        }
        reject_invalid("DeleteOptions", &errors)?;
        Ok(self)
    }
}

const IGNORE_STORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// What cannot be read can only be removed, without more ado.
fn forbid_with(others: [(&str, bool); 4], errors: &mut ErrorList) {
    for (other, _) in others.iter().filter(|(_, is_set)| *is_set) {
        let detail = format!("cannot be set together with .{other}");
        errors.invalid(&Path::root(IGNORE_STORE_READ_ERROR), true, &detail);
    }
}

fn propagation(
    policy: Option<&str>,
    orphan: Option<bool>,
    errors: &mut ErrorList,
) -> Option<DeletionPropagation> {
    let path = Path::root("propagationPolicy");
    if let (Some(policy), Some(_)) = (policy, orphan) {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.invalid(&path, policy, detail);
    }
    match (policy, orphan) {
        (Some("Background"), _) | (None, Some(false)) => Some(DeletionPropagation::Background),
        (Some("Foreground"), _) => Some(DeletionPropagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(DeletionPropagation::Orphan),
        (None, None) => None,
        (Some(other), _) => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.not_supported(&path, other, &known);
            None
        }
    }
}

/// A number in a query; the reason is Go's.
pub(crate) fn parse_i64(text: &str) -> Result<i64, Status> {
    parse_int(text).map_err(Status::bad_request)
}

/// Upstream: Go's `strconv.ParseInt`, also its error.
pub(crate) fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error| parse_error("ParseInt", text, reason(&error)))
}

/// A resourceVersion; the reason is Go's.
pub(crate) fn parse_revision(text: &str) -> Result<u64, String> {
    parse_uint(text)
}

/// Upstream: Go's `strconv.ParseUint`, also its error. Unlike Rust it refuses a sign.
pub(crate) fn parse_uint<T: FromStr<Err = ParseIntError>>(text: &str) -> Result<T, String> {
    if text.starts_with('+') {
        return Err(parse_error("ParseUint", text, INVALID_SYNTAX));
    }
    text.parse().map_err(|error| parse_error("ParseUint", text, reason(&error)))
}

fn parse_error(function: &str, text: &str, reason: &str) -> String {
    format!("strconv.{function}: parsing {}: {reason}", quote(text))
}

const INVALID_SYNTAX: &str = "invalid syntax";

fn reason(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => INVALID_SYNTAX,
    }
}
