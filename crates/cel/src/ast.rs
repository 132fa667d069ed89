//! The syntax tree: what the parser makes, macros already expanded.

use std::sync::Arc;

/// Names a node; the tables of offsets, types and references are indexed by it.
pub(crate) type Id = usize;

/// The hidden variable in which a comprehension gathers its result. No source can spell it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The loop variable of a comprehension that only binds a name.
pub(crate) const UNUSED: &str = "#unused";

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`; with `test` it is `has(operand.field)`.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    /// A function, a method or an operator; `_&&_` and `_||_` have any number of arguments.
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List(Vec<Item>),
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<Field>,
    },
    Fold(Box<Fold>),
    /// A placeholder where an error was reported.
    Invalid,
}

/// A value written in the source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

/// An element of a list; an optional one (`[?x]`) is omitted if it has no value.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// An entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A field of a message.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// A comprehension: `accumulator = init; for variable in range { if !condition break; accumulator
/// = step }; result`.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    /// With two, the first is the index or key and the second the element or value.
    pub(crate) second: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Fold {
    /// Whether this only gives a value a name (`cel.bind`, `optMap`).
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, Kind::List(items) if items.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Literal::Bool(false)))
            && self.accumulator != ACCUMULATOR
    }
}

impl Expr {
    /// `a.b.c` if the node is nothing but names.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }

    /// Calls `visit` with every node right below this one.
    pub(crate) fn for_each_child<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) | Kind::Invalid => {}
            Kind::Select { operand, .. } => visit(operand),
            Kind::Call { target, args, .. } => {
                if let Some(target) = target {
                    visit(target);
                }
                args.iter().for_each(visit);
            }
            Kind::List(items) => items.iter().for_each(|item| visit(&item.value)),
            Kind::Map(entries) => {
                for entry in entries {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| visit(&field.value)),
            Kind::Fold(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    visit(part);
                }
            }
        }
    }
}
