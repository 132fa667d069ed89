//! [`Checks`]: whether a manager lives, and whether it is ready, in the form that Kubernetes' own
//! servers answer in.
//!
//! ```
//! use runtime::health::{Check, Checks, Verdict};
//!
//! let check: Check = Box::new(|| Err("full".to_owned()));
//! let checks = Checks::default(); // a manager has two: `health` and `readiness`
//! checks.add("disk", check);
//! let Verdict { is_good, report } = checks.judge("healthz");
//! assert!(!is_good && report.contains("[-]disk failed: full"));
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
pub struct Verdict {
    /// Whether all have passed.
    pub is_good: bool,
    /// One line for each, and what is wrong where something is.
    pub report: String,
}

impl Checks {
    /// Adds one.
    pub fn add(&self, name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        let mut checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        checks.push((name.to_owned(), Box::new(check)));
    }

    /// Asks all of them. `what` is the name of the endpoint, `healthz`.
    pub fn judge(&self, what: &str) -> Verdict {
        let checks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut is_good, mut report) = (true, "[+]ping ok\n".to_owned());
        for (name, check) in &*checks {
            match check() {
                Ok(()) => {
                    let _ = writeln!(report, "[+]{name} ok");
                }
                Err(why) => {
                    is_good = false;
                    let _ = writeln!(report, "[-]{name} failed: {why}");
                }
            }
        }
        let verdict = if is_good { "passed" } else { "failed" };
        let _ = writeln!(report, "{what} check {verdict}");
        Verdict { is_good, report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_check_is_named_and_spoils_all() {
        let checks = Checks::default();
        checks.add("caches", || Ok(()));
        assert!(checks.judge("readyz").is_good);
        checks.add("disk", || Err("full".to_owned()));
        let report = "[+]ping ok\n[+]caches ok\n[-]disk failed: full\nreadyz check failed\n";
        assert_eq!(checks.judge("readyz"), Verdict { is_good: false, report: report.to_owned() });
    }
}
