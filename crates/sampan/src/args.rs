//! The command line: global options and subcommands.

use std::str::FromStr;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::commands::auth::AuthArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::certs::CertsArgs;
use crate::commands::completion::CompletionArgs;
use crate::commands::toolkit::{self, ToolkitCommand};
use crate::commands::up::UpArgs;
use crate::commands::user::UserArgs;

const EXAMPLES: &str = "Examples:
  sampan up                          a control plane on this machine, stored in its data directory
  sampan up --in-memory              the same, without storing anything
  kubectl get namespaces             (the kubeconfig was written by `sampan up`)
  sampan user add jane --role view --namespace shop
                                     a context for somebody who may read in one namespace
  sampan auth can-i list pods --as jane --namespace shop
  sampan get pods --watch            the client verbs have kubectl's flags and output
  sampan init --domain mock.com --repo github.com/example/operator-demo
  sampan create api --group zhhnzw --version v1 --kind CustomPod
                                     an operator in Rust, with a test
  sampan bench --objects 1000        measures its speed";

/// A Kubernetes API server, an operator runtime and a toolkit in one binary.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Args {
    /// Log filter, as in `info` or `apiserver=debug`; the environment variable `RUST_LOG` has the
    /// same form.
    // The parser that clap would choose prints a warning for invalid parts and continues.
    #[arg(long, global = true, value_name = "FILTER", value_parser = parse_filter, display_order = 900)]
    pub log: Option<EnvFilter>,
    #[command(subcommand)]
    pub command: Command,
}

/// Parses a filter whose parts without `=` are levels. `EnvFilter`'s own parser takes any other word
/// for the name of a target, and then logs nothing.
fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    let is_level = |it: &str| it.parse::<LevelFilter>().is_ok();
    let mut parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    if let Some(part) = parts.find(|it| !it.contains(['=', '[']) && !is_level(it)) {
        return Err(format!(
            "{part:?} is not a level: use one of \"off\", \"error\", \"warn\", \"info\", \
             \"debug\", \"trace\", or {part}=trace for everything that a target logs"
        ));
    }
    EnvFilter::from_str(text).map_err(|error| error.to_string())
}

/// The subcommands.
// Only the arguments of the command that is called are made: those of all are 2 MiB of memory, which a
// plane would keep.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    // The texts are those of the arguments, which are not made for the list of commands.
    /// Start a control plane and run it until a signal stops it
    Up(Box<UpArgs>),
    /// Give people and machines access to a cluster
    #[command(alias = "users")]
    User(Box<UserArgs>),
    /// Ask who you are and what you may do
    Auth(Box<AuthArgs>),
    /// Measure the speed of an API server
    Bench(Box<BenchArgs>),
    /// Replace the certificate authority of a plane
    Certs(CertsArgs),
    /// Print a completion script for a shell
    Completion(CompletionArgs),
    #[command(flatten)]
    Verb(kubectl::Verb),
}

/// The arguments of the program.
pub(crate) struct Parsed {
    /// The filter of the log.
    pub log: Option<EnvFilter>,
    pub command: ParsedCommand,
}

/// A command of the program.
pub(crate) enum ParsedCommand {
    Plane(Command),
    Toolkit(ToolkitCommand),
}

/// The program with all its commands.
pub(crate) fn program() -> clap::Command {
    toolkit::augment(Args::command())
}

/// Parses the arguments of this process.
pub(crate) fn parse() -> Result<Parsed, clap::Error> {
    let matches = program().try_get_matches()?;
    if let Some(command) = ToolkitCommand::from_matches(&matches)? {
        let log = matches.get_one("log").cloned();
        return Ok(Parsed { log, command: ParsedCommand::Toolkit(command) });
    }
    let Args { log, command } = Args::from_arg_matches(&matches)?;
    Ok(Parsed { log, command: ParsedCommand::Plane(command) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_arguments_of_a_command_have_the_same_name() {
        super::program().debug_assert();
    }

    /// Calls `check` with a command and all below it.
    fn walk(command: &mut clap::Command, check: &mut impl FnMut(&mut clap::Command)) {
        check(command);
        command.get_subcommands_mut().for_each(|it| walk(it, check));
    }

    #[test]
    fn no_help_text_is_one_of_the_source() {
        let mut program = super::program();
        let listed: Vec<(String, String)> = program
            .get_subcommands()
            .filter_map(|it| Some((it.get_name().to_owned(), it.get_about()?.to_string())))
            .collect();
        program.build();
        let mut commands = 0;
        walk(&mut program, &mut |command| {
            commands += 1;
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                for leaked in ["](", "module documentation", "The subcommands", "The flags of"] {
                    assert!(!help.contains(leaked), "{}: {help}", command.get_name());
                }
            }
        });
        assert!(commands > 60, "{commands}");
        let own = ["up", "user", "auth", "bench", "certs", "completion"];
        for (name, line) in listed.iter().filter(|(name, _)| own.contains(&name.as_str())) {
            let help = program.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            let first = help.lines().next().unwrap_or_default();
            assert_eq!(first, *line, "the help of {name} begins as the list of commands says");
        }
    }
}
