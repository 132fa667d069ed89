//! The type checker: assigns a type to every node, and the possible overloads to every call.
//!
//! It reports all errors. A node with an error gets a type that is compatible with all others, so
//! that each error is reported once.

use std::sync::Arc;

use crate::ast::{Comprehension, Expr, Field, Id, Kind, Literal};
use crate::env::Env;
use crate::library::Overload;
use crate::parser::Parsed;
use crate::source::Issue;
use crate::types::Type;

mod literals;
mod unify;

use unify::Substitution;

/// The meaning of a name or a call.
#[derive(Debug, Clone, Default)]
pub(crate) enum Reference {
    #[default]
    None,
    /// A variable of the environment or of a comprehension; its name may have dots.
    Variable(String),
    /// A type used as a value.
    Type(String),
    /// A call: the function's full name and the possible overloads.
    Call { function: String, namespaced: bool, overloads: Vec<Arc<Overload>> },
}

/// A tree with the results of the checker, by node.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) expr: Expr,
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Reference>,
}

/// Checks a tree against the declarations of an environment.
pub(crate) fn check(parsed: Parsed, env: &Env) -> Result<Checked, Vec<Issue>> {
    let Parsed { expr, offsets } = parsed;
    let count = offsets.len();
    let mut checker = Checker {
        env,
        offsets,
        types: vec![Type::Error; count],
        references: vec![Reference::None; count],
        substitution: Substitution::default(),
        scopes: Vec::new(),
        issues: Vec::new(),
        type_variables: 0,
    };
    checker.check(&expr);
    if !checker.issues.is_empty() {
        return Err(checker.issues);
    }
    let Checker { substitution, types, references, offsets, .. } = checker;
    let types = types.iter().map(|ty| substitution.resolve_or_dyn(ty)).collect();
    let checked = Checked { expr, types, references };
    let issues = literals::check(&checked, &offsets);
    if issues.is_empty() { Ok(checked) } else { Err(issues) }
}

struct Checker<'e> {
    env: &'e Env,
    offsets: Vec<usize>,
    types: Vec<Type>,
    references: Vec<Reference>,
    substitution: Substitution,
    /// The variables of the comprehensions around the current node, innermost last.
    scopes: Vec<(String, Type)>,
    issues: Vec<Issue>,
    /// The number of type variables so far.
    type_variables: usize,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.issues.push(Issue::at(self.offsets[id], message));
    }

    fn new_type_variable(&mut self) -> Type {
        self.type_variables += 1;
        Type::Param(Arc::from(format!("_var{}", self.type_variables - 1)))
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn check(&mut self, expr: &Expr) -> Type {
        let ty = match &expr.kind {
            Kind::Literal(literal) => type_of(literal),
            Kind::Ident(name) => self.ident(expr.id, name),
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args)
            }
            Kind::List(items) => {
                let mut element = None;
                for item in items {
                    let ty = self.check(&item.value);
                    let ty = self.unwrapped(&item.value, ty, item.optional);
                    element = Some(self.join(element, ty));
                }
                Type::list(element.unwrap_or_else(|| self.new_type_variable()))
            }
            Kind::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    let ty = self.check(&entry.key);
                    key = Some(self.join(key, ty));
                    let ty = self.check(&entry.value);
                    let ty = self.unwrapped(&entry.value, ty, entry.optional);
                    value = Some(self.join(value, ty));
                }
                let key = key.unwrap_or_else(|| self.new_type_variable());
                Type::map(key, value.unwrap_or_else(|| self.new_type_variable()))
            }
            Kind::Struct { name, fields } => self.message(expr.id, name, fields),
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::Invalid => Type::Error,
        };
        self.types[expr.id] = ty.clone();
        ty
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, ty)) = self.scopes.iter().rev().find(|(own, _)| own == name) {
            self.references[id] = Reference::Variable(name.to_owned());
            return ty.clone();
        }
        if let Some(ty) = self.env.variable_type(name) {
            self.references[id] = Reference::Variable(name.to_owned());
            return ty;
        }
        if let Some(ty) = self.env.type_named(name) {
            self.references[id] = Reference::Type(ty.runtime_name().to_owned());
            return Type::Type(Arc::new(ty));
        }
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    /// The type of `a.b.c` if that is declared as one name.
    fn qualified(&mut self, expr: &Expr) -> Option<Type> {
        let name = expr.qualified_name()?;
        let name = name.strip_prefix('.').unwrap_or(&name);
        let first = name.split('.').next().unwrap_or(name);
        if self.scopes.iter().any(|(own, _)| own == first) {
            return None;
        }
        if let Some(ty) = self.env.variable_type(name) {
            self.references[expr.id] = Reference::Variable(name.to_owned());
            return Some(ty);
        }
        let ty = self.env.type_named(name)?;
        self.references[expr.id] = Reference::Type(ty.runtime_name().to_owned());
        Some(Type::Type(Arc::new(ty)))
    }

    fn select(&mut self, expr: &Expr, operand: &Expr, field: &str, test: bool) -> Type {
        if !test && let Some(ty) = self.qualified(expr) {
            return ty;
        }
        let ty = self.field(expr.id, operand, field, false);
        if test { Type::Bool } else { self.substitution.resolve(&ty) }
    }

    fn field(&mut self, id: Id, operand: &Expr, field: &str, optional: bool) -> Type {
        let operand = self.check(operand);
        let operand = self.substitution.resolve(&operand);
        let (target, wrapped) = match &operand {
            Type::Optional(inner) => (&**inner, true),
            other => (other, false),
        };
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) => match object.field(field) {
                Some(found) => found.decl.checked(),
                None => {
                    if let Some(ty) = self.env.open_field(&object.name, field) {
                        ty
                    } else {
                        self.report(id, format!("undefined field '{field}'"));
                        Type::Error
                    }
                }
            },
            Type::Param(_) => {
                self.substitution.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            // Upstream declares these types as objects without fields, and only addresses as opaque
            // types.
            Type::Opaque(name) if name.starts_with("kubernetes.") => {
                self.report(id, format!("unexpected failed resolution of '{name}'"));
                Type::Error
            }
            other => {
                self.report(id, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if wrapped || optional { Type::optional(result) } else { result }
    }

    fn call(&mut self, expr: &Expr, function: &str, target: Option<&Expr>, args: &[Expr]) -> Type {
        if function == "_?._" {
            let Kind::Literal(Literal::String(field)) = &args[1].kind else {
                return Type::Error;
            };
            self.types[args[1].id] = Type::String;
            let ty = self.field(expr.id, &args[0], field, true);
            let overloads = self.env.function(function).unwrap_or_default().to_vec();
            self.references[expr.id] =
                Reference::Call { function: function.to_owned(), namespaced: false, overloads };
            return self.substitution.resolve(&ty);
        }
        let mut types: Vec<Type> = args.iter().map(|arg| self.check(arg)).collect();
        let name = function.strip_prefix('.').unwrap_or(function);
        let Some(target) = target else {
            return match self.env.function(name) {
                Some(_) => self.resolve(expr.id, name, false, None, args, types),
                None => self.undeclared(expr.id, name),
            };
        };
        let qualified = target.qualified_name().map(|prefix| format!("{prefix}.{name}"));
        if let Some(qualified) = qualified
            && self.env.function(&qualified).is_some()
        {
            return self.resolve(expr.id, &qualified, true, None, args, types);
        }
        types.insert(0, self.check(target));
        match self.env.function(name) {
            Some(_) => self.resolve(expr.id, name, false, Some(target), args, types),
            None => self.undeclared(expr.id, name),
        }
    }

    fn undeclared(&mut self, id: Id, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn resolve(
        &mut self,
        id: Id,
        function: &str,
        namespaced: bool,
        target: Option<&Expr>,
        args: &[Expr],
        mut types: Vec<Type>,
    ) -> Type {
        let env = self.env;
        let declared = env.function(function).unwrap_or_default();
        if matches!(function, "_&&_" | "_||_") {
            return self.logical(id, function, declared, args, &types);
        }
        let mut fitting = Vec::new();
        let mut result: Option<Type> = None;
        for overload in declared.iter().filter(|overload| overload.member == target.is_some()) {
            let fresh: Vec<_> = overload
                .generics
                .iter()
                .map(|name| (Arc::clone(name), self.new_type_variable()))
                .collect();
            let params: Vec<Type> =
                overload.params.iter().map(|param| unify::instantiate(param, &fresh)).collect();
            if !self.substitution.assign_all(&types, &params) {
                continue;
            }
            fitting.push(Arc::clone(overload));
            let own = unify::instantiate(&overload.result, &fresh);
            let own = self.substitution.resolve(&own);
            result = Some(match result {
                Some(first) if !first.is_dyn() && first != own => Type::Dyn,
                Some(first) => first,
                None => own,
            });
        }
        let Some(result) = result else {
            for ty in &mut types {
                *ty = self.substitution.resolve_or_dyn(ty);
            }
            self.no_overload(id, function, target.is_some(), &types);
            return Type::Error;
        };
        let function = function.to_owned();
        self.references[id] = Reference::Call { function, namespaced, overloads: fitting };
        result
    }

    fn logical(
        &mut self,
        id: Id,
        function: &str,
        declared: &[Arc<Overload>],
        args: &[Expr],
        types: &[Type],
    ) -> Type {
        let mut result = Type::Bool;
        for (arg, ty) in args.iter().zip(types) {
            if !self.substitution.assign(ty, &Type::Bool) {
                let ty = ty.clone();
                self.mismatch(arg.id, &Type::Bool, &ty);
                result = Type::Error;
            }
        }
        let (function, overloads) = (function.to_owned(), declared.to_vec());
        self.references[id] = Reference::Call { function, namespaced: false, overloads };
        result
    }

    fn no_overload(&mut self, id: Id, function: &str, member: bool, types: &[Type]) {
        let shown =
            |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let signature = match types.split_first() {
            Some((target, rest)) if member => format!("{target}.({})", shown(rest)),
            _ => format!("({})", shown(types)),
        };
        let message =
            format!("found no matching overload for '{function}' applied to '{signature}'");
        self.report(id, message);
    }

    /// The type of the value of an element or entry, which is inside of an optional if `optional`
    /// is set.
    fn unwrapped(&mut self, value: &Expr, ty: Type, optional: bool) -> Type {
        match ty {
            Type::Optional(inner) if optional => (*inner).clone(),
            ty if optional && !ty.is_dyn() => {
                self.mismatch(value.id, &Type::optional(ty.clone()), &ty);
                ty
            }
            ty => ty,
        }
    }

    /// The common type of two elements of a literal. `literals` checks later whether they may
    /// differ, because the arguments of `format` may.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        let Some(previous) = previous else {
            return current;
        };
        if self.substitution.assign(&previous, &current) {
            return unify::most_general(previous, current);
        }
        Type::Dyn
    }

    fn message(&mut self, id: Id, name: &str, fields: &[Field]) -> Type {
        let Some(object) = self.env.message_type(name) else {
            self.report(id, format!("undeclared reference to '{name}' (in container '')"));
            return Type::Error;
        };
        for field in fields {
            let found = self.check(&field.value);
            let found = self.unwrapped(&field.value, found, field.optional);
            let declared = object.field(&field.name).map(|field| field.decl.checked());
            let declared = declared.or_else(|| self.env.open_field(&object.name, &field.name));
            let Some(declared) = declared else {
                self.report(field.id, format!("undefined field '{}'", field.name));
                continue;
            };
            if !self.substitution.assign(&declared, &found) {
                let name = &field.name;
                let message = format!(
                    "expected type of field '{name}' is '{declared}' but provided type is '{found}'"
                );
                self.report(field.id, message);
            }
        }
        Type::Object(object)
    }

    fn comprehension(&mut self, comprehension: &Comprehension) -> Type {
        let range = self.check(&comprehension.range);
        let accumulator = self.check(&comprehension.init);
        let range = self.substitution.resolve(&range);
        let depth = self.scopes.len();
        self.scopes.push((comprehension.accumulator.clone(), accumulator.clone()));
        let (first, second) = match &range {
            Type::List(element) if comprehension.second_variable.is_some() => {
                (Type::Int, (**element).clone())
            }
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.substitution.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                self.report(comprehension.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.scopes.push((comprehension.variable.clone(), first));
        if let Some(name) = &comprehension.second_variable {
            self.scopes.push((name.clone(), second));
        }
        self.assert(&comprehension.condition, &Type::Bool);
        self.assert(&comprehension.step, &accumulator);
        self.scopes.truncate(depth + 1);
        let result = self.check(&comprehension.result);
        self.scopes.truncate(depth);
        self.substitution.resolve(&result)
    }

    fn assert(&mut self, expr: &Expr, expected: &Type) {
        let found = self.check(expr);
        if !self.substitution.assign(expected, &found) {
            self.mismatch(expr.id, expected, &found);
        }
    }
}

fn type_of(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
