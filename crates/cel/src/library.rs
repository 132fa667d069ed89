//! [`Library`]: the functions, types and macros that expressions may use.
//!
//! A function is a list of overloads. Each is declared by a signature, from which the checker
//! works, and implemented by a Rust function over [`Value`]s:
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
mod urls;

pub(crate) use conversions::is_conversion;

/// What a library can have besides the language itself.
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
    /// Kubernetes' own: `isSorted`, `sum`, `min`, `max`, `indexOf`, `includes`.
    KubernetesLists,
    /// `sets.contains`, `sets.equivalent`, `sets.intersects`.
    Sets,
    /// `math.greatest`, `math.bitAnd` …, which Kubernetes does not have.
    Math,
    /// `find`, `findAll`.
    Regex,
    /// `url`, `isURL` and what a URL consists of.
    Urls,
    /// `ip`, `cidr` and their kin.
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
    /// `jsonpatch.escapeKey`, for expressions that make patches.
    JsonPatch,
}

/// What an expression may call.
#[derive(Debug, Default)]
pub struct Library {
    functions: HashMap<&'static str, Vec<Arc<Overload>>>,
    types: Vec<&'static str>,
    pub(crate) macros: Macros,
}

pub(crate) type EvalResult<'a> = Result<Value<'a>, EvalError>;

/// The function may take the arguments: they are not used afterwards.
pub(crate) type Plain = for<'a> fn(&mut [Value<'a>]) -> EvalResult<'a>;

/// The second argument is the pattern, already compiled.
pub(crate) type WithRegex = for<'a> fn(&mut [Value<'a>], &Matcher) -> EvalResult<'a>;

/// How an overload is computed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Plain(Plain),
    Regex(WithRegex),
    /// The evaluator does it: its arguments are not all evaluated, or are no plain values.
    Evaluator,
}

/// One way to call a function.
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

    /// What every expression in Kubernetes can use. Shared: it is built once.
    pub fn kubernetes() -> Arc<Self> {
        static SHARED: OnceLock<Arc<Library>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(Self::of_kubernetes())))
    }

    /// The same for expressions that make patches. Shared as well.
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
            Extension::TwoVariables => lists::declare_map_insert(&mut self),
            Extension::Bind => self.macros.add(Family::Bind),
            Extension::Encoders => encoders::declare(&mut self),
            Extension::JsonPatch => json_patch::declare(&mut self),
        }
        self
    }

    pub(crate) fn function(&self, name: &str) -> Option<&[Arc<Overload>]> {
        self.functions.get(name).map(Vec::as_slice)
    }

    /// The type with this name: of the language or of an extension.
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
    /// Whether the arguments are of the kinds that the signature names.
    pub(crate) fn accepts(&self, args: &[Value<'_>]) -> bool {
        self.params.len() == args.len()
            && self.params.iter().zip(args).all(|(param, arg)| fits(param, arg))
    }
}

fn fits(param: &Type, value: &Value<'_>) -> bool {
    match (param, value) {
        (Type::Dyn | Type::Param(_), _) | (Type::Map(..), Value::Map(_) | Value::Fields(_)) => true,
        (param, value) => param.runtime_name() == value.type_name(),
    }
}

/// For functions whose signature already determines the types of the values.
fn no_such_overload<'a>() -> EvalResult<'a> {
    Err(EvalError::no_such_overload())
}
