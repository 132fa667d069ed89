//! The metrics of the process, as Linux shows them in `/proc`, under the names that every Prometheus
//! client has for them. On other systems there are none.

use std::{fmt, fs};

use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::MetricType::{Counter, Gauge};

use super::Families;

/// Encodes the families of the process.
pub(super) fn encode(families: &mut Families<'_>) -> fmt::Result {
    let Some(process) = Process::read() else { return Ok(()) };
    let mut family = |name: &str, metric_type: MetricType, help: &str, value: Option<f64>| {
        let encode = |value| families.value(&format!("process_{name}"), help, metric_type, value);
        value.map_or(Ok(()), encode)
    };
    let cpu = Some(process.cpu_seconds);
    family("cpu_seconds_total", Counter, "User and system CPU time in seconds", cpu)?;
    family("resident_memory_bytes", Gauge, "Resident memory", Some(process.resident))?;
    family("virtual_memory_bytes", Gauge, "Virtual memory", Some(process.virtual_))?;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = soft_limit(&limits, "Max address space");
    family("virtual_memory_max_bytes", Gauge, "Limit of the virtual memory", limit)?;
    let open = fs::read_dir("/proc/self/fd").ok().map(|open| float(open.count()));
    family("open_fds", Gauge, "Open file descriptors", open)?;
    let limit = soft_limit(&limits, "Max open files");
    family("max_fds", Gauge, "Limit of open file descriptors", limit)?;
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time(&stat));
    let start = boot.map(|boot| boot + process.started_after_boot);
    family("start_time_seconds", Gauge, "Start time in seconds since 1970", start)
}

#[derive(Debug, PartialEq)]
struct Process {
    cpu_seconds: f64,
    /// In seconds.
    started_after_boot: f64,
    virtual_: f64,
    resident: f64,
}

impl Process {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let vector = fs::read("/proc/self/auxv").ok()?;
        Self::parse(&stat, &vector)
    }

    fn parse(stat: &str, vector: &[u8]) -> Option<Self> {
        const PAGE_SIZE: usize = 6;
        const TICKS_PER_SECOND: usize = 17;
        // The name of the program, in parentheses, may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // As numbered by proc(5): the first field after the name is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = float(auxiliary(vector, TICKS_PER_SECOND)?);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            started_after_boot: field(22)? / ticks,
            virtual_: field(23)?,
            resident: field(24)? * float(auxiliary(vector, PAGE_SIZE)?),
        })
    }
}

/// A value of the auxiliary vector, which consists of pairs of words: a type and a value.
fn auxiliary(vector: &[u8], wanted: usize) -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    let (pairs, _) = vector.as_chunks::<{ 2 * WORD }>();
    let word = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
    let pair = pairs.iter().find(|pair| word(&pair[..WORD]) == Some(wanted))?;
    word(&pair[WORD..])
}

fn soft_limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_whitespace().next()? {
        // As in Go's client.
        "unlimited" => Some(18_446_744_073_709_551_615.0),
        limit => limit.parse().ok(),
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has only floats")]
fn float(value: usize) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector() -> Vec<u8> {
        [6_usize, 4096, 17, 100, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_name_of_a_process_may_look_like_a_field() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 300 8192 2 1 1";
        let process = Process::parse(stat, &vector()).unwrap();
        let (virtual_, resident) = (8192.0, 8192.0);
        let expected = Process { cpu_seconds: 2.0, started_after_boot: 3.0, virtual_, resident };
        assert_eq!(process, expected);
        assert_eq!(Process::parse("7 (cut) S 1", &vector()), None);
    }

    #[test]
    fn limits_may_be_missing_or_unlimited() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n\
            Max address space  unlimited  unlimited  bytes\n";
        assert_eq!(soft_limit(limits, "Max open files"), Some(1024.0));
        assert!(soft_limit(limits, "Max address space").is_some_and(|limit| limit > 1e19));
        assert_eq!(soft_limit(limits, "Max processes"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000.0));
    }
}
