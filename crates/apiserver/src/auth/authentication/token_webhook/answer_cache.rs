//! [`AnswerCache`]: the answers about tokens for a while, and the questions in progress.
//!
//! Keys are keyed hashes of the token and the audiences, with a key of this process, so that tokens are
//! not in memory and nobody can choose tokens whose hashes collide.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::hmac;
use tokio::sync::watch;

use super::Answer;
use keel::{Clock, ClockInstant, Entropy};

/// The maximum number of cached answers; the oldest one is dropped for a new one.
const MAX_ANSWERS: usize = 8192;

/// The maximum number of questions in progress; further ones fail.
const MAX_QUESTIONS: usize = 1024;

type Key = [u8; 32];

/// The answer to a question in progress, once there is one.
pub(super) type Pending = watch::Receiver<Option<Answer>>;

/// See the [module documentation](self).
pub(super) struct AnswerCache {
    ttl: Duration,
    clock: Clock,
    hash_key: hmac::Key,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    answers: HashMap<Key, CachedAnswer>,
    /// The keys of answers in the order in which they expire, with the number of the answer.
    order: VecDeque<(Key, u64)>,
    /// The number of answers so far.
    count: u64,
    questions: HashMap<Key, Pending>,
}

struct CachedAnswer {
    answer: Answer,
    since: ClockInstant,
    number: u64,
}

/// What to do about a token.
pub(super) enum Begin {
    /// Use this answer.
    Known(Answer),
    /// Wait for the answer to another request.
    Pending(Pending),
    /// Ask, and wait for the answer.
    Ask(Question, Pending),
    /// Too many questions are in progress.
    Full,
}

/// A question in progress. If it is dropped without an answer, the next request asks again.
pub(super) struct Question {
    cache: Arc<AnswerCache>,
    key: Key,
    sender: watch::Sender<Option<Answer>>,
}

impl AnswerCache {
    /// An empty cache whose answers are valid for `ttl`.
    pub(super) fn new(ttl: Duration, clock: &Clock, entropy: &Entropy) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let hash_key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        Self { ttl, clock: clock.clone(), hash_key, state: Mutex::default() }
    }

    /// What to do about a token.
    pub(super) fn begin(self: &Arc<Self>, token: &str, audiences: &[String]) -> Begin {
        let key = self.key(token, audiences);
        let mut state = self.lock();
        if let Some(cached) = state.answers.get(&key)
            && self.clock.elapsed_since(&cached.since) < self.ttl
        {
            return Begin::Known(cached.answer.clone());
        }
        if let Some(pending) = state.questions.get(&key) {
            return Begin::Pending(pending.clone());
        }
        if state.questions.len() >= MAX_QUESTIONS {
            return Begin::Full;
        }
        let (sender, pending) = watch::channel(None);
        state.questions.insert(key, pending.clone());
        Begin::Ask(Question { cache: Arc::clone(self), key, sender }, pending)
    }

    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let mut context = hmac::Context::with_key(&self.hash_key);
        // With lengths, so that no other token and audiences have the same text.
        let mut add = |text: &str| {
            context.update(&text.len().to_be_bytes());
            context.update(text.as_bytes());
        };
        add(token);
        for audience in audiences {
            add(audience);
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn insert(&self, key: Key, answer: &Answer) {
        let mut state = self.lock();
        state.count += 1;
        let number = state.count;
        let cached = CachedAnswer { answer: answer.clone(), since: self.clock.instant(), number };
        state.answers.insert(key, cached);
        state.order.push_back((key, number));
        while let Some((oldest, number)) = state.order.front().copied() {
            let cached = state.answers.get(&oldest).filter(|it| it.number == number);
            let is_valid = cached.is_some_and(|it| self.clock.elapsed_since(&it.since) < self.ttl);
            if is_valid && state.order.len() <= MAX_ANSWERS {
                break;
            }
            if cached.is_some() {
                state.answers.remove(&oldest);
            }
            state.order.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    /// Answers all who wait. Failures are not cached.
    pub(super) fn answer(self, answer: Answer) {
        if answer.is_ok() && !self.cache.ttl.is_zero() {
            self.cache.insert(self.key, &answer);
        }
        self.sender.send_replace(Some(answer));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.cache.lock().questions.remove(&self.key);
    }
}

impl std::fmt::Debug for AnswerCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerCache").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    const TTL: Duration = Duration::from_mins(2);

    fn cache() -> (Arc<AnswerCache>, Clock) {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        (Arc::new(AnswerCache::new(TTL, &clock, &Entropy::seeded(1))), clock)
    }

    /// Answers the question about a token, which must be asked.
    fn answer(cache: &Arc<AnswerCache>, token: &str, answer: Answer) {
        let Begin::Ask(question, _) = cache.begin(token, &[]) else {
            panic!("{token} is asked about");
        };
        question.answer(answer);
    }

    fn is_known(cache: &Arc<AnswerCache>, token: &str) -> bool {
        matches!(cache.begin(token, &[]), Begin::Known(Ok(None)))
    }

    #[test]
    fn an_answer_is_known_until_it_expires_and_a_failure_is_not() {
        let (cache, clock) = cache();
        answer(&cache, "t", Err("down".to_owned()));
        answer(&cache, "t", Ok(None));
        clock.advance(Duration::from_secs(119));
        assert!(is_known(&cache, "t"));
        clock.advance(Duration::from_secs(1));
        assert!(!is_known(&cache, "t"));
        answer(&cache, "t", Ok(None));
        assert!(is_known(&cache, "t"));
        assert_eq!(cache.lock().order.len(), 1);
    }

    #[test]
    fn the_oldest_answer_is_dropped_for_a_new_one() {
        let (cache, _) = cache();
        for index in 0..=MAX_ANSWERS {
            answer(&cache, &index.to_string(), Ok(None));
        }
        assert_eq!(cache.lock().answers.len(), MAX_ANSWERS);
        assert!(!is_known(&cache, "0"));
        assert!(is_known(&cache, "1"));
    }

    #[test]
    fn questions_are_shared_and_bounded() {
        let (cache, _) = cache();
        let asked: Vec<Begin> =
            (0..MAX_QUESTIONS).map(|it| cache.begin(&it.to_string(), &[])).collect();
        assert!(matches!(cache.begin("0", &[]), Begin::Pending(_)));
        assert!(matches!(cache.begin("another", &[]), Begin::Full));
        drop(asked);
        assert!(matches!(cache.begin("0", &[]), Begin::Ask(..)));
    }

    #[test]
    fn a_key_does_not_depend_on_where_the_token_ends() {
        let (cache, _) = cache();
        let audiences = ["b".to_owned(), "c".to_owned()];
        assert_ne!(cache.key("a", &audiences), cache.key("ab", &audiences[1..]));
        assert_ne!(cache.key("a", &audiences), cache.key("a", &["bc".to_owned()]));
    }
}
