//! The comparison as a table in Markdown.

use crate::{
    args::Args,
    comparison::{Comparison, Pair},
    usage::{Figures, to_float},
};

const KIBIBYTE: f64 = 1024.0;
const MEBIBYTE: f64 = KIBIBYTE * KIBIBYTE;

/// Everything that was measured.
pub(crate) fn table(args: &Args, comparison: &Comparison) -> String {
    let Comparison { lengths, widgets, pods, changes, repeats } = comparison;
    let mut table = Table::new();
    let of = |count: usize, what: &str, length: usize| {
        format!("{} {what} of {:.1} KiB", thousands(count), to_float(length) / KIBIBYTE)
    };
    table.caching(&of(args.widgets, "custom resources", lengths.widget), widgets);
    table.caching(&of(args.pods, "pods", lengths.pod), pods);
    table.working("changes, from the server to the reconcile function", "change", changes);
    table.working("reconciles that read their object", "reconcile", repeats);
    table.text
}

struct Table {
    text: String,
}

impl Table {
    fn new() -> Self {
        Self { text: "| | kube-runtime | ours | ratio |\n|---|---:|---:|---:|\n".to_owned() }
    }

    fn caching(&mut self, what: &str, pair: &Pair) {
        let each = |it: &Figures| it.each(it.heap);
        self.row(&format!("{what}, cached: heap each"), pair, each, |bytes| {
            format!("{bytes:.0} B")
        });
        let resident = |it: &Figures| to_float(it.resident) / MEBIBYTE;
        self.row("the same: resident (PSS), all", pair, resident, mebibytes);
        let peak = |it: &Figures| to_float(it.peak_resident) / MEBIBYTE;
        self.row("the same: resident at the most", pair, peak, mebibytes);
        self.row("the same: time to sync", pair, |it| it.seconds, |it| format!("{it:.2} s"));
        self.row("the same: CPU to sync", pair, |it| it.cpu_seconds, |it| format!("{it:.2} s"));
    }

    fn working(&mut self, what: &str, unit: &str, pair: &Pair) {
        let per_second = |rate: f64| format!("{rate:.0}/s");
        let Pair { kube_runtime, ours } = pair;
        let cells = (per_second(kube_runtime.rate()), per_second(ours.rate()));
        self.line(what, &cells.0, &cells.1, ours.rate() / kube_runtime.rate());
        let name = format!("the same: CPU for each {unit}");
        self.row(&name, pair, Figures::cpu_micros, |it| format!("{it:.1} µs"));
    }

    /// Of what less is better.
    fn row(
        &mut self,
        name: &str,
        pair: &Pair,
        of: impl Fn(&Figures) -> f64,
        show: impl Fn(f64) -> String,
    ) {
        let (theirs, ours) = (of(&pair.kube_runtime), of(&pair.ours));
        self.line(name, &show(theirs), &show(ours), theirs / ours);
    }

    fn line(&mut self, name: &str, theirs: &str, ours: &str, ratio: f64) {
        self.text += &format!("| {name} | {theirs} | {ours} | {ratio:.1} |\n");
    }
}

fn mebibytes(number: f64) -> String {
    format!("{number:.0} MiB")
}

/// `100,000`
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
