//! [`Warnings`]: the warnings of one response, without duplicates and with a bounded total length.
//!
//! Warnings are sent as headers, and an object with a hundred thousand unknown fields must not
//! result in as many headers. If the total length exceeds the limit, each warning is truncated;
//! once the truncated warnings reach the limit too, further warnings are dropped.

/// The maximum total length in characters. Upstream: `truncateAtTotalRunes`.
const MAX_TOTAL_CHARS: usize = 4 * 1024;

/// The maximum length of a truncated warning in characters. Upstream: `truncateItemRunes`.
const MAX_ITEM_CHARS: usize = 256;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// The total length of the warnings, truncated or not.
    length: usize,
    truncates: bool,
}

impl Warnings {
    /// Adds a warning, unless it is a duplicate or the limit is reached.
    pub(crate) fn add(&mut self, text: String) {
        if self.truncates && self.length >= MAX_TOTAL_CHARS || self.texts.contains(&text) {
            return;
        }
        self.length += self.length_of(&text);
        self.texts.push(text);
        if self.length > MAX_TOTAL_CHARS && !self.truncates {
            self.truncates = true;
            self.length = self.texts.iter().map(|it| self.length_of(it)).sum();
        }
    }

    /// The warnings to send.
    pub(crate) fn into_texts(self) -> Vec<String> {
        if !self.truncates {
            return self.texts;
        }
        self.texts.iter().map(|it| it.chars().take(MAX_ITEM_CHARS).collect()).collect()
    }

    fn length_of(&self, text: &str) -> usize {
        let length = text.chars().count();
        if self.truncates { length.min(MAX_ITEM_CHARS) } else { length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut warnings = Warnings::default();
        texts.into_iter().for_each(|it| warnings.add(it));
        warnings.into_texts()
    }

    #[test]
    fn a_repeated_warning_is_recorded_once() {
        assert_eq!(recorded(["a".to_owned(), "b".to_owned(), "a".to_owned()]), ["a", "b"]);
    }

    #[test]
    fn a_long_warning_is_truncated_only_if_the_total_is_exceeded() {
        assert_eq!(recorded(["ä".repeat(MAX_TOTAL_CHARS)])[0].chars().count(), MAX_TOTAL_CHARS);
        let cut = recorded(["ä".repeat(MAX_TOTAL_CHARS), "b".to_owned()]);
        assert_eq!(cut, ["ä".repeat(MAX_ITEM_CHARS), "b".to_owned()]);
    }

    #[test]
    fn the_total_length_of_many_warnings_is_bounded() {
        let recorded = recorded((0..200_000).map(|it| format!("unknown field \"u{it}\"")));
        let length: usize = recorded.iter().map(|it| it.chars().count()).sum();
        assert!((MAX_TOTAL_CHARS..MAX_TOTAL_CHARS + MAX_ITEM_CHARS).contains(&length), "{length}");
    }
}
