//! [`Checks`]: whether a manager lives, and whether it is ready, in the form that Kubernetes' own
//! servers answer in.
//!
//! ```
//! use runtime::health::{Check, Checks, CheckReport};
//!
//! let check: Check = Box::new(|| Err("full".to_owned()));
//! let checks = Checks::default(); // a manager has two: `health` and `readiness`
//! checks.add("disk", check);
//! let CheckReport { has_passed, text } = checks.run("healthz");
//! assert!(!has_passed && text.contains("[-]disk failed: full"));
//! ```

use std::{
    fmt::Write,
    sync::{Mutex, PoisonError},
};

/// Says what is wrong, if something is.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks, all of which must pass.
#[derive(Default)]
pub struct Checks(Mutex<Vec<(String, Check)>>);

/// The answer of all checks together.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Whether all have passed.
    pub has_passed: bool,
    /// One line for each, and what is wrong where something is.
    pub text: String,
}

impl Checks {
    /// Adds one.
    pub fn add(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.push((name.to_owned(), Box::new(check)));
    }

    /// Asks all of them. `what` is the name of the endpoint, `healthz`.
    pub fn run(&self, what: &str) -> CheckReport {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut has_passed, mut text) = (true, "[+]ping ok\n".to_owned());
        for (name, check) in &*checks {
            match check() {
                Ok(()) => {
                    let _ = writeln!(text, "[+]{name} ok");
                }
                Err(why) => {
                    has_passed = false;
                    let _ = writeln!(text, "[-]{name} failed: {why}");
                }
            }
        }
        let result = if has_passed { "passed" } else { "failed" };
        let _ = writeln!(text, "{what} check {result}");
        CheckReport { has_passed, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_check_is_named_and_spoils_all() {
        let checks = Checks::default();
        checks.add("caches", || Ok(()));
        assert!(checks.run("readyz").has_passed);
        checks.add("disk", || Err("full".to_owned()));
        let text = "[+]ping ok\n[+]caches ok\n[-]disk failed: full\nreadyz check failed\n";
        assert_eq!(checks.run("readyz"), CheckReport { has_passed: false, text: text.to_owned() });
    }
}
