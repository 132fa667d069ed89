//! [`Error`]: what ends a verb, and the text and the exit code that kubectl has for it.

use std::io;

use machinery::status::Cause;
use machinery::{Reason, Status};

/// Why a verb has failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Printed after `error: `.
    #[error("{0}")]
    Message(String),
    /// Printed as it is.
    #[error("{0}")]
    Verbatim(String),
    /// The server has refused a request.
    #[error("{}", .0.message)]
    Server(Box<Status>),
    /// No response came.
    #[error("{0}")]
    Unreachable(String),
    /// Several objects failed, each with its own error.
    #[error("several errors")]
    Several(Vec<Error>),
    /// The verb has said everything already; only the exit code counts.
    #[error("exit code {0}")]
    Exit(u8),
    /// The result could not be printed.
    #[error("cannot write the result")]
    Output(#[source] io::Error),
}

impl Error {
    pub(crate) fn message(text: impl Into<String>) -> Self {
        Self::Message(text.into())
    }

    /// An error that kubectl reports with a hint at the help of a command.
    pub(crate) fn usage(command: &str, text: &str) -> Self {
        Self::Message(format!("{text}\nSee 'kubectl {command} -h' for help and examples"))
    }

    /// All errors of several objects as one; no error if there are none.
    pub(crate) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether the server has refused a request with this code.
    pub(crate) fn has_code(&self, code: u16) -> bool {
        matches!(self, Self::Server(status) if status.code == code)
    }

    /// Says in which step and with which file a request has failed.
    pub(crate) fn in_step(self, step: &str) -> Self {
        match self {
            Self::Server(mut status) => {
                status.message = format!("{step}: {}", status.message);
                Self::Server(status)
            }
            Self::Message(text) => Self::Message(format!("{step}: {text}")),
            other => other,
        }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Exit(code) => *code,
            _ => 1,
        }
    }

    /// The text on standard error, without the last line end; empty if there is nothing to say.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Message(text) if text.starts_with("error: ") => text.clone(),
            Self::Message(text) => format!("error: {text}"),
            Self::Verbatim(text) | Self::Unreachable(text) => text.clone(),
            Self::Server(status) if status.reason == Reason::Invalid => invalid(status),
            Self::Server(status) => refused(status),
            Self::Several(errors) => {
                let texts: Vec<String> = errors.iter().map(Self::text_in_list).collect();
                texts.join("\n")
            }
            Self::Exit(_) => String::new(),
            Self::Output(cause) => format!("error: cannot write to standard output: {cause}"),
        }
    }

    /// The text beside other errors, where kubectl does not explain what is invalid.
    fn text_in_list(&self) -> String {
        match self {
            Self::Server(status) => refused(status),
            other => other.text(),
        }
    }
}

fn refused(status: &Status) -> String {
    let message = &status.message;
    match status.reason {
        Reason::Unauthorized => {
            format!("error: You must be logged in to the server ({message})")
        }
        Reason::Unknown => format!("Error from server: {message}"),
        reason => format!("Error from server ({}): {message}", reason.as_str()),
    }
}

fn invalid(status: &Status) -> String {
    let Some(details) = &status.details else {
        return format!("The request is invalid: {}", status.message);
    };
    let mut text = "The request is invalid".to_owned();
    if !details.kind.is_empty() || !details.name.is_empty() {
        text = format!("The {} {:?} is invalid", details.kind, details.name);
    } else if details.causes.is_empty() && !status.message.is_empty() {
        text = format!("{text}: {}", status.message);
    }
    let causes: Vec<String> = details.causes.iter().map(cause).collect();
    match causes.as_slice() {
        [] => text,
        [one] => format!("{text}: {one}"),
        many => format!("{text}: \n* {}", many.join("\n* ")),
    }
}

fn cause(cause: &Cause) -> String {
    format!("{}: {}", cause.field, cause.message)
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Server(Box::new(status))
    }
}
