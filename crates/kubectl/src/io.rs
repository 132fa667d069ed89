//! [`Io`]: where a verb reads and prints. Tests capture it; the program gives the standard streams.
//!
//! A closed pipe is no error: the reader, such as `head`, has read enough. A failed write of a note
//! is ignored, since it cannot be reported.

use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use keel::escape_controls;

/// The streams of one invocation.
pub struct Io {
    input: Box<dyn Read + Send>,
    out: Box<dyn Write + Send>,
    notes: Notes,
    /// Whether nobody reads the results any more.
    is_closed: bool,
}

/// The stream of warnings and errors, which several parts of a verb write to.
#[derive(Clone)]
pub struct Notes(Arc<Mutex<Box<dyn Write + Send>>>);

impl Io {
    /// Streams of any type: for manifests, for results, and for warnings and errors.
    pub fn new(
        input: impl Read + Send + 'static,
        out: impl Write + Send + 'static,
        err: impl Write + Send + 'static,
    ) -> Self {
        Self {
            input: Box::new(input),
            out: Box::new(out),
            notes: Notes(Arc::new(Mutex::new(Box::new(err)))),
            is_closed: false,
        }
    }

    /// The standard streams of the process.
    pub fn standard() -> Self {
        Self::new(io::stdin(), io::stdout(), io::stderr())
    }

    /// Prints a part of the result.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Error> {
        self.print_bytes(text.as_bytes())
    }

    /// Prints a line of the result, for people. Text of the server cannot control their terminal.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        self.print(&format!("{}\n", escape_controls(text)))
    }

    /// Prints a part of the result that need not be text.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(())
            }
            other => other.map_err(Error::Output),
        }
    }

    /// Whether nobody reads the results any more, so that a watch may end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// The stream of warnings and errors.
    pub(crate) fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Prints a line that is not part of the result.
    pub(crate) fn note(&self, text: &str) {
        self.notes.line(text);
    }

    /// Reads all of the standard input.
    pub(crate) fn read_input(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = self.input.read_to_end(&mut bytes);
        read.map_err(|error| Error::message(format!("cannot read standard input: {error}")))?;
        Ok(bytes)
    }
}

impl Notes {
    /// Prints a line. Text of the server cannot control the terminal.
    pub(crate) fn line(&self, text: &str) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(stream, "{}", escape_controls(text)).and_then(|()| stream.flush());
    }
}
