//! [`EncryptedStore`]: encrypts and decrypts the values of another store.
//!
//! A resource without providers costs a comparison: its records are passed on. A value that cannot be
//! decrypted becomes an [unreadable](super::unreadable) one, since the watch cache reads all resources
//! together.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use futures_util::StreamExt;

use super::storage_prefixes::StoragePrefixes;
use super::transformers::{ENCRYPTED, READ_AS_IDENTITY, Transformers};
use super::unreadable;
use store::{BoxFuture, Error, Event, Expect, Page, Record, Revision, Store, Watch};

/// See the [module documentation](self).
pub(crate) struct EncryptedStore {
    inner: Arc<dyn Store>,
    codec: Arc<ValueCodec>,
}

impl EncryptedStore {
    pub(super) fn new(inner: Arc<dyn Store>, codec: Arc<ValueCodec>) -> Self {
        Self { inner, codec }
    }

    /// Whether the value of `key` would be stored in another form now: its resource is encrypted with
    /// another key, or it is not encrypted yet.
    pub(crate) async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        if !self.codec.has_providers(key) {
            return Ok(false);
        }
        match self.inner.get(key).await? {
            None => Ok(false),
            Some(record) => Ok(self.codec.is_stale(&record).await),
        }
    }

    /// The error of a write, with a conflicting record that can be read.
    async fn write_error(&self, error: Error, expect: Expect) -> Error {
        let Error::Conflict { key, found: Some(found) } = error else { return error };
        let found = self.codec.open(found).await;
        match unreadable::reason(&found.value) {
            None => Error::Conflict { key, found: Some(found) },
            // It exists, which is all that a creation needs to know.
            Some(_) if expect == Expect::Absent => Error::Conflict { key, found: None },
            Some(why) => Error::Transform(why.into()),
        }
    }
}

impl Store for EncryptedStore {
    fn get(&self, key: &str) -> BoxFuture<'_, Result<Option<Arc<Record>>, Error>> {
        let found = self.inner.get(key);
        Box::pin(async move {
            match found.await? {
                None => Ok(None),
                Some(record) => Ok(Some(self.codec.open(record).await)),
            }
        })
    }

    fn put(
        &self,
        key: &str,
        value: Bytes,
        expect: Expect,
        ttl: Option<Duration>,
    ) -> BoxFuture<'_, Result<Arc<Record>, Error>> {
        if !self.codec.has_providers(key) {
            return self.inner.put(key, value, expect, ttl);
        }
        let sealed = match self.codec.seal(key, value.clone()) {
            Ok(sealed) => sealed,
            Err(why) => return Box::pin(std::future::ready(Err(Error::Transform(why.into())))),
        };
        let written = self.inner.put(key, sealed, expect, ttl);
        Box::pin(async move {
            match written.await {
                Ok(record) => Ok(Arc::new(Record { value, ..Record::clone(&record) })),
                Err(error) => Err(self.write_error(error, expect).await),
            }
        })
    }

    fn delete(&self, key: &str, expect: Expect) -> BoxFuture<'_, Result<Event, Error>> {
        let deleted = self.inner.delete(key, expect);
        Box::pin(async move {
            match deleted.await {
                Ok(event) => Ok(self.codec.open_event(event).await),
                Err(error) => Err(self.write_error(error, expect).await),
            }
        })
    }

    fn range(
        &self,
        prefix: &str,
        start: Option<&str>,
        limit: usize,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Page, Error>> {
        let page = self.inner.range(prefix, start, limit, at);
        Box::pin(async move {
            let mut page = page.await?;
            for record in &mut page.records {
                if !self.codec.is_plain(record) {
                    *record = self.codec.open(Arc::clone(record)).await;
                }
            }
            Ok(page)
        })
    }

    fn watch(&self, prefix: &str, after: Revision) -> BoxFuture<'_, Result<Watch, Error>> {
        let watch = self.inner.watch(prefix, after);
        Box::pin(async move {
            let codec = Arc::clone(&self.codec);
            let opened = watch.await?.then(move |response| {
                let codec = Arc::clone(&codec);
                async move {
                    let mut response = response?;
                    for event in &mut response.events {
                        if !codec.is_plain_event(event) {
                            *event = codec.open_event(event.clone()).await;
                        }
                    }
                    Ok(response)
                }
            });
            Ok(Box::pin(opened) as Watch)
        })
    }

    fn request_progress(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.request_progress()
    }

    fn revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        self.inner.revision()
    }

    fn check_health(&self, timeout: Duration) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.check_health(timeout)
    }

    fn compact(&self, upto: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.compact(upto)
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        self.inner.close()
    }
}

/// Encrypts and decrypts the values of records.
pub(super) struct ValueCodec {
    prefixes: StoragePrefixes,
    transformers: ArcSwap<Transformers>,
}

impl ValueCodec {
    /// The resources of the server.
    pub(super) fn prefixes(&self) -> &StoragePrefixes {
        &self.prefixes
    }

    pub(super) fn new(prefixes: StoragePrefixes, transformers: Transformers) -> Self {
        Self { prefixes, transformers: ArcSwap::from_pointee(transformers) }
    }

    /// The present transformers.
    pub(super) fn transformers(&self) -> Guard<Arc<Transformers>> {
        self.transformers.load()
    }

    /// Replaces the transformers. Operations that have begun finish with the old ones.
    pub(super) fn replace(&self, transformers: Transformers) {
        self.transformers.store(Arc::new(transformers));
    }

    /// Whether a rule names the resource of `key`.
    fn has_providers(&self, key: &str) -> bool {
        let transformers = self.transformers.load();
        !transformers.is_empty()
            && self
                .prefixes
                .resource_of(key)
                .is_some_and(|(group, plural)| transformers.of(group, plural).is_some())
    }

    /// Whether a record is passed on as it is.
    fn is_plain(&self, record: &Record) -> bool {
        !record.value.starts_with(ENCRYPTED) && !self.has_providers(&record.key)
    }

    fn is_plain_event(&self, event: &Event) -> bool {
        let records = event.old.iter().chain(&event.new);
        records.into_iter().all(|it| self.is_plain(it))
    }

    fn seal(&self, key: &str, value: Bytes) -> Result<Bytes, String> {
        let transformers = self.transformers.load();
        let resource = self.prefixes.resource_of(key);
        match resource.and_then(|(group, plural)| transformers.of(group, plural)) {
            None => Ok(value),
            Some(providers) => providers.seal(value, key),
        }
    }

    /// The record in plaintext, or an unreadable one.
    async fn open(&self, record: Arc<Record>) -> Arc<Record> {
        if self.is_plain(&record) {
            return record;
        }
        let value = match self.open_value(&record).await {
            Ok((value, _)) => value,
            Err(why) => unreadable::value(&why),
        };
        Arc::new(Record { value, ..Record::clone(&record) })
    }

    async fn open_event(&self, mut event: Event) -> Event {
        for record in [&mut event.old, &mut event.new].into_iter().flatten() {
            *record = self.open(Arc::clone(record)).await;
        }
        event
    }

    async fn is_stale(&self, record: &Record) -> bool {
        // An unreadable value is not written again by an update that changes nothing.
        self.open_value(record).await.is_ok_and(|(_, is_stale)| is_stale)
    }

    /// The plaintext of a record, and whether it is stale.
    async fn open_value(&self, record: &Record) -> Result<(Bytes, bool), String> {
        let transformers = self.transformers.load_full();
        let resource = self.prefixes.resource_of(&record.key);
        let providers = resource.and_then(|(group, plural)| transformers.of(group, plural));
        match providers {
            Some(providers) => {
                let opened = providers.open(&record.value, &record.key).await?;
                Ok((opened.value, opened.is_stale))
            }
            None if record.value.starts_with(ENCRYPTED) => Err(READ_AS_IDENTITY.to_owned()),
            None => Ok((record.value.clone(), false)),
        }
    }
}
