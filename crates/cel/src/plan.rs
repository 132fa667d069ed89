//! [`Plan`]: a checked tree in the shape in which it runs: names resolved, overloads chosen,
//! constants computed.

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

/// A program's instructions, and the variables they may use.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) root: Node,
    pub(crate) variables: Vec<(String, Arc<Variable>)>,
    /// What it takes up, in bytes or so.
    pub(crate) memory: usize,
}

/// An instruction.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value<'static>),
    Attribute(Box<Attribute>),
    All(Vec<Node>),
    Any(Vec<Node>),
    NotStrictlyFalse(Box<Node>),
    /// `==` if the flag is set, else `!=`.
    Equal(Box<(Node, Node)>, bool),
    /// `x in [constants]`, which costs nothing.
    InConstants(Box<Node>, Vec<Value<'static>>),
    /// `or`, or with the flag `orValue`.
    OptionalOr(Box<(Node, Node)>, bool),
    Call(Box<Call>),
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Struct {
        name: Arc<str>,
        fields: Vec<(String, Node, bool)>,
    },
    Fold(Box<Fold>),
}

/// A function with its arguments, the receiver first.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: String,
    /// Those that the checker found possible.
    pub(crate) overloads: Vec<Arc<Overload>>,
    pub(crate) args: Vec<Node>,
    /// The pattern, if it is a constant.
    pub(crate) regex: Option<Matcher>,
    /// Whether the first argument may be consumed: `@result + [x]`.
    pub(crate) grows: bool,
}

impl Call {
    /// The overload, if the checker left no doubt about it.
    pub(crate) fn overload(&self) -> &str {
        match self.overloads.as_slice() {
            [only] => &only.id,
            _ => "",
        }
    }
}

/// A value and the way down from it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
}

/// Where a way begins.
#[derive(Debug)]
pub(crate) enum Base {
    /// A variable of the environment.
    Variable(String),
    /// The accumulator of a comprehension, by its place on the stack.
    Accumulator(usize),
    /// A loop variable.
    Local(usize),
    /// The result of something else.
    Computed(Node),
    Conditional(Box<(Node, Branch, Branch)>),
}

/// A branch of `?:`, or an index: names in them are counted differently.
#[derive(Debug)]
pub(crate) enum Branch {
    Attribute(Attribute),
    Computed(Node),
}

/// One step down.
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
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) two: bool,
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
