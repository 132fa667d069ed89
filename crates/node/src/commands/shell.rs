//! [`Machine`]: follows a command, and the scripts of `sh -c`, without executing anything.
//!
//! Understood are `sleep`, `true`, `false`, `:`, `exit`, `exec`, `echo`, `printf`, `test`, `[`, `[[`,
//! `expr` and `touch`, joined by `;`, `&&` and `||`, in `if`, `while` and `until`, with quotes,
//! variables and `$(…)`. Files exist if the script has made them. With anything else the command as a
//! whole is [not understood](Stop::NotUnderstood), as it is if it is too long, too deep, or needs more
//! than its [`Budget`].

mod parser;
mod budget;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) use budget::Budget;
use parser::{Command, Joint, List, Part, Simple, Word};

/// The number of bytes of a script.
const MAX_SCRIPT: usize = 16 * 1024;

/// The depth of scripts within scripts.
const MAX_DEPTH: u32 = 16;

/// The depth of commands within commands, in one script or in several.
const MAX_NESTING: u32 = 50;

/// The number of bytes of a path, as in Linux.
pub(super) const MAX_PATH: usize = 4_096;

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
    budget: &'a mut Budget,
    /// The output so far; kept only in `$(…)`.
    output: Option<String>,
    depth: u32,
    nesting: u32,
}

impl<'a> Machine<'a> {
    /// A machine with these variables and files, and this budget.
    pub(super) fn new(
        variable: &'a dyn Fn(&str) -> Option<String>,
        files: &'a mut BTreeSet<String>,
        budget: &'a mut Budget,
    ) -> Self {
        let elapsed = Duration::ZERO;
        Self { elapsed, variable, files, budget, output: None, depth: 0, nesting: 0 }
    }

    /// Follows a command without a shell. Returns its exit code.
    pub(super) fn execute(&mut self, words: &[&str]) -> Result<i32, Stop> {
        self.budget.take_steps(1 + words.len())?;
        let [path, arguments @ ..] = words else { return Ok(0) };
        match path.rsplit('/').next().unwrap_or_default() {
            "true" | ":" => Ok(0),
            "false" => Ok(1),
            "sleep" => self.sleep(arguments),
            program @ ("echo" | "printf") => {
                if let Some(output) = &mut self.output {
                    // Options and formats are not followed, and the output decides what comes next.
                    if program == "printf" || arguments.iter().any(|it| it.starts_with('-')) {
                        return Err(Stop::NotUnderstood);
                    }
                    self.budget.take_bytes(arguments.iter().map(|it| it.len() + 1).sum())?;
                    output.push_str(&arguments.join(" "));
                }
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
                for path in arguments {
                    self.touch(path)?;
                }
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
        if self.depth == MAX_DEPTH || script.len() > MAX_SCRIPT {
            return Err(Stop::NotUnderstood);
        }
        let list = parser::parse(script, self.budget)?;
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
            Command::Group(list) => self.list(list),
            Command::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.list(condition)? == 0 {
                        return self.list(body);
                    }
                }
                otherwise.as_ref().map_or(Ok(0), |list| self.list(list))
            }
            Command::While { condition, body, ends_on_success } => loop {
                let files = self.files.len();
                if (self.list(condition)? == 0) == *ends_on_success {
                    return Ok(0);
                }
                self.list(body)?;
                // Only files can make a round differ from the one before, and none is removed.
                if self.files.len() == files {
                    return Err(Stop::Endless);
                }
            },
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
                self.touch(&path)?;
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

    fn touch(&mut self, path: &str) -> Result<(), Stop> {
        if path.len() > MAX_PATH {
            return Err(Stop::NotUnderstood);
        }
        self.budget.take_bytes(path.len())?;
        self.files.insert(path.to_owned());
        Ok(())
    }

    /// The text of a word; `None` if it is empty and not quoted, so that there is no such word.
    fn expand(&mut self, word: &Word) -> Result<Option<String>, Stop> {
        let mut text = String::new();
        for part in &word.parts {
            self.budget.take_steps(1)?;
            let expanded = match part {
                Part::Text(part) => Cow::Borrowed(part.as_str()),
                Part::Variable(name) => {
                    Cow::Owned((self.variable)(name).ok_or(Stop::NotUnderstood)?)
                }
                Part::Output(script) => {
                    let before = self.output.replace(String::new());
                    self.script(script)?;
                    let output = std::mem::replace(&mut self.output, before);
                    Cow::Owned(output.unwrap_or_default().trim_end().to_owned())
                }
            };
            self.budget.take_bytes(expanded.len())?;
            text.push_str(&expanded);
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

    fn test(&self, mut arguments: &[&str]) -> Result<bool, Stop> {
        let mut is_negated = false;
        while let ["!", condition @ ..] = arguments {
            arguments = condition;
            is_negated = !is_negated;
        }
        let number = |text: &str| text.parse::<i64>().map_err(|_| Stop::NotUnderstood);
        let holds = match arguments {
            [] => false,
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
        };
        Ok(holds != is_negated)
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
        if let Some(output) = &mut self.output {
            let text = value.to_string();
            self.budget.take_bytes(text.len())?;
            output.push_str(&text);
        }
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

/// Whether the syntax of a script of any length is understood.
#[cfg(test)]
pub(super) fn parses(script: &str, budget: &mut Budget) -> bool {
    parser::parse(script, budget).is_ok()
}
