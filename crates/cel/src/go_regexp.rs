//! Go's regular expressions, translated for the `regex` crate.
//!
//! The two syntaxes differ: in Go `\d` is ASCII only, a bracket inside of a class is a plain
//! character, and a brace that does not start a repetition is a literal. [`translate`] rewrites an
//! expression and reports errors with Go's messages, which upstream returns to the author of a CRD:
//!
//! ```text
//! ^[[\d]+${x      becomes      ^[\[0-9]+$\{x
//! [               is refused:  missing closing ]: `[`
//! ```

mod alphabet;
mod class;
mod repeats;

use regex::{Regex, RegexBuilder};

use alphabet::AlphabetRegex;
use repeats::Repeats;

/// The maximum memory of one compiled expression.
const SIZE_LIMIT: usize = 4 << 20;

/// The maximum length of an expression: the parser needs 400 bytes for each byte of it. A longer
/// one would exceed [`SIZE_LIMIT`] anyway, unless it is one large class.
const LENGTH_LIMIT: usize = 64 << 10;

/// The maximum memory of each cache of an expression; every thread that matches has its own. An
/// expression that needs more is matched without caches.
const CACHE_LIMIT: usize = 256 << 10;

/// An expression that needs more memory over bytes is compiled to an [`AlphabetRegex`] if possible.
const BYTES_LIMIT: usize = 128 << 10;

/// The memory limits that are tried to measure an expression.
const STEPS: [usize; 3] = [4 << 10, 16 << 10, BYTES_LIMIT];

/// The further limits for an expression that has no alphabet.
const LARGE_STEPS: [usize; 2] = [1 << 20, SIZE_LIMIT];

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A syntax error, with Go's message.
    #[error("error parsing regexp: {what}: `{text}`")]
    Syntax {
        /// The error message.
        what: &'static str,
        /// The invalid part of the expression.
        text: String,
    },
    /// Valid in Go, but not supported by this server.
    #[error("error parsing regexp: {0}")]
    Unsupported(String),
    /// Valid in Go, but the compiled expression is larger than this server allows.
    #[error("error parsing regexp: expression too large: it needs more than {0} bytes")]
    Large(usize),
    /// The text is longer than this server allows.
    #[error("error parsing regexp: expression too large: it has more than {LENGTH_LIMIT} bytes")]
    Long,
}

/// A compiled expression.
#[derive(Debug, Clone)]
pub struct Matcher(Automaton);

#[derive(Debug, Clone)]
enum Automaton {
    /// Over the bytes of a text.
    Bytes(Regex),
    /// Over the classes of its characters: smaller, but slower.
    Alphabet(Box<AlphabetRegex>),
}

impl Matcher {
    /// Whether a part of the text matches.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.0 {
            Automaton::Bytes(regex) => regex.is_match(text),
            Automaton::Alphabet(regex) => regex.is_match(text),
        }
    }

    /// The first parts of the text that match, at most `limit` of them.
    pub(crate) fn find<'t>(&self, text: &'t str, limit: usize) -> Vec<&'t str> {
        match &self.0 {
            Automaton::Bytes(regex) => {
                regex.find_iter(text).take(limit).map(|it| it.as_str()).collect()
            }
            Automaton::Alphabet(regex) => regex.find(text, limit),
        }
    }
}

/// Compiles a Go expression that needs at most `limit` bytes.
pub(crate) fn compile_within(expression: &str, limit: usize) -> Result<Matcher, Error> {
    let translated = translate(expression)?;
    let bytes = |limit| Ok(Matcher(Automaton::Bytes(build_regex(&translated, limit)?)));
    match bytes(limit.min(BYTES_LIMIT)) {
        Err(Error::Large(_)) => {}
        compiled => return compiled,
    }
    match AlphabetRegex::compile(&translated, limit, CACHE_LIMIT) {
        Some(regex) => Ok(Matcher(Automaton::Alphabet(Box::new(regex)))),
        None => bytes(limit),
    }
}

/// Compiles a Go expression.
pub fn compile(expression: &str) -> Result<Matcher, Error> {
    compile_within(expression, SIZE_LIMIT)
}

/// The approximate memory in bytes of the compiled expression, including the caches of a thread.
/// Fails if it does not compile.
pub fn memory(expression: &str) -> Result<usize, Error> {
    let translated = translate(expression)?;
    match in_steps(&translated, &STEPS) {
        Err(Error::Large(_)) => {}
        measured => return measured,
    }
    match AlphabetRegex::compile(&translated, SIZE_LIMIT, CACHE_LIMIT) {
        Some(regex) => Ok(regex.memory() + CACHE_LIMIT),
        None => in_steps(&translated, &LARGE_STEPS),
    }
}

/// Estimates the memory by the first limit that suffices. A compilation stops as soon as it exceeds
/// its limit, so trying small limits is cheap.
fn in_steps(translated: &str, limits: &[usize]) -> Result<usize, Error> {
    for limit in limits {
        match build_regex(translated, *limit) {
            Ok(_) => return Ok(2 * limit),
            Err(Error::Large(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::Large(SIZE_LIMIT))
}

fn build_regex(translated: &str, limit: usize) -> Result<Regex, Error> {
    let built = RegexBuilder::new(translated).size_limit(limit).dfa_size_limit(CACHE_LIMIT).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => Error::Large(limit),
        error => Error::Unsupported(error.to_string()),
    })
}

/// Rewrites a Go expression for the `regex` crate.
pub fn translate(expression: &str) -> Result<String, Error> {
    if expression.len() > LENGTH_LIMIT {
        return Err(Error::Long);
    }
    let mut translator = Translator { whole: expression, rest: expression, ..Default::default() };
    while !translator.rest.is_empty() {
        translator.step()?;
    }
    if translator.repeats.is_in_group() {
        return Err(syntax_error("missing closing )", expression));
    }
    Ok(translator.out)
}

fn syntax_error(what: &'static str, text: &str) -> Error {
    Error::Syntax { what, text: text.to_owned() }
}

#[derive(Debug, Default)]
struct Translator<'a> {
    whole: &'a str,
    /// The rest of the input.
    rest: &'a str,
    out: String,
    repeats: Repeats,
    /// Whether a repetition has an operand here.
    has_operand: bool,
    /// The text from the last repetition on, if nothing follows it yet.
    repetition: Option<&'a str>,
}

impl<'a> Translator<'a> {
    fn step(&mut self) -> Result<(), Error> {
        let repetition = self.repetition.take();
        let Some(first) = self.rest.chars().next() else { return Ok(()) };
        match first {
            '(' => return self.open_group(),
            ')' => {
                if !self.repeats.close_group() {
                    return Err(syntax_error("unexpected )", self.whole));
                }
                self.copy(1);
                self.has_operand = true;
                return Ok(());
            }
            '|' => {
                self.copy(1);
                self.has_operand = false;
                return Ok(());
            }
            '*' | '+' | '?' => return self.repeat(1, repetition),
            '{' => match counted(self.rest) {
                Some(length) => return self.repeat(length, repetition),
                None => self.literal('{'),
            },
            '[' => {
                let length = class::translate(self.rest, &mut self.out)?;
                self.rest = &self.rest[length..];
            }
            '\\' => return self.escape(),
            '.' | '^' | '$' => self.copy(1),
            other => self.literal(other),
        }
        self.begin_operand();
        Ok(())
    }

    fn begin_operand(&mut self) {
        self.has_operand = true;
        self.repeats.begin_operand();
    }

    fn copy(&mut self, length: usize) {
        let (copied, rest) = self.rest.split_at(length);
        self.out += copied;
        self.rest = rest;
    }

    fn literal(&mut self, character: char) {
        push_literal(&mut self.out, character);
        self.rest = &self.rest[character.len_utf8()..];
    }

    fn repeat(&mut self, length: usize, last: Option<&'a str>) -> Result<(), Error> {
        let start = self.rest;
        let lazy = usize::from(start[length..].starts_with('?'));
        let operator = &start[..length + lazy];
        if let Some(last) = last {
            let text = &last[..last.len() - start.len() + operator.len()];
            return Err(syntax_error("invalid nested repetition operator", text));
        }
        if !self.has_operand {
            return Err(syntax_error("missing argument to repetition operator", operator));
        }
        let counts = start[..length].strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        if counts.is_some_and(|it| !self.repeats.repeat(it)) {
            return Err(syntax_error("invalid repeat count", &start[..length]));
        }
        self.copy(operator.len());
        self.repetition = Some(start);
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), Error> {
        self.has_operand = false;
        let Some(after) = self.rest.strip_prefix("(?") else {
            self.repeats.open_group();
            self.copy(1);
            return Ok(());
        };
        if after.starts_with("P<") || after.starts_with('<') {
            return self.open_named_group();
        }
        for (index, character) in after.char_indices() {
            match character {
                'i' | 'm' | 's' | 'U' | '-' => {}
                ':' => {
                    self.repeats.open_group();
                    self.copy(index + 3);
                    return Ok(());
                }
                ')' if index > 0 => {
                    self.copy(index + 3);
                    return Ok(());
                }
                _ => {
                    let text = &self.rest[..index + 2 + character.len_utf8()];
                    return Err(syntax_error("invalid or unsupported Perl syntax", text));
                }
            }
        }
        Err(syntax_error("missing closing )", self.whole))
    }

    fn open_named_group(&mut self) -> Result<(), Error> {
        const WHAT: &str = "invalid named capture";
        let end = self.rest.find('>').ok_or_else(|| syntax_error(WHAT, self.rest))?;
        let (_, name) = self.rest[..end].split_once('<').unwrap_or_default();
        let is_name =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name {
            return Err(syntax_error(WHAT, &self.rest[..=end]));
        }
        // The name is dropped: captures are not used, and the `regex` crate would refuse a name
        // that begins with a digit.
        self.out.push('(');
        self.rest = &self.rest[end + 1..];
        self.repeats.open_group();
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Error> {
        self.begin_operand();
        let character = self.rest[1..].chars().next();
        let translated = match character {
            Some('A' | 'z' | 'B') => &self.rest[..2],
            Some('b') => r"(?-u:\b)",
            Some('C') => "(?s:.)",
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('s') => r"[\t\n\f\r ]",
            Some('S') => r"[^\t\n\f\r ]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('Q') => {
                self.quoted();
                return Ok(());
            }
            Some('p' | 'P') => {
                let length = unicode_class(self.rest)?;
                self.copy(length);
                return Ok(());
            }
            _ => {
                let (character, length) = escaped_char(self.rest)?;
                push_literal(&mut self.out, character);
                self.rest = &self.rest[length..];
                return Ok(());
            }
        };
        self.out += translated;
        self.rest = &self.rest[2..];
        Ok(())
    }

    fn quoted(&mut self) {
        let text = &self.rest[2..];
        let (text, rest) = text.split_once(r"\E").unwrap_or((text, ""));
        for character in text.chars() {
            push_literal(&mut self.out, character);
        }
        self.rest = rest;
    }
}

fn push_literal(out: &mut String, character: char) {
    if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
        out.push('\\');
    }
    out.push(character);
}

/// The length of `{n}`, `{n,}` or `{n,m}` at the beginning.
fn counted(text: &str) -> Option<usize> {
    let end = text.find('}')?;
    let (min, max) = text[1..end].split_once(',').unwrap_or((&text[1..end], ""));
    let is_number = |it: &str| it.bytes().all(|b| b.is_ascii_digit());
    (!min.is_empty() && is_number(min) && is_number(max)).then_some(end + 1)
}

/// The length of `\pL` or `\p{Greek}` at the beginning.
fn unicode_class(text: &str) -> Result<usize, Error> {
    let wrong = |length| syntax_error("invalid character class range", &text[..length]);
    let name = text[2..].chars().next().ok_or_else(|| wrong(2))?;
    if name != '{' {
        return Ok(2 + name.len_utf8());
    }
    text.find('}').map(|end| end + 1).ok_or_else(|| wrong(text.len()))
}

/// The character of the escape at the start of `text`, and the length of the escape.
fn escaped_char(text: &str) -> Result<(char, usize), Error> {
    const WHAT: &str = "invalid escape sequence";
    let Some(character) = text[1..].chars().next() else {
        return Err(syntax_error("trailing backslash at end of expression", ""));
    };
    let length = 1 + character.len_utf8();
    let after = &text[length..];
    let octal = after.bytes().take_while(|b| (b'0'..=b'7').contains(b)).take(2).count();
    match character {
        'a' => Ok(('\u{7}', length)),
        'f' => Ok(('\u{c}', length)),
        'n' => Ok(('\n', length)),
        'r' => Ok(('\r', length)),
        't' => Ok(('\t', length)),
        'v' => Ok(('\u{b}', length)),
        // A single digit other than 0 would be a backreference, which Go does not support.
        '0'..='7' if character == '0' || octal > 0 => {
            let end = length + octal;
            let code = u32::from_str_radix(&text[1..end], 8).ok().and_then(char::from_u32);
            code.map(|it| (it, end)).ok_or_else(|| syntax_error(WHAT, &text[..end]))
        }
        'x' => hexadecimal(text),
        _ if character.is_ascii() && !character.is_ascii_alphanumeric() => Ok((character, length)),
        _ => Err(syntax_error(WHAT, &text[..length])),
    }
}

/// `\x7f` or `\x{10ffff}`
fn hexadecimal(text: &str) -> Result<(char, usize), Error> {
    let digits = match text[2..].strip_prefix('{') {
        Some(rest) => rest.split_once('}').map(|(digits, _)| (digits, digits.len() + 4)),
        None => text.get(2..4).map(|digits| (digits, 4)),
    };
    digits
        .and_then(|(digits, length)| {
            let code = u32::from_str_radix(digits, 16).ok()?;
            Some((char::from_u32(code)?, length))
        })
        .ok_or_else(|| {
            let end = text.char_indices().nth(3).map_or(text.len(), |(index, _)| index);
            syntax_error("invalid escape sequence", &text[..end])
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(expression: &str) -> String {
        translate(expression).unwrap_err().to_string()
    }

    #[test]
    fn an_expression_that_is_too_long_is_refused() {
        let longest = ".".repeat(LENGTH_LIMIT);
        assert!(translate(&longest).is_ok());
        assert_eq!(compile(&format!("{longest}.")).unwrap_err(), Error::Long);
    }

    #[test]
    fn syntax_errors_have_gos_messages() {
        for (expression, expected) in [
            ("[", "missing closing ]: `[`"),
            ("a[b", "missing closing ]: `[b`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a|+?", "missing argument to repetition operator: `+?`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("((a{100}){10}){2}", "invalid repeat count: `{2}`"),
            ("(a{10}b{100}|c){11,}", "invalid repeat count: `{11,}`"),
            ("((a{100})+b){0,11}", "invalid repeat count: `{0,11}`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            (r"a\", "trailing backslash at end of expression: ``"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:word2:]]", "invalid character class range: `[:word2:]`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
        ] {
            assert_eq!(message(expression), format!("error parsing regexp: {expected}"));
        }
    }

    #[test]
    fn characters_that_are_literal_in_go_are_escaped() {
        for (expression, good, bad) in [
            (r"^\d+$", "12", "٣"),
            (r"^[[\d]+$", "[1", "a"),
            (r"^[^\W]+$", "a_", "-"),
            ("^a{,2}$", "a{,2}", "aa"),
            (r"^\Q.*\E$", ".*", "ab"),
            (r"^[a&&b]+$", "&", "x"),
            (r"^\<\>$", "<>", ""),
            (r"^[\x41-\x{43}\]-]+$", "B]-", "D"),
            (r"^(?P<n>a|b)?(?i:C)\z", "bc", "bd"),
            (r"^[[:alpha:]\-_.]{1,3}$", "a-_", "a1"),
            (r"^\101$", "A", "B"),
            ("^(a{100}|b{2}){10}(c{1000}){0}$", "bbbbbbbbbbbbbbbbbbbb", "bb"),
        ] {
            let regex = compile(expression).unwrap();
            assert!(regex.is_match(good), "{expression} matches {good}");
            assert!(!regex.is_match(bad), "{expression} does not match {bad}");
        }
    }
}
