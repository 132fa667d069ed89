//! [`Budget`]: how much work may be spent on a command, so that no script can use up the memory or
//! the processors of the machine.

use super::Stop;

/// The number of steps for all containers of a pod. Steps are words, expansions and parsed tokens.
const MAX_STEPS: usize = 100_000;

/// The number of bytes that are expanded, or kept as output.
const MAX_BYTES: usize = 64 * 1024;

/// What is left. A command that needs more is [not understood](Stop::NotUnderstood).
#[derive(Debug)]
pub(in crate::commands) struct Budget {
    steps: usize,
    bytes: usize,
}

impl Budget {
    /// The budget of each of these containers of a pod.
    pub(in crate::commands) fn for_one_of(containers: usize) -> Self {
        Self { steps: MAX_STEPS / containers.max(1), bytes: MAX_BYTES }
    }

    #[cfg(test)]
    pub(in crate::commands) fn unlimited() -> Self {
        Self { steps: usize::MAX, bytes: usize::MAX }
    }

    pub(in crate::commands) fn take_steps(&mut self, count: usize) -> Result<(), Stop> {
        take(&mut self.steps, count)
    }

    pub(super) fn take_bytes(&mut self, count: usize) -> Result<(), Stop> {
        take(&mut self.bytes, count)
    }
}

/// After the first refusal nothing is left.
fn take(left: &mut usize, count: usize) -> Result<(), Stop> {
    let rest = left.checked_sub(count);
    *left = rest.unwrap_or_default();
    rest.map(|_| ()).ok_or(Stop::NotUnderstood)
}
