//! `sampan`: the API server, the controller runtime and the toolkit, in one binary.

mod args;
mod commands;
mod connection;
mod duration_arg;
mod file_size_limit;
mod kubeconfig;
mod memory_limit;
mod open_files;
mod output;
mod stop_signals;
mod table;
mod utc;

use std::env;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use tracing_subscriber::EnvFilter;

use args::{Command, Parsed, ParsedCommand};
use kubectl::Io;

// The system's allocator retains much more memory after thousands of small objects are freed.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = tokio::time::Instant::now();
    if is_called_kubectl() {
        return run_as_kubectl();
    }
    // The parser needs 300 kB of stack, which ends with its thread and not with the plane.
    let parsed = thread::scope(|scope| scope.spawn(args::parse).join());
    let parsed = parsed.expect("the parser of the command line does not panic");
    let Parsed { log, command } = match parsed {
        Ok(parsed) => parsed,
        Err(message) => return output::print_usage(&message),
    };
    init_logging(log);
    open_files::raise_limit();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        // Objects may be nested a thousand levels deep, and are traversed recursively.
        .thread_stack_size(8 << 20)
        // While controllers keep all threads busy, a request is noticed after this number of polls; a
        // poll of theirs takes a few tenths of a millisecond.
        .event_interval(8)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            output::print_error(&anyhow::Error::from(error).context("cannot start the runtime"));
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(async {
        let command = match command {
            ParsedCommand::Plane(command) => command,
            ParsedCommand::Toolkit(command) => {
                return command.run().await.map(|()| ExitCode::SUCCESS);
            }
        };
        match command {
            Command::Up(args) => commands::up::run(*args, started).await,
            Command::User(args) => commands::user::run(*args).await,
            // An answer of "no" is an exit code and not an error.
            Command::Auth(args) => return commands::auth::run(*args).await,
            Command::Bench(args) => commands::bench::run(*args).await,
            Command::Certs(args) => commands::certs::run(&args).await,
            Command::Completion(args) => commands::completion::run(&args),
            // It prints its errors as kubectl does.
            Command::Verb(verb) => return kubectl::run(verb, &mut Io::standard()).await,
        }
        .map(|()| ExitCode::SUCCESS)
    });
    match result {
        Ok(code) => code,
        Err(error) => {
            output::print_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Whether the program is called by the name `kubectl`, as through a link or a copy.
fn is_called_kubectl() -> bool {
    let program = env::args_os().next().unwrap_or_default();
    Path::new(&program).file_stem().is_some_and(|name| name == "kubectl")
}

/// Behaves as kubectl, with its usage errors and exit codes.
fn run_as_kubectl() -> ExitCode {
    init_logging(None);
    let args = env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    let result = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(kubectl::call(args, &mut Io::standard())));
    result.unwrap_or_else(|error| {
        output::print_error(&error);
        ExitCode::FAILURE
    })
}

/// Sends logs to standard error; without a filter, warnings and errors.
fn init_logging(filter: Option<EnvFilter>) {
    let filter = filter.unwrap_or_else(|| {
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"))
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        // A failed write would be reported with `eprintln!`, which panics in turn.
        .log_internal_errors(false)
        .init();
}
