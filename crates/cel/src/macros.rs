//! Macros: calls that the parser rewrites, such as `has`, `all`, `exists`, `map`, `optMap`.
//!
//! ```text
//! [1, 2].all(x, x > 0)   ⇒   @result = true
//!                             for x in [1, 2] while @not_strictly_false(@result)
//!                                 @result = @result && x > 0
//! ```
//!
//! The new nodes have the position of the macro's opening bracket.

use std::collections::BTreeSet;

use crate::ast::{ACCUMULATOR, Comprehension, Expr, Id, Kind, Literal};
use crate::parser::Nodes;

mod expansion;

use expansion::{Expansion, Variables};

/// Families of macros; an environment has some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Family {
    /// `has`, `all`, `exists`, `exists_one`, `map`, `filter`.
    Standard,
    /// `all`, `exists`, … with index and element, `transformList`, `transformMap`,
    /// `transformMapEntry`.
    TwoVariables,
    /// `optMap`, `optFlatMap`.
    Optional,
    /// `cel.bind`.
    Bind,
    /// `sortBy`.
    Lists,
    /// `math.greatest`, `math.least`.
    Math,
}

/// The macros of an environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Macros {
    families: BTreeSet<Family>,
}

/// The target and the arguments of a call, returned if it is not a macro.
type Parts = (Option<Expr>, Vec<Expr>);

impl Macros {
    pub(crate) fn add(&mut self, family: Family) {
        self.families.insert(family);
    }

    /// The expansion of a call, or its parts if it is not a macro.
    pub(crate) fn expand(
        &self,
        nodes: &mut Nodes,
        id: Id,
        function: &str,
        target: Option<Expr>,
        args: Vec<Expr>,
    ) -> Result<Expr, Parts> {
        let Some((family, expand)) = find(function, target.as_ref(), args.len()) else {
            return Err((target, args));
        };
        if !self.families.contains(&family) {
            return Err((target, args));
        }
        let offset = nodes.offset(id);
        let mut expansion = Expansion { nodes, offset };
        match expand(&mut expansion, target, args) {
            Ok(expr) => Ok(expr),
            Err(MacroError(offset, message)) => {
                nodes.report(offset, message);
                Ok(nodes.new_expr(offset, Kind::Invalid))
            }
        }
    }
}

type Expander = fn(&mut Expansion<'_>, Option<Expr>, Vec<Expr>) -> Result<Expr, MacroError>;

/// The position and the message of an invalid use of a macro.
struct MacroError(usize, String);

fn find(function: &str, target: Option<&Expr>, count: usize) -> Option<(Family, Expander)> {
    let named =
        |name: &str| matches!(target.map(|it| &it.kind), Some(Kind::Ident(it)) if it == name);
    // Quantifiers have one variable and a predicate, or two variables and a predicate.
    let family = if count == 3 { Family::TwoVariables } else { Family::Standard };
    let expander: (Family, Expander) = match (function, target.is_some(), count) {
        ("has", false, 1) => (Family::Standard, has),
        ("all", true, 2 | 3) => (family, |cx, target, args| quantifier(cx, target, args, all)),
        ("exists", true, 2 | 3) => {
            (family, |cx, target, args| quantifier(cx, target, args, exists))
        }
        ("exists_one" | "existsOne", true, 2 | 3) => {
            (family, |cx, target, args| quantifier(cx, target, args, exists_one))
        }
        ("map", true, 2 | 3) => (Family::Standard, map),
        ("filter", true, 2) => (Family::Standard, filter),
        ("transformList", true, 3 | 4) => (Family::TwoVariables, transform_list),
        ("transformMap", true, 3 | 4) => (Family::TwoVariables, transform_map),
        ("transformMapEntry", true, 3 | 4) => (Family::TwoVariables, transform_map_entry),
        ("optMap", true, 2) => (Family::Optional, opt_map),
        ("optFlatMap", true, 2) => (Family::Optional, opt_flat_map),
        ("bind", true, 3) if named("cel") => (Family::Bind, bind),
        ("sortBy", true, 2) => (Family::Lists, sort_by),
        ("greatest", true, _) if named("math") => {
            (Family::Math, |cx, _, args| extreme(cx, args, "greatest", "math.@max"))
        }
        ("least", true, _) if named("math") => {
            (Family::Math, |cx, _, args| extreme(cx, args, "least", "math.@min"))
        }
        _ => return None,
    };
    Some(expander)
}

fn receiver(target: Option<Expr>) -> Expr {
    target.expect("`find` gives method macros a target")
}

/// The optional filter after `variables` names, and the last argument.
fn split(mut args: Vec<Expr>, variables: usize) -> (Option<Expr>, Expr) {
    let last = args.pop().expect("`find` checked the number of arguments");
    let filter = if args.len() > variables { args.pop() } else { None };
    (filter, last)
}

fn has(cx: &mut Expansion<'_>, _: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
    let arg = args.remove(0);
    match arg.kind {
        Kind::Select { operand, field, test: false } => {
            Ok(cx.make(Kind::Select { operand, field, test: true }))
        }
        _ => Err(cx.error(&arg, "invalid argument to has() macro")),
    }
}

/// The parts of a comprehension in which quantifiers differ.
struct QuantifierParts {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// Makes the parts from the predicate.
type Quantifier = fn(&mut Expansion<'_>, Expr) -> QuantifierParts;

fn quantifier(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    quantifier: Quantifier,
) -> Result<Expr, MacroError> {
    let two = args.len() == 3;
    let (variable, second_variable) = if two {
        cx.variables(&args, Variables::Two)?
    } else {
        (cx.variable(&args[0], "argument must be a simple name")?, None)
    };
    let predicate = args.pop().expect("`find` checked the number of arguments");
    let QuantifierParts { init, condition, step, result } = quantifier(cx, predicate);
    let (range, accumulator) = (receiver(target), ACCUMULATOR.to_owned());
    Ok(cx.comprehension(Comprehension {
        range,
        variable,
        second_variable,
        accumulator,
        init,
        condition,
        step,
        result,
    }))
}

fn all(cx: &mut Expansion<'_>, predicate: Expr) -> QuantifierParts {
    let init = cx.literal(Literal::Bool(true));
    let accumulated = cx.accumulator();
    let condition = cx.call("@not_strictly_false", vec![accumulated]);
    let accumulated = cx.accumulator();
    let step = cx.call("_&&_", vec![accumulated, predicate]);
    QuantifierParts { init, condition, step, result: cx.accumulator() }
}

fn exists(cx: &mut Expansion<'_>, predicate: Expr) -> QuantifierParts {
    let init = cx.literal(Literal::Bool(false));
    let accumulated = cx.accumulator();
    let not = cx.call("!_", vec![accumulated]);
    let condition = cx.call("@not_strictly_false", vec![not]);
    let accumulated = cx.accumulator();
    let step = cx.call("_||_", vec![accumulated, predicate]);
    QuantifierParts { init, condition, step, result: cx.accumulator() }
}

fn exists_one(cx: &mut Expansion<'_>, predicate: Expr) -> QuantifierParts {
    let init = cx.literal(Literal::Int(0));
    let condition = cx.literal(Literal::Bool(true));
    let (accumulated, one) = (cx.accumulator(), cx.literal(Literal::Int(1)));
    let incremented = cx.call("_+_", vec![accumulated, one]);
    let unchanged = cx.accumulator();
    let step = cx.call("_?_:_", vec![predicate, incremented, unchanged]);
    let (count, one) = (cx.accumulator(), cx.literal(Literal::Int(1)));
    let result = cx.call("_==_", vec![count, one]);
    QuantifierParts { init, condition, step, result }
}

fn append(cx: &mut Expansion<'_>, value: Expr) -> Expr {
    let accumulated = cx.accumulator();
    let one = cx.list(vec![value]);
    cx.call("_+_", vec![accumulated, one])
}

fn map(cx: &mut Expansion<'_>, target: Option<Expr>, args: Vec<Expr>) -> Result<Expr, MacroError> {
    let variables = cx.variables(&args, Variables::One)?;
    let (filter, value) = split(args, 1);
    let init = cx.list(Vec::new());
    let step = append(cx, value);
    Ok(cx.collect(receiver(target), variables, init, filter, step))
}

fn filter(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let variables = cx.variables(&args, Variables::One)?;
    let predicate = args.pop();
    let init = cx.list(Vec::new());
    let step = append(cx, args.remove(0));
    Ok(cx.collect(receiver(target), variables, init, predicate, step))
}

fn transform_list(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let variables = cx.variables(&args, Variables::Two)?;
    let (filter, value) = split(args, 2);
    let init = cx.list(Vec::new());
    let step = append(cx, value);
    Ok(cx.collect(receiver(target), variables, init, filter, step))
}

fn transform_map(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let variables = cx.variables(&args, Variables::Two)?;
    let (filter, value) = split(args, 2);
    let init = cx.make(Kind::Map(Vec::new()));
    let (accumulated, key) = (cx.accumulator(), cx.ident(&variables.0));
    let step = cx.call("cel.@mapInsert", vec![accumulated, key, value]);
    Ok(cx.collect(receiver(target), variables, init, filter, step))
}

fn transform_map_entry(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let variables = cx.variables(&args, Variables::Two)?;
    let (filter, entry) = split(args, 2);
    let init = cx.make(Kind::Map(Vec::new()));
    let accumulated = cx.accumulator();
    let step = cx.call("cel.@mapInsert", vec![accumulated, entry]);
    Ok(cx.collect(receiver(target), variables, init, filter, step))
}

fn bind(cx: &mut Expansion<'_>, _: Option<Expr>, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
    let result = args.pop().expect("`find` checked the number of arguments");
    let init = args.pop().expect("`find` checked the number of arguments");
    let Kind::Ident(name) = &args[0].kind else {
        return Err(cx.error(&args[0], "cel.bind() variable names must be simple identifiers"));
    };
    Ok(cx.bind(name.clone(), init, result))
}

fn opt_map(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    opt(cx, receiver(target), args, "optMap", |cx, mapped| cx.call("optional.of", vec![mapped]))
}

fn opt_flat_map(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    opt(cx, receiver(target), args, "optFlatMap", |_, mapped| mapped)
}

fn opt(
    cx: &mut Expansion<'_>,
    target: Expr,
    mut args: Vec<Expr>,
    name: &str,
    wrap: fn(&mut Expansion<'_>, Expr) -> Expr,
) -> Result<Expr, MacroError> {
    let result = args.pop().expect("`find` checked the number of arguments");
    let Kind::Ident(variable) = &args[0].kind else {
        let message = format!("{name}() variable name must be a simple identifier");
        return Err(cx.error(&args[0], &message));
    };
    let copy = cx.copy(&target);
    let condition = cx.method("hasValue", target, Vec::new());
    let value = cx.method("value", copy, Vec::new());
    let mapped = cx.bind(variable.clone(), value, result);
    let some = wrap(cx, mapped);
    let none = cx.call("optional.none", Vec::new());
    Ok(cx.call("_?_:_", vec![condition, some, none]))
}

fn sort_by(
    cx: &mut Expansion<'_>,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    const INPUT: &str = "@__sortBy_input__";
    let target = receiver(target);
    if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(cx.error(&target, message));
    }
    let input = cx.ident(INPUT);
    let keys = map(cx, Some(input), args)?;
    let input = cx.ident(INPUT);
    let sorted = cx.method("@sortByAssociatedKeys", input, vec![keys]);
    Ok(cx.bind(INPUT.to_owned(), target, sorted))
}

fn extreme(
    cx: &mut Expansion<'_>,
    args: Vec<Expr>,
    name: &str,
    function: &str,
) -> Result<Expr, MacroError> {
    if args.is_empty() {
        return Err(MacroError(cx.offset, format!("math.{name}() requires at least one argument")));
    }
    for arg in &args {
        let is_not_numeric = matches!(
            &arg.kind,
            Kind::Literal(
                Literal::Null | Literal::Bool(_) | Literal::String(_) | Literal::Bytes(_)
            ) | Kind::Map(_)
                | Kind::Struct { .. }
        );
        if is_not_numeric {
            let message = if args.len() == 1 {
                format!("math.{name}() invalid single argument value")
            } else {
                format!("math.{name}() simple literal arguments must be numeric")
            };
            return Err(cx.error(arg, &message));
        }
    }
    if args.len() <= 2 {
        return Ok(cx.call(function, args));
    }
    let list = cx.list(args);
    Ok(cx.call(function, vec![list]))
}
