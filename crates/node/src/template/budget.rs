//! [`Budget`]: limits the work of one rendering.
//!
//! The limits are far above the needs of real templates: KWOK's own need some hundred steps and some
//! kilobytes. A rendering that reaches one costs some milliseconds.

use serde_json::Value;

/// The largest number of steps: parts of the template that are executed, in all loops together.
const MAX_STEPS: usize = 100_000;

/// The largest number of bytes of all values that are built or copied.
const MAX_BYTES: usize = 16 << 20;

/// The largest number of bytes of the result, which is parsed afterwards.
const MAX_OUTPUT: usize = 256 << 10;

/// The deepest nesting of a value.
const MAX_DEPTH: usize = 200;

/// The size of a value without its text.
const VALUE_BYTES: usize = 64;

/// See the [module documentation](self).
pub(super) struct Budget {
    /// The steps that are left.
    steps: usize,
    /// The bytes that are left.
    bytes: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { steps: MAX_STEPS, bytes: MAX_BYTES }
    }

    /// Counts steps.
    pub(super) fn count_steps(&mut self, steps: usize) -> Result<(), String> {
        let left = self.steps.checked_sub(steps);
        self.steps =
            left.ok_or_else(|| format!("the template takes more than {MAX_STEPS} steps"))?;
        Ok(())
    }

    /// Counts bytes.
    pub(super) fn count_bytes(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.ok_or_else(|| {
            format!("the values of the template have more than {MAX_BYTES} bytes")
        })?;
        Ok(())
    }

    /// Counts a value.
    pub(super) fn count(&mut self, value: &Value) -> Result<(), String> {
        self.count_bytes(Size::of(value)?.bytes)
    }

    /// Copies a value; null if there is none.
    pub(super) fn copy(&mut self, value: Option<&Value>) -> Result<Value, String> {
        let Some(value) = value else { return Ok(Value::Null) };
        self.count(value)?;
        Ok(value.clone())
    }
}

/// Appends to the result of a template.
pub(super) fn append(output: &mut String, text: &str) -> Result<(), String> {
    if output.len() + text.len() > MAX_OUTPUT {
        return Err(format!("the result of the template has more than {MAX_OUTPUT} bytes"));
    }
    output.push_str(text);
    Ok(())
}

/// The size of a value.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The bytes in memory, approximately.
    pub bytes: usize,
    /// The lines in YAML, at most.
    pub lines: usize,
    /// The depth of lists and maps.
    pub depth: usize,
}

impl Size {
    /// Fails if the value is nested too deeply.
    pub(super) fn of(value: &Value) -> Result<Self, String> {
        let mut size = Self::default();
        size.add(value, 0)?;
        Ok(size)
    }

    fn add(&mut self, value: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("a value of the template has more than {MAX_DEPTH} levels"));
        }
        self.bytes += VALUE_BYTES;
        self.lines += 1;
        self.depth = self.depth.max(depth);
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.add_text(text),
            Value::Array(list) => {
                for element in list {
                    self.add(element, depth + 1)?;
                }
            }
            Value::Object(map) => {
                for (key, element) in map {
                    self.add_text(key);
                    self.add(element, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str) {
        self.bytes += text.len();
        self.lines += text.bytes().filter(|byte| *byte == b'\n').count();
    }
}
