//! [`Output`]: where a command prints, so that tests can read it.

use std::io::Write;

use anyhow::Result;

use keel::escape_controls;

/// Where a command prints: results, for other programs as well, and notes, for the user.
///
/// ```
/// use toolkit::Output;
///
/// let (mut results, mut notes) = (Vec::new(), Vec::new());
/// let mut output = Output::new(&mut results, &mut notes);
/// output.line("a result")?;
/// output.note("a note");
/// assert_eq!((results.as_slice(), notes.as_slice()), (&b"a result\n"[..], &b"a note\n"[..]));
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Output<'a> {
    results: &'a mut (dyn Write + Send),
    notes: &'a mut (dyn Write + Send),
}

impl<'a> Output<'a> {
    /// Prints results to the first and notes to the second writer, such as standard output and standard
    /// error.
    pub fn new(results: &'a mut (dyn Write + Send), notes: &'a mut (dyn Write + Send)) -> Self {
        Self { results, notes }
    }

    /// Prints a line of the result, without control characters. The writer decides whether a closed pipe
    /// is an error.
    pub fn line(&mut self, text: &str) -> Result<()> {
        self.bytes(format!("{}\n", escape_controls(text)).as_bytes())
    }

    /// Prints a result that has its line ends.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.results.write_all(bytes)?;
        Ok(self.results.flush()?)
    }

    /// Prints a line for the user, without control characters. A failure cannot be reported, and is
    /// ignored.
    pub fn note(&mut self, text: &str) {
        let _ = writeln!(self.notes, "{}", escape_controls(text));
    }
}
