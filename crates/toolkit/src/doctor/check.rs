//! [`Check`]: a line of the report.

use serde::Serialize;

/// What was found for one thing that a user may want to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    /// What the user wants to do.
    pub(super) topic: &'static str,
    /// What that needs.
    pub(super) subject: &'static str,
    pub(super) status: Status,
    pub(super) found: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// It is needed only for what the topic says.
    Optional,
    /// No operator can be built without it.
    Missing,
    /// The user has not asked for it.
    Skipped,
}

impl Check {
    pub(super) fn ok(topic: &'static str, subject: &'static str, found: impl Into<String>) -> Self {
        Self { topic, subject, status: Status::Ok, found: found.into(), next: None }
    }

    /// Something that is not as it should be, and what to do.
    pub(super) fn not_ok(
        topic: &'static str,
        subject: &'static str,
        status: Status,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self { topic, subject, status, found: found.into(), next: Some(next.into()) }
    }

    /// The check in one line.
    pub(super) fn line(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Optional => "optional",
            Status::Missing => "MISSING",
            Status::Skipped => "skipped",
        };
        let next = self.next.as_ref().map(|next| format!("; next: {next}")).unwrap_or_default();
        let line = format!("{:<8} {status:<8} {}: {}{next}", self.topic, self.subject, self.found);
        line.replace('\n', " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_one_line() {
        let check = Check::not_ok("build", "linker", Status::Missing, "no\ncc", "install gcc");
        assert_eq!(check.line(), "build    MISSING  linker: no cc; next: install gcc");
    }
}
