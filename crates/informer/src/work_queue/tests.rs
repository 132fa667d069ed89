//! The queue with a manual clock, and against a naive model.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};

use super::*;
use crate::seeded::{for_seeds, pick};
use keel::Timestamp;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (WorkQueue<&'static str>, Clock) {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let limits = RateLimits { interval: Duration::ZERO, ..RateLimits::default() };
    let options = QueueOptions { limits, ..QueueOptions::default() };
    (WorkQueue::new(&options, &clock, &Entropy::seeded(1)), clock)
}

/// The next job, if a key waits.
async fn get_now<K: Clone + Eq + Hash>(queue: &WorkQueue<K>) -> Option<Job<K>> {
    poll(pin!(queue.get())).await.flatten()
}

/// The output, if the future is ready.
async fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn a_key_that_is_added_while_it_is_processed_is_handed_out_again_afterwards() {
    let (queue, _) = queue();
    queue.add("a");
    let job = queue.get().await.unwrap();
    queue.add("a");
    queue.add("a");
    assert!(get_now(&queue).await.is_none());
    drop(job);
    assert_eq!(*get_now(&queue).await.unwrap().key(), "a");
    assert!(get_now(&queue).await.is_none());
}

#[tokio::test]
async fn keys_that_are_added_together_wake_all_idle_workers() {
    let (queue, _) = queue();
    let barrier = tokio::sync::Barrier::new(3);
    let work = async || {
        let job = queue.get().await.unwrap();
        barrier.wait().await;
        job.succeed();
    };
    let add = async {
        tokio::task::yield_now().await;
        for key in ["a", "b", "c"] {
            queue.add(key);
        }
    };
    let all = async { tokio::join!(work(), work(), work(), add) };
    tokio::time::timeout(5 * SECOND, all).await.expect("no worker waits while a key does");
}

#[tokio::test]
async fn a_delayed_key_is_handed_out_after_its_delay() {
    let (queue, clock) = queue();
    queue.add_after("a", 5 * SECOND, Priority::NORMAL);
    let mut get = pin!(queue.get());
    assert!(poll(get.as_mut()).await.is_none(), "too early");
    clock.advance(5 * SECOND);
    assert_eq!(*get.await.unwrap().key(), "a");
}

#[tokio::test]
async fn a_job_knows_whether_its_key_was_delayed() {
    let (queue, clock) = queue();
    queue.add("a");
    let job = queue.get().await.unwrap();
    assert!(!job.was_delayed());
    job.requeue_after(10 * SECOND);
    clock.advance(SECOND);
    queue.add("a");
    let job = queue.get().await.unwrap();
    assert!(!job.was_delayed(), "its delay is not over");
    clock.advance(9 * SECOND);
    assert!(get_now(&queue).await.is_none());
    job.succeed();
    assert!(queue.get().await.unwrap().was_delayed(), "its delay ended while it was processed");
}

#[tokio::test]
async fn an_idle_worker_is_woken_for_a_shorter_delay() {
    let (queue, clock) = queue();
    queue.add_after("late", 100 * SECOND, Priority::NORMAL);
    let mut get = pin!(queue.get());
    assert!(poll(get.as_mut()).await.is_none(), "too early");
    queue.add_after("early", SECOND, Priority::NORMAL);
    assert!(poll(get.as_mut()).await.is_none(), "too early");
    clock.advance(SECOND);
    assert_eq!(*get.await.unwrap().key(), "early");
}

#[tokio::test]
async fn the_delay_of_a_failing_key_grows_until_it_succeeds() {
    let (queue, clock) = queue();
    queue.add("a");
    for failures in 1..10 {
        get_now(&queue).await.unwrap().retry();
        assert_eq!(queue.failures(&"a"), failures);
        assert!(get_now(&queue).await.is_none());
        clock.advance(Duration::from_millis(5 << (failures - 1)));
    }
    get_now(&queue).await.unwrap().succeed();
    assert_eq!((queue.failures(&"a"), queue.metrics().retries), (0, 9));
}

#[tokio::test]
async fn the_key_of_a_worker_that_panics_is_released() {
    let (queue, _) = queue();
    queue.add("a");
    let job = queue.get().await.unwrap();
    let worker = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        assert_eq!(*job.key(), "b", "expected in this test");
    }));
    assert!(worker.is_err());
    assert_eq!(queue.metrics().unfinished, 0);
    queue.add("a");
    assert_eq!(*get_now(&queue).await.unwrap().key(), "a", "another worker gets it");
}

#[tokio::test]
async fn a_key_may_be_delayed_for_ever() {
    let (queue, clock) = queue();
    clock.advance(SECOND);
    queue.add("a");
    queue.get().await.unwrap().requeue_after(Duration::MAX);
    assert!(get_now(&queue).await.is_none());
    assert_eq!(queue.metrics().delayed, 1);
    queue.add("a");
    assert_eq!(*get_now(&queue).await.unwrap().key(), "a", "no worker has it");
}

#[tokio::test]
async fn the_largest_limits_delay_keys_without_an_overflow() {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let limits = RateLimits { interval: Duration::MAX, burst: 1, ..RateLimits::default() };
    let options = QueueOptions { limits, ..QueueOptions::default() };
    let queue = WorkQueue::new(&options, &clock, &Entropy::seeded(1));
    clock.advance(SECOND);
    for key in ["a", "b"] {
        queue.add_rate_limited(key, Priority::NORMAL);
    }
    assert_eq!(queue.metrics().delayed, 2);
}

#[tokio::test]
async fn draining_hands_out_waiting_keys_and_waits_for_unfinished_ones() {
    let (queue, _) = queue();
    queue.add("a");
    queue.add("b");
    queue.add_after("never", SECOND, Priority::NORMAL);
    let first = queue.get().await.unwrap();
    let mut drained = pin!(queue.drain());
    assert!(poll(drained.as_mut()).await.is_none(), "a is processed, b waits");
    queue.add("too late");
    drop(queue.get().await.unwrap());
    drop(first);
    drained.await;
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn metrics_count_keys_and_measure_durations() {
    #[derive(Debug, Default)]
    struct Sum(Mutex<Duration>);
    impl HistogramMetric for Sum {
        fn observe(&self, duration: Duration) {
            *self.0.lock().unwrap() += duration;
        }
    }
    let (latency, work_duration) = (Arc::<Sum>::default(), Arc::<Sum>::default());
    let options = QueueOptions {
        latency: Arc::<Sum>::clone(&latency),
        work_duration: Arc::<Sum>::clone(&work_duration),
        ..QueueOptions::default()
    };
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let queue = WorkQueue::new(&options, &clock, &Entropy::seeded(1));
    queue.add("a");
    queue.add("a");
    queue.add("b");
    clock.advance(2 * SECOND);
    let job = queue.get().await.unwrap();
    clock.advance(3 * SECOND);
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds, metrics.unfinished), (1, 2, 1));
    assert_eq!((*latency.0.lock().unwrap(), metrics.longest_running), (2 * SECOND, 3 * SECOND));
    drop(job);
    assert_eq!(*work_duration.0.lock().unwrap(), 3 * SECOND);
}

#[tokio::test]
async fn a_worker_that_is_dropped_after_it_was_woken_wakes_another() {
    let (queue, _) = queue();
    let mut stays = pin!(queue.get());
    {
        let mut leaves = pin!(queue.get());
        assert!(poll(leaves.as_mut()).await.is_none());
        assert!(poll(stays.as_mut()).await.is_none());
        queue.add("a");
    }
    assert_eq!(*poll(stays.as_mut()).await.flatten().unwrap().key(), "a");
}

/// In each round some workers stop after one attempt, on another thread than that of the additions.
/// The workers that stay get every key that the others leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_waits_for_ever_while_workers_come_and_go_on_other_threads() {
    let (options, clock) = (QueueOptions::default(), Clock::system());
    let queue = WorkQueue::new(&options, &clock, &Entropy::seeded(1));
    let tasks = keel::Tasks::new();
    let (processed, mut received) = tokio::sync::mpsc::channel(16);
    for _ in 0..3 {
        let (queue, processed) = (queue.clone(), processed.clone());
        tasks.spawn("worker", async move {
            while let Some(job) = queue.get().await {
                processed.send(*job.key()).await.unwrap();
            }
        });
    }
    let rounds = async {
        for round in 0..2000 {
            let (leaving, sent) = (queue.clone(), processed.clone());
            tasks.spawn("leaving worker", async move {
                if let Some(job) = get_now(&leaving).await {
                    sent.send(*job.key()).await.unwrap();
                }
            });
            let keys = [3 * round, 3 * round + 1, 3 * round + 2];
            for key in keys {
                queue.add(key);
            }
            let mut seen = Vec::new();
            for _ in keys {
                seen.extend(received.recv().await);
            }
            seen.sort_unstable();
            assert_eq!(seen, keys);
        }
    };
    tokio::time::timeout(60 * SECOND, rounds).await.expect("no key is left");
    queue.shut_down();
    tasks.stop(5 * SECOND).await.unwrap();
}

#[tokio::test]
async fn a_delay_is_independent_of_changes_of_the_clock() {
    let (queue, clock) = queue();
    clock.jump(Timestamp::from_seconds(10_000));
    queue.add_after("a", 5 * SECOND, Priority::NORMAL);
    for seconds in [0, 20_000] {
        clock.jump(Timestamp::from_seconds(seconds));
        assert!(get_now(&queue).await.is_none());
    }
    clock.advance(5 * SECOND);
    assert_eq!(*get_now(&queue).await.unwrap().key(), "a");
}

/// A queue that searches lists of keys.
#[derive(Default)]
struct Model {
    waiting: Vec<(&'static str, Priority, Duration)>,
    processing: BTreeMap<&'static str, Option<(Priority, Duration)>>,
    delayed: Vec<(&'static str, Priority, Duration)>,
}

impl Model {
    fn add(&mut self, key: &'static str, priority: Priority, now: Duration) {
        if let Some(again) = self.processing.get_mut(key) {
            let known = again.get_or_insert((priority, now));
            known.0 = known.0.max(priority);
        } else if let Some(at) = self.waiting.iter().position(|entry| entry.0 == key) {
            if priority > self.waiting[at].1 {
                let (_, _, since) = self.waiting.remove(at);
                self.waiting.push((key, priority, since));
            }
        } else {
            self.waiting.push((key, priority, now));
        }
    }

    fn take(&mut self, now: Duration) -> Option<&'static str> {
        let mut due: Vec<_> =
            self.delayed.iter().filter(|(_, _, due)| *due <= now).copied().collect();
        self.delayed.retain(|(_, _, due)| *due > now);
        due.sort_by_key(|(_, _, due)| *due);
        for (key, priority, _) in due {
            self.add(key, priority, now);
        }
        // The highest priority, then the first key; aging is disabled.
        let urgent = self.waiting.iter().map(|entry| entry.1).max()?;
        let at = self.waiting.iter().position(|entry| entry.1 == urgent)?;
        let (key, ..) = self.waiting.remove(at);
        self.processing.insert(key, None);
        Some(key)
    }

    fn done(&mut self, key: &'static str) {
        if let Some(Some((priority, since))) = self.processing.remove(key) {
            self.waiting.push((key, priority, since));
        }
    }
}

#[test]
fn the_queue_agrees_with_a_naive_model() {
    for_seeds(100, |entropy| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(run_random_steps(&entropy));
    });
}

async fn run_random_steps(entropy: &Entropy) {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let options = QueueOptions { aging: Duration::from_secs(1_000_000), ..Default::default() };
    let queue = WorkQueue::new(&options, &clock, entropy);
    let (mut model, mut jobs, mut now) = (Model::default(), Vec::new(), Duration::ZERO);
    for _ in 0..300 {
        let key = pick(entropy, &["a", "b", "c", "d", "e", "f"]);
        let priority = pick(entropy, &[Priority::LOW, Priority::NORMAL, Priority::HIGH]);
        match entropy.below(6) {
            0 | 1 => {
                queue.add_with_priority(key, priority);
                model.add(key, priority, now);
            }
            // Each key is delayed once at a time; another test merges two delays.
            2 if model.delayed.iter().all(|delayed| delayed.0 != key) => {
                // Different delays, so that the order of due keys is defined.
                let delay = Duration::from_nanos(1 + entropy.below(1 << 40));
                queue.add_after(key, delay, priority);
                model.delayed.push((key, priority, now + delay));
            }
            3 => {
                let step = Duration::from_nanos(entropy.below(1 << 40));
                clock.advance(step);
                now += step;
            }
            4 if !jobs.is_empty() => {
                let job: Job<&'static str> =
                    jobs.swap_remove(usize::try_from(entropy.below(jobs.len() as u64)).unwrap());
                model.done(job.key());
            }
            _ => {
                let job = get_now(&queue).await;
                assert_eq!(job.as_ref().map(|job| *job.key()), model.take(now));
                jobs.extend(job);
            }
        }
        assert_eq!(queue.metrics().unfinished, model.processing.len());
    }
}
