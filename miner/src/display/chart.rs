//! Bar charts of measured values, as text and as SVG.
//!
//! Knows lengths and labels. It does not know what the values mean.

use std::fmt::Write;

/// Length of the longest bar in a terminal, in columns.
const COLUMNS: usize = 40;
/// Characters for an eighth of a column up to seven eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Height of a bar with its space, in the units of the SVG.
const ROW_HEIGHT: usize = 34;
/// Height of a group's title.
const TITLE_HEIGHT: usize = 48;
/// Width of the column with labels.
const LABELS_WIDTH: usize = 260;
/// Width of the longest bar.
const BARS_WIDTH: usize = 480;
/// Width of the column with texts after the bars.
const TEXTS_WIDTH: usize = 190;

/// A value with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The measured figures.
    pub label: String,
    /// The value, in the unit of its group.
    pub value: f64,
    /// The text after the bar.
    pub text: String,
}

/// Bars whose values have the same unit. The longest bar has the same length in every group.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartGroup {
    /// The text above the bars.
    pub title: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// Groups of bars, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The groups.
    pub groups: Vec<ChartGroup>,
}

impl Chart {
    /// The chart for a terminal: one line per bar.
    pub fn to_text(&self) -> String {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let widest = bars.map(|bar| bar.label.chars().count()).max().unwrap_or(0);
        let groups = self.groups.iter().map(|group| group.to_text(widest));
        groups.collect::<Vec<_>>().join("\n")
    }

    /// The chart as a whole SVG document.
    pub fn to_svg(&self) -> String {
        let groups_height: usize = self.groups.iter().map(ChartGroup::height).sum();
        let (width, height) = (
            LABELS_WIDTH + BARS_WIDTH + TEXTS_WIDTH,
            groups_height + ROW_HEIGHT / 2,
        );
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"14\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let mut top = 0;
        for group in &self.groups {
            group.draw(&mut svg, top);
            top += group.height();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl ChartGroup {
    fn to_text(&self, widest: usize) -> String {
        let mut text = self.title.clone();
        for bar in &self.bars {
            let eighths = (self.relative_length(bar) * (COLUMNS * 8) as f64).round() as usize;
            let mut drawn = "█".repeat(eighths / 8);
            let rest = eighths % 8;
            if rest > 0 {
                drawn.push(EIGHTHS[rest]);
            }
            let blanks = " ".repeat(widest - bar.label.chars().count());
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {}{blanks}  {drawn} {}", bar.label, bar.text);
        }
        text
    }

    const fn height(&self) -> usize {
        TITLE_HEIGHT + ROW_HEIGHT * self.bars.len()
    }

    fn draw(&self, svg: &mut String, top: usize) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"12\" y=\"{}\" font-size=\"17\" font-weight=\"bold\">{}</text>",
            top + 28,
            escaped(&self.title)
        );
        for (i, bar) in self.bars.iter().enumerate() {
            let top = top + TITLE_HEIGHT + i * ROW_HEIGHT;
            let length = self.relative_length(bar) * BARS_WIDTH as f64;
            let (middle, end) = (top + ROW_HEIGHT / 2, LABELS_WIDTH as f64 + length);
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\" dominant-baseline=\"middle\">{}</text>\n\
                 <rect x=\"{LABELS_WIDTH}\" y=\"{}\" width=\"{length:.1}\" height=\"{}\" fill=\"#2f6fb0\"/>\n\
                 <text x=\"{:.1}\" y=\"{middle}\" dominant-baseline=\"middle\">{}</text>\n",
                LABELS_WIDTH - 10,
                escaped(&bar.label),
                top + 6,
                ROW_HEIGHT - 12,
                end + 8.0,
                escaped(&bar.text)
            );
        }
    }

    /// The length of `bar` as a fraction of the longest bar.
    fn relative_length(&self, bar: &Bar) -> f64 {
        let longest = self.bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
        if longest > 0.0 {
            (bar.value / longest).clamp(0.0, 1.0)
        } else {
            0.0
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(title: &str, values: &[f64]) -> ChartGroup {
        let bar = |(i, &value): (usize, &f64)| Bar {
            label: "x".repeat(i + 1),
            value,
            text: format!("{value} u"),
        };
        ChartGroup {
            title: title.into(),
            bars: values.iter().enumerate().map(bar).collect(),
        }
    }

    fn chart(values: &[f64]) -> Chart {
        Chart {
            groups: vec![group("a <b> & c", values)],
        }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let text = chart(&[1e6, 5e5, 0.0]).to_text();
        let lengths: Vec<_> = text
            .lines()
            .skip(1)
            .map(|line| line.matches('█').count())
            .collect();
        assert_eq!(lengths, [COLUMNS, COLUMNS / 2, 0]);
        assert!(text.contains("500000 u"), "{text}");
        let eighth = chart(&[320.0, 1.0]).to_text();
        assert!(
            eighth.lines().nth(2).is_some_and(|line| line.contains('▏')),
            "{eighth}"
        );
        assert!(!chart(&[0.0]).to_text().contains('█'));
    }

    #[test]
    fn the_svg_is_escaped_and_complete() {
        let svg = chart(&[1e6, 2.5e5]).to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(
            svg.contains("a &lt;b&gt; &amp; c") && svg.contains("width=\"120.0\""),
            "{svg}"
        );
        assert_eq!(svg.matches("<rect").count(), 3);
    }

    #[test]
    fn each_group_has_its_own_scale() {
        let chart = Chart {
            groups: vec![group("first", &[2.0, 1.0]), group("second", &[1e12])],
        };
        let text = chart.to_text();
        let full = "█".repeat(COLUMNS);
        assert_eq!(text.matches(&full).count(), 2, "{text}");
        let svg = chart.to_svg();
        assert_eq!(svg.matches("width=\"480.0\"").count(), 2, "{svg}");
        assert!(
            svg.contains(&format!(
                "y=\"{}\" font-size=\"17\"",
                TITLE_HEIGHT + 2 * ROW_HEIGHT + 28
            )),
            "{svg}"
        );
    }
}
