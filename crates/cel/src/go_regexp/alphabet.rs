//! [`AlphabetRegex`]: an expression that is matched over the classes of characters that it
//! distinguishes, instead of over the bytes of UTF-8.
//!
//! A class such as `\p{L}` has hundreds of ranges, and an automaton over UTF-8 repeats all of them
//! for each repetition: `\p{L}{1,256}` takes 8 MB. But the expression only distinguishes letters
//! from other characters, so a text is first rewritten to one byte for each character, and the
//! automaton is one over bytes:
//!
//! ```text
//! ^[\p{L}-]{1,256}$    letters are a, the hyphen is b, everything else is c:  ^[ab]{1,256}$
//! naïve-1              aaaaabc
//! ```

use std::collections::{BTreeSet, HashMap};

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, Hir, HirKind, Look, Repetition,
};

/// The maximum number of pairs of a class and a range of characters, which limits the time to
/// compute an alphabet.
const MAX_PAIRS: usize = 1 << 20;

/// See the [module documentation](self).
#[derive(Debug, Clone)]
pub(super) struct AlphabetRegex {
    alphabet: Alphabet,
    regex: meta::Regex,
}

impl AlphabetRegex {
    /// Compiles an expression of the `regex` crate; None if it needs more than `limit` bytes, or
    /// has assertions other than the start and the end of the text.
    pub(super) fn compile(expression: &str, limit: usize, cache_limit: usize) -> Option<Self> {
        let hir = syntax::parse(expression).ok()?;
        let alphabet = Alphabet::of(&hir)?;
        let config = meta::Config::new()
            .nfa_size_limit(Some(limit))
            .onepass_size_limit(Some(cache_limit))
            .dfa_size_limit(Some(cache_limit))
            .hybrid_cache_capacity(cache_limit)
            .utf8_empty(false);
        let rewritten = alphabet.rewrite(&hir)?;
        let regex = meta::Builder::new().configure(config).build_from_hir(&rewritten).ok()?;
        Some(Self { alphabet, regex })
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(&self.letters(text))
    }

    /// The first parts of the text that match, at most `limit` of them.
    pub(super) fn find<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        let starts = text.char_indices().map(|(start, _)| start);
        let starts: Vec<usize> = starts.chain([text.len()]).collect();
        let letters = self.letters(text);
        let found = self.regex.find_iter(&letters).take(limit);
        found.map(|it| &text[starts[it.start()]..starts[it.end()]]).collect()
    }

    /// The letter of each character.
    fn letters(&self, text: &str) -> Vec<u8> {
        text.chars().map(|it| self.alphabet.letter(it)).collect()
    }

    /// The memory without caches.
    pub(super) fn memory(&self) -> usize {
        self.regex.memory_usage() + self.alphabet.letters.len() * size_of::<(u32, u8)>()
    }
}

/// The classes of characters that an expression distinguishes, at most 256.
#[derive(Debug, Clone)]
struct Alphabet {
    /// The first character and the letter of each range of characters; a range ends before the
    /// next.
    letters: Vec<(u32, u8)>,
}

impl Alphabet {
    fn of(hir: &Hir) -> Option<Self> {
        let mut classes = BTreeSet::new();
        collect(hir, &mut classes)?;
        let mut starts = BTreeSet::from([0]);
        for (first, last) in classes.iter().flatten() {
            starts.extend([*first, last + 1]);
        }
        let starts: Vec<u32> = starts.into_iter().collect();
        if classes.len().checked_mul(starts.len())? > MAX_PAIRS {
            return None;
        }
        // The classes that contain each range.
        let mut signatures: Vec<Vec<usize>> = vec![Vec::new(); starts.len()];
        for (class, ranges) in classes.iter().enumerate() {
            for (first, last) in ranges {
                let from = starts.partition_point(|it| it < first);
                let to = starts.partition_point(|it| it <= last);
                signatures[from..to].iter_mut().for_each(|it| it.push(class));
            }
        }
        let mut known: HashMap<Vec<usize>, u8> = HashMap::new();
        let mut letters: Vec<(u32, u8)> = Vec::new();
        for (start, signature) in starts.into_iter().zip(signatures) {
            let next = known.len();
            let letter = match known.get(&signature) {
                Some(letter) => *letter,
                None => *known.entry(signature).or_insert(u8::try_from(next).ok()?),
            };
            if letters.last().is_none_or(|(_, it)| *it != letter) {
                letters.push((start, letter));
            }
        }
        Some(Self { letters })
    }

    fn letter(&self, character: char) -> u8 {
        let index = self.letters.partition_point(|(start, _)| *start <= u32::from(character));
        self.letters[index - 1].1
    }

    /// The letters of a range of characters of a class.
    fn letters_in(&self, (first, last): (u32, u32)) -> impl Iterator<Item = u8> {
        let from = self.letters.partition_point(|(start, _)| *start <= first) - 1;
        let to = self.letters.partition_point(|(start, _)| *start <= last);
        self.letters[from..to].iter().map(|(_, letter)| *letter)
    }

    /// The same expression over letters, without captures.
    fn rewrite(&self, hir: &Hir) -> Option<Hir> {
        let class = |letters: BTreeSet<u8>| {
            let ranges = letters.into_iter().map(|it| ClassBytesRange::new(it, it));
            Hir::class(Class::Bytes(ClassBytes::new(ranges)))
        };
        let all = |parts: &[Hir]| parts.iter().map(|it| self.rewrite(it)).collect::<Option<_>>();
        Some(match hir.kind() {
            HirKind::Empty => Hir::empty(),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                Hir::literal(text.chars().map(|it| self.letter(it)).collect::<Vec<u8>>())
            }
            HirKind::Class(found) => {
                let ranges = ranges(found)?;
                class(ranges.into_iter().flat_map(|it| self.letters_in(it)).collect())
            }
            HirKind::Look(look) => Hir::look(*look),
            HirKind::Repetition(repetition) => Hir::repetition(Repetition {
                sub: Box::new(self.rewrite(&repetition.sub)?),
                ..repetition.clone()
            }),
            HirKind::Capture(capture) => self.rewrite(&capture.sub)?,
            HirKind::Concat(parts) => Hir::concat(all(parts)?),
            HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
        })
    }
}

type Ranges = Vec<(u32, u32)>;

/// Adds the classes of an expression; each character of a literal is a class.
fn collect(hir: &Hir, classes: &mut BTreeSet<Ranges>) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(Look::Start | Look::End) => {}
        HirKind::Look(_) => return None,
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            classes.extend(text.chars().map(|it| vec![(u32::from(it), u32::from(it))]));
        }
        HirKind::Class(class) => {
            classes.insert(ranges(class)?);
        }
        HirKind::Repetition(repetition) => collect(&repetition.sub, classes)?,
        HirKind::Capture(capture) => collect(&capture.sub, classes)?,
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().try_for_each(|it| collect(it, classes))?;
        }
    }
    Some(())
}

/// The ranges of a class of characters.
fn ranges(class: &Class) -> Option<Ranges> {
    let of = |class: &ClassUnicode| {
        class.iter().map(|it| (u32::from(it.start()), u32::from(it.end()))).collect()
    };
    match class {
        Class::Unicode(class) => Some(of(class)),
        Class::Bytes(class) => class.to_unicode_class().as_ref().map(of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: [&str; 14] = [
        "",
        "a",
        "A1",
        "naïve-1",
        "日本語",
        "a b",
        "x\ny",
        "_.:/=+-@",
        "Ω≈ç√",
        "\u{10ffff}",
        "--",
        "ab12",
        "ééé",
        "🙂a",
    ];

    #[test]
    fn an_alphabet_regex_finds_the_same_matches() {
        for expression in [
            r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]{1,128}$",
            r"^\p{L}{1,256}$",
            r"\p{N}+$",
            r"^(a|[^b]c)*\P{C}?",
            r"(?i)^[k-s]+é{1,3}$",
            r"^.{2,5}$",
            r"(?s)^.{3}$",
            r"x|\p{Han}{2,}|^$",
            "",
            r"[^\p{L}]",
        ] {
            let exact = regex::RegexBuilder::new(expression).size_limit(64 << 20).build().unwrap();
            let alphabet = AlphabetRegex::compile(expression, 1 << 20, 1 << 18).unwrap();
            for text in TEXTS {
                assert_eq!(alphabet.is_match(text), exact.is_match(text), "{expression} {text}");
                let found: Vec<&str> = exact.find_iter(text).map(|it| it.as_str()).collect();
                assert_eq!(alphabet.find(text, usize::MAX), found, "{expression} {text}");
            }
        }
    }

    #[test]
    fn repeated_classes_need_little_memory() {
        for expression in [r"^[\p{L}\p{Z}\p{N}_.:/=+\-@]{0,256}$", r"^\P{C}{1,1000}$"] {
            let regex = AlphabetRegex::compile(expression, 1 << 20, 1 << 18).unwrap();
            assert!(regex.memory() < 256 << 10, "{expression}: {}", regex.memory());
        }
    }

    #[test]
    fn patterns_with_word_or_line_boundaries_have_no_alphabet() {
        for expression in [r"(?-u:\b)a", "(?m)^a$"] {
            assert!(AlphabetRegex::compile(expression, 1 << 20, 1 << 18).is_none());
        }
    }
}
