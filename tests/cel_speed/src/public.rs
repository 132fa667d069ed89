//! The public crate `cel`, with all of its extensions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cel::{Context, Env, Program, Value, extensions, to_value};

use crate::{Case, Evaluation, fastest};

/// The environment in which the crate compiles and evaluates rules.
pub struct PublicCel {
    env: Arc<Env>,
}

/// The rules that apply to an example, and those that the crate does not compile or evaluate to true.
#[derive(Default)]
pub struct Results {
    all: BTreeSet<String>,
    not_compiled: BTreeSet<String>,
    failed: BTreeSet<String>,
    evaluated_to_false: BTreeSet<String>,
}

impl PublicCel {
    pub fn new() -> Self {
        let mut env = Env::stdlib();
        for extension in [extensions::strings, extensions::lists, extensions::math] {
            env.add_extension(extension).expect("the extensions do not conflict");
        }
        Self { env: Arc::new(env) }
    }

    /// Whether the crate compiles a rule.
    pub fn compiles(&self, rule: &str) -> bool {
        self.env.compile(rule).is_ok()
    }

    fn context(&self, value: &machinery::Value) -> Context<'_, '_> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let value = to_value(value).expect("JSON can be converted");
        context.add_variable("self", value).expect("a variable can have any value");
        context
    }

    /// The CPU time of one round with the conversion of values, and without it, in microseconds.
    pub fn measure(&self, cases: &[Case]) -> (f64, f64) {
        let evaluations: Vec<Evaluation> = cases.iter().flat_map(Case::evaluations).collect();
        let mut programs = BTreeMap::new();
        for evaluation in &evaluations {
            programs.entry(evaluation.rule.as_str()).or_insert_with(|| {
                self.env.compile(&evaluation.rule).expect("the rule was compiled before")
            });
        }
        let evaluations: Vec<(&Program, &machinery::Value, Context)> = evaluations
            .iter()
            .map(|it| (&programs[it.rule.as_str()], &it.value, self.context(&it.value)))
            .collect();
        let converting = fastest(|| {
            for (program, value, _) in &evaluations {
                assert_eq!(evaluate(program, &self.context(value)), Some(true));
            }
        });
        let evaluating = fastest(|| {
            for (program, _, context) in &evaluations {
                assert_eq!(evaluate(program, context), Some(true));
            }
        });
        (converting, evaluating)
    }
}

impl Results {
    /// Evaluates rules on values for which our CEL evaluates them to true.
    pub fn add(&mut self, public: &PublicCel, evaluations: &[Evaluation]) {
        for evaluation in evaluations {
            let rule = evaluation.rule.clone();
            self.all.insert(rule.clone());
            let Ok(program) = public.env.compile(&rule) else {
                self.not_compiled.insert(rule);
                continue;
            };
            match evaluate(&program, &public.context(&evaluation.value)) {
                Some(true) => {}
                Some(false) => _ = self.evaluated_to_false.insert(rule),
                None => _ = self.failed.insert(rule),
            }
        }
    }

    /// The rules that the public crate can compile, and that it evaluates to true on all objects.
    pub fn comparable(&self) -> BTreeSet<String> {
        let bad = [&self.not_compiled, &self.failed, &self.evaluated_to_false];
        let is_comparable = |it: &&String| !bad.iter().any(|set| set.contains(*it));
        self.all.iter().filter(is_comparable).cloned().collect()
    }
}

/// The result of a rule; None if its evaluation fails.
fn evaluate(program: &Program, context: &Context) -> Option<bool> {
    match program.execute(context) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} distinct rules apply to an example; the crate fails to evaluate {} and evaluates {} to \
             false; {} are compared",
            self.all.len(),
            self.failed.len(),
            self.evaluated_to_false.len(),
            self.comparable().len(),
        )
    }
}
