//! The queue against a naive model, and what only time shows.

use std::{collections::BTreeMap, pin::Pin};

use keel::Timestamp;

use super::*;
use crate::seeded::{for_seeds, pick};

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (WorkQueue<&'static str>, Clock) {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let limits = RateLimits { interval: Duration::ZERO, ..RateLimits::default() };
    let options = QueueOptions { limits, ..QueueOptions::default() };
    (WorkQueue::new(&options, &clock, &Entropy::seeded(1)), clock)
}

/// The next key, if there is one now.
async fn get_now<K: Clone + Eq + Hash>(queue: &WorkQueue<K>) -> Option<Job<K>> {
    poll(pin!(queue.get())).await.flatten()
}

/// What comes of it, if that is known now.
async fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn a_key_that_is_added_while_it_is_worked_on_comes_again_and_not_before() {
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
async fn keys_that_come_together_reach_all_workers_that_wait() {
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
    tokio::time::timeout(5 * SECOND, all).await.expect("nobody waits for a key that is there");
}

#[tokio::test]
async fn a_delayed_key_comes_when_its_time_has_come() {
    let (queue, clock) = queue();
    queue.add_after("a", 5 * SECOND, Priority::NORMAL);
    let mut get = pin!(queue.get());
    assert!(poll(get.as_mut()).await.is_none(), "too early");
    clock.advance(5 * SECOND);
    assert_eq!(*get.await.unwrap().key(), "a");
}

#[tokio::test]
async fn a_key_says_whether_its_time_has_come_or_somebody_has_added_it() {
    let (queue, clock) = queue();
    queue.add("a");
    let job = queue.get().await.unwrap();
    assert!(!job.was_due());
    job.repeat_after(10 * SECOND);
    clock.advance(SECOND);
    queue.add("a");
    let job = queue.get().await.unwrap();
    assert!(!job.was_due(), "it was put off for longer");
    clock.advance(9 * SECOND);
    assert!(get_now(&queue).await.is_none());
    job.succeed();
    assert!(queue.get().await.unwrap().was_due(), "its time came while it was worked on");
}

#[tokio::test]
async fn a_sleeping_worker_learns_of_an_earlier_time() {
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
async fn a_failing_key_comes_later_each_time_until_it_succeeds() {
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
async fn a_job_that_panics_is_given_back() {
    let (queue, _) = queue();
    queue.add("a");
    let job = queue.get().await.unwrap();
    let worker = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        assert_eq!(*job.key(), "b", "a worker that fails");
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
    queue.get().await.unwrap().repeat_after(Duration::MAX);
    assert!(get_now(&queue).await.is_none());
    assert_eq!(queue.metrics().delayed, 1);
    queue.add("a");
    assert_eq!(*get_now(&queue).await.unwrap().key(), "a", "nobody has it");
}

#[tokio::test]
async fn limits_beyond_all_measure_hold_keys_back_and_nothing_else() {
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
async fn draining_hands_out_what_waits_and_waits_for_what_is_worked_on() {
    let (queue, _) = queue();
    queue.add("a");
    queue.add("b");
    queue.add_after("never", SECOND, Priority::NORMAL);
    let first = queue.get().await.unwrap();
    let mut drained = pin!(queue.drain());
    assert!(poll(drained.as_mut()).await.is_none(), "a is worked on, b waits");
    queue.add("too late");
    drop(queue.get().await.unwrap());
    drop(first);
    drained.await;
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn metrics_tell_how_long_things_took() {
    let (queue, clock) = queue();
    queue.add("a");
    queue.add("a");
    queue.add("b");
    clock.advance(2 * SECOND);
    let job = queue.get().await.unwrap();
    clock.advance(3 * SECOND);
    let metrics = queue.metrics();
    assert_eq!((metrics.depth, metrics.adds, metrics.unfinished), (1, 2, 1));
    assert_eq!((metrics.latency.sum(), metrics.longest_running), (2 * SECOND, 3 * SECOND));
    drop(job);
    assert_eq!(queue.metrics().work_duration.sum(), 3 * SECOND);
}

/// A worker that was done so quickly with so many keys that it is left alone with the rest.
async fn seated(queue: &WorkQueue<&'static str>) -> Job<&'static str> {
    for _ in 0..100 {
        queue.add("quick");
        let job = get_now(queue).await.expect("nobody else has it");
        assert!(job.next(Ending::Success).is_none());
    }
    for key in ["mine", "a", "b"] {
        queue.add(key);
    }
    let job = queue.get().await.unwrap();
    assert_eq!(*job.key(), "mine");
    job
}

async fn key_for_others(queue: &WorkQueue<&'static str>) -> Option<&'static str> {
    get_now(queue).await.map(|job| *job.key())
}

#[tokio::test]
async fn a_worker_that_is_quickly_done_is_left_alone_until_it_waits_or_goes() {
    let (queue, _) = queue();
    let job = seated(&queue).await;
    let mut other = pin!(queue.get());
    assert!(poll(other.as_mut()).await.is_none());
    let mut job = job.next(Ending::Success).unwrap();
    assert_eq!(*job.key(), "a");
    assert!(poll(other.as_mut()).await.is_none());
    job.hand_on();
    assert_eq!(*other.await.unwrap().key(), "b");
    job.succeed();

    let job = seated(&queue).await;
    assert_eq!(key_for_others(&queue).await, None);
    drop(job);
    assert_eq!(key_for_others(&queue).await, Some("a"));
}

#[tokio::test]
async fn keys_that_take_long_leave_nobody_alone() {
    let (queue, clock) = queue();
    let mut job = seated(&queue).await;
    assert_eq!(key_for_others(&queue).await, None);
    for _ in 0..20 {
        clock.advance(SECOND);
        queue.add("long");
        job = job.next(Ending::Success).unwrap();
    }
    queue.add("more");
    assert_eq!((*job.key(), key_for_others(&queue).await), ("long", Some("more")));
}

#[tokio::test]
async fn a_worker_that_does_not_come_back_is_replaced() {
    let (queue, clock) = queue();
    let _stuck = seated(&queue).await;
    let mut get = pin!(queue.get());
    assert!(poll(get.as_mut()).await.is_none(), "the other one may still come");
    clock.advance(WATCH);
    let job = tokio::time::timeout(SECOND, get).await.expect("it looks by itself").unwrap();
    assert_eq!(*job.key(), "a");
}

#[tokio::test]
async fn a_key_that_is_added_wakes_another_if_the_one_that_is_alone_is_stuck() {
    let (queue, clock) = queue();
    let stuck = async {
        let job = seated(&queue).await;
        // The other one has looked then, and left the keys to the one that is alone.
        tokio::task::yield_now().await;
        clock.advance(Duration::from_millis(1));
        queue.add("c");
        tokio::task::yield_now().await;
        assert_eq!(queue.metrics().unfinished, 2);
        drop(job);
    };
    let other = async {
        let _job = queue.get().await.unwrap();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stuck => {}
        () = other => {}
    }
}

#[tokio::test]
async fn nobody_is_left_alone_with_a_queue_that_is_shut_down() {
    let (queue, _) = queue();
    let job = seated(&queue).await;
    queue.shut_down();
    assert_eq!(key_for_others(&queue).await, Some("a"));
    assert_eq!(*job.next(Ending::Success).unwrap().key(), "b");
    assert!(queue.get().await.is_none());
}

#[tokio::test]
async fn a_worker_that_gave_up_watching_is_followed_by_the_next() {
    let (queue, clock) = queue();
    let _stuck = seated(&queue).await;
    assert!(get_now(&queue).await.is_none(), "it watches, and is dropped");
    assert!(!queue.0.lock().is_watched);
    let mut get = pin!(queue.get());
    assert!(poll(get.as_mut()).await.is_none());
    clock.advance(WATCH);
    assert_eq!(*get.await.unwrap().key(), "a");
}

#[tokio::test]
async fn a_worker_that_gives_up_after_it_was_woken_is_followed_by_another() {
    let (queue, _) = queue();
    let mut job = seated(&queue).await;
    let mut stays = pin!(queue.get());
    {
        let mut watches = pin!(queue.get());
        assert!(poll(watches.as_mut()).await.is_none());
        job.hand_on();
    }
    assert_eq!(*poll(stays.as_mut()).await.flatten().unwrap().key(), "a");
    let mut stays = pin!(queue.get());
    {
        let mut leaves = pin!(queue.get());
        assert_eq!(*poll(leaves.as_mut()).await.flatten().unwrap().key(), "b");
    }
    {
        let mut leaves = pin!(queue.get());
        assert!(poll(leaves.as_mut()).await.is_none());
        assert!(poll(stays.as_mut()).await.is_none());
        queue.add("c");
    }
    assert_eq!(*poll(stays.as_mut()).await.flatten().unwrap().key(), "c");
}

/// Keys in a plain list, searched from end to end.
#[derive(Default)]
struct Model {
    waiting: Vec<(&'static str, Priority, Duration)>,
    worked_on: BTreeMap<&'static str, Option<(Priority, Duration)>>,
    delayed: Vec<(&'static str, Priority, Duration)>,
}

impl Model {
    fn add(&mut self, key: &'static str, priority: Priority, now: Duration) {
        if let Some(again) = self.worked_on.get_mut(key) {
            let known = again.get_or_insert((priority, now));
            known.0 = known.0.max(priority);
        } else if let Some(at) = self.waiting.iter().position(|waits| waits.0 == key) {
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
        // Without aging, since the model's time is short: the highest priority, then the first.
        let urgent = self.waiting.iter().map(|waits| waits.1).max()?;
        let at = self.waiting.iter().position(|waits| waits.1 == urgent)?;
        let (key, ..) = self.waiting.remove(at);
        self.worked_on.insert(key, None);
        Some(key)
    }

    fn done(&mut self, key: &'static str) {
        if let Some(Some((priority, since))) = self.worked_on.remove(key) {
            self.waiting.push((key, priority, since));
        }
    }
}

#[test]
fn it_agrees_with_a_naive_model() {
    for_seeds(100, |entropy| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(walk(&entropy));
    });
}

async fn walk(entropy: &Entropy) {
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
            // Each key is delayed once at a time: how two delays are merged has its own test.
            2 if model.delayed.iter().all(|delayed| delayed.0 != key) => {
                // Times of their own, so that the order of two that are due is certain.
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
                let mut job: Job<&'static str> =
                    jobs.swap_remove(usize::try_from(entropy.below(jobs.len() as u64)).unwrap());
                model.done(job.key());
                if entropy.below(2) == 0 {
                    // So that nobody is left alone, of which the model knows nothing.
                    job.hand_on();
                    let next = job.next(Ending::Success);
                    assert_eq!(next.as_ref().map(|job| *job.key()), model.take(now));
                    jobs.extend(next);
                }
            }
            _ => {
                let job = get_now(&queue).await;
                assert_eq!(job.as_ref().map(|job| *job.key()), model.take(now));
                jobs.extend(job);
            }
        }
        assert_eq!(queue.metrics().unfinished, model.worked_on.len());
    }
}
