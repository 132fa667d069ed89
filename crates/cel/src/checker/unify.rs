//! Type assignability, and the types of type variables that follow from it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// The types that are bound to type variables.
#[derive(Debug, Clone, Default)]
pub(super) struct Substitution {
    bound: HashMap<Arc<str>, Type>,
}

impl Substitution {
    /// Whether `from` is assignable to `to`; if so, binds the type variables accordingly.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        let mut attempt = self.clone();
        let fits = attempt.fits(from, to);
        if fits {
            *self = attempt;
        }
        fits
    }

    /// Like [`assign`](Self::assign), for lists of types that must all be assignable.
    pub(super) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        if from.len() != to.len() {
            return false;
        }
        let mut attempt = self.clone();
        let fits = from.iter().zip(to).all(|(from, to)| attempt.fits(from, to));
        if fits {
            *self = attempt;
        }
        fits
    }

    /// `ty` with bound type variables replaced by their types.
    pub(super) fn resolve(&self, ty: &Type) -> Type {
        self.replace(ty, false)
    }

    /// Like [`resolve`](Self::resolve), with `dyn` for unbound type variables.
    pub(super) fn resolve_or_dyn(&self, ty: &Type) -> Type {
        self.replace(ty, true)
    }

    fn replace(&self, ty: &Type, to_dyn: bool) -> Type {
        let inner = |ty: &Type| Arc::new(self.replace(ty, to_dyn));
        match ty {
            Type::Param(name) => match self.bound.get(name) {
                Some(known) => self.replace(known, to_dyn),
                None if to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::List(inner(element)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            Type::Optional(value) => Type::Optional(inner(value)),
            Type::Type(of) => Type::Type(inner(of)),
            other => other.clone(),
        }
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(name) = to {
            match self.bind(name, from) {
                Bound::Fits => return true,
                Bound::Contradicts => return false,
                Bound::Occurs => {}
            }
        }
        if let Type::Param(name) = from {
            return matches!(self.bind(name, to), Bound::Fits);
        }
        match (from, to) {
            (Type::Dyn | Type::Error, _)
            | (_, Type::Dyn | Type::Error)
            | (Type::Type(_), Type::Type(_)) => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            (Type::Map(a, b), Type::Map(c, d)) => self.fits(a, c) && self.fits(b, d),
            (a, b) => a == b,
        }
    }

    /// Binds the variable `name` to `ty`, or checks that `ty` fits the bound type.
    fn bind(&mut self, name: &Arc<str>, ty: &Type) -> Bound {
        if matches!(ty, Type::Param(own) if own == name) {
            return Bound::Fits;
        }
        if let Some(known) = self.bound.get(name).cloned() {
            if known == *ty {
                return Bound::Fits;
            }
            if !self.fits(ty, &known) {
                return Bound::Contradicts;
            }
            let general = most_general(ty.clone(), known);
            if !self.occurs(name, &general) {
                self.bound.insert(Arc::clone(name), general);
            }
            return Bound::Fits;
        }
        if self.occurs(name, ty) {
            return Bound::Occurs;
        }
        self.bound.insert(Arc::clone(name), ty.clone());
        Bound::Fits
    }

    /// Whether `name` is part of `ty`: such a type would be infinite.
    fn occurs(&self, name: &Arc<str>, ty: &Type) -> bool {
        match ty {
            Type::Param(own) if own == name => true,
            Type::Param(own) => self.bound.get(own).is_some_and(|known| self.occurs(name, known)),
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => {
                self.occurs(name, inner)
            }
            Type::Map(key, value) => self.occurs(name, key) || self.occurs(name, value),
            _ => false,
        }
    }
}

enum Bound {
    Fits,
    Contradicts,
    Occurs,
}

fn is_nullable(ty: &Type) -> bool {
    matches!(
        ty,
        Type::Null
            | Type::Object(_)
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// The more general of two types that are assignable to each other.
pub(super) fn most_general(a: Type, b: Type) -> Type {
    if is_as_general_as(&a, &b) { a } else { b }
}

fn is_as_general_as(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Param(_), _) | (Type::Type(_), Type::Type(_)) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            is_as_general_as(a, b)
        }
        (Type::Map(a, b), Type::Map(c, d)) => is_as_general_as(a, c) && is_as_general_as(b, d),
        (a, b) => a == b,
    }
}

/// `ty` with the type parameters of a signature replaced by new type variables.
pub(super) fn instantiate(ty: &Type, fresh: &[(Arc<str>, Type)]) -> Type {
    let inner = |ty: &Type| Arc::new(instantiate(ty, fresh));
    match ty {
        Type::Param(name) => match fresh.iter().find(|(own, _)| own == name) {
            Some((_, variable)) => variable.clone(),
            None => ty.clone(),
        },
        Type::List(element) => Type::List(inner(element)),
        Type::Map(key, value) => Type::Map(inner(key), inner(value)),
        Type::Optional(value) => Type::Optional(inner(value)),
        Type::Type(of) => Type::Type(inner(of)),
        other => other.clone(),
    }
}
