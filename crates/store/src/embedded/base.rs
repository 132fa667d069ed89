//! [`Base`]: what the log was folded into: a redb database with a row for each write that is kept,
//! and what can be wrong with its file.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use keel::Entropy;
use redb::{
    Builder, Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
};

use super::{
    disk::{self, Disk, Guarded, Health, Part, damaged, translate_io},
    fold::{Fold, Threshold},
    load::Loader,
    row::{FORMAT, FORMAT_WITHOUT_LOG, Meta, Row},
};
use crate::{Error, Revision, history::Bounds};

const LOG: TableDefinition<'_, Revision, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, (), &[u8]> = TableDefinition::new("meta");

/// The table is written at its end and read once: what redb keeps in memory beyond the pages of a
/// fold would be a second copy of what we hold.
const CACHE: usize = 32 << 20;

/// See the [module documentation](self).
pub(super) struct Base {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None` after the disk was full, until it is opened again.
    open: Option<Open>,
    /// How many bytes its rows have.
    used: u64,
    /// How many bytes the file may need for no good reason: as many as rows had at some time since
    /// it was last shrunk.
    most_used: u64,
}

struct Open {
    database: Database,
    health: Health,
    /// It was not closed cleanly, so redb has read and compared every page already.
    recovered: bool,
}

/// When the file is opened, for the log.
#[derive(Clone, Copy)]
enum Occasion {
    Start,
    /// The plane is running, and a fold found no space.
    AfterFull,
}

impl Base {
    /// Makes an empty base on a disk that has none.
    pub(super) fn create(disk: &dyn Disk) -> Result<(), Error> {
        let path = disk.path(Part::Base);
        let open = Open::new(disk, &path, Occasion::Start)?;
        open.attempt(&path, |database| {
            let transaction = database.begin_write()?;
            transaction.open_table(LOG)?;
            let meta = Meta::new(Entropy::system().next_u64());
            transaction.open_table(META)?.insert((), &meta.encode()[..])?;
            transaction.commit()?;
            Ok(())
        })?;
        open.close(&path)
    }

    /// Opens the base and reads all of it.
    pub(super) fn open(disk: Arc<dyn Disk>, bounds: Bounds) -> Result<(Self, Loader), Error> {
        let path = disk.path(Part::Base);
        // A damaged page can make redb panic; to us it is one more way to find the damage.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let length = sync(&*disk).map_err(|error| translate_io(&path, error))?;
            if length == 0 {
                disk.make_logs().map_err(|error| translate_io(&path, error))?;
                Self::create(&*disk)?;
            }
            let mut open = Open::new(&*disk, &path, Occasion::Start)?;
            open.verify(&path)?;
            let (mut loader, used) = open.load(&path, bounds)?;
            if loader.meta().format == FORMAT_WITHOUT_LOG {
                disk.make_logs().map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData => {
                        damaged(&path, &format!("it is from before there was a log, but {error}"))
                    }
                    _ => translate_io(&path, error),
                })?;
                loader.set_meta(open.attempt(&path, add_log)?);
            }
            Ok((open, loader, used, length))
        }));
        let (open, loader, used, length) =
            opened.unwrap_or_else(|_| Err(damaged(&path, "its pages contradict each other")))?;
        Ok((Self { disk, path, open: Some(open), used, most_used: length.max(used) }, loader))
    }

    /// Takes in what segments of the log hold, as a whole or not at all. After [`Error::Full`] it
    /// may be tried again.
    pub(super) fn fold(&mut self, fold: &Fold) -> Result<(), Error> {
        // After a failure the handle stays out: redb does not write through it any more.
        let open = match self.open.take() {
            Some(open) => open,
            None => Open::new(&*self.disk, &self.path, Occasion::AfterFull)?,
        };
        // Also of frames that only raised the floor, so that their segment counts as folded.
        if fold.segment > 0 || !fold.is_empty() {
            let change = open.attempt(&self.path, |database| write(database, fold))?;
            self.used = self.used.saturating_add_signed(change);
            self.most_used = self.most_used.max(self.used);
        }
        self.open = Some(open);
        match fold.shrink_above {
            Some(threshold) => self.shrink(threshold),
            None => Ok(()),
        }
    }

    /// Returns the space to the file system that rows once had, if it is worth the effort: what is
    /// left is moved together.
    fn shrink(&mut self, above: Threshold) -> Result<(), Error> {
        let unused = self.most_used - self.used;
        if unused < above.bytes || (above.and_used && unused < self.used) {
            return Ok(());
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        match open.compact(&self.path) {
            Ok(()) => {
                self.open = Some(open);
                self.most_used = self.used;
                Ok(())
            }
            // The rows are where they were. The next fold opens the file again.
            Err(Error::Full) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Releases the files.
    pub(super) fn close(mut self) -> Result<(), Error> {
        match self.open.take() {
            Some(open) => open.close(&self.path),
            None => Ok(()),
        }
    }
}

/// Syncs the file, and returns its length. A process that was killed may have
/// written what is not on the disk yet: were that believed, and the log overwritten that led to it,
/// a power cut would lose both.
fn sync(disk: &dyn Disk) -> io::Result<u64> {
    let backend = disk.open(Part::Base)?;
    backend.sync_data()?;
    backend.len()
}

/// Returns by how many bytes the rows have grown.
fn write(database: &Database, fold: &Fold) -> Result<i64, redb::Error> {
    let mut change = 0;
    // Durable with one fsync, which is redb's default: checksums tell a torn commit from a whole.
    let transaction = database.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        let mut summary = transaction.open_table(META)?;
        let mut meta = stored_meta(&summary)?;
        // Not above what is stored if a fold that seemed to fail for want of space is repeated.
        let known = meta.newest;
        for event in fold.events_after(known) {
            let row = Row::of(event);
            let mut space = log.insert_reserve(event.revision, row.len())?;
            row.encode(event.revision, space.as_mut());
            change += length(row.len());
            meta.rows += 1;
        }
        for revision in fold.garbage().filter(|revision| *revision <= known) {
            if let Some(row) = log.remove(revision)? {
                meta.rows -= 1;
                change -= length(row.value().len());
            }
        }
        meta.newest = fold.newest().map_or(known, |newest| newest.max(known));
        meta.floor = fold.floor.max(meta.floor);
        meta.folded = fold.segment.max(meta.folded);
        summary.insert((), &meta.encode()[..])?;
    }
    transaction.commit()?;
    Ok(change)
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Notes that from now on there is a log. An older version, which would not read it, refuses the
/// store by the number of the format.
fn add_log(database: &Database) -> Result<Meta, redb::Error> {
    let transaction = database.begin_write()?;
    let meta = {
        let mut summary = transaction.open_table(META)?;
        let salt = Entropy::system().next_u64();
        let meta = Meta { format: FORMAT, salt, ..stored_meta(&summary)? };
        summary.insert((), &meta.encode()[..])?;
        meta
    };
    transaction.commit()?;
    Ok(meta)
}

fn stored_meta(summary: &impl ReadableTable<(), &'static [u8]>) -> Result<Meta, redb::Error> {
    let stored = summary.get(())?.and_then(|bytes| Meta::decode(bytes.value()));
    stored.ok_or_else(|| redb::Error::Corrupted("no summary".to_owned()))
}

impl Open {
    fn new(disk: &dyn Disk, path: &Path, occasion: Occasion) -> Result<Self, Error> {
        let backend = disk.open(Part::Base).map_err(|error| translate_io(path, error))?;
        let health = Health::default();
        let (shown, recovering) = (path.to_owned(), Arc::new(AtomicBool::new(false)));
        let recovers = Arc::clone(&recovering);
        let database = Builder::new()
            .set_cache_size(CACHE)
            .set_repair_callback(move |_| {
                if recovers.swap(true, Ordering::Relaxed) {
                    return;
                }
                let path = shown.display();
                match occasion {
                    Occasion::Start => tracing::warn!(%path, "not closed cleanly; recovering"),
                    Occasion::AfterFull => tracing::debug!(%path, "undoing a fold without space"),
                }
            })
            .create_with_backend(Guarded::new(backend, health.clone()));
        match database {
            Ok(database) => {
                Ok(Self { database, health, recovered: recovering.load(Ordering::Relaxed) })
            }
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
        if self.recovered {
            return Ok(());
        }
        match self.database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::warn!(path = %path.display(), "a stale index of free pages was rebuilt");
                Ok(())
            }
            Err(error) => Err(explain(path, &self.health, error.into())),
        }
    }

    /// What the rows say, and how many bytes they have.
    fn load(&self, path: &Path, bounds: Bounds) -> Result<(Loader, u64), Error> {
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
        if ![FORMAT_WITHOUT_LOG, FORMAT].contains(&meta.format) {
            let found = meta.format;
            let detail = format!("it has format {found}, and this version reads up to {FORMAT}");
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
        let (mut loader, mut used) = (Loader::new(meta, bounds), 0);
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
            used += bytes.value().len() as u64;
        }
        loader.finish_base().map_err(|detail| damaged(path, &detail))?;
        Ok((loader, used))
    }

    fn compact(&mut self, path: &Path) -> Result<(), Error> {
        match self.database.compact() {
            Ok(_) => Ok(()),
            Err(error) => Err(explain(path, &self.health, error.into())),
        }
    }

    fn close(self, path: &Path) -> Result<(), Error> {
        // What redb writes here only makes the next start faster, but a disk that fails now
        // should be heard of.
        let Self { database, health, .. } = self;
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
        (Some(Error::Broken(source)), _) if disk::is_about_content(source.kind()) => {
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
