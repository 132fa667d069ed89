//! [`Running`]: a kubectl that is still at it, such as a watch.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// Ended when it is dropped.
pub(super) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Told to report its requests, so that a test can see when it begins to watch; and to give up
    /// in the end, so that a test whose event never comes fails.
    pub(super) fn new(mut command: Command) -> Self {
        let mut child = command
            .args(["-v=6", "--request-timeout=30s"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, stdout, stderr }
    }

    /// Reads on until the server has opened its watch.
    pub(super) fn until_it_watches(&mut self) {
        let watches = |line: String| line.contains("watch=true") && line.contains("200 OK");
        assert!(self.stderr.by_ref().any(|it| watches(it.unwrap())), "it did not watch");
    }

    /// The next line that it prints.
    pub(super) fn line(&mut self) -> String {
        self.stdout.next().expect("it ended early").unwrap()
    }

    /// Waits for its end: the code, and what else it printed.
    pub(super) fn end(mut self) -> (i32, String) {
        let rest = self.stdout.by_ref().map(Result::unwrap).collect::<Vec<_>>().join("\n");
        (self.child.wait().unwrap().code().unwrap(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
