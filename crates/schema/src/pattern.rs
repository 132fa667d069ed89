//! [`Pattern`]: the keyword `pattern`, a regular expression that strings must match.
//!
//! It is compiled at its first use: most CRDs of a server have few objects or none. Nodes with
//! equal patterns share one compiled pattern, and so do schemas that are compiled with the same
//! [`PatternPool`]. The memory of the patterns of a CRD is checked when the CRD is stored.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::structural::Node;
use cel::go_regexp::{self, Matcher};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Pattern {
    /// The expression.
    pub(crate) source: Box<str>,
    compiled: OnceLock<Option<Matcher>>,
    /// The memory of the compiled pattern, measured on demand.
    memory: OnceLock<usize>,
}

impl Pattern {
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new(), memory: OnceLock::new() }
    }

    /// None for an expression that does not compile.
    pub(crate) fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| go_regexp::compile(&self.source).ok());
        compiled.as_ref().map(|it| it.is_match(text))
    }

    /// The approximate memory in bytes of the compiled pattern, whether it is compiled yet or not.
    pub(crate) fn memory(&self) -> usize {
        *self.memory.get_or_init(|| go_regexp::memory(&self.source).unwrap_or_default())
    }
}

/// The patterns of schemas by their text, as long as a schema uses them.
///
/// Many CRDs repeat the patterns of well-known types, such as those of quantities and label
/// keys. Schemas that are compiled with one pool share them.
#[derive(Debug, Default)]
pub struct PatternPool(Mutex<HashMap<Box<str>, Weak<Pattern>>>);

impl PatternPool {
    /// Replaces the pattern of each node by the equal one of the pool. Returns the patterns of the
    /// schema without repetition.
    pub(crate) fn intern(&self, root: &mut Node) -> Box<[Arc<Pattern>]> {
        let mut own: HashMap<Box<str>, Arc<Pattern>> = HashMap::new();
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pool.retain(|_, pattern| pattern.strong_count() > 0);
        root.each_pattern(&mut |pattern| {
            let shared = own.entry(pattern.source.clone()).or_insert_with(|| {
                let pooled = pool.get(&pattern.source).and_then(Weak::upgrade);
                pooled.unwrap_or_else(|| {
                    pool.insert(pattern.source.clone(), Arc::downgrade(pattern));
                    Arc::clone(pattern)
                })
            });
            *pattern = Arc::clone(shared);
        });
        own.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SchemaMemory, Structural};
    use machinery::{Map, Value, json};

    fn schema(patterns: &[&str], pool: &PatternPool) -> Structural {
        let properties: Map<String, Value> = patterns
            .iter()
            .enumerate()
            .map(|(n, it)| (format!("p{n}"), json!({"type": "string", "pattern": it})))
            .collect();
        Structural::compile_with(&json!({"type": "object", "properties": properties}), pool)
    }

    fn memory(schemas: &[&Structural]) -> usize {
        let mut memory = SchemaMemory::default();
        for schema in schemas {
            memory.add(schema);
        }
        memory.bytes()
    }

    #[test]
    fn equal_patterns_are_counted_once() {
        let of = |patterns: &[&str]| memory(&[&schema(patterns, &PatternPool::default())]);
        let one = of(&["^[a-z]+$"]);
        assert!(one > 0);
        assert_eq!(of(&["^[a-z]+$", "^[a-z]+$"]), one);
        assert_eq!(of(&["^[a-z]+$", "^[0-9]+$"]), 2 * one);
    }

    #[test]
    fn schemas_share_the_patterns_of_their_pool_as_long_as_one_of_them_exists() {
        let pool = PatternPool::default();
        let first = schema(&["^[a-z]+$"], &pool);
        let second = schema(&["^[a-z]+$", "^[0-9]+$"], &pool);
        let shares = |one: &Structural, other: &Structural| {
            one.patterns.iter().any(|it| other.patterns.iter().any(|other| Arc::ptr_eq(it, other)))
        };
        assert!(shares(&first, &second));
        assert!(!shares(&first, &schema(&["^[a-z]+$"], &PatternPool::default())));
        assert_eq!(memory(&[&first, &second]), memory(&[&second]));
        drop((first, second));
        schema(&[], &pool);
        assert!(pool.0.lock().unwrap().is_empty());
    }
}
