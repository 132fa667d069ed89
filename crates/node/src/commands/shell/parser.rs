//! The syntax of the scripts that an [`Interpreter`](super::Interpreter) follows.

use super::{Budget, MAX_NESTING, Stop};

/// The number of bytes that are read in a step.
const BYTES_PER_STEP: usize = 16;

/// Commands in a row, each with its relation to the one before.
pub(super) type List = Vec<(RunIf, Command)>;

/// When a command of a list runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunIf {
    /// `;`
    Always,
    /// `&&`
    Success,
    /// `||`
    Failure,
}

/// A command.
#[derive(Debug)]
pub(super) enum Command {
    Simple(Simple),
    Not(Box<Self>),
    If {
        /// Conditions and bodies.
        arms: Vec<(List, List)>,
        otherwise: Option<List>,
    },
    While {
        condition: List,
        body: List,
    },
}

/// A program or builtin with its arguments.
#[derive(Debug, Default)]
pub(super) struct Simple {
    pub words: Vec<Word>,
    /// The files to which output is redirected.
    pub targets: Vec<Word>,
}

/// A word.
#[derive(Debug, Default, Clone)]
pub(super) struct Word {
    pub parts: Vec<Part>,
    /// Whether a part of it is in quotes.
    pub is_quoted: bool,
}

/// A part of a word.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Text(String),
    /// `$NAME`
    Variable {
        name: String,
        is_quoted: bool,
    },
    /// `$(script)`
    Output(String),
    /// `$((1 + 2))`
    Arithmetic(String),
}

#[derive(Debug)]
enum Token {
    Word(Word),
    /// `;` or the end of a line
    Separator,
    And,
    Or,
    /// `>`, `>>`, `2>`
    Redirect,
}

/// The commands of a script, if its syntax is understood.
pub(super) fn parse(script: &str, budget: &mut Budget) -> Result<List, Stop> {
    budget.take_steps(script.len() / BYTES_PER_STEP)?;
    let tokens = Tokenizer { rest: script, tokens: Vec::new() }.tokens();
    let mut tokens = tokens.ok_or(Stop::NotUnderstood)?;
    for token in &tokens {
        budget.take_steps(match token {
            Token::Word(word) => 1 + word.parts.len(),
            _ => 1,
        })?;
    }
    tokens.reverse();
    let mut parser = Parser { tokens, nesting: 0 };
    let list = parser.list(&[]).filter(|_| parser.tokens.is_empty());
    list.ok_or(Stop::NotUnderstood)
}

struct Tokenizer<'a> {
    rest: &'a str,
    tokens: Vec<Token>,
}

impl Tokenizer<'_> {
    fn tokens(mut self) -> Option<Vec<Token>> {
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            let Some(first) = self.rest.chars().next() else { return Some(self.tokens) };
            let known = [
                ("&&", Token::And),
                ("||", Token::Or),
                (">>", Token::Redirect),
                ("2>&1", Token::Separator),
                ("2>", Token::Redirect),
                (">", Token::Redirect),
                (";", Token::Separator),
                ("\n", Token::Separator),
            ];
            let known = known.into_iter().find(|(text, _)| self.rest.starts_with(text));
            if let Some((text, token)) = known {
                self.rest = &self.rest[text.len()..];
                // The errors go where the output goes.
                if text != "2>&1" {
                    self.tokens.push(token);
                }
            } else if first == '#' {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if "&|<()`\r".contains(first) {
                return None;
            } else {
                let word = self.word()?;
                self.tokens.push(Token::Word(word));
            }
        }
    }

    fn word(&mut self) -> Option<Word> {
        let mut word = Word::default();
        let mut has_bracket = false;
        while let Some(first) = self.rest.chars().next() {
            match first {
                // A number before `>` is the one of a file descriptor.
                '>' if literal(&word).is_some_and(|it| it.parse::<u32>().is_ok()) => return None,
                ' ' | '\t' | '\n' | ';' | '>' => break,
                '&' | '|' if self.rest.starts_with("&&") || self.rest.starts_with("||") => break,
                // Files by patterns, braces and the like.
                '&' | '|' | '<' | '(' | ')' | '`' | '*' | '?' | '~' | '{' | '}' | '\r' => {
                    return None;
                }
                '\'' => {
                    let (text, rest) = self.rest[1..].split_once('\'')?;
                    push_text(&mut word, text);
                    word.is_quoted = true;
                    self.rest = rest;
                }
                '"' => {
                    self.rest = &self.rest[1..];
                    word.is_quoted = true;
                    self.quoted(&mut word)?;
                }
                '$' => self.expansion(&mut word, false)?,
                '\\' if self.rest[1..].starts_with('\n') => return None,
                '\\' => {
                    self.rest = &self.rest[1..];
                    self.character(&mut word)?;
                    word.is_quoted = true;
                }
                _ => {
                    has_bracket |= first == '[';
                    self.character(&mut word)?;
                }
            }
        }
        // Other words with a bracket are patterns.
        let is_pattern = has_bracket && !matches!(literal(&word), Some("[" | "[["));
        (!is_pattern).then_some(word)
    }

    /// The rest of a text in double quotes.
    fn quoted(&mut self, word: &mut Word) -> Option<()> {
        loop {
            match self.rest.chars().next()? {
                '"' => {
                    self.rest = &self.rest[1..];
                    return Some(());
                }
                '$' => self.expansion(word, true)?,
                '`' => return None,
                '\\' if self.rest[1..].starts_with('\n') => return None,
                '\\' if self.rest[1..].starts_with(['"', '\\', '$', '`']) => {
                    self.rest = &self.rest[1..];
                    self.character(word)?;
                }
                _ => self.character(word)?,
            }
        }
    }

    fn character(&mut self, word: &mut Word) -> Option<()> {
        let first = self.rest.chars().next()?;
        let (text, rest) = self.rest.split_at(first.len_utf8());
        push_text(word, text);
        self.rest = rest;
        Some(())
    }

    /// `$NAME`, `${NAME}`, `$(script)` or `$((1 + 2))`
    fn expansion(&mut self, word: &mut Word, is_quoted: bool) -> Option<()> {
        let rest = &self.rest[1..];
        if let Some(rest) = rest.strip_prefix("((") {
            let (text, rest) = rest.split_once("))")?;
            word.parts.push(Part::Arithmetic(text.to_owned()));
            self.rest = rest;
            return Some(());
        }
        if let Some(rest) = rest.strip_prefix('(') {
            let end = closing(rest)?;
            word.parts.push(Part::Output(rest[..end].to_owned()));
            self.rest = &rest[end + 1..];
            return Some(());
        }
        let (name, rest) = if let Some(rest) = rest.strip_prefix('{') {
            rest.split_once('}')?
        } else {
            let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
            rest.split_at(rest.find(|it| !is_part(it)).unwrap_or(rest.len()))
        };
        if !is_name(name) {
            return None;
        }
        word.parts.push(Part::Variable { name: name.to_owned(), is_quoted });
        self.rest = rest;
        Some(())
    }
}

/// Whether a text can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

fn push_text(word: &mut Word, text: &str) {
    if let Some(Part::Text(last)) = word.parts.last_mut() {
        last.push_str(text);
    } else {
        word.parts.push(Part::Text(text.to_owned()));
    }
}

/// The place of the parenthesis that closes one before `text`. Quotes are not understood here.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return Some(at),
            ')' => depth -= 1,
            '\'' | '"' | '\\' => return None,
            _ => {}
        }
    }
    None
}

struct Parser {
    /// The tokens, the next one last.
    tokens: Vec<Token>,
    /// The number of commands around the next token.
    nesting: u32,
}

impl Parser {
    /// Commands up to one of these words, which remains.
    fn list(&mut self, ends: &[&str]) -> Option<List> {
        let mut list = List::new();
        let mut run_if = RunIf::Always;
        loop {
            match self.tokens.last() {
                Some(Token::Separator) if run_if == RunIf::Always || !list.is_empty() => {
                    self.tokens.pop();
                    continue;
                }
                None => return (run_if == RunIf::Always && ends.is_empty()).then_some(list),
                Some(Token::Word(word)) if ends.contains(&literal(word).unwrap_or_default()) => {
                    return (run_if == RunIf::Always && !list.is_empty()).then_some(list);
                }
                Some(_) => {}
            }
            list.push((run_if, self.command()?));
            run_if = match self.tokens.last() {
                Some(Token::And) => RunIf::Success,
                Some(Token::Or) => RunIf::Failure,
                Some(Token::Separator) => RunIf::Always,
                None if ends.is_empty() => return Some(list),
                _ => return None,
            };
            self.tokens.pop();
        }
    }

    fn command(&mut self) -> Option<Command> {
        if self.nesting == MAX_NESTING {
            return None;
        }
        self.nesting += 1;
        let command = self.nested_command();
        self.nesting -= 1;
        command
    }

    fn nested_command(&mut self) -> Option<Command> {
        let Some(Token::Word(first)) = self.tokens.last() else { return None };
        match literal(first).unwrap_or_default() {
            "!" => {
                self.tokens.pop();
                Some(Command::Not(Box::new(self.command()?)))
            }
            "if" => self.condition(),
            "while" => {
                self.tokens.pop();
                let condition = self.list(&["do"])?;
                self.keyword("do")?;
                let body = self.list(&["done"])?;
                self.keyword("done")?;
                Some(Command::While { condition, body })
            }
            "for" | "case" | "function" | "then" | "do" | "done" | "fi" | "else" | "elif" => None,
            _ => self.simple(),
        }
    }

    fn condition(&mut self) -> Option<Command> {
        let (mut arms, mut otherwise) = (Vec::new(), None);
        loop {
            // `if` or `elif`
            self.tokens.pop();
            let condition = self.list(&["then"])?;
            self.keyword("then")?;
            let body = self.list(&["elif", "else", "fi"])?;
            arms.push((condition, body));
            if !matches!(self.tokens.last(), Some(Token::Word(it)) if literal(it) == Some("elif")) {
                break;
            }
        }
        if self.keyword("else").is_some() {
            otherwise = Some(self.list(&["fi"])?);
        }
        self.keyword("fi")?;
        Some(Command::If { arms, otherwise })
    }

    fn simple(&mut self) -> Option<Command> {
        let mut simple = Simple::default();
        loop {
            match self.tokens.last() {
                Some(Token::Word(_)) => simple.words.push(self.word()?),
                Some(Token::Redirect) => {
                    self.tokens.pop();
                    simple.targets.push(self.word()?);
                }
                _ => break,
            }
        }
        let is_assignment = |word: &Word| match word.parts.first() {
            Some(Part::Text(text)) => !word.is_quoted && text.contains('='),
            _ => false,
        };
        // A variable that is set is not followed.
        (!is_assignment(simple.words.first()?)).then_some(Command::Simple(simple))
    }

    fn word(&mut self) -> Option<Word> {
        match self.tokens.pop()? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Takes this word.
    fn keyword(&mut self, keyword: &str) -> Option<()> {
        match self.tokens.last() {
            Some(Token::Word(word)) if literal(word) == Some(keyword) => {
                self.tokens.pop();
                Some(())
            }
            _ => None,
        }
    }
}

/// The text of a word that contains neither quotes nor expansions.
fn literal(word: &Word) -> Option<&str> {
    match word.parts.as_slice() {
        [Part::Text(text)] if !word.is_quoted => Some(text),
        _ => None,
    }
}
