//! [`Running`]: a kubectl process that has not ended, such as a watch.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// See the [module documentation](self). The process is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Running {
    /// Starts kubectl with logging of its requests, which shows when it watches, and with a timeout,
    /// after which a test without its event fails.
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

    /// Reads the log until the server has opened the watch.
    pub(super) fn until_watching(&mut self) {
        let watches = |line: String| line.contains("watch=true") && line.contains("200 OK");
        assert!(
            self.stderr.by_ref().any(|it| watches(it.unwrap())),
            "kubectl did not open a watch"
        );
    }

    /// The next line of standard output.
    pub(super) fn line(&mut self) -> String {
        self.stdout.next().expect("kubectl ended early").unwrap()
    }

    /// Waits for the end; returns the exit code and the rest of standard output.
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
