//! [`StopSignals`]: the signals that end a command in an orderly way.
//!
//! SIGINT comes from Ctrl-C, SIGTERM from service managers, SIGHUP from a terminal that is closed.
//! A program that outlives its terminal is started with SIGHUP ignored (`nohup`), and the signal
//! stays ignored.

use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if the signal is ignored, or if its disposition is unknown.
    hangup: Option<Signal>,
}

impl StopSignals {
    /// Catches the signals from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status");
        let ignored = status.ok().and_then(|it| parse_ignored(&it));
        let catches_hangup = ignored.is_some_and(|mask| !mask.contains(SignalKind::hangup()));
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if catches_hangup { Some(signal(SignalKind::hangup())?) } else { None },
        })
    }

    /// Resolves when one of the signals arrives.
    pub(crate) async fn recv(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// A set of signals in the kernel's format: bit N - 1 is signal N.
#[derive(Debug, PartialEq, Eq)]
struct SignalMask(u64);

impl SignalMask {
    fn contains(&self, kind: SignalKind) -> bool {
        let bit = kind.as_raw_value() - 1;
        u32::try_from(bit).is_ok_and(|bit| self.0.checked_shr(bit).unwrap_or(0) & 1 == 1)
    }
}

/// The ignored signals of a process, from its `/proc/PID/status`.
fn parse_ignored(status: &str) -> Option<SignalMask> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok().map(SignalMask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status_of_the_process() {
        let mask =
            parse_ignored("Name:\tsampan\nSigIgn:\t0000000000001001\nSigCgt:\tff\n").unwrap();
        assert!(mask.contains(SignalKind::hangup()) && mask.contains(SignalKind::pipe()));
        assert!(!mask.contains(SignalKind::interrupt()));
        assert_eq!(parse_ignored("Name:\tsampan\n"), None);
    }
}
