//! Comprehensions: iterate over a list or map and accumulate a result.

use super::{Comprehension, EvalError, EvalResult, Evaluator, Local, Value, type_errors};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn comprehension(&mut self, comprehension: &'a Comprehension) -> EvalResult<'a> {
        let range = self.eval(&comprehension.range)?;
        let depth = self.locals.len();
        self.locals.push(Local::Lazy(&comprehension.init));
        let outcome = self.iterate(comprehension, &range, depth);
        self.locals.truncate(depth);
        outcome
    }

    fn iterate(
        &mut self,
        comprehension: &'a Comprehension,
        range: &Value<'a>,
        accumulator: usize,
    ) -> EvalResult<'a> {
        match range {
            Value::List(list) => {
                for (index, element) in list.iter().enumerate() {
                    let index = Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
                    let variables = if comprehension.has_two_variables {
                        (index, Some(element))
                    } else {
                        (element, None)
                    };
                    if !self.iteration(comprehension, variables, accumulator)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = if comprehension.has_two_variables { map.get(&key) } else { None };
                    if !self.iteration(comprehension, (Ok(key), value), accumulator)? {
                        break;
                    }
                }
            }
            other => return Err(type_errors::not_iterable(other)),
        }
        self.eval(&comprehension.result)
    }

    /// One iteration. Returns whether the condition allows another.
    fn iteration(
        &mut self,
        comprehension: &'a Comprehension,
        (first, second): (EvalResult<'a>, Option<EvalResult<'a>>),
        accumulator: usize,
    ) -> Result<bool, EvalError> {
        self.locals.push(Local::Ready(first));
        self.locals.extend(second.map(Local::Ready));
        let continues = match self.eval(&comprehension.condition) {
            Err(EvalError::Cost) => return Err(EvalError::Cost),
            Ok(Value::Bool(value)) => value,
            _ => true,
        };
        if continues {
            // A failure becomes the accumulator's value: a later element may still decide the
            // result.
            let outcome = match self.eval(&comprehension.step) {
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                outcome => outcome,
            };
            self.locals[accumulator] = Local::Ready(outcome);
        }
        self.locals.truncate(accumulator + 1);
        Ok(continues)
    }
}
