//! [`Course`]: the work of the reconcile functions of both runtimes, and its progress.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tokio::sync::Notify;

use crate::widget;
use crate::widget::Widget;

/// See the [module documentation](self).
pub(crate) struct Course {
    goal: Goal,
    /// The progress of each object: its reconciles, or the last seen round plus one.
    progress: Vec<AtomicU64>,
    visits: AtomicU64,
    begun: Milestone,
    over: Milestone,
}

/// The goal of each object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// The object was seen in this round.
    Round(u64),
    /// The object was reconciled this often.
    Visits(u64),
}

/// What follows a reconcile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next reconcile follows the next change.
    Rest,
    /// Another reconcile at once.
    Again,
}

/// Is reached when all objects have reached it.
#[derive(Default)]
struct Milestone {
    objects: AtomicUsize,
    reached: Notify,
}

impl Course {
    /// A course of this number of objects.
    pub(crate) fn new(objects: usize, goal: Goal) -> Self {
        Self {
            goal,
            progress: (0..objects).map(|_| AtomicU64::new(0)).collect(),
            visits: AtomicU64::new(0),
            begun: Milestone::default(),
            over: Milestone::default(),
        }
    }

    /// Called by the reconcile function with the object that it has read.
    pub(crate) fn visit(&self, object: &Widget) -> Next {
        let number = object.metadata.name.as_deref().and_then(widget::number);
        let Some(progress) = number.and_then(|number| self.progress.get(number)) else {
            return Next::Rest;
        };
        self.visits.fetch_add(1, Relaxed);
        // A key is reconciled by one worker at a time.
        let before = progress.load(Relaxed);
        let (after, wanted) = match self.goal {
            Goal::Round(round) => (object.spec.round + 1, round + 1),
            Goal::Visits(visits) => (before + 1, visits),
        };
        progress.store(after, Relaxed);
        if before == 0 {
            self.begun.reach(self.progress.len());
        }
        if before < wanted && after >= wanted {
            self.over.reach(self.progress.len());
        }
        if matches!(self.goal, Goal::Visits(_)) && after < wanted {
            Next::Again
        } else {
            Next::Rest
        }
    }

    /// The number of reconciles so far.
    pub(crate) fn visits(&self) -> u64 {
        self.visits.load(Relaxed)
    }

    /// Waits until every object was reconciled once.
    pub(crate) async fn begun(&self) {
        self.begun.reached.notified().await;
    }

    /// Waits until every object has reached its goal.
    pub(crate) async fn over(&self) {
        self.over.reached.notified().await;
    }
}

impl Milestone {
    fn reach(&self, all: usize) {
        if self.objects.fetch_add(1, Relaxed) + 1 == all {
            self.reached.notify_one();
        }
    }
}
