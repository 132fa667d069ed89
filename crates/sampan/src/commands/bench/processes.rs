//! [`Processes`]: what the kernel says of the CPU time and the memory of the server's processes.
//!
//! CPU time comes in the kernel's ticks of 10 ms, so its figure for one operation means something
//! from some hundreds of operations on.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// Linux counts in hundredths of a second here, whatever its own timer does.
const TICK: Duration = Duration::from_millis(10);

/// The processes of the server, as the user named them.
#[derive(Debug)]
pub(crate) struct Processes {
    pids: Vec<u32>,
}

/// CPU time since the start of the processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Of the server; none if no process was named, or one is gone.
    pub server: Option<Duration>,
    /// Of the bench itself.
    pub client: Option<Duration>,
}

impl Processes {
    /// Fails on a process that is not there.
    pub(crate) fn new(pids: Vec<u32>) -> Result<Self> {
        for pid in &pids {
            cpu_time(&pid.to_string()).with_context(|| {
                format!("cannot measure process {pid}: check --pid, which needs Linux's /proc")
            })?;
        }
        Ok(Self { pids })
    }

    /// Whether there is anything to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// CPU time until now.
    pub(crate) fn read(&self) -> Reading {
        let times: Option<Duration> =
            self.pids.iter().map(|pid| cpu_time(&pid.to_string()).ok()).sum();
        Reading { server: times.filter(|_| !self.is_empty()), client: cpu_time("self").ok() }
    }

    /// Memory of all together, in bytes; none if no process was named, or one is gone.
    pub(crate) fn memory(&self) -> Option<u64> {
        let sizes: Option<u64> = self.pids.iter().map(|pid| memory_of(*pid)).sum();
        sizes.filter(|_| !self.is_empty())
    }
}

fn cpu_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    parse_stat(&stat).context("its stat has an unknown form")
}

/// The sum of utime and stime, the 14th and 15th fields.
fn parse_stat(stat: &str) -> Option<Duration> {
    // The second field, the program's name in parentheses, may hold anything, spaces included.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, system) = (ticks()?, ticks()?);
    Some(TICK * user + TICK * system)
}

/// The proportional set size, or the resident one where only that may be read.
fn memory_of(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    rollup.and_then(|it| parse_kilobytes(&it, "Pss:")).or_else(|| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        parse_kilobytes(&status, "VmRSS:")
    })
}

/// A line such as `Pss:    1234 kB`, in bytes.
fn parse_kilobytes(text: &str, field: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    let size: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(size * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a ) b (c) S 1 4242 4242 0 -1 4194560 9001 0 3 0 \
                        250 75 0 0 20 0 8 0 123456 1000000 5000 18446744073709551615";

    #[test]
    fn cpu_time_is_found_behind_any_name() {
        assert_eq!(parse_stat(STAT), Some(Duration::from_millis(3250)));
        assert_eq!(parse_stat("4242 (a) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn sizes_are_in_kilobytes() {
        let rollup = "00400000-7fff [rollup]\nRss:  900 kB\nPss:       850 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(parse_kilobytes(rollup, "Pss:"), Some(850 * 1024));
        assert_eq!(parse_kilobytes("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12 * 1024));
        assert_eq!(parse_kilobytes("Threads: 8\n", "VmRSS:"), None);
    }

    #[test]
    fn no_process_gives_no_figures() {
        let nobody = Processes::new(Vec::new()).unwrap();
        assert!(nobody.is_empty() && nobody.read().server.is_none() && nobody.memory().is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_very_process_can_be_measured() {
        let own = Processes::new(vec![std::process::id()]).unwrap();
        assert!(own.read().server.is_some() && own.read().client.is_some());
        assert!(own.memory().unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_is_not_there_is_refused() {
        // Linux numbers processes up to 2^22.
        let error = Processes::new(vec![u32::MAX]).unwrap_err();
        assert!(error.to_string().contains("check --pid"), "{error}");
    }
}
