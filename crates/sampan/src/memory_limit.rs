//! The memory available to this program: that of the machine, or less in a container.

use std::fs;
use std::path::Path;

/// The limit where the system does not report one.
const DEFAULT: usize = 8 << 30;

/// The memory of the machine, or the lowest limit of the control groups of this process.
pub(crate) fn bytes() -> usize {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|it| total(&it));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|it| limit(Path::new(&it)));
    limits.chain(machine).min().unwrap_or(DEFAULT)
}

/// The total of a line such as `MemTotal:       24684100 kB`, in bytes.
fn total(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|it| it.strip_prefix("MemTotal:"))?;
    let kibibytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// The files with the limits of the control groups in `/proc/self/cgroup` and of their parents. In a
/// container the path is often the one outside of it, and the limit is at the root.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            it if it.split(',').any(|it| it == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{path}/{name}"));
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            path = parent;
        }
    }
    files
}

/// The limit in a file; none for the word `max` or a number that does not fit.
fn limit(file: &Path) -> Option<usize> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_in_kibibytes() {
        assert_eq!(total("MemTotal:       2048 kB\nMemFree: 1 kB\n"), Some(2048 << 10));
        assert_eq!(total("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn limits_are_those_of_the_group_and_of_its_parents() {
        let expect = [
            "/sys/fs/cgroup/a/b/memory.max",
            "/sys/fs/cgroup/a/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(limit_files("0::/a/b\n"), expect);
        let expect = [
            "/sys/fs/cgroup/memory/c/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(limit_files("5:cpu,cpuacct:/x\n4:memory:/c\n"), expect);
        assert_eq!(limit_files("0::/\n"), ["/sys/fs/cgroup/memory.max"]);
    }

    #[test]
    fn the_limit_of_this_program_is_not_zero() {
        assert!(bytes() > 64 << 20);
    }
}
