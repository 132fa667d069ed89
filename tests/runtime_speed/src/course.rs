//! [`Course`]: what the reconcile functions of both contenders do, and how far they have come.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tokio::sync::Notify;

use crate::widget::{self, Widget};

/// See the [module documentation](self).
pub(crate) struct Course {
    goal: Goal,
    /// How far each object is: its visits, or the round in which it was seen last, plus one.
    progress: Vec<AtomicU64>,
    visits: AtomicU64,
    begun: Milestone,
    over: Milestone,
}

/// When an object needs no more visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// It was seen in this round.
    Round(u64),
    /// It was seen so often.
    Visits(u64),
}

/// What should happen to an object after a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing, until it changes.
    Rest,
    /// Another visit at once.
    Again,
}

/// Is reached when all objects are.
#[derive(Default)]
struct Milestone {
    objects: AtomicUsize,
    reached: Notify,
}

impl Course {
    /// For so many objects.
    pub(crate) fn new(objects: usize, goal: Goal) -> Self {
        Self {
            goal,
            progress: (0..objects).map(|_| AtomicU64::new(0)).collect(),
            visits: AtomicU64::new(0),
            begun: Milestone::default(),
            over: Milestone::default(),
        }
    }

    /// To be called by the reconcile function with the object that it has read.
    pub(crate) fn visit(&self, object: &Widget) -> Next {
        let number = object.metadata.name.as_deref().and_then(widget::number);
        let Some(progress) = number.and_then(|number| self.progress.get(number)) else {
            return Next::Rest;
        };
        self.visits.fetch_add(1, Relaxed);
        // Nobody else visits this object meanwhile.
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

    /// How many visits there were so far.
    pub(crate) fn visits(&self) -> u64 {
        self.visits.load(Relaxed)
    }

    /// Waits until every object was visited once.
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
