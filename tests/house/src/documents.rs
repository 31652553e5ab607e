//! The pages are found and lead somewhere: the front page is short, each page of `docs/` is in the
//! table of contents, and each link inside the repository names a file and a heading that exist.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::sources::{SourceFile, expect_none, files, root};

/// Most lines of the front page.
const FRONT_PAGE_LINES_MAX: usize = 150;
/// The table of contents of the book.
const CONTENTS: &str = "docs/SUMMARY.md";

/// A link of a page.
struct PageLink {
    line: usize,
    target: String,
}

/// The links and pictures of a page, without those in fenced blocks and pieces of code.
fn links(text: &str) -> Vec<PageLink> {
    let mut links = Vec::new();
    for (index, line) in prose(text) {
        let mut is_code = false;
        let mut rest = line;
        while let Some(at) = rest.find(['`', ']']) {
            let after = &rest[at..];
            if after.starts_with('`') {
                is_code = !is_code;
            } else if let Some(link) = after.strip_prefix("](").filter(|_| !is_code)
                && let Some(end) = link.find(')')
            {
                let target = link[..end].to_owned();
                links.push(PageLink {
                    line: index + 1,
                    target,
                });
            }
            rest = &after[1..];
        }
    }
    links
}

/// The lines of a page outside of fenced blocks, with their indices.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        !is_fence && !is_fenced
    })
}

/// The anchor of a heading: small letters, `-` for spaces, and no other marks.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|mark| mark.is_alphanumeric() || [' ', '-', '_'].contains(mark));
    kept.map(|mark| if mark == ' ' { '-' } else { mark }).collect()
}

/// The anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| anchor(line.trim_start_matches('#')))
        .collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

/// The reason why a link leads nowhere. `None` if it is fine, or leads outside of the repository.
fn link_fault(page: &SourceFile, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(&page.path).parent().unwrap_or_else(|| Path::new(""));
    let file = match path {
        "" => PathBuf::from(&page.path),
        _ => plain(&folder.join(path)),
    };
    let whole = root().join(&file);
    if !path.is_empty() && !whole.exists() {
        return Some(format!("{} does not exist", file.display()));
    }
    if heading.is_empty() {
        return None;
    }
    let text = match path {
        "" => page.text.clone(),
        _ => std::fs::read_to_string(&whole).unwrap_or_default(),
    };
    let has = anchors(&text).contains(heading);
    (!has).then(|| format!("{} has no heading #{heading}", file.display()))
}

#[test]
fn links_are_found_and_judged() {
    let page = SourceFile {
        path: "pages/x.md".to_owned(),
        text: "# A `b` c.d\n\n[a](#a-b-cd) `[b](none)` ![c](../README.md)\n\n```\n[d](none)\n```\n\
               [e](none.md) [f](#none) [g](https://example.org/none)\n"
            .to_owned(),
    };
    let faults = links(&page.text).into_iter().map(|link| {
        let fault = link_fault(&page, &link.target);
        (link.line, link.target, fault)
    });
    let expected = [
        (3, "#a-b-cd", None),
        (3, "../README.md", None),
        (8, "none.md", Some("pages/none.md does not exist")),
        (8, "#none", Some("pages/x.md has no heading #none")),
        (8, "https://example.org/none", None),
    ];
    let expected = expected.map(|(line, target, fault)| (line, target.to_owned(), fault.map(str::to_owned)));
    assert_eq!(faults.collect::<Vec<_>>(), expected);
}

#[test]
fn every_link_leads_somewhere() {
    let mut faults = Vec::new();
    let mut checked = 0;
    for page in files("", &[".md"]) {
        for link in links(&page.text) {
            checked += 1;
            if let Some(fault) = link_fault(&page, &link.target) {
                faults.push(format!("{}:{}: {fault}", page.path, link.line));
            }
        }
    }
    expect_none(&faults, "links name files and headings that exist");
    assert!(checked > 200, "only {checked} links were found");
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let text = std::fs::read_to_string(root().join(CONTENTS)).expect("the table of contents");
    let mut named: Vec<_> = links(&text)
        .into_iter()
        .map(|link| format!("docs/{}", link.target))
        .collect();
    named.sort();
    let pages = files("docs", &[".md"]);
    let mut pages: Vec<_> = pages.into_iter().map(|page| page.path).collect();
    pages.retain(|path| path != CONTENTS);
    pages.sort();
    assert_eq!(named, pages, "{CONTENTS} names each page of docs/ once");
}

#[test]
fn the_front_page_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the front page");
    let lines = text.lines().count();
    assert!(
        lines <= FRONT_PAGE_LINES_MAX,
        "README.md: got {lines} lines, expected at most {FRONT_PAGE_LINES_MAX}"
    );
}
