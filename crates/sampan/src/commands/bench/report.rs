//! [`Report`]: the results of a run, as a table for people and as JSON for programs.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::load::{Outcome, percentile};
use super::processes::CpuTimes;

/// All rows of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The server's URL.
    pub server: String,
    /// The version that the server reports.
    pub version: String,
    /// The rows in the order of the table.
    pub rows: Vec<Row>,
    /// The messages of the first failures.
    pub failures: Vec<String>,
}

/// The figures of one operation on one resource, with one number of clients.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The resource, such as `configmaps`.
    pub resource: &'static str,
    /// The operation, such as `create`.
    pub operation: &'static str,
    /// The number of concurrent clients, or of watchers.
    pub concurrency: usize,
    /// The number of successful operations; for watches, of received events.
    pub count: usize,
    /// The number of failed operations.
    pub failed: u64,
    /// The duration of the measurement.
    pub seconds: f64,
    /// Operations per second.
    pub per_second: f64,
    /// The median latency.
    pub p50_ms: Option<f64>,
    /// The latency that one operation in a hundred exceeds.
    pub p99_ms: Option<f64>,
    /// The mean size of a response.
    pub bytes: Option<f64>,
    /// The server's CPU time per operation; none if the total is below one tick.
    pub server_cpu_us: Option<f64>,
    /// The bench's CPU time per operation; if it is near the server's, the bench is the bottleneck.
    pub client_cpu_us: Option<f64>,
    /// The server's memory after the measurement.
    pub memory_bytes: Option<u64>,
}

/// The labels of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Title {
    /// The resource, such as `configmaps`.
    pub resource: &'static str,
    /// The operation, such as `create`.
    pub operation: &'static str,
    /// The number of concurrent clients, or of watchers.
    pub concurrency: usize,
}

/// The resource usage of the processes during a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// CPU times before the row.
    pub before: CpuTimes,
    /// CPU times after the row.
    pub after: CpuTimes,
    /// The server's memory after the row.
    pub memory: Option<u64>,
}

impl Report {
    /// A report without rows.
    pub(crate) fn new(server: String, version: String) -> Self {
        Self { server, version, rows: Vec::new(), failures: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, title: Title, mut outcome: Outcome, usage: &Usage) {
        let failures = std::mem::take(&mut outcome.failures);
        let Title { resource, operation, .. } = title;
        self.failures.extend(failures.iter().map(|it| format!("{operation} {resource}: {it}")));
        self.rows.push(Row::new(title, outcome, usage));
    }

    /// The number of failed operations of all rows.
    pub(crate) fn failed(&self) -> u64 {
        self.rows.iter().map(|row| row.failed).sum()
    }

    /// Groups the rows by operation; they are measured in another order.
    pub(crate) fn sort(&mut self) {
        let mut order: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            if !order.contains(&(row.resource, row.operation)) {
                order.push((row.resource, row.operation));
            }
        }
        let place = |row: &Row| order.iter().position(|it| *it == (row.resource, row.operation));
        self.rows.sort_by_key(place);
    }

    /// The table for people, without the columns for which no row has a figure.
    pub(crate) fn table(&self) -> String {
        let measured = self.rows.iter().any(|row| row.server_cpu_us.is_some());
        let failed = self.failed() > 0;
        let mut header = vec!["resource", "operation", "at once", "count", "per s", "p50", "p99"];
        header.extend(if measured { &["CPU each", "memory"][..] } else { &[] });
        header.extend(failed.then_some("failed"));
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header);
        for row in &self.rows {
            let mut cells = vec![
                row.resource.to_owned(),
                row.operation.to_owned(),
                row.concurrency.to_string(),
                row.count.to_string(),
                short(row.per_second),
                milliseconds(row.p50_ms),
                milliseconds(row.p99_ms),
            ];
            if measured {
                cells.push(milliseconds(row.server_cpu_us.map(|it| it / 1e3)));
                cells.push(row.memory_bytes.map_or_else(absent, mebibytes));
            }
            if failed {
                cells.push(row.failed.to_string());
            }
            table.add_row(cells);
        }
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    }
}

impl Row {
    fn new(title: Title, mut outcome: Outcome, usage: &Usage) -> Self {
        outcome.latencies.sort_unstable();
        let count = outcome.latencies.len();
        let seconds = outcome.wall.as_secs_f64();
        let each = |total: f64| (count > 0).then(|| total / as_f64(count));
        let cpu = |before: Option<Duration>, after: Option<Duration>| {
            let used = after?.saturating_sub(before?);
            each(used.as_secs_f64() * 1e6).filter(|_| !used.is_zero())
        };
        let latency = |percent| percentile(&outcome.latencies, percent).map(in_milliseconds);
        Self {
            resource: title.resource,
            operation: title.operation,
            concurrency: title.concurrency,
            count,
            failed: outcome.failed,
            seconds,
            per_second: if seconds > 0.0 { as_f64(count) / seconds } else { 0.0 },
            p50_ms: latency(50),
            p99_ms: latency(99),
            bytes: each(u64_as_f64(outcome.bytes)),
            server_cpu_us: cpu(usage.before.server, usage.after.server),
            client_cpu_us: cpu(usage.before.client, usage.after.client),
            memory_bytes: usage.memory,
        }
    }
}

fn absent() -> String {
    "–".to_owned()
}

fn in_milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn milliseconds(value: Option<f64>) -> String {
    match value {
        None => absent(),
        Some(value) if value >= 1000.0 => format!("{} s", short(value / 1000.0)),
        Some(value) if value < 1.0 => format!("{} µs", short(value * 1000.0)),
        Some(value) => format!("{} ms", short(value)),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", short(u64_as_f64(bytes) / f64::from(1 << 20)))
}

/// A number with about three significant digits, which is the precision of the measurements.
fn short(value: f64) -> String {
    let decimals = match value {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[allow(clippy::cast_precision_loss, reason = "counts and sizes are far below 2^53")]
fn u64_as_f64(value: u64) -> f64 {
    value as f64
}

fn as_f64(value: usize) -> f64 {
    u64_as_f64(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machinery::Value;

    fn usage(milliseconds: Option<u64>) -> Usage {
        let times = |cpu: Option<u64>| CpuTimes {
            server: cpu.map(Duration::from_millis),
            client: Some(Duration::from_millis(5)),
        };
        Usage {
            before: times(milliseconds.map(|_| 10)),
            after: times(milliseconds.map(|it| it + 10)),
            memory: milliseconds.map(|_| 30 << 20),
        }
    }

    fn outcome(count: u64) -> Outcome {
        Outcome {
            latencies: (1..=count).rev().map(Duration::from_micros).collect(),
            bytes: count * 20,
            wall: Duration::from_secs(2),
            ..Outcome::default()
        }
    }

    fn title(operation: &'static str, concurrency: usize) -> Title {
        Title { resource: "configmaps", operation, concurrency }
    }

    fn report() -> Report {
        let mut report = Report::new("https://127.0.0.1:6443".to_owned(), "v1.35.0".to_owned());
        report.add(title("create", 1), outcome(1000), &usage(Some(250)));
        report.add(title("get", 1), outcome(100), &usage(Some(0)));
        report.add(title("create", 16), outcome(0), &usage(Some(10)));
        report
    }

    #[test]
    fn figures_are_per_operation() {
        let report = report();
        let row = &report.rows[0];
        assert_eq!((row.count, row.p50_ms, row.p99_ms), (1000, Some(0.5), Some(0.99)));
        assert_eq!((row.bytes, row.server_cpu_us), (Some(20.0), Some(250.0)));
        assert!((row.per_second - 500.0).abs() < 1e-9);
        assert_eq!(report.rows[1].server_cpu_us, None, "less than one tick is no figure");
        let nothing = &report.rows[2];
        assert_eq!((nothing.count, nothing.p50_ms, nothing.server_cpu_us), (0, None, None));
    }

    #[test]
    fn a_table_groups_rows_by_operation() {
        let mut report = report();
        report.sort();
        let order: Vec<_> = report.rows.iter().map(|it| (it.operation, it.concurrency)).collect();
        assert_eq!(order, [("create", 1), ("create", 16), ("get", 1)]);
        let table = report.table();
        let lines: Vec<String> =
            table.lines().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[0], "resource operation at once count per s p50 p99 CPU each memory");
        assert_eq!(lines[1], "configmaps create 1 1000 500 500 µs 990 µs 250 µs 30.0 MiB");
        assert_eq!(lines[2], "configmaps create 16 0 0.00 – – – 30.0 MiB");
    }

    #[test]
    fn a_table_omits_empty_columns_and_shows_failures() {
        let mut report = Report::new(String::new(), String::new());
        let mut failing = outcome(1);
        failing.add(Duration::ZERO, Err(anyhow::anyhow!("no")));
        report.add(title("get", 1), failing, &usage(None));
        assert!(!report.table().contains("CPU"));
        assert!(report.table().lines().next().unwrap().ends_with("failed"));
        assert_eq!((report.failed(), report.failures), (1, vec!["get configmaps: no".to_owned()]));
    }

    #[test]
    fn the_json_has_the_same_figures() {
        let text = serde_json::to_string(&report()).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["rows"][0]["p99_ms"], 0.99);
        assert_eq!(value["rows"][2]["p50_ms"], Value::Null);
        assert_eq!(value["server"], "https://127.0.0.1:6443");
    }

    #[test]
    fn numbers_have_about_three_digits() {
        let shown: Vec<String> = [1234.5, 99.99, 12.345, 0.123].map(short).into();
        assert_eq!(shown, ["1234", "100", "12.3", "0.12"]);
        let shown: Vec<String> = [0.0421, 1.5, 2100.0].map(|it| milliseconds(Some(it))).into();
        assert_eq!(shown, ["42.1 µs", "1.50 ms", "2.10 s"]);
    }
}
