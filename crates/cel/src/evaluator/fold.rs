//! Comprehensions: a variable runs over a list or map while an accumulator gathers the result.

use super::{EvalError, EvalResult, Evaluator, Fold, Local, Value, type_errors};

impl<'a> Evaluator<'a, '_> {
    pub(super) fn fold(&mut self, fold: &'a Fold) -> EvalResult<'a> {
        let range = self.eval(&fold.range)?;
        let depth = self.locals.len();
        self.locals.push(Local::Lazy(&fold.init));
        let outcome = self.iterate(fold, &range, depth);
        self.locals.truncate(depth);
        outcome
    }

    fn iterate(&mut self, fold: &'a Fold, range: &Value<'a>, accumulator: usize) -> EvalResult<'a> {
        match range {
            Value::List(list) => {
                for (index, element) in list.iter().enumerate() {
                    let index = Ok(Value::Int(i64::try_from(index).unwrap_or(i64::MAX)));
                    let round = if fold.two { (index, Some(element)) } else { (element, None) };
                    if !self.round(fold, round, accumulator)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let value = if fold.two { map.get(&key) } else { None };
                    if !self.round(fold, (Ok(key), value), accumulator)? {
                        break;
                    }
                }
            }
            other => return Err(type_errors::not_iterable(other)),
        }
        self.eval(&fold.result)
    }

    /// One round; whether there may be another.
    fn round(
        &mut self,
        fold: &'a Fold,
        (first, second): (EvalResult<'a>, Option<EvalResult<'a>>),
        accumulator: usize,
    ) -> Result<bool, EvalError> {
        self.locals.push(Local::Ready(first));
        self.locals.extend(second.map(Local::Ready));
        let goes_on = match self.eval(&fold.condition) {
            Err(EvalError::Cost) => return Err(EvalError::Cost),
            Ok(Value::Bool(value)) => value,
            _ => true,
        };
        if goes_on {
            // A failed step is the accumulator's value: a later element may yet decide.
            let outcome = match self.eval(&fold.step) {
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                outcome => outcome,
            };
            self.locals[accumulator] = Local::Ready(outcome);
        }
        self.locals.truncate(accumulator + 1);
        Ok(goes_on)
    }
}
