//! [`Usage`]: the resources used by this process so far, and [`Figures`], those used by a piece of
//! work.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::HEAP;

/// See the [module documentation](self).
pub(crate) struct Usage {
    at: Instant,
    cpu: Duration,
    heap: usize,
    /// Proportional set size: the memory of this process, with shared pages divided.
    resident: usize,
}

/// The resources used by a piece of work.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Figures {
    /// The number of objects, events or reconciles.
    pub count: u64,
    /// The elapsed time.
    pub seconds: f64,
    /// The process's CPU time, user and system.
    pub cpu_seconds: f64,
    /// The additional bytes on the heap.
    pub heap: usize,
    /// The additional bytes as counted by the system.
    pub resident: usize,
    /// The largest resident size.
    pub peak_resident: usize,
}

impl Usage {
    /// The resources used until now.
    pub(crate) fn now() -> Result<Self> {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self {
            at: Instant::now(),
            cpu: Duration::new(u64::try_from(cpu.tv_sec)?, u32::try_from(cpu.tv_nsec)?),
            heap: HEAP.allocated(),
            resident: kilobytes("/proc/self/smaps_rollup", "Pss:")?,
        })
    }

    /// The resources used since then for `count` pieces of work: time until `done`, memory until
    /// now.
    pub(crate) fn figures(self, count: u64, done: &Self) -> Result<Figures> {
        let now = Self::now()?;
        Ok(Figures {
            count,
            seconds: (done.at - self.at).as_secs_f64(),
            cpu_seconds: done.cpu.saturating_sub(self.cpu).as_secs_f64(),
            heap: now.heap.saturating_sub(self.heap),
            resident: now.resident.saturating_sub(self.resident),
            peak_resident: kilobytes("/proc/self/status", "VmHWM:")?,
        })
    }
}

impl Figures {
    /// The rate per second.
    pub(crate) fn rate(&self) -> f64 {
        self.number() / self.seconds
    }

    /// The CPU time of each in microseconds.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.number()
    }

    /// `whole` divided by the number of pieces of work.
    pub(crate) fn each(&self, whole: usize) -> f64 {
        to_float(whole) / self.number()
    }

    fn number(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let number = self.count as f64;
        number
    }
}

/// The value as a float.
pub(crate) fn to_float(bytes: usize) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "memories are far below 2^52 bytes")]
    let float = bytes as f64;
    float
}

/// The bytes of a line such as `Pss:  123 kB`.
fn kilobytes(file: &str, name: &str) -> Result<usize> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    let number = number.with_context(|| format!("{file} has no {name}"))?;
    Ok(number.parse::<usize>()? * 1024)
}
