//! The live table: one row per device, and one for all of them.

use engine::monitor::{DeviceReport, RigReport};
use engine::units::{rate_text, share_text, time_text};
use engine::{DeviceState, DeviceStatus};

/// In a terminal with fewer columns than this, product names are not shown.
const WIDE_COLUMNS: usize = 118;
/// In a terminal with fewer columns than this, averages and power are not shown.
const MIDDLE_COLUMNS: usize = 108;
/// The most characters of a product name that are shown.
const LABEL_LEN_MAX: usize = 22;

/// The widths of the columns that are narrower in a narrow terminal, and the space before the last.
struct Columns {
    device: usize,
    now: usize,
    stale: usize,
    temperature: usize,
    gap: &'static str,
}

impl Columns {
    const fn of(width: usize) -> Self {
        if width >= MIDDLE_COLUMNS {
            Self {
                device: 7,
                now: 12,
                stale: 6,
                temperature: 6,
                gap: "  ",
            }
        } else {
            Self {
                device: 6,
                now: 11,
                stale: 5,
                temperature: 5,
                gap: " ",
            }
        }
    }
}

/// The rows for a terminal of `width` columns.
pub(super) fn rows(report: &RigReport, width: usize, colours: bool) -> Vec<String> {
    let paint = Paint(colours);
    let mut rows = vec![paint.dim(&head(width))];
    rows.extend(
        report
            .devices
            .iter()
            .map(|device| device_row(device, width, &paint)),
    );
    let (figures, source) = total_row(report, &paint);
    if visible_len(&figures) + 2 + visible_len(&source) <= width {
        rows.push(format!("{figures}  {source}"));
    } else {
        rows.extend([figures, source]);
    }
    rows.iter().map(|row| cut(row, width)).collect()
}

/// The number of characters of a row that are seen: all but the codes of colours.
fn visible_len(row: &str) -> usize {
    row.chars().count() - codes(row).map(|code| code.chars().count()).sum::<usize>()
}

/// The codes of colours in a row.
fn codes(row: &str) -> impl Iterator<Item = &str> {
    row.match_indices('\u{1b}').map(|(at, _)| {
        let code = &row[at..];
        code.find('m').map_or(code, |end| &code[..=end])
    })
}

/// The first `width` seen characters of a row. A row that is cut ends with an ellipsis.
fn cut(row: &str, width: usize) -> String {
    if visible_len(row) <= width {
        return row.to_owned();
    }
    let (mut text, mut seen, mut in_code) = (String::new(), 0, false);
    for character in row.chars() {
        in_code |= character == '\u{1b}';
        if in_code {
            in_code = character != 'm';
        } else if seen + 1 < width {
            seen += 1;
        } else {
            break;
        }
        text.push(character);
    }
    let end = if text.contains('\u{1b}') {
        "…\u{1b}[0m"
    } else {
        "…"
    };
    text + end
}

fn head(width: usize) -> String {
    let label = if width >= WIDE_COLUMNS {
        format!("{:<LABEL_LEN_MAX$} ", "name")
    } else {
        String::new()
    };
    let middle = width >= MIDDLE_COLUMNS;
    let average = if middle { "      average" } else { "" };
    let power = if middle { "  power" } else { "" };
    let Columns {
        device,
        now,
        stale,
        temperature,
        gap,
    } = Columns::of(width);
    format!(
        "{:<device$} {label}{:>now$}{average} {:>8} {:>stale$} {:>8} {:>7} {:>temperature$}{power}{gap}{}",
        "device", "now", "accepted", "stale", "rejected", "invalid", "temp", "state"
    )
}

fn device_row(device: &DeviceReport, width: usize, paint: &Paint) -> String {
    let DeviceReport {
        status,
        shares,
        reading,
    } = device;
    let label = if width >= WIDE_COLUMNS {
        format!("{:<LABEL_LEN_MAX$} ", short_label(&status.label))
    } else {
        String::new()
    };
    let dash = || "-".to_owned();
    let temperature = reading
        .temperature_c
        .map_or_else(dash, |value| format!("{value:.0} °C"));
    let (average, power) = if width >= MIDDLE_COLUMNS {
        let power = reading.power_w.map_or_else(dash, |value| format!("{value:.0} W"));
        (
            format!(" {:>12}", rate_text(status.average)),
            format!(" {power:>6}"),
        )
    } else {
        Default::default()
    };
    // Padding comes before painting, because the colour codes have no width.
    let invalid = format!("{:>7}", status.hardware_errors);
    let invalid = if status.hardware_errors > 0 {
        paint.bad(&invalid)
    } else {
        invalid
    };
    let rejected = format!("{:>8}", shares.rejected);
    let rejected = if shares.rejected > 0 {
        paint.bad(&rejected)
    } else {
        rejected
    };
    let columns = Columns::of(width);
    format!(
        "{:<w_device$} {label}{}{average} {} {:>w_stale$} {rejected} {invalid} {temperature:>w_temperature$}{power}{}{}",
        status.name,
        paint.strong(&format!("{:>1$}", rate_text(status.hashrate), columns.now)),
        paint.good(&format!("{:>8}", shares.accepted)),
        shares.stale,
        columns.gap,
        state_text(status, paint),
        w_device = columns.device,
        w_stale = columns.stale,
        w_temperature = columns.temperature,
    )
}

fn state_text(status: &DeviceStatus, paint: &Paint) -> String {
    let dataset = status.dataset.map(|at| {
        let percent = u64::from(at.done) * 100 / u64::from(at.total.max(1));
        format!("dataset {percent} %")
    });
    match (&status.state, dataset) {
        (DeviceState::Failed { reason }, _) => paint.bad(&format!("failed: {}", one_line(reason))),
        (DeviceState::Recovering { reason }, _) => paint.bad(&format!("recovering: {}", one_line(reason))),
        (DeviceState::Waiting, _) => paint.dim("no work"),
        (DeviceState::Resting { cause }, _) => paint.dim(&format!("rests: {}", cause.name())),
        (DeviceState::Preparing { epoch }, dataset) => {
            format!("epoch {epoch}, {}", dataset.unwrap_or_else(|| "preparing".into()))
        }
        (DeviceState::Searching { epoch }, Some(dataset)) => format!("epoch {epoch}, {dataset}"),
        (DeviceState::Searching { epoch }, None) => format!("epoch {epoch}"),
    }
}

/// The figures of all devices, and where the work comes from.
fn total_row(report: &RigReport, paint: &Paint) -> (String, String) {
    let total = report.client.total();
    let source = match (report.client.active(), report.client.job) {
        (None, _) => paint.bad("not connected"),
        (Some(endpoint), job) => {
            let number = job.and_then(|job| job.number);
            let block = number.map_or_else(String::new, |number| format!(", block {number}"));
            format!("{}{block}", endpoint.url)
        }
    };
    let figures = format!(
        "{} {}  {} accepted, stale {}, rejected {}, invalid {}",
        time_text(report.uptime),
        paint.strong(&rate_text(report.engine.hashrate)),
        total.accepted,
        share_text(report.stale_share()),
        total.rejected,
        share_text(report.invalid_share()),
    );
    (figures, source)
}

fn short_label(label: &str) -> String {
    one_line(label).chars().take(LABEL_LEN_MAX).collect()
}

fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Adds colours to text, if they are enabled.
struct Paint(bool);

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn strong(&self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.with("2", text)
    }

    fn good(&self, text: &str) -> String {
        self.with("32", text)
    }

    fn bad(&self, text: &str) -> String {
        self.with("31", text)
    }
}

#[cfg(test)]
mod tests {
    use engine::testing::sample_report;

    use super::*;

    #[test]
    fn a_row_for_each_device_and_one_for_all() {
        let report = sample_report();
        let rows = rows(&report, 110, false);
        assert_eq!(rows.len(), 4);
        assert!(
            rows[0].contains("accepted") && !rows[0].contains("name"),
            "{}",
            rows[0]
        );
        for part in ["gpu:0", "25.00 MH/s", "24.00 MH/s", "61 °C", "epoch 3"] {
            assert!(rows[1].contains(part), "{part}: {}", rows[1]);
        }
        assert!(rows[2].contains("failed: lost"), "{}", rows[2]);
        for part in [
            "0:01:40",
            "50.00 MH/s",
            "7 accepted",
            "stale 12.5 %",
            "http://a:8545",
        ] {
            assert!(rows[3].contains(part), "{part}: {}", rows[3]);
        }
        assert!(!rows.concat().contains('\u{1b}'), "colours are off");
        // The columns of head and rows are aligned.
        let end = |row: &str, word: &str| row.find(word).map(|at| row[..at + word.len()].chars().count());
        assert_eq!(end(&rows[0], "now"), end(&rows[1], "25.00 MH/s"));
        assert_eq!(end(&rows[0], "temp"), end(&rows[1], "61 °C"));
    }

    #[test]
    fn wide_terminals_show_names_and_colours_take_no_space() {
        let report = sample_report();
        assert!(rows(&report, 140, false)[1].contains("Some \"Card\""));
        let (plain, painted) = (rows(&report, 140, false), rows(&report, 140, true));
        for (plain, painted) in plain.iter().zip(&painted) {
            assert!(painted.contains('\u{1b}'));
            let mut bare = String::new();
            let mut rest = painted.as_str();
            while let Some((before, after)) = rest.split_once('\u{1b}') {
                bare.push_str(before);
                rest = after.split_once('m').expect("a whole sequence").1;
            }
            bare.push_str(rest);
            assert_eq!(bare, *plain);
        }
    }

    #[test]
    fn no_row_is_wider_than_the_terminal() {
        let mut report = sample_report();
        report.devices[1].status.state = DeviceState::Failed {
            reason: "a reason that is longer than any terminal is wide ".repeat(5),
        };
        report.client.endpoints[0].url = format!("stratum+tcp://{}:4444", "pool.".repeat(30));
        for (width, colours) in [
            (20, true),
            (80, false),
            (80, true),
            (99, true),
            (100, false),
            (200, true),
        ] {
            for row in rows(&report, width, colours) {
                assert!(visible_len(&row) <= width, "{width}: {row:?}");
                let is_open = row.contains('\u{1b}') && !row.ends_with("\u{1b}[0m") && row.contains('…');
                assert!(!is_open, "the colours end with the row: {row:?}");
            }
        }
        let narrow = rows(&sample_report(), 80, false);
        assert!(
            narrow[1].contains("epoch 3") && !narrow[0].contains("power"),
            "{narrow:?}"
        );
        assert_eq!((narrow.len(), narrow[4].as_str()), (5, "http://a:8545"));
    }

    #[test]
    fn datasets_show_how_far_they_are() {
        let mut report = sample_report();
        report.devices[1].status.state = DeviceState::Preparing { epoch: 3 };
        for width in [80, 110] {
            assert!(rows(&report, width, false)[2].ends_with("epoch 3, dataset 25 %"));
        }
        report.devices[1].status.dataset = None;
        assert!(rows(&report, 100, false)[2].contains("epoch 3, preparing"));
    }
}
