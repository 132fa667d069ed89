//! [`Processes`]: CPU time and memory of the server's processes, as reported by the kernel.
//!
//! CPU time is counted in the kernel's ticks of 10 ms, so the CPU time per operation is meaningful
//! from several hundred operations on.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The unit of CPU time in `/proc`, which does not depend on the kernel's timer.
const TICK: Duration = Duration::from_millis(10);

/// The processes of the server, as listed on the command line.
#[derive(Debug)]
pub(crate) struct Processes {
    pids: Vec<u32>,
}

/// CPU time since the start of the processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTimes {
    /// CPU time of the server; none if no process was named, or one has ended.
    pub server: Option<Duration>,
    /// CPU time of the bench itself.
    pub client: Option<Duration>,
}

impl Processes {
    /// Fails if a process does not exist.
    pub(crate) fn new(pids: Vec<u32>) -> Result<Self> {
        for pid in &pids {
            cpu_time(&pid.to_string()).with_context(|| {
                format!("cannot measure process {pid}: check --pid, which needs Linux's /proc")
            })?;
        }
        Ok(Self { pids })
    }

    /// Whether no process was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.pids.is_empty()
    }

    /// The current CPU times.
    pub(crate) fn cpu_times(&self) -> CpuTimes {
        let times: Option<Duration> =
            self.pids.iter().map(|pid| cpu_time(&pid.to_string()).ok()).sum();
        CpuTimes { server: times.filter(|_| !self.is_empty()), client: cpu_time("self").ok() }
    }

    /// Memory of all processes together, in bytes; none if no process was named, or one has ended.
    pub(crate) fn memory(&self) -> Option<u64> {
        let sizes: Option<u64> = self.pids.iter().map(|pid| memory_of(*pid)).sum();
        sizes.filter(|_| !self.is_empty())
    }
}

fn cpu_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    parse_stat(&stat).context("its stat has an unknown format")
}

/// The sum of utime and stime, the 14th and 15th fields.
fn parse_stat(stat: &str) -> Option<Duration> {
    // The second field, the program's name in parentheses, may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    let (user, system) = (ticks()?, ticks()?);
    Some(TICK * user + TICK * system)
}

/// The proportional set size, or the resident set size if only that is readable.
fn memory_of(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
    rollup.and_then(|it| parse_kilobytes(&it, "Pss:")).or_else(|| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        parse_kilobytes(&status, "VmRSS:")
    })
}

/// The size in a line such as `Pss:    1234 kB`, in bytes.
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
    fn cpu_time_is_parsed_after_any_program_name() {
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
    fn without_a_process_there_are_no_figures() {
        let none = Processes::new(Vec::new()).unwrap();
        assert!(none.is_empty() && none.cpu_times().server.is_none() && none.memory().is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_current_process_can_be_measured() {
        let own = Processes::new(vec![std::process::id()]).unwrap();
        assert!(own.cpu_times().server.is_some() && own.cpu_times().client.is_some());
        assert!(own.memory().unwrap() > 100_000);
    }

    #[test]
    fn a_process_that_does_not_exist_is_refused() {
        // Linux numbers processes up to 2^22.
        let error = Processes::new(vec![u32::MAX]).unwrap_err();
        assert!(error.to_string().contains("check --pid"), "{error}");
    }
}
