//! Splits the text of an expression into tokens.
//!
//! Characters that cannot start a token are reported and skipped, so that the parser can find
//! further errors.

use crate::source::Issue;

/// The kind of a token; its text is in [`Token`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Symbol(&'static str),
    Identifier,
    /// A name in backticks.
    EscapedIdentifier,
    Int,
    Uint,
    Float,
    String,
    Bytes,
    End,
}

/// A token and its position, in code points.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    pub(crate) offset: usize,
}

impl Token {
    pub(crate) fn is(&self, symbol: &str) -> bool {
        matches!(self.kind, TokenKind::Symbol(own) if own == symbol)
    }
}

/// Longest first: `<=` must not be read as `<`.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!",
    "?", ":", "+", "*", "/", "%",
];

const WORDS: &[&str] = &["in", "true", "false", "null"];

/// Splits `source` into tokens, the last of which is [`TokenKind::End`].
pub(crate) fn tokenize(source: &str) -> (Vec<Token>, Vec<Issue>) {
    let mut lexer = Lexer {
        characters: source.chars().collect(),
        at: 0,
        tokens: Vec::new(),
        issues: Vec::new(),
    };
    while lexer.at < lexer.characters.len() {
        lexer.step();
    }
    let offset = lexer.characters.len();
    lexer.tokens.push(Token { kind: TokenKind::End, text: "<EOF>".to_owned(), offset });
    (lexer.tokens, lexer.issues)
}

struct Lexer {
    characters: Vec<char>,
    at: usize,
    tokens: Vec<Token>,
    issues: Vec<Issue>,
}

impl Lexer {
    fn step(&mut self) {
        let first = self.characters[self.at];
        if matches!(first, ' ' | '\t' | '\r' | '\n' | '\u{c}') {
            self.at += 1;
        } else if first == '/' && self.peek(1) == Some('/') {
            while self.peek(0).is_some_and(|character| character != '\n') {
                self.at += 1;
            }
        } else if let Some(bytes) = self.quoted_ahead() {
            self.quoted(bytes);
        } else if first == '_' || first.is_ascii_alphabetic() {
            self.word();
        } else if first.is_ascii_digit()
            || first == '.' && self.peek(1).is_some_and(|next| next.is_ascii_digit())
        {
            self.number();
        } else if first == '`' {
            self.escaped_identifier();
        } else {
            self.symbol();
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn push(&mut self, kind: TokenKind, end: usize) {
        let text = self.characters[self.at..end].iter().collect();
        self.tokens.push(Token { kind, text, offset: self.at });
        self.at = end;
    }

    fn refuse(&mut self, end: usize) {
        let text: String = self.characters[self.at..end].iter().collect();
        let text = text.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
        let message = format!("Syntax error: token recognition error at: '{text}'");
        self.issues.push(Issue::at(self.at, message));
        self.at = end;
    }

    /// Whether a literal of bytes (`true`) or a string (`false`) starts here, possibly with a
    /// prefix.
    fn quoted_ahead(&self) -> Option<bool> {
        let mut bytes = false;
        let mut raw = false;
        let mut ahead = 0;
        loop {
            match self.peek(ahead)? {
                '\'' | '"' => return Some(bytes),
                'b' | 'B' if !bytes && !raw => bytes = true,
                'r' | 'R' if !raw => raw = true,
                _ => return None,
            }
            ahead += 1;
        }
    }

    fn quoted(&mut self, bytes: bool) {
        let mut at = self.at;
        let mut raw = false;
        while !matches!(self.characters[at], '\'' | '"') {
            raw |= matches!(self.characters[at], 'r' | 'R');
            at += 1;
        }
        let quote = self.characters[at];
        let triple = self.characters[at..].len() >= 3
            && self.characters[at..at + 3].iter().all(|c| *c == quote);
        let width = if triple { 3 } else { 1 };
        at += width;
        let kind = if bytes { TokenKind::Bytes } else { TokenKind::String };
        while at < self.characters.len() {
            let character = self.characters[at];
            let closes = self.characters[at..].len() >= width
                && self.characters[at..at + width].iter().all(|c| *c == quote);
            if closes {
                return self.push(kind, at + width);
            }
            if matches!(character, '\n' | '\r') && !triple {
                break;
            }
            at += if character == '\\' && !raw { 2 } else { 1 };
        }
        self.refuse(at.min(self.characters.len()));
    }

    fn word(&mut self) {
        let mut end = self.at;
        while self.characters.get(end).is_some_and(|c| *c == '_' || c.is_ascii_alphanumeric()) {
            end += 1;
        }
        let text: String = self.characters[self.at..end].iter().collect();
        let kind = match WORDS.iter().find(|word| **word == text) {
            Some(word) => TokenKind::Symbol(word),
            None => TokenKind::Identifier,
        };
        self.push(kind, end);
    }

    fn number(&mut self) {
        let digits = |from: usize| {
            from + self.characters[from..].iter().take_while(|c| c.is_ascii_digit()).count()
        };
        if self.characters[self.at] == '0' && self.peek(1) == Some('x') {
            let from = self.at + 2;
            let hex = self.characters[from..].iter().take_while(|c| c.is_ascii_hexdigit()).count();
            if hex > 0 {
                return self.integer(from + hex);
            }
        }
        let mut end = digits(self.at);
        let mut float = false;
        let digit = |at: usize| self.characters.get(at).is_some_and(char::is_ascii_digit);
        if self.characters.get(end) == Some(&'.') && digit(end + 1) {
            end = digits(end + 1);
            float = true;
        }
        if matches!(self.characters.get(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.characters.get(end + 1), Some('+' | '-')));
            if digit(end + 1 + sign) {
                end = digits(end + 1 + sign);
                float = true;
            }
        }
        if float { self.push(TokenKind::Float, end) } else { self.integer(end) }
    }

    fn integer(&mut self, end: usize) {
        if matches!(self.characters.get(end), Some('u' | 'U')) {
            return self.push(TokenKind::Uint, end + 1);
        }
        self.push(TokenKind::Int, end);
    }

    fn escaped_identifier(&mut self) {
        let mut end = self.at + 1;
        while let Some(character) = self.characters.get(end) {
            if *character == '`' && end > self.at + 1 {
                return self.push(TokenKind::EscapedIdentifier, end + 1);
            }
            if !character.is_ascii_alphanumeric()
                && !matches!(character, '_' | '.' | '-' | '/' | ' ')
            {
                break;
            }
            end += 1;
        }
        self.refuse((end + 1).min(self.characters.len()));
    }

    fn symbol(&mut self) {
        for symbol in SYMBOLS {
            let length = symbol.len();
            if symbol.chars().enumerate().all(|(index, c)| self.peek(index) == Some(c)) {
                return self.push(TokenKind::Symbol(symbol), self.at + length);
            }
        }
        // As cel-go's lexer, reports a single `&`, `|` or `=` together with the next character.
        let doubled = matches!(self.characters[self.at], '&' | '|' | '=');
        let end = self.at + 1 + usize::from(doubled);
        self.refuse(end.min(self.characters.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &str) {
        let (tokens, issues) = tokenize(source);
        let mut shown: Vec<String> = tokens.into_iter().map(|token| token.text).collect();
        shown.extend(issues.into_iter().map(|issue| issue.message));
        assert_eq!(shown.join(" ¦ "), expected, "{source}");
    }

    #[test]
    fn numbers_of_all_kinds_are_tokenized() {
        check("1.5e3 2u 0xFFu .5 1.a 0x", "1.5e3 ¦ 2u ¦ 0xFFu ¦ .5 ¦ 1 ¦ . ¦ a ¦ 0 ¦ x ¦ <EOF>");
    }

    #[test]
    fn strings_with_prefixes_quotes_and_escapes_are_tokenized() {
        check(
            r#"'a\'b' r'\' b"x" rb '''a'b''' "#,
            r"'a\'b' ¦ r'\' ¦ b'x' ¦ rb ¦ '''a'b''' ¦ <EOF>".replace("b'x'", "b\"x\"").as_str(),
        );
    }

    #[test]
    fn invalid_characters_are_reported_and_skipped() {
        check("a $ b", "a ¦ b ¦ <EOF> ¦ Syntax error: token recognition error at: '$'");
        check("'open", "<EOF> ¦ Syntax error: token recognition error at: ''open'");
    }

    #[test]
    fn comments_run_to_the_end_of_the_line() {
        check("1 // one\n+ 2", "1 ¦ + ¦ 2 ¦ <EOF>");
    }
}
