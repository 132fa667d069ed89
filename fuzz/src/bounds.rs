//! [`bounded`]: runs a target on one input and fails if that takes too much time or memory.
//!
//! A request has at most 3 MiB, and may use 2 s of CPU time and 300 MiB of memory. The bounds of a
//! smaller input are proportional, with a minimum. The size is that of the amplified input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The largest body of a request.
pub const SIZE_MAX: usize = 3 << 20;

const TIME_MAX: Duration = Duration::from_secs(2);
const TIME_FLOOR: Duration = Duration::from_millis(500);
const MEMORY_MAX: usize = 300 << 20;
const MEMORY_FLOOR: usize = 48 << 20;

/// A factor for the checks of the targets themselves and for the coverage counters.
const SLACK: u32 = 4;

/// Runs a target on an input.
///
/// # Panics
/// If a bound is exceeded.
pub fn bounded<T>(bytes: &[u8], run: impl FnOnce(&[u8]) -> T) -> T {
    SIZE.set(bytes.len());
    let (time, memory) = (thread_cpu_time(), CURRENT.load(Ordering::Relaxed));
    PEAK.store(memory, Ordering::Relaxed);
    let outcome = run(bytes);
    let spent = thread_cpu_time() - time;
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(memory);
    let size = SIZE.get();
    let share = |most: usize| usize::try_from(most as u64 * size as u64 / SIZE_MAX as u64);
    let time_limit = (TIME_FLOOR + TIME_MAX.mul_f64(size as f64 / SIZE_MAX as f64)) * SLACK;
    let memory_limit = MEMORY_FLOOR + share(MEMORY_MAX).unwrap_or(MEMORY_MAX);
    assert!(spent <= time_limit, "{spent:?} for {size} bytes, limit is {time_limit:?}");
    assert!(peak <= memory_limit, "{peak} bytes of memory for {size}, limit is {memory_limit}");
    outcome
}

thread_local! {
    static SIZE: Cell<usize> = const { Cell::new(0) };
}

/// Records that amplification has enlarged the input by a number of bytes.
pub(crate) fn record_size(bytes: usize) {
    SIZE.set(SIZE.get() + bytes);
}

/// Returns whether the input is small enough for checks that need several copies of it, which count
/// as memory of the code under test.
pub fn is_small() -> bool {
    SIZE.get() < SIZE_MAX / 8
}

/// The CPU time of this thread.
fn thread_cpu_time() -> Duration {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    const CLOCK_THREAD_CPUTIME_ID: i32 = 3;
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: `time` is a `timespec` of 64-bit Linux, and lives until the call returns.
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    Duration::from_secs(seconds)
        + Duration::from_nanos(u64::try_from(time.nanoseconds).unwrap_or_default())
}

static CURRENT: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a counter of allocated bytes.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn grown(bytes: usize) {
    let now = CURRENT.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        CURRENT.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grown(size);
        CURRENT.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.realloc(place, layout, size) }
    }
}
