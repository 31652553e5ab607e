//! Bars, in a terminal and as SVG: measured figures side by side, in groups.
//!
//! Knows lengths and labels; what they mean is the caller's business.

use std::fmt::Write;

/// Columns of the longest bar in a terminal.
const COLUMNS: usize = 40;
/// The parts of a column, an eighth each.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Heights and widths of the drawing, in its own units.
const ROW: usize = 34;
const HEAD: usize = 48;
const LABELS: usize = 260;
const BARS: usize = 480;
const VALUES: usize = 190;

/// A figure with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What was measured.
    pub label: String,
    /// The figure, in the unit of its group.
    pub value: f64,
    /// What is written at its end.
    pub text: String,
}

/// Figures of one unit: the longest bar of a group is as long as that of any other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Above the bars.
    pub title: String,
    /// The figures.
    pub bars: Vec<Bar>,
}

/// Groups, one below the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The groups.
    pub groups: Vec<Group>,
}

impl Chart {
    /// For a terminal: a line for each figure.
    pub fn to_text(&self) -> String {
        let bars = self.groups.iter().flat_map(|group| &group.bars);
        let widest = bars.map(|bar| bar.label.chars().count()).max().unwrap_or(0);
        let groups = self.groups.iter().map(|group| group.to_text(widest));
        groups.collect::<Vec<_>>().join("\n")
    }

    /// For a browser: a whole SVG document.
    pub fn to_svg(&self) -> String {
        let drawn: usize = self.groups.iter().map(Group::height).sum();
        let (width, height) = (LABELS + BARS + VALUES, drawn + ROW / 2);
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

impl Group {
    fn to_text(&self, widest: usize) -> String {
        let mut text = self.title.clone();
        for bar in &self.bars {
            let eighths = (self.part(bar) * (COLUMNS * 8) as f64).round() as usize;
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

    fn height(&self) -> usize {
        HEAD + ROW * self.bars.len()
    }

    fn draw(&self, svg: &mut String, top: usize) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"12\" y=\"{}\" font-size=\"17\" font-weight=\"bold\">{}</text>",
            top + 28,
            escaped(&self.title)
        );
        for (place, bar) in self.bars.iter().enumerate() {
            let top = top + HEAD + place * ROW;
            let length = self.part(bar) * BARS as f64;
            let (middle, end) = (top + ROW / 2, LABELS as f64 + length);
            let _ = write!(
                svg,
                "<text x=\"{}\" y=\"{middle}\" text-anchor=\"end\" dominant-baseline=\"middle\">{}</text>\n\
                 <rect x=\"{LABELS}\" y=\"{}\" width=\"{length:.1}\" height=\"{}\" fill=\"#2f6fb0\"/>\n\
                 <text x=\"{:.1}\" y=\"{middle}\" dominant-baseline=\"middle\">{}</text>\n",
                LABELS - 10,
                escaped(&bar.label),
                top + 6,
                ROW - 12,
                end + 8.0,
                escaped(&bar.text)
            );
        }
    }

    /// How long `bar` is, of the longest one.
    fn part(&self, bar: &Bar) -> f64 {
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

    fn group(title: &str, values: &[f64]) -> Group {
        let bar = |(place, &value): (usize, &f64)| Bar {
            label: "x".repeat(place + 1),
            value,
            text: format!("{value} u"),
        };
        Group {
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
    fn bars_are_as_long_as_their_figures() {
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
    fn the_drawing_is_escaped_and_whole() {
        let svg = chart(&[1e6, 2.5e5]).to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(
            svg.contains("a &lt;b&gt; &amp; c") && svg.contains("width=\"120.0\""),
            "{svg}"
        );
        assert_eq!(svg.matches("<rect").count(), 3);
    }

    #[test]
    fn each_group_has_its_own_measure() {
        let chart = Chart {
            groups: vec![group("first", &[2.0, 1.0]), group("second", &[1e12])],
        };
        let text = chart.to_text();
        let full = "█".repeat(COLUMNS);
        assert_eq!(text.matches(&full).count(), 2, "{text}");
        let svg = chart.to_svg();
        assert_eq!(svg.matches("width=\"480.0\"").count(), 2, "{svg}");
        assert!(
            svg.contains(&format!("y=\"{}\" font-size=\"17\"", HEAD + 2 * ROW + 28)),
            "{svg}"
        );
    }
}
