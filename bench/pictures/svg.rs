//! A picture on a card that is readable on light and dark pages, and the formatting of its numbers.

use std::fmt::{Display, Write as _};

const STYLE: &str = "text{font:13px system-ui,-apple-system,'Segoe \
                     UI',Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:16px;font-weight:600}.strong{font-weight:600}.small{font-size:11px}.soft{fill:#59636e}
.on{fill:#ffffff;font-weight:600}.code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:12px}
.card{fill:#ffffff;stroke:#d1d9e0}.halo{stroke:#ffffff;stroke-width:5;stroke-linejoin:round;paint-order:stroke}
.line{fill:none;stroke:#59636e;stroke-width:1.6}.tip{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}
.blue{fill:#0969da}.green{fill:#1a7f37}.amber{fill:#9a6700}.red{fill:#cf222e}.grey{fill:#6e7781}.pale{fill:#818b98}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.on{fill:#ffffff}.card{fill:#0d1117;stroke:#3d444d}
.halo{stroke:#0d1117}.line{stroke:#9198a1}.tip{fill:#9198a1}.grid{stroke:#3d444d}
.blue{fill:#1f6feb}.green{fill:#238636}.amber{fill:#9e6a03}.red{fill:#da3633}.grey{fill:#57606a}.pale{fill:#6e7681}}";

#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Picture {
    text: String,
}

// === impl Picture ===

impl Picture {
    /// An empty card; a screen reader reads `title` and `meaning`.
    pub(crate) fn new(width: u32, height: u32, title: &str, meaning: &str) -> Self {
        let (right, bottom) = (width - 1, height - 1);
        let mut picture = Self { text: String::new() };
        picture.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" \
             orient=\"auto-start-reverse\"><path class=\"tip\" d=\"M0 0L10 5L0 10z\"/></marker></defs>\n\
             <rect class=\"card\" x=\"0.5\" y=\"0.5\" width=\"{right}\" height=\"{bottom}\" rx=\"10\"/>",
            escaped(title),
            escaped(meaning)
        ));
        picture.text([24.0, 34.0], "title", Anchor::Start, title);
        picture
    }

    fn add(&mut self, element: impl Display) {
        writeln!(self.text, "{element}").expect("writing to a string cannot fail");
    }

    pub(crate) fn text(&mut self, [x, y]: [f64; 2], class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }

    pub(crate) fn area(&mut self, class: &str, [x, y, width, height]: [f64; 4], radius: f64, opacity: f64) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             rx=\"{radius}\" fill-opacity=\"{opacity:.2}\"/>"
        ));
    }

    pub(crate) fn arrow(&mut self, path: &str) {
        self.add(format_args!("<path class=\"line\" marker-end=\"url(#tip)\" d=\"{path}\"/>"));
    }

    pub(crate) fn line(&mut self, class: &str, [x, y]: [f64; 2], [to_x, to_y]: [f64; 2]) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\"/>"
        ));
    }

    pub(crate) fn finish(mut self) -> String {
        self.add("</svg>");
        self.text
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
