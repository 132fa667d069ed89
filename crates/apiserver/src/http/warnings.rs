//! [`Warnings`]: what a client is told besides its answer, each thing once and all of it short.
//!
//! Warnings travel as headers, and who sends an object with a hundred thousand unknown fields must
//! not get as many headers back. When all texts together grow too long, each is cut short, and when
//! that is not enough, no more are taken.

/// All texts together, in characters; what upstream allows.
const TOTAL_MAX: usize = 4 * 1024;

/// Each of them, once they are cut short.
const CUT_TO: usize = 256;

/// See the [module documentation](self).
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// How long they are, as they will be told.
    length: usize,
    cutting: bool,
}

impl Warnings {
    /// Adds a warning, unless it is there already or there is no room.
    pub(crate) fn add(&mut self, text: String) {
        if self.cutting && self.length >= TOTAL_MAX || self.texts.contains(&text) {
            return;
        }
        self.length += self.length_of(&text);
        self.texts.push(text);
        if self.length > TOTAL_MAX && !self.cutting {
            self.cutting = true;
            self.length = self.texts.iter().map(|it| self.length_of(it)).sum();
        }
    }

    /// What there is to tell.
    pub(crate) fn into_texts(self) -> Vec<String> {
        if !self.cutting {
            return self.texts;
        }
        self.texts.iter().map(|it| it.chars().take(CUT_TO).collect()).collect()
    }

    fn length_of(&self, text: &str) -> usize {
        let length = text.chars().count();
        if self.cutting { length.min(CUT_TO) } else { length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut warnings = Warnings::default();
        texts.into_iter().for_each(|it| warnings.add(it));
        warnings.into_texts()
    }

    #[test]
    fn each_thing_is_told_once() {
        assert_eq!(told(["a".to_owned(), "b".to_owned(), "a".to_owned()]), ["a", "b"]);
    }

    #[test]
    fn a_long_text_is_told_whole_where_there_is_room() {
        assert_eq!(told(["ä".repeat(TOTAL_MAX)])[0].chars().count(), TOTAL_MAX);
        let cut = told(["ä".repeat(TOTAL_MAX), "b".to_owned()]);
        assert_eq!(cut, ["ä".repeat(CUT_TO), "b".to_owned()]);
    }

    #[test]
    fn a_flood_is_cut_off() {
        let told = told((0..200_000).map(|it| format!("unknown field \"u{it}\"")));
        let length: usize = told.iter().map(|it| it.chars().count()).sum();
        assert!((TOTAL_MAX..TOTAL_MAX + CUT_TO).contains(&length), "{length}");
    }
}
