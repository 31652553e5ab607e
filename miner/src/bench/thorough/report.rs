//! The report of a thorough benchmark, as Markdown and SVG. It is made from the file of figures
//! alone; nothing is measured or estimated here.

use std::collections::BTreeSet;
use std::fmt::Write;

use engine::units::{byte_rate_text, rate_text};
use serde_json::Value;

use super::tables::{MarkdownTable, byte_rate, escaped, hashrate, number, percent, plain};
use crate::display::{Bar, Chart, ChartGroup};

/// The share of the random reads that a search should reach.
const SHARE_AIM: f64 = 0.85;
/// The seconds for each GiB in which a card should generate a dataset.
const DATASET_AIM: f64 = 0.25;
/// The most bars of a chart for each dataset.
const BARS_MAX: usize = 12;

/// The records of a folder, of which the last one of each key counts.
pub(super) struct ThoroughReport<'a> {
    machine: &'a Value,
    runs: usize,
    figures: Vec<&'a Value>,
    peers: Vec<&'a Value>,
}

impl<'a> ThoroughReport<'a> {
    pub(super) fn new(records: &'a [Value]) -> Self {
        let machines = || records.iter().filter(|record| record.get("machine").is_some());
        let last_of = |name: &str| {
            let mut seen = BTreeSet::new();
            let mut last: Vec<_> = (records.iter().rev())
                .filter(|record| {
                    record[name]
                        .as_str()
                        .is_some_and(|key| seen.insert(key.to_owned()))
                })
                .collect();
            last.reverse();
            last
        };
        Self {
            machine: machines().next_back().unwrap_or(&Value::Null),
            runs: machines().count(),
            figures: last_of("key"),
            peers: last_of("peer"),
        }
    }

    /// The whole report.
    pub(super) fn markdown(&self) -> String {
        let mut text = self.head();
        text += &self.checks();
        for device in self.cards() {
            let _ = write!(text, "\n## {device}: {}\n", escaped(&self.adapter_name(&device)));
            text += &self.datasets(&device);
            text += &self.rates(&device);
            text += &self.choices(&device);
            text += &self.batches(&device);
        }
        text += &self.peer_table();
        text += &self.steady();
        text += &self.processor();
        text += &self.failures();
        text
    }

    /// Charts of the rates, and of the memory beside them.
    pub(super) fn svg(&self) -> String {
        let mut groups = Vec::new();
        for device in self.cards() {
            for epoch in self.epochs(&device) {
                let mut rates = self.rates_of(&device, epoch);
                rates.truncate(BARS_MAX);
                let title = |what: &str| {
                    format!(
                        "{what} of {device} ({}), epoch {epoch}",
                        self.adapter_name(&device)
                    )
                };
                groups.push(ChartGroup {
                    title: title("Hash rate"),
                    bars: rates
                        .iter()
                        .filter_map(|record| bar(&kernel_text(record), &record["value"], rate_text))
                        .collect(),
                });
                let ceilings = self
                    .of(&device, "ceilings")
                    .find(|record| record["epoch"] == epoch);
                let memory = |label: &str, field: &str| bar(label, &ceilings?[field], byte_rate_text);
                groups.push(ChartGroup {
                    title: title("Memory"),
                    bars: [
                        memory("plain copy", "copy_bytes_per_second"),
                        memory("random 128-byte reads", "value"),
                        memory("light cache rows", "cache_read_bytes_per_second"),
                    ]
                    .into_iter()
                    .flatten()
                    .collect(),
                });
            }
        }
        let mut processor: Vec<_> = self.of("cpu", "hashrate").collect();
        sort_by_value(&mut processor);
        processor.truncate(BARS_MAX);
        groups.push(ChartGroup {
            title: format!(
                "Hash rate of the processor ({})",
                plain(&self.machine["machine"]["cpu"])
            ),
            bars: processor
                .iter()
                .filter_map(|record| bar(&processor_text(record), &record["value"], rate_text))
                .collect(),
        });
        groups.retain(|group| !group.bars.is_empty());
        Chart { groups }.to_svg()
    }

    fn head(&self) -> String {
        let machine = &self.machine["machine"];
        let mut text = String::from("# Cards and processor, measured\n\n");
        let line = |text: &mut String, name: &str, value: String| {
            if !value.is_empty() {
                let _ = writeln!(text, "- {name}: {}", escaped(&value));
            }
        };
        line(&mut text, "version", plain(&machine["version"]));
        line(&mut text, "commit", plain(&machine["commit"]));
        line(&mut text, "kernels", plain(&machine["kernels"]));
        line(&mut text, "datasets", plain(&machine["scale"]));
        line(&mut text, "processor", plain(&machine["cpu"]));
        line(
            &mut text,
            "its best instruction set",
            plain(&machine["instruction_set"]),
        );
        line(&mut text, "threads", plain(&self.machine["threads"]));
        line(&mut text, "runs", self.runs.to_string());
        for adapter in machine["adapters"].as_array().into_iter().flatten() {
            let words = ["name", "backend", "driver", "pci_bus"].map(|field| plain(&adapter[field]));
            line(&mut text, &plain(&adapter["device"]), words.join(", "));
            if adapter["software"] == true {
                text += "  This is a program on the processor. Its rates say nothing about cards.\n";
            }
        }
        text
    }

    /// Returns the section about the comparisons with the CPU.
    fn checks(&self) -> String {
        let mut text = String::from("\n## Compared with the CPU\n\n");
        let wrong: Vec<_> = self
            .figures
            .iter()
            .filter(|record| record["wrong"] == true)
            .collect();
        for record in &wrong {
            let _ = writeln!(
                text,
                "- **WRONG**: {}: {}",
                plain(&record["key"]),
                escaped(&plain(&record["error"]))
            );
        }
        if wrong.is_empty() {
            text += "Nothing differed.\n";
        }
        let sum = |field: &str| -> u64 {
            self.figures
                .iter()
                .filter_map(|record| record[field].as_u64())
                .sum()
        };
        let _ = writeln!(
            text,
            "{} dataset items and {} hits were compared.",
            sum("items_compared"),
            sum("hits_compared")
        );
        let mut table = MarkdownTable::new(&["small dataset", "kernels", "items", "nonces", "absent"]);
        for record in self.figures.iter().filter(|record| record["what"] == "checks") {
            let absent = record["absent"].as_array().map_or(0, Vec::len);
            table.row(vec![
                plain(&record["key"]),
                plain(&record["value"]),
                plain(&record["items_compared"]),
                plain(&record["nonces_compared"]),
                absent.to_string(),
            ]);
        }
        text + &table.section("### Every kernel and page count")
    }

    fn datasets(&self, device: &str) -> String {
        let mut table = MarkdownTable::new(&[
            "dataset",
            "pages",
            "generation",
            "time",
            "a GiB",
            "by its reads alone",
            "power",
            "copy",
            "random reads",
            "over all pages",
            "light cache reads",
        ]);
        for record in self.of(device, "dataset") {
            let same = |other: &&&Value| {
                other["epoch"] == record["epoch"] && other["large_pages"] == record["large_pages"]
            };
            let ceilings = (self
                .figures
                .iter()
                .filter(|other| other["what"] == "ceilings" && other["device"] == device))
            .find(same)
            .map_or(&Value::Null, |ceilings| *ceilings);
            table.row(vec![
                dataset_text(record),
                plain(&record["pages"]),
                plain(&record["generation"]),
                unit(number(&record["value"], 3), "s"),
                unit(number(&record["seconds_per_gib"], 3), "s"),
                unit(number(&record["predicted"], 3), "s"),
                unit(number(&record["power_w"], 0), "W"),
                byte_rate(&ceilings["copy_bytes_per_second"]),
                byte_rate(&ceilings["value"]),
                byte_rate(&ceilings["spread_read_bytes_per_second"]),
                byte_rate(&ceilings["cache_read_bytes_per_second"]),
            ]);
        }
        let mut text = table.section("### Datasets");
        let fastest = (self.of(device, "dataset")).filter_map(|record| record["seconds_per_gib"].as_f64());
        if let Some(seconds) = fastest.min_by(f64::total_cmp) {
            let _ = writeln!(
                text,
                "\nThe aim is {DATASET_AIM} s a GiB. The fastest is {seconds:.3} s a GiB."
            );
        }
        text
    }

    fn rates(&self, device: &str) -> String {
        let mut text = String::new();
        for epoch in self.epochs(device) {
            let mut table = MarkdownTable::new(&[
                "kernel",
                "pages",
                "rate",
                "predicted",
                "of random reads",
                "power",
                "a joule",
                "core",
                "memory",
                "memory busy",
                "hottest",
            ]);
            let rates = self.rates_of(device, epoch);
            for record in &rates {
                table.row(vec![
                    kernel_text(record),
                    plain(&record["pages"]),
                    hashrate(&record["value"]),
                    hashrate(&record["predicted"]),
                    percent(&record["share_of_ceiling"]),
                    unit(number(&record["power_w"], 0), "W"),
                    number(&record["hashes_per_joule"], 0),
                    unit(number(&record["core_mhz"], 0), "MHz"),
                    unit(number(&record["memory_mhz"], 0), "MHz"),
                    unit(number(&record["memory_busy_percent"], 0), "%"),
                    unit(number(&record["temperature_c"], 0), "°C"),
                ]);
            }
            text += &table.section(&format!("### Kernels, epoch {epoch}"));
            if let Some(share) = rates.first().and_then(|best| best["share_of_ceiling"].as_f64()) {
                let _ = writeln!(
                    text,
                    "\nThe aim is {:.0} % of the random reads. The fastest kernel has {:.1} %.",
                    SHARE_AIM * 100.0,
                    share * 100.0
                );
            }
        }
        text
    }

    fn choices(&self, device: &str) -> String {
        let mut table = MarkdownTable::new(&["dataset", "choice", "rate", "took"]);
        for record in self.of(device, "choice") {
            table.row(vec![
                dataset_text(record),
                kernel_text(record),
                hashrate(&record["value"]),
                unit(number(&record["choice_seconds"], 2), "s"),
            ]);
        }
        table.section("### The choice at start-up")
    }

    fn batches(&self, device: &str) -> String {
        let mut table = MarkdownTable::new(&[
            "dataset",
            "kernel",
            "batches of",
            "rate",
            "first result of new work",
        ]);
        for record in self.of(device, "batch") {
            table.row(vec![
                dataset_text(record),
                kernel_text(record),
                unit(plain(&record["target_batch_ms"]), "ms"),
                hashrate(&record["value"]),
                unit(number(&record["latency_ms"], 1), "ms"),
            ]);
        }
        table.section("### Length of batches")
    }

    /// The best rate of each card beside those of other miners.
    fn peer_table(&self) -> String {
        let mut table =
            MarkdownTable::new(&["miner", "its rate", "its source", "our best", "of", "ours / its"]);
        for peer in &self.peers {
            for device in self.cards() {
                let rates = self
                    .of(&device, "hashrate")
                    .filter_map(|record| record["value"].as_f64());
                let (Some(ours), Some(its)) = (rates.max_by(f64::total_cmp), peer["value"].as_f64()) else {
                    continue;
                };
                let source = if peer["published"] == true {
                    "published by others"
                } else {
                    "measured here"
                };
                table.row(vec![
                    plain(&peer["peer"]),
                    rate_text(its),
                    source.into(),
                    rate_text(ours),
                    device,
                    format!("{:.3}", ours / its),
                ]);
            }
        }
        table.section("## Other miners")
    }

    fn steady(&self) -> String {
        let mut table = MarkdownTable::new(&[
            "devices", "time", "rate", "jobs", "accepted", "stale", "rejected", "lost", "invalid",
        ]);
        for record in self
            .figures
            .iter()
            .filter(|record| record["what"] == "steady" && record["value"].is_number())
        {
            let mut cells = vec![
                plain(&record["device"]),
                unit(number(&record["seconds"], 0), "s"),
                hashrate(&record["value"]),
            ];
            cells.extend(
                ["jobs", "accepted", "stale", "rejected", "lost", "invalid"]
                    .map(|field| plain(&record[field])),
            );
            table.row(cells);
        }
        table.section("## Mining for a node")
    }

    fn processor(&self) -> String {
        let mut table = MarkdownTable::new(&[
            "hashes from the full dataset",
            "rate",
            "predicted",
            "of random reads",
        ]);
        let mut rates: Vec<_> = self.of("cpu", "hashrate").collect();
        sort_by_value(&mut rates);
        for record in rates {
            table.row(vec![
                processor_text(record),
                hashrate(&record["value"]),
                hashrate(&record["predicted"]),
                percent(&record["share_of_ceiling"]),
            ]);
        }
        let mut others = MarkdownTable::new(&["figure", "value"]);
        for record in self.of("cpu", "ceilings") {
            others.row(vec![
                format!("random reads, {}", processor_text(record)),
                byte_rate(&record["value"]),
            ]);
        }
        for record in self.of("cpu", "light_hashrate") {
            others.row(vec![
                format!("from the light cache, {}", processor_text(record)),
                hashrate(&record["value"]),
            ]);
        }
        for record in self.of("cpu", "dataset") {
            let seconds = format!(
                "{} s, {} s a GiB",
                number(&record["value"], 2),
                number(&record["seconds_per_gib"], 2)
            );
            others.row(vec![format!("dataset, {}", processor_text(record)), seconds]);
        }
        table.section("## Processor") + &others.section("### Memory, light cache, dataset")
    }

    /// The figures that are missing, with their reasons.
    fn failures(&self) -> String {
        let mut table = MarkdownTable::new(&["figure", "reason"]);
        for record in self.figures.iter().filter(|record| record["error"].is_string()) {
            table.row(vec![plain(&record["key"]), plain(&record["error"])]);
        }
        table.section("## Not measured")
    }

    /// The figures of this kind with a value.
    fn of<'b>(&'b self, device: &'b str, what: &'b str) -> impl Iterator<Item = &'a Value> + 'b {
        let is_wanted = move |record: &&'a Value| {
            record["device"] == device && record["what"] == what && record["value"].is_number()
        };
        self.figures.iter().copied().filter(is_wanted)
    }

    /// The rates on the dataset of an epoch, the highest first.
    fn rates_of(&self, device: &str, epoch: u64) -> Vec<&'a Value> {
        let mut rates: Vec<_> = (self.of(device, "hashrate"))
            .filter(|record| record["epoch"] == epoch)
            .collect();
        sort_by_value(&mut rates);
        rates
    }

    fn cards(&self) -> BTreeSet<String> {
        let devices = self.figures.iter().filter_map(|record| record["device"].as_str());
        devices
            .filter(|device| device.starts_with("gpu:") && !device.contains(','))
            .map(str::to_owned)
            .collect()
    }

    fn epochs(&self, device: &str) -> BTreeSet<u64> {
        (self.of(device, "hashrate"))
            .filter_map(|record| record["epoch"].as_u64())
            .collect()
    }

    fn adapter_name(&self, device: &str) -> String {
        let adapters = self.machine["machine"]["adapters"].as_array();
        let named = adapters
            .into_iter()
            .flatten()
            .find(|adapter| adapter["device"] == device);
        named.map_or_else(String::new, |adapter| plain(&adapter["name"]))
    }
}

fn sort_by_value(records: &mut [&Value]) {
    let value = |record: &Value| record["value"].as_f64().unwrap_or(0.0);
    records.sort_by(|a, b| value(b).total_cmp(&value(a)));
}

fn bar(label: &str, value: &Value, text: fn(f64) -> String) -> Option<Bar> {
    let value = value.as_f64()?;
    Some(Bar {
        label: label.to_owned(),
        value,
        text: text(value),
    })
}

/// A value with its unit. Empty if there is no value.
fn unit(value: String, unit: &str) -> String {
    if value.is_empty() {
        value
    } else {
        format!("{value} {unit}")
    }
}

fn dataset_text(record: &Value) -> String {
    let pages = if record["large_pages"] == true {
        ", large pages"
    } else {
        ""
    };
    format!("epoch {}{pages}", plain(&record["epoch"]))
}

fn kernel_text(record: &Value) -> String {
    let pages = if record["large_pages"] == true {
        ", large pages"
    } else {
        ""
    };
    format!(
        "{}:{}{pages}",
        plain(&record["kernel"]),
        plain(&record["workgroup_size"])
    )
}

fn processor_text(record: &Value) -> String {
    let memory = match plain(&record["memory"]) {
        kind if kind.is_empty() => kind,
        kind => format!("{kind} pages"),
    };
    let threads = unit(plain(&record["threads"]), "threads");
    let words = [plain(&record["set"]), memory, threads];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records() -> Vec<Value> {
        let card = |fields: Value| {
            let head = json!({"device": "gpu:0", "epoch": 385, "large_pages": false});
            super::super::figure::merged(head, fields)
        };
        vec![
            json!({"machine": {"adapters": [{"device": "gpu:0", "name": "Card | X", "software": false}],
                "cpu": "Processor", "version": "1"}, "threads": 16}),
            json!({"peer": "other", "value": 2e8, "unit": "H/s", "published": true}),
            card(json!({"key": "a", "what": "ceilings", "value": 1e12, "copy_bytes_per_second": 2e12})),
            card(
                json!({"key": "b", "what": "hashrate", "value": 1.0, "kernel": "lane", "workgroup_size": 64}),
            ),
            card(
                json!({"key": "b", "what": "hashrate", "value": 1e8, "kernel": "lane", "workgroup_size": 64,
                "predicted": 1.22e8, "share_of_ceiling": 0.8192, "power_w": 300.0, "hits_compared": 5}),
            ),
            card(
                json!({"key": "c", "what": "hashrate", "error": "hit 3 differs", "wrong": true, "final": false}),
            ),
            card(
                json!({"key": "d", "what": "dataset", "value": 1.0, "seconds_per_gib": 0.2, "generation": "lane"}),
            ),
            json!({"key": "e", "device": "cpu", "what": "hashrate", "value": 4e6, "set": "avx2",
                "memory": "small", "threads": 3, "share_of_ceiling": 0.5}),
            json!({"key": "s", "device": "all", "what": "steady", "value": 9e7, "seconds": 600.0, "accepted": 555,
                "stale": 2, "rejected": 0, "lost": 0, "invalid": 0, "jobs": 600}),
        ]
    }

    #[test]
    fn the_report_has_the_last_figure_of_each_key() {
        let records = records();
        let report = ThoroughReport::new(&records);
        let text = report.markdown();
        for expected in [
            "## gpu:0: Card \\| X",
            "**WRONG**: c: hit 3 differs",
            "| lane:64 |  | 100.00 MH/s | 122.00 MH/s | 81.9 % | 300 W |",
            "The fastest is 0.200 s a GiB.",
            "published by others | 100.00 MH/s | gpu:0 | 0.500 |",
            "avx2, small pages, 3 threads",
            "| 555 | 2 | 0 | 0 | 0 |",
            "| c | hit 3 differs |",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
        assert!(!text.contains("1.00 H/s"), "{text}");
        let svg = report.svg();
        assert!(svg.contains("lane:64") && svg.contains("plain copy"), "{svg}");
    }

    #[test]
    fn a_folder_without_figures_has_a_report() {
        let text = ThoroughReport::new(&[]).markdown();
        assert!(text.contains("Nothing differed."), "{text}");
    }
}
