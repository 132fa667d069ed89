//! Validates strings: `minLength`, `maxLength`, `pattern` and `format`.

use super::{Walk, WalkErrors};
use crate::structural::{Checks, TextChecks};
use machinery::Path;
use machinery::field_path::{ErrorType, quote};

impl Walk<'_> {
    pub(super) fn check_text(
        self,
        checks: Option<&Checks>,
        text: &str,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) -> usize {
        let mut match_count = 1;
        let Some(checks) = checks else { return match_count };
        if let Some(text_checks) = checks.text.as_deref() {
            self.check_length_and_pattern(text_checks, text, path, found);
        }
        if let Some(format) = checks.format.filter(|it| it.is_for_strings()) {
            match_count += 1;
            if !format.accepts(text) {
                found.add(|| {
                    let (name, shown) = (format.name(), quote(text));
                    let detail = format!("{path} in body must be of type {name}: {shown}");
                    self.error(ErrorType::TypeInvalid, path, Some(text.into()), detail)
                });
            }
        }
        match_count
    }

    /// Reports the first of the three errors and stops, as upstream does.
    fn check_length_and_pattern(
        self,
        checks: &TextChecks,
        text: &str,
        path: &Path<'_>,
        found: &mut WalkErrors,
    ) {
        let length = || text.chars().count() as u64;
        if let Some(max) = checks.max_length.filter(|max| length() > *max) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            // As upstream, the message says bytes although characters are counted.
            let detail = format!("may not be more than {max} {unit}");
            return found.add(|| self.error(ErrorType::TooLong, path, None, detail));
        }
        if let Some(min) = checks.min_length.filter(|min| length() < *min) {
            let message = format_args!("should be at least {min} chars long");
            return found.add(|| self.invalid(path, text, message));
        }
        let Some(pattern) = &checks.pattern else { return };
        let suffix = match pattern.matches(text) {
            Some(true) => return,
            Some(false) => "",
            None => ", but pattern is invalid",
        };
        found.add(|| {
            self.invalid(path, text, format_args!("should match '{}'{suffix}", pattern.source))
        });
    }
}
