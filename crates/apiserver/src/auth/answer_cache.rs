//! [`AnswerCache`]: the answers of another server for a while, and the questions in progress.
//!
//! All clients together have a limited number of questions in progress, and share it fairly: one client
//! has at most half of it, and leaves as much to the others as it has itself. So a client that asks many
//! questions while the other server is slow does not keep others from asking. A question counts for the
//! client that began it, until it is answered.
//!
//! The cached answers are limited in number and in bytes. A large answer is not cached, so that the other
//! server does not fill the memory.
//!
//! Keys are keyed hashes of the question, with a key of this process, so that tokens are not in memory
//! and nobody can choose questions whose hashes collide.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::hmac;
use tokio::sync::watch;

use keel::{Clock, ClockInstant, Entropy, Share, Shares};

/// The maximum number of cached answers; the oldest one is dropped for a new one.
const MAX_ANSWERS: usize = 8192;

/// The maximum size of a cached answer in bytes. A larger one is used, but not cached.
const MAX_ANSWER_SIZE: usize = 16 << 10;

/// The maximum size of all cached answers in bytes; the oldest ones are dropped for a new one.
const MAX_SIZE: usize = 16 << 20;

/// The maximum number of questions in progress; further ones fail, as do those of a client beyond its
/// share.
const MAX_QUESTIONS: usize = 1024;

/// The hash of a question.
pub(super) type Key = [u8; 32];

/// The answer to a question in progress, once there is one.
pub(super) type Pending<A> = watch::Receiver<Option<A>>;

/// See the [module documentation](self).
pub(super) struct AnswerCache<A> {
    clock: Clock,
    hash_key: hmac::Key,
    /// The size in bytes of what an answer has allocated.
    size: fn(&A) -> usize,
    /// The questions in progress, by client. It is locked after the state.
    shares: Arc<Shares>,
    state: Mutex<State<A>>,
}

struct State<A> {
    answers: HashMap<Key, CachedAnswer<A>>,
    /// The keys of answers in the order in which they were added, with the number of the answer.
    order: VecDeque<(Key, u64)>,
    /// The number of answers so far.
    count: u64,
    /// The sum of the sizes of `answers`.
    size: usize,
    questions: HashMap<Key, Pending<A>>,
}

struct CachedAnswer<A> {
    answer: A,
    since: ClockInstant,
    ttl: Duration,
    number: u64,
    size: usize,
}

/// What to do about a question.
pub(super) enum Begin<A> {
    /// Use this answer.
    Known(A),
    /// Wait for the answer to another request.
    Pending(Pending<A>),
    /// Ask, and wait for the answer.
    Ask(Question<A>, Pending<A>),
    /// Too many questions are in progress, of the client or of all.
    Full,
}

/// A question in progress. If it is dropped without an answer, the next request asks again.
pub(super) struct Question<A> {
    cache: Arc<AnswerCache<A>>,
    key: Key,
    sender: watch::Sender<Option<A>>,
    _share: Share,
}

impl<A: Clone> AnswerCache<A> {
    /// An empty cache for answers that have allocated `size` bytes.
    pub(super) fn new(clock: &Clock, entropy: &Entropy, size: fn(&A) -> usize) -> Self {
        let mut secret = [0; 32];
        entropy.fill(&mut secret);
        let hash_key = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        let state = State {
            answers: HashMap::new(),
            order: VecDeque::new(),
            count: 0,
            size: 0,
            questions: HashMap::new(),
        };
        let shares = Shares::new(MAX_QUESTIONS);
        Self { clock: clock.clone(), hash_key, size, shares, state: Mutex::new(state) }
    }

    /// What to do about a question of `client`.
    pub(super) fn begin(self: &Arc<Self>, client: &str, key: Key) -> Begin<A> {
        let mut state = self.lock();
        if let Some(cached) = state.answers.get(&key)
            && self.is_valid(cached)
        {
            return Begin::Known(cached.answer.clone());
        }
        if let Some(pending) = state.questions.get(&key) {
            return Begin::Pending(pending.clone());
        }
        let Some(share) = self.shares.take(client, 1) else { return Begin::Full };
        let (sender, pending) = watch::channel(None);
        state.questions.insert(key, pending.clone());
        Begin::Ask(Question { cache: Arc::clone(self), key, sender, _share: share }, pending)
    }

    /// The key of a question, which consists of these texts.
    pub(super) fn key<'a>(&self, texts: impl IntoIterator<Item = &'a str>) -> Key {
        let mut context = hmac::Context::with_key(&self.hash_key);
        for text in texts {
            // With lengths, so that no other texts have the same bytes.
            context.update(&text.len().to_be_bytes());
            context.update(text.as_bytes());
        }
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn is_valid(&self, cached: &CachedAnswer<A>) -> bool {
        self.clock.elapsed_since(&cached.since) < cached.ttl
    }

    fn insert(&self, key: Key, answer: A, ttl: Duration) {
        let size = size_of::<CachedAnswer<A>>() + (self.size)(&answer);
        if size > MAX_ANSWER_SIZE {
            return;
        }
        let mut state = self.lock();
        state.count += 1;
        let number = state.count;
        let cached = CachedAnswer { answer, since: self.clock.instant(), ttl, number, size };
        state.remove(&key);
        state.answers.insert(key, cached);
        state.size += size;
        state.order.push_back((key, number));
        while let Some((oldest, number)) = state.order.front().copied() {
            let cached = state.answers.get(&oldest).filter(|it| it.number == number);
            let is_valid = cached.is_some_and(|it| self.is_valid(it));
            if is_valid && state.order.len() <= MAX_ANSWERS && state.size <= MAX_SIZE {
                break;
            }
            if cached.is_some() {
                state.remove(&oldest);
            }
            state.order.pop_front();
        }
    }
}

impl<A> State<A> {
    fn remove(&mut self, key: &Key) {
        if let Some(removed) = self.answers.remove(key) {
            self.size -= removed.size;
        }
    }
}

impl<A> AnswerCache<A> {
    fn lock(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Clone> Question<A> {
    /// Answers all who wait. The answer is cached for `ttl`, which may be zero.
    pub(super) fn answer(self, answer: A, ttl: Duration) {
        if !ttl.is_zero() {
            self.cache.insert(self.key, answer.clone(), ttl);
        }
        self.sender.send_replace(Some(answer));
    }
}

impl<A> Drop for Question<A> {
    fn drop(&mut self) {
        self.cache.lock().questions.remove(&self.key);
    }
}

/// The size in bytes of what a list of texts has allocated.
pub(super) fn texts_size(texts: &[String]) -> usize {
    let sizes = texts.iter().map(|it| size_of::<String>() + it.len());
    sizes.sum()
}

impl<A> std::fmt::Debug for AnswerCache<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel::Timestamp;

    const TTL: Duration = Duration::from_mins(2);

    type Cache = Arc<AnswerCache<u8>>;

    fn cache() -> (Cache, Clock) {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        (Arc::new(AnswerCache::new(&clock, &Entropy::seeded(1), |_| 0)), clock)
    }

    fn begin(cache: &Cache, text: &str) -> Begin<u8> {
        cache.begin("alice", cache.key([text]))
    }

    /// Answers a question, which must be asked.
    fn answer(cache: &Cache, text: &str, answer: u8, ttl: Duration) {
        let Begin::Ask(question, _) = begin(cache, text) else {
            panic!("{text} is asked about");
        };
        question.answer(answer, ttl);
    }

    fn known(cache: &Cache, text: &str) -> Option<u8> {
        match begin(cache, text) {
            Begin::Known(answer) => Some(answer),
            _ => None,
        }
    }

    #[test]
    fn an_answer_is_known_until_it_expires() {
        let (cache, clock) = cache();
        answer(&cache, "t", 1, Duration::ZERO);
        answer(&cache, "t", 2, TTL);
        answer(&cache, "u", 3, TTL / 2);
        clock.advance(TTL / 2);
        assert_eq!((known(&cache, "t"), known(&cache, "u")), (Some(2), None));
        clock.advance(TTL / 2);
        assert_eq!(known(&cache, "t"), None);
        answer(&cache, "t", 4, TTL);
        assert_eq!(known(&cache, "t"), Some(4));
        assert_eq!(cache.lock().order.len(), 1);
    }

    #[test]
    fn the_oldest_answer_is_dropped_for_a_new_one() {
        let (cache, _) = cache();
        for index in 0..=MAX_ANSWERS {
            answer(&cache, &index.to_string(), 0, TTL);
        }
        assert_eq!(cache.lock().answers.len(), MAX_ANSWERS);
        assert_eq!((known(&cache, "0"), known(&cache, "1")), (None, Some(0)));
    }

    #[test]
    fn the_size_of_the_cached_answers_is_bounded() {
        let clock = Clock::manual(Timestamp::from_seconds(1000));
        let cache = AnswerCache::new(&clock, &Entropy::seeded(1), String::len);
        let cache = Arc::new(cache);
        let is_known = |index: usize, length: usize| match cache
            .begin("alice", cache.key([index.to_string().as_str()]))
        {
            Begin::Ask(question, _) => {
                question.answer("x".repeat(length), TTL);
                false
            }
            known => matches!(known, Begin::Known(answer) if answer.len() == length),
        };
        let most = MAX_ANSWER_SIZE - size_of::<CachedAnswer<String>>();
        assert!(!is_known(0, most + 1) && !is_known(0, most) && is_known(0, most));
        let count = MAX_SIZE / MAX_ANSWER_SIZE;
        for index in 1..count {
            is_known(index, most);
        }
        assert!(is_known(0, most), "all answers are in the cache");
        is_known(count, most);
        let limits = {
            let state = cache.lock();
            (state.answers.len(), state.size)
        };
        assert_eq!(limits, (count, MAX_SIZE));
        assert!(is_known(1, most) && !is_known(0, 1), "the oldest one was dropped");
        clock.advance(TTL);
        is_known(0, 1);
        assert_eq!(cache.lock().size, MAX_ANSWER_SIZE - most + 1, "the others have expired");
    }

    #[test]
    fn questions_are_shared_and_bounded() {
        let (cache, _) = cache();
        let ask = |client: &str| -> Vec<Begin<u8>> {
            let begin = |it: usize| cache.begin(client, cache.key([client, &it.to_string()]));
            (0..MAX_QUESTIONS).map(begin).filter(|it| !matches!(it, Begin::Full)).collect()
        };
        let asked: Vec<_> = ["alice", "bob", "carol"].map(ask).into();
        let counts: Vec<usize> = asked.iter().map(Vec::len).collect();
        assert_eq!(counts, [MAX_QUESTIONS / 2, MAX_QUESTIONS / 4, MAX_QUESTIONS / 8]);
        let again = cache.begin("carol", cache.key(["alice", "0"]));
        assert!(matches!(again, Begin::Pending(_)), "it needs no share");
        drop(asked);
        assert_eq!(ask("bob").len(), MAX_QUESTIONS / 2);
    }

    #[test]
    fn a_key_depends_on_where_each_text_ends() {
        let (cache, _) = cache();
        assert_ne!(cache.key(["a", "b", "c"]), cache.key(["ab", "c"]));
        assert_ne!(cache.key(["a", "b", "c"]), cache.key(["a", "bc"]));
    }
}
