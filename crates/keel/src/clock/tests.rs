//! Tests of both clocks.

use super::*;
use crate::Tasks;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn timestamp_arithmetic_carries_and_borrows_nanoseconds() {
    let late = Timestamp::new(1, 900_000_000) + Duration::from_millis(200);
    assert_eq!(late, Timestamp::new(2, 100_000_000));
    assert_eq!(late - Duration::from_millis(200), Timestamp::new(1, 900_000_000));
    assert_eq!(late.since(Timestamp::new(1, 900_000_000)), Duration::from_millis(200));
    assert_eq!(Timestamp::from_seconds(1).since(late), Duration::ZERO);
    assert_eq!(Timestamp::from_seconds(-5).since(Timestamp::from_seconds(-7)), 2 * SECOND);
}

#[test]
fn the_far_future_does_not_overflow() {
    let end = Timestamp::from_seconds(i64::MAX) + SECOND;
    assert_eq!(end.seconds(), i64::MAX);
}

#[test]
fn the_system_clock_is_past_2024() {
    assert!(Clock::system().now() > Timestamp::from_seconds(1_704_067_200));
    assert!(Clock::system().now_unix_nanos() > 1_704_067_200_000_000_000);
}

#[tokio::test]
async fn sleepers_wake_at_their_deadline_and_not_before() {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let tasks = Tasks::new();
    let (sender, mut receiver) = tokio::sync::mpsc::channel(8);
    for seconds in [3, 1, 2] {
        let (clock, sender) = (clock.clone(), sender.clone());
        tasks.spawn("sleeper", async move {
            clock.sleep_until(Timestamp::from_seconds(0) + seconds * SECOND).await;
            sender.send(seconds).await.unwrap();
        });
    }
    while lock(clock.state()).sleepers.len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.next_deadline(), Some(Timestamp::from_seconds(1)));
    clock.advance(2 * SECOND);
    assert_eq!((receiver.recv().await, receiver.recv().await), (Some(1), Some(2)));
    assert!(receiver.try_recv().is_err());
    clock.advance(SECOND);
    assert_eq!(receiver.recv().await, Some(3));
}

#[tokio::test]
async fn a_jump_does_not_count_as_elapsed_time() {
    let clock = Clock::manual(Timestamp::from_seconds(1000));
    let instant = clock.instant();
    let tasks = Tasks::new();
    let sleeper = clock.clone();
    let slept = tasks.spawn("sleeper", async move { sleeper.sleep(2 * SECOND).await });
    while clock.next_deadline().is_none() {
        tokio::task::yield_now().await;
    }
    clock.jump(Timestamp::from_seconds(500));
    while clock.next_deadline() != Some(Timestamp::from_seconds(502)) {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.possibly_elapsed_since(&instant), Duration::ZERO);
    clock.advance(2 * SECOND);
    slept.await.unwrap();
    assert_eq!(clock.elapsed_since(&instant), 2 * SECOND);
    clock.jump(Timestamp::from_seconds(5000));
    assert_eq!(clock.elapsed_since(&instant), 2 * SECOND);
    assert_eq!(clock.possibly_elapsed_since(&instant), 4000 * SECOND);
}

#[tokio::test]
async fn a_cancelled_sleep_removes_its_waker() {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    tokio::select! {
        biased;
        () = clock.sleep(SECOND) => unreachable!("the clock is not moved"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(clock.next_deadline(), None);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_on_the_system_clock_ends() {
    Clock::system().sleep(SECOND).await;
    Clock::system().sleep_until(Timestamp::from_seconds(1)).await;
}

/// Polls `sleep` once and then only when `deadline` has passed, however often it is woken.
async fn polled_at_the_deadline_only(sleep: impl Future<Output = ()>, deadline: Timestamp) {
    let clock = Clock::system();
    let mut sleep = std::pin::pin!(sleep);
    let mut polled = false;
    std::future::poll_fn(|context| {
        if mem::replace(&mut polled, true) && clock.now() < deadline {
            return Poll::Pending;
        }
        sleep.as_mut().poll(context)
    })
    .await;
}

#[tokio::test]
async fn a_sleep_that_is_not_polled_after_a_clock_check_still_wakes_its_task() {
    let clock = Clock::system();
    let deadline = clock.now() + Duration::from_millis(200);
    let sleep = clock.sleep_until_with_checks(deadline, Duration::from_millis(20));
    let woken = polled_at_the_deadline_only(sleep, deadline);
    tokio::time::timeout(10 * SECOND, woken).await.expect("the task is woken at the deadline");
}

#[tokio::test]
async fn a_sleep_is_counted_from_its_call() {
    let clock = Clock::manual(Timestamp::from_seconds(0));
    let sleep = clock.sleep(SECOND);
    clock.advance(SECOND);
    sleep.await;
}

#[tokio::test]
async fn clock_checks_do_not_end_a_sleep_early() {
    let clock = Clock::system();
    let instant = clock.instant();
    clock.sleep_until_with_checks(clock.now() + SECOND / 5, Duration::from_millis(20)).await;
    assert!(clock.elapsed_since(&instant) >= Duration::from_millis(190));
}
