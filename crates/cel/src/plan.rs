//! [`Plan`]: a tree for evaluation, with resolved names, chosen overloads and computed constants.

use std::sync::Arc;

use crate::ast::{ACCUMULATOR, Expr, Kind, Literal};
use crate::checker::{Checked, Reference};
use crate::env::{Env, Variable};
use crate::go_regexp::Matcher;
use crate::library::{Overload, Run, regexes};
use crate::value::map::Entries;
use crate::value::{List, Map, Text, Value};

mod builder;

pub(crate) use builder::build;

/// A tree for evaluation, and the variables that it uses.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) variables: Vec<(String, Arc<Variable>)>,
    /// The approximate memory in bytes.
    pub(crate) memory: usize,
}

/// A node of the plan.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value<'static>),
    Attribute(Box<Attribute>),
    /// `&&`
    All(Vec<Node>),
    /// `||`
    Any(Vec<Node>),
    NotStrictlyFalse(Box<Node>),
    /// `==`, or `!=` if it is negated.
    Equal {
        operands: Box<(Node, Node)>,
        is_negated: bool,
    },
    /// `x in [constants]`, which costs nothing.
    InConstants(Box<Node>, Vec<Value<'static>>),
    /// `or`, or `orValue` if it unwraps the first operand.
    OptionalOr {
        operands: Box<(Node, Node)>,
        unwraps: bool,
    },
    Call(Box<Call>),
    /// The elements, and whether each is optional (`[?x]`).
    List(Vec<(Node, bool)>),
    /// The keys, the values, and whether each entry is optional (`{?k: x}`).
    Map(Vec<(Node, Node, bool)>),
    Struct {
        name: Arc<str>,
        /// The names, the values, and whether each field is optional (`T{?f: x}`).
        fields: Vec<(String, Node, bool)>,
    },
    Comprehension(Box<Comprehension>),
}

/// A function with its arguments, the receiver first.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    /// The overloads that the checker found possible.
    pub(crate) overloads: Vec<Arc<Overload>>,
    pub(crate) args: Vec<Node>,
    /// The pattern, if it is a constant.
    pub(crate) regex: Option<Matcher>,
    /// Whether the first argument is an accumulator that may be consumed: `@result + [x]`.
    pub(crate) consumes_accumulator: bool,
}

impl Call {
    /// The id of the overload if there is only one, else "".
    pub(crate) fn overload(&self) -> &str {
        match self.overloads.as_slice() {
            [only] => &only.id,
            _ => "",
        }
    }
}

/// A value and the qualifiers that are applied to it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

/// The start of an attribute.
#[derive(Debug)]
pub(crate) enum Base {
    /// A variable of the environment.
    Variable(String),
    /// The accumulator of a comprehension, by its position on the stack.
    Accumulator(usize),
    /// An iteration variable, by its position on the stack.
    Local(usize),
    /// The result of another node.
    Computed(Node),
    Conditional(Box<(Node, Branch, Branch)>),
}

/// A branch of `?:`, or an index. In these, cel-go does not count the cost of a name.
#[derive(Debug)]
pub(crate) enum Branch {
    Attribute(Attribute),
    Computed(Node),
}

/// A field access, an index, or a presence test.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: Key,
    /// `.?` or `[?]`.
    pub(crate) optional: bool,
    /// `has(…)`.
    pub(crate) test: bool,
}

/// A field name or an index.
#[derive(Debug)]
pub(crate) enum Key {
    Constant(Value<'static>),
    Attribute(Branch),
    Computed(Node),
}

/// A comprehension.
#[derive(Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Node,
    pub(crate) has_two_variables: bool,
    pub(crate) init: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::String(Text::Shared(Arc::clone(text))),
        Literal::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
    }
}
