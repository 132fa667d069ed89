//! Evaluates names, fields and indices: `self.spec.containers[0].?image`.

use super::{
    Attribute, Base, EvalError, EvalResult, Evaluator, Key, List, Local, Node, Qualifier, Value,
};
use crate::plan::Branch;

/// The value of a field or index, or None if it does not exist.
type LookupResult<'a> = Result<Option<Value<'a>>, EvalError>;

impl<'a> Evaluator<'a, '_> {
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> EvalResult<'a> {
        let base = self.base(&attribute.base);
        let tests = attribute.qualifiers.iter().any(|qualifier| qualifier.test);
        // A conditional and a presence test have no cost of their own for the base.
        if !tests && !matches!(attribute.base, Base::Conditional(_)) {
            self.charge(1)?;
        }
        let mut value = base?;
        let mut optional = false;
        for qualifier in &attribute.qualifiers {
            let outcome = self.qualify(value, qualifier, &mut optional)?;
            value = match outcome {
                Some(value) => value,
                None => return Ok(Value::Optional(None)),
            };
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    fn base(&mut self, base: &'a Base) -> EvalResult<'a> {
        match base {
            Base::Variable(name) => match self.bindings.get(self.plan, name) {
                Some(value) => value,
                None => Err(format!("no such attribute(s): {name}").into()),
            },
            Base::Accumulator(slot) => self.accumulator(*slot),
            Base::Local(slot) => match &self.locals[*slot] {
                Local::Ready(outcome) => outcome.clone(),
                Local::Lazy(_) | Local::Taken => Err(EvalError::no_such_overload()),
            },
            Base::Computed(node) => self.eval(node),
            Base::Conditional(parts) => {
                let (condition, yes, no) = &**parts;
                match self.eval(condition)? {
                    Value::Bool(true) => self.branch(yes),
                    Value::Bool(false) => self.branch(no),
                    _ => Err(EvalError::no_such_overload()),
                }
            }
        }
    }

    /// Evaluates a branch. If it is an attribute, cel-go does not count the cost of its name, so
    /// one is subtracted afterwards; meanwhile the limit is one higher.
    fn branch(&mut self, branch: &'a Branch) -> EvalResult<'a> {
        match branch {
            Branch::Attribute(attribute) => {
                let spent = self.spent;
                let limit = self.limit;
                self.limit = limit.saturating_add(1);
                let outcome = self.attribute(attribute);
                self.limit = limit;
                let free = u64::from(!matches!(attribute.base, Base::Conditional(_)));
                self.spent = self.spent.saturating_sub(free).max(spent);
                outcome
            }
            Branch::Computed(node) => self.eval(node),
        }
    }

    /// The value of the accumulator, computed at the first use.
    fn accumulator(&mut self, slot: usize) -> EvalResult<'a> {
        if let Local::Lazy(init) = self.locals[slot] {
            let value = self.initial(slot, init);
            self.locals[slot] = Local::Ready(value);
        }
        match &self.locals[slot] {
            Local::Ready(outcome) => outcome.clone(),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Evaluates the initial value of an accumulator. It was planned before the accumulator was on
    /// the stack, so the stack is cut off below the accumulator meanwhile.
    fn initial(&mut self, slot: usize, init: &'a Node) -> EvalResult<'a> {
        let above = self.locals.split_off(slot);
        let value = self.eval(init);
        self.locals.extend(above);
        value
    }

    /// Moves the value out of the accumulator.
    pub(super) fn take_accumulator(&mut self, slot: usize) -> EvalResult<'a> {
        if let Local::Lazy(init) = self.locals[slot] {
            return self.initial(slot, init);
        }
        match std::mem::replace(&mut self.locals[slot], Local::Taken) {
            Local::Ready(outcome) => outcome,
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Applies one qualifier. After an optional, all further qualifiers are optional; None means
    /// that the result is `optional.none()`.
    fn qualify(
        &mut self,
        value: Value<'a>,
        qualifier: &'a Qualifier,
        optional: &mut bool,
    ) -> LookupResult<'a> {
        let value = match value {
            Value::Optional(None) if qualifier.test => return Ok(Some(Value::Bool(false))),
            Value::Optional(None) => return Ok(None),
            Value::Optional(Some(inner)) => {
                *optional |= !qualifier.test;
                (*inner).clone()
            }
            value => value,
        };
        let key = match &qualifier.key {
            Key::Constant(key) => key.clone(),
            Key::Computed(node) => self.eval(node)?,
            Key::Attribute(branch) => self.branch(branch)?,
        };
        let found = look_up(&value, &key)?;
        if qualifier.test {
            self.charge(1)?;
            return Ok(Some(Value::Bool(found.is_some())));
        }
        *optional |= qualifier.optional;
        if found.is_none() && (qualifier.optional || *optional) {
            return Ok(None);
        }
        self.charge(1)?;
        found.map_or_else(|| Err(absent(&value, &key)), |found| Ok(Some(found)))
    }
}

fn look_up<'a>(value: &Value<'a>, key: &Value<'a>) -> LookupResult<'a> {
    match value {
        Value::Map(map) => map.get(key).transpose(),
        Value::List(list) => {
            let index = match key {
                Value::Int(index) => usize::try_from(*index).ok(),
                Value::Uint(index) => usize::try_from(*index).ok(),
                Value::Double(index) if index.fract() == 0.0 => {
                    crate::value::numbers::double_to_uint(*index)
                        .and_then(|index| usize::try_from(index).ok())
                }
                _ => {
                    return Err(
                        format!("unsupported index type '{}' in list", key.type_name()).into()
                    );
                }
            };
            index.and_then(|index| list.get(index)).transpose()
        }
        Value::Fields(fields) => match key.as_str() {
            Some(name) => fields.get(name).transpose(),
            None => Err(EvalError::no_such_overload()),
        },
        Value::Struct(made) => {
            let found = key.as_str().and_then(|name| made.fields.get(name));
            Ok(found.cloned())
        }
        // As cel-go, a value without fields does not have this one.
        _ => Ok(None),
    }
}

fn absent(value: &Value<'_>, key: &Value<'_>) -> EvalError {
    match value {
        Value::List(List::Values(values)) => {
            format!("index '{key}' out of range in list size '{}'", values.len()).into()
        }
        Value::List(_) => format!("index out of bounds: {key}").into(),
        _ => format!("no such key: {key}").into(),
    }
}
