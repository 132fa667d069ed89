//! Builds the plan from the checked tree.

use super::{
    ACCUMULATOR, Arc, Attribute, Base, Branch, Call, Checked, Comprehension, Entries, Env, Expr,
    Key, Kind, List, Map, Node, Overload, Plan, Qualifier, Reference, Run, Value, constant,
    regexes,
};
use crate::go_regexp;
use crate::library::is_conversion;

/// Builds the plan of a checked tree; fails if the evaluation of a constant part fails.
pub(crate) fn build(checked: &Checked, env: &Env) -> Result<Plan, String> {
    let mut builder =
        Builder { checked, env, locals: Vec::new(), variables: Vec::new(), memory: 0 };
    let root = builder.node(&checked.expr)?;
    Ok(Plan { root, variables: builder.variables, memory: builder.memory })
}

struct Builder<'c> {
    checked: &'c Checked,
    env: &'c Env,
    /// The names by their position on the evaluator's stack, and whether each is an accumulator.
    locals: Vec<(String, bool)>,
    variables: Vec<(String, Arc<crate::env::Variable>)>,
    memory: usize,
}

/// The approximate memory of a node in bytes.
const NODE_MEMORY: usize = 160;

type PlanResult = Result<Node, String>;

impl Builder<'_> {
    fn node(&mut self, expr: &Expr) -> PlanResult {
        self.memory += NODE_MEMORY;
        match &self.checked.references[expr.id] {
            Reference::Variable(name) => return Ok(self.variable(name)),
            Reference::Type(name) => return Ok(Node::Constant(Value::Type(name.as_str().into()))),
            Reference::Call { .. } | Reference::None => {}
        }
        match &expr.kind {
            Kind::Literal(literal) => Ok(Node::Constant(constant(literal))),
            Kind::Select { operand, field, test } => {
                let operand = self.node(operand)?;
                let key = Key::Constant(Value::string(field.as_str()));
                Ok(qualified(operand, Qualifier { key, optional: false, test: *test }))
            }
            Kind::Call { function, target, args } => {
                self.call(expr, function, target.as_deref(), args)
            }
            Kind::List(items) => {
                let mut planned = Vec::with_capacity(items.len());
                for item in items {
                    planned.push((self.node(&item.value)?, item.optional));
                }
                Ok(constant_list(planned))
            }
            Kind::Map(entries) => {
                let mut planned = Vec::with_capacity(entries.len());
                for entry in entries {
                    planned.push((
                        self.node(&entry.key)?,
                        self.node(&entry.value)?,
                        entry.optional,
                    ));
                }
                Ok(constant_map(planned))
            }
            Kind::Struct { name, fields } => {
                let mut planned = Vec::with_capacity(fields.len());
                for field in fields {
                    planned.push((field.name.clone(), self.node(&field.value)?, field.optional));
                }
                Ok(Node::Struct { name: name.as_str().into(), fields: planned })
            }
            Kind::Comprehension(comprehension) => self.comprehension(comprehension),
            Kind::Ident(_) | Kind::Invalid => Err("unresolved expression".to_owned()),
        }
    }

    fn variable(&mut self, name: &str) -> Node {
        let local = self.locals.iter().rposition(|(own, _)| own == name);
        let base = match local {
            Some(slot) if self.locals[slot].1 => Base::Accumulator(slot),
            Some(slot) => Base::Local(slot),
            None => {
                if let Some(variable) = self.env.declared(name)
                    && !self.variables.iter().any(|(own, _)| own == name)
                {
                    self.variables.push((name.to_owned(), Arc::clone(variable)));
                }
                Base::Variable(name.to_owned())
            }
        };
        Node::Attribute(Box::new(Attribute { base, qualifiers: Vec::new() }))
    }

    fn comprehension(&mut self, comprehension: &crate::ast::Comprehension) -> PlanResult {
        let range = self.node(&comprehension.range)?;
        let init = self.node(&comprehension.init)?;
        let depth = self.locals.len();
        self.locals.push((comprehension.accumulator.clone(), true));
        self.locals.push((comprehension.variable.clone(), false));
        self.locals.extend(comprehension.second_variable.clone().map(|name| (name, false)));
        let condition = self.node(&comprehension.condition)?;
        let step = self.node(&comprehension.step)?;
        self.locals.truncate(depth + 1);
        let result = self.node(&comprehension.result)?;
        self.locals.truncate(depth);
        let has_two_variables = comprehension.second_variable.is_some();
        let planned = Comprehension { range, has_two_variables, init, condition, step, result };
        Ok(Node::Comprehension(Box::new(planned)))
    }

    fn call(
        &mut self,
        expr: &Expr,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> PlanResult {
        let checked = self.checked;
        let Reference::Call { function, namespaced, overloads } = &checked.references[expr.id]
        else {
            return Err(format!("no such overload: {function}"));
        };
        let mut planned = Vec::with_capacity(args.len() + 1);
        if let Some(target) = target
            && !namespaced
        {
            planned.push(self.node(target)?);
        }
        for arg in args {
            planned.push(self.node(arg)?);
        }
        if matches!(function.as_str(), "_&&_" | "_||_") {
            let and = function == "_&&_";
            return Ok(if and { Node::All(planned) } else { Node::Any(planned) });
        }
        let planned = plan_operator(function, overloads, planned)
            .or_else(|planned| plan_function(function, overloads, planned, args))?;
        if let Node::Call(call) = &planned
            && call.regex.is_some()
            && let Some(Node::Constant(Value::String(pattern))) = call.args.get(1)
        {
            self.memory += go_regexp::memory(pattern).unwrap_or_default();
        }
        Ok(planned)
    }
}

/// A call of a function of a library. Conversions of constants, and constant patterns, are computed
/// here.
fn plan_function(
    function: &str,
    overloads: &[Arc<Overload>],
    mut args: Vec<Node>,
    exprs: &[Expr],
) -> PlanResult {
    if let [Node::Constant(value)] = args.as_mut_slice()
        && is_conversion(function)
    {
        let overload = overloads.iter().find(|it| it.accepts(std::slice::from_ref(value)));
        if let Some(Run::Plain(run)) = overload.map(|overload| overload.run) {
            let converted = run(std::slice::from_mut(value));
            return converted.map(Node::Constant).map_err(|error| error.to_string());
        }
    }
    let regex = match (overloads, args.get(1)) {
        ([only], Some(Node::Constant(Value::String(pattern))))
            if matches!(only.run, Run::Regex(_)) =>
        {
            Some(regexes::compile(pattern)?)
        }
        _ => None,
    };
    let accumulator = |expr: &Expr| matches!(&expr.kind, Kind::Ident(it) if it == ACCUMULATOR);
    let consumes_accumulator =
        matches!(function, "_+_" | "cel.@mapInsert") && exprs.first().is_some_and(accumulator);
    let (function, overloads) = (function.to_owned(), overloads.to_vec());
    Ok(Node::Call(Box::new(Call { function, overloads, args, regex, consumes_accumulator })))
}

/// Plans an operator that has its own node; returns the arguments of other calls.
fn plan_operator(
    function: &str,
    overloads: &[Arc<Overload>],
    args: Vec<Node>,
) -> Result<Node, Vec<Node>> {
    let count = args.len();
    let mut args = args.into_iter();
    let mut next = || args.next().unwrap_or(Node::Constant(Value::Null));
    let id = match overloads {
        [only] => only.id.as_str(),
        _ => "",
    };
    Ok(match (function, count) {
        ("@not_strictly_false", 1) => Node::NotStrictlyFalse(Box::new(next())),
        ("_==_" | "_!=_", 2) => {
            Node::Equal { operands: Box::new((next(), next())), is_negated: function == "_!=_" }
        }
        ("or" | "orValue", 2) if id.starts_with("optional_or") || id.is_empty() => {
            let operands = Box::new((next(), next()));
            Node::OptionalOr { operands, unwraps: function == "orValue" }
        }
        ("_?_:_", 3) => {
            let parts = (next(), branch(next()), branch(next()));
            let base = Base::Conditional(Box::new(parts));
            Node::Attribute(Box::new(Attribute { base, qualifiers: Vec::new() }))
        }
        ("_[_]" | "_[?_]" | "_?._", 2) => {
            let operand = next();
            let key = match next() {
                Node::Constant(value) => Key::Constant(value),
                node @ Node::Attribute(_) => Key::Attribute(branch(node)),
                node => Key::Computed(node),
            };
            qualified(operand, Qualifier { key, optional: function != "_[_]", test: false })
        }
        ("@in", 2) if id == "in_list" => {
            let value = next();
            match next() {
                Node::Constant(Value::List(list)) if list.len() == 0 => {
                    Node::Constant(Value::Bool(false))
                }
                Node::Constant(Value::List(list)) if hashable(&list) => {
                    Node::InConstants(Box::new(value), list.values().unwrap_or_default())
                }
                list => return Err(vec![value, list]),
            }
        }
        _ => return Err(args.collect()),
    })
}

/// Whether cel-go tests membership in the list with a hash table, which costs nothing.
fn hashable(list: &List<'static>) -> bool {
    list.iter().all(|value| {
        matches!(
            value,
            Ok(Value::Bool(_)
                | Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::Null)
        )
    })
}

fn branch(node: Node) -> Branch {
    match node {
        Node::Attribute(attribute) => Branch::Attribute(*attribute),
        node => Branch::Computed(node),
    }
}

fn qualified(operand: Node, qualifier: Qualifier) -> Node {
    let mut attribute = match operand {
        // A presence test is the last qualifier of an attribute: its result is a bool.
        Node::Attribute(attribute) if !attribute.qualifiers.iter().any(|it| it.test) => *attribute,
        operand => Attribute { base: Base::Computed(operand), qualifiers: Vec::new() },
    };
    attribute.qualifiers.push(qualifier);
    Node::Attribute(Box::new(attribute))
}

fn constant_list(items: Vec<(Node, bool)>) -> Node {
    let constant = |(node, optional): &(Node, bool)| match node {
        Node::Constant(value) if !optional => Some(value.clone()),
        _ => None,
    };
    match items.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => Node::Constant(Value::list(values)),
        None => Node::List(items),
    }
}

fn constant_map(items: Vec<(Node, Node, bool)>) -> Node {
    let mut entries = Entries::default();
    for item in &items {
        let (Node::Constant(key), Node::Constant(value), false) = item else {
            return Node::Map(items);
        };
        if entries.insert(key.clone(), value.clone()).is_err() {
            return Node::Map(items);
        }
    }
    Node::Constant(Value::Map(Map::Values(Arc::new(entries))))
}
