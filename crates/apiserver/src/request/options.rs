//! The query parameters of writes: dry run, field validation and deletion options, validated as in
//! Kubernetes.

use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;
use std::time::Duration;

use crate::request::Query;
use machinery::field_path::quote;
use machinery::{ErrorList, GroupKind, Object, Path, Status, Value};

/// The treatment of unknown and duplicate fields in a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drops the fields.
    Ignore,
    /// Drops the fields and adds a warning for each.
    Warn,
    /// Rejects the request.
    Strict,
}

impl FieldValidation {
    /// The text in options.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Warn => "Warn",
            Self::Strict => "Strict",
        }
    }
}

/// The options of create, update and patch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteOptions {
    /// Whether the request is processed without a write to the store.
    pub dry_run: bool,
    /// The field manager; "" if the request has none.
    pub field_manager: String,
    /// The treatment of unknown and duplicate fields; None if the request has none.
    pub field_validation: Option<FieldValidation>,
}

impl WriteOptions {
    /// Parses the options of a patch that is not a server-side apply.
    pub(crate) fn parse_patch(query: &Query) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        if query.get("force").is_some() {
            errors.forbidden(&Path::root("force"), "may not be specified for non-apply patch");
        }
        Self::parse_common(query, "PatchOptions", errors)
    }

    /// Parses the options of a server-side apply, which requires a field manager.
    pub(crate) fn parse_apply(query: &Query) -> Result<Self, Status> {
        let mut errors = ErrorList::new();
        if query.text("fieldManager").is_empty() {
            errors.required(&Path::root("fieldManager"), "is required for apply patch");
        }
        Self::parse_common(query, "PatchOptions", errors)
    }

    /// Parses the options of a create or an update. `kind` is the kind of the options in messages,
    /// such as `CreateOptions`.
    pub(crate) fn parse(query: &Query, kind: &str) -> Result<Self, Status> {
        Self::parse_common(query, kind, ErrorList::new())
    }

    /// Parses the options that all writes have. Fails if `errors` is not empty or an option is
    /// invalid.
    fn parse_common(query: &Query, kind: &str, mut errors: ErrorList) -> Result<Self, Status> {
        validate_field_manager(query.text("fieldManager"), &mut errors);
        let values: Vec<&str> = query.all("dryRun").collect();
        let dry_run = validate_dry_run(&values, &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" => None,
            "Warn" => Some(FieldValidation::Warn),
            "Ignore" => Some(FieldValidation::Ignore),
            "Strict" => Some(FieldValidation::Strict),
            other => {
                let path = Path::root("fieldValidation");
                errors.not_supported(&path, other, &["", "Ignore", "Strict", "Warn"]);
                None
            }
        };
        reject_invalid(kind, &errors)?;
        let field_manager = query.text("fieldManager").to_owned();
        Ok(Self { dry_run, field_manager, field_validation })
    }

    /// The treatment of unknown and duplicate fields, which is a warning by default.
    pub(crate) fn field_validation(&self) -> FieldValidation {
        self.field_validation.unwrap_or(FieldValidation::Warn)
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

/// The treatment of an object's dependents when the object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeletionPropagation {
    /// Dependents are deleted after the object.
    Background,
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are not deleted.
    Orphan,
}

/// The options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Whether the request is processed without a write to the store.
    pub dry_run: bool,
    /// The grace period in seconds; None for the default of the kind.
    pub grace_period: Option<i64>,
    /// The propagation policy; None for the default of the kind.
    pub propagation: Option<DeletionPropagation>,
    /// The precondition on the uid.
    pub uid: Option<String>,
    /// The precondition on the resourceVersion.
    pub resource_version: Option<String>,
    /// Whether an object that cannot be decoded is removed; excludes all other options.
    pub ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// Parses the options in the query, which are used only if the request has no body.
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
            let other_options = [
                ("propagationPolicy", query.get("propagationPolicy").is_some()),
                ("orphanDependents", query.get("orphanDependents").is_some()),
                ("gracePeriodSeconds", options.grace_period.is_some()),
                ("preconditions", options.uid.is_some() || options.resource_version.is_some()),
            ];
            forbid_other_options(other_options, &mut errors);
        }
        reject_invalid("DeleteOptions", &errors)?;
        Ok(options)
    }

    /// Parses the options in a body.
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
            let other_options =
                ["propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];
            forbid_other_options(
                other_options.map(|it| (it, body.get(&[it]).is_some())),
                &mut errors,
            );
        }
        reject_invalid("DeleteOptions", &errors)?;
        Ok(options)
    }

    /// Rejects an option that is not valid for a deletion of a collection.
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

/// Adds an error for each option that is set in addition to [`IGNORE_STORE_READ_ERROR`].
fn forbid_other_options(other_options: [(&str, bool); 4], errors: &mut ErrorList) {
    for (other, _) in other_options.iter().filter(|(_, is_set)| *is_set) {
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

/// Parses `timeoutSeconds`, the time for which a creation waits for initializers; None if it is absent
/// or not positive.
pub(crate) fn parse_initialization_timeout(query: &Query) -> Result<Option<Duration>, Status> {
    match query.text("timeoutSeconds") {
        "" => Ok(None),
        text => {
            let seconds = u64::try_from(parse_i64(text)?).unwrap_or(0);
            Ok((seconds > 0).then_some(Duration::from_secs(seconds)))
        }
    }
}

/// Parses an integer in a query; the error message is that of Go.
pub(crate) fn parse_i64(text: &str) -> Result<i64, Status> {
    parse_int(text).map_err(Status::bad_request)
}

/// Parses an integer. Upstream: Go's `strconv.ParseInt`, including its error message.
pub(crate) fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error| parse_error("ParseInt", text, reason(&error)))
}

/// Parses a resourceVersion; the error message is that of Go.
pub(crate) fn parse_revision(text: &str) -> Result<u64, String> {
    parse_uint(text)
}

/// Parses an unsigned integer. Upstream: Go's `strconv.ParseUint`, including its error message.
/// Unlike Rust, it rejects a sign.
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
