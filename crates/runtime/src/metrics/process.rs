//! What Linux says of this process, under the names that every Prometheus client has for it. On
//! other systems there is nothing to read, and nothing is told.

use std::fs;

use super::{head, line};

/// The families of the process.
pub(super) fn render(text: &mut String) {
    let Some(process) = Process::read() else { return };
    let mut family = |name: &str, kind: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let name = format!("process_{name}");
            head(text, &name, kind, help);
            line(text, &name, "", value);
        }
    };
    let cpu = Some(process.cpu_seconds);
    family("cpu_seconds_total", "counter", "User and system time, in seconds", cpu);
    family("resident_memory_bytes", "gauge", "Memory in use", Some(process.resident));
    family("virtual_memory_bytes", "gauge", "Memory that has addresses", Some(process.virtual_));
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let most = soft_limit(&limits, "Max address space");
    family("virtual_memory_max_bytes", "gauge", "Memory that may have addresses", most);
    let open = fs::read_dir("/proc/self/fd").ok().map(|open| float(open.count()));
    family("open_fds", "gauge", "Open file descriptors", open);
    let most = soft_limit(&limits, "Max open files");
    family("max_fds", "gauge", "File descriptors that may be open", most);
    let boot = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time(&stat));
    let began = boot.map(|boot| boot + process.began_after_boot);
    family("start_time_seconds", "gauge", "When it began, in seconds since 1970", began);
}

#[derive(Debug, PartialEq)]
struct Process {
    cpu_seconds: f64,
    /// In seconds.
    began_after_boot: f64,
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
        // The name of the program may have anything in it.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // As proc(5) counts them: the first one behind the name is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let ticks = float(auxiliary(vector, TICKS_PER_SECOND)?);
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            began_after_boot: field(22)? / ticks,
            virtual_: field(23)?,
            resident: field(24)? * float(auxiliary(vector, PAGE_SIZE)?),
        })
    }
}

/// What the kernel has told the process when it began: pairs of words, the first of which says what
/// the second one is.
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
        // As Go's client has it.
        "unlimited" => Some(18_446_744_073_709_551_615.0),
        limit => limit.parse().ok(),
    }
}

fn boot_time(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[allow(clippy::cast_precision_loss, reason = "Prometheus has nothing but floats")]
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
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 4 0 300 8192 2 1 1";
        let process = Process::parse(stat, &vector()).unwrap();
        let (virtual_, resident) = (8192.0, 8192.0);
        let expected = Process { cpu_seconds: 2.0, began_after_boot: 3.0, virtual_, resident };
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
