//! Lengths, patterns and formats of texts.

use super::Walk;
use crate::structural::{Checks, TextChecks};
use machinery::field_path::{FaultKind, quote};
use machinery::{FieldError, Path};

impl Walk<'_> {
    pub(super) fn check_text(
        self,
        checks: Option<&Checks>,
        text: &str,
        path: &Path<'_>,
        found: &mut Vec<FieldError>,
    ) -> usize {
        let mut passed = 1;
        let Some(checks) = checks else { return passed };
        if let Some(fault) = checks.text.as_deref().and_then(|it| self.text_fault(it, text, path)) {
            found.push(fault);
        }
        if let Some(format) = checks.format.filter(|it| it.is_for_text()) {
            passed += 1;
            if !format.accepts(text) {
                let detail =
                    format!("{path} in body must be of type {}: {}", format.name(), quote(text));
                found.push(self.fault(FaultKind::TypeInvalid, path, Some(text.into()), detail));
            }
        }
        passed
    }

    /// The first of the three complaints, as upstream stops there.
    fn text_fault(self, checks: &TextChecks, text: &str, path: &Path<'_>) -> Option<FieldError> {
        let length = || text.chars().count() as u64;
        if let Some(max) = checks.max_length.filter(|max| length() > *max) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            // Characters are counted; upstream's message says bytes all the same.
            let detail = format!("may not be more than {max} {unit}");
            return Some(self.fault(FaultKind::TooLong, path, None, detail));
        }
        if let Some(min) = checks.min_length.filter(|min| length() < *min) {
            let complaint = format_args!("should be at least {min} chars long");
            return Some(self.invalid(path, text, complaint));
        }
        let pattern = checks.pattern.as_ref()?;
        match pattern.matches(text) {
            Some(true) => None,
            Some(false) => {
                let complaint = format_args!("should match '{}'", pattern.source);
                Some(self.invalid(path, text, complaint))
            }
            None => {
                let complaint =
                    format_args!("should match '{}', but pattern is invalid", pattern.source);
                Some(self.invalid(path, text, complaint))
            }
        }
    }
}
