//! [`Checks`]: the health and readiness checks of a manager, in the format of Kubernetes' servers.
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

use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Returns the reason if the check fails.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// Named checks, all of which must pass.
#[derive(Default)]
pub struct Checks(Mutex<Vec<(String, Check)>>);

/// The result of all checks.
#[derive(Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// Whether all checks have passed.
    pub has_passed: bool,
    /// One line for each check, with the reason if it failed.
    pub text: String,
}

impl Checks {
    /// Adds a check.
    pub fn add(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.push((name.to_owned(), Box::new(check)));
    }

    /// Runs all checks as one: it fails with the names and reasons of those that fail.
    ///
    /// ```
    /// # let checks = runtime::health::Checks::default();
    /// checks.add("disk", || Err("full".to_owned()));
    /// assert_eq!(checks.check(), Err("disk: full".to_owned()));
    /// ```
    pub fn check(&self) -> Result<(), String> {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed =
            checks.iter().filter_map(|(name, check)| Some(format!("{name}: {}", check().err()?)));
        let failed: Vec<String> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// Runs all checks. `endpoint` is the name in the last line, such as `healthz`.
    pub fn run(&self, endpoint: &str) -> CheckReport {
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
        let _ = writeln!(text, "{endpoint} check {result}");
        CheckReport { has_passed, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_check_fails_the_report() {
        let checks = Checks::default();
        checks.add("caches", || Ok(()));
        assert!(checks.run("readyz").has_passed);
        checks.add("disk", || Err("full".to_owned()));
        let text = "[+]ping ok\n[+]caches ok\n[-]disk failed: full\nreadyz check failed\n";
        assert_eq!(checks.run("readyz"), CheckReport { has_passed: false, text: text.to_owned() });
    }
}
