//! [`SlowDisk`]: a disk in memory whose fsync waits until the test releases it.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;
use tokio::sync::watch;

use apiserver::Fairness;
use keel::{Clock, Tasks};
use machinery::Value;
use store::embedded::{Disk, StoreFile};
use store::{Embedded, Options};
use testenv::TestEnv;

/// The limit of a waiting fsync, after which the test fails.
const TIMEOUT: Duration = Duration::from_secs(30);

/// See the [module documentation](self). Clones are the same disk.
#[derive(Clone, Debug)]
pub(crate) struct SlowDisk(Arc<SlowDiskState>);

#[derive(Debug, Default)]
struct SlowDiskState {
    /// One for each [`StoreFile`].
    files: [InMemoryBackend; 3],
    gate: Mutex<Gate>,
    changed: Condvar,
    /// The number of fsyncs that have waited or wait.
    waiting: watch::Sender<usize>,
}

/// A plane on a slow disk.
pub(crate) async fn start(clock: Clock) -> (TestEnv, SlowDisk) {
    let disk = SlowDisk::new();
    let opened =
        Embedded::open_on(Box::new(disk.clone()), Options::default(), &clock, &Tasks::new());
    // Otherwise the server may write the status of flow schemas meanwhile.
    let builder = TestEnv::builder().config(|config| config.fairness = Fairness::Disabled);
    let plane = builder.clock(clock).store(opened.unwrap()).start().await;
    (plane, disk)
}

/// Posts an object while the disk is stopped, and disconnects when the store has the write. The disk
/// stays stopped.
pub(crate) async fn post_and_disconnect(
    plane: &TestEnv,
    disk: &SlowDisk,
    path: &str,
    object: &Value,
) {
    disk.stop();
    let mut waiting = disk.waiting();
    let client = plane.client();
    tokio::select! {
        biased;
        answer = client.post(path, object) => panic!("the disk is stopped, but {answer:?}"),
        changed = waiting.changed() => changed.unwrap(),
    }
}

#[derive(Debug, Default)]
struct Gate {
    is_stopped: bool,
    /// The number of fsyncs that can return while the disk is stopped.
    released: usize,
}

impl SlowDisk {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Stops the disk: no fsync returns.
    pub(crate) fn stop(&self) {
        self.0.gate.lock().unwrap().is_stopped = true;
    }

    /// Lets fsyncs return again.
    pub(crate) fn resume(&self) {
        self.0.gate.lock().unwrap().is_stopped = false;
        self.0.changed.notify_all();
    }

    /// Lets one fsync return; the disk stays stopped.
    pub(crate) fn release_one(&self) {
        self.0.gate.lock().unwrap().released += 1;
        self.0.changed.notify_all();
    }

    /// The number of fsyncs that wait or have waited.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        let mut waiting = self.0.waiting.subscribe();
        waiting.mark_unchanged();
        waiting
    }
}

impl Disk for SlowDisk {
    fn open(&self, file: StoreFile) -> io::Result<Box<dyn StorageBackend>> {
        let index = match file {
            StoreFile::Database => 0,
            StoreFile::EvenLog => 1,
            StoreFile::OddLog => 2,
        };
        Ok(Box::new(SlowFile { state: Arc::clone(&self.0), file: index }))
    }

    fn create_logs(&self) -> io::Result<()> {
        Ok(())
    }

    fn resize_reserve(&self, _size: u64) -> io::Result<()> {
        Ok(())
    }

    fn max_reserve(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn path(&self, file: StoreFile) -> PathBuf {
        PathBuf::from(format!("slow {file:?}"))
    }
}

#[derive(Debug)]
struct SlowFile {
    state: Arc<SlowDiskState>,
    file: usize,
}

impl SlowFile {
    fn content(&self) -> &InMemoryBackend {
        &self.state.files[self.file]
    }
}

impl StorageBackend for SlowFile {
    fn len(&self) -> io::Result<u64> {
        self.content().len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.content().read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.content().set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let gate = self.state.gate.lock().unwrap();
        if gate.is_stopped {
            self.state.waiting.send_modify(|count| *count += 1);
            let waits = |gate: &mut Gate| gate.is_stopped && gate.released == 0;
            let waited = self.state.changed.wait_timeout_while(gate, TIMEOUT, waits);
            let (mut gate, waited) = waited.unwrap();
            assert!(!waited.timed_out(), "the test never resumed its disk");
            gate.released = gate.released.saturating_sub(1);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let end = offset + data.len() as u64;
        if end > self.content().len()? {
            self.content().set_len(end)?;
        }
        self.content().write(offset, data)
    }
}
