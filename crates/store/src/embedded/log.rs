//! [`Log`]: the journal as a table in a redb database, and what can be wrong with its file.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};

use super::{
    disk::{Disk, Guarded, Health},
    load::{Loaded, Loader},
    row::{FORMAT, Meta, Row},
};
use crate::{
    Error, Revision,
    history::Bounds,
    journal::{Batch, Journal},
};

const LOG: TableDefinition<'_, Revision, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, (), &[u8]> = TableDefinition::new("meta");

/// The log is written at its end and read once: what redb keeps in memory beyond the pages of a
/// few commits would be a second copy of what we hold.
const CACHE: usize = 32 << 20;

const RESTORE: &str = "restore it from a backup, or move it away to start with an empty store";

/// See the [module documentation](self).
pub(super) struct Log {
    disk: Box<dyn Disk>,
    /// `None` after the disk was full, until it is opened again.
    open: Option<Open>,
    /// The newest write that was acknowledged.
    newest: Revision,
}

struct Open {
    database: Database,
    health: Health,
}

impl Log {
    /// Makes an empty log on an empty disk.
    pub(super) fn create(disk: &dyn Disk) -> Result<(), Error> {
        let open = Open::new(disk)?;
        open.attempt(disk.path(), |database| {
            let transaction = database.begin_write()?;
            transaction.open_table(LOG)?;
            transaction.open_table(META)?.insert((), &Meta::EMPTY.encode()[..])?;
            transaction.commit()?;
            Ok(())
        })?;
        open.close(disk.path())
    }

    /// Opens the log and reads all of it.
    pub(super) fn open(disk: Box<dyn Disk>, bounds: Bounds) -> Result<(Self, Loaded), Error> {
        let path = disk.path().to_owned();
        // A damaged page can make redb panic; to us it is one more way to find the damage.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let backend = disk.open().map_err(|error| translate_io(&path, error))?;
            if backend.len().map_err(|error| translate_io(&path, error))? == 0 {
                drop(backend);
                Self::create(&*disk)?;
            }
            let mut open = Open::new(&*disk)?;
            open.verify(&path)?;
            let loaded = open.load(&path, bounds)?;
            Ok((open, loaded))
        }));
        let (open, loaded) =
            opened.unwrap_or_else(|_| Err(damaged(&path, "its pages contradict each other")))?;
        Ok((Self { disk, open: Some(open), newest: loaded.revision }, loaded))
    }
}

impl Journal for Log {
    fn append(&mut self, batch: &Batch<'_>) -> Result<(), Error> {
        // After a failure the handle stays out: redb does not write through it any more.
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&*self.disk)?,
        };
        let newest = self.newest;
        open.attempt(self.disk.path(), |database| write(database, newest, batch))?;
        self.newest = batch.events.last().map_or(newest, |event| event.revision);
        self.open = Some(open);
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        match self.open.take() {
            Some(open) => open.close(self.disk.path()),
            None => Ok(()),
        }
    }
}

/// Commits a batch. `newest` is the newest write that was acknowledged; what a failed commit may
/// have left after it is removed.
fn write(database: &Database, newest: Revision, batch: &Batch<'_>) -> Result<(), redb::Error> {
    // Durable with one fsync, which is redb's default: checksums tell a torn commit from a whole.
    let transaction = database.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        let mut summary = transaction.open_table(META)?;
        let stored = summary.get(())?.and_then(|bytes| Meta::decode(bytes.value()));
        let mut meta = stored.ok_or_else(|| redb::Error::Corrupted("no summary".to_owned()))?;
        if meta.newest > newest {
            for row in log.extract_from_if(newest + 1.., |_, _| true)? {
                row?;
                meta.rows -= 1;
            }
        }
        meta.newest = newest;
        for event in batch.events {
            let row = Row::of(event);
            let mut space = log.insert_reserve(event.revision, row.len())?;
            row.encode(event.revision, space.as_mut());
            meta.rows += 1;
            meta.newest = event.revision;
        }
        for revision in batch.garbage {
            if log.remove(revision)?.is_some() {
                meta.rows -= 1;
            }
        }
        meta.floor = batch.floor;
        summary.insert((), &meta.encode()[..])?;
    }
    transaction.commit()?;
    Ok(())
}

impl Open {
    fn new(disk: &dyn Disk) -> Result<Self, Error> {
        let path = disk.path();
        let backend = disk.open().map_err(|error| translate_io(path, error))?;
        let health = Health::default();
        let shown = path.to_owned();
        let database = Builder::new()
            .set_cache_size(CACHE)
            .set_repair_callback(move |session| {
                if session.progress() == 0.0 {
                    tracing::warn!(path = %shown.display(), "not closed cleanly; recovering");
                }
            })
            .create_with_backend(Guarded::new(backend, health.clone()));
        match database {
            Ok(database) => Ok(Self { database, health }),
            Err(error) => Err(explain(path, &health, error.into())),
        }
    }

    /// Runs `operation`, and says in our terms what went wrong.
    fn attempt<T>(
        &self,
        path: &Path,
        operation: impl FnOnce(&Database) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        operation(&self.database).map_err(|error| explain(path, &self.health, error))
    }

    /// Reads every page and compares its checksum, also those of pages that no row lies on: a
    /// page taken for free that is not would lose data long after.
    fn verify(&mut self, path: &Path) -> Result<(), Error> {
        match self.database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::warn!(path = %path.display(), "a stale index of free pages was rebuilt");
                Ok(())
            }
            Err(error) => Err(explain(path, &self.health, error.into())),
        }
    }

    fn load(&self, path: &Path, bounds: Bounds) -> Result<Loaded, Error> {
        let transaction = self.attempt(path, |database| Ok(database.begin_read()?))?;
        let tables = self.attempt(path, |_| {
            let summary = transaction.open_table(META)?.get(())?;
            let meta = summary.and_then(|bytes| Meta::decode(bytes.value()));
            Ok((meta, transaction.open_table(LOG)?))
        });
        let (meta, log) = tables?;
        let Some(meta) = meta else {
            return Err(damaged(path, "its summary is missing or wrong"));
        };
        if meta.format != FORMAT {
            let found = meta.format;
            let detail = format!("it has format {found}, and this version reads {FORMAT}");
            return Err(Error::Damaged {
                path: path.to_owned(),
                detail: format!("{detail}; use the version that wrote it"),
            });
        }
        let rows = self.attempt(path, |_| Ok(log.len()?))?;
        if rows != meta.rows {
            let detail = format!("its table has {rows} rows where {} were kept", meta.rows);
            return Err(damaged(path, &detail));
        }
        let mut loader = Loader::new(meta, bounds);
        let mut rows = self.attempt(path, |_| Ok(log.iter()?))?;
        while let Some((revision, bytes)) =
            self.attempt(path, |_| Ok(rows.next().transpose()?))?
        {
            let revision = revision.value();
            let Some(row) = Row::decode(revision, bytes.value()) else {
                return Err(damaged(
                    path,
                    &format!("the checksum of revision {revision} is wrong"),
                ));
            };
            loader.apply(revision, &row).map_err(|detail| damaged(path, &detail))?;
        }
        loader.finish().map_err(|detail| damaged(path, &detail))
    }

    fn close(self, path: &Path) -> Result<(), Error> {
        // What redb writes here only makes the next start faster, but a disk that fails now
        // should be heard of.
        let Self { database, health } = self;
        drop(database);
        match health.failure() {
            Some(Error::Broken(source)) => {
                Err(Error::Io { doing: "close", path: path.to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}

/// What an error of redb means. What the disk did says more than what redb made of it.
fn explain(path: &Path, health: &Health, error: redb::Error) -> Error {
    match (health.failure(), error) {
        (Some(Error::Broken(source)), _) if is_about_content(source.kind()) => {
            damaged(path, &source.to_string())
        }
        (Some(failure), _) => failure,
        (None, redb::Error::Io(error)) => translate_io(path, error),
        (None, redb::Error::UpgradeRequired(version)) => {
            damaged(path, &format!("redb's file format {version} is not known to this version"))
        }
        (None, error) => damaged(path, &error.to_string()),
    }
}

fn translate_io(path: &Path, error: io::Error) -> Error {
    if is_about_content(error.kind()) {
        return damaged(path, &error.to_string());
    }
    Error::Io { doing: "read", path: path.to_owned(), source: Arc::new(error) }
}

/// Whether an error says that the file is wrong, rather than that it could not be read.
fn is_about_content(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
}

fn damaged(path: &Path, detail: &str) -> Error {
    Error::Damaged { path: path.to_owned(), detail: format!("{detail}; {RESTORE}") }
}
