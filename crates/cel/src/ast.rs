//! The syntax tree that the parser creates, with macros expanded.

use std::sync::Arc;

/// Identifies a node: the index into the tables of offsets, types and references.
pub(crate) type Id = usize;

/// The hidden variable in which a comprehension accumulates its result. An expression cannot name
/// it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The iteration variable of a comprehension that only binds a name, see
/// [`Comprehension::is_bind`].
pub(crate) const UNUSED: &str = "#unused";

/// A node.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) id: Id,
    pub(crate) kind: Kind,
}

/// The kind of a node.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    Ident(String),
    /// `operand.field`, or `has(operand.field)` if `test` is set.
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
    Comprehension(Box<Comprehension>),
    /// A placeholder where an error was reported.
    Invalid,
}

/// A constant in the source.
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

/// A field of a message literal.
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
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: String,
    /// If there is a second variable, it is the element or value and the first is the index or key.
    pub(crate) second_variable: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Comprehension {
    /// Whether this only binds a value to a name (`cel.bind`, `optMap`).
    pub(crate) fn is_bind(&self) -> bool {
        matches!(&self.range.kind, Kind::List(items) if items.is_empty())
            && matches!(self.condition.kind, Kind::Literal(Literal::Bool(false)))
            && self.accumulator != ACCUMULATOR
    }
}

impl Expr {
    /// `a.b.c` if the node consists only of names.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => {
                Some(format!("{}.{field}", operand.qualified_name()?))
            }
            _ => None,
        }
    }

    /// Whether this node or one below it is `operand.field` or `operand.?field`.
    pub(crate) fn selects(&self, operand: &str, field: &str) -> bool {
        let is_operand = |it: &Expr| matches!(&it.kind, Kind::Ident(name) if name == operand);
        let is_selection = match &self.kind {
            Kind::Select { operand, field: selected, .. } => {
                is_operand(operand) && selected == field
            }
            Kind::Call { function, target: None, args } if function == "_?._" => {
                let [from, selected] = args.as_slice() else { return false };
                let is_field =
                    matches!(&selected.kind, Kind::Literal(Literal::String(it)) if **it == *field);
                is_operand(from) && is_field
            }
            _ => false,
        };
        if is_selection {
            return true;
        }
        let mut found = false;
        self.for_each_child(&mut |child| found = found || child.selects(operand, field));
        found
    }

    /// Calls `visit` with every child of this node.
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
            Kind::Comprehension(comprehension) => {
                for part in [
                    &comprehension.range,
                    &comprehension.init,
                    &comprehension.condition,
                    &comprehension.step,
                    &comprehension.result,
                ] {
                    visit(part);
                }
            }
        }
    }
}
