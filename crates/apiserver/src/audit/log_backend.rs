//! [`LogBackend`]: events as lines of a file that is rotated, or of the standard output.
//!
//! A full file gets a time in its name, as upstream's has: `audit.log` becomes
//! `audit-2024-05-06T07-08-09.123.log`. Files are readable by their owner only.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions};
use std::hint::spin_loop;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use bytes::Bytes;

use super::backend::Delivery;
use super::legacy_format;
use keel::{Clock, Timestamp};
use machinery::timestamp;

/// The size of a file if none is configured, in megabytes. Upstream: that of lumberjack.
const DEFAULT_MAX_SIZE: u64 = 100;

/// Settings of a file of events.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// The path of the file; `-` is the standard output.
    pub path: PathBuf,
    /// The size in megabytes at which a file is rotated; 0 stands for 100.
    pub max_size: u64,
    /// The number of rotated files that are kept; 0 stands for all.
    pub max_backups: usize,
    /// The number of days for which a rotated file is kept; 0 stands for ever.
    pub max_age: u64,
    /// The format of the lines.
    pub format: LogFormat,
    /// Whether requests wait for the write.
    pub delivery: Delivery,
}

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// An event as JSON.
    #[default]
    Json,
    /// Text, with the most important fields of an event.
    Legacy,
}

/// The file of events cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the audit log {path}", path = .path.display())]
pub struct LogError {
    /// The path of the file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

/// See the [module documentation](self).
pub(super) struct LogBackend {
    /// None for the standard output.
    file: Option<Mutex<RotatingFile>>,
    format: LogFormat,
    clock: Clock,
    /// Whether the last write to the file was slow.
    is_slow: AtomicBool,
}

/// A write that takes longer is slow. Usually it is copied to memory of the operating system, within
/// microseconds.
const SLOW: Duration = Duration::from_millis(1);

impl LogBackend {
    /// Opens the file, and creates it and its directory if they do not exist.
    pub(super) fn open(settings: &LogSettings, clock: &Clock) -> Result<Self, LogError> {
        if settings.path == Path::new("-") {
            return Ok(Self::new(None, settings.format, clock));
        }
        let file = RotatingFile::open(settings, clock)
            .map_err(|source| LogError { path: settings.path.clone(), source })?;
        Ok(Self::new(Some(Mutex::new(file)), settings.format, clock))
    }

    fn new(file: Option<Mutex<RotatingFile>>, format: LogFormat, clock: &Clock) -> Self {
        Self { file, format, clock: clock.clone(), is_slow: AtomicBool::new(false) }
    }

    /// Appends events with one write. The error is a message.
    pub(super) fn write(&self, events: &[Bytes]) -> Result<(), String> {
        match events {
            [one] => self.write_lines(&self.lines(one)?),
            several => self.write_lines(&self.lines(&several.concat())?),
        }
    }

    /// The lines of events in the format of the log.
    pub(super) fn lines<'a>(&self, events: &'a [u8]) -> Result<Cow<'a, [u8]>, String> {
        match self.format {
            LogFormat::Json => Ok(events.into()),
            LogFormat::Legacy => {
                legacy_lines(events).map(Into::into).map_err(|error| error.to_string())
            }
        }
    }

    /// Appends lines with one write. The error is a message.
    pub(super) fn write_lines(&self, lines: &[u8]) -> Result<(), String> {
        let written = match &self.file {
            // A pipe may be full for as long as nobody reads it.
            None => keel::blocking_io(|| write_to_stdout(lines)),
            Some(file) => self.append(file, lines),
        };
        written.map_err(|error| error.to_string())
    }

    /// Appends lines, unless that may take long: another thread writes, or the disk is slow.
    pub(super) fn try_write_lines(&self, lines: &[u8]) -> Option<Result<(), String>> {
        let file = self.file.as_ref().filter(|_| !self.is_slow.load(Relaxed))?.try_lock().ok()?;
        Some(self.append_locked(file, lines).map_err(|error| error.to_string()))
    }

    /// Appends to a file. While its disk is slow, the runtime replaces each thread that waits for it,
    /// so that requests that are not recorded go on.
    fn append(&self, file: &Mutex<RotatingFile>, text: &[u8]) -> io::Result<()> {
        if !self.is_slow.load(Relaxed)
            && let Some(file) = try_lock(file)
        {
            return self.append_locked(file, text);
        }
        keel::blocking_io(|| {
            let file = file.lock().unwrap_or_else(PoisonError::into_inner);
            self.append_locked(file, text)
        })
    }

    fn append_locked(&self, mut file: MutexGuard<'_, RotatingFile>, text: &[u8]) -> io::Result<()> {
        let start = self.clock.instant();
        let written = file.append(text);
        self.is_slow.store(self.clock.elapsed_since(&start) > SLOW, Relaxed);
        written
    }
}

/// The events in the format `legacy`.
fn legacy_lines(events: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut lines = Vec::new();
    for event in events.split(|byte| *byte == b'\n').filter(|event| !event.is_empty()) {
        lines.extend_from_slice(legacy_format::line(event)?.as_bytes());
    }
    Ok(lines)
}

/// The number of attempts to lock a file before the thread sleeps: a few microseconds.
const LOCK_ATTEMPTS: usize = 500;

/// Locks a file, unless another thread holds it for long. Usually it holds it for a microsecond or
/// two, and it takes several times as long to sleep and to be woken.
fn try_lock(file: &Mutex<RotatingFile>) -> Option<MutexGuard<'_, RotatingFile>> {
    for _ in 0..LOCK_ATTEMPTS {
        match file.try_lock() {
            Ok(file) => return Some(file),
            Err(TryLockError::Poisoned(file)) => return Some(file.into_inner()),
            Err(TryLockError::WouldBlock) => spin_loop(),
        }
    }
    None
}

fn write_to_stdout(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()
}

/// A file that is renamed when it is full.
struct RotatingFile {
    path: PathBuf,
    /// None after the file could not be opened again.
    file: Option<File>,
    size: u64,
    max_size: u64,
    max_backups: usize,
    max_age: u64,
    clock: Clock,
    /// Whether the file ends within a line, because a write has failed or an earlier process has ended
    /// during one.
    is_torn: bool,
}

impl RotatingFile {
    fn open(settings: &LogSettings, clock: &Clock) -> io::Result<Self> {
        let LogSettings { path, max_size, max_backups, max_age, .. } = settings.clone();
        if let Some(directory) = path.parent().filter(|it| !it.as_os_str().is_empty())
            && !directory.exists()
        {
            keel::create_private_directory(directory)?;
        }
        let max_size = if max_size == 0 { DEFAULT_MAX_SIZE } else { max_size };
        let max_size = max_size.saturating_mul(1 << 20);
        let file = open_for_append(&path)?;
        let size = file.metadata()?.len();
        // A file that cannot be read gets an empty line rather than two events in one.
        let is_torn = size > 0 && !ends_with_line(&path).unwrap_or(false);
        let clock = clock.clone();
        let file = Some(file);
        Ok(Self { path, file, size, max_size, max_backups, max_age, clock, is_torn })
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + text.len() as u64 > self.max_size {
            // It may take as long as the file system needs to remove large files.
            keel::blocking_io(|| self.rotate())?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open_for_append(&self.path)?),
        };
        if self.is_torn {
            file.write_all(b"\n")?;
            self.is_torn = false;
        }
        match file.write_all(text) {
            Ok(()) => {
                self.size += text.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.is_torn = true;
                self.size = file.metadata().map_or(self.size, |it| it.len());
                Err(error)
            }
        }
    }

    /// Begins a new file. This may take as long as the file system needs to remove large files.
    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        self.file = None;
        let mut backup = backup_path(&self.path, now);
        // Within one millisecond, or after the clock was set back.
        for offset in 1..1000 {
            if !backup.exists() {
                break;
            }
            backup = backup_path(&self.path, now + Duration::from_millis(offset));
        }
        match fs::rename(&self.path, &backup) {
            Ok(()) => {}
            // Somebody else has moved the file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        self.file = Some(open_for_append(&self.path)?);
        (self.size, self.is_torn) = (0, false);
        self.remove_old(now);
        Ok(())
    }

    /// Removes the rotated files that are too many or too old.
    fn remove_old(&self, now: Timestamp) {
        if self.max_backups == 0 && self.max_age == 0 {
            return;
        }
        let max_age = i64::try_from(self.max_age).unwrap_or(i64::MAX).saturating_mul(86_400);
        let oldest = now.seconds().saturating_sub(max_age);
        for (index, (time, path)) in self.backups().into_iter().enumerate() {
            let is_too_many = self.max_backups > 0 && index >= self.max_backups;
            let is_too_old = self.max_age > 0 && time < oldest;
            if (is_too_many || is_too_old)
                && let Err(error) = fs::remove_file(&path)
            {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot remove a rotated audit log");
            }
        }
    }

    /// The rotated files and the times in their names, the newest first.
    fn backups(&self) -> Vec<(i64, PathBuf)> {
        let directory = self.path.parent().filter(|it| !it.as_os_str().is_empty());
        let entries = fs::read_dir(directory.unwrap_or(Path::new("."))).into_iter().flatten();
        let (stem, extension) = name_parts(&self.path);
        let mut found: Vec<(i64, u32, PathBuf)> = entries
            .filter_map(|it| {
                let path = it.ok()?.path();
                let name = path.file_name()?.to_str()?;
                let time = name.strip_prefix(&stem)?.strip_prefix('-')?.strip_suffix(&extension)?;
                let (seconds, nanos) = parse_backup_time(time)?;
                Some((seconds, nanos, path))
            })
            .collect();
        found.sort_by(|one, other| other.cmp(one));
        found.into_iter().map(|(seconds, _, path)| (seconds, path)).collect()
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    keel::open_private(OpenOptions::new().create(true).append(true), path)
}

/// Whether the last byte of a file is the end of a line.
fn ends_with_line(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// The name of a file before its extension, and the extension with its dot.
fn name_parts(path: &Path) -> (String, String) {
    let text = |it: &std::ffi::OsStr| it.to_string_lossy().into_owned();
    let stem = path.file_stem().map(text).unwrap_or_default();
    let extension = path.extension().map(|it| format!(".{}", text(it))).unwrap_or_default();
    (stem, extension)
}

fn backup_path(path: &Path, now: Timestamp) -> PathBuf {
    let (stem, extension) = name_parts(path);
    let seconds = timestamp::format_seconds(now.seconds());
    let time = seconds.trim_end_matches('Z').replace(':', "-");
    let millis = now.nanos() / 1_000_000;
    path.with_file_name(format!("{stem}-{time}.{millis:03}{extension}"))
}

/// Reads the time of [`backup_path`].
fn parse_backup_time(text: &str) -> Option<(i64, u32)> {
    let (date, time) = text.split_once('T')?;
    timestamp::parse(&format!("{date}T{}Z", time.replace('-', ":")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const MEGABYTE: usize = 1 << 20;

    fn settings(path: &Path, max_backups: usize, max_age: u64) -> LogSettings {
        let delivery = Delivery::of_log();
        let (path, format) = (path.to_owned(), LogFormat::Json);
        LogSettings { path, max_size: 1, max_backups, max_age, format, delivery }
    }

    fn clock() -> Clock {
        Clock::manual(Timestamp::new(1_714_972_089, 123_000_000))
    }

    /// The names of the files in a directory, in order.
    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let name = |it: io::Result<fs::DirEntry>| it.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    fn line(length: usize) -> [Bytes; 1] {
        let mut line = vec![b'x'; length - 1];
        line.push(b'\n');
        [line.into()]
    }

    #[test]
    fn a_full_file_is_renamed_and_all_files_are_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs").join("audit.log");
        let log = LogBackend::open(&settings(&path, 0, 0), &clock()).unwrap();
        log.write(&line(MEGABYTE - 10)).unwrap();
        log.write(&line(10)).unwrap();
        assert_eq!(names(path.parent().unwrap()), ["audit.log"], "the file is exactly full");
        log.write(&line(20)).unwrap();
        let found = names(path.parent().unwrap());
        assert_eq!(found, ["audit-2024-05-06T05-08-09.123.log", "audit.log"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), 20);
        for name in found {
            let mode = fs::metadata(path.with_file_name(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn rotated_files_are_removed_when_they_are_too_many_or_too_old() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        fs::write(directory.path().join("audit-notes.log"), "not ours").unwrap();
        let clock = clock();
        let log = LogBackend::open(&settings(&path, 2, 7), &clock).unwrap();
        for _ in 0..5 {
            log.write(&line(MEGABYTE)).unwrap();
            clock.advance(Duration::from_secs(1));
        }
        let found = names(directory.path());
        let expected = [
            "audit-2024-05-06T05-08-12.123.log",
            "audit-2024-05-06T05-08-13.123.log",
            "audit-notes.log",
            "audit.log",
        ];
        assert_eq!(found, expected);
        clock.advance(Duration::from_hours(8 * 24));
        log.write(&line(MEGABYTE)).unwrap();
        let expected = ["audit-2024-05-14T05-08-14.123.log", "audit-notes.log", "audit.log"];
        assert_eq!(names(directory.path()), expected);
    }

    #[test]
    fn rotations_within_a_millisecond_keep_all_files() {
        let directory = tempfile::tempdir().unwrap();
        let log = LogBackend::open(&settings(&directory.path().join("a"), 0, 0), &clock()).unwrap();
        for _ in 0..4 {
            log.write(&line(MEGABYTE)).unwrap();
        }
        assert_eq!(names(directory.path()).len(), 4);
    }

    #[test]
    fn limits_that_are_too_large_to_count_are_no_limits() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        for huge in [1 << 44, i64::MAX as u64, u64::MAX] {
            let mut settings = settings(&path, 0, huge);
            let log = LogBackend::open(&settings, &clock()).unwrap();
            let files = names(directory.path()).len();
            for _ in 0..3 {
                log.write(&line(MEGABYTE)).unwrap();
            }
            let kept = names(directory.path()).len();
            assert!(kept >= files + 2, "no file is older than {huge} days");
            settings.max_size = huge;
            let log = LogBackend::open(&settings, &clock()).unwrap();
            log.write(&line(MEGABYTE)).unwrap();
            log.write(&line(10)).unwrap();
            assert_eq!(names(directory.path()).len(), kept, "{huge} MB are not reached");
        }
    }

    #[test]
    fn an_event_after_a_failed_write_begins_a_new_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let log = LogBackend::open(&settings(&path, 0, 0), &clock()).unwrap();
        log.write(&[Bytes::from("a\n")]).unwrap();
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let file = || log.file.as_ref().unwrap().lock().unwrap();
        file().file = Some(full);
        assert!(log.write(&[Bytes::from("b\n")]).is_err());
        // The part of `b` that a full disk had room for may be there.
        file().file = None;
        log.write(&[Bytes::from("c\n")]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\n\nc\n");
    }

    #[test]
    fn an_existing_file_is_continued() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        for _ in 0..2 {
            let log = LogBackend::open(&settings(&path, 0, 0), &clock()).unwrap();
            log.write(&[Bytes::from("a\n"), Bytes::from("b\n")]).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a\nb\na\nb\n");
    }

    #[test]
    fn an_event_after_a_start_begins_a_new_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        for (before, after) in [("", "b\n"), ("a\n", "a\nb\n"), ("a\n{\"ki", "a\n{\"ki\nb\n")] {
            fs::write(&path, before).unwrap();
            let log = LogBackend::open(&settings(&path, 0, 0), &clock()).unwrap();
            log.write(&[Bytes::from("b\n")]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let settings = settings(directory.path(), 0, 0);
        let error = LogBackend::open(&settings, &clock()).err().unwrap();
        assert!(error.to_string().starts_with("cannot open the audit log /"), "{error}");
    }
}
