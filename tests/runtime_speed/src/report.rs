//! The comparison as a table in Markdown.

use crate::args::Args;
use crate::comparison::{Comparison, Pair};
use crate::usage::{Figures, to_float};

const KIBIBYTE: f64 = 1024.0;
const MEBIBYTE: f64 = KIBIBYTE * KIBIBYTE;

/// All measurements.
pub(crate) fn table(args: &Args, comparison: &Comparison) -> String {
    let Comparison { lengths, widgets, cleared_widgets, pods, cleared_pods, changes, repeats } =
        comparison;
    let mut table = Table::new();
    let of = |count: usize, what: &str, length: usize| {
        format!("{} {what} of {:.1} KiB", thousands(count), to_float(length) / KIBIBYTE)
    };
    let what = of(args.widgets, "custom resources", lengths.widget);
    table.caching(&what, widgets, cleared_widgets);
    table.caching(&of(args.pods, "pods", lengths.pod), pods, cleared_pods);
    table.working("changes, from the server to the reconcile function", "change", changes);
    table.working("reconciles that read their object", "reconcile", repeats);
    table.text
}

struct Table {
    text: String,
}

impl Table {
    fn new() -> Self {
        let head = "| | kube-runtime | managedFields cleared | sampan | ratio |";
        Self { text: format!("{head}\n|---|---:|---:|---:|---:|\n") }
    }

    fn caching(&mut self, what: &str, pair: &Pair, cleared: &Figures) {
        let heap = |it: &Figures| it.each(it.heap);
        let mut row = |name: &str, of: &dyn Fn(&Figures) -> f64, show: &dyn Fn(f64) -> String| {
            let [theirs, cleared, ours] = [&pair.kube_runtime, cleared, &pair.ours].map(of);
            let cells = [show(theirs), show(cleared), show(ours)];
            self.row(&format!("{what}: {name}"), cells, theirs / ours);
        };
        row("heap each", &heap, &|bytes| format!("{bytes:.0} B"));
        row("heap", &|it| to_float(it.heap), &mebibytes);
        row("resident (PSS)", &|it| to_float(it.resident), &mebibytes);
        row("resident at the most", &|it| to_float(it.peak_resident), &mebibytes);
        row("time to sync", &|it| it.seconds, &|it| format!("{it:.2} s"));
        row("CPU to sync", &|it| it.cpu_seconds, &|it| format!("{it:.2} s"));
    }

    fn working(&mut self, what: &str, unit: &str, pair: &Pair) {
        let Pair { kube_runtime, ours } = pair;
        let cells =
            |show: &dyn Fn(&Figures) -> String| [show(kube_runtime), String::new(), show(ours)];
        let rates = cells(&|it| format!("{:.0}/s", it.rate()));
        self.row(what, rates, ours.rate() / kube_runtime.rate());
        let costs = cells(&|it| format!("{:.1} µs", it.cpu_micros()));
        let ratio = kube_runtime.cpu_micros() / ours.cpu_micros();
        self.row(&format!("CPU for each {unit}"), costs, ratio);
    }

    fn row(&mut self, name: &str, cells: [String; 3], ratio: f64) {
        let [theirs, cleared, ours] = cells;
        self.text += &format!("| {name} | {theirs} | {cleared} | {ours} | {ratio:.1} |\n");
    }
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0} MiB", bytes / MEBIBYTE)
}

/// The number with commas, such as `100,000`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
