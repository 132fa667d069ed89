//! [`Database`]: a redb database with a row for each write that is kept, up to the last checkpoint.
//! Opening it detects a damaged file.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::checkpoint::{Checkpoint, Threshold};
use super::disk;
use super::disk::{Disk, FailStopBackend, FirstFailure, StoreFile, damaged, read_error};
use super::load::Loader;
use super::row::{FORMAT, FORMAT_WITHOUT_LOG, Meta, Row};
use crate::history::Bounds;
use crate::{Error, Revision};
use keel::Entropy;

const LOG: TableDefinition<'_, Revision, &[u8]> = TableDefinition::new("log");
const META: TableDefinition<'_, (), &[u8]> = TableDefinition::new("meta");

/// The size of redb's cache. The table is appended to, and read once: a larger cache would be a second
/// copy of the records.
const CACHE_SIZE: usize = 32 << 20;

/// See the [module documentation](self).
pub(super) struct Database {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// `None` after the disk was full, until the file is opened again.
    open: Option<OpenDatabase>,
    /// The size of the rows.
    used: u64,
    /// The largest size of the rows since the file was last shrunk. redb may have allocated this
    /// much space.
    max_used: u64,
}

struct OpenDatabase {
    database: redb::Database,
    failure: FirstFailure,
    /// The file was not closed cleanly, so redb has verified every page.
    recovered: bool,
}

/// Why the file is opened; determines what is logged.
#[derive(Clone, Copy)]
enum OpenReason {
    Start,
    /// A checkpoint found the disk full.
    AfterFull,
}

impl Database {
    /// Creates an empty database on a disk without one.
    pub(super) fn create(disk: &dyn Disk) -> Result<(), Error> {
        let path = disk.path(StoreFile::Database);
        let open = OpenDatabase::new(disk, &path, OpenReason::Start)?;
        open.run(&path, |database| {
            let transaction = database.begin_write()?;
            transaction.open_table(LOG)?;
            let meta = Meta::new(Entropy::system().next_u64());
            transaction.open_table(META)?.insert((), &meta.encode()[..])?;
            transaction.commit()?;
            Ok(())
        })?;
        open.close(&path)
    }

    /// Opens and reads the database.
    pub(super) fn open(disk: Arc<dyn Disk>, bounds: Bounds) -> Result<(Self, Loader), Error> {
        let path = disk.path(StoreFile::Database);
        // A damaged page can make redb panic.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let length = sync(&*disk).map_err(|error| read_error(&path, error))?;
            if length == 0 {
                disk.create_logs().map_err(|error| read_error(&path, error))?;
                Self::create(&*disk)?;
            }
            let mut open = OpenDatabase::new(&*disk, &path, OpenReason::Start)?;
            open.verify(&path)?;
            let (mut loader, used) = open.load(&path, bounds)?;
            if loader.meta().format == FORMAT_WITHOUT_LOG {
                disk.create_logs().map_err(|error| match error.kind() {
                    io::ErrorKind::InvalidData => {
                        damaged(&path, &format!("its format has no log, but {error}"))
                    }
                    _ => read_error(&path, error),
                })?;
                loader.set_meta(open.run(&path, add_log)?);
            }
            Ok((open, loader, used, length))
        }));
        let (open, loader, used, length) =
            opened.unwrap_or_else(|_| Err(damaged(&path, "its pages contradict each other")))?;
        Ok((Self { disk, path, open: Some(open), used, max_used: length.max(used) }, loader))
    }

    /// Writes a checkpoint, atomically. After [`Error::Full`] it may be tried again.
    pub(super) fn apply(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        // After a failure the handle is dropped: redb does not write through it again.
        let open = match self.open.take() {
            Some(open) => open,
            None => OpenDatabase::new(&*self.disk, &self.path, OpenReason::AfterFull)?,
        };
        // A checkpoint of a segment is written even if its frames only raised the floor: the meta
        // table records the last segment with a checkpoint.
        if checkpoint.segment > 0 || !checkpoint.is_empty() {
            let change = open.run(&self.path, |database| write(database, checkpoint))?;
            self.used = self.used.saturating_add_signed(change);
            self.max_used = self.max_used.max(self.used);
        }
        self.open = Some(open);
        match checkpoint.shrink_above {
            Some(threshold) => self.shrink(threshold),
            None => Ok(()),
        }
    }

    /// Returns the unused space to the file system if it exceeds the threshold. The remaining rows are
    /// moved together.
    fn shrink(&mut self, above: Threshold) -> Result<(), Error> {
        let unused = self.max_used - self.used;
        if unused < above.bytes || (above.at_least_used && unused < self.used) {
            return Ok(());
        }
        let Some(mut open) = self.open.take() else { return Ok(()) };
        match open.compact(&self.path) {
            Ok(()) => {
                self.open = Some(open);
                self.max_used = self.used;
                Ok(())
            }
            // The rows are unchanged. The next checkpoint opens the file again.
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

/// Syncs the file, and returns its length. A killed process may have left unsynced writes. If the
/// segment of the log that they come from were overwritten, a power failure would lose both.
fn sync(disk: &dyn Disk) -> io::Result<u64> {
    let backend = disk.open(StoreFile::Database)?;
    backend.sync_data()?;
    backend.len()
}

/// Writes a checkpoint in one transaction. Returns the growth of the rows in bytes.
fn write(database: &redb::Database, checkpoint: &Checkpoint) -> Result<i64, redb::Error> {
    let mut change = 0;
    // redb's default durability is one fsync: checksums detect a torn commit.
    let transaction = database.begin_write()?;
    {
        let mut log = transaction.open_table(LOG)?;
        let mut summary = transaction.open_table(META)?;
        let mut meta = stored_meta(&summary)?;
        // A repeated checkpoint, after one that failed on a full disk, may be stored already.
        let known = meta.newest;
        for event in checkpoint.events_after(known) {
            let row = Row::of(event);
            let mut space = log.insert_reserve(event.revision, row.len())?;
            row.encode(event.revision, space.as_mut());
            change += signed(row.len());
            meta.rows += 1;
        }
        for revision in checkpoint.garbage().filter(|revision| *revision <= known) {
            if let Some(row) = log.remove(revision)? {
                meta.rows -= 1;
                change -= signed(row.value().len());
            }
        }
        meta.newest = checkpoint.newest().map_or(known, |newest| newest.max(known));
        meta.floor = checkpoint.floor.max(meta.floor);
        meta.checkpointed = checkpoint.segment.max(meta.checkpointed);
        summary.insert((), &meta.encode()[..])?;
    }
    transaction.commit()?;
    Ok(change)
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Raises the format of the database to the one with a log. An older version, which does not read
/// the log, refuses the store by the number of the format.
fn add_log(database: &redb::Database) -> Result<Meta, redb::Error> {
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

impl OpenDatabase {
    fn new(disk: &dyn Disk, path: &Path, reason: OpenReason) -> Result<Self, Error> {
        let backend = disk.open(StoreFile::Database).map_err(|error| read_error(path, error))?;
        let failure = FirstFailure::default();
        let (logged_path, recovering) = (path.to_owned(), Arc::new(AtomicBool::new(false)));
        let callback_called = Arc::clone(&recovering);
        let database = Builder::new()
            .set_cache_size(CACHE_SIZE)
            .set_repair_callback(move |_| {
                if callback_called.swap(true, Ordering::Relaxed) {
                    return;
                }
                let path = logged_path.display();
                match reason {
                    OpenReason::Start => tracing::warn!(%path, "not closed cleanly; recovering"),
                    OpenReason::AfterFull => {
                        tracing::debug!(%path, "undoing an incomplete checkpoint");
                    }
                }
            })
            .create_with_backend(FailStopBackend::new(backend, failure.clone()));
        match database {
            Ok(database) => {
                Ok(Self { database, failure, recovered: recovering.load(Ordering::Relaxed) })
            }
            Err(error) => Err(redb_error(path, &failure, error.into())),
        }
    }

    /// Runs `operation`, and converts its error.
    fn run<T>(
        &self,
        path: &Path,
        operation: impl FnOnce(&redb::Database) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        operation(&self.database).map_err(|error| redb_error(path, &self.failure, error))
    }

    /// Verifies the checksum of every page, also of pages without rows: a used page that is
    /// considered free would lose data much later.
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
            Err(error) => Err(redb_error(path, &self.failure, error.into())),
        }
    }

    /// Reads all rows, and returns their size.
    fn load(&self, path: &Path, bounds: Bounds) -> Result<(Loader, u64), Error> {
        let transaction = self.run(path, |database| Ok(database.begin_read()?))?;
        let tables = self.run(path, |_| {
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
        let rows = self.run(path, |_| Ok(log.len()?))?;
        if rows != meta.rows {
            let detail = format!("its table has {rows} rows where {} are expected", meta.rows);
            return Err(damaged(path, &detail));
        }
        let (mut loader, mut used) = (Loader::new(meta, bounds), 0);
        let mut rows = self.run(path, |_| Ok(log.iter()?))?;
        while let Some((revision, bytes)) = self.run(path, |_| Ok(rows.next().transpose()?))? {
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
        loader.finish_database().map_err(|detail| damaged(path, &detail))?;
        Ok((loader, used))
    }

    fn compact(&mut self, path: &Path) -> Result<(), Error> {
        match self.database.compact() {
            Ok(_) => Ok(()),
            Err(error) => Err(redb_error(path, &self.failure, error.into())),
        }
    }

    fn close(self, path: &Path) -> Result<(), Error> {
        // redb writes an index of free pages here, which makes the next start faster. A failure is
        // reported nevertheless.
        let Self { database, failure, .. } = self;
        drop(database);
        match failure.get() {
            Some(Error::Broken(source)) => {
                Err(Error::Io { doing: "close", path: path.to_owned(), source })
            }
            _ => Ok(()),
        }
    }
}

/// Converts an error of redb. The failure of the disk, if there is one, is more specific.
fn redb_error(path: &Path, failure: &FirstFailure, error: redb::Error) -> Error {
    match (failure.get(), error) {
        (Some(Error::Broken(source)), _) if disk::is_content_error(source.kind()) => {
            damaged(path, &source.to_string())
        }
        (Some(failure), _) => failure,
        (None, redb::Error::Io(error)) => read_error(path, error),
        (None, redb::Error::UpgradeRequired(version)) => {
            damaged(path, &format!("redb's file format {version} is unknown to this version"))
        }
        (None, error) => damaged(path, &error.to_string()),
    }
}
