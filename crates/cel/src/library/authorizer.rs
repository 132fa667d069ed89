//! Kubernetes' authorizer library:
//! `authorizer.group('apps').resource('deployments').namespace('x').check('create').allowed()`.
//!
//! The caller binds the variable `authorizer` to the value that [`authorizer`] makes from an
//! implementation of [`Authorizer`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::{EvalResult, Library, Plain, no_such_overload};
use crate::value::{Opaque, Value};

/// Decides whether an action is allowed.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Decides a check.
    fn authorize(&self, check: &Check) -> Decision;
}

/// The attributes of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Check {
    /// The namespace and the name of the service account to check instead of the requester.
    pub service_account: Option<(String, String)>,
    /// The path, for non-resource requests.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The resource; empty for paths.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The field selector.
    pub field_selector: String,
    /// The label selector.
    pub label_selector: String,
    /// The verb.
    pub verb: String,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// The reason; may be empty.
    pub reason: String,
    /// The error of the authorizer, if it failed.
    pub error: Option<String>,
}

/// The value of the variable `authorizer`; its type is that of [`authorizer_type`].
pub fn authorizer<'a>(authorizer: Arc<dyn Authorizer>) -> Value<'a> {
    Value::opaque(AuthorizerStep { kind: AUTHORIZER, authorizer, check: Check::default() })
}

/// The value of the variable `authorizer.requestResource`: a check with all attributes except the
/// verb.
pub fn resource_check<'a>(authorizer: Arc<dyn Authorizer>, check: Check) -> Value<'a> {
    Value::opaque(AuthorizerStep { kind: RESOURCE, authorizer, check })
}

/// The type of an authorizer, for declarations.
pub fn authorizer_type() -> crate::Type {
    crate::Type::Opaque(AUTHORIZER)
}

/// The type of a check of a resource, for declarations.
pub fn resource_check_type() -> crate::Type {
    crate::Type::Opaque(RESOURCE)
}

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const PATH: &str = "kubernetes.authorization.PathCheck";
const GROUP: &str = "kubernetes.authorization.GroupCheck";
const RESOURCE: &str = "kubernetes.authorization.ResourceCheck";
const DECISION: &str = "kubernetes.authorization.Decision";

/// An incomplete check. Its type name determines which attributes can be added.
#[derive(Debug)]
struct AuthorizerStep {
    kind: &'static str,
    authorizer: Arc<dyn Authorizer>,
    check: Check,
}

impl Opaque for AuthorizerStep {
    fn type_name(&self) -> &'static str {
        self.kind
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.kind == other.kind && self.check == other.check)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque for Decision {
    fn type_name(&self) -> &'static str {
        DECISION
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub(super) fn declare(library: &mut Library) {
    for name in [AUTHORIZER, PATH, GROUP, RESOURCE, DECISION] {
        library.add_type(name);
    }
    let path = "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.PathCheck";
    library.add("path", "authorizer_path", path, |args| {
        add_attribute(args, PATH, |check, [path, _]| check.path = Some(path))
    });
    let group =
        "kubernetes.authorization.Authorizer.(string) -> kubernetes.authorization.GroupCheck";
    library.add("group", "authorizer_group", group, |args| {
        add_attribute(args, GROUP, |check, [group, _]| check.group = group)
    });
    let account = "kubernetes.authorization.Authorizer.(string, string) -> \
                   kubernetes.authorization.Authorizer";
    library.add("serviceAccount", "authorizer_serviceaccount", account, |args| {
        add_attribute(args, AUTHORIZER, |check, [namespace, name]| {
            check.service_account = Some((namespace, name));
        })
    });
    let resource =
        "kubernetes.authorization.GroupCheck.(string) -> kubernetes.authorization.ResourceCheck";
    library.add("resource", "groupcheck_resource", resource, |args| {
        add_attribute(args, RESOURCE, |check, [resource, _]| check.resource = resource)
    });
    let steps: [(&'static str, &str, Plain); 5] = [
        ("subresource", "resourcecheck_subresource", |args| {
            add_attribute(args, RESOURCE, |check, [it, _]| check.subresource = it)
        }),
        ("namespace", "resourcecheck_namespace", |args| {
            add_attribute(args, RESOURCE, |check, [it, _]| check.namespace = it)
        }),
        ("name", "resourcecheck_name", |args| {
            add_attribute(args, RESOURCE, |check, [it, _]| check.name = it)
        }),
        ("fieldSelector", "authorizer_fieldselector", |args| {
            add_attribute(args, RESOURCE, |check, [it, _]| check.field_selector = it)
        }),
        ("labelSelector", "authorizer_labelselector", |args| {
            add_attribute(args, RESOURCE, |check, [it, _]| check.label_selector = it)
        }),
    ];
    let step =
        "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.ResourceCheck";
    for (function, id, run) in steps {
        library.add(function, id, step, run);
    }
    declare_decisions(library);
}

fn declare_decisions(library: &mut Library) {
    for (id, declared) in [
        (
            "pathcheck_check",
            "kubernetes.authorization.PathCheck.(string) -> kubernetes.authorization.Decision",
        ),
        (
            "resourcecheck_check",
            "kubernetes.authorization.ResourceCheck.(string) -> kubernetes.authorization.Decision",
        ),
    ] {
        library.add("check", id, declared, check);
    }
    let truth = "kubernetes.authorization.Decision.() -> bool";
    library.add("allowed", "decision_allowed", truth, |args| {
        with_decision(args, |decision| Value::Bool(decision.allowed))
    });
    library.add("errored", "decision_errored", truth, |args| {
        with_decision(args, |decision| Value::Bool(decision.error.is_some()))
    });
    let text = "kubernetes.authorization.Decision.() -> string";
    library.add("reason", "decision_reason", text, |args| {
        with_decision(args, |decision| Value::string(decision.reason.as_str()))
    });
    library.add("error", "decision_error", text, |args| {
        with_decision(args, |decision| Value::string(decision.error.as_deref().unwrap_or_default()))
    });
}

/// Adds an attribute to a check. `set` gets the first two arguments of the call.
fn add_attribute<'a>(
    args: &mut [Value<'a>],
    kind: &'static str,
    set: fn(&mut Check, [String; 2]),
) -> EvalResult<'a> {
    let arguments =
        [1, 2].map(|index| args.get(index).and_then(Value::as_str).unwrap_or("").to_owned());
    let Some(step) = args[0].downcast::<AuthorizerStep>() else {
        return no_such_overload();
    };
    let mut check = step.check.clone();
    set(&mut check, arguments);
    Ok(Value::opaque(AuthorizerStep { kind, authorizer: Arc::clone(&step.authorizer), check }))
}

fn check<'a>(args: &mut [Value<'a>]) -> EvalResult<'a> {
    let [step, Value::String(verb)] = args else {
        return no_such_overload();
    };
    let Some(step) = step.downcast::<AuthorizerStep>() else {
        return no_such_overload();
    };
    let check = Check { verb: verb.to_string(), ..step.check.clone() };
    Ok(Value::opaque(step.authorizer.authorize(&check)))
}

fn with_decision<'a>(args: &mut [Value<'a>], map: fn(&Decision) -> Value<'a>) -> EvalResult<'a> {
    match args[0].downcast::<Decision>() {
        Some(decision) => Ok(map(decision)),
        None => no_such_overload(),
    }
}
