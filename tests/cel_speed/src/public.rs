//! The public crate `cel`, with all of its extensions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use cel::{Context, Env, Program, Value, extensions, to_value};

use crate::{Case, Site, quickest};

/// How rules are compiled and evaluated.
pub struct Public {
    env: Arc<Env>,
}

/// What became of the rules that some example needs.
#[derive(Default)]
pub struct Verdicts {
    all: BTreeSet<String>,
    not_compiled: BTreeSet<String>,
    failed: BTreeSet<String>,
    otherwise: BTreeSet<String>,
}

impl Public {
    pub fn new() -> Self {
        let mut env = Env::stdlib();
        for extension in [extensions::strings, extensions::lists, extensions::math] {
            env.add_extension(extension).expect("the extensions get on with each other");
        }
        Self { env: Arc::new(env) }
    }

    /// Whether it takes a rule.
    pub fn compiles(&self, rule: &str) -> bool {
        self.env.compile(rule).is_ok()
    }

    fn context(&self, value: &machinery::Value) -> Context<'_, '_> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        let value = to_value(value).expect("JSON can be converted");
        context.add_variable("self", value).expect("a value is one");
        context
    }

    /// Microseconds for one round with the conversion of values, and without it.
    pub fn measure(&self, cases: &[Case]) -> (f64, f64) {
        let sites: Vec<Site> = cases.iter().flat_map(Case::sites).collect();
        let mut programs = BTreeMap::new();
        for site in &sites {
            programs
                .entry(site.rule.as_str())
                .or_insert_with(|| self.env.compile(&site.rule).expect("it did before"));
        }
        let sites: Vec<(&Program, &machinery::Value, Context)> = sites
            .iter()
            .map(|it| (&programs[it.rule.as_str()], &it.value, self.context(&it.value)))
            .collect();
        let converting = quickest(|| {
            for (program, value, _) in &sites {
                assert_eq!(holds(program, &self.context(value)), Some(true));
            }
        });
        let evaluating = quickest(|| {
            for (program, _, context) in &sites {
                assert_eq!(holds(program, context), Some(true));
            }
        });
        (converting, evaluating)
    }
}

impl Verdicts {
    /// Tries the rules, all of which hold, on their values.
    pub fn judge(&mut self, public: &Public, sites: &[Site]) {
        for site in sites {
            let rule = site.rule.clone();
            self.all.insert(rule.clone());
            let Ok(program) = public.env.compile(&rule) else {
                self.not_compiled.insert(rule);
                continue;
            };
            match holds(&program, &public.context(&site.value)) {
                Some(true) => {}
                Some(false) => _ = self.otherwise.insert(rule),
                None => _ = self.failed.insert(rule),
            }
        }
    }

    /// The rules that the public crate can compile, and that it evaluates to true on all objects.
    pub fn good(&self) -> BTreeSet<String> {
        let bad = [&self.not_compiled, &self.failed, &self.otherwise];
        let is_good = |it: &&String| !bad.iter().any(|set| set.contains(*it));
        self.all.iter().filter(is_good).cloned().collect()
    }
}

/// What a rule says; None if it fails.
fn holds(program: &Program, context: &Context) -> Option<bool> {
    match program.execute(context) {
        Ok(Value::Bool(holds)) => Some(holds),
        _ => None,
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} different ones are about a value in an example; it fails in evaluating {}, answers \
             otherwise in {}; {} are compared",
            self.all.len(),
            self.failed.len(),
            self.otherwise.len(),
            self.good().len(),
        )
    }
}
