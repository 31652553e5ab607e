//! The files of the page. They are part of the program.

use daemon::status::StatusPage;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file: its path, its content type and its text.
type Asset = (&'static str, &'static str, &'static str);

/// All files.
const ASSETS: [Asset; 13] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/icon.svg", SVG, include_str!("page/icon.svg")),
    ("/app.js", SCRIPT, include_str!("page/app.js")),
    ("/overview.js", SCRIPT, include_str!("page/overview.js")),
    ("/scs.js", SCRIPT, include_str!("page/scs.js")),
    ("/explorer.js", SCRIPT, include_str!("page/explorer.js")),
    ("/contract.js", SCRIPT, include_str!("page/contract.js")),
    ("/abi.js", SCRIPT, include_str!("page/abi.js")),
    ("/keccak.js", SCRIPT, include_str!("page/keccak.js")),
    ("/chart.js", SCRIPT, include_str!("page/chart.js")),
    ("/dom.js", SCRIPT, include_str!("page/dom.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
];

/// The file at `path`, if there is one.
pub(super) fn page(path: &str) -> Option<StatusPage> {
    let (_, content_type, text) = ASSETS.iter().find(|(known, ..)| *known == path)?;
    Some(StatusPage::new(content_type, *text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_from_elsewhere() {
        for (path, content_type, text) in ASSETS {
            // The name of a namespace is not an address.
            let text_without_name = text.replace("http://www.w3.org/2000/svg", "");
            for mark in ["http://", "https://", "ws://", "wss://", "url(", "@import"] {
                assert!(!text_without_name.contains(mark), "{path}: {mark}");
            }
            // A strict policy forbids scripts and styles in the page itself.
            if content_type == HTML {
                assert!(!text.contains("style=") && !text.contains("<style"), "{path}");
                assert_eq!(text.matches("<script").count(), 1, "{path}");
                assert!(!text.contains(" onclick"), "{path}");
            }
            // Text from a chain or a worker is never read as HTML.
            for word in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
            ] {
                assert!(!text.contains(word), "{path}: {word}");
            }
        }
    }

    #[test]
    fn every_file_that_a_file_names_is_served() {
        let paths: Vec<_> = ASSETS.iter().map(|(path, ..)| *path).collect();
        for (path, content_type, text) in ASSETS {
            let marks: &[&str] = match content_type {
                HTML => &["src=\"", "href=\""],
                SCRIPT => &["from \""],
                _ => &[],
            };
            for mark in marks {
                for (index, _) in text.match_indices(mark) {
                    let rest = &text[index + mark.len()..];
                    let named = rest.split('"').next().unwrap_or_default();
                    let named = named.trim_start_matches('.');
                    if named.starts_with('#') {
                        continue;
                    }
                    assert!(paths.contains(&named), "{path} names {named}");
                }
            }
        }
    }
}
