//! [`Machine`]: follows a command, and the scripts of `sh -c`, without executing anything.
//!
//! Understood are `sleep`, `true`, `false`, `:`, `exit`, `exec`, `echo`, `printf`, `test`, `[`, `[[`,
//! `expr` and `touch`, joined by `;`, `&&` and `||`, in `if`, `while` and `until`, with quotes,
//! variables and `$(…)`. Files exist if the script has made them. With anything else the command as a
//! whole is [not understood](Stop::NotUnderstood).

mod parser;

use std::collections::BTreeSet;
use std::time::Duration;

use parser::{Command, Joint, List, Part, Simple, Word};

/// A loop that has run so often is taken for an endless one.
const MAX_ROUNDS: u32 = 1_000;

/// The number of commands after which a script is not followed any further.
const MAX_COMMANDS: u32 = 10_000;

/// The depth of scripts within scripts.
const MAX_DEPTH: u32 = 16;

/// Why a script has ended before its last command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// By its own wish, with this exit code.
    Exit(i32),
    /// It does not end.
    Endless,
    /// It contains something that is not understood.
    NotUnderstood,
}

/// See the [module documentation](self).
pub(super) struct Machine<'a> {
    /// The time that the commands take.
    pub elapsed: Duration,
    variable: &'a dyn Fn(&str) -> Option<String>,
    files: &'a mut BTreeSet<String>,
    output: String,
    commands: u32,
    depth: u32,
}

impl<'a> Machine<'a> {
    /// A machine with these variables and files.
    pub(super) fn new(
        variable: &'a dyn Fn(&str) -> Option<String>,
        files: &'a mut BTreeSet<String>,
    ) -> Self {
        let (elapsed, output) = (Duration::ZERO, String::new());
        Self { elapsed, variable, files, output, commands: 0, depth: 0 }
    }

    /// Follows a command without a shell. Returns its exit code.
    pub(super) fn execute(&mut self, words: &[&str]) -> Result<i32, Stop> {
        self.commands += 1;
        let [path, arguments @ ..] = words else { return Ok(0) };
        if self.commands > MAX_COMMANDS {
            return Err(Stop::NotUnderstood);
        }
        match path.rsplit('/').next().unwrap_or_default() {
            "true" | ":" => Ok(0),
            "false" => Ok(1),
            "sleep" => self.sleep(arguments),
            "echo" | "printf" => {
                self.output.push_str(&arguments.join(" "));
                Ok(0)
            }
            "test" => self.test(arguments).map(exit_code),
            name @ ("[" | "[[") => {
                let end = if name == "[" { "]" } else { "]]" };
                let (last, condition) = arguments.split_last().ok_or(Stop::NotUnderstood)?;
                if *last != end {
                    return Err(Stop::NotUnderstood);
                }
                self.test(condition).map(exit_code)
            }
            "expr" => self.expr(arguments),
            "touch" if arguments.iter().all(|it| !it.starts_with('-')) => {
                self.files.extend(arguments.iter().map(|&path| path.to_owned()));
                Ok(0)
            }
            "sh" | "ash" | "bash" | "dash" => match arguments {
                ["-c", script, ..] => self.script(script),
                _ => Err(Stop::NotUnderstood),
            },
            _ => Err(Stop::NotUnderstood),
        }
    }

    /// Follows a script in a shell of its own.
    fn script(&mut self, script: &str) -> Result<i32, Stop> {
        if self.depth == MAX_DEPTH {
            return Err(Stop::NotUnderstood);
        }
        let list = parser::parse(script).ok_or(Stop::NotUnderstood)?;
        self.depth += 1;
        let ended = self.list(&list);
        self.depth -= 1;
        match ended {
            Err(Stop::Exit(code)) => Ok(code),
            other => other,
        }
    }

    fn list(&mut self, list: &List) -> Result<i32, Stop> {
        let mut code = 0;
        for (joint, command) in list {
            let runs = match joint {
                Joint::Always => true,
                Joint::And => code == 0,
                Joint::Or => code != 0,
            };
            if runs {
                code = self.command(command, code)?;
            }
        }
        Ok(code)
    }

    /// Follows a command; `last` is the exit code of the one before it.
    fn command(&mut self, command: &Command, last: i32) -> Result<i32, Stop> {
        match command {
            Command::Simple(simple) => self.simple(simple, last),
            Command::Not(command) => Ok(exit_code(self.command(command, last)? != 0)),
            Command::Group(list) => self.list(list),
            Command::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.list(condition)? == 0 {
                        return self.list(body);
                    }
                }
                otherwise.as_ref().map_or(Ok(0), |list| self.list(list))
            }
            Command::While { condition, body, ends_on_success } => {
                for _ in 0..MAX_ROUNDS {
                    if (self.list(condition)? == 0) == *ends_on_success {
                        return Ok(0);
                    }
                    self.list(body)?;
                }
                Err(Stop::Endless)
            }
        }
    }

    fn simple(&mut self, simple: &Simple, last: i32) -> Result<i32, Stop> {
        let mut words = Vec::with_capacity(simple.words.len());
        for word in &simple.words {
            words.extend(self.expand(word)?);
        }
        for target in &simple.targets {
            let path = self.expand(target)?.ok_or(Stop::NotUnderstood)?;
            if !path.starts_with("/dev/") {
                self.files.insert(path);
            }
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["exit"] => Err(Stop::Exit(last)),
            // A process has the last eight bits of the number as its exit code.
            ["exit", code] => {
                let code: i32 = code.parse().map_err(|_| Stop::NotUnderstood)?;
                Err(Stop::Exit(code & 0xff))
            }
            ["exec", command @ ..] => Err(Stop::Exit(self.execute(command)?)),
            command => self.execute(command),
        }
    }

    /// The text of a word; `None` if it is empty and not quoted, so that there is no such word.
    fn expand(&mut self, word: &Word) -> Result<Option<String>, Stop> {
        let mut text = String::new();
        for part in &word.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Variable(name) => {
                    text.push_str(&(self.variable)(name).ok_or(Stop::NotUnderstood)?);
                }
                Part::Output(script) => {
                    let before = std::mem::take(&mut self.output);
                    self.script(script)?;
                    let output = std::mem::replace(&mut self.output, before);
                    text.push_str(output.trim_end());
                }
            }
        }
        Ok((word.is_quoted || !text.is_empty()).then_some(text))
    }

    fn sleep(&mut self, arguments: &[&str]) -> Result<i32, Stop> {
        if arguments.is_empty() {
            return Err(Stop::NotUnderstood);
        }
        for argument in arguments {
            if matches!(*argument, "infinity" | "inf") {
                return Err(Stop::Endless);
            }
            self.elapsed =
                self.elapsed.saturating_add(seconds(argument).ok_or(Stop::NotUnderstood)?);
        }
        Ok(0)
    }

    fn test(&self, arguments: &[&str]) -> Result<bool, Stop> {
        let number = |text: &str| text.parse::<i64>().map_err(|_| Stop::NotUnderstood);
        Ok(match arguments {
            [] => false,
            ["!", condition @ ..] => !self.test(condition)?,
            [text] | ["-n", text] => !text.is_empty(),
            ["-z", text] => text.is_empty(),
            ["-e" | "-f" | "-r" | "-w", path] => self.files.contains(*path),
            [left, "=" | "==", right] => left == right,
            [left, "!=", right] => left != right,
            [left, "-eq", right] => number(left)? == number(right)?,
            [left, "-ne", right] => number(left)? != number(right)?,
            [left, "-lt", right] => number(left)? < number(right)?,
            [left, "-le", right] => number(left)? <= number(right)?,
            [left, "-gt", right] => number(left)? > number(right)?,
            [left, "-ge", right] => number(left)? >= number(right)?,
            _ => return Err(Stop::NotUnderstood),
        })
    }

    fn expr(&mut self, arguments: &[&str]) -> Result<i32, Stop> {
        let [left, operator, right] = arguments else { return Err(Stop::NotUnderstood) };
        let (Ok(left), Ok(right)) = (left.parse::<i64>(), right.parse::<i64>()) else {
            return Err(Stop::NotUnderstood);
        };
        let value = match *operator {
            "+" => left.checked_add(right),
            "-" => left.checked_sub(right),
            "*" => left.checked_mul(right),
            "/" => left.checked_div(right),
            "%" => left.checked_rem(right),
            _ => None,
        };
        let value = value.ok_or(Stop::NotUnderstood)?;
        self.output.push_str(&value.to_string());
        Ok(exit_code(value != 0))
    }
}

/// The exit code of a condition.
fn exit_code(holds: bool) -> i32 {
    i32::from(!holds)
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
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()
}
