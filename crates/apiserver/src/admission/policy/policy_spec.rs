//! The parts that validating and mutating policies share: match constraints, match conditions,
//! parameters, variables and bindings.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::compiler::{Compiler, Declarations, Expression, Variable};
use super::evaluation::{CONDITIONS_BUDGET, Evaluation};
use super::params::{self, ParamKind, ParamRef};
use crate::admission::matching;
use crate::admission::matching::{MatchCriteria, MatchedResource};
use crate::admission::{Attributes, admission_request, authorizer};
use crate::cache::watch_cache::Snapshot;
use crate::registry::conversion;
use cel::Type;
use machinery::{GroupResource, Object, Status, Value};

/// The shared part of a policy's spec.
pub(super) struct PolicySpec {
    pub name: String,
    pub failure_policy: FailurePolicy,
    pub variables: Vec<Variable>,
    criteria: MatchCriteria,
    params: Option<ParamKind>,
    conditions: Vec<Expression>,
}

/// The handling of requests for which a policy fails to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailurePolicy {
    /// The request is denied.
    Fail,
    /// The failure is ignored.
    Ignore,
}

/// A policy binding.
pub(super) struct Binding {
    pub name: String,
    /// The actions that a denial causes: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
    criteria: Option<MatchCriteria>,
    params: Option<ParamRef>,
}

/// The bindings by the name of their policy.
pub(super) type PolicyBindings = BTreeMap<String, Vec<Binding>>;

/// An invocation of a policy for a request, or the reason why it cannot be evaluated.
pub(super) enum PolicyInvocation<'a> {
    /// The policy is evaluated with this binding and parameter.
    Ready { binding: &'a Binding, matched: MatchedResource, params: Option<Object> },
    /// The policy, the binding or the parameter is misconfigured.
    Misconfigured { binding: Option<&'a Binding>, why: String },
}

impl PolicySpec {
    /// Parses a policy and compiles its variables and conditions. The returned compiler compiles
    /// the remaining expressions.
    pub(super) fn of(policy: &Object) -> (Self, Compiler) {
        let null = Value::Null;
        let spec = policy.get(&["spec"]).unwrap_or(&null);
        let params = ParamKind::of(&spec["paramKind"]);
        let mut compiler = Compiler::with_variables(params.is_some());
        let variables = spec["variables"].as_array().into_iter().flatten();
        let variables =
            variables.map(|it| compiler.variable(text(it, "name"), text(it, "expression")));
        let variables = variables.collect();
        let conditions = spec["matchConditions"].as_array().into_iter().flatten().map(|it| {
            compiler.expression(text(it, "expression"), Declarations::Authorizer, &[Type::Bool])
        });
        let policy_spec = Self {
            name: policy.name().to_owned(),
            failure_policy: match text(spec, "failurePolicy") {
                "Ignore" => FailurePolicy::Ignore,
                _ => FailurePolicy::Fail,
            },
            variables,
            criteria: MatchCriteria::of_policy(&spec["matchConstraints"]),
            params,
            conditions: conditions.collect(),
        };
        (policy_spec, compiler)
    }

    /// The invocations of the policy for a request: one for each binding and parameter.
    pub(super) async fn invocations<'a>(
        &self,
        bindings: &'a [Binding],
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Vec<PolicyInvocation<'a>> {
        let misconfigured = |why: String| {
            let why = format!("failed to configure policy: {why}");
            vec![PolicyInvocation::Misconfigured { binding: None, why }]
        };
        let matched = match self.criteria.find_match(attributes, object) {
            Ok(Some(matched)) => matched,
            Ok(None) => return Vec::new(),
            Err(status) => return misconfigured(status.message),
        };
        let catalog = attributes.scope.storage.catalog.load_full();
        let resource = match self.params.as_ref().map(|kind| kind.find(&catalog)).transpose() {
            Ok(resource) => resource,
            Err(why) => return misconfigured(why),
        };
        let mut invocations = Vec::new();
        for binding in bindings {
            match binding.params_for(attributes, object, resource).await {
                Ok(all) => invocations.extend(all.into_iter().map(|params| {
                    PolicyInvocation::Ready { binding, matched: matched.clone(), params }
                })),
                Err(why) => {
                    let why = format!("failed to configure binding: {why}");
                    invocations
                        .push(PolicyInvocation::Misconfigured { binding: Some(binding), why });
                }
            }
        }
        invocations
    }

    /// Whether all match conditions are true. The error is the message for the client.
    pub(super) fn matches_conditions(&self, evaluation: &Evaluation<'_>) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let mut budget = CONDITIONS_BUDGET;
        // Upstream: the namespace is null in match conditions.
        let evaluation = Evaluation {
            namespace: &Value::Null,
            authorizer: evaluation.authorizer.clone(),
            ..*evaluation
        };
        let conditions = self.conditions.iter().map(Some);
        let outcomes =
            evaluation.run(conditions, &mut budget, |value| value.as_bool() == Some(true));
        let mut errors: Vec<String> = Vec::new();
        match outcomes {
            Err(exhausted) => errors.push(exhausted.to_string()),
            Ok(outcomes) => {
                for outcome in outcomes.into_iter().flatten() {
                    match outcome {
                        // A false condition takes precedence over the errors of others.
                        Ok(false) => return Ok(false),
                        Ok(true) => {}
                        Err(why) if errors.contains(&why) => {}
                        Err(why) => errors.push(why),
                    }
                }
            }
        }
        match (errors.as_slice(), self.failure_policy) {
            ([], _) => Ok(true),
            (_, FailurePolicy::Ignore) => Ok(false),
            ([only], FailurePolicy::Fail) => Err(only.clone()),
            (several, FailurePolicy::Fail) => Err(format!("[{}]", several.join(", "))),
        }
    }
}

impl Binding {
    fn of(binding: &Object) -> (String, Self) {
        let null = Value::Null;
        let spec = binding.get(&["spec"]).unwrap_or(&null);
        let actions = spec["validationActions"].as_array().into_iter().flatten();
        let parsed = Self {
            name: binding.name().to_owned(),
            actions: actions.filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
            criteria: spec.get("matchResources").map(MatchCriteria::of_policy),
            params: spec.get("paramRef").map(ParamRef::of),
        };
        (text(spec, "policyName").to_owned(), parsed)
    }

    /// The parameters for a request: empty if the binding does not match, and `[None]` if the
    /// policy has no parameters.
    async fn params_for(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
        resource: Option<params::ParamResource<'_>>,
    ) -> Result<Vec<Option<Object>>, String> {
        if let Some(criteria) = &self.criteria
            && criteria.find_match(attributes, object).map_err(|status| status.message)?.is_none()
        {
            return Ok(Vec::new());
        }
        match (resource, &self.params) {
            (Some(resource), Some(reference)) => {
                let namespace = matching::request_namespace(attributes);
                let found =
                    reference.collect(&attributes.scope.storage, &resource, namespace).await?;
                Ok(found.into_iter().map(Some).collect())
            }
            _ => Ok(vec![None]),
        }
    }
}

/// Compiles all policies of a kind with `compile`, by name.
pub(super) fn by_name<P>(
    snapshot: &Snapshot,
    compile: fn(&Object) -> P,
) -> BTreeMap<String, Arc<P>> {
    let objects = snapshot.entries.values().map(|entry| entry.object_as_stored());
    objects.map(|it| (it.name().to_owned(), Arc::new(compile(&it)))).collect()
}

/// Parses all bindings of a kind.
pub(super) fn bindings(snapshot: &Snapshot) -> PolicyBindings {
    let mut bindings = PolicyBindings::new();
    for entry in snapshot.entries.values() {
        let (policy, binding) = Binding::of(&entry.object_as_stored());
        bindings.entry(policy).or_default().push(binding);
    }
    bindings
}

/// The values of a request's variables, except the new object, in the version that a policy
/// matches.
pub(super) struct VersionedAttributes<'a> {
    request: Value,
    old: Option<Cow<'a, Object>>,
    namespace: Value,
    version: usize,
}

impl<'a> VersionedAttributes<'a> {
    /// The attributes in the matched version.
    pub(super) async fn new(
        attributes: &'a Attributes<'_>,
        matched: &MatchedResource,
    ) -> Result<Self, Status> {
        let version = matched.version;
        let old = match attributes.old {
            Some(old) => Some(in_version(attributes, version, old).await?),
            None => None,
        };
        Ok(Self {
            request: Value::Object(admission_request::build(attributes, matched)),
            old,
            namespace: namespace_object(attributes)?,
            version,
        })
    }

    /// The new object in the matched version.
    pub(super) async fn object<'o>(
        &self,
        attributes: &Attributes<'_>,
        object: &'o Object,
    ) -> Result<Cow<'o, Object>, Status> {
        in_version(attributes, self.version, object).await
    }

    /// The evaluation of a policy's expressions. `object` is in the matched version.
    pub(super) fn evaluation<'e>(
        &'e self,
        attributes: &Attributes<'_>,
        policy_spec: &'e PolicySpec,
        object: Option<&'e Object>,
        params: Option<&'e Object>,
    ) -> Evaluation<'e> {
        Evaluation {
            variables: &policy_spec.variables,
            object,
            old: self.old.as_deref(),
            request: &self.request,
            namespace: &self.namespace,
            params,
            authorizer: Some(authorizer::user_authorizer(attributes)),
        }
    }
}

async fn in_version<'o>(
    attributes: &Attributes<'_>,
    version: usize,
    object: &'o Object,
) -> Result<Cow<'o, Object>, Status> {
    let scope = attributes.scope;
    if attributes.kind.is_some() || version == conversion::memory_version(scope) {
        return Ok(Cow::Borrowed(object));
    }
    let object = object.clone();
    conversion::object(scope, version, object).await.map(Cow::Owned)
}

/// The fields of the object's namespace that expressions can read; null for a cluster-scoped
/// object.
fn namespace_object(attributes: &Attributes<'_>) -> Result<Value, Status> {
    let name = attributes.namespace;
    if name.is_empty() {
        return Ok(Value::Null);
    }
    let catalog = attributes.scope.storage.catalog.load();
    let found = catalog
        .resource("", "namespaces")
        .and_then(|served| served.cache.get(&served.key("", name)));
    let Some(entry) = found else {
        return Err(Status::not_found(&GroupResource::new("", "namespaces"), name));
    };
    let mut namespace = entry.object();
    for hidden in ["managedFields", "ownerReferences"] {
        namespace.remove_meta(hidden);
    }
    namespace.map_mut().retain(|key, _| matches!(key.as_str(), "metadata" | "spec" | "status"));
    Ok(namespace.into_value())
}

/// The string with this key, or "".
pub(super) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}
