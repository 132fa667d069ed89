//! [`Library`]: the functions, types and macros that expressions may use.
//!
//! A function is a list of overloads. Each overload has a signature, which the checker uses, and is
//! implemented by a Rust function over [`Value`]s:
//!
//! ```text
//! charAt   string_char_at_int   string.(int) -> string      a method
//! ip       string_to_ip         (string) -> net.IP          a function
//! @in      in_list              (A, list(A)) -> bool        with a type parameter
//! ```

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::error::EvalError;
use crate::go_regexp::Matcher;
use crate::macros::{Family, Macros};
use crate::types::Type;
use crate::value::Value;

pub(crate) mod addresses;
pub mod authorizer;
mod conversions;
mod encoders;
pub(crate) mod formats;
mod json_patch;
mod lists;
mod math;
mod operators;
mod optionals;
mod quantity;
pub(crate) mod regexes;
mod semver;
mod sets;
mod signature;
mod standard;
mod string_format;
mod strings;
mod times;
mod two_variables;
mod urls;

pub(crate) use conversions::is_conversion;

/// An extension of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extension {
    /// `optional.of`, `a.?b`, `optMap` …
    Optionals,
    /// `charAt`, `split`, `format` …
    Strings,
    /// `reverse` of strings, which Kubernetes does not have.
    StringReverse,
    /// `slice`, `sort`, `distinct`, `flatten` …
    Lists,
    /// Kubernetes' lists library: `isSorted`, `sum`, `min`, `max`, `indexOf`, `includes`.
    KubernetesLists,
    /// `sets.contains`, `sets.equivalent`, `sets.intersects`.
    Sets,
    /// `math.greatest`, `math.bitAnd` …, which Kubernetes does not have.
    Math,
    /// `find`, `findAll`.
    Regex,
    /// `url`, `isURL` and accessors such as `getHost`.
    Urls,
    /// `ip`, `cidr` and their methods.
    Addresses,
    /// `quantity`.
    Quantity,
    /// `semver`.
    Semver,
    /// `format.named`, `validate`.
    Formats,
    /// `authorizer.group(…).resource(…).check(…)`.
    Authorizer,
    /// `all(k, v, …)`, `transformMap` …
    TwoVariables,
    /// `cel.bind`, which Kubernetes does not have.
    Bind,
    /// `base64.encode`, `base64.decode`, which Kubernetes does not have.
    Encoders,
    /// `jsonpatch.escapeKey`, for expressions of JSON patches.
    JsonPatch,
}

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub struct Library {
    functions: HashMap<&'static str, Vec<Arc<Overload>>>,
    types: Vec<&'static str>,
    pub(crate) macros: Macros,
}

pub(crate) type EvalResult<'a> = Result<Value<'a>, EvalError>;

/// An implementation. It may move values out of the arguments, which are not used afterwards.
pub(crate) type Plain = for<'a> fn(&mut [Value<'a>]) -> EvalResult<'a>;

/// An implementation whose second argument is a pattern, which is passed compiled.
pub(crate) type WithRegex = for<'a> fn(&mut [Value<'a>], &Matcher) -> EvalResult<'a>;

/// The implementation of an overload.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Plain(Plain),
    Regex(WithRegex),
    /// Implemented by the evaluator, because not all arguments are evaluated or the node is
    /// special.
    Evaluator,
}

/// One overload of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    pub(crate) id: String,
    pub(crate) member: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) result: Type,
    /// The names of the type parameters in `params` and `result`.
    pub(crate) generics: Vec<Arc<str>>,
    pub(crate) run: Run,
}

impl Library {
    /// The language itself.
    pub fn standard() -> Self {
        let mut library = Self::default();
        library.macros.add(Family::Standard);
        operators::declare(&mut library);
        standard::declare(&mut library);
        conversions::declare(&mut library);
        times::declare(&mut library);
        library
    }

    /// The library of all expressions in Kubernetes. It is built once and shared.
    pub fn kubernetes() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Library>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::of_kubernetes())))
    }

    /// The library of expressions of JSON patches in mutating admission policies. It is shared too.
    pub fn kubernetes_patches() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Library>> = OnceLock::new();
        let build = || Arc::new(Self::of_kubernetes().with(Extension::JsonPatch));
        Arc::clone(SHARED.get_or_init(build))
    }

    fn of_kubernetes() -> Self {
        let extensions = [
            Extension::Optionals,
            Extension::Strings,
            Extension::Lists,
            Extension::KubernetesLists,
            Extension::Sets,
            Extension::Regex,
            Extension::Urls,
            Extension::Addresses,
            Extension::Quantity,
            Extension::Semver,
            Extension::Formats,
            Extension::Authorizer,
            Extension::TwoVariables,
        ];
        extensions.into_iter().fold(Self::standard(), Self::with)
    }

    /// This library and an extension.
    #[must_use]
    pub fn with(mut self, extension: Extension) -> Self {
        match extension {
            Extension::Optionals => optionals::declare(&mut self),
            Extension::Strings => strings::declare(&mut self),
            Extension::StringReverse => strings::declare_reverse(&mut self),
            Extension::Lists => lists::declare(&mut self),
            Extension::KubernetesLists => lists::declare_kubernetes(&mut self),
            Extension::Sets => sets::declare(&mut self),
            Extension::Math => math::declare(&mut self),
            Extension::Regex => regexes::declare(&mut self),
            Extension::Urls => urls::declare(&mut self),
            Extension::Addresses => addresses::declare(&mut self),
            Extension::Quantity => quantity::declare(&mut self),
            Extension::Semver => semver::declare(&mut self),
            Extension::Formats => formats::declare(&mut self),
            Extension::Authorizer => authorizer::declare(&mut self),
            Extension::TwoVariables => two_variables::declare(&mut self),
            Extension::Bind => self.macros.add(Family::Bind),
            Extension::Encoders => encoders::declare(&mut self),
            Extension::JsonPatch => json_patch::declare(&mut self),
        }
        self
    }

    pub(crate) fn function(&self, name: &str) -> Option<&[Arc<Overload>]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    /// The type with this name, of the language or of an extension.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        let own = || self.types.iter().find(|own| **own == name).map(|own| Type::Opaque(own));
        Type::named(name).or_else(own)
    }

    fn add_type(&mut self, name: &'static str) {
        self.types.push(name);
    }

    fn add(&mut self, function: &'static str, id: &str, declared: &'static str, run: Plain) {
        self.add_overload(function, id, declared, Run::Plain(run));
    }

    fn add_overload(&mut self, function: &'static str, id: &str, declared: &'static str, run: Run) {
        let overload = signature::parse(id, declared, run);
        self.functions.entry(function).or_default().push(Arc::new(overload));
    }
}

impl Overload {
    /// Whether the arguments have the types of the signature.
    pub(crate) fn accepts(&self, args: &[Value<'_>]) -> bool {
        self.params.len() == args.len()
            && self.params.iter().zip(args).all(|(param, arg)| has_type(param, arg))
    }
}

fn has_type(param: &Type, value: &Value<'_>) -> bool {
    match (param, value) {
        (Type::Dyn | Type::Param(_), _) | (Type::Map(..), Value::Map(_) | Value::Fields(_)) => true,
        (param, value) => param.runtime_name() == value.type_name(),
    }
}

/// The error for arguments that do not match the signature; [`Overload::accepts`] excludes them.
fn no_such_overload<'a>() -> EvalResult<'a> {
    Err(EvalError::no_such_overload())
}
