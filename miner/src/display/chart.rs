//! Bars, in a terminal and as SVG: measured figures side by side.
//!
//! Knows lengths and labels; what they mean is the caller's business.

use std::fmt::Write;

use super::units::rate_text;

/// Columns of the longest bar in a terminal.
const COLUMNS: usize = 40;
/// The parts of a column, an eighth each.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
/// Heights and widths of the drawing, in its own units.
const ROW: usize = 34;
const HEAD: usize = 48;
const LABELS: usize = 260;
const BARS: usize = 480;
const VALUES: usize = 120;

/// A figure with its label.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What was measured.
    pub label: String,
    /// Hashes per second.
    pub rate: f64,
}

/// Figures side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Above all of them.
    pub title: String,
    /// The figures.
    pub bars: Vec<Bar>,
}

impl Chart {
    /// For a terminal: a line for each figure.
    pub fn to_text(&self) -> String {
        let widest = self
            .bars
            .iter()
            .map(|bar| bar.label.chars().count())
            .max()
            .unwrap_or(0);
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
            let _ = write!(text, "\n  {}{blanks}  {drawn} {}", bar.label, rate_text(bar.rate));
        }
        text
    }

    /// For a browser: a whole SVG document.
    pub fn to_svg(&self) -> String {
        let (width, height) = (LABELS + BARS + VALUES, HEAD + ROW * self.bars.len() + ROW / 2);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             font-family=\"sans-serif\" font-size=\"14\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"12\" y=\"28\" font-size=\"17\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        for (place, bar) in self.bars.iter().enumerate() {
            let top = HEAD + place * ROW;
            let length = self.part(bar) * BARS as f64;
            let (middle, end) = (top + ROW / 2, LABELS as f64 + length);
            // Writing to a string cannot fail.
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
                rate_text(bar.rate)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// How long `bar` is, of the longest one.
    fn part(&self, bar: &Bar) -> f64 {
        let longest = self.bars.iter().map(|bar| bar.rate).fold(0.0, f64::max);
        if longest > 0.0 {
            (bar.rate / longest).clamp(0.0, 1.0)
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

    fn chart(rates: &[f64]) -> Chart {
        Chart {
            title: "a <b> & c".into(),
            bars: rates
                .iter()
                .enumerate()
                .map(|(place, &rate)| Bar {
                    label: "x".repeat(place + 1),
                    rate,
                })
                .collect(),
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
        assert!(text.contains("500.00 kH/s"), "{text}");
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
}
