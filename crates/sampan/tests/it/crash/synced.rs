//! System calls of a plane: no write is acknowledged before the fsync of its log file returns.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use crate::http::Client;
use crate::plane::Plane;
use keel::Clock;
use machinery::json;

const WRITERS: usize = 4;
const WRITES: usize = 25;

/// A time for each object, by its name, in nanoseconds of the wall clock.
type TimeByName = BTreeMap<String, i64>;

#[test]
fn every_write_is_synced_before_its_acknowledgment() {
    let directory = tempfile::tempdir().unwrap();
    let plane = Plane::embedded(directory.path());
    let traces = directory.path().join("trace");
    let Some(mut tracer) = trace(plane.process.id(), &traces) else {
        eprintln!("SKIPPED: strace is not installed, or may not attach to processes");
        return;
    };
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = plane.client();
            thread::spawn(move || write(client, writer))
        })
        .collect();
    let acknowledged: TimeByName =
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
    plane.kill();
    tracer.wait().unwrap();

    let synced = synced(directory.path());
    assert_eq!(acknowledged.len(), WRITERS * WRITES);
    for (name, responded) in acknowledged {
        let synced = synced.get(&name).unwrap_or_else(|| panic!("{name} was never synced"));
        assert!(
            *synced <= responded,
            "{name} was acknowledged at {responded}, and synced at {synced}"
        );
    }
}

/// Traces all threads of a process, each into a separate file, so that calls do not interleave.
fn trace(process: u32, output: &Path) -> Option<Child> {
    let mut tracer = Command::new("strace")
        .args(["-ff", "-y", "-ttt", "-T", "-s", "100000", "-e", "trace=pwrite64,fdatasync", "-o"])
        .arg(output)
        .args(["-p", &process.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut line = String::new();
    let mut messages = BufReader::new(tracer.stderr.take()?);
    messages.read_line(&mut line).ok()?;
    // strace reports the start and the end of each thread.
    thread::spawn(move || messages.lines().count());
    line.contains("attached").then_some(tracer)
}

fn write(mut client: Client, writer: usize) -> TimeByName {
    let clock = Clock::system();
    let create = |step| {
        let name = format!("synced-{writer}-{step}-end");
        let object = json!({"metadata": {"name": name}});
        let path = "/api/v1/namespaces/default/configmaps";
        let (code, response) = client.send("POST", path, Some(&object)).unwrap();
        assert_eq!(code, 201, "{response}");
        (name, clock.now_unix_nanos())
    };
    (0..WRITES).map(create).collect()
}

/// The time at which each object of the log was on the disk: the end of the first fsync of the same
/// file after the write.
fn synced(directory: &Path) -> TimeByName {
    let mut synced = TimeByName::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trace.")) {
            continue;
        }
        let mut written: Vec<(String, String)> = Vec::new();
        for line in fs::read_to_string(path).unwrap().lines() {
            let Some(call) = Call::parse(line) else { continue };
            if call.name == "pwrite64" {
                let names =
                    line.split("synced-").skip(1).filter_map(|rest| rest.split_once("-end"));
                let names = names.map(|(middle, _)| format!("synced-{middle}-end"));
                written.extend(names.map(|name| (call.file.to_owned(), name)));
            } else {
                for (_, name) in written.extract_if(.., |(file, _)| file == call.file) {
                    synced.entry(name).or_insert(call.end);
                }
            }
        }
    }
    synced
}

/// A successful system call: `1700000000.123456 fdatasync(9</tmp/data/log.odd>) = 0 <0.000123>`.
struct Call<'a> {
    name: &'a str,
    file: &'a str,
    /// The time of the call, in nanoseconds of the wall clock.
    end: i64,
}

impl<'a> Call<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (start, call) = line.split_once(' ')?;
        let (name, arguments) = call.split_once('(')?;
        let file = arguments.split_once('<')?.1.split_once('>')?.0;
        let (result, duration) = call.rsplit_once(" <")?;
        let result = result.rsplit_once("= ")?.1;
        if result.starts_with('-') {
            return None;
        }
        let end = nanos(start)? + nanos(duration.strip_suffix('>')?)?;
        Some(Self { name, file, end })
    }
}

/// Converts seconds with six decimal places to nanoseconds.
fn nanos(seconds: &str) -> Option<i64> {
    let (whole, micros) = seconds.split_once('.')?;
    Some(whole.parse::<i64>().ok()? * 1_000_000_000 + micros.parse::<i64>().ok()? * 1000)
}
