//! The table and the chart.

use std::fmt::Write as _;

use crate::builds::Build;
use crate::median;
use crate::work::Work;

/// How the servers are called in table and chart.
const NAMES: [&str; 5] =
    ["hyper floor", "mcp-layers", "mcp-layers, protected", "rmcp 3.11", "tower-mcp 0.25"];

/// One row: for each server its numbers, one per round.
pub(crate) struct Row {
    pub(crate) title: &'static str,
    /// Nanoseconds of processor time per request.
    pub(crate) costs: Vec<Vec<f64>>,
}

impl Row {
    pub(crate) fn new(work: &Work, costs: Vec<Vec<f64>>) -> Self {
        Self { title: work.title, costs }
    }

    /// For each server: microseconds, and how many times the floor's of the same round.
    fn medians(&self) -> impl Iterator<Item = (f64, f64)> {
        self.costs.iter().map(|own| {
            let ratios = own.iter().zip(&self.costs[0]).map(|(own, floor)| own / floor).collect();
            (median(own.clone()) / 1000.0, median(ratios))
        })
    }
}

/// All rows as text, for a terminal: with the lowest and the highest ratio of any round.
pub(crate) fn text(row: &Row, servers: &[&str]) -> String {
    let mut text = format!("{}\n", row.title);
    for ((name, own), (micros, ratio)) in servers.iter().zip(&row.costs).zip(row.medians()) {
        let ratios = || own.iter().zip(&row.costs[0]).map(|(own, floor)| own / floor);
        let (low, high) = (ratios().fold(f64::MAX, f64::min), ratios().fold(0.0, f64::max));
        writeln!(text, "  {name:<12} {micros:>8.2} µs {ratio:>6.2} x  ({low:.2} to {high:.2})")
            .expect("a String takes all");
    }
    text
}

/// What is measured besides the rows of requests.
pub(crate) struct Rest<'a> {
    /// Bytes per idle stream.
    pub(crate) listen: &'a [Option<f64>],
    pub(crate) builds: &'a [Build],
}

pub(crate) fn markdown(rows: &[Row], rest: &Rest<'_>, how: &str) -> String {
    let mut text = format!("| | {} |\n|---|{}\n", NAMES.join(" | "), "--:|".repeat(NAMES.len()));
    let mut line = |title: &str, cells: Vec<String>| {
        writeln!(text, "| {title} | {} |", cells.join(" | ")).expect("a String takes all");
    };
    for row in rows {
        let cell = |(at, (micros, ratio)): (usize, (f64, f64))| match at {
            0 => format!("{micros:.1} µs"),
            _ => format!("{micros:.1} µs, {ratio:.2}×"),
        };
        line(row.title, row.medians().enumerate().map(cell).collect());
    }
    if !rest.listen.is_empty() {
        let cell = |bytes: &Option<f64>| {
            bytes.map_or("–".to_owned(), |bytes| format!("{:.1} KiB", bytes / 1024.0))
        };
        line("memory of an idle `subscriptions/listen` stream", rest.listen.iter().map(cell).collect());
    }
    if !rest.builds.is_empty() {
        line("crates compiled", rest.builds.iter().map(|build| build.crates.to_string()).collect());
        let cell = |build: &Build| format!("{:.0} s", build.time.as_secs_f64());
        line("clean release build", rest.builds.iter().map(cell).collect());
    }
    text + "\n" + how
}

const COLOURS: [&str; 5] = ["#8b949e", "#1f6feb", "#0b3d91", "#d29922", "#bc4c00"];
/// Widths of the chart, of what is left of the bars, and of the longest bar.
const WIDTH: f64 = 860.0;
const LEFT: f64 = 170.0;
const LONGEST: f64 = 560.0;
const BAR: f64 = 18.0;

/// Bars as long as a server's processor time is, in multiples of the floor's.
pub(crate) fn svg(rows: &[Row]) -> String {
    let longest = rows.iter().flat_map(Row::medians).map(|(_, ratio)| ratio).fold(1.0, f64::max);
    let group = BAR.mul_add(NAMES.len() as f64, 52.0);
    let height = group.mul_add(rows.len() as f64, 56.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"system-ui, sans-serif\" \
         font-size=\"13\" role=\"img\" aria-label=\"Processor time of the server per request, in multiples of a bare hyper \
         server's\">\n<style>text {{ fill: #1f2328 }} .bold {{ font-weight: 600 }} \
         @media (prefers-color-scheme: dark) {{ text {{ fill: #e6edf3 }} }}</style>\n\
         <text x=\"16\" y=\"26\" class=\"bold\" font-size=\"15\">Processor time of the server per request, in multiples of a bare \
         hyper server’s: less is better</text>\n"
    );
    for (at, row) in rows.iter().enumerate() {
        let top = group.mul_add(at as f64, 60.0);
        let title = row.title.replace('`', "");
        writeln!(svg, "<text x=\"16\" y=\"{top}\" class=\"bold\">{title}</text>")
            .expect("a String takes all");
        for (at, (micros, ratio)) in row.medians().enumerate() {
            let (y, width) = (BAR.mul_add(at as f64, top + 10.0), ratio / longest * LONGEST);
            let (name, colour) = (NAMES[at], COLOURS[at]);
            writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{name}</text>\
                 <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{ratio:.2}× ({micros:.1} µs)</text>",
                LEFT - 8.0,
                y + 12.0,
                BAR - 4.0,
                LEFT + width + 6.0,
                y + 12.0,
            )
            .expect("a String takes all");
        }
    }
    svg + "</svg>\n"
}
