//! Parses signatures: `string.(int) -> string`, `(A, list(A)) -> bool`.

use std::sync::Arc;

use super::{Overload, Run};
use crate::types::Type;

/// The types of extensions that a signature may use.
const OPAQUE: &[&str] = &[
    "net.IP",
    "net.CIDR",
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

/// The overload with the signature `declared`. Panics if the signature is invalid, which every test
/// that uses the library would find.
pub(super) fn parse(id: &str, declared: &'static str, run: Run) -> Overload {
    let (left, result) = declared.split_once(" -> ").expect("a signature has a result");
    let (receiver, params) = left.split_once('(').expect("a signature has parameters");
    let params = params.strip_suffix(')').expect("a signature closes its parameters");
    let mut generics = Vec::new();
    let mut types = Vec::new();
    let member = !receiver.is_empty() || left.contains(".(");
    let params = match left.find(".(") {
        Some(dot) => {
            types.push(read(&left[..dot], &mut generics));
            &left[dot + 2..left.len() - 1]
        }
        None => params,
    };
    types.extend(split(params).into_iter().map(|param| read(param, &mut generics)));
    let result = read(result, &mut generics);
    Overload { id: id.to_owned(), member, params: types, result, generics, run }
}

/// Splits at commas outside of brackets.
fn split(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (index, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    let last = list[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

fn read(text: &str, generics: &mut Vec<Arc<str>>) -> Type {
    if let Some((name, rest)) = text.split_once('(') {
        let inner = rest.strip_suffix(')').expect("a type closes its bracket");
        let mut inner = split(inner).into_iter().map(|part| read(part, generics));
        let mut next = || inner.next().expect("a type has its parameters");
        return match name {
            "list" => Type::list(next()),
            "map" => Type::map(next(), next()),
            "optional" => Type::optional(next()),
            _ => Type::Type(Arc::new(next())),
        };
    }
    match text {
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        _ if text.len() == 1 => {
            let name: Arc<str> = Arc::from(text);
            if !generics.contains(&name) {
                generics.push(Arc::clone(&name));
            }
            Type::Param(name)
        }
        _ => match OPAQUE.iter().find(|name| **name == text) {
            Some(name) => Type::Opaque(name),
            None => Type::named(text).expect("a signature names known types"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_with_receivers_and_type_parameters_are_parsed() {
        let overload = parse("x", "list(A).(int, map(A, net.IP)) -> optional(A)", Run::Evaluator);
        let params: Vec<_> = overload.params.iter().map(ToString::to_string).collect();
        assert!(overload.member);
        assert_eq!(params, ["list(A)", "int", "map(A, net.IP)"]);
        assert_eq!(overload.result.to_string(), "optional_type(A)");
        assert_eq!(overload.generics.len(), 1);
    }
}
