//! [`Interpreter`]: follows a command, and the scripts of `sh -c`, without executing anything.
//!
//! Understood are `sleep`, `true`, `false`, `echo`, `test`, `[`, `expr`, `touch` and shells with `-c`,
//! and in scripts also `:`, `exit`, `exec` and `[[`; joined by `;`, `&&` and `||`, negated by `!`, in
//! `if` and `while`, with quotes, variables, `$(expr …)` and `$((…))` of at most one operator. With
//! anything else the command as a whole is [not understood](Stop::NotUnderstood), as it is if it depends
//! on something that is not known, or is too long, too deep, or needs more than its [`Budget`].

mod parser;
mod budget;

use std::borrow::Cow;
use std::time::Duration;

use super::files::Files;
pub(super) use budget::Budget;
use parser::{Command, List, Part, RunIf, Simple, Word};

/// The number of bytes of a script.
const MAX_SCRIPT: usize = 16 * 1024;

/// The depth of scripts within scripts.
const MAX_DEPTH: u32 = 16;

/// The depth of commands within commands, in one script or in several.
const MAX_NESTING: u32 = 50;

/// Files that exist in every container, and to which output can be written.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/stdout", "/dev/stderr", "/dev/termination-log"];

/// Why a script has ended before its last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// By its own wish, with this exit code.
    Exit(i32),
    /// It does not end.
    Endless,
    /// It contains something that is not understood, or depends on something that is not known.
    NotUnderstood,
}

/// See the [module documentation](self).
pub(super) struct Interpreter<'a, 'f> {
    /// The time that the commands take.
    pub elapsed: Duration,
    variable: &'a dyn Fn(&str) -> Option<String>,
    files: &'a mut Files<'f>,
    budget: &'a mut Budget,
    depth: u32,
    nesting: u32,
}

impl<'a, 'f> Interpreter<'a, 'f> {
    /// An interpreter with these variables and files, and this budget.
    pub(super) fn new(
        variable: &'a dyn Fn(&str) -> Option<String>,
        files: &'a mut Files<'f>,
        budget: &'a mut Budget,
    ) -> Self {
        Self { elapsed: Duration::ZERO, variable, files, budget, depth: 0, nesting: 0 }
    }

    /// Follows a program. Returns its exit code.
    pub(super) fn execute(&mut self, words: &[&str]) -> Result<i32, Stop> {
        self.budget.take_steps(1 + words.len())?;
        let [path, arguments @ ..] = words else { return Ok(0) };
        match program_name(path) {
            "true" | "echo" => Ok(0),
            "false" => Ok(1),
            "sleep" => self.sleep(arguments),
            "test" => self.test(arguments, false),
            "[" => self.test(before(arguments, "]")?, false),
            "expr" => expr(arguments).map(|value| exit_code(value != 0)),
            "touch" if arguments.iter().all(|it| !it.starts_with('-')) => {
                for path in arguments {
                    self.make_file(path)?;
                }
                Ok(exit_code(!arguments.is_empty()))
            }
            "sh" | "ash" | "bash" | "dash" => match arguments {
                ["-c", script, ..] if !script.starts_with(['-', '+']) => self.script(script),
                _ => Err(Stop::NotUnderstood),
            },
            _ => Err(Stop::NotUnderstood),
        }
    }

    /// Follows a script in a shell of its own.
    fn script(&mut self, script: &str) -> Result<i32, Stop> {
        let list = self.enter(script)?;
        let ended = self.list(&list);
        self.depth -= 1;
        match ended {
            Err(Stop::Exit(code)) => Ok(code),
            other => other,
        }
    }

    fn enter(&mut self, script: &str) -> Result<List, Stop> {
        if self.depth == MAX_DEPTH || script.len() > MAX_SCRIPT {
            return Err(Stop::NotUnderstood);
        }
        let list = parser::parse(script, self.budget)?;
        self.depth += 1;
        Ok(list)
    }

    fn list(&mut self, list: &List) -> Result<i32, Stop> {
        let mut code = 0;
        for (run_if, command) in list {
            let runs = match run_if {
                RunIf::Always => true,
                RunIf::Success => code == 0,
                RunIf::Failure => code != 0,
            };
            if runs {
                code = self.command(command, code)?;
            }
        }
        Ok(code)
    }

    /// Follows a command; `last` is the exit code of the one before it.
    fn command(&mut self, command: &Command, last: i32) -> Result<i32, Stop> {
        if self.nesting == MAX_NESTING {
            return Err(Stop::NotUnderstood);
        }
        self.nesting += 1;
        let ended = self.nested_command(command, last);
        self.nesting -= 1;
        ended
    }

    fn nested_command(&mut self, command: &Command, last: i32) -> Result<i32, Stop> {
        self.budget.take_steps(1)?;
        match command {
            Command::Simple(simple) => self.simple(simple, last),
            Command::Not(command) => Ok(exit_code(self.command(command, last)? != 0)),
            Command::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.list(condition)? == 0 {
                        return self.list(body);
                    }
                }
                otherwise.as_ref().map_or(Ok(0), |list| self.list(list))
            }
            Command::While { condition, body } => {
                let mut code = 0;
                loop {
                    let files = self.files.len();
                    if self.list(condition)? != 0 {
                        return Ok(code);
                    }
                    code = self.list(body)?;
                    // Only files can make a round differ from the one before, and none is removed.
                    if self.files.len() == files {
                        return Err(Stop::Endless);
                    }
                }
            }
        }
    }

    fn simple(&mut self, simple: &Simple, last: i32) -> Result<i32, Stop> {
        let words = self.words(simple)?;
        for target in &simple.targets {
            let path = self.expand(target)?.ok_or(Stop::NotUnderstood)?;
            if !DEVICES.contains(&path.as_str()) {
                self.make_file(&path)?;
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            [":", ..] => Ok(0),
            ["exit"] => Err(Stop::Exit(last)),
            // A process has the last eight bits of the number as its exit code.
            ["exit", code] => {
                let code: u32 = code.parse().map_err(|_| Stop::NotUnderstood)?;
                Err(Stop::Exit((code & 0xff).cast_signed()))
            }
            ["exec", command @ ..] if !command.is_empty() => {
                Err(Stop::Exit(self.execute(command)?))
            }
            ["[[", condition @ ..] => self.test(before(condition, "]]")?, true),
            command => self.execute(command),
        }
    }

    fn words(&mut self, simple: &Simple) -> Result<Vec<String>, Stop> {
        let mut words = Vec::with_capacity(simple.words.len());
        for word in &simple.words {
            words.extend(self.expand(word)?);
        }
        Ok(words)
    }

    fn make_file(&mut self, path: &str) -> Result<(), Stop> {
        self.budget.take_bytes(path.len())?;
        self.files.make(path, self.elapsed).ok_or(Stop::NotUnderstood)
    }

    /// The text of a word; `None` if it is empty and not quoted, so that there is no such word.
    fn expand(&mut self, word: &Word) -> Result<Option<String>, Stop> {
        let mut text = String::new();
        for part in &word.parts {
            self.budget.take_steps(1)?;
            let expanded = match part {
                Part::Text(part) => Cow::Borrowed(part.as_str()),
                Part::Variable { name, is_quoted } => {
                    let value = (self.variable)(name).ok_or(Stop::NotUnderstood)?;
                    // It would become several words, or names of files.
                    if !is_quoted && value.contains([' ', '\t', '\n', '*', '?', '[', '\\']) {
                        return Err(Stop::NotUnderstood);
                    }
                    Cow::Owned(value)
                }
                Part::Output(script) => Cow::Owned(self.output(script)?.to_string()),
                Part::Arithmetic(text) => Cow::Owned(self.arithmetic(text)?.to_string()),
            };
            self.budget.take_bytes(expanded.len())?;
            text.push_str(&expanded);
        }
        Ok((word.is_quoted || !text.is_empty()).then_some(text))
    }

    /// The output of a script that consists of one `expr`.
    fn output(&mut self, script: &str) -> Result<i64, Stop> {
        let list = self.enter(script)?;
        let [(_, Command::Simple(simple))] = list.as_slice() else {
            return Err(Stop::NotUnderstood);
        };
        if !simple.targets.is_empty() {
            return Err(Stop::NotUnderstood);
        }
        let words = self.words(simple)?;
        self.depth -= 1;
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["expr", arguments @ ..] => expr(arguments),
            _ => Err(Stop::NotUnderstood),
        }
    }

    /// A number or variable, or two with an operator.
    fn arithmetic(&mut self, text: &str) -> Result<i64, Stop> {
        let text = text.trim();
        let operator = text.char_indices().skip(1).find(|(_, it)| "+-*/%".contains(*it));
        let Some((at, operator)) = operator else { return self.operand(text) };
        let (left, right) = (self.operand(&text[..at])?, self.operand(&text[at + 1..])?);
        calculate(left, operator, right)
    }

    fn operand(&mut self, text: &str) -> Result<i64, Stop> {
        let text = text.trim();
        let name = text.strip_prefix('$').unwrap_or(text);
        if !parser::is_name(name) {
            return number(text);
        }
        let value = (self.variable)(name).ok_or(Stop::NotUnderstood)?;
        self.budget.take_bytes(value.len())?;
        number(&value)
    }

    fn sleep(&mut self, arguments: &[&str]) -> Result<i32, Stop> {
        if arguments.is_empty() {
            return Err(Stop::NotUnderstood);
        }
        for argument in arguments {
            if *argument == "infinity" {
                return Err(Stop::Endless);
            }
            self.elapsed =
                self.elapsed.saturating_add(seconds(argument).ok_or(Stop::NotUnderstood)?);
        }
        Ok(0)
    }

    /// Follows a condition, in `[[ … ]]` or not.
    fn test(&self, arguments: &[&str], is_double: bool) -> Result<i32, Stop> {
        let (is_negated, condition) = match arguments {
            ["!", condition @ ..] if !condition.is_empty() => (true, condition),
            condition => (false, condition),
        };
        let compare = |left, right, holds: fn(&i64, &i64) -> bool| {
            Ok::<_, Stop>(holds(&number(left)?, &number(right)?))
        };
        let holds = match condition {
            [] if !is_double => false,
            [text] | ["-n", text] => !text.is_empty(),
            ["-z", text] => text.is_empty(),
            ["-e" | "-f" | "-r", path] => self.files.exists(path).ok_or(Stop::NotUnderstood)?,
            [left, "=", right] => left == right,
            [left, "==", right] if is_double => left == right,
            [left, "!=", right] => left != right,
            [left, "-eq", right] => compare(left, right, i64::eq)?,
            [left, "-ne", right] => compare(left, right, i64::ne)?,
            [left, "-lt", right] => compare(left, right, i64::lt)?,
            [left, "-le", right] => compare(left, right, i64::le)?,
            [left, "-gt", right] => compare(left, right, i64::gt)?,
            [left, "-ge", right] => compare(left, right, i64::ge)?,
            _ => return Err(Stop::NotUnderstood),
        };
        Ok(exit_code(holds != is_negated))
    }
}

/// The value of `expr` with one operator.
fn expr(arguments: &[&str]) -> Result<i64, Stop> {
    let [left, operator, right] = arguments else { return Err(Stop::NotUnderstood) };
    let mut operator = operator.chars();
    match (operator.next(), operator.next()) {
        (Some(operator), None) => calculate(number(left)?, operator, number(right)?),
        _ => Err(Stop::NotUnderstood),
    }
}

/// The name of a program that images have in the usual places; empty for others.
pub(super) fn program_name(path: &str) -> &str {
    let name = path.strip_prefix("/usr").filter(|it| it.starts_with("/bin/")).unwrap_or(path);
    let name = name.strip_prefix("/bin/").unwrap_or(name);
    if name.contains('/') { "" } else { name }
}

/// The words before the last one, which closes a condition.
fn before<'w, 't>(words: &'w [&'t str], closing: &str) -> Result<&'w [&'t str], Stop> {
    let (last, condition) = words.split_last().ok_or(Stop::NotUnderstood)?;
    if *last == closing { Ok(condition) } else { Err(Stop::NotUnderstood) }
}

/// The exit code of a condition.
fn exit_code(holds: bool) -> i32 {
    i32::from(!holds)
}

/// A decimal number. One that begins with 0 is octal for some programs.
fn number(text: &str) -> Result<i64, Stop> {
    let value: i64 = text.parse().map_err(|_| Stop::NotUnderstood)?;
    if value.to_string() == text { Ok(value) } else { Err(Stop::NotUnderstood) }
}

fn calculate(left: i64, operator: char, right: i64) -> Result<i64, Stop> {
    let value = match operator {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        '*' => left.checked_mul(right),
        '/' => left.checked_div(right),
        '%' => left.checked_rem(right),
        _ => None,
    };
    value.ok_or(Stop::NotUnderstood)
}

/// `5`, `0.5`, `5s`, `2m`, `1h`, `1d`
fn seconds(text: &str) -> Option<Duration> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h', 'd']) {
        Some(number) => (number, text.as_bytes().last()?),
        None => (text, &b's'),
    };
    let factor = match unit {
        b'm' => 60.0,
        b'h' => 3_600.0,
        b'd' => 86_400.0,
        _ => 1.0,
    };
    let is_plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let number = number.parse::<f64>().ok().filter(|_| is_plain)?;
    Duration::try_from_secs_f64(number * factor).ok()
}

/// Whether the syntax of a script of any length is understood.
#[cfg(test)]
pub(super) fn parses(script: &str, budget: &mut Budget) -> bool {
    parser::parse(script, budget).is_ok()
}
