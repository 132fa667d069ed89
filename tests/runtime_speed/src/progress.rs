//! [`Progress`]: counts the reconciles of all objects, for both runtimes, until they reach a goal.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tokio::sync::Notify;

use crate::widget;
use crate::widget::Widget;

/// See the [module documentation](self).
pub(crate) struct Progress {
    goal: Goal,
    /// The progress of each object: its reconciles, or the last seen round plus one.
    of_objects: Vec<AtomicU64>,
    reconciles: AtomicU64,
    first_reconciles: Milestone,
    goals: Milestone,
}

/// The goal of each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The object was seen in this round.
    Round(u64),
    /// The object was reconciled this often.
    Reconciles(u64),
}

/// What follows a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next reconcile follows the next change.
    AwaitChange,
    /// Another reconcile at once.
    Requeue,
}

/// A state that is reached when all objects have reached it.
#[derive(Default)]
struct Milestone {
    objects: AtomicUsize,
    reached: Notify,
}

impl Progress {
    /// The progress of a number of objects.
    pub(crate) fn new(objects: usize, goal: Goal) -> Self {
        Self {
            goal,
            of_objects: (0..objects).map(|_| AtomicU64::new(0)).collect(),
            reconciles: AtomicU64::new(0),
            first_reconciles: Milestone::default(),
            goals: Milestone::default(),
        }
    }

    /// Called by the reconcile function with the object that it has read.
    pub(crate) fn record_reconcile(&self, object: &Widget) -> Next {
        let number = object.metadata.name.as_deref().and_then(widget::number);
        let Some(progress) = number.and_then(|number| self.of_objects.get(number)) else {
            return Next::AwaitChange;
        };
        self.reconciles.fetch_add(1, Relaxed);
        // A key is reconciled by one worker at a time.
        let before = progress.load(Relaxed);
        let (after, goal) = match self.goal {
            Goal::Round(round) => (object.spec.round + 1, round + 1),
            Goal::Reconciles(reconciles) => (before + 1, reconciles),
        };
        progress.store(after, Relaxed);
        if before == 0 {
            self.first_reconciles.reach(self.of_objects.len());
        }
        if before < goal && after >= goal {
            self.goals.reach(self.of_objects.len());
        }
        if matches!(self.goal, Goal::Reconciles(_)) && after < goal {
            Next::Requeue
        } else {
            Next::AwaitChange
        }
    }

    /// The number of reconciles so far.
    pub(crate) fn reconciles(&self) -> u64 {
        self.reconciles.load(Relaxed)
    }

    /// Waits until every object was reconciled once.
    pub(crate) async fn until_all_reconciled(&self) {
        self.first_reconciles.reached.notified().await;
    }

    /// Waits until every object has reached its goal.
    pub(crate) async fn until_goal(&self) {
        self.goals.reached.notified().await;
    }
}

impl Milestone {
    fn reach(&self, all: usize) {
        if self.objects.fetch_add(1, Relaxed) + 1 == all {
            self.reached.notify_one();
        }
    }
}
