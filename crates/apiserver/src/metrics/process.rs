//! The `process_*` families of Prometheus' clients, read from `/proc` at each scrape. If a file does not
//! exist, its families are absent.

use std::fs;

use super::exposition::{self, MetricType};

/// The ticks of `/proc/self/stat` in a second. Linux reports 100 to user space on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the families of this process.
pub(super) fn append(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    if let Some(times) = ProcessTimes::parse(&stat) {
        exposition::append_value(
            text,
            MetricType::Counter,
            "process_cpu_seconds_total",
            "Total user and system CPU time in seconds",
            times.cpu_seconds,
        );
        let system = fs::read_to_string("/proc/stat").unwrap_or_default();
        if let Some(boot) = boot_time(&system) {
            let help = "Start time of the process in seconds since 1970";
            let start = boot + times.started_after_boot;
            exposition::append_value(
                text,
                MetricType::Gauge,
                "process_start_time_seconds",
                help,
                start,
            );
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (name, help, field) in [
        ("process_resident_memory_bytes", "Resident memory size in bytes", "VmRSS:"),
        ("process_virtual_memory_bytes", "Virtual memory size in bytes", "VmSize:"),
    ] {
        if let Some(bytes) = status_bytes(&status, field) {
            exposition::append_value(text, MetricType::Gauge, name, help, bytes);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is the directory that is being read.
        let count = open.count().saturating_sub(1);
        let help = "Number of open file descriptors";
        exposition::append_value(text, MetricType::Gauge, "process_open_fds", help, count);
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(limit) = max_open_files(&limits) {
        let help = "Maximum number of open file descriptors";
        exposition::append_value(text, MetricType::Gauge, "process_max_fds", help, limit);
    }
}

/// Times of a process, in seconds.
#[derive(Debug, PartialEq)]
struct ProcessTimes {
    cpu_seconds: f64,
    started_after_boot: f64,
}

impl ProcessTimes {
    /// Parses `/proc/self/stat`. The name of the program, in parentheses, may contain any characters.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        // The first field after the name is field number 3.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let (user, system, started) = (ticks(14)?, ticks(15)?, ticks(22)?);
        Some(Self {
            cpu_seconds: (user + system) / TICKS_PER_SECOND,
            started_after_boot: started / TICKS_PER_SECOND,
        })
    }
}

/// Seconds since 1970 at which the machine started, from `/proc/stat`.
fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// A size in `/proc/self/status`, which is in kilobytes there.
fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The soft limit in `/proc/self/limits`; None if it is unlimited.
fn max_open_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_may_look_like_a_field() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 12345 1 1 1";
        let expect = ProcessTimes { cpu_seconds: 2.0, started_after_boot: 123.45 };
        assert_eq!(ProcessTimes::parse(stat), Some(expect));
        assert_eq!(ProcessTimes::parse("7 (a"), None);
    }

    #[test]
    fn sizes_and_limits_are_read() {
        let status = "Name:\tsampan\nVmSize:\t    2048 kB\nVmRSS:\t      12 kB\n";
        assert_eq!(status_bytes(status, "VmRSS:"), Some(12 << 10));
        assert_eq!(status_bytes(status, "VmSwap:"), None);
        let limits = "Max open files            1024                 4096                 files";
        assert_eq!(max_open_files(limits), Some(1024));
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
