//! [`Pattern`]: `pattern`, a regular expression that texts must match.
//!
//! It is compiled when it is first asked: most definitions that a server holds see few objects or
//! none. Nodes with the same pattern share one. How much memory the patterns of a definition may
//! take up is judged when the definition is stored.

use crate::structural::Node;
use cel::go_regexp;
use regex::Regex;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Pattern {
    /// As its author wrote it.
    pub(crate) source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new() }
    }

    /// None for an expression that does not compile.
    pub(crate) fn matches(&self, text: &str) -> Option<bool> {
        let regex = self.compiled.get_or_init(|| go_regexp::compile(&self.source).ok());
        regex.as_ref().map(|it| it.is_match(text))
    }
}

/// The patterns of one schema, each once.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    list: Box<[Arc<Pattern>]>,
    /// Measured when somebody asks.
    memory: OnceLock<usize>,
}

impl Patterns {
    /// Lets all nodes with the same pattern have the same one.
    pub(crate) fn shared_in(root: &mut Node) -> Self {
        let mut known: HashMap<Box<str>, Arc<Pattern>> = HashMap::new();
        root.each_pattern(&mut |pattern| {
            let first = known.entry(pattern.source.clone()).or_insert_with(|| Arc::clone(pattern));
            *pattern = Arc::clone(first);
        });
        Self { list: known.into_values().collect(), memory: OnceLock::new() }
    }

    /// What they take up once all of them are compiled, in bytes or so.
    pub(crate) fn memory(&self) -> usize {
        *self.memory.get_or_init(|| {
            let memories = self.list.iter().map(|it| go_regexp::memory(&it.source));
            memories.map(Result::unwrap_or_default).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::Structural;
    use machinery::json;

    #[test]
    fn the_same_pattern_takes_up_memory_once() {
        let memory = |patterns: &[&str]| {
            let properties: machinery::Map<String, machinery::Value> = patterns
                .iter()
                .enumerate()
                .map(|(n, it)| (format!("p{n}"), json!({"type": "string", "pattern": it})))
                .collect();
            Structural::compile(&json!({"type": "object", "properties": properties}))
                .pattern_memory()
        };
        let one = memory(&["^[a-z]+$"]);
        assert!(one > 0);
        assert_eq!(memory(&["^[a-z]+$", "^[a-z]+$"]), one);
        assert_eq!(memory(&["^[a-z]+$", "^[0-9]+$"]), 2 * one);
    }
}
