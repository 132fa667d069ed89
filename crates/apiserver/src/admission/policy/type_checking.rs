//! Type checking of validating policies: checks expressions against the kinds that the policy
//! matches. A type error is reported in the policy's status, and does not disable the policy.
//!
//! ```text
//! resources: [deployments]    "object.spec.replica > 1"
//! ─▶ spec.validations[0].expression: apps/v1, Kind=Deployment: ERROR: … undefined field 'replica'
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::compiler::Compiler;
use super::kind_types;
use super::params::ParamKind;
use super::policy_spec::text;
use crate::storage::catalog::{Catalog, ServedResource};
use cel::DeclType;
use machinery::{Map, Object, Value, json};

/// The maximum number of kinds that are checked for one rule.
const MAX_KINDS: usize = 10;

/// By group, version and kind: the resource, and the index of the version.
type Kinds<'c> = BTreeMap<(&'c str, &'c str, &'c str), (&'c Arc<ServedResource>, usize)>;

/// The items of `status.typeChecking.expressionWarnings`. `salt` makes type names unique, so that
/// no expression can refer to them.
pub(super) fn warnings(catalog: &Catalog, policy: &Object, salt: u32) -> Vec<Value> {
    let null = Value::Null;
    let spec = policy.get(&["spec"]).unwrap_or(&null);
    let compilers = compilers(catalog, spec, salt);
    let mut warnings = Vec::new();
    for (index, validation) in list(&spec["validations"]).enumerate() {
        for key in ["expression", "messageExpression"] {
            let source = text(validation, key);
            if key == "messageExpression" && source.is_empty() {
                continue;
            }
            let messages: Vec<String> = compilers
                .iter()
                .filter_map(|(kind, compiler)| {
                    let issues = compiler.check(source).err()?;
                    Some(format!("{kind}: {issues}\n"))
                })
                .collect();
            if !messages.is_empty() {
                let field = format!("spec.validations[{index}].{key}");
                warnings.push(json!({"fieldRef": field, "warning": messages.join("\n")}));
            }
        }
    }
    warnings
}

/// One compiler for each kind, with all variables declared.
fn compilers(catalog: &Catalog, spec: &Value, salt: u32) -> Vec<(String, Compiler)> {
    let params = params(catalog, spec, salt);
    let mut compilers = Vec::new();
    for ((group, version, kind), (served, version_index)) in kinds(catalog, spec) {
        let object = kind_types::declare(served, version_index, &format!("{kind}{salt}"));
        let mut compiler = Compiler::typed(object.unwrap_or_else(DeclType::any), params.clone());
        for variable in list(&spec["variables"]) {
            compiler.check_variable(text(variable, "name"), text(variable, "expression"));
        }
        compilers.push((format!("{group}/{version}, Kind={kind}"), compiler));
    }
    compilers
}

fn params(catalog: &Catalog, spec: &Value, salt: u32) -> Option<DeclType> {
    let kind = ParamKind::of(&spec["paramKind"])?;
    let found = kind.find(catalog).ok();
    let name = format!("{}{salt}", text(&spec["paramKind"], "kind"));
    let declared = found.and_then(|it| kind_types::declare(it.served, it.version, &name));
    Some(declared.unwrap_or_else(DeclType::any))
}

/// The kinds that the policy names without wildcards.
fn kinds<'c>(catalog: &'c Catalog, spec: &Value) -> Kinds<'c> {
    let mut kinds = Kinds::new();
    for rule in list(&spec["matchConstraints"]["resourceRules"]) {
        let (groups, versions) = (names(rule, "apiGroups"), names(rule, "apiVersions"));
        if groups.iter().chain(&versions).any(|it| it.contains('*')) {
            continue;
        }
        let mut resources = names(rule, "resources");
        resources.retain(|it| !it.contains(['*', '/']));
        let named = groups.iter().flat_map(|group| {
            let of_group = versions.iter().map(move |version| (group, version));
            of_group.flat_map(|(group, version)| {
                resources.iter().flat_map(move |it| find(catalog, group, version, it))
            })
        });
        let mut count = 0;
        for (served, version_index) in named.take(MAX_KINDS) {
            let resource = &served.resource;
            let version = &resource.versions[version_index];
            let key = (resource.group_of(version), version.name.as_str(), resource.kind.as_str());
            kinds.insert(key, (served, version_index));
            count += 1;
        }
        // Upstream: a rule with the maximum number of kinds ends the search.
        if count == MAX_KINDS {
            break;
        }
    }
    kinds
}

/// Upstream: the group "" matches all groups, and a resource can be named in the singular.
fn find<'c>(
    catalog: &'c Catalog,
    group: &str,
    version: &str,
    resource: &str,
) -> Vec<(&'c Arc<ServedResource>, usize)> {
    let resource = resource.to_lowercase();
    let groups = catalog.groups().iter().filter(|it| group.is_empty() || it.name == group);
    let all = groups.flat_map(|it| catalog.resources(&it.name, version));
    let is_match = |it: &(&Arc<ServedResource>, usize)| {
        it.0.resource.plural == resource || it.0.resource.singular == resource
    };
    all.filter(is_match).collect()
}

fn names<'v>(rule: &'v Value, key: &str) -> Vec<&'v str> {
    let mut names: Vec<&str> = list(&rule[key]).filter_map(Value::as_str).collect();
    names.sort_unstable();
    names
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The status of the policy.
pub(super) fn status(catalog: &Catalog, policy: &Object, salt: u32) -> Value {
    let mut checked = Map::new();
    let warnings = warnings(catalog, policy, salt);
    if !warnings.is_empty() {
        checked.insert("expressionWarnings".to_owned(), warnings.into());
    }
    json!({"observedGeneration": policy.generation(), "typeChecking": checked})
}
