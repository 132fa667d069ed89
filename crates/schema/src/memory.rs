//! [`SchemaMemory`]: the memory that schemas take up when everything in them is compiled.

use std::collections::HashSet;

use crate::rules::Validator;
use crate::structural::Structural;

/// See the [module documentation](self). A pattern that several schemas have counts once.
#[derive(Debug, Default)]
pub struct SchemaMemory<'a> {
    patterns: HashSet<&'a str>,
    bytes: usize,
}

impl<'a> SchemaMemory<'a> {
    /// Adds the patterns and rules of a schema. What was not measured before is compiled for that.
    pub fn add(&mut self, schema: &'a Structural) {
        for pattern in &schema.patterns {
            if self.patterns.insert(&pattern.source) {
                self.bytes = self.bytes.saturating_add(pattern.memory());
            }
        }
        self.bytes = self.bytes.saturating_add(schema.rule_memory());
    }

    /// The sum, in bytes or so.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Structural {
    /// The memory that its rules take up once they are compiled, in bytes or so. They are compiled
    /// to be measured, and not kept if no object has needed them yet.
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
