//! The causes of an error.

use std::error::Error;
use std::iter::successors;

/// An error, its cause, the cause of that, and so on.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    successors(Some(error), |&error| error.source())
}

/// The message of an error and those of its causes, in one line. A cause that the message before it
/// ends with is not repeated.
pub fn message_with_causes(error: &(dyn Error + 'static)) -> String {
    let mut message = String::new();
    for cause in causes(error) {
        push_cause(&mut message, &cause.to_string());
    }
    message
}

/// Appends the message of a cause to those before it, unless they end with it.
pub fn push_cause(message: &mut String, cause: &str) {
    if message.is_empty() {
        message.push_str(cause);
    } else if !message.ends_with(cause) {
        message.push_str(": ");
        message.push_str(cause);
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Failure(&'static str, Option<Box<Failure>>);

    impl fmt::Display for Failure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failure {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self.1.as_deref()?)
        }
    }

    #[test]
    fn a_message_shows_all_causes_from_the_outermost_to_the_innermost() {
        let refused = Failure("connection refused", None);
        let error =
            Failure("cannot list", Some(Box::new(Failure("no answer", Some(refused.into())))));
        assert_eq!(message_with_causes(&error), "cannot list: no answer: connection refused");
        assert_eq!(causes(&error).last().unwrap().to_string(), "connection refused");
        assert_eq!(message_with_causes(&Failure("alone", None)), "alone");
    }

    #[test]
    fn a_cause_that_is_in_the_message_already_is_not_repeated() {
        let refused = Failure("connection refused", None);
        let error = Failure("no answer: connection refused", Some(Box::new(refused)));
        assert_eq!(message_with_causes(&error), "no answer: connection refused");
    }
}
