//! [`SchemaMemory`]: the memory of schemas when all their patterns and rules are compiled.

use std::collections::HashSet;

use crate::rules::Validator;
use crate::structural::Structural;

/// See the [module documentation](self). A pattern that several schemas share is counted once.
#[derive(Debug, Default)]
pub struct SchemaMemory<'a> {
    patterns: HashSet<&'a str>,
    bytes: usize,
}

impl<'a> SchemaMemory<'a> {
    /// Adds the patterns and rules of a schema. Those that were not measured before are compiled.
    pub fn add(&mut self, schema: &'a Structural) {
        for pattern in &schema.patterns {
            if self.patterns.insert(&pattern.source) {
                self.bytes = self.bytes.saturating_add(pattern.memory());
            }
        }
        self.bytes = self.bytes.saturating_add(schema.rule_memory());
    }

    /// The approximate sum in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Structural {
    /// The approximate memory in bytes of the compiled rules. If no object has needed the rules
    /// yet, they are compiled for the measurement and dropped.
    fn rule_memory(&self) -> usize {
        *self.rule_memory.get_or_init(|| match self.validator.get() {
            Some(validator) => validator.as_ref().map_or(0, Validator::memory),
            None => Validator::of(&self.root, true).as_ref().map_or(0, Validator::memory),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::{Value, json};

    fn memory(schema: &Structural) -> usize {
        let mut memory = SchemaMemory::default();
        memory.add(schema);
        memory.bytes()
    }

    fn schema(rules: &Value) -> Structural {
        Structural::compile(&json!({"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"a": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": rules}}}))
    }

    #[test]
    fn rules_count_as_memory_before_they_are_compiled() {
        let rules = json!([{"rule": "!has(self.a) || self.a.matches('^[a-z]+$')"}]);
        assert_eq!(memory(&schema(&json!([]))), 0);
        let unused = memory(&schema(&rules));
        assert!(unused > 0);
        let used = schema(&rules);
        used.validate_rules(&machinery::Map::new(), None, &mut machinery::ErrorList::new());
        assert_eq!(memory(&used), unused);
    }
}
