//! A comment begins with a verb or with the thing that it is about: "Returns the …", "The lowest
//! missing body." Question words and pronouns without a noun leave the reader to guess the thing.

use crate::sources::{SourceFile, expect_none, files};

/// Folders whose comments are not checked yet. `contracts` stays here: compiled contracts have a
/// hash of their sources, comments included.
const EXEMPT: [&str; 1] = ["contracts/"];

/// Endings of the files whose comments are checked.
const ENDINGS: [&str; 5] = [".rs", ".wgsl", ".sol", ".mjs", ".js"];

/// Words that begin a question or a clause.
const QUESTIONS: [&str; 14] = [
    "what",
    "whatever",
    "who",
    "whoever",
    "whom",
    "whose",
    "how",
    "however",
    "why",
    "where",
    "wherever",
    "when",
    "whenever",
    "whichever",
];

/// Pronouns that stand for a thing which is named elsewhere.
const PRONOUNS: [&str; 3] = ["it", "they", "them"];

/// Prepositions. A question word behind one of these is a clause without its thing: "Since when it
/// waits" is "The time since which it waits".
const PREPOSITIONS: [&str; 15] = [
    "at", "behind", "by", "for", "from", "in", "into", "of", "on", "since", "to", "under", "until", "with",
    "without",
];

/// Words before "of" and a pronoun: "One of them" names no thing.
const AMOUNTS: [&str; 8] = ["all", "both", "each", "many", "most", "none", "one", "some"];

/// Pronouns unless a noun follows.
const POINTERS: [&str; 4] = ["this", "that", "these", "those"];

/// Words after which a pointer has no noun: verbs, prepositions, adverbs, pronouns, articles.
const NO_NOUNS: [&str; 92] = [
    "a", "about", "above", "after", "all", "alone", "also", "always", "an", "and", "are", "as", "at", "be",
    "because", "before", "begin", "behind", "below", "beyond", "but", "by", "can", "come", "could", "cost",
    "count", "do", "end", "for", "from", "get", "give", "go", "had", "have", "he", "hold", "if", "in", "it",
    "keep", "lie", "make", "may", "mean", "might", "must", "need", "never", "no", "not", "nothing", "of",
    "often", "on", "one", "ones", "only", "or", "our", "over", "say", "she", "should", "show", "since", "so",
    "stand", "stay", "take", "tell", "than", "that", "the", "their", "then", "there", "they", "to", "under",
    "until", "we", "were", "which", "who", "whose", "will", "with", "without", "would", "you",
];

/// Singular nouns that end as a verb does after "this" and "that".
const NOUNS_IN_S: [&str; 16] = [
    "alias",
    "analysis",
    "apparatus",
    "axis",
    "basis",
    "bias",
    "bus",
    "canvas",
    "chaos",
    "corpus",
    "gas",
    "genesis",
    "hypothesis",
    "lens",
    "series",
    "status",
];

/// A paragraph of a comment: its line, counted from 0, and its text up to the end of the line.
struct Paragraph<'a> {
    index: usize,
    text: &'a str,
    /// The next line of the same paragraph, or nothing.
    rest: &'a str,
}

/// The mark of the comment that fills a line, and the text behind it.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let mark = ["///", "//!", "//", "/**", "/*"]
        .into_iter()
        .find(|mark| line.starts_with(mark))?;
    Some((mark, line[mark.len()..].trim()))
}

/// The paragraphs of the comments that stand on lines of their own. Lists, headings, tables and
/// fenced blocks are left out.
fn paragraphs(text: &str) -> Vec<Paragraph<'_>> {
    let lines: Vec<_> = text.lines().map(comment).collect();
    let mut found = Vec::new();
    // The mark of the line before. `None` at the begin of a paragraph.
    let mut before = None;
    let mut is_fenced = false;
    for (index, line) in lines.iter().enumerate() {
        let Some((mark, text)) = *line else {
            (before, is_fenced) = (None, false);
            continue;
        };
        let is_fence = text.starts_with("```");
        is_fenced ^= is_fence;
        let is_other =
            text.starts_with(['#', '|', '-', '*']) || text.starts_with(|first: char| first.is_ascii_digit());
        if is_fenced || is_fence || text.is_empty() {
            before = None;
        } else {
            if before != Some(mark) && !is_other {
                let next = lines.get(index + 1).copied().flatten();
                let rest = next
                    .filter(|(next, _)| *next == mark)
                    .map_or("", |(_, rest)| rest);
                found.push(Paragraph { index, text, rest });
            }
            before = Some(mark).filter(|_| !text.starts_with('#'));
        }
    }
    found
}

/// Whether the text begins with a word that names no thing, or is no more than "That time."
fn is_vague(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let bare = |word: &str| {
        word.trim_end_matches(['.', ',', ':', ';', '!', '?', ')'])
            .to_ascii_lowercase()
    };
    let name = bare(first);
    if QUESTIONS.contains(&name.as_str()) || PRONOUNS.contains(&name.as_str()) {
        return true;
    }
    let second = text.split_whitespace().nth(1).map(bare).unwrap_or_default();
    if PREPOSITIONS.contains(&name.as_str()) {
        return QUESTIONS.contains(&second.as_str());
    }
    if AMOUNTS.contains(&name.as_str()) {
        let mut rest = text.split_whitespace().skip(2).map(bare);
        let third = rest.next().unwrap_or_default();
        let is_pronoun = PRONOUNS.contains(&third.as_str()) || POINTERS.contains(&third.as_str());
        return second == "of" && is_pronoun && rest.next().is_none_or(|next| next != "many");
    }
    if !POINTERS.contains(&name.as_str()) {
        return false;
    }
    let Some(next) = words.next().filter(|_| first.len() == name.len()) else {
        return true;
    };
    if name != "this" && next.ends_with('.') {
        return true;
    }
    let next = bare(next);
    let next = next.trim_end_matches("'s");
    let is_singular = ["this", "that"].contains(&name.as_str());
    let is_verb = next.ends_with('s') && !next.ends_with("ss") && !NOUNS_IN_S.contains(&next);
    NO_NOUNS.contains(&next) || (is_singular && is_verb)
}

/// The vague beginnings of a file's comments.
fn faults(file: &SourceFile) -> Vec<String> {
    paragraphs(&file.text)
        .into_iter()
        .filter(|paragraph| is_vague(&format!("{} {}", paragraph.text, paragraph.rest)))
        .map(|paragraph| format!("{}:{}: {}", file.path, paragraph.index + 1, paragraph.text))
        .collect()
}

#[test]
fn comments_begin_with_a_verb_or_a_thing() {
    let faults: Vec<_> = files("", &ENDINGS)
        .iter()
        .filter(|file| !EXEMPT.iter().any(|folder| file.path.starts_with(folder)))
        .flat_map(faults)
        .collect();
    expect_none(
        &faults,
        "let the first word be a verb or the thing: `The time of …`, not `When …`, `How …`, `It …`, `Those of …`",
    );
}

#[test]
fn vague_beginnings_are_found() {
    let vague = [
        "What a peer is asked for.",
        "When the node was started.",
        "how many blocks wait",
        "Whoever asks gets an answer.",
        "Why.",
        "It goes on.",
        "They come back.",
        "This.",
        "This runs in every test run.",
        "This is a copy.",
        "This one makes no blocks.",
        "That time.",
        "That the node has space is checked before.",
        "That, and nothing else.",
        "Those of each sender.",
        "Those that are refused.",
        "These are rows.",
        "These come last.",
        "Since when it waits.",
        "For how long it waits.",
        "For what needs no writer.",
        "One of them.",
        "All of this is for blocks.",
    ];
    for text in vague {
        assert!(is_vague(text), "{text}");
    }
}

#[test]
fn clear_beginnings_pass() {
    let clear = [
        "Whether the block is known.",
        "The blocks that wait.",
        "Returns what was there.",
        "This node tells its peers.",
        "This node's record.",
        "This height.",
        "This address is banned.",
        "This class of errors is final.",
        "This status ends the process.",
        "That block is refused.",
        "These two blocks compete.",
        "Those blocks are side blocks.",
        "Itself a node, the test dials.",
        "`what` names the fault.",
        "Whole blocks only.",
        "For blocks near the head.",
        "One of the peers.",
        "One of this many places.",
        "All blocks.",
        "",
    ];
    for text in clear {
        assert!(!is_vague(text), "{text}");
    }
}

#[test]
fn each_paragraph_of_a_comment_is_read() {
    let text = [
        "//! One fact",
        "//! it goes on.",
        "//!",
        "//! What else.",
        "//!",
        "//! ```text",
        "//! What is code.",
        "//! ```",
        "//! # Errors",
        "//! When it fails.",
        "",
        "let x = 1; // What follows code.",
        "    /// Those",
        "    /// of a peer.",
        "/// - what is an item",
        "/// When it continues.",
        "// How.",
        "/** Why. */",
    ];
    let file = SourceFile {
        path: "x.rs".to_owned(),
        text: text.join("\n"),
    };
    let expected = [
        "x.rs:4: What else.",
        "x.rs:10: When it fails.",
        "x.rs:13: Those",
        "x.rs:17: How.",
        "x.rs:18: Why. */",
    ];
    assert_eq!(faults(&file), expected);
}
