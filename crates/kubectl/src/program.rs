//! [`call`]: the program `kubectl`, with its usage errors and its exit codes.

use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::io::Io;
use crate::verb::{Verb, run_for_code};

/// The global flags that kubectl accepts before the verb and that have a value.
const VALUED: [&str; 20] = [
    "--kubeconfig",
    "--context",
    "--cluster",
    "--user",
    "--namespace",
    "-n",
    "--server",
    "-s",
    "--token",
    "--as",
    "--as-group",
    "--as-uid",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--tls-server-name",
    "--request-timeout",
    "--cache-dir",
    "--v",
    "-v",
];

/// kubectl controls the Kubernetes cluster manager.
#[derive(Debug, Parser)]
#[command(name = "kubectl", disable_help_subcommand = true, disable_version_flag = true)]
struct Kubectl {
    #[command(subcommand)]
    verb: Verb,
}

/// Runs a whole command line, without the name of the program, as kubectl would.
///
/// ```no_run
/// # async fn example() -> anyhow::Result<()> {
/// let args = std::env::args().skip(1).collect();
/// let exit_code = kubectl::call(args, &mut kubectl::Io::standard()).await?;
/// # Ok(())
/// # }
/// ```
pub async fn call(args: Vec<String>, io: &mut Io) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::from(call_for_code(args, io).await?))
}

/// [`call`], with the exit code as a number.
#[doc(hidden)]
pub async fn call_for_code(args: Vec<String>, io: &mut Io) -> anyhow::Result<u8> {
    let args = verb_first(args);
    let verb = args.first().cloned().unwrap_or_default();
    let args = std::iter::once("kubectl".to_owned()).chain(args);
    match Kubectl::try_parse_from(args) {
        Ok(parsed) => run_for_code(parsed.verb, io).await,
        Err(error) if !error.use_stderr() => {
            io.print(&error.to_string())?;
            Ok(0)
        }
        Err(error) => {
            io.note(&usage_error(&error, &verb));
            Ok(1)
        }
    }
}

/// Moves the flags before the verb behind it, where its parser expects them.
fn verb_first(args: Vec<String>) -> Vec<String> {
    let mut before = Vec::new();
    let mut rest = args.into_iter().peekable();
    while let Some(flag) = rest.next_if(|it| it.starts_with('-') && it != "-h" && it != "--help") {
        let is_valued = VALUED.contains(&flag.as_str());
        before.push(flag);
        if is_valued {
            before.extend(rest.next());
        }
    }
    let mut rest: Vec<String> = rest.collect();
    // What follows two dashes is a command of a container.
    let end = rest.iter().position(|it| it == "--").unwrap_or(rest.len());
    rest.splice(end..end, before);
    rest
}

/// The error of a command line in the words of kubectl, where it has words for it.
fn usage_error(error: &clap::Error, verb: &str) -> String {
    let value = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    // The name of a flag, without its value.
    let flag = value(ContextKind::InvalidArg);
    let flag = flag.split([' ', '=', '[']).next().unwrap_or_default();
    let text = match error.kind() {
        ErrorKind::UnknownArgument if flag.starts_with("--") => format!("unknown flag: {flag}"),
        ErrorKind::UnknownArgument if flag.starts_with('-') => {
            let letter = flag.trim_start_matches('-');
            format!("unknown shorthand flag: '{letter}' in {flag}")
        }
        ErrorKind::UnknownArgument => format!("unexpected argument: {flag}"),
        ErrorKind::InvalidSubcommand => {
            let name = value(ContextKind::InvalidSubcommand);
            return format!("error: unknown command {name:?} for \"kubectl\"");
        }
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            match value(ContextKind::InvalidValue).as_str() {
                "" => format!("flag needs an argument: {flag}"),
                invalid => {
                    let reason = std::error::Error::source(error);
                    let reason = reason.map_or("unknown value".to_owned(), ToString::to_string);
                    format!("invalid argument {invalid:?} for {flag:?} flag: {reason}")
                }
            }
        }
        ErrorKind::MissingRequiredArgument => return missing(error),
        _ => return error.to_string().trim_end().to_owned(),
    };
    format!("error: {text}\nSee 'kubectl {verb} --help' for usage.")
}

/// The error of flags or arguments that are missing.
fn missing(error: &clap::Error) -> String {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
        return error.to_string().trim_end().to_owned();
    };
    let flags: Vec<String> = missing
        .iter()
        .filter_map(|it| it.strip_prefix("--")?.split([' ', '=']).next())
        .map(|it| format!("{it:?}"))
        .collect();
    if flags.is_empty() {
        return "error: exactly one NAME is required, got 0".to_owned();
    }
    format!("error: required flag(s) {} not set", flags.join(", "))
}
